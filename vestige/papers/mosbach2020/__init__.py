"""Mosbach et al. 2020: fine-tuning and sentence-level probing."""
