"""Parts of the pages on patched models."""
