"""What the paper says of layers, neurons and pruned models, each statement a test over the tables of a run."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from vestige.papers.durrani2021.contrast import (
    PROPERTIES,
    TITLES,
    changes_of,
    contrast,
    params_of,
    weights_of,
)
from vestige.papers.lookup import ALPHA, ENDS, SEEDS, one, pick
from vestige.papers.observed import Observed
from vestige.papers.paper import Statement
from vestige.papers.verdicts import Claim, Estimate, Part
from vestige.report.wording import layer, listing

KEEPING, FORGETTING = ("stsb", "rte", "mrpc"), ("sst2", "qnli", "mnli")
"""Tasks whose models keep linguistic knowledge in the upper layers, and whose models forget it there (the paper)."""
ALL: dict[str, Any] = {"subset": "all"}
TIGHT: dict[str, Any] = {"subset": "minimal", "x": 0.005}
BOTTOM: dict[str, Any] = {"subset": "retrained", "side": "bottom", "x": 0.05}
"""Where rows of all neurons, of the minimal sets and of the bottom neurons lie."""
PROTOCOLS = {
    "converged": "trained to the certified optimum",
    "durrani": "ten epochs of Adam without scaling, as the paper's",
}
FIXED = 1e-3
"""The penalty l1 of the analyses that compare base and tuned models, the same for all of them."""


def upper_layers(side: Observed, protocol: str) -> Claim:
    """Section 4.1."""
    says = (
        f"Linguistic knowledge is lost in the upper layers rather than the lower ones. (Probes {PROTOCOLS[protocol]}.)"
    )
    params, tuned = params_of(side, protocol), side.tuned(TITLES)
    if params is None or not tuned:
        return Claim(says, [], note="There are no such probes in this run.")
    changes = changes_of(side, params)
    numbers = np.sort(changes["layer"].unique())
    upper = pd.Series(numbers > numbers.max() / 2, index=numbers)
    weights = {
        "upper layers": upper / upper.sum(),
        "upper minus lower": upper / upper.sum() - ~upper / (~upper).sum(),
    }
    alike = dict.fromkeys(tuned, 1 / len(tuned))
    parts = [Part(what, contrast(side, params, weights_of(alike, layers)), below=0) for what, layers in weights.items()]
    worst = changes.loc[changes["difference"].idxmin()]
    return Claim(
        says,
        parts,
        lead="Mean change",
        decimals=2,
        note=f"{_counted(changes, upper)}{'Largest loss' if worst['difference'] < 0 else 'No loss; smallest gain'}: "
        f"{place_of(side, worst)}: "
        f"{Estimate.of_row(worst).times(100).text()} points.",
    )


def _counted(changes: pd.DataFrame, upper: pd.Series) -> str:
    """Significant losses in the upper and the lower layers: a count, which the test above does not go by."""
    if (changes["verdict"] == "described").all():
        return ""
    above = changes["layer"].map(upper)
    lost = (changes["q"] <= ALPHA) & (changes["difference"] < 0)
    fallen = [int(lost[above == half].sum()) for half in (True, False)]
    return (
        f"Significant losses after correction: {fallen[0]} of {int(above.sum())} upper and {fallen[1]} of "
        f"{int((~above).sum())} lower comparisons. "
    )


def place_of(side: Observed, row: pd.Series) -> str:
    """'SEM, layer 6, tuned on STS-B'."""
    places = side.places(PROPERTIES, "layer_probe")
    name = next(title for title, place in places.items() if place == (row["corpus"], row["task"]))
    return f"{name}, {layer(int(row['layer']))}, tuned on {side.tuned(TITLES)[row['model']]}"


def tasks_differ(side: Observed, protocol: str) -> Claim:
    """Section 4.1."""
    says = (
        "Tuned on STS-B, RTE and MRPC, models keep the knowledge in their upper layers; on SST-2, QNLI and MNLI they "
        f"forget it there. (Probes {PROTOCOLS[protocol]}.)"
    )
    params, tuned = params_of(side, protocol), side.tuned(TITLES)
    keeping, forgetting = ([role for role in roles if role in tuned] for roles in (KEEPING, FORGETTING))
    if params is None or not keeping or not forgetting:
        return Claim(says, [], note="This run has no model of one of these groups.")
    numbers = np.sort(changes_of(side, params)["layer"].unique())
    last = pd.Series((numbers == numbers.max()).astype(float), index=numbers)
    each = {role: contrast(side, params, weights_of({role: 1.0}, last)) for role in tuned}
    forgotten = contrast(side, params, weights_of(dict.fromkeys(forgetting, 1 / len(forgetting)), last))
    sides = dict.fromkeys(keeping, 1 / len(keeping)) | dict.fromkeys(forgetting, -1 / len(forgetting))
    ahead = contrast(side, params, weights_of({role: sides[role] for role in tuned if role in sides}, last))
    names = [listing([tuned[role] for role in group]) for group in (forgetting, keeping)]
    order = sorted(each, key=lambda role: -each[role].value)
    return Claim(
        says,
        [Part(names[0], forgotten, below=0), Part(f"{names[1]} minus these", ahead, above=0)],
        lead="Mean change of the last layer over the properties",
        note="By task: " + ", ".join(f"{tuned[role]} {100 * each[role].value:+.1f}" for role in order) + ". "
        + _training_sizes(side, tuned),
    )  # fmt: skip


def _training_sizes(side: Observed, tuned: dict[str, str]) -> str:
    """How far the size of the training set may play a role."""
    spec = side.lock["spec"]["models"]
    sizes = {role: side.sizes(spec[role]["finetune"]["task"].partition("/")[0])["train"] for role in tuned}
    if max(sizes.values()) <= 1.3 * min(sizes.values()):
        return (
            f"All runs saw about as many examples ({min(sizes.values()):,} to {max(sizes.values()):,}), so the size of "
            "the training set, which differs between these tasks in the paper, plays no role here."
        )
    return "Training sets differ in size: " + ", ".join(f"{tuned[role]} {size:,}" for role, size in sizes.items()) + "."


def fixed_settings(side: Observed) -> pd.DataFrame:
    """The results on neurons under the penalties that are the same for every model."""
    rows = pick(side.results, analysis="neurons")
    return rows[rows["params"].isin(side.settings("neurons", l1=FIXED))]


ONE_RANKING = (
    "The neurons of the base model were ranked once, and what another ranking of the same model would change is not "
    "known: these numbers decide nothing."
)


def _over_runs(rows: pd.DataFrame, measure: Callable[[pd.DataFrame], float]) -> list[float]:
    """A measure in every run and under every seed of the probes."""
    return [measure(run) for _, run in rows.groupby(SEEDS, dropna=False)]


def _against_base(side: Observed, measure: Callable[[pd.DataFrame], float]) -> dict[tuple[str, str], Estimate]:
    """By property and tuned model, a measure minus that of the base model; with an interval where both have runs."""
    rows, found = fixed_settings(side), {}
    for name, (corpus, task) in side.places(PROPERTIES, "neurons").items():
        mine = pick(rows, corpus=corpus, task=task)
        base = Estimate.of_runs(_over_runs(pick(mine, model="base"), measure))
        for role in side.tuned(TITLES):
            found[name, role] = Estimate.of_runs(_over_runs(pick(mine, model=role), measure)) - base
    return found


def _rankings(side: Observed) -> str:
    rows = pick(fixed_settings(side), model="base")
    return ONE_RANKING if len(rows[SEEDS].drop_duplicates()) < 2 else "Intervals are over rankings and tuning runs."


def bottom_neurons(side: Observed) -> Claim:
    """Tables 1, 4 and 5: the bottom 5 %, trained again."""
    tuned = side.tuned(TITLES)
    changes = _against_base(side, lambda run: one(run, "accuracy", **BOTTOM))
    worse = sum(change.value < 0 for change in changes.values())
    names = list(dict.fromkeys(name for name, _ in changes))
    means = {name: np.mean([change.value for (own, _), change in changes.items() if own == name]) for name in names}
    return Claim(
        "Knowledge becomes less spread out: the bottom neurons of tuned models do worse than those of the base "
        "(clear in RoBERTa and XLNet, slight in BERT).",
        [Part(f"{name}, {tuned[role]}", change, below=0) for (name, role), change in changes.items()],
        share=0.9,
        note=f"The bottom 5 %, trained again, do worse in {worse} of {len(changes)} cases; mean change "
        + ", ".join(f"{name} {100 * mean:+.1f}" for name, mean in means.items())
        + f" points. {_rankings(side)}",
    )


def shift_down(side: Observed) -> Claim:
    """Figures 2 and 3: where the neurons of the minimal sets are."""
    tuned = side.tuned(TITLES)
    changes = _against_base(side, _centre)
    down = sum(change.value < 0 for change in changes.values())
    names = list(dict.fromkeys(name for name, _ in changes))
    means = {name: np.mean([change.value for (own, _), change in changes.items() if own == name]) for name in names}
    return Claim(
        "The salient neurons move from the upper to the lower layers (RoBERTa, XLNet; little in BERT).",
        [Part(f"{name}, {tuned[role]}", change, below=0) for (name, role), change in changes.items()],
        unit="layers",
        scale=1,
        decimals=2,
        share=0.9,
        note=f"Mean layer of the minimal set's neurons is lower in {down} of {len(changes)} cases; mean change "
        + ", ".join(f"{name} {mean:+.2f}" for name, mean in means.items())
        + f" layers. {_rankings(side)}",
    )


def _centre(rows: pd.DataFrame) -> float:
    counts = pick(rows, metric="selected_neurons", **TIGHT).groupby("layer")["value"].mean().astype(float)
    return float((counts * counts.index.astype(int)).sum() / counts.sum())


def pruned_tasks(side: Observed) -> dict[str, str]:
    """Corpora of the tasks that pruned models were tuned on, with the title of the task."""
    rows = pick(side.results, analysis="pruning")
    return {str(corpus): TITLES.get(str(corpus), str(corpus)) for corpus in rows["corpus"].unique()}


def pruning_measure(side: Observed, name: str) -> str:
    """The measure that a task is judged by: the first one that has intervals."""
    rows = pick(side.results, analysis="pruning", corpus=name)
    return str(rows[rows["low"].notna()]["metric"].iloc[0])


def pruning_scores(side: Observed, name: str) -> dict[str, list[float]]:
    """Score, low and high end with all blocks, without the top and without the bottom half; the majority's score."""
    rows, metric = pick(side.results, analysis="pruning", corpus=name), pruning_measure(side, name)
    found = {part: [one(rows, metric, end, side=part) for end in ENDS] for part in ("all", "top", "bottom")}
    return {**found, "majority": [one(rows, "majority", subset=metric)]}


