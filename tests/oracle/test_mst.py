"""The best tree against networkx, and against every tree there is."""

from functools import cache
from itertools import product
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vestige.errors import AnalysisError
from vestige.finetune.mst import best_tree


def total(scores: np.ndarray, heads: np.ndarray) -> float:
    return float(scores[np.arange(len(heads)), heads].sum())


def is_tree(heads) -> bool:
    """Does every word reach the root?"""
    for word in range(1, len(heads) + 1):
        for _ in heads:
            word = heads[word - 1] if word else 0
        if word:
            return False
    return True


@cache
def trees(count: int) -> np.ndarray:
    """All trees over so many words, as rows of heads."""
    found = np.array([heads for heads in product(range(count + 1), repeat=count) if is_tree(heads)])
    assert len(found) == (count + 1) ** (count - 1)  # Cayley
    return found


def best_of_all(scores: np.ndarray, single_root: bool) -> float:
    every = trees(len(scores))
    if single_root:
        every = every[(every == 0).sum(1) == 1]
    return float(scores[np.arange(len(scores)), every].sum(1).max())


def best_by_networkx(scores: np.ndarray) -> float:
    import networkx

    graph = networkx.DiGraph()
    for word, head in np.ndindex(scores.shape):
        if head != word + 1:
            graph.add_edge(head, word + 1, weight=float(scores[word, head]))
    tree = networkx.maximum_spanning_arborescence(graph, preserve_attrs=False)
    return sum(scores[word - 1, head] for head, word in tree.edges)


def square(count: int, elements) -> st.SearchStrategy:
    return arrays(np.float64, (count, count + 1), elements=elements)


TIED = st.integers(1, 6).flatmap(lambda n: square(n, st.integers(-2, 2).map(float)))
ANY = st.integers(1, 6).flatmap(lambda n: square(n, st.floats(-1e3, 1e3, width=32)))


class TestAgainstEveryTree:
    @given(scores=TIED | ANY, single_root=st.booleans())
    def test_no_tree_is_better(self, scores, single_root):
        heads = best_tree(scores, single_root)
        assert is_tree(heads) and (not single_root or (heads == 0).sum() == 1)
        assert total(scores, heads) == pytest.approx(best_of_all(scores, single_root), rel=1e-9, abs=1e-9)

    @pytest.mark.parametrize("single_root", [True, False])
    def test_random_scores(self, single_root):
        rng = np.random.default_rng(0)
        for count in (2, 3, 4, 5, 6) * 30:
            scores = rng.normal(size=(count, count + 1)) - 3 * rng.random()
            heads = best_tree(scores, single_root)
            assert total(scores, heads) == pytest.approx(best_of_all(scores, single_root))


class TestAgainstNetworkx:
    @pytest.mark.parametrize("count", [1, 2, 5, 10, 20, 30])
    def test_random_scores(self, count):
        """Ties and negative scores among them; networkx knows no single root."""
        rng = np.random.default_rng(count)
        for kind in range(4):
            scores = rng.normal(size=(count, count + 1))
            if kind == 1:
                scores = np.round(2 * scores)
            if kind == 2:
                scores -= 50
            if kind == 3:
                scores[:, 0] -= 50
            heads = best_tree(scores, single_root=False)
            assert is_tree(heads) and total(scores, heads) == pytest.approx(best_by_networkx(scores))

    def test_cycles_within_cycles(self):
        """Pairs that want each other, pairs of pairs that do, and so on: each contraction leads to the next."""
        rng = np.random.default_rng(0)
        distance = np.array([[(word ^ head).bit_length() for head in range(32)] for word in range(32)])
        for _ in range(2):
            scores = np.hstack([np.full((32, 1), -100.0), -10.0 * distance + rng.random((32, 32))])
            heads = best_tree(scores, single_root=False)
            assert is_tree(heads) and (heads == 0).sum() == 1
            assert total(scores, heads) == pytest.approx(best_by_networkx(scores))
            assert np.array_equal(heads, best_tree(scores))


class TestSingleRoot:
    @settings(max_examples=50)
    @given(scores=st.integers(2, 12).flatmap(lambda n: square(n, st.integers(-9, 9).map(float))))
    def test_is_the_best_over_the_choices_of_the_root_word(self, scores):
        forced = []
        for word in range(len(scores)):
            only = scores.copy()
            only[np.arange(len(scores)) != word, 0] = -1e4
            forced.append(total(scores, best_tree(only, single_root=False)))
        heads = best_tree(scores)
        assert (heads == 0).sum() == 1 and total(scores, heads) == max(forced)

    def test_where_every_word_wants_the_root(self):
        scores = np.hstack([np.full((4, 1), 10.0), np.zeros((4, 4))])
        assert not best_tree(scores, single_root=False).any()
        heads = best_tree(scores)
        assert (heads == 0).sum() == 1 and is_tree(heads)


class TestEdges:
    def test_one_word(self):
        assert best_tree(np.array([[-3.0, 99.0]])).tolist() == [0]

    def test_no_word(self):
        assert best_tree(np.zeros((0, 1))).shape == (0,)

    def test_scores_are_left_alone(self):
        scores = np.random.default_rng(0).normal(size=(9, 10))
        before = scores.copy()
        best_tree(scores)
        assert np.array_equal(scores, before)

    def test_a_word_is_never_its_own_head(self):
        scores = np.random.default_rng(0).normal(size=(9, 10))
        expected = best_tree(scores)
        for value in (1e9, np.nan, np.inf):
            scores[np.arange(9), np.arange(1, 10)] = value
            assert np.array_equal(best_tree(scores), expected)

    @settings(max_examples=40)
    @given(scores=ANY, shift=st.floats(-1e3, 1e3))
    def test_a_constant_for_all_heads_of_a_word_changes_no_total(self, scores, shift):
        moved = scores.copy()
        moved[0] += shift
        assert total(scores, best_tree(moved)) == pytest.approx(total(scores, best_tree(scores)), rel=1e-9, abs=1e-7)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_scores_that_are_not_finite(self, value):
        scores = np.zeros((3, 4))
        scores[1, 3] = value
        with pytest.raises(AnalysisError, match=r"1 of 9 scores of arcs are not finite"):
            best_tree(scores)

    def test_another_shape(self):
        with pytest.raises(AnalysisError, match=r"for 3 words expected \(3, 4\)"):
            best_tree(np.zeros((3, 3)))

    def test_is_quick(self):
        """About a millisecond for forty words; five are allowed, machines differ."""
        rng = np.random.default_rng(0)
        many = [rng.normal(size=(40, 41)) for _ in range(30)]
        start = process_time()
        for scores in many:
            best_tree(scores)
        assert (process_time() - start) / len(many) < 0.005
