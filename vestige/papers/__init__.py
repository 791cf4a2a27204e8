"""The four papers as templates of studies, with their tables, figures, claims and published numbers."""
