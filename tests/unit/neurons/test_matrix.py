"""All layers side by side: ids, columns of any order and precision, and what is no matrix."""

import numpy as np
import pytest

from vestige.errors import AnalysisError
from vestige.neurons.matrix import Neurons

LAYERS = tuple(np.random.default_rng(0).normal(size=(9, width)).astype(np.float32) for width in (2, 4, 3))
MATRIX = np.concatenate(LAYERS, axis=1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rows_columns_and_blocks_are_those_of_one_matrix_in_float32(tmp_path, dtype):
    for number, layer in enumerate(LAYERS):
        np.save(tmp_path / f"{number}.npy", layer.astype(dtype))
    neurons = Neurons(tuple(np.load(tmp_path / f"{number}.npy", mmap_mode="r") for number in range(3)))
    expected = MATRIX.astype(dtype).astype(np.float32)
    ids = np.array([8, 0, 2, 5, 1])
    np.testing.assert_array_equal(neurons.columns(ids), expected[:, ids])
    np.testing.assert_array_equal(neurons.rows(np.array([4, 1])).numpy(), expected[[4, 1]])
    spans, blocks = zip(*neurons.blocks(4), strict=True)
    assert [(span.start, span.stop) for span in spans] == [(0, 4), (4, 8), (8, 9)]
    np.testing.assert_array_equal(np.concatenate(blocks), expected)
    assert neurons.columns(ids).dtype == np.float32 and len(neurons) == 9


def test_ids_count_through_the_layers():
    neurons = Neurons(LAYERS)
    assert neurons.offsets.tolist() == [0, 2, 6, 9] and neurons.width == 9
    assert neurons.layer_of(np.arange(9)).tolist() == [0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert neurons.unit_of(np.arange(9)).tolist() == [0, 1, 0, 1, 2, 3, 0, 1, 2]


@pytest.mark.parametrize("neuron", [9, -1])
def test_neurons_that_do_not_exist_are_named(neuron):
    with pytest.raises(AnalysisError, match=f"no neuron {neuron} among 9"):
        Neurons(LAYERS).columns(np.array([3, neuron]))


@pytest.mark.parametrize("layers", [(), (LAYERS[0], LAYERS[1][:5]), (LAYERS[0][0],)])
def test_what_is_no_matrix_is_refused(layers):
    with pytest.raises(AnalysisError, match="no matrix of rows and neurons"):
        Neurons(layers)


def test_rows_of_a_mapped_store_are_announced_and_read_as_they_are(tmp_path):
    whole = np.arange(5000 * 30, dtype=np.float32).reshape(5000, 30)
    np.save(tmp_path / "layer.npy", whole)
    mapped = np.load(tmp_path / "layer.npy", mmap_mode="r")
    for source in (mapped, mapped[1000:4000], mapped[:0]):
        for span in (slice(0, 10), slice(700, 900), slice(2990, 3000), slice(0, None)):
            found = Neurons((source,)).rows(span).numpy()
            np.testing.assert_array_equal(found, np.array(source[span]))
