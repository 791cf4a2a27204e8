"""Changes of weights: what was planted is measured, whatever the shape, and a copy has changed in nothing."""

import numpy as np
import pytest
import torch

from vestige.analyses.base import NO_TASK, Inputs, Outcome
from vestige.analyses.weight_changes import Change, Measuring, match
from vestige.analyses.weights import Weights, _report
from vestige.errors import AnalysisError
from vestige.measures import spectra
from vestige.measures.spectra import intruder_dimensions, leading, sketch, sketch_error, spectral_norm

SHAPES = ((40, 70), (70, 40), (560, 900), (900, 560))
"""The last two are too large to be decomposed whole."""


class Tensors:
    """Weights in a dictionary."""

    def __init__(self, **tensors):
        self.tensors = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}

    def dtype(self, name):
        return self.tensors[name].dtype

    def rows(self, name, start=0, stop=None):
        tensor = self.tensors[name]
        return tensor[start:stop] if tensor.shape else tensor.reshape(1)

    def change(self, name, other):
        return None


def matrix(rows, columns, seed=0):
    """Singular values that fall as those of trained matrices do."""
    drawn = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    return drawn @ torch.diag(torch.arange(1, columns + 1).float() ** -0.7)


def low_rank(rows, columns, values, seed=1):
    generator = torch.Generator().manual_seed(seed)
    left = torch.linalg.qr(torch.randn(rows, len(values), generator=generator))[0]
    right = torch.linalg.qr(torch.randn(columns, len(values), generator=generator))[0]
    return left @ torch.diag(torch.tensor(values)) @ right.T


def measured(reference, tuned, **settings) -> list[Change]:
    asked = {"leading": 10, "below": 0.5, "largest": 4096, **settings}
    return [change for change, _ in Measuring(reference, tuned, **asked).changes()]


def rows_of(reference, tuned) -> dict:
    """Rows of the analysis by metric, layer and kind."""
    inputs = Inputs(NO_TASK, {}, "tuned", weights=tuned, reference=Inputs(NO_TASK, {}, "base", weights=reference))
    outcome = Weights().run(inputs)
    return {(row["metric"], row.get("layer"), row.get("label")): row["value"] for row in outcome.rows}


