"""The page of this example: `python -m examples.durrani2021 RUN` keeps the tables of a run and writes it."""

import json
from collections.abc import Iterator

import altair as alt
import numpy as np
import pandas as pd

from examples.page import Claim, Page, command, one, percent, pick, unlearnt
from vestige.report.wording import layer, listing
from vestige.study.run import StudyRun

TUNED = {"sst2": "SST-2", "mnli": "MNLI", "qnli": "QNLI", "rte": "RTE", "mrpc": "MRPC", "stsb": "STS-B"}
KEEPING, FORGETTING = ("stsb", "rte", "mrpc"), ("sst2", "qnli", "mnli")
"""Tasks whose models keep linguistic knowledge in the upper layers, and whose models forget it there (the paper)."""
TASKS = {"POS": ("ewt", "xpos"), "Chunking": ("conll2000", "chunk"), "SEM": ("pmb", "semtag")}
TIGHT = "minimal within 0.5"
PROTOCOLS = {
    "converged": "trained to the certified optimum",
    "durrani": "ten epochs of Adam without scaling, as the paper's",
}


def build(page: Page) -> None:
    """The whole page."""
    run = page.run
    probes = {protocol: _setting(run, "layer_probe", "protocol", protocol) for protocol in PROTOCOLS}
    fixed = _setting(run, "neurons", "l1", 1e-3)
    _head(page, run)
    page.text("## What the paper says, and what is seen here")
    page.claims(list(_claims(run, probes, fixed)))
    page.text(_disagreement(run, probes), "## Layers (Figures 1 and 4)")
    for protocol, params in probes.items():
        _curves(page, run, protocol, params)
    page.text("## Neurons")
    _spread(page, run, fixed)
    _top_and_bottom(page, run, fixed)
    _minimal(page, run, fixed)
    _searched(page, run)
    page.text("## Pruned models (Tables 2 and 6)")
    _pruning(page, run)


def _setting(run: StudyRun, analysis: str, name: str, value: object) -> str:
    """The hash of the parameters that have this value."""
    for row in pick(run.tables.cells, analysis=analysis).itertuples():
        if json.loads(row.parameters)[name] == value:
            return str(row.params)
    raise LookupError(f"no {analysis} with {name} {value}")


def _head(page: Page, run: StudyRun) -> None:
    recipe = run.tables.lock["models"]["sst2"][0]["recipe"]
    page.text(
        "# What fine-tuning does to layers and neurons of MiniLM (after Durrani et al. 2021)",
        "MiniLM is tuned on six GLUE tasks, three runs each, and probed for part of speech (EWT, Penn tags), chunks "
        "(CoNLL-2000) and semantic tags (Parallel Meaning Bank), layer by layer and neuron by neuron, before and "
        "after. The study file is [study.yaml](study.yaml).",
        "The paper studies BERT, RoBERTa and XLNet with the whole GLUE training sets. Here is one small model, "
        "all-MiniLM-L6-v2, itself tuned for sentence similarity before we tune it, and 2,000 examples a task "
        f"({_times(recipe['epochs'])}, batches of {recipe['batch']}, rate {recipe['rate']:g}); MNLI and QNLI are "
        "trained on a part cut from their dev sets. Nothing below is about the paper's models, and where a finding "
        "differs, model, data or amount of tuning may be the reason.",
    )
    lines = []
    for name, title in TUNED.items():
        copies = run.tables.lock["models"][name]
        measures = [measure for measure in copies[0]["curve"][-1] if measure.startswith("dev_")]
        told = [
            f"{measure.removeprefix('dev_')} {_runs([c['curve'][-1][measure] for c in copies])}" for measure in measures
        ]
        lines.append([title, "; ".join(told)])
    page.table(["tuned on", "on dev: mean of three runs (their range)"], lines, "The tuned models")
    page.text(*unlearnt(run, TUNED))


