"""Measures on plain arrays: how alike two sets of vectors are, how attention spreads, how well trees are met."""
