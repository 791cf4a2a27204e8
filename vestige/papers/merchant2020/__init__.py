"""Merchant et al. 2020: what happens to BERT embeddings during fine-tuning."""
