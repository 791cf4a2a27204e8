"""Code lengths of base and tuned: what the sentences save of the uniform code, in the columns of other comparisons."""

import numpy as np
import pandas as pd
import pytest

from vestige.comparison.codes import compare_codes
from vestige.comparison.differences import Settings, control_false_discoveries
from vestige.errors import AnalysisError

MANY = Settings(resamples=2999)
LABELS = np.array([3, 8, 1, 12, 5, 5, 9, 2, 7, 4, 6, 11] * 3)


def table(bits, labels=LABELS, names=("",)):
    """A table `codes` of labels of four classes from bits a label (subsets, layers, sentences)."""
    parts = [
        pd.DataFrame({"sentence": [f"s{i}" for i in range(len(labels))], "layer": layer if not name else -1,
                      "subset": name, "probe_seed": 0, "stochastic": False, "labels": labels, "uniform_bits": 2.0 * labels,
                      "bits": row * labels})
        for name, rows in zip(names, bits, strict=True)
        for layer, row in enumerate(rows)
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True).astype({"sentence": "category"})


def drawn(seed, layers=2, shift=0.0):
    return np.random.default_rng(seed).uniform(0.5, 1.5, size=(1, layers, len(LABELS))) + shift


def test_levels_are_the_share_of_the_uniform_code_that_is_saved():
    base, tuned = drawn(0), drawn(1)
    found = compare_codes(table(base), [table(tuned)], MANY)
    assert found["metric"].tolist() == ["saved", "saved"] and found["layer"].tolist() == [0, 1]
    for bits, side in ((base, "base"), (tuned, "tuned")):
        np.testing.assert_allclose(found[side], 1 - (bits[0] * LABELS).sum(1) / (2 * LABELS.sum()))
    np.testing.assert_allclose(found["difference"], found["tuned"] - found["base"])
    assert (found["words"] == LABELS.sum()).all() and (found["sentences"] == len(LABELS)).all()


def test_the_interval_is_that_of_the_ratio_on_drawn_sentences():
    base, tuned = drawn(0, 1), drawn(1, 1)
    found = compare_codes(table(base), [table(tuned)], MANY).iloc[0]
    draws = np.random.default_rng(5).integers(0, len(LABELS), size=(2999, len(LABELS)))
    saved = (base - tuned)[0, 0] * LABELS
    expected = np.quantile(saved[draws].sum(1) / (2 * LABELS[draws].sum(1)), [0.025, 0.975])
    assert (found["low"], found["high"]) == pytest.approx(expected, abs=0.07 * np.ptp(expected))


def test_the_same_code_is_equivalent_and_a_longer_one_is_lower():
    base = drawn(0, 1)
    same = compare_codes(table(base), [table(base)], MANY)
    assert same["difference"].tolist() == [0.0] and same["p"].tolist() == [1.0]
    longer = control_false_discoveries(compare_codes(table(base), [table(base + 0.3)] * 2, MANY), MANY)
    assert longer["verdict"].tolist() == ["lower"] and longer["difference"][0] == pytest.approx(-0.15)
    assert longer["runs"].tolist() == [2] and longer["sd_tuning_run"][0] == pytest.approx(0, abs=1e-12)


def test_mixes_are_compared_by_their_name_and_what_one_side_lacks_is_left_out():
    base = table(np.concatenate([drawn(0, 1), drawn(1, 1), drawn(2, 1)]), names=("", "mix", "top"))
    tuned = table(np.concatenate([drawn(3, 1), drawn(4, 1)]), names=("", "mix"))
    found = compare_codes(base, [tuned], MANY)
    assert found["subset"].fillna("").tolist() == ["", "mix"]
    assert found["layer"].isna().tolist() == [False, True]


def test_sentences_of_which_a_side_lost_labels_are_left_out_and_counted():
    """Both save half of what they send: nothing is to be told apart, however much one side could not read."""
    half = np.ones((1, 1, len(LABELS)))
    cut = np.minimum(LABELS, 6)
    found = compare_codes(table(half), [table(half, labels=cut)], MANY)
    kept = LABELS[LABELS <= 6]
    np.testing.assert_allclose(found[["base", "tuned", "difference"]], [[0.5, 0.5, 0.0]])
    assert found["words"].tolist() == [kept.sum()] and found["sentences"].tolist() == [len(kept)]
    assert found["dropped_items"].tolist() == [LABELS.sum() - kept.sum()]


def test_sentences_that_a_side_lacks_are_left_out():
    bits = drawn(2, layers=1)
    less = table(bits[:, :, :9], labels=LABELS[:9])
    found = compare_codes(table(bits), [less, less], MANY)
    assert found["difference"].tolist() == [0.0] and found["sentences"].tolist() == [9]


def test_sides_that_share_no_sentence_are_refused():
    bits = drawn(3, layers=1)
    with pytest.raises(AnalysisError, match="different sentences"):
        compare_codes(table(bits), [table(bits, labels=LABELS + 1)], MANY)
