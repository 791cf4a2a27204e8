"""Analyses of neurons on made-up representations: what they declare under their parameters is what they report."""

from dataclasses import replace

import declared
import numpy as np
import pytest
import synthetic

from vestige.analyses.neuron_rankers import NeuronRankers
from vestige.analyses.neuron_redundancy import NeuronRedundancy
from vestige.analyses.neurons import NeuronAnalysis

PENALTIES = {"l1": 1e-3, "l2": 1e-3}
SMALL = {**PENALTIES, "step": 0.5, "explored": 2}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    sizes = (("train", 20), ("dev", 6), ("test", 6))
    made = synthetic.corpus(np.random.default_rng(0), sizes=sizes, types=20, labels=3)
    return synthetic.represent(tmp_path_factory.mktemp("neurons"), made, synthetic.label_vector)


@pytest.mark.parametrize(
    "settings",
    [
        SMALL,
        {**SMALL, "retrained": (), "deltas": (), "control": False},
        {**SMALL, "form": "norm", "control": False},
        {"step": 0.5, "grid": (1e-3, 1e-2), "control": False},
    ],
    ids=["fixed", "bare", "norm", "searched"],
)
def test_neurons(inputs, settings):
    analysis = NeuronAnalysis(**settings)
    given = {metric.name for metric in analysis.given}
    assert ("search_score" in given) == ("grid" in settings)
    assert ("minimal_neurons" in given) == bool(analysis.deltas)
    assert ("selectivity" in given) == analysis.control
    outcome = declared.run(analysis, inputs)
    assert ("optimality_gap" in outcome.absent) == ("form" in settings)


def test_items_and_the_table_of_neurons_say_where_they_belong(inputs):
    outcome = NeuronAnalysis(**SMALL, control=False, deltas=(0.005, 0.5)).run(inputs)
    assert list(outcome.items) == ["sentence", "word", "subset", "side", "axis", "x", "probe_seed", "correct"]
    sizes = {row["x"]: row["value"] for row in outcome.rows if row["metric"] == "minimal_neurons"}
    delta = outcome.tables["neurons"]["delta"]
    assert {limit: (delta >= limit).sum() for limit in sizes} == sizes
    assert np.isnan(delta).sum() == len(delta) - sizes[0.005]


def test_a_baseline_has_no_control_task_of_its_own(inputs):
    outcome = declared.run(NeuronAnalysis(**SMALL, deltas=()), replace(inputs, baseline=True))
    assert outcome.absent["selectivity"] == "a baseline has no control task of its own"


@pytest.mark.parametrize("rankers", [("probe", "probeless", "random"), ("probeless", "random"), ("probe",)])
def test_rankers(inputs, rankers):
    outcome = declared.run(NeuronRankers(rankers=rankers, shares=(0.25,), **PENALTIES), inputs)
    pairs = {(row["subset"], row["subset2"]) for row in outcome.rows if row["metric"] == "agreement_overlap"}
    assert len(pairs) == len(rankers) * (len(rankers) - 1) / 2


def test_redundancy(inputs):
    outcome = declared.run(NeuronRedundancy(correlation=(0.9, 0.2), step=0.5, **PENALTIES), inputs)
    clusters = [row for row in outcome.rows if row["metric"] == "clusters" and row["x"] == 0.2]
    assert [row.get("layer") for row in clusters] == [None, 0, 1, 2]
    minimal = [(row["subset"], row.get("x2")) for row in outcome.rows if row["metric"] == "minimal_neurons"]
    assert minimal == [("all", None), ("representatives", 0.9), ("representatives", 0.2)]
