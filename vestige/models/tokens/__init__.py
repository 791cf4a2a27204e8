"""Words and sub-words: alignment, chat templates, masking."""