def _times(epochs: int) -> str:
    return "seen once" if epochs == 1 else f"seen {epochs} times"


def _runs(values: list[float]) -> str:
    return f"{100 * np.mean(values):.1f} ({100 * min(values):.1f} to {100 * max(values):.1f})"


def _claims(run: StudyRun, probes: dict[str, str], fixed: str) -> Iterator[Claim]:
    for protocol, params in probes.items():
        yield _upper_layers(run, protocol, params)
    for protocol, params in probes.items():
        yield _tasks_differ(run, protocol, params)
    yield _bottom_neurons(run, fixed)
    yield _shift_down(run, fixed)
    yield _pruned(run)


def _changes(run: StudyRun, params: str) -> pd.DataFrame:
    found = pick(run.comparisons, analysis="layer_probe", params=params, metric="accuracy")
    return found.astype({"layer": int, "difference": float})


def _both(one: bool, other: bool) -> bool | None:
    """Two signs of one thing: they may contradict each other."""
    return one if one == other else None


def _upper_layers(run: StudyRun, protocol: str, params: str) -> Claim:
    changes = _changes(run, params)
    half = changes["layer"].max() / 2
    lower = changes[changes["layer"] <= half]
    upper = changes[changes["layer"] > half]
    lost = [(part["verdict"] == "lower").mean() for part in (lower, upper)]
    worst = changes.loc[changes["difference"].idxmin()]
    name = next(title for title, (corpus, task) in TASKS.items() if (corpus, task) == (worst["corpus"], worst["task"]))
    return Claim(
        f"Linguistic knowledge is lost in the upper layers rather than the lower ones. (Probes {PROTOCOLS[protocol]}.)",
        _both(bool(upper["difference"].mean() < lower["difference"].mean()), bool(lost[1] > lost[0])),
        f"Accuracy is shown to fall in {100 * lost[1]:.0f} % of the upper comparisons (layers above {half:g}) and "
        f"{100 * lost[0]:.0f} % of the lower ones; mean change {100 * upper['difference'].mean():+.2f} against "
        f"{100 * lower['difference'].mean():+.2f} points. Largest loss: {100 * worst['difference']:+.1f} points "
        f"({name}, {layer(int(worst['layer']))}, tuned on {TUNED[worst['model']]}).",
    )


def _disagreement(run: StudyRun, probes: dict[str, str]) -> str:
    """Where the two protocols tell the most different stories."""
    keys = ["corpus", "task", "model", "layer"]
    found = {protocol: _changes(run, params).set_index(keys)["difference"] for protocol, params in probes.items()}
    gap = (found["converged"] - found["durrani"]).abs()
    corpus, task, model, number = gap.idxmax()
    name = next(title for title, place in TASKS.items() if place == (corpus, task))
    told = {protocol: 100 * changes[corpus, task, model, number] for protocol, changes in found.items()}
    return (
        f"**The answer depends on the probe.** The protocols differ most for {name} at {layer(int(number))} of the "
        f"models tuned on {TUNED[model]}: {told['durrani']:+.1f} points under `durrani`, {told['converged']:+.1f} "
        "under `converged`. Ten epochs of Adam on unscaled activations miss what a probe trained to its optimum still "
        "reads there: fine-tuning changed the scale of the layer, or how easily it is read, more than what it holds."
    )


def _tasks_differ(run: StudyRun, protocol: str, params: str) -> Claim:
    changes = _changes(run, params)
    last = changes[changes["layer"] == changes["layer"].max()].groupby("model")["difference"].mean()
    order = last.sort_values(ascending=False)
    kept, lost = (float(last[list(group)].mean()) for group in (KEEPING, FORGETTING))
    named = listing([TUNED[name] for name in KEEPING])
    return Claim(
        "Tuned on STS-B, RTE and MRPC, models keep the knowledge in their upper layers; on SST-2, QNLI and MNLI they "
        f"forget it there. (Probes {PROTOCOLS[protocol]}.)",
        bool(last[list(KEEPING)].min() > last[list(FORGETTING)].max()) or (None if kept > lost else False),
        "Mean change of the last layer over the three properties: "
        + ", ".join(f"{TUNED[name]} {100 * value:+.2f}" for name, value in order.items())
        + f"; {named} {100 * kept:+.2f}, the others {100 * lost:+.2f}. All runs saw 2,000 examples, so the "
        "size of the training set, which differs between these tasks in the paper, plays no role here.",
    )  # fmt: skip


