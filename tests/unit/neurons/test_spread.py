"""Where neurons lie: counts, shares and overlaps against hand counts, and what is refused."""

import numpy as np
import pytest

from vestige.errors import AnalysisError
from vestige.neurons.matrix import Neurons
from vestige.neurons.spread import (
    by_layer,
    by_layer_share,
    checked_ids,
    dominant_layer,
    entered_left,
    overlap,
    spread_shift,
)

OFFSETS = np.array([0, 2, 6, 9])
"""Three layers of 2, 4 and 3 neurons."""
NOTHING = np.array([], dtype=np.int64)
SETS = {"A": [5, 1, 2], "B": [2, 3], "C": [], "D": [7]}


class TestLayers:
    def test_the_edges_of_layers_fall_on_the_right_side(self):
        assert by_layer([0, 1, 2, 5, 6, 8], OFFSETS).tolist() == [2, 2, 2]
        assert by_layer([1, 5], OFFSETS).tolist() == [1, 1, 0]
        assert by_layer(NOTHING, OFFSETS).tolist() == [0, 0, 0]

    def test_the_offsets_are_those_of_neurons(self):
        neurons = Neurons((np.zeros((3, 2)), np.zeros((3, 4)), np.zeros((3, 3))))
        assert by_layer([2, 3, 8], neurons.offsets).tolist() == [0, 2, 1]

    def test_shares_of_the_selection(self):
        assert by_layer_share([0, 2, 3, 4], OFFSETS).tolist() == [0.25, 0.75, 0]

    def test_the_dominant_layer_is_the_lowest_of_several(self):
        assert dominant_layer([0, 6, 7, 8], OFFSETS) == 2
        assert dominant_layer([8, 7, 3, 2], OFFSETS) == 1
        assert dominant_layer([], OFFSETS) is None


class TestLabels:
    def test_overlap(self):
        found = overlap(SETS)
        assert found.shared.tolist() == [2]
        exclusive = {label: ids.tolist() for label, ids in found.exclusive.items()}
        assert exclusive == {"A": [1, 5], "B": [3], "C": [], "D": [7]}

    def test_no_labels_and_no_neurons(self):
        assert overlap({}).exclusive == {} and not len(overlap({"A": []}).shared)


class TestShift:
    def test_what_entered_left_and_stayed(self):
        entered, left, stayed = entered_left([4, 1, 2], [2, 9, 1, 0])
        assert (entered.tolist(), left.tolist(), stayed.tolist()) == ([0, 9], [4], [1, 2])

    def test_the_numbers_of_a_small_case(self):
        found = spread_shift([0, 1, 2, 3], [2, 3, 6, 7], OFFSETS, resamples=99)
        assert found.base.tolist() == [0.5, 0.5, 0] and found.tuned.tolist() == [0, 0.5, 0.5]
        assert found.distance == {"earth_mover": 1.0, "total_variation": 0.5, "mean_layer": 1.0}

    def test_p_is_the_share_of_dealings_as_far(self):
        """Of the 6 ways to deal {0, 1 | 6, 7} to base and tuned two keep the layers apart."""
        found = spread_shift([0, 1, 2, 3], [2, 3, 6, 7], OFFSETS, resamples=50_000)
        for name in found.p:
            assert found.p[name] == pytest.approx(1 / 3, abs=0.01)
        assert found.expected["earth_mover"] == pytest.approx(1 / 3, abs=0.01)
        assert found.expected["mean_layer"] == pytest.approx(0, abs=0.01)

    def test_with_nothing_to_exchange_chance_expects_what_was_found(self):
        found = spread_shift([0], [0, 6, 7], OFFSETS, resamples=10)
        assert found.expected == pytest.approx(found.distance) and found.distance["mean_layer"] > 0
        assert set(found.p.values()) == {1.0}

    def test_the_seed_decides(self):
        pairs = [spread_shift([0, 1, 2], [4, 6, 8], OFFSETS, resamples=30, seed=s).expected for s in (1, 1, 2)]
        assert pairs[0] == pairs[1] != pairs[2]


class TestRefused:
    @pytest.mark.parametrize("ids", [[9], [-1], [0, 9]])
    def test_ids_out_of_range(self, ids):
        with pytest.raises(AnalysisError, match="but there are 9"):
            by_layer(ids, OFFSETS)

    def test_duplicates(self):
        with pytest.raises(AnalysisError, match="neuron 4 occurs twice"):
            by_layer([4, 1, 4], OFFSETS)
        with pytest.raises(AnalysisError, match="base: neuron 1 occurs twice"):
            entered_left([1, 1], [2])

    @pytest.mark.parametrize("ids", [[0.5], [[1, 2]], np.array([True, False]), ["a"]])
    def test_what_is_no_list_of_ids(self, ids):
        with pytest.raises(AnalysisError, match="expected a list of neuron ids"):
            checked_ids(ids, 9)

    def test_empty_selections(self):
        with pytest.raises(AnalysisError, match="empty selection"):
            by_layer_share([], OFFSETS)
        with pytest.raises(AnalysisError, match="tuned: an empty selection"):
            spread_shift([1], [], OFFSETS)

    @pytest.mark.parametrize("offsets", [[0], [1, 4], [0, 4, 4], [0, 3, 2]])
    def test_offsets_that_do_not_rise(self, offsets):
        with pytest.raises(AnalysisError, match="offsets should rise"):
            by_layer([0], offsets)
