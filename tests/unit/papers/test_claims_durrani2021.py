"""Every statement of Durrani et al. 2021 on planted tables: true, false, and not to be told."""

from dataclasses import replace
from functools import cache

import planted
import pytest

from vestige.papers.durrani2021 import claims
from vestige.papers.durrani2021.claims import ALL, BOTTOM, KEEPING, STATEMENTS, TIGHT, largest_disagreement

PLACES = (("ewt", "xpos"), ("conll2000", "chunk"), ("pmb", "semtag"))
TUNED = {role: f"{role}/{role}" for role in ("sst2", "mnli", "qnli", "rte", "mrpc", "stsb")}
PROTOCOLS = {"converged": "c", "durrani": "d"}
PARAMETERS = {
    "layer_probe": {params: {"protocol": name} for name, params in PROTOCOLS.items()},
    "neurons": {"p": {"l1": 1e-3}, "searched": {"l1": None}},
}


@cache
def side(true: bool, spread: float = 0.001, runs: int = 3, base: int = 3):
    """Tuned models that lose in the upper layers and move their neurons down, or the other way round."""
    sign = 1 if true else -1
    records, found = [], []
    for corpus, task in PLACES:
        for model in ("base", *TUNED):
            fixed = {"corpus": corpus, "task": task, "model": model, "analysis": "neurons"}
            several = base if model == "base" else runs
            tuned = model != "base"

            def add(metric, value, noise=spread, fixed=fixed, several=several, **place):
                records.extend(planted.seeds(planted.around(value, noise, several), **fixed, metric=metric, **place))

            add("accuracy", 0.95, **ALL)
            add("accuracy", 0.9 - 0.1 * sign * tuned, **BOTTOM)
            for layer in range(7):
                add("selected_neurons", 100.0 if layer == 3 - sign * tuned else 1.0, 10 * spread, layer=layer, **TIGHT)
            for params in PROTOCOLS.values():
                for layer in range(7):
                    lost = {5: 0.02, 6: 0.02 if model in KEEPING else 0.2}.get(layer, 0.0) if tuned else 0.0
                    values = planted.around(0.9 - sign * lost, spread, several)
                    seeded = "tune_seed" if tuned else "probe_seed"
                    for seed, value in enumerate(values):
                        where = {"probe_seed": 0, "tune_seed": None, seeded: seed}
                        records.append({**fixed, "analysis": "layer_probe", "params": params, "metric": "accuracy",
                                        "layer": layer, "value": value, **where})  # fmt: skip
                    if tuned:
                        found.append(planted.change(-sign * lost, 0.01 if lost else 0.02, model=model, corpus=corpus,
                                                    task=task, analysis="layer_probe", params=params,
                                                    metric="accuracy", layer=layer))  # fmt: skip
    for name in TUNED:
        where = {"analysis": "pruning", "corpus": name, "task": name, "model": "base"}
        for part, value in (("all", 0.9), ("top", 0.8), ("bottom", 0.8 - 0.2 * sign)):
            for seed, score in enumerate(planted.around(value, spread, runs)):
                records.append({**where, "metric": "accuracy", "side": part, "probe_seed": seed, "value": score,
                                "low": score - 0.01, "high": score + 0.01})  # fmt: skip
        records.append({**where, "metric": "majority", "subset": "accuracy", "value": 0.5})
    return planted.observed(
        planted.rows(records), planted.changes(found), tuned=TUNED, parameters=PARAMETERS, runs=runs
    )  # fmt: skip


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: one.name)
def test_a_statement_agrees_differs_or_cannot_be_told(statement):
    assert statement.test(side(True)).verdict == "agrees"
    assert statement.test(side(False)).verdict == "differs"
    assert statement.test(side(True, spread=1.0)).verdict == "cannot be told"


@pytest.mark.parametrize("name", ["bottom_neurons", "shift_down"])
def test_one_ranking_of_the_base_model_decides_nothing(name):
    claim = getattr(claims, name)(side(True, base=1))
    assert claim.verdict == "cannot be told" and claims.ONE_RANKING in claim.note


def test_pruned_models_that_were_tuned_once_decide_nothing():
    claim = claims.pruned(side(True, runs=1))
    assert claim.verdict == "cannot be told" and not any(part.estimate.known for part in claim.parts)


def test_counts_of_significant_cells_decide_nothing():
    """Their difference has no test: the claim goes by the contrast of changes and names the counts beside it."""
    claim = claims.upper_layers(side(True), "converged")
    assert "Significant losses" in claim.note and [part.what for part in claim.parts] == [
        "upper layers", "upper minus lower",
    ]  # fmt: skip


def test_a_run_without_a_group_of_tasks_cannot_tell_it_from_the_other():
    whole = side(True)
    few = planted.observed(
        whole.results[whole.results["model"].isin(["base", "sst2"])],
        whole.comparisons[whole.comparisons["model"] == "sst2"],
        tuned={"sst2": "sst2/sst2"},
        parameters=PARAMETERS,
    )
    assert claims.tasks_differ(few, "converged").verdict == "cannot be told"


def test_protocols_that_agree_are_not_said_to_differ():
    same = side(True)
    assert "of one direction; whether they differ in size is not tested" in largest_disagreement(same)
    unsure = replace(same, comparisons=same.comparisons.assign(q=0.2))
    assert "Not both of these are significant" in largest_disagreement(unsure)
    turned = same.comparisons["difference"].where(same.comparisons["params"] == "c", -same.comparisons["difference"])
    assert "The answer depends on the probe" in largest_disagreement(
        replace(same, comparisons=same.comparisons.assign(difference=turned))
    )


def test_the_largest_loss_is_not_called_the_largest_difference():
    """A gain may be larger; a loss within the margin counts where it is significant."""
    whole = side(True)
    gains = whole.comparisons["layer"] == 0
    found = whole.comparisons.assign(
        difference=whole.comparisons["difference"].mask(gains, 0.9), verdict="unchanged", q=0.01
    )
    note = claims.upper_layers(replace(whole, comparisons=found), "converged").note
    assert "Largest loss: POS, layer 6" in note and "Largest difference" not in note
    assert "Significant losses after correction: 36 of 54 upper and 0 of 72 lower" in note
