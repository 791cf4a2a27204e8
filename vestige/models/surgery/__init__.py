"""Blocks of a model taken out, exchanged, frozen or unrolled."""