def _bottom_neurons(run: StudyRun, fixed: str) -> Claim:
    found = pick(run.results, analysis="neurons", params=fixed)
    falls = {}
    for name, (corpus, task) in TASKS.items():
        rows = pick(found, corpus=corpus, task=task, metric="accuracy", subset="bottom 5% retrained")
        base = one(rows, "accuracy", model="base")
        falls[name] = {tuned: one(rows, "accuracy", model=tuned) - base for tuned in TUNED}
    values = np.array([list(of_task.values()) for of_task in falls.values()])
    return Claim(
        "Knowledge becomes less spread out: the bottom neurons of tuned models do worse than those of the base "
        "(clear in RoBERTa and XLNet, slight in BERT).",
        bool((values < 0).all()) or (None if (values < 0).mean() > 0.5 else False),
        f"The bottom 5 %, trained again, do worse in {int((values < 0).sum())} of {values.size} cases; mean change "
        + ", ".join(f"{name} {100 * np.mean(list(v.values())):+.1f}" for name, v in falls.items()) + " points.",
    )  # fmt: skip


def _shift_down(run: StudyRun, fixed: str) -> Claim:
    centres = {}
    for name, (corpus, task) in TASKS.items():
        rows = pick(run.results, analysis="neurons", params=fixed, corpus=corpus, task=task)
        centres[name] = {model: _centre(pick(rows, model=model)) for model in ("base", *TUNED)}
    shifts = {n: {m: c[m] - c["base"] for m in TUNED} for n, c in centres.items()}
    down = [value < 0 for of_task in shifts.values() for value in of_task.values()]
    return Claim(
        "The salient neurons move from the upper to the lower layers (RoBERTa, XLNet; little in BERT).",
        all(down) or (None if np.mean(down) > 0.5 else False),
        f"Mean layer of the minimal set's neurons falls in {sum(down)} of {len(down)} cases; "
        + "; ".join(
            f"{name} {centres[name]['base']:.2f}, tuned {np.mean([centres[name][m] for m in TUNED]):.2f}"
            for name in TASKS
        )
        + ".",
    )


def _centre(rows: pd.DataFrame) -> float:
    counts = pick(rows, metric="selected_neurons", subset=TIGHT).groupby("layer")["value"].mean().astype(float)
    return float((counts * counts.index.astype(int)).sum() / counts.sum())


def _pruned(run: StudyRun) -> Claim:
    scores = {name: _pruning_scores(run, name) for name in TUNED}
    lower = [TUNED[name] for name, row in scores.items() if row["bottom"][2] < row["top"][1]]
    upper = [TUNED[name] for name, row in scores.items() if row["top"][2] < row["bottom"][1]]
    told = len(lower) + len(upper)
    return Claim(
        "Dropping the lower half of the blocks costs more than dropping the upper half (RoBERTa, XLNet; in BERT both "
        "cost alike).",
        None if bool(lower) == bool(upper) or told < len(scores) / 2 else bool(lower),
        "Intervals lie apart "
        + (f"for {listing(lower)}, where the lower half costs more" if lower else "for no task in this direction")
        + (f", and for {listing(upper)}, where the upper half does" if upper else "")
        + f"; for the other {len(scores) - told} tasks the two cannot be told apart, most of them "
        "because so short a tuning brings half a model hardly beyond the majority.",
    )


