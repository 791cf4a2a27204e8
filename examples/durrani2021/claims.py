"""What the paper says of layers, neurons and pruned models, and the numbers of the run that speak to it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from examples.page import ENDS, one, pick
from examples.verdicts import Claim, Estimate, Part
from vestige.report.wording import layer, listing
from vestige.study.finished import StudyRun

TUNED = {"sst2": "SST-2", "mnli": "MNLI", "qnli": "QNLI", "rte": "RTE", "mrpc": "MRPC", "stsb": "STS-B"}
KEEPING, FORGETTING = ("stsb", "rte", "mrpc"), ("sst2", "qnli", "mnli")
"""Tasks whose models keep linguistic knowledge in the upper layers, and whose models forget it there (the paper)."""
TASKS = {"POS": ("ewt", "xpos"), "Chunking": ("conll2000", "chunk"), "SEM": ("pmb", "semtag")}
ALL: dict[str, Any] = {"subset": "all"}
TIGHT: dict[str, Any] = {"subset": "minimal", "x": 0.005}
"""Where rows of all neurons and of the minimal sets lie."""
PROTOCOLS = {
    "converged": "trained to the certified optimum",
    "durrani": "ten epochs of Adam without scaling, as the paper's",
}


def claims(run: StudyRun, probes: dict[str, str], fixed: str) -> Iterator[Claim]:
    """All of them; `probes` are the settings of layer probes by protocol, `fixed` that of neurons."""
    for protocol, params in probes.items():
        yield _upper_layers(run, protocol, params)
    for protocol, params in probes.items():
        yield _tasks_differ(run, protocol, params)
    yield _bottom_neurons(run, fixed)
    yield _shift_down(run, fixed)
    yield _pruned(run)


def changes_of(run: StudyRun, params: str) -> pd.DataFrame:
    """Differences of accuracy by layer under one setting of the probes."""
    found = pick(run.comparisons, analysis="layer_probe", params=params, metric="accuracy")
    return found.astype({"layer": int})


def contrast(run: StudyRun, params: str, weights: pd.DataFrame) -> Estimate:
    """A weighted sum of changes over models and layers, the mean over tasks; `weights` (models, layers).

    Runs are independent, and so are seeds of the base model's probes where it has several. The errors that
    sentences make in the layers and models of one task may be one and the same, so that they add up at worst; tasks
    have sentences of their own.
    """
    table = changes_of(run, params)
    known = table[table["model"].isin(weights.index)]
    rows = pick(run.results, analysis="layer_probe", params=params, metric="accuracy", label=None)
    rows = rows[rows["layer"].notna()].astype({"layer": int, "value": float})
    tasks = rows["corpus"].nunique()
    base = rows[rows["model"] == "base"]
    by_seed = (base["value"] * base["layer"].map(weights.sum()) / tasks).groupby(base["probe_seed"]).sum()
    mine = rows[rows["model"].isin(weights.index)]
    mine = mine.groupby(["model", "tune_seed", "corpus", "layer"], as_index=False)["value"].mean()
    weight = _weighed(weights, mine)
    by_run = (mine["value"] * weight / tasks).groupby([mine["model"], mine["tune_seed"]]).sum()
    runs = [list(by_run[model] * len(weights)) for model in weights.index]
    if (known["verdict"] == "described").any():
        return Estimate(Estimate.of_groups(runs).value - float(by_seed.mean()))
    worst = (known["sd_items"].astype(float) * _weighed(weights, known).abs()).groupby(known["corpus"]).sum() / tasks
    tuned = Estimate.of_groups(runs, float(np.sqrt((worst**2).sum())), int(known["sentences"].min()))
    if len(by_seed) > 1:
        return tuned - Estimate.of_runs(list(by_seed))
    return tuned - Estimate(float(by_seed.iloc[0]), float(by_seed.iloc[0]), float(by_seed.iloc[0]))


def _weighed(weights: pd.DataFrame, rows: pd.DataFrame) -> pd.Series:
    """The weight of every row's model and layer."""
    found = [weights.loc[model, number] for model, number in zip(rows["model"], rows["layer"], strict=True)]
    return pd.Series(found, index=rows.index, dtype=float)