def pruned(side: Observed) -> Claim:
    """Tables 2 and 6; the difference of two trainings has an interval where each was repeated."""
    names = pruned_tasks(side)
    scores = {name: pruning_scores(side, name) for name in names}
    parts = []
    for name, title in names.items():
        rows = pick(side.results, analysis="pruning", corpus=name, metric=pruning_measure(side, name))
        upper, lower = (
            Estimate.of_runs(list(pick(rows, side=part)["value"].astype(float))) for part in ("top", "bottom")
        )
        parts.append(Part(title, lower - upper, below=0))
    apart = [
        names[name]
        for name, row in scores.items()
        if row["bottom"][2] < row["top"][1] or row["top"][2] < row["bottom"][1]
    ]
    once = "every model was tuned once, and chance in tuning is not covered"
    known = any(part.estimate.known for part in parts)
    return Claim(
        "Dropping the lower half of the blocks costs more than dropping the upper half (RoBERTa, XLNet; in BERT both "
        "cost alike).",
        parts,
        lead="Without the lower minus without the upper half",
        note="Without the lower and without the upper half: "
        + "; ".join(
            f"{names[name]} {100 * row['bottom'][0]:.1f} and {100 * row['top'][0]:.1f}" for name, row in scores.items()
        )
        + f". Intervals over examples lie apart for {listing(apart) or 'no task'}"
        + (". Intervals are over tuning runs." if known else f", but {once}."),
    )


