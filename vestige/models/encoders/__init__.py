"""Encoders: words in, hidden states of every layer out."""