def _weights(models: dict[str, float], layers: pd.Series) -> pd.DataFrame:
    """The outer product of weights by model and by layer."""
    return pd.DataFrame(np.outer(list(models.values()), layers), index=list(models), columns=layers.index)


def _upper_layers(run: StudyRun, protocol: str, params: str) -> Claim:
    changes = changes_of(run, params)
    numbers = np.sort(changes["layer"].unique())
    upper = pd.Series(numbers > numbers.max() / 2, index=numbers)
    alike = dict.fromkeys(TUNED, 1 / len(TUNED))
    parts = {
        "upper layers": upper / upper.sum(),
        "upper minus lower": upper / upper.sum() - ~upper / (~upper).sum(),
    }
    fallen = [int((changes[changes["layer"].map(upper) == side]["verdict"] == "lower").sum()) for side in (True, False)]
    worst = changes.loc[changes["difference"].idxmin()]
    described, cases = (changes["verdict"] == "described").all(), len(TUNED) * len(TASKS)
    return Claim(
        f"Linguistic knowledge is lost in the upper layers rather than the lower ones. (Probes {PROTOCOLS[protocol]}.)",
        [Part(what, contrast(run, params, _weights(alike, layers)), below=0) for what, layers in parts.items()],
        lead="Mean change",
        decimals=2,
        note=(
            ""
            if described
            else f"Significant losses after correction: {fallen[0]} of {int(upper.sum()) * cases} "
            f"upper and {fallen[1]} of {int((~upper).sum()) * cases} lower comparisons. "
        )
        + f"Largest difference: {_named(worst)} {Estimate.of_row(worst).times(100).text()} points.",
    )


def _named(row: pd.Series) -> str:
    """'SEM, layer 6, tuned on STS-B:'."""
    name = next(title for title, place in TASKS.items() if place == (row["corpus"], row["task"]))
    return f"{name}, {layer(int(row['layer']))}, tuned on {TUNED[row['model']]}:"


def largest_disagreement(run: StudyRun, probes: dict[str, str]) -> str:
    """Where the two protocols find the most different changes, and whether that is tested."""
    keys = ["corpus", "task", "model", "layer"]
    found = {protocol: changes_of(run, params).set_index(keys) for protocol, params in probes.items()}
    where = (found["converged"]["difference"] - found["durrani"]["difference"]).abs().idxmax()
    rows = {protocol: table.loc[where] for protocol, table in found.items()}
    place = _named(pd.Series(dict(zip(keys, where, strict=True)))).removesuffix(":")
    told = "; ".join(f"{Estimate.of_row(row).times(100).text()} points under `{name}`" for name, row in rows.items())
    signs = {row["verdict"] for row in rows.values()}
    text = f"The two protocols differ most for {place}: {told}. "
    if signs == {"lower", "higher"}:
        return f"**The answer depends on the probe.** {text}Both changes are significant after correction."
    return (
        f"{text}Not both of these are significant after correction, so whether the answer depends on the probe cannot "
        "be decided here."
    )


def _tasks_differ(run: StudyRun, protocol: str, params: str) -> Claim:
    numbers = np.sort(changes_of(run, params)["layer"].unique())
    last = pd.Series((numbers == numbers.max()).astype(float), index=numbers)
    each = {name: contrast(run, params, _weights({name: 1.0}, last)) for name in TUNED}
    forgotten = contrast(run, params, _weights(dict.fromkeys(FORGETTING, 1 / 3), last))
    sides = {name: (1 if name in KEEPING else -1) / 3 for name in TUNED}
    ahead = contrast(run, params, _weights(sides, last))
    order = sorted(each, key=lambda name: -each[name].value)
    return Claim(
        "Tuned on STS-B, RTE and MRPC, models keep the knowledge in their upper layers; on SST-2, QNLI and MNLI they "
        f"forget it there. (Probes {PROTOCOLS[protocol]}.)",
        [
            Part("SST-2, QNLI and MNLI", forgotten, below=0),
            Part("STS-B, RTE and MRPC minus these", ahead, above=0),
        ],
        lead="Mean change of the last layer over the three properties",
        note="By task: " + ", ".join(f"{TUNED[name]} {100 * each[name].value:+.1f}" for name in order)
        + ". All runs saw 2,000 examples, so the size of the training set, which differs between these tasks in the "
        "paper, plays no role here.",
    )  # fmt: skip


