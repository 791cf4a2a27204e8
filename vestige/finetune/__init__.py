"""Make the tuned models that are studied."""
