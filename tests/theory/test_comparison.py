"""What must hold of any comparison, whatever the models."""

import numpy as np
import pandas as pd
import pytest
from compared import TASK, compare_items
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from vestige.comparison.differences import Settings, control_false_discoveries
from vestige.comparison.pairing import pair
from vestige.errors import AnalysisError

QUICK = Settings(resamples=499)


def items(correct: np.ndarray, lengths: np.ndarray, seeds: int = 1, subset: str = "task") -> pd.DataFrame:
    """An item table from correctness (layers, words)."""
    sentence = np.repeat([f"s{i}" for i in range(len(lengths))], lengths)
    word = np.concatenate([np.arange(n) for n in lengths])
    parts = [
        pd.DataFrame(
            {"sentence": sentence, "word": word, "subset": subset, "layer": layer, "probe_seed": seed, "correct": row}
        )
        for layer, row in enumerate(correct)
        for seed in range(seeds)
    ]
    return pd.concat(parts, ignore_index=True)


def simulate(rng, layers=3, sentences=60, shift=0.0):
    """Two probes of one model: alike but for noise that is shared inside sentences."""
    lengths = rng.integers(3, 20, size=sentences)
    words = lengths.sum()
    ease = np.repeat(rng.normal(1.0, 1.0, size=sentences), lengths)
    draw = (
        rng.normal(size=(2, layers, words))
        + rng.normal(size=(2, layers, sentences))[:, :, np.repeat(np.arange(sentences), lengths)]
    )
    return lengths, draw[0] + ease > 0, draw[1] + ease + shift > 0


def test_a_model_against_itself_shows_no_difference():
    rng = np.random.default_rng(0)
    lengths, base, _ = simulate(rng)
    table = control_false_discoveries(compare_items(items(base, lengths), [items(base, lengths)], QUICK))
    assert (table["difference"] == 0).all() and (table["p"] == 1).all()
    assert (table["verdict"] == "unchanged").all()


def test_point_estimate_is_the_difference_of_accuracies_and_lies_in_its_interval():
    rng = np.random.default_rng(1)
    lengths, base, tuned = simulate(rng, shift=-0.4)
    table = compare_items(items(base, lengths), [items(tuned, lengths)], QUICK)
    np.testing.assert_allclose(table["base"], base.mean(1))
    np.testing.assert_allclose(table["tuned"], tuned.mean(1))
    np.testing.assert_allclose(table["difference"], tuned.mean(1) - base.mean(1))
    assert ((table["low"] <= table["difference"]) & (table["difference"] <= table["high"])).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_swapping_base_and_tuned_flips_every_sign(seed):
    rng = np.random.default_rng(seed)
    lengths, base, tuned = simulate(rng, sentences=20)
    there = compare_items(items(base, lengths), [items(tuned, lengths)], Settings(resamples=199))
    back = compare_items(items(tuned, lengths), [items(base, lengths)], Settings(resamples=199))
    np.testing.assert_allclose(there["difference"], -back["difference"], atol=1e-12)
    np.testing.assert_allclose(there["low"], -back["high"], atol=1e-12)
    np.testing.assert_allclose(there["p"], back["p"])


def test_order_of_items_plays_no_role():
    rng = np.random.default_rng(2)
    lengths, base, tuned = simulate(rng)
    left, right = items(base, lengths), items(tuned, lengths)
    mixed = right.sample(frac=1.0, random_state=0)
    pd.testing.assert_frame_equal(compare_items(left, [right], QUICK), compare_items(left, [mixed], QUICK))


def test_items_only_one_side_has_are_left_out_and_counted():
    rng = np.random.default_rng(3)
    lengths, base, tuned = simulate(rng)
    fewer = items(tuned, lengths)
    fewer = fewer[~((fewer["sentence"] == "s0") & (fewer["word"] == lengths[0] - 1))]
    (paired,) = pair(TASK, items(base, lengths), [fewer])
    assert paired.dropped == 1 and paired.items == paired.units.sum() == lengths.sum() - 1


def test_nothing_in_common_is_an_error():
    rng = np.random.default_rng(4)
    lengths, base, _ = simulate(rng)
    other = items(base, lengths).assign(sentence=lambda f: "x" + f["sentence"])
    with pytest.raises(AnalysisError, match="different sentences"):
        pair(TASK, items(base, lengths), [other])


def test_null_p_values_are_uniform_and_false_discoveries_rare():
    """A/A: two probes of one model, labels swapped at random by sentence, two hundred times."""
    p_values, discoveries = [], 0
    for trial in range(200):
        rng = np.random.default_rng(1000 + trial)
        lengths, one, other = simulate(rng, layers=4)
        swap = np.repeat(rng.integers(0, 2, size=len(lengths)).astype(bool), lengths)
        base, tuned = np.where(swap, other, one), np.where(swap, one, other)
        table = compare_items(items(base, lengths), [items(tuned, lengths)], Settings(resamples=499, seed=trial))
        table = control_false_discoveries(table)
        p_values.append(table["p"].iloc[0])
        discoveries += bool((table["q"] <= 0.05).any())
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert discoveries <= stats.binom.ppf(0.99, 200, 0.05)


def test_a_real_loss_is_found_and_named():
    rng = np.random.default_rng(5)
    lengths, base, tuned = simulate(rng, sentences=300, shift=-1.0)
    table = control_false_discoveries(compare_items(items(base, lengths), [items(tuned, lengths)], QUICK))
    assert (table["verdict"] == "lower").all()


