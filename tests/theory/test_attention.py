"""What must hold of entropies of attention and of distances between two attentions."""

import math

import numpy as np
import pandas as pd
import pytest
import tiny_lm
import torch
from hypothesis import given
from hypothesis import strategies as st

from vestige.analyses.attention import Attention
from vestige.measures.attention import (
    earth_movers,
    entropy,
    jensen_shannon,
    normalised_entropy,
    over_keys,
    total_variation,
    transport,
)


def distributions(count: int):
    """Several distributions over the same keys, some of their weights zero."""
    numbers = st.integers(2, 9).flatmap(
        lambda keys: st.lists(
            st.lists(st.integers(0, 9), min_size=keys, max_size=keys).filter(any), min_size=count, max_size=count
        )
    )
    return numbers.map(lambda rows: [torch.tensor(row).double() / sum(row) for row in rows])


@pytest.mark.parametrize("keys", [2, 3, 17])
def test_uniform_attention_has_the_entropy_log_n_and_one_hot_attention_none(keys):
    uniform, one_hot = torch.full((keys,), 1 / keys, dtype=torch.double), torch.eye(keys).double()
    assert float(entropy(uniform)) == pytest.approx(math.log(keys), abs=1e-12)
    assert float(normalised_entropy(uniform, torch.tensor(keys))) == pytest.approx(1, abs=1e-12)
    assert entropy(one_hot).tolist() == [0] * keys


def test_a_single_key_has_no_normalised_entropy():
    assert math.isnan(float(normalised_entropy(torch.ones(1), torch.tensor(1))))


@given(distributions(1))
def test_entropy_is_positive_and_at_most_log_n(made):
    assert 0 <= float(entropy(made[0])) <= math.log(len(made[0])) + 1e-12


def test_the_work_between_two_one_hot_attentions_is_how_far_apart_they_are():
    one_hot = torch.eye(7).double()
    for i in range(7):
        for k in range(7):
            assert float(earth_movers(one_hot[i], one_hot[k])) == abs(i - k)
            assert float(total_variation(one_hot[i], one_hot[k])) == (i != k)
            assert float(jensen_shannon(one_hot[i], one_hot[k])) == pytest.approx(math.log(2) * (i != k), abs=1e-12)


@pytest.mark.parametrize("distance", [earth_movers, total_variation, jensen_shannon])
@given(made=distributions(2))
def test_distances_are_symmetric_and_zero_only_between_equals(distance, made):
    first, second = made
    assert float(distance(first, first)) == pytest.approx(0, abs=1e-12)
    assert float(distance(first, second)) == pytest.approx(float(distance(second, first)), abs=1e-12)
    assert (float(distance(first, second)) > 1e-12) == (not torch.allclose(first, second))


@pytest.mark.parametrize("distance", [earth_movers, total_variation, lambda a, b: jensen_shannon(a, b).sqrt()])
@given(made=distributions(3))
def test_a_detour_is_never_shorter(distance, made):
    first, second, third = made
    assert float(distance(first, third)) <= float(distance(first, second) + distance(second, third)) + 1e-9


@given(distributions(2))
def test_the_bounds_of_the_distances(made):
    first, second = made
    moved = float(earth_movers(first, second))
    assert float(total_variation(first, second)) - 1e-12 <= moved <= len(first) - 1 + 1e-12
    assert float(jensen_shannon(first, second)) <= math.log(2) * float(total_variation(first, second)) + 1e-9


@given(distributions(2))
def test_transport_agrees_with_both_closed_forms(made):
    first, second = (each.numpy() for each in made)
    place = np.arange(len(first))
    steps = np.abs(place[:, None] - place).astype(float)
    assert transport(first, second, steps) == pytest.approx(float(earth_movers(*made)), abs=1e-9)
    assert transport(first, second, 1 - np.eye(len(first))) == pytest.approx(float(total_variation(*made)), abs=1e-9)


def test_keys_that_are_not_allowed_never_contribute():
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
    allowed = torch.tensor([True, True, True, False])
    renormalised = over_keys(weights, allowed)
    assert torch.allclose(renormalised, torch.tensor([1, 2, 3, 0]).double() / 6)
    assert torch.isnan(over_keys(weights, torch.zeros(4, dtype=torch.bool))).all()


def test_the_mean_of_entropies_is_not_the_entropy_of_the_mean():
    rows = torch.eye(4).double()
    assert float(entropy(rows).mean()) == 0
    assert float(entropy(rows.mean(0))) == pytest.approx(math.log(4))


def values(outcome, metric):
    frame = pd.DataFrame(outcome.rows)
    rows = frame[(frame["metric"] == metric) & frame["head"].isna()]
    return rows.set_index("layer")["value"]


@pytest.mark.parametrize("family", ["bert", "xlnet", "gpt2"])
@pytest.mark.parametrize("queries", ["summary", "all"])
def test_a_model_has_not_moved_from_itself(family, queries):
    made = Attention(queries=queries, resamples=10).run(
        tiny_lm.inputs(tiny_lm.encoder(family), tiny_lm.encoder(family))
    )
    for metric in ("emd", "emd_normalised", "tv", "js", "entropy_change", "entropy_normalised_change"):
        assert values(made, metric).abs().max() < 1e-9


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_model_that_cannot_tell_tokens_apart_attends_uniformly(family):
    model = tiny_lm.encoder(family)
    with torch.no_grad():
        for name, weight in model.model.named_parameters():
            if "query" in name or "c_attn" in name:
                weight.zero_()
    made = Attention(queries="all", resamples=10).run(tiny_lm.inputs(model))
    assert values(made, "entropy_normalised").to_numpy() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "xlnet", "gpt2", "llama"])
def test_a_sentence_has_the_same_numbers_alone_as_beside_longer_ones(family):
    model, other = tiny_lm.encoder(family), tiny_lm.encoder(family, 1)
    together = Attention(queries="all", resamples=2).run(tiny_lm.inputs(model, other))
    alone = [
        Attention(queries="all", resamples=2).run(tiny_lm.inputs(model, other, [sentence]))
        for sentence in tiny_lm.SENTENCES
    ]
    columns = ["sentence", "layer", "metric"]
    first = pd.DataFrame(together.items).sort_values(columns, ignore_index=True)
    second = pd.concat([pd.DataFrame(each.items) for each in alone]).sort_values(columns, ignore_index=True)
    assert first[columns].equals(second[columns])
    assert np.abs(first["value"] - second["value"]).max() < 1e-5
