"""The neuron analysis in a study: every number of the papers' tables is there, and twice the same."""

import numpy as np
import pandas as pd
import pytest
import tiny

from vestige.analyses.neuron_rankers import NeuronRankers
from vestige.errors import AnalysisError
from vestige.study.run import Study


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("neurons")
    tiny.save("bert", folder / "bert")
    raw = {
        "study": "neurons",
        "models": {"base": str(folder / "bert")},
        "corpora": {"trees": "treebank"},
        "analyses": [{"neurons": {"tasks": ["trees/upos"], "grid": [0.0, 1e-3], "step": 0.1, "retrained": [0.1]}}],
        "limit": 80,
    }
    return [Study.from_dict(raw, folder / name, cache=folder / f"{name} cache").run() for name in ("one", "two")]


ALL, BOTTOM, RETRAINED = ("all",), ("ablated", "bottom", "share", 0.2), ("retrained", "bottom", "share", 0.1)
HALF, TWO = ("minimal", "delta", 0.005), ("minimal", "delta", 0.02)


def places(rows):
    """Subset, side, axis and x of every row, as far as it has them."""
    used = rows[["subset", "side", "axis", "x"]].itertuples(index=False, name=None)
    return [tuple(value for value in row if not pd.isna(value)) for row in used]


def values(run, metric):
    rows = run.results[run.results["metric"] == metric]
    return dict(zip(places(rows), rows["value"], strict=True))


def test_the_grid_the_ablations_and_the_minimal_sets_are_reported(runs):
    search = runs[0].results[runs[0].results["metric"] == "search_score"]
    assert set(zip(search["x"], search["x2"], strict=True)) == {(a, b) for a in (0, 1e-3) for b in (0, 1e-3)}
    accuracy = values(runs[0], "accuracy")
    ablated = {("ablated", side, "share", 0.2) for side in ("top", "random", "bottom")}
    assert {ALL, RETRAINED, ("retrained", "top", "share", 0.1), HALF, TWO, *ablated} == {*accuracy}
    assert accuracy[ALL] > accuracy[BOTTOM]
    assert {*values(runs[0], "selectivity")} == {ALL, HALF, TWO}
    sizes = values(runs[0], "minimal_neurons")
    assert 0 < sizes[TWO] <= sizes[HALF] <= 128


def test_the_spread_counts_every_neuron_of_the_set_once(runs):
    spread = runs[0].results[runs[0].results["metric"] == "selected_neurons"]
    table = runs[0].tables.table("neurons", runs[0].results["cell"].iloc[0])
    for (*_, delta), size in values(runs[0], "minimal_neurons").items():
        assert spread[spread["x"] == delta]["value"].sum() == size == (table["delta"] >= delta).sum()
    assert sorted(spread["layer"].unique()) == [0, 1, 2, 3]


def test_the_ranking_is_kept_beside_the_rows(runs):
    table = runs[0].tables.table("neurons", runs[0].results["cell"].iloc[0])
    assert sorted(table["neuron"]) == list(range(128))
    np.testing.assert_array_equal(table["layer"] * 32 + table["unit"], table["neuron"])


def test_the_gap_and_the_overlap_of_a_refit_stand_beside_the_ranking(runs):
    rows = runs[0].results
    overlap = rows[rows["metric"] == "ranking_overlap"]
    assert set(overlap["x"]) == {0.05, 0.1, 0.005, 0.02} and overlap["value"].between(0, 1).all()
    assert {"optimality_gap", "refit_optimality_gap", "refit_objective"} <= set(rows["metric"])
    table = runs[0].tables.table("neurons", rows["cell"].iloc[0])
    assert sorted(table["refit"]) == list(range(128))
    first = table["refit"].head(13) < 13
    assert first.mean() == overlap.loc[overlap["x"] == 0.1, "value"].iloc[0]


def test_an_empty_cache_gives_the_same_bytes(runs):
    one, two = ((run.tables.folder / "results.parquet").read_bytes() for run in runs)
    assert one == two


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    tiny.save("bert", folder / "bert")
    tiny.save("bert", folder / "other", seed=1)
    neurons = {"l1": 1e-3, "l2": 1e-3, "step": 0.25, "retrained": [0.1], "deltas": [0.02], "control": False}
    few = {"shares": [0.1], "rankers": ["probe", "probeless", "random"]}
    raw = {
        "study": "compared",
        "models": {"base": str(folder / "bert"), "tuned": {"load": str(folder / "other"), "reference": "base"}},
        "corpora": {"trees": "treebank"},
        "analyses": [
            {"neurons": {"tasks": ["trees/upos"], **neurons}},
            {"neuron_rankers": {"tasks": ["trees/upos"], **few}},
            {"neuron_redundancy": {"tasks": ["trees/upos"], "correlation": [0.8, 0.4], "step": 0.25}},
        ],
        "limit": 60,
    }
    return Study.from_dict(raw, folder / "run", cache=folder / "cache").run()


