"""Differences whose error has several sources: intervals cover, tests find nothing where nothing is."""

import numpy as np
import pandas as pd
import pytest
from compared import compare_items

from vestige.comparison.differences import Settings, control_false_discoveries
from vestige.comparison.uncertainty import Scores, judge_differences

SENTENCES, WORDS = 120, 10
TRIALS = 300


def experiment(rng, *, difference=0.0, sd_seed=0.02, sd_run=0.0, seeds=3, runs=1):
    """Scores and bootstrap distribution of one made-up comparison: the errors of all sources are known."""
    sd_sentence = 0.15
    sentences = rng.normal(0, sd_sentence, size=SENTENCES)
    draws = rng.integers(0, SENTENCES, size=(400, SENTENCES))
    of_sentences = sentences.mean()
    base = 0.8 + rng.normal(0, sd_seed, size=(1, seeds))
    tuned = (
        0.8 + difference + of_sentences + rng.normal(0, sd_run, (runs, 1, 1)) + rng.normal(0, sd_seed, (runs, 1, seeds))
    )
    distribution = tuned.mean() - base.mean() + (sentences[draws].mean(1) - of_sentences)[:, None]
    return Scores(base, tuned, stochastic=True), distribution


@pytest.mark.parametrize(
    ("sources", "enough"),
    [
        ({"sd_seed": 0.02}, 0.92),
        ({"sd_seed": 0.002}, 0.92),
        ({"sd_seed": 0.02, "runs": 3, "sd_run": 0.03}, 0.92),
        ({"sd_seed": 0.02, "runs": 3, "sd_run": 0.03, "seeds": 2}, 0.92),
    ],
)
def test_intervals_cover_and_tests_hold_their_level(sources, enough):
    rng = np.random.default_rng(0)
    covered, found = 0, 0
    for _ in range(TRIALS):
        scores, distribution = experiment(rng, difference=0.03, **sources)
        low, high, *_ = judge_differences(
            scores, distribution, SENTENCES, lambda: np.ones(1), confidence=0.95, margin=0.005
        )
        covered += low[0] <= 0.03 <= high[0]
        scores, distribution = experiment(rng, **sources)
        _, _, p, _ = judge_differences(
            scores, distribution, SENTENCES, lambda: np.ones(1), confidence=0.95, margin=0.005
        )
        found += p[0] <= 0.05
    assert covered / TRIALS >= enough
    assert found / TRIALS <= 0.08


def items(rng, seeds, right=0.8, layers=1):
    """Items of a probe that gets a share of the words right, each seed by itself."""
    rows = [
        {"sentence": f"s{s}", "word": w, "subset": "task", "layer": layer, "probe_seed": seed,
         "correct": bool(rng.random() < right)}
        for layer in range(layers) for seed in range(seeds) for s in range(30) for w in range(5)
    ]  # fmt: skip
    return pd.DataFrame(rows)


FEW = Settings(resamples=199)


def test_one_seed_of_a_probe_that_depends_on_it_is_described_only():
    rng = np.random.default_rng(1)
    one, other, several = items(rng, 1), items(rng, 1, 0.2), items(rng, 2, 0.2)
    for tuned, known in (([other], False), ([several], False), ([other, items(rng, 1, 0.2)], False)):
        found = compare_items(one, tuned, FEW, stochastic=True)
        assert found["p"].notna().all() == known and found[["low", "high", "p_equivalence"]].isna().all(axis=None)
        assert control_false_discoveries(found, FEW)["verdict"].tolist() == ["described"]
    judged = control_false_discoveries(compare_items(items(rng, 2), [several], FEW, stochastic=True), FEW)
    assert judged["verdict"].tolist() == ["lower"]
    assert control_false_discoveries(compare_items(one, [other], FEW), FEW)["verdict"].tolist() == ["lower"]


def test_runs_stand_for_the_seeds_of_their_probes():
    rng = np.random.default_rng(2)
    found = compare_items(items(rng, 2), [items(rng, 1, 0.3), items(rng, 1, 0.3)], FEW, stochastic=True)
    assert found["p"].iloc[0] < 0.05


