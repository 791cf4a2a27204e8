"""Encoders as language models: heads, and how probable texts are."""