def test_probes_on_neurons_are_compared_on_the_same_words(compared):
    rows = compared.comparisons[compared.comparisons["analysis"] == "neurons"]
    assert {ALL, BOTTOM, RETRAINED, TWO} <= set(places(rows))
    results = compared.results[compared.results["analysis"] == "neurons"]
    results = results[results["metric"].isin(["accuracy", "refit_accuracy"])]
    means = results.assign(place=places(results)).groupby(["model", "place"])["value"].mean()
    for place, difference in zip(places(rows), rows["difference"], strict=True):
        assert difference == pytest.approx(means["tuned", place] - means["base", place])
    judged = rows[rows["seeds"] == 2]
    assert {ALL, BOTTOM, RETRAINED} <= set(places(judged))
    assert judged["sd_probe_seed"].gt(0).any() and not judged["verdict"].eq("described").any()


def test_probes_that_are_trained_once_are_described_and_not_judged(compared):
    rows = compared.comparisons
    once = rows["analysis"].isin(["neuron_rankers", "neuron_redundancy"]) | (rows["subset"] == "minimal")
    assert once.sum() > 3 and set(rows.loc[once, "verdict"]) == {"described"}


def test_the_shift_of_the_spread_is_in_the_tables(compared):
    changes = compared.tables.neuron_changes
    tops = changes[(changes["selection"] == "top") & (changes["axis"] == "share")]
    assert set(tops["x"]) == {0.05, 0.1}
    assert set(changes.loc[changes["selection"] == "minimal", "x"]) == {0.02}
    assert {"earth_mover", "entered", "left", "stayed", "share_change"} <= set(changes["statistic"])
    tenth = tops[tops["x"] == 0.1].drop_duplicates("statistic").set_index("statistic")["value"]
    assert tenth["entered"] == tenth["left"] > 0
    beyond = changes[changes["statistic"] == "left_beyond_refit"]
    assert (beyond["low"] <= beyond["value"]).all() and {0.05, 0.1} <= set(beyond["x"])
    assert changes.loc[changes["statistic"] == "left", ["refit_base", "refit_tuned"]].notna().all(axis=None)


@pytest.mark.parametrize("analysis", ["neurons", "neuron_rankers", "neuron_redundancy"])
def test_every_analysis_that_ranks_reports_its_gap_and_a_refit(compared, analysis):
    rows = compared.results[compared.results["analysis"] == analysis]
    for metric in ("optimality_gap", "refit_optimality_gap", "ranking_overlap"):
        assert set(rows.loc[rows["metric"] == metric, "model"]) == {"base", "tuned"}


def test_the_explorer_shows_the_best_neurons(compared):
    explorers = compared.tables.kept("explorer")
    assert len(explorers) == 2
    for cell, shown in explorers.items():
        ranked = compared.tables.table("neurons", cell)["neuron"].head(len(shown))
        np.testing.assert_array_equal(shown["neuron"], ranked)
        assert all(f'"id": {neuron}' in data for neuron, data in zip(shown["neuron"], shown["data"], strict=True))


def test_rankers_are_paired_and_their_tops_scored(compared):
    rows = compared.results[(compared.results["analysis"] == "neuron_rankers") & (compared.results["model"] == "base")]
    spearman = rows[rows["metric"] == "agreement_spearman"].set_index(["subset", "subset2"])["value"]
    assert set(spearman.index) == {("probe", "probeless"), ("probe", "random"), ("probeless", "random")}
    assert spearman["probe", "probeless"] > spearman["probe", "random"]
    accuracy = rows[rows["metric"] == "accuracy"].set_index(["subset", "side", "x"])["value"]
    assert accuracy["probe", "top", 0.1] > accuracy["random", "top", 0.1]


def test_looser_correlation_makes_fewer_clusters(compared):
    rows = compared.results[
        (compared.results["analysis"] == "neuron_redundancy") & (compared.results["model"] == "base")
    ]
    whole = rows[(rows["metric"] == "clusters") & rows["layer"].isna()].set_index("x")["value"]
    assert 0 < whole[0.4] < whole[0.8] <= 128
    within = rows[(rows["metric"] == "clusters") & rows["layer"].notna() & (rows["x"] == 0.4)]
    assert within["value"].sum() >= whole[0.4]
    minimal = rows[rows["metric"] == "minimal_neurons"]
    found = zip(minimal["subset"], minimal["axis2"].fillna(""), minimal["x2"].fillna(0), strict=True)
    representatives = {("representatives", "correlation", least) for least in (0.8, 0.4)}
    assert set(found) == {("all", "", 0), *representatives}


def test_an_unknown_ranker_is_named(tmp_path):
    with pytest.raises(AnalysisError, match="no ranker 'best'"):
        NeuronRankers(rankers=("best",))


def test_neuroxs_form_of_the_penalty_is_another_objective(compared, tmp_path):
    lock = compared.tables.lock["spec"]
    assert lock["analyses"][0]["parameters"]["form"] == "squared"
    tiny.save("bert", tmp_path / "bert")
    options = {"l1": 1e-3, "l2": 1e-1, "form": "norm", "step": 0.5, "retrained": [], "control": False, "explored": 0}
    raw = {
        "study": "norm",
        "models": {"base": str(tmp_path / "bert")},
        "corpora": {"trees": "treebank"},
        "analyses": [{"neurons": {"tasks": ["trees/upos"], **options}}],
        "limit": 40,
    }
    metrics = set(Study.from_dict(raw, tmp_path / "run", cache=tmp_path / "cache").run().results["metric"])
    assert "objective" in metrics
    assert "optimality_gap" not in metrics
