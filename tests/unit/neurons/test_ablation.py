"""Zero-out: many keep sets in one pass, against masking the matrix."""

import numpy as np
import pytest
import torch

from vestige.errors import AnalysisError, RepresentationError
from vestige.neurons.ablation import ablate
from vestige.neurons.matrix import Neurons

WIDTHS = (5, 9, 3)


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    layers = tuple(rng.standard_normal((1300, width)).astype(np.float32) for width in WIDTHS)
    weights = rng.standard_normal((17, 4)).astype(np.float32)
    return Neurons(layers), rng.integers(0, 4, 1300), weights, rng.standard_normal(4).astype(np.float32)


def _masked(made, kept):
    neurons, labels, weights, bias = made
    matrix = np.concatenate(neurons.layers, axis=1).astype(np.float64)
    ablated = np.ones(17, dtype=bool)
    ablated[kept] = False
    matrix[:, ablated] = 0
    return (matrix @ weights + bias).argmax(1) == labels


NESTED = {f"top {count}": np.arange(17)[::-1][:count] for count in (0, 1, 2, 5, 9, 16, 17)}
SCATTERED = {f"random {seed}": np.random.default_rng(seed).permutation(17)[:8] for seed in range(6)}


@pytest.mark.parametrize("keeps", [NESTED, SCATTERED, {"one": np.array([3])}], ids=["nested", "scattered", "one"])
def test_every_set_is_as_if_the_matrix_were_masked(made, keeps):
    found = ablate(*made, keeps)
    assert list(found.correct) == list(keeps)
    for name, kept in keeps.items():
        assert np.array_equal(found.correct[name], _masked(made, kept)), name
        assert found.accuracy[name] == found.correct[name].mean()


def test_neurons_without_weight_are_not_read():
    broken = Neurons((np.full((4, 2), np.nan, dtype=np.float32), np.ones((4, 1), dtype=np.float32)))
    weights, bias = np.array([[0, 0], [0, 0], [0, 1.0]]), np.zeros(2)
    assert ablate(broken, np.ones(4), weights, bias, {"all": np.arange(3)}).accuracy == {"all": 1.0}


def test_a_label_that_train_lacks_is_never_right(made):
    neurons, labels, weights, bias = made
    assert ablate(neurons, np.full(len(labels), -1), weights, bias, {"all": np.arange(17)}).accuracy == {"all": 0.0}


def test_half_precision_and_read_only_layers_are_read(made, tmp_path):
    neurons, labels, weights, bias = made
    for number, layer in enumerate(neurons.layers):
        np.save(tmp_path / f"{number}.npy", layer.astype(np.float16))
    mapped = Neurons(tuple(np.load(tmp_path / f"{number}.npy", mmap_mode="r") for number in range(3)))
    same = Neurons(tuple(np.asarray(layer, dtype=np.float32) for layer in mapped.layers))
    tensors = torch.tensor(weights).requires_grad_(), torch.tensor(bias).requires_grad_()
    found = ablate(mapped, labels, *tensors, NESTED)
    for name, correct in ablate(same, labels, weights, bias, NESTED).correct.items():
        assert np.array_equal(found.correct[name], correct)


def test_no_set_no_answer(made):
    assert ablate(*made, {}).accuracy == {}


def test_what_does_not_fit_is_refused(made):
    neurons, labels, weights, bias = made
    with pytest.raises(AnalysisError, match="keep set 'top': neuron 17, but there are 17"):
        ablate(neurons, labels, weights, bias, {"top": np.array([3, 17])})
    with pytest.raises(AnalysisError, match="neuron -1, but there are 17"):
        ablate(neurons, labels, weights, bias, {"top": np.array([-1])})
    with pytest.raises(AnalysisError, match=r"\(16, 4\) weights"):
        ablate(neurons, labels, weights[1:], bias, {})
    with pytest.raises(AnalysisError, match=r"\(1299,\) labels"):
        ablate(neurons, labels[1:], weights, bias, {})
    broken = Neurons((*neurons.layers[:2], neurons.layers[2].copy()))
    broken.layers[2][1200, 1] = np.nan
    with pytest.raises(RepresentationError, match="layer 2, unit 1"):
        ablate(broken, labels, weights, bias, {"top": np.array([15])})


@pytest.mark.parametrize("mask", [np.arange(17) < 4, np.array([0.7])])
def test_a_mask_is_not_taken_for_ids(made, mask):
    with pytest.raises(AnalysisError, match="expected a list of neuron ids"):
        ablate(*made, {"top": mask})


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("which", ["weights", "bias"])
def test_numbers_of_the_probe_that_are_not_finite_are_named(made, which, value):
    neurons, labels, *_ = made
    given = {"weights": made[2].copy(), "bias": made[3].copy()}
    given[which].flat[3] = value
    with pytest.raises(AnalysisError, match=f"{which}: some values are not finite"):
        ablate(neurons, labels, given["weights"], given["bias"], {"some": [1]})


def test_no_rows_are_refused(made):
    neurons, labels, weights, bias = made
    nothing = Neurons(tuple(layer[:0] for layer in neurons.layers))
    with pytest.raises(AnalysisError, match="no rows"):
        ablate(nothing, labels[:0], weights, bias, {"some": [1]})


def test_a_probe_without_any_weight_predicts_its_bias(made):
    neurons, labels, weights, bias = made
    found = ablate(neurons, labels, 0 * weights, bias, {"all": np.arange(17), "none": []})
    assert found.accuracy == dict.fromkeys(("all", "none"), (labels == bias.argmax()).mean())