def blocks(seed=0, dtype=torch.float32, scale=1.0) -> dict:
    """Two blocks and their embeddings, by names of BERT's kind."""
    made = {"embeddings__word_embeddings__weight": scale * matrix(30, 16, seed)}
    for block in range(2):
        for number, name in enumerate(("attention__self__query", "attention__output__dense", "output__dense")):
            made[f"encoder__layer__{block}__{name}__weight"] = scale * matrix(16, 16, seed + 10 * block + number)
        made[f"encoder__layer__{block}__output__LayerNorm__bias"] = scale * torch.ones(16)
    return {name: tensor.to(dtype) for name, tensor in made.items()}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_planted_change_of_low_rank_has_its_norms_and_its_stable_rank(shape):
    values = [3.0, 2.0, 1.0]
    base = matrix(*shape)
    (found,) = measured(Tensors(w__weight=base), Tensors(w__weight=base + low_rank(*shape, values)))
    assert found.spectral == pytest.approx(3.0, rel=1e-4)
    assert found.changed == pytest.approx(14.0, rel=1e-4)
    assert found.stable_rank == pytest.approx(14 / 9, rel=1e-4)
    assert found.squared == pytest.approx(float(base.square().sum()), rel=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_leading_singular_vectors_are_those_of_a_whole_decomposition(shape):
    given = matrix(*shape)
    left, values, _ = np.linalg.svd(given.double().numpy(), full_matrices=False)
    found_values, found = leading(given, 5)
    assert found_values.numpy() == pytest.approx(values[:5], rel=1e-5)
    assert np.abs((found.double().numpy() * left[:, :5]).sum(0)) == pytest.approx(1, abs=1e-3)


def test_the_spectral_norm_of_noise_is_right_to_three_digits():
    """The hardest case: no gap between the leading values."""
    noise = torch.randn(700, 1500, generator=torch.Generator().manual_seed(3))
    assert spectral_norm(noise) == pytest.approx(float(torch.linalg.matrix_norm(noise, 2)), rel=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_planted_intruder_is_found_and_a_small_dense_change_brings_none(shape):
    base = matrix(*shape)
    top = float(torch.linalg.matrix_norm(base, 2))
    dense = 1e-3 * torch.randn(shape, generator=torch.Generator().manual_seed(5))
    assert intruder_dimensions(base, base + dense) == 0
    assert intruder_dimensions(base, base.clone()) == 0
    small = min(shape) <= 40  # where 40 vectors fill the space, a random one is near to one of them
    assert intruder_dimensions(base, base + low_rank(*shape, [3 * top]), below=0.6 if small else 0.5) == 1


@pytest.mark.parametrize("shape", ((560, 900), (900, 560)))
@pytest.mark.parametrize("below", (0.3, 0.5, 0.8))
def test_intruders_without_a_whole_decomposition_are_those_with_one(shape, below, monkeypatch):
    """Planted directions of many strengths, some of which mix with the base's own."""
    base = matrix(*shape)
    top = float(torch.linalg.matrix_norm(base, 2))
    tuned = base + low_rank(*shape, [top, 0.7 * top, 0.4 * top, 0.2 * top])
    found = intruder_dimensions(base, tuned, below=below)
    monkeypatch.setattr(spectra, "EXACT", 10_000)
    assert found == intruder_dimensions(base, tuned, below=below) > 0


def test_what_lanczos_decides_is_so():
    """A vector that is spread over many singular vectors is shown to be an intruder, one of them not to be one."""
    base = matrix(600, 800)
    left = torch.linalg.svd(base, full_matrices=False)[0]
    spread = left[:, :40].sum(1) / 40**0.5
    mostly = (left[:, 3] + 0.3 * left[:, 100]) / 1.09**0.5
    half = (left[:, 0] + left[:, 1]) / 2**0.5
    assert spectra._decided(base, torch.stack([spread, mostly, half], 1), 0.25) == [True, False, False]


def test_shares_of_layers_and_of_kinds_sum_to_one():
    base = blocks()
    tuned = {
        name: tensor + 0.01 * (1 + at) * torch.randn(tensor.shape) for at, (name, tensor) in enumerate(base.items())
    }
    found = rows_of(Tensors(**base), Tensors(**tuned))
    layers = [value for (metric, layer, kind), value in found.items() if metric == "share" and layer is not None]
    kinds = [value for (metric, layer, kind), value in found.items() if metric == "share" and layer is None]
    assert len(layers) == 3 and sum(layers) == pytest.approx(1)
    assert len(kinds) == 5 and sum(kinds) == pytest.approx(1)


def test_scaling_all_weights_is_a_change_by_that_share_everywhere():
    base = blocks()
    found = rows_of(Tensors(**base), Tensors(**{name: 1.03 * tensor for name, tensor in base.items()}))
    changes = {key: value for key, value in found.items() if key[0] == "relative_change"}
    assert len(changes) == 1 + 5 + 3 + 1 + 2 * 4
    assert all(value == pytest.approx(0.03, rel=1e-3) for value in changes.values())
    assert found["intruders", None, None] == 0


def test_relative_changes_and_shares_do_not_depend_on_the_scale_of_both_models():
    base, change = blocks(), blocks(seed=50, scale=0.01)
    once = rows_of(Tensors(**base), Tensors(**{name: base[name] + change[name] for name in base}))
    twice = rows_of(
        Tensors(**{name: 8 * base[name] for name in base}),
        Tensors(**{name: 8 * (base[name] + change[name]) for name in base}),
    )
    for key in once:
        if key[0] in ("relative_change", "share", "stable_rank", "intruders"):
            assert twice[key] == pytest.approx(once[key], rel=1e-4)


def test_identical_weights_have_changed_in_nothing():
    found = rows_of(Tensors(**blocks()), Tensors(**blocks()))
    assert {value for key, value in found.items() if key[0] == "relative_change"} == {0.0}
    assert found["changed_tensors", None, None] == 0 and found["intruders", None, None] == 0
    assert not any(metric in ("share", "stable_rank", "spectral_norm") for metric, _, _ in found)


def test_weights_in_a_coarser_precision_differ_by_rounding_alone():
    base = blocks()
    found = rows_of(Tensors(**base), Tensors(**blocks(dtype=torch.bfloat16)))
    assert found["changed_tensors", None, None] == 0
    assert 0 < found["rounding", None, None] == pytest.approx(found["relative_change", None, None])
    moved = {name: (tensor + 0.1 * torch.ones_like(tensor)).bfloat16() for name, tensor in base.items()}
    assert rows_of(Tensors(**base), Tensors(**moved))["changed_tensors", None, None] == len(base)


def test_a_change_of_embeddings_is_found_in_its_tenth_of_the_vocabulary():
    base = blocks()
    tuned = {name: tensor.clone() for name, tensor in base.items()}
    tuned["embeddings__word_embeddings__weight"][27:] *= 2
    outcome = Outcome()
    _report(outcome, measured(Tensors(**base), Tensors(**tuned)))
    values = [row["value"] for row in outcome.rows if row["metric"] == "embedding_change"]
    assert values == pytest.approx([0.0] * 9 + [1.0])


def test_shared_rows_are_compared_where_a_vocabulary_grew():
    base = blocks()
    name = "embeddings__word_embeddings__weight"
    tuned = {**base, name: torch.cat([base[name], torch.ones(4, 16)])}
    found = measured(Tensors(**base), Tensors(**tuned))
    assert [one.name for one in found if one.resized] == [name.replace("__", ".")]
    assert not any(one.changed for one in found)


def test_names_are_matched_whatever_stands_in_front_of_them():
    plain, headed = blocks(), {f"bert__{name}": tensor for name, tensor in blocks().items()}
    headed |= {"classifier__weight": torch.ones(2, 16), "classifier__bias": torch.ones(2)}
    found = match(Tensors(**plain), Tensors(**headed))
    assert len(found.pairs) == len(plain) and not found.only_reference
    assert found.only_tuned == ("classifier.weight", "classifier.bias")
    with pytest.raises(AnalysisError, match="no weight of the same name"):
        match(Tensors(a=torch.ones(2)), Tensors(b=torch.ones(2)))


@pytest.mark.parametrize("cosine", (0.0, 0.5, 0.95))
def test_cosines_of_sketches_are_within_their_error(cosine):
    """Fifty pairs of changes of two tensors each: unbiased, and the standard error is what is stated."""
    errors = []
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        a, b = (torch.randn(130, 90, generator=generator) for _ in range(2))
        b = cosine * a + (1 - cosine**2) ** 0.5 * b
        exact = torch.cosine_similarity(a.reshape(-1), b.reshape(-1), 0)
        names = (f"first {seed}", f"second {seed}")
        ours, theirs = (sketch(one[:60], names[0], 509) + sketch(one[60:], names[1], 509) for one in (a, b))
        errors.append(float(torch.cosine_similarity(ours, theirs, 0) - exact))
    stated = sketch_error(cosine, 509)
    assert abs(np.mean(errors)) < 4 * stated / 50**0.5
    assert np.sqrt(np.mean(np.square(errors))) < 1.25 * stated


def test_a_sketch_keeps_norms_and_adds_up():
    one, other = torch.randn(80, 70), torch.randn(80, 70)
    assert sketch(one, "w").norm() == pytest.approx(float(one.norm()), rel=0.05)
    assert torch.allclose(sketch(one, "w") + sketch(other, "w"), sketch(one + other, "w"), atol=1e-4)
