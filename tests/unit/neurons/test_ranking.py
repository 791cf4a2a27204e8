"""Ranking by weights: the order, its ties, and what is asked of it."""

import numpy as np
import pytest
import torch

from vestige.errors import AnalysisError
from vestige.neurons import ranking
from vestige.neurons.ranking import bottom, per_label, rank, share_to_count, top

EXAMPLE = np.array([[4.0, 1.0, 5.0], [1.0, 1.0, 10.0]]).T
"""Three neurons, two labels."""


def test_a_small_example_by_hand():
    found = rank(EXAMPLE)
    assert found.order.tolist() == [2, 0, 1]
    assert found.key.tolist() == [0.5, 0.9, 0.0]
    assert found.ranked == 3


def test_signs_and_tensors_make_no_difference():
    signed = torch.tensor(EXAMPLE) * torch.tensor([[1.0, -1.0]])
    assert rank(signed.requires_grad_()).order.tolist() == [2, 0, 1]


def test_neurons_without_weight_come_last_in_an_order_of_the_seed():
    weights = np.zeros((200, 3))
    weights[[5, 50]] = [[1, 0, 2], [0, 3, 1]]
    first, again, other = rank(weights, seed=1), rank(weights, seed=1), rank(weights, seed=2)
    assert first.ranked == 2 and np.isinf(first.key).sum() == 198
    assert set(first.order[:2]) == {5, 50}
    assert first.order.tolist() == again.order.tolist() != other.order.tolist()
    assert first.order[2:].tolist() != sorted(first.order[2:])
    assert sorted(first.order) == list(range(200))


def test_one_key_is_ordered_by_share_of_mass_then_by_id():
    # neurons 0..2 are each the largest of a label (key 0) with 6/10, 8/10 and 6/10 of its mass
    weights = np.array([[6.0, 0, 0], [0, 8, 0], [0, 0, 6], [4, 2, 4]])
    assert rank(weights).order.tolist() == [1, 0, 2, 3]


def test_a_label_without_weights_selects_nothing():
    weights = np.array([[0.0, 1.0], [0.0, 3.0], [0.0, 0.0]])
    assert rank(weights).order.tolist() == [1, 0, 2]
    assert [ids.tolist() for ids in per_label(rank(weights), 2)] == [[], [1, 0]]


def test_all_neurons_with_weight_are_in_by_the_whole_mass_however_small():
    weights = np.array([[1.0], [1e-30], [0.0]])
    assert rank(weights).ranked == 2 and np.flatnonzero(rank(weights).key < 1).tolist() == [0, 1]


def test_top_and_bottom_are_the_ends_of_the_order():
    found = rank(EXAMPLE)
    assert top(found, 2).tolist() == [2, 0] and bottom(found, 2).tolist() == [0, 1]
    assert top(found, 0).tolist() == bottom(found, 0).tolist() == []
    assert top(found, 3).tolist() == bottom(found, 3).tolist() == found.order.tolist()


def test_per_label_stops_where_the_union_reaches_the_count():
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((300, 7))
    found = rank(weights)
    for count in (7, 40, 299, 300):
        lists = per_label(found, count)
        union = set(np.concatenate(lists))
        assert union == set(top(found, count)) or count == 7 >= len(union)
        for label, names in enumerate(lists):
            assert names.tolist() == np.argsort(-np.abs(weights[:, label]))[: len(names)].tolist()
    assert [len(names) for names in per_label(found, 0)] == [0] * 7


def test_per_label_cannot_reach_beyond_the_neurons_with_weight():
    weights = np.array([[3.0, 0.0], [1.0, 2.0], [0.0, 0.0]])
    assert [names.tolist() for names in per_label(rank(weights), 3)] == [[0], [1]]


def test_labels_are_sorted_block_by_block(monkeypatch):
    weights = np.random.default_rng(1).standard_normal((50, 9))
    whole = rank(weights)
    monkeypatch.setattr(ranking, "_BLOCK_BYTES", 2 * 50 * 8)
    parts = rank(weights)
    assert len(list(ranking._sorted(parts.magnitudes))) == 5
    assert np.array_equal(whole.order, parts.order) and np.array_equal(whole.key, parts.key)
    assert [a.tolist() for a in per_label(whole, 20)] == [b.tolist() for b in per_label(parts, 20)]


def test_a_share_becomes_a_count():
    assert share_to_count(0.2, 9984) == 1997
    assert share_to_count(0.0, 10) == 0 and share_to_count(1.0, 10) == 10


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda: top(rank(EXAMPLE), 4), "4 neurons were asked for, but there are 3"),
        (lambda: bottom(rank(EXAMPLE), -1), "-1 neurons"),
        (lambda: per_label(rank(EXAMPLE), 4), "4 neurons were asked for"),
        (lambda: share_to_count(1.5, 100), "150 neurons were asked for, but there are 100"),
        (lambda: share_to_count(float("nan"), 100), "from 0 to 1"),
        (lambda: rank(np.zeros((4, 2))), "smaller l1"),
        (lambda: rank(np.array([[1.0, 2.0], [np.nan, 1.0]])), "neuron 1 for label 0"),
        (lambda: rank(np.zeros(4)), r"shape \(4,\)"),
        (lambda: rank(np.zeros((0, 3))), "shape"),
    ],
)
def test_what_cannot_be_answered_is_refused(ask, match):
    with pytest.raises(AnalysisError, match=match):
        ask()