def _curves(page: Page, run: StudyRun, protocol: str, params: str) -> None:
    rows = pick(run.results, analysis="layer_probe", params=params, metric="accuracy", label=None)
    rows = rows[rows["layer"].notna()].astype({"layer": int, "value": float})
    titles = {task: name for name, task in TASKS.items()}
    frame = rows.groupby(["corpus", "task", "model", "layer"], as_index=False)["value"].mean()
    frame["property"] = [titles[pair] for pair in zip(frame["corpus"], frame["task"], strict=True)]
    frame["model"] = [TUNED.get(name, name) for name in frame["model"]]
    frame["value"] *= 100
    order = ["base", *TUNED.values()]
    colours = ["#222222", "#ee6677", "#ccbb44", "#aa3377", "#4477aa", "#66ccee", "#228833"]
    chart = (
        alt.Chart(frame)
        .mark_line(point=True)
        .encode(
            alt.X("layer:Q").title("layer (0: embeddings)").axis(tickMinStep=1, format="d"),
            alt.Y("value:Q").title("accuracy (%)").scale(zero=False),
            alt.Color("model:N", sort=order, title="tuned on").scale(domain=order, range=colours),
        )
        .properties(width=250, height=220)
        .facet(facet=alt.Facet("property:N", sort=list(TASKS), title=None), columns=3)
        .resolve_scale(y="independent")
    )  # fmt: skip
    page.text(f"Probes {PROTOCOLS[protocol]} (`{protocol}`); means over three runs.")
    page.figure(chart, f"layers_{protocol}", f"Probe accuracy by layer, {protocol}: base and tuned models")
    changes = _changes(run, params)
    lines = []
    for name, (corpus, task) in TASKS.items():
        for model, title in TUNED.items():
            part = pick(changes, corpus=corpus, task=task, model=model).sort_values("layer")
            cells = [
                f"{100 * row.difference:+.1f}{'*' if row.verdict in ('lower', 'higher') else ''}"
                for row in part.itertuples()
            ]
            lines.append([name, title, *cells])
    depth = int(changes["layer"].max())
    page.table(["", "tuned on", *map(str, range(depth + 1))], lines, "Change of accuracy in points, by layer")
    page.text("\\* shown to differ: q at most 0.05 over layers, tasks and models, by a test over sentences and runs.")


def _spread(page: Page, run: StudyRun, fixed: str) -> None:
    rows = pick(run.results, analysis="neurons", params=fixed, metric="selected_neurons", subset=TIGHT)
    rows = rows.astype({"layer": int, "value": float})
    frame = rows.groupby(["corpus", "task", "model", "layer"], as_index=False)["value"].mean()
    titles = {task: name for name, task in TASKS.items()}
    frame["property"] = [titles[pair] for pair in zip(frame["corpus"], frame["task"], strict=True)]
    total = frame.groupby(["property", "model"])["value"].transform("sum")
    frame["share"] = 100 * frame["value"] / total
    frame["model"] = [TUNED.get(name, name) for name in frame["model"]]
    chart = (
        alt.Chart(frame)
        .mark_rect()
        .encode(
            alt.X("layer:O").title("layer (0: embeddings)").axis(labelAngle=0),
            alt.Y("model:N", sort=["base", *TUNED.values()], title=None),
            alt.Color("share:Q", title="% of neurons").scale(scheme="blues"),
        )
        .properties(width=230, height=190)
        .facet(facet=alt.Facet("property:N", sort=list(TASKS), title=None), columns=3)
    )
    page.text(
        "Figures 2 and 3: how the neurons of the minimal sets (within 0.5 points) spread over layers, in percent."
    )
    page.figure(chart, "spread", "Layers of the selected neurons, base and tuned models")


