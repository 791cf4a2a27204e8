"""Words and labels. Knows nothing of models."""