def test_copies_of_one_run_have_the_interval_of_that_run():
    rng = np.random.default_rng(6)
    lengths, base, tuned = simulate(rng, sentences=200, shift=-0.3)
    one = compare_items(items(base, lengths), [items(tuned, lengths)], Settings(resamples=4999))
    three = compare_items(items(base, lengths), [items(tuned, lengths)] * 3, Settings(resamples=4999))
    for bounds in (("low", "high"), ("tuned_low", "tuned_high")):
        widths = [table[bounds[1]] - table[bounds[0]] for table in (one, three)]
        np.testing.assert_allclose(*widths, rtol=0.1)
    np.testing.assert_allclose(one["p"], three["p"], atol=0.02)
    np.testing.assert_allclose(three["sd_tuning_run"], 0, atol=1e-12)
    assert one["sd_tuning_run"].isna().all()


def simulate_runs(rng, spread, sentences=100, runs=3):
    """Item tables of a base and of runs whose accuracies are drawn around the base's; ten words a sentence."""
    lengths = np.full(sentences, 10)
    ease = np.repeat(rng.uniform(0.4, 0.6, size=sentences), lengths)

    def one(shift):
        return items(rng.random(size=(1, len(ease))) < ease + shift, lengths)

    return one(0.0), [one(shift) for shift in rng.normal(0.0, spread, size=runs)]


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.1])
def test_runs_that_differ_are_no_finding(spread):
    """Of runs whose mean effect is none, about one test in twenty finds one, however far they lie apart."""
    rng = np.random.default_rng(7)
    tables = [compare_items(*simulate_runs(rng, spread), Settings(resamples=199)) for _ in range(120)]
    found = pd.concat(tables)
    assert (found["p"] < 0.05).mean() < 0.1
    np.testing.assert_array_equal(found["p"] < 0.05, (found["low"] > 0) | (found["high"] < 0))


def test_a_loss_in_every_run_is_found():
    rng = np.random.default_rng(9)
    base, runs = simulate_runs(rng, 0.01)
    lost = [run.assign(correct=run["correct"] & (rng.random(len(run)) < 0.8)) for run in runs]
    table = control_false_discoveries(compare_items(base, lost, QUICK))
    assert table["verdict"].tolist() == ["lower"] and -0.25 < table["low"][0] < table["high"][0] < -0.02


def test_variance_is_split_into_seeds_runs_and_items():
    rng = np.random.default_rng(8)
    lengths, base, tuned = simulate(rng)
    left = items(base, lengths, seeds=3)
    rights = [items(tuned, lengths, seeds=3), items(np.roll(tuned, 1, axis=1), lengths, seeds=3)]
    table = compare_items(left, rights, QUICK)
    assert (table["sd_probe_seed"] == 0).all(), "identical seeds have no spread"
    assert (table["sd_items"] > 0).all() and table["sd_tuning_run"].notna().all()
    assert (table["runs"] == 2).all() and (table["seeds"] == 3).all()


def test_selectivity_is_accuracy_minus_control_accuracy():
    rng = np.random.default_rng(10)
    lengths, base, tuned = simulate(rng)
    left = pd.concat([items(base, lengths), items(~base, lengths, subset="control")])
    right = pd.concat([items(tuned, lengths), items(~tuned, lengths, subset="control")])
    table = compare_items(left, [right], QUICK).set_index(["metric", "layer"])
    for layer in range(3):
        expected = table.loc[("accuracy", layer), "base"] - table.loc[("control_accuracy", layer), "base"]
        assert table.loc[("selectivity", layer), "base"] == pytest.approx(expected)


@pytest.mark.parametrize("runs", [1, 3])
def test_one_sentence_shows_nothing(runs):
    """However clear the difference in it: there is no other sentence to say how sentences differ."""
    rng = np.random.default_rng(9)
    lengths = np.array([11])
    base = items(np.zeros((2, 11), dtype=bool), lengths)
    tuned = [items(rng.random((2, 11)) < 0.9, lengths) for _ in range(runs)]
    for others in (tuned, [base] * runs):
        found = control_false_discoveries(compare_items(base, others, QUICK))
        assert (found["verdict"] == "described").all() and found["q"].isna().all()
        assert found["low"].isna().all()


@pytest.mark.parametrize(("sentences", "expected"), [(29, "described"), (30, "lower")])
def test_fewer_than_thirty_sentences_are_described_and_cost_the_others_nothing(sentences, expected):
    rng, lengths = np.random.default_rng(9), np.full(sentences, 11)
    base, tuned = (items(rng.random((2, 11 * sentences)) < share, lengths) for share in (0.9, 0.4))
    found = compare_items(base, [tuned], QUICK).assign(task="small")
    many = found.assign(task="large", sentences=300, p=[0.01, 0.04])
    both = control_false_discoveries(pd.concat([found, many], ignore_index=True))
    assert (both["verdict"][:2] == expected).all()
    assert both["low"][:2].isna().all() == (expected == "described")
    alone = control_false_discoveries(many)["q"].tolist()
    assert expected == "lower" or both["q"][2:].tolist() == alone


def test_the_same_two_sentences_before_and_after_are_not_called_unchanged():
    lengths = np.array([9, 11])
    same = items(np.ones((2, 20), dtype=bool), lengths)
    assert (control_false_discoveries(compare_items(same, [same], QUICK))["verdict"] == "described").all()


def test_a_side_without_items_is_an_error():
    lengths, base, _ = simulate(np.random.default_rng(4))
    with pytest.raises(AnalysisError, match="different sentences"):
        pair(TASK, items(base, lengths), [items(base, lengths).head(0)])
