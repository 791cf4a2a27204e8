"""Which word replaces which, so that every word replaces about as often as it is replaced.

Words that replace others more often than they are replaced would tell a changed sentence by its words alone.
The chance that word w replaces the word at place i is a_i * b_w where w fits and 0 elsewhere; a and b are found
by iterative proportional fitting (Sinkhorn and Knopp 1967): every place gets one word, and every word goes, in
expectation, to as many places as it stands at. Where that cannot be had, since a word fits nowhere else, the
fit ends as near as its last round came.

It is done for each split alone. Balanced over all splits, a word that replaces too often in train would have to
replace too seldom in test, and a bag of words would get fewer than half of the labels right.
"""

from collections.abc import Sequence

import numpy as np

ROUNDS = 50

LEAST = 1e-9
"""Fewest places a word is taken to go to, so that no factor overflows."""


def replacement_chances(own: Sequence[str], fitting: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """For every place the chances of its `fitting` words (one at least), which sum to 1; `own` has the word there."""
    number: dict[str, int] = {}
    standing = np.bincount([number.setdefault(word, len(number)) for word in own])
    words = np.array([number.setdefault(word, len(number)) for found in fitting for word in found])
    standing = np.pad(standing, (0, len(number) - len(standing)))
    sizes = np.array([len(found) for found in fitting])
    starts = np.cumsum(sizes) - sizes
    chances = np.repeat(1 / sizes, sizes)
    for _ in range(ROUNDS):
        going = np.bincount(words, chances, len(number))
        scaled = chances * (standing / np.maximum(going, LEAST))[words]
        totals = np.add.reduceat(scaled, starts)
        lost = np.repeat(totals == 0, sizes)  # a place that only words fit which stand nowhere
        chances = np.where(lost, chances, scaled / np.repeat(np.where(totals, totals, 1), sizes))
    return np.split(chances, starts[1:])
