"""Structural probes of base and tuned: rank correlations averaged over lengths, in the columns of other comparisons."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from vestige.comparison.differences import Settings, control_false_discoveries
from vestige.comparison.trees import compare_trees
from vestige.measures.trees import mean_over_lengths

MANY = Settings(resamples=2999)
LENGTHS = np.array([3, 5, 5, 5, 5, 5, 5, 5, 5, 9, 9, 9, 9, 9, 14, 14, 14, 50, 51])


def table(values, seeds=1, lengths=LENGTHS):
    """A table `sentences` from correlations (layers, sentences), those of further seeds a little higher."""
    parts = [
        pd.DataFrame({"sentence": [f"s{i}" for i in range(len(lengths))], "words": lengths, "layer": layer,
                      "probe_seed": seed, "dspr": row + 0.01 * seed, "nspr": 0.5 * row})
        for layer, row in enumerate(values)
        for seed in range(seeds)
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True).astype({"sentence": "category"})


def drawn(seed, layers=2, shift=0.0):
    return np.random.default_rng(seed).normal(0.6 + shift, 0.1, size=(layers, len(LENGTHS)))


def test_levels_are_means_over_the_lengths_from_5_to_50():
    base, tuned = drawn(0), drawn(1)
    found = compare_trees(table(base), [table(tuned)], MANY)
    assert found["metric"].tolist() == ["dspr", "dspr", "nspr", "nspr"] and found["layer"].tolist() == [0, 1, 0, 1]
    for values, side in ((base, "base"), (tuned, "tuned")):
        np.testing.assert_allclose(found[side][:2], mean_over_lengths(values, LENGTHS))
    np.testing.assert_allclose(found["difference"], found["tuned"] - found["base"])
    np.testing.assert_allclose(found["difference"][2:], found["difference"][:2] / 2)
    assert (found["sentences"] == 17).all() and (found["words"] == LENGTHS[1:-1].sum()).all()


def test_the_interval_is_that_of_the_papers_average_on_drawn_sentences():
    base, tuned = drawn(0, 1), drawn(1, 1)
    found = compare_trees(table(base), [table(tuned)], MANY, stochastic=False).iloc[0]
    rng, kept = np.random.default_rng(5), LENGTHS[1:-1]
    draws = rng.integers(0, len(kept), size=(2999, len(kept)))
    differences = (tuned - base)[0, 1:-1]
    expected = np.quantile([mean_over_lengths(differences[draw], kept[draw]) for draw in draws], [0.025, 0.975])
    assert (found["low"], found["high"]) == pytest.approx(expected, abs=0.07 * np.ptp(expected))


def test_sentences_change_sides_with_the_weight_of_their_length():
    lengths = np.array([5, 5, 5, 5, 5, 9, 12])
    differences = np.array([0.1, 0.12, 0.09, 0.11, 0.1, 0.3, -0.25])
    base, tuned = (table(values[None], lengths=lengths) for values in (0 * differences, differences))
    found = compare_trees(base, [tuned], Settings(resamples=19999), stochastic=False)
    weighted = differences / [5, 5, 5, 5, 5, 1, 1]
    flipped = [abs(np.dot(signs, weighted)) >= weighted.sum() - 1e-12 for signs in product((-1, 1), repeat=7)]
    assert found["p"][0] == pytest.approx(np.mean(flipped), abs=0.01)


def test_seeds_and_runs_are_averaged_and_a_rise_is_found():
    lengths = np.tile(LENGTHS, 2)
    values = np.tile(drawn(0), 2)
    runs = [table(values + shift, 2, lengths) for shift in (0.09, 0.1, 0.11)]
    found = compare_trees(table(values, 2, lengths), runs, MANY)
    judged = control_false_discoveries(found.assign(analysis="structural_probe", params="p"), MANY)
    np.testing.assert_allclose(found["difference"][:2], 0.1)
    np.testing.assert_allclose(found["sd_tuning_run"][:2], 0.01)
    np.testing.assert_allclose(found["sd_probe_seed"], [0.01, 0.01, 0, 0], atol=1e-12)
    assert set(judged["verdict"]) == {"higher"} and (judged["runs"] == 3).all() and (judged["seeds"] == 2).all()


def test_what_a_table_lacks_is_left_out():
    base, tuned = table(drawn(0)), table(drawn(1))
    assert set(compare_trees(base, [tuned.drop(columns="dspr")], MANY)["metric"]) == {"nspr"}
    assert compare_trees(base[base["words"] < 5], [tuned[tuned["words"] < 5]], MANY).empty


def test_a_model_that_read_no_sentence_of_these_lengths_is_not_compared():
    found = compare_trees(table(drawn(0)), [table(drawn(1)[:, :3], lengths=np.array([3, 3, 4]))], MANY)
    assert found.empty
