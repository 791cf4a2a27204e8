"""Every estimator, from tables made by hand to levels, differences and intervals that can be computed otherwise."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from vestige.comparison.differences import Settings, compare, control_false_discoveries
from vestige.comparison.estimators import F1, Mean, Ratio, Share, StrataMean
from vestige.errors import AnalysisError
from vestige.measures.trees import mean_over_lengths

MANY, FEW = Settings(resamples=2999), Settings(resamples=199)
MARGIN = 0.005

SAVED = Ratio(numerator="saved_bits", denominator="uniform_bits", count="labels")
LABELS = np.array([3, 8, 1, 12, 5, 5, 9, 2, 7, 4, 6, 11] * 3)


def codes(bits, labels=LABELS):
    """Labels of four classes from bits a label (layers, sentences)."""
    names = [f"s{i}" for i in range(len(labels))]
    parts = [
        pd.DataFrame({"sentence": names, "layer": layer, "probe_seed": 0, "stochastic": False, "labels": labels,
                      "uniform_bits": 2.0 * labels, "saved_bits": (2.0 - row) * labels})
        for layer, row in enumerate(bits)
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True).astype({"sentence": "category"})


def drawn_bits(seed, layers=2):
    return np.random.default_rng(seed).uniform(0.5, 1.5, size=(layers, len(LABELS)))


def test_a_ratio_is_that_of_the_sums():
    base, tuned = drawn_bits(0), drawn_bits(1)
    found = compare(SAVED, codes(base), [codes(tuned)], MARGIN, MANY)
    assert found["layer"].tolist() == [0, 1]
    for bits, side in ((base, "base"), (tuned, "tuned")):
        np.testing.assert_allclose(found[side], 1 - (bits * LABELS).sum(1) / (2 * LABELS.sum()))
    np.testing.assert_allclose(found["difference"], found["tuned"] - found["base"])
    assert (found["items"] == LABELS.sum()).all() and (found["sentences"] == len(LABELS)).all()


def test_the_interval_of_a_ratio_is_that_on_drawn_sentences():
    base, tuned = drawn_bits(0, 1), drawn_bits(1, 1)
    found = compare(SAVED, codes(base), [codes(tuned)], MARGIN, MANY).iloc[0]
    draws = np.random.default_rng(5).integers(0, len(LABELS), size=(2999, len(LABELS)))
    saved = (base - tuned)[0] * LABELS
    expected = np.quantile(saved[draws].sum(1) / (2 * LABELS[draws].sum(1)), [0.025, 0.975])
    assert (found["low"], found["high"]) == pytest.approx(expected, abs=0.07 * np.ptp(expected))


def test_equal_ratios_are_equivalent_and_a_lower_one_is_lower():
    base = drawn_bits(0, 1)
    same = compare(SAVED, codes(base), [codes(base)], MARGIN, MANY)
    assert same["difference"].tolist() == [0.0] and same["p"].tolist() == [1.0]
    longer = compare(SAVED, codes(base), [codes(base + 0.3)] * 2, MARGIN, MANY).assign(metric="saved")
    longer = control_false_discoveries(longer, MANY)
    assert longer["verdict"].tolist() == ["lower"] and longer["difference"][0] == pytest.approx(-0.15)
    assert longer["runs"].tolist() == [2] and longer["sd_tuning_run"][0] == pytest.approx(0, abs=1e-12)


def test_sentences_of_which_a_side_lost_labels_are_left_out_and_counted():
    """Both save half of what they send: there is no difference, however much one side could not read."""
    half, cut = np.ones((1, len(LABELS))), np.minimum(LABELS, 6)
    found = compare(SAVED, codes(half), [codes(half, labels=cut)], MARGIN, MANY)
    kept = LABELS[LABELS <= 6]
    np.testing.assert_allclose(found[["base", "tuned", "difference"]], [[0.5, 0.5, 0.0]])
    assert found["items"].tolist() == [kept.sum()] and found["sentences"].tolist() == [len(kept)]
    assert found["dropped_items"].tolist() == [LABELS.sum() - kept.sum()]


def test_sides_that_share_no_sentence_are_refused():
    bits = drawn_bits(3, layers=1)
    with pytest.raises(AnalysisError, match="different sentences"):
        compare(SAVED, codes(bits), [codes(bits, labels=LABELS + 1)], MARGIN, MANY)


MICRO = F1(hits="hits", predicted="predicted", gold="gold", count="targets")
PLACES = ("layer", "input", "axis", "x")


def edges(hits, seeds=1):
    """One target a sentence, right where `hits` says so; of the mix of two layers the other way round."""
    names = [f"s{i}" for i in range(len(hits))]
    places = [(1, None, None, None), (None, "mix", None, None), (None, "mix", "last_layer_mixed", 1.0)]
    parts = [
        pd.DataFrame({"sentence": names, "layer": layer, "input": read, "axis": axis, "x": x, "probe_seed": seed,
                      "hits": hits[::-1] if axis else hits})
        for layer, read, axis, x in places for seed in range(seeds)
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True).assign(predicted=1, gold=1, targets=1)


def f1(base, tuned, stochastic=True):
    return compare(MICRO, base, tuned, MARGIN, FEW, stochastic=stochastic, places=PLACES)


def test_f1_is_compared_at_every_place():
    base, tuned = np.array([1] * 60 + [0] * 40), np.array([1] * 90 + [0] * 10)
    found = f1(edges(base, 2), [edges(tuned, 2)])
    places = found[list(PLACES)].astype(object).where(found[list(PLACES)].notna(), None)
    assert sorted(map(str, places.itertuples(index=False, name=None))) == sorted(
        map(str, [(1.0, None, None, None), (None, "mix", None, None), (None, "mix", "last_layer_mixed", 1.0)])
    )
    assert found["base"].tolist() == pytest.approx([0.6] * 3) and found["tuned"].tolist() == pytest.approx([0.9] * 3)
    assert (found["low"] > 0.15).all() and (found["high"] < 0.45).all() and (found["runs"] == 1).all()
    judged = control_false_discoveries(found.assign(metric="f1_micro"), FEW)
    assert set(judged["verdict"]) == {"higher"}


def test_a_place_that_one_side_lacks_is_left_out():
    base = edges(np.array([1, 0] * 50), 2)
    found = f1(base, [base[base["axis"].isna()]])
    assert len(found) == 2 and found["axis"].isna().all()


def test_sentences_that_lost_targets_are_left_out_of_f1_and_counted():
    """A model with less room has five of ten targets, the easy ones: on these alone it would look better."""
    base = pd.DataFrame(
        {"sentence": [f"s{i}" for i in range(40)], "hits": 8, "predicted": 10, "gold": 10, "targets": 10}
    )
    less = [5] * 20 + [10] * 20
    cut = base.assign(hits=[5] * 20 + [8] * 20, predicted=less, gold=less, targets=less)
    found = f1(base, [cut])
    assert found["difference"].tolist() == [0] and found["sentences"].tolist() == [20]
    assert found["dropped_items"].tolist() == [200] and found["items"].tolist() == [200]


def test_seeds_of_probes_have_a_spread():
    one, other = edges(np.array([1] * 60 + [0] * 40)), edges(np.array([1] * 70 + [0] * 30))
    both = pd.concat([one, other.assign(probe_seed=1)], ignore_index=True)
    found = f1(both, [pd.concat([other, other.assign(probe_seed=1)], ignore_index=True)])
    np.testing.assert_allclose(found["sd_probe_seed"], np.std([0.1, 0.0], ddof=1))


def test_equal_probes_are_unchanged():
    same = edges(np.array([1, 0] * 50), 2)
    found = f1(same, [same, same])
    assert (found["difference"] == 0).all() and (found["p_equivalence"] < 0.05).all() and (found["runs"] == 2).all()


@pytest.mark.parametrize("runs", [1, 2])
def test_one_sentence_shows_nothing(runs):
    found = f1(edges(np.array([0]), 2), [edges(np.array([1]), 2)] * runs)
    judged = control_false_discoveries(found.assign(metric="f1_micro"), FEW)
    assert set(judged["verdict"]) == {"described"} and judged["low"].isna().all()


LENGTHS = np.array([3, 5, 5, 5, 5, 5, 5, 5, 5, 9, 9, 9, 9, 9, 14, 14, 14, 50, 51])
OVER_LENGTHS = StrataMean(column="dspr", strata="words", strata_range=(5, 50))


def trees(values, seeds=1, lengths=LENGTHS):
    """Correlations (layers, sentences), those of further seeds a little higher."""
    parts = [
        pd.DataFrame({"sentence": [f"s{i}" for i in range(len(lengths))], "words": lengths, "layer": layer,
                      "probe_seed": seed, "dspr": row + 0.01 * seed})
        for layer, row in enumerate(values)
        for seed in range(seeds)
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True).astype({"sentence": "category"})


def drawn_trees(seed, layers=2):
    return np.random.default_rng(seed).normal(0.6, 0.1, size=(layers, len(LENGTHS)))


def test_a_mean_over_strata_is_the_papers_average_over_lengths():
    base, tuned = drawn_trees(0), drawn_trees(1)
    found = compare(OVER_LENGTHS, trees(base), [trees(tuned)], MARGIN, MANY)
    for values, side in ((base, "base"), (tuned, "tuned")):
        np.testing.assert_allclose(found[side], mean_over_lengths(values, LENGTHS))
    np.testing.assert_allclose(found["difference"], found["tuned"] - found["base"])
    assert (found["sentences"] == 17).all()


def test_the_interval_over_strata_is_that_of_the_average_on_drawn_sentences():
    base, tuned = drawn_trees(0, 1), drawn_trees(1, 1)
    found = compare(OVER_LENGTHS, trees(base), [trees(tuned)], MARGIN, MANY).iloc[0]
    rng, kept = np.random.default_rng(5), LENGTHS[1:-1]
    draws = rng.integers(0, len(kept), size=(2999, len(kept)))
    differences = (tuned - base)[0, 1:-1]
    expected = np.quantile([mean_over_lengths(differences[draw], kept[draw]) for draw in draws], [0.025, 0.975])
    assert (found["low"], found["high"]) == pytest.approx(expected, abs=0.07 * np.ptp(expected))


def test_sentences_change_sides_with_the_weight_of_their_length():
    lengths = np.array([5, 5, 5, 5, 5, 9, 12])
    differences = np.array([0.1, 0.12, 0.09, 0.11, 0.1, 0.3, -0.25])
    base, tuned = (trees(values[None], lengths=lengths) for values in (0 * differences, differences))
    found = compare(OVER_LENGTHS, base, [tuned], MARGIN, Settings(resamples=19999))
    weighted = differences / [5, 5, 5, 5, 5, 1, 1]
    flipped = [abs(np.dot(signs, weighted)) >= weighted.sum() - 1e-12 for signs in product((-1, 1), repeat=7)]
    assert found["p"][0] == pytest.approx(np.mean(flipped), abs=0.01)


def test_seeds_and_runs_are_averaged_and_a_rise_is_found():
    lengths, values = np.tile(LENGTHS, 2), np.tile(drawn_trees(0), 2)
    runs = [trees(values + shift, 2, lengths) for shift in (0.09, 0.1, 0.11)]
    found = compare(OVER_LENGTHS, trees(values, 2, lengths), runs, MARGIN, MANY, stochastic=True)
    judged = control_false_discoveries(found.assign(metric="dspr"), MANY)
    np.testing.assert_allclose(found["difference"], 0.1)
    np.testing.assert_allclose(found["sd_tuning_run"], 0.01)
    np.testing.assert_allclose(found["sd_probe_seed"], 0.01, atol=1e-12)
    assert set(judged["verdict"]) == {"higher"} and (judged["runs"] == 3).all() and (judged["seeds"] == 2).all()


def test_values_that_are_not_defined_are_left_out_and_counted():
    base, tuned = trees(drawn_trees(0)), trees(drawn_trees(1))
    tuned.loc[3, "dspr"] = np.nan
    found = compare(OVER_LENGTHS, base, [tuned], MARGIN, FEW)
    assert (found["sentences"] == 16).all() and (found["dropped_items"] == 1).all()


def test_a_mean_of_values_is_in_their_own_unit():
    names = [f"s{i}" for i in range(40)]
    base = pd.DataFrame({"sentence": names, "layer": 2, "norm": np.linspace(3, 5, 40)})
    found = compare(Mean(column="norm"), base, [base.assign(norm=base["norm"] + 0.5)], 0.6, FEW)
    assert found[["base", "tuned", "difference"]].iloc[0].tolist() == pytest.approx([4.0, 4.5, 0.5])
    assert found["p_equivalence"][0] < 0.05, "within its own margin"
    assert (
        compare(Mean(column="norm"), base, [base.assign(norm=base["norm"] + 0.5)], 0.4, FEW)["p_equivalence"][0] > 0.5
    )


def test_a_table_without_the_column_is_refused():
    with pytest.raises(AnalysisError, match="no column 'right'"):
        compare(Share(column="right"), codes(drawn_bits(0)), [codes(drawn_bits(1))], MARGIN, FEW)


def test_a_place_that_was_scored_once_is_described_and_costs_the_others_nothing():
    rows = [{"sentence": f"s{s}", "word": 0, "subset": name, "probe_seed": seed, "correct": (s + seed) % 3 > 0}
            for name, seeds in (("all", 2), ("minimal", 1)) for seed in range(seeds) for s in range(60)]  # fmt: skip
    table = pd.DataFrame(rows)
    worse = table.assign(correct=table["correct"] & (table["sentence"].str[-1] > "4"))
    found = compare(Share(), table, [worse], MARGIN, FEW, stochastic=True, places=("subset",)).set_index("subset")
    assert found["p"].notna().to_dict() == {"all": True, "minimal": False}
    assert found["seeds"].to_dict() == {"all": 2, "minimal": 1} and (found["difference"] < -0.1).all()
