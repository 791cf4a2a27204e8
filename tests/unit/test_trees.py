"""Trees as arrays: small cases worked out by hand, and heads that make no tree."""

import numpy as np
import pytest

from vestige.errors import CorpusError
from vestige.measures.tree_scores import score_depths, score_distances, words_of
from vestige.measures.trees import (
    PUNCTUATION_TAGS,
    ancestors,
    is_punctuation,
    mean_over_lengths,
    spanning_trees,
    spearman,
    tree_depths,
    tree_distances,
    tree_problem,
)

# 1 <- 2 -> 4 -> 3, 2 -> 5
HEADS = np.array([2, 0, 4, 2, 2])


def edges(parents: np.ndarray) -> list[tuple[int, int]]:
    """The edges of one spanning tree as (smaller, larger) word numbers, in order."""
    found = enumerate(parents.tolist())
    return sorted((min(word, parent), max(word, parent)) for word, parent in found if parent >= 0)


def test_distances_and_depths_of_a_small_tree():
    assert tree_depths(HEADS).tolist() == [1, 0, 2, 1, 1]
    expected = [[0, 1, 3, 2, 2], [1, 0, 2, 1, 1], [3, 2, 0, 1, 3], [2, 1, 1, 0, 2], [2, 1, 3, 2, 0]]
    assert tree_distances(HEADS).tolist() == expected
    assert ancestors(HEADS)[2].tolist() == [False, True, True, True, False]


def test_a_batch_of_trees_is_as_one_tree_after_the_other():
    batch = np.array([HEADS, [0, 1, 2, 3, 4], [5, 5, 5, 5, 0]])
    for one, distances, depths in zip(batch, tree_distances(batch), tree_depths(batch), strict=True):
        np.testing.assert_array_equal(distances, tree_distances(one))
        np.testing.assert_array_equal(depths, tree_depths(one))


def test_a_sentence_of_one_word():
    assert tree_problem([0]) is None
    assert tree_distances(np.array([0])).tolist() == [[0]] and tree_depths(np.array([0])).tolist() == [0]
    assert edges(spanning_trees(np.zeros((1, 1, 1)))[0]) == []
    scores = score_distances(np.zeros((2, 1, 1, 1)), np.zeros((1, 1, 1)), np.ones((1, 1), dtype=bool))
    assert np.isnan(scores.with_self).all() and np.isnan(scores.without_self).all() and not scores.found.any()
    assert score_depths(np.ones((2, 1, 1)), np.zeros((1, 1)), np.ones((1, 1), dtype=bool)).root_right.all()


@pytest.mark.parametrize(
    ("heads", "problem"),
    [
        ([2, 3, 1], "no root"),
        ([0, 3, 2], "a cycle"),
        ([0, 2], "a cycle"),
        ([0, 0, 1], "more than one root"),
        ([0, 4, 1], "a head outside the sentence"),
        ([0, -1], "a head outside the sentence"),
        ([], "no words"),
    ],
)
def test_heads_that_make_no_tree_are_told(heads, problem):
    assert tree_problem(heads) == problem
    if heads:
        with pytest.raises(CorpusError, match=problem):
            tree_distances(np.array(heads))


def test_one_bad_tree_in_a_batch_is_refused():
    with pytest.raises(CorpusError, match="a cycle"):
        tree_depths(np.array([[0, 1, 2], [0, 3, 2]]))


def test_equal_distances_are_taken_in_row_major_order():
    assert edges(spanning_trees(np.ones((1, 4, 4)))[0]) == [(0, 1), (0, 2), (0, 3)]
    square = np.array([[0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0.0]])
    assert edges(spanning_trees(square[None])[0]) == [(0, 1), (0, 3), (1, 2)]


def test_words_that_take_no_part_have_no_edge_and_are_bridged():
    part = np.array([[True, False, True, True, True], [False] * 5, [False, False, True, False, False]])
    found = spanning_trees(np.stack([tree_distances(HEADS)] * 3), part)
    assert list(map(edges, found)) == [[(0, 3), (0, 4), (2, 3)], [], []]


def test_correlation_where_there_is_no_order():
    assert np.isnan(spearman(np.array([1.0, 2, 3]), np.array([1, 1, 1])))
    assert spearman(np.array([1.0, 1, 1]), np.array([1, 2, 3])) == 0


def test_the_papers_average_gives_every_length_the_same_weight():
    values = np.array([[1.0, 0.0, 0.0, 0.5, 9.0, 9.0]])
    lengths = np.array([5, 6, 6, 6, 4, 51])
    np.testing.assert_allclose(mean_over_lengths(values, lengths), [(1 + 0.5 / 3) / 2])
    assert np.isnan(mean_over_lengths(values[:, 4:], lengths[4:])).all()
    np.testing.assert_allclose(mean_over_lengths(np.array([1.0, np.nan, 0.5]), np.array([5, 5, 6])), 0.75)


def test_without_oneself_the_correlation_has_no_gift():
    """A prediction that knows nothing but that a word is 0 from itself is rewarded for that alone."""
    gold = tree_distances(HEADS)[None]
    knows_self = 1.0 - np.eye(5)[None, None]
    scores = score_distances(knows_self, gold, np.ones((1, 5), dtype=bool))
    assert (scores.with_self > 0.3).all()
    assert np.isnan(scores.without_self[0, 0]).tolist() == [False] * 5
    assert (scores.without_self == 0).all()


def test_edges_of_words_beside_punctuation():
    gold = tree_distances(HEADS)[None]
    words = np.array([[True, True, True, True, False]])
    scores = score_distances(gold[None].astype(float), gold, words)
    assert scores.found.sum() == 3 and (scores.gold_parents >= 0).sum() == 3
    swapped = gold[None, :, [1, 0, 2, 3, 4]][..., [1, 0, 2, 3, 4]].astype(float)
    assert score_distances(swapped, gold, words).found.sum() == 2


def test_root_is_sought_among_words_unless_all_are_punctuation():
    depth = np.array([[[2.0, 1.0, 0.0]]])
    gold = np.array([[1, 0, 1]])
    assert score_depths(depth, gold, np.array([[True, True, False]])).root_right.item()
    fallen_back = score_depths(depth, gold, np.array([[False, False, False]]))
    assert fallen_back.root.item() == 2 and not fallen_back.root_right.item()


@pytest.mark.parametrize(("word", "expected"), [(",", True), ("``", True), ("-LRB-", False), ("%", False), ("...", True),
                                                ("$", False), ("#", False), ("U.S.", False), ("(", True), ("&", False)])  # fmt: skip
def test_punctuation_by_its_characters(word, expected):
    assert is_punctuation(word) is expected


def test_punctuation_by_its_tags():
    assert words_of(["NN", ",", "$", "-LRB-", "#"], PUNCTUATION_TAGS).tolist() == [True, False, True, False, True]
