"""What it costs to read words with a model, in floating-point operations, and what that takes: an estimate."""

TOKENS = 1.3
"""Tokens of a word, on average."""
SHARE = 0.4
"""Of the rate of a large matrix product, what models reach: half of it on a quiet machine, a quarter on a busy one."""


def reading(parameters: int, words: int) -> float:
    """Operations of reading so many words with a model of so many parameters, embeddings not counted."""
    return 2 * parameters * TOKENS * words


def reading_seconds(parameters: int, words: int, rate: float) -> float:
    """With one thread, whose products run at `rate` operations a second."""
    return reading(parameters, words) / (SHARE * rate)
