"""Hidden states of a corpus: extracted once, pooled, kept on disk, memory-mapped."""
