"""Learners: rows of hidden states in, probes out. Nothing here knows a study or a page."""
