"""The page of this example: `python -m examples.durrani2021 RUN` keeps the tables of a run and writes it."""

import json

import altair as alt
import numpy as np

from examples.durrani2021.claims import (
    ALL,
    PROTOCOLS,
    TASKS,
    TIGHT,
    TUNED,
    changes_of,
    claims,
    largest_disagreement,
    pruning_measure,
    pruning_scores,
)
from examples.page import Page, command, one, percent, pick, stands_out, unlearnt
from vestige.study.finished import StudyRun


def build(page: Page) -> None:
    """The whole page."""
    run = page.run
    probes = {protocol: _setting(run, "layer_probe", "protocol", protocol) for protocol in PROTOCOLS}
    fixed = _setting(run, "neurons", "l1", 1e-3)
    _head(page, run)
    page.claims(list(claims(run, probes, fixed)))
    page.text(largest_disagreement(run, probes), "## Layers (Figures 1 and 4)")
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
    changes = changes_of(run, params)
    lines = []
    for name, (corpus, task) in TASKS.items():
        for model, title in TUNED.items():
            part = pick(changes, corpus=corpus, task=task, model=model).sort_values("layer")
            cells = [f"{100 * row.difference:+.1f}{stands_out(row)}" for row in part.itertuples()]
            lines.append([name, title, *cells])
    depth = int(changes["layer"].max())
    page.table(["", "tuned on", *map(str, range(depth + 1))], lines, "Change of accuracy in points, by layer")
    described = (changes["verdict"] == "described").all()
    page.text(
        "One seed of the probes: chance in their training is not known, and none of these differences is tested."
        if described
        else "\\* significant after correction: q at most 0.05 over layers, tasks and models, by a test over sentences "
        "and runs."
    )


def _spread(page: Page, run: StudyRun, fixed: str) -> None:
    rows = pick(run.results, analysis="neurons", params=fixed, metric="selected_neurons", **TIGHT)
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
        again = [{"subset": "retrained", "side": side, "x": x} for x in (0.05, 0.1) for side in ("top", "bottom")]
        lines = [
            [TUNED.get(model, model), percent(one(rows, "accuracy", model=model, **ALL))]
            + [percent(one(rows, "accuracy", model=model, **where)) for where in again]
            for model in ("base", *TUNED)
        ]
        head = ["", "all", "top 5 %", "bottom 5 %", "top 10 %", "bottom 10 %"]
        page.table(head, lines, f"Table {number}: {name}, accuracy of probes trained on the top and bottom neurons")


def _minimal(page: Page, run: StudyRun, fixed: str) -> None:
    lines = []
    for name, (corpus, task) in TASKS.items():
        for model in ("base", *TUNED):
            rows = pick(run.results, analysis="neurons", params=fixed, corpus=corpus, task=task, model=model)
            size, share = (one(rows, metric, **TIGHT) for metric in ("minimal_neurons", "minimal_share"))
            lines.append(
                [name, TUNED.get(model, model), f"{size:.0f} ({100 * share:.0f} %)"]
                + [percent(one(rows, m, **where)) for m in ("accuracy", "selectivity") for where in (ALL, TIGHT)]
            )
    head = ["", "tuned on", "neurons selected", "accuracy, all", "accuracy, selected"]
    head += ["selectivity, all", "selectivity, selected"]
    page.table(head, lines, "Table 7: minimal sets within 0.5 points, means over runs")


def _searched(page: Page, run: StudyRun) -> None:
    params = _setting(run, "neurons", "l1", None)
    lines = []
    for name, (corpus, task) in TASKS.items():
        rows = pick(run.results, analysis="neurons", params=params, corpus=corpus, task=task, model="base")
        size, share = (one(rows, metric, **TIGHT) for metric in ("minimal_neurons", "minimal_share"))
        pair = [f"{one(rows, metric):g}" for metric in ("l1", "l2")]
        lines.append([name, *pair, f"{size:.0f} ({100 * share:.0f} %)"])
    page.table(["", "l1", "l2", "selected"], lines, "Table 8: penalties found by the search, base model")
    page.text(
        "All other numbers on neurons use l1 = l2 = 0.001 for every model and property, so that base and tuned models "
        "differ in nothing but their weights."
    )


def _pruning(page: Page, run: StudyRun) -> None:
    lines = []
    for name, title in TUNED.items():
        scores = pruning_scores(run, name)
        cells = [
            "{:.1f} ({:.1f} to {:.1f})".format(*(100 * value for value in scores[side]))
            for side in ("all", "top", "bottom")
        ]
        lines.append([title, pruning_measure(run, name), *cells, f"{100 * scores['majority'][0]:.1f}"])
    page.table(
        ["task", "measure", "whole", "upper half dropped", "lower half dropped", "majority"],
        lines,
        "Score on dev after tuning, 95 % interval over examples; one run each, so that chance in tuning is not covered",
    )


if __name__ == "__main__":
    command(__file__, build)
