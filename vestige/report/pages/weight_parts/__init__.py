"""Parts of the page on weights."""