def largest_disagreement(side: Observed) -> str:
    """Where the two protocols find the most different changes, and whether that is tested."""
    settings = {protocol: params_of(side, protocol) for protocol in PROTOCOLS}
    if None in settings.values():
        return ""
    keys = ["corpus", "task", "model", "layer"]
    found = {name: changes_of(side, params).set_index(keys) for name, params in settings.items() if params}
    where = (found["converged"]["difference"] - found["durrani"]["difference"]).abs().idxmax()
    rows = {protocol: table.loc[where] for protocol, table in found.items()}
    place = place_of(side, pd.Series(dict(zip(keys, where, strict=True))))
    told = "; ".join(f"{Estimate.of_row(row).times(100).text()} points under `{name}`" for name, row in rows.items())
    text = f"The two protocols differ most for {place}: {told}. "
    if all(row["q"] <= ALPHA for row in rows.values()):
        if len({row["difference"] < 0 for row in rows.values()}) > 1:
            return f"**The answer depends on the probe.** {text}Both changes are significant after correction."
        return (
            f"{text}Both changes are significant after correction and of one direction; whether they differ in size "
            "is not tested."
        )
    return (
        f"{text}Not both of these are significant after correction, so whether the answer depends on the probe cannot "
        "be told."
    )


LAYERS, NEURONS, PRUNING = ("layer_probe",), ("neurons",), ("pruning",)
STATEMENTS = (
    *(Statement(f"upper_layers_{name}", partial(upper_layers, protocol=name), LAYERS) for name in PROTOCOLS),
    *(Statement(f"tasks_differ_{name}", partial(tasks_differ, protocol=name), LAYERS) for name in PROTOCOLS),
    Statement("bottom_neurons", bottom_neurons, NEURONS),
    Statement("shift_down", shift_down, NEURONS),
    Statement("pruned", pruned, PRUNING),
)
