"""Probes as codes: how many bits labels cost someone who has the hidden states."""