def _top_and_bottom(page: Page, run: StudyRun, fixed: str) -> None:
    found = pick(run.results, analysis="neurons", params=fixed, metric="accuracy")
    for number, (name, (corpus, task)) in zip((1, 4, 5), TASKS.items(), strict=True):
        rows = pick(found, corpus=corpus, task=task)
        subsets = [f"{side} {share}% retrained" for share in (5, 10) for side in ("top", "bottom")]
        lines = [
            [TUNED.get(model, model), percent(one(rows, "accuracy", model=model, subset="all"))]
            + [percent(one(rows, "accuracy", model=model, subset=subset)) for subset in subsets]
            for model in ("base", *TUNED)
        ]
        head = ["", "all", "top 5 %", "bottom 5 %", "top 10 %", "bottom 10 %"]
        page.table(head, lines, f"Table {number}: {name}, accuracy of probes trained on the top and bottom neurons")


def _minimal(page: Page, run: StudyRun, fixed: str) -> None:
    lines = []
    for name, (corpus, task) in TASKS.items():
        for model in ("base", *TUNED):
            rows = pick(run.results, analysis="neurons", params=fixed, corpus=corpus, task=task, model=model)
            size, share = (one(rows, metric, subset=TIGHT) for metric in ("minimal_neurons", "minimal_share"))
            lines.append(
                [name, TUNED.get(model, model), f"{size:.0f} ({100 * share:.0f} %)"]
                + [percent(one(rows, "accuracy", subset="all"))]
                + [percent(one(rows, "accuracy", subset=TIGHT, axis="delta"))]
                + [percent(one(rows, "selectivity", subset=subset)) for subset in ("all", TIGHT)]
            )  # fmt: skip
    head = ["", "tuned on", "neurons selected", "accuracy, all", "accuracy, selected"]
    head += ["selectivity, all", "selectivity, selected"]
    page.table(head, lines, "Table 7: minimal sets within 0.5 points, means over runs")


def _searched(page: Page, run: StudyRun) -> None:
    params = _setting(run, "neurons", "l1", None)
    lines = []
    for name, (corpus, task) in TASKS.items():
        rows = pick(run.results, analysis="neurons", params=params, corpus=corpus, task=task, model="base")
        size, share = (one(rows, metric, subset=TIGHT) for metric in ("minimal_neurons", "minimal_share"))
        pair = [f"{one(rows, metric):g}" for metric in ("l1", "l2")]
        lines.append([name, *pair, f"{size:.0f} ({100 * share:.0f} %)"])
    page.table(["", "l1", "l2", "selected"], lines, "Table 8: penalties found by the search, base model")
    page.text(
        "All other numbers on neurons use l1 = l2 = 0.001 for every model and property, so that base and tuned models "
        "differ in nothing but their weights."
    )


def _pruning_scores(run: StudyRun, name: str) -> dict[str, list[float]]:
    """Score, low and high end with all blocks, without the top and without the bottom half; the majority's score."""
    rows = pick(run.results, analysis="pruning", corpus=name)
    metric = str(rows["metric"].iloc[0])
    found = {
        subset: [one(rows, f"{metric}{side}", subset=subset) for side in ("", "_low", "_high")]
        for subset in ("all", "top", "bottom")
    }
    return {**found, "majority": [one(rows, f"{metric}_majority")]}


def _pruning(page: Page, run: StudyRun) -> None:
    lines = []
    for name, title in TUNED.items():
        metric = str(pick(run.results, analysis="pruning", corpus=name)["metric"].iloc[0])
        scores = _pruning_scores(run, name)
        cells = [
            "{:.1f} ({:.1f} to {:.1f})".format(*(100 * value for value in scores[subset]))
            for subset in ("all", "top", "bottom")
        ]
        lines.append([title, metric, *cells, f"{100 * scores['majority'][0]:.1f}"])
    page.table(
        ["task", "measure", "whole", "upper half dropped", "lower half dropped", "majority"],
        lines,
        "Score on dev after tuning, 95 % interval over examples; one run each",
    )


if __name__ == "__main__":
    command(__file__, build)
