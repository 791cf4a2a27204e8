"""The neuron analysis in a study: every number of the papers' tables is there, and twice the same."""

import numpy as np
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


def values(run, metric):
    rows = run.results[run.results["metric"] == metric]
    return dict(zip(rows["subset"].fillna(""), rows["value"], strict=True))


def test_the_grid_the_ablations_and_the_minimal_sets_are_told(runs):
    assert (runs[0].results["metric"] == "search_score").sum() == 4
    accuracy = values(runs[0], "accuracy")
    assert {"all", "top 20% kept", "random 20% kept", "bottom 20% kept", "top 10% retrained", "minimal within 2"} <= {
        *accuracy
    }
    assert accuracy["all"] > accuracy["bottom 20% kept"]
    assert {*values(runs[0], "selectivity")} == {"all", "minimal within 0.5", "minimal within 2"}
    sizes = values(runs[0], "minimal_neurons")
    assert 0 < sizes["minimal within 2"] <= sizes["minimal within 0.5"] <= 128


def test_the_spread_counts_every_neuron_of_the_set_once(runs):
    spread = runs[0].results[runs[0].results["metric"] == "selected_neurons"]
    for subset, size in values(runs[0], "minimal_neurons").items():
        assert spread[spread["subset"] == subset]["value"].sum() == size
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
    rows = compared.comparisons[compared.comparisons["analysis"] == "neurons"].set_index("subset")
    assert {"all", "top 20% kept", "bottom 10% retrained", "minimal within 2"} <= set(rows.index)
    results = compared.results[compared.results["analysis"] == "neurons"]
    told = results[results["metric"].isin(["accuracy", "refit_accuracy"])].groupby(["model", "subset"])["value"].mean()
    for subset, row in rows.iterrows():
        assert row["difference"] == pytest.approx(told["tuned", subset] - told["base", subset])
    judged = rows[rows["seeds"] == 2]
    assert {"all", "top 20% kept", "bottom 10% retrained"} <= set(judged.index)
    assert judged["sd_probe_seed"].gt(0).any() and not judged["verdict"].eq("described").any()


def test_probes_that_are_trained_once_are_described_and_not_judged(compared):
    rows = compared.comparisons
    once = rows["analysis"].isin(["neuron_rankers", "neuron_redundancy"]) | rows["subset"].str.startswith("minimal")
    assert once.sum() > 3 and set(rows.loc[once, "verdict"]) == {"described"}


def test_the_shift_of_the_spread_is_in_the_tables(compared):
    changes = compared.tables.neuron_changes
    assert set(changes["selection"]) == {"minimal within 2", "top 5%", "top 10%"}
    assert {"earth_mover", "entered", "left", "stayed", "share_change"} <= set(changes["statistic"])
    entered = changes[(changes["statistic"] == "entered") & (changes["selection"] == "top 10%")]["value"].iloc[0]
    left = changes[(changes["statistic"] == "left") & (changes["selection"] == "top 10%")]["value"].iloc[0]
    assert entered == left > 0
    beyond = changes[changes["statistic"] == "left_beyond_refit"].set_index("selection")
    assert (beyond["low"] <= beyond["value"]).all() and {"top 5%", "top 10%"} <= set(beyond.index)
    assert changes.loc[changes["statistic"] == "left", ["refit_base", "refit_tuned"]].notna().all(axis=None)


@pytest.mark.parametrize("analysis", ["neurons", "neuron_rankers", "neuron_redundancy"])
def test_every_analysis_that_ranks_reports_its_gap_and_a_refit(compared, analysis):
    rows = compared.results[compared.results["analysis"] == analysis]
    for metric in ("optimality_gap", "refit_optimality_gap", "ranking_overlap"):
        assert set(rows.loc[rows["metric"] == metric, "model"]) == {"base", "tuned"}


def test_the_explorer_shows_the_best_neurons(compared):
    assert len(compared.tables.explorers) == 2
    for cell, shown in compared.tables.explorers.items():
        ranked = compared.tables.table("neurons", cell)["neuron"].head(len(shown))
        np.testing.assert_array_equal(shown["neuron"], ranked)
        assert all(f'"id": {neuron}' in data for neuron, data in zip(shown["neuron"], shown["data"], strict=True))


def test_rankers_are_paired_and_their_tops_scored(compared):
    rows = compared.results[(compared.results["analysis"] == "neuron_rankers") & (compared.results["model"] == "base")]
    spearman = rows[rows["metric"] == "agreement_spearman"].set_index("subset")["value"]
    assert set(spearman.index) == {"probe & probeless", "probe & random", "probeless & random"}
    assert spearman["probe & probeless"] > spearman["probe & random"]
    accuracy = rows[rows["metric"] == "accuracy"].set_index("subset")["value"]
    assert accuracy["probe top 10%"] > accuracy["random top 10%"]


def test_looser_correlation_makes_fewer_clusters(compared):
    rows = compared.results[
        (compared.results["analysis"] == "neuron_redundancy") & (compared.results["model"] == "base")
    ]
    whole = rows[(rows["metric"] == "clusters") & rows["layer"].isna()].set_index("x")["value"]
    assert 0 < whole[0.4] < whole[0.8] <= 128
    within = rows[(rows["metric"] == "clusters") & rows["layer"].notna() & (rows["x"] == 0.4)]
    assert within["value"].sum() >= whole[0.4]
    assert set(rows[rows["metric"] == "minimal_neurons"]["subset"]) == {
        "all neurons",
        "representatives at 0.8",
        "representatives at 0.4",
    }


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