ONE_RANKING = (
    "The neurons of the base model were ranked once, and what another ranking of the same model would change is not "
    "known: these numbers decide nothing."
)


def _bottom_neurons(run: StudyRun, fixed: str) -> Claim:
    where = {"subset": "retrained", "side": "bottom", "x": 0.05}
    found = pick(run.comparisons, analysis="neurons", params=fixed, metric="accuracy", **where)
    means = {name: pick(found, corpus=corpus, task=task)["difference"].mean() for name, (corpus, task) in TASKS.items()}
    return Claim(
        "Knowledge becomes less spread out: the bottom neurons of tuned models do worse than those of the base "
        "(clear in RoBERTa and XLNet, slight in BERT).",
        [],
        note=f"The bottom 5 %, trained again, do worse in {int((found['difference'] < 0).sum())} of {len(found)} "
        "cases, "
        f"in {int((found['high'] < 0).sum())} of them with an interval over sentences and runs below zero, in "
        f"{int((found['low'] > 0).sum())} with one above; mean change "
        + ", ".join(f"{name} {100 * mean:+.1f}" for name, mean in means.items())
        + f" points. {ONE_RANKING}",
    )


def _shift_down(run: StudyRun, fixed: str) -> Claim:
    centres = {}
    for name, (corpus, task) in TASKS.items():
        rows = pick(run.results, analysis="neurons", params=fixed, corpus=corpus, task=task)
        centres[name] = {model: _centre(pick(rows, model=model)) for model in ("base", *TUNED)}
    down = [of_task[model] < of_task["base"] for of_task in centres.values() for model in TUNED]
    return Claim(
        "The salient neurons move from the upper to the lower layers (RoBERTa, XLNet; little in BERT).",
        [],
        note=f"Mean layer of the minimal set's neurons is lower in {sum(down)} of {len(down)} cases; "
        + "; ".join(
            f"{name} {centres[name]['base']:.2f}, tuned {np.mean([centres[name][m] for m in TUNED]):.2f}"
            for name in TASKS
        )
        + f". {ONE_RANKING}",
    )


def _centre(rows: pd.DataFrame) -> float:
    counts = pick(rows, metric="selected_neurons", **TIGHT).groupby("layer")["value"].mean().astype(float)
    return float((counts * counts.index.astype(int)).sum() / counts.sum())


def pruning_measure(run: StudyRun, name: str) -> str:
    """The measure that a task is judged by: the first one that has intervals."""
    rows = pick(run.results, analysis="pruning", corpus=name)
    return str(rows[rows["low"].notna()]["metric"].iloc[0])


def pruning_scores(run: StudyRun, name: str) -> dict[str, list[float]]:
    """Score, low and high end with all blocks, without the top and without the bottom half; the majority's score."""
    rows, metric = pick(run.results, analysis="pruning", corpus=name), pruning_measure(run, name)
    found = {side: [one(rows, metric, end, side=side) for end in ENDS] for side in ("all", "top", "bottom")}
    return {**found, "majority": [one(rows, "majority", subset=metric)]}


def _pruned(run: StudyRun) -> Claim:
    """Every score is that of one training, so that the difference of two has no interval."""
    scores = {name: pruning_scores(run, name) for name in TUNED}
    apart = [
        TUNED[name]
        for name, row in scores.items()
        if row["bottom"][2] < row["top"][1] or row["top"][2] < row["bottom"][1]
    ]
    return Claim(
        "Dropping the lower half of the blocks costs more than dropping the upper half (RoBERTa, XLNet; in BERT both "
        "cost alike).",
        [],
        note="Without the lower and without the upper half: "
        + "; ".join(
            f"{TUNED[name]} {100 * row['bottom'][0]:.1f} and {100 * row['top'][0]:.1f}" for name, row in scores.items()
        )
        + f". Intervals over examples lie apart for {listing(apart) or 'no task'}, but every model was tuned once, and "
        "chance in tuning is not covered.",
    )