def test_described_differences_do_not_count_among_the_tests():
    rng = np.random.default_rng(3)
    tested = compare_items(items(rng, 2), [items(rng, 2, 0.7)], FEW, stochastic=True)
    described = pd.concat([tested.assign(p=np.nan, p_equivalence=np.nan)] * 20)
    both = control_false_discoveries(pd.concat([tested, described], ignore_index=True), FEW)
    alone = control_false_discoveries(tested, FEW)
    assert both["q"].iloc[0] == alone["q"].iloc[0] == tested["p"].iloc[0]


def test_unchanged_is_controlled_for_how_often_it_is_asked():
    """One small p of equivalence among forty: alone it is 'unchanged', among the forty it is not."""
    table = pd.DataFrame({"metric": "accuracy", "p": 0.9, "difference": 0.0, "p_equivalence": [0.04] + [0.9] * 39})
    judged = control_false_discoveries(table)
    assert judged["verdict"].iloc[0] == "undecided" and judged["q_equivalence"].iloc[0] > 0.05
    assert control_false_discoveries(table.head(1))["verdict"].tolist() == ["unchanged"]


def test_what_is_shown_to_lie_within_the_margin_is_unchanged_though_it_is_significant():
    table = pd.DataFrame({"metric": "saved", "p": [1e-4], "difference": [1e-4], "p_equivalence": [1e-4]})
    assert control_false_discoveries(table)["verdict"].tolist() == ["unchanged"]


def test_rounding_is_no_difference():
    """Codes of a rotated copy differ in the last digits, and all in one direction."""
    rng = np.random.default_rng(6)
    base = items(rng, 1).assign(correct=rng.uniform(3, 9, size=150))
    again = base.assign(correct=base["correct"] * (1 + 1e-6))
    found = compare_items(base, [again], FEW)
    assert found["p"].tolist() == [1.0] and found["difference"].tolist() == [0.0]


def test_an_item_that_one_layer_lacks_is_left_out_of_all_and_counted():
    """The last item must not stand in for one that is not there."""
    rng = np.random.default_rng(4)
    base, tuned = items(rng, 1, layers=2), items(rng, 1, layers=2)
    lacking = (tuned["layer"] == 1) & (tuned["sentence"] == "s0") & (tuned["word"] == 0)
    found = compare_items(base, [tuned[~lacking]], FEW)
    kept = ~((base["sentence"] == "s0") & (base["word"] == 0))
    expected = compare_items(base[kept], [tuned[kept]], FEW)
    assert found["dropped_items"].tolist() == [1, 1] and (found["items"] == 149).all()
    pd.testing.assert_frame_equal(found.drop(columns="dropped_items"), expected.drop(columns="dropped_items"))


def test_what_only_raw_vectors_show_is_no_finding():
    rng = np.random.default_rng(5)
    raw = [items(rng, 3), items(rng, 3, 0.5)]
    same = items(rng, 3).assign(subset="standardised")
    lower = items(rng, 3, 0.5).assign(subset="standardised")
    only_raw = compare_items(pd.concat([raw[0], same]), [pd.concat([raw[1], same])], FEW, stochastic=True)
    both = compare_items(pd.concat([raw[0], same]), [pd.concat([raw[1], lower])], FEW, stochastic=True)
    opposed = compare_items(pd.concat([raw[0], lower]), [pd.concat([raw[1], same])], FEW, stochastic=True)
    assert [table["p"].iloc[0] < 0.05 for table in (only_raw, both, opposed)] == [False, True, False]
    assert only_raw["difference"].iloc[0] == both["difference"].iloc[0] < -0.2
    assert set(both["metric"]) == {"accuracy", "accuracy_standardised"}
    control = items(rng, 3, 0.9).assign(subset="control")
    beside = compare_items(
        pd.concat([raw[0], same, control]), [pd.concat([raw[1], lower, control])], FEW, stochastic=True
    ).set_index("metric")
    assert np.isnan(beside.loc["selectivity", "p"]) and beside.loc["selectivity", "difference"] < -0.2
    assert beside.loc["accuracy", "p"] < 0.05
