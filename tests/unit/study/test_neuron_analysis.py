"""The neuron analysis in a study: every number of the papers' tables is there, and twice the same."""

import numpy as np
import pytest
import tiny

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


def test_an_empty_cache_gives_the_same_bytes(runs):
    one, two = ((run.tables.folder / "results.parquet").read_bytes() for run in runs)
    assert one == two
