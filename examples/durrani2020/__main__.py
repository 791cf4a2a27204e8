"""The page of this example: `python -m examples.durrani2020 RUN` keeps the tables of a run and writes it."""

from typing import Any

import altair as alt
import pandas as pd

from examples.durrani2020.claims import ALL, KEPT, LOOSE, TASKS, TIGHT, claims
from examples.page import Page, command, one, percent, pick
from vestige.report.wording import listing
from vestige.study.finished import StudyRun


def build(page: Page) -> None:
    """The whole page."""
    run = page.run
    found = pick(run.results, analysis="neurons")
    results = {name: pick(found, corpus=corpus, task=task) for name, (corpus, task) in TASKS.items()}
    _head(page, results)
    page.claims(claims(results))
    page.text("## Tables")
    caption = "Table 1: test accuracy with 20 % of the neurons kept and the others zeroed out, without training again"
    _ablation(page, results, "accuracy", caption)
    _minimal(page, results, TIGHT, "", "Table 2: the smallest set within 0.5 points on dev, trained again (test)")
    _minimal(page, results, LOOSE, "", "Table 3: the same within 2 points")
    _data(page, run)
    _lambdas(page, results)
    _ablation(page, results, "dev_accuracy", "Table 6: as Table 1, on dev")
    _minimal(page, results, TIGHT, "dev_", "Table 7: as Table 2, on dev")
    page.text("## Figures")
    _spread(page, results)
    _labels(page, results)
    page.text("## Beyond the paper: other rankings, and redundancy (semantic tags)")
    _rankers(page, pick(run.results, analysis="neuron_rankers"))
    _redundancy(page, pick(run.results, analysis="neuron_redundancy"), results["SEM"])


def _head(page: Page, results: dict[str, pd.DataFrame]) -> None:
    neurons = int(one(results["POS"], "neurons"))
    page.text(
        "# Individual neurons of MiniLM (after Durrani et al. 2020)",
        f"How few of MiniLM's {neurons} neurons are enough to predict part of speech (EWT, Penn tags), semantic tags "
        "(Parallel Meaning Bank), chunks (CoNLL-2000) and CCG categories (Parallel Meaning Bank), and where are they? "
        "The study file is [study.yaml](study.yaml).",
        "The paper studies BERT, XLNet, T-ELMo and ELMo on the Penn Treebank, a larger release of the meaning bank "
        "and CCGbank. Here is one small model, all-MiniLM-L6-v2, which is itself tuned for sentence similarity, on "
        "other corpora: nothing below is about the paper's models, and where a finding differs, model, data or "
        "training of the probe may be the reason. Probes are proximal elastic nets (true zeros) with the paper's "
        "squared L2, trained until their gain per round is small rather than for ten epochs; penalties are searched "
        "over the paper's 8 x 8 grid by its score on dev; one run per task.",
    )


def _ablation(page: Page, results: dict[str, pd.DataFrame], metric: str, caption: str) -> None:
    rows = [
        [kept, *(percent(one(found, metric, **where)) for found in results.values())] for kept, where in KEPT.items()
    ]
    page.table(["", *results], rows, caption)


def _minimal(page: Page, results: dict[str, pd.DataFrame], chosen: dict[str, Any], split: str, caption: str) -> None:
    def line(name: str, metric: str, where: dict[str, Any]) -> list[str]:
        return [name, *(percent(one(found, split + metric, **where)) for found in results.values())]

    sizes = [
        f"{one(found, 'minimal_neurons', **chosen):.0f} / {100 * one(found, 'minimal_share', **chosen):.0f} %"
        for found in results.values()
    ]
    rows = [["all neurons", *(f"{one(found, 'neurons'):.0f}" for found in results.values())], ["selected", *sizes]]
    for metric in ("accuracy", "selectivity"):
        rows += [line(f"{metric}, all", metric, ALL), line(f"{metric}, selected", metric, chosen)]
    page.table(["", *results], rows, caption)


def _data(page: Page, run: StudyRun) -> None:
    rows = []
    for name, (corpus, task) in TASKS.items():
        splits = run.tables.lock["corpora"][corpus]["splits"]
        labels = pick(run.results, corpus=corpus, task=task, metric="label_neurons", **TIGHT)["label"].nunique()
        sizes = [f"{splits[split]['sentences']} ({splits[split]['words']})" for split in ("train", "dev", "test")]
        rows.append([name, *sizes, str(labels)])
    page.table(["", "train", "dev", "test", "tags"], rows, "Table 4: sentences (words), and tags in train")


def _lambdas(page: Page, results: dict[str, pd.DataFrame]) -> None:
    rows = [[name, *(f"{one(found, metric):g}" for metric in ("l1", "l2"))] for name, found in results.items()]
    page.table(["", "l1", "l2"], rows, "Table 5: penalties with the best score on dev")


def _spread(page: Page, results: dict[str, pd.DataFrame]) -> None:
    frames = [
        pd.DataFrame({"task": name, "layer": range(len(counts)), "neurons": counts})
        for name, rows in results.items()
        for counts in [pick(rows, metric="selected_neurons", **TIGHT).sort_values("layer")["value"].to_numpy(float)]
    ]
    chart = (
        alt.Chart(pd.concat(frames))
        .mark_bar(color="#4477aa")
        .encode(alt.X("layer:O").title("layer (0: embeddings)").axis(labelAngle=0), alt.Y("neurons:Q").title("neurons"))
        .properties(width=190, height=150)
        .facet(facet=alt.Facet("task:N", sort=list(results), title=None), columns=4)
        .resolve_scale(y="independent")
    )  # fmt: skip
    page.text("Figure 1: how the neurons of the minimal sets (within 0.5 points) spread over layers.")
    page.figure(chart, "spread", "Neurons of the minimal sets by layer, one panel a task")


def _labels(page: Page, results: dict[str, pd.DataFrame]) -> None:
    page.text(
        "Figures 2 to 5: neurons per label at the size of the minimal set (within 0.5 points), coloured by the layer "
        "that most of them are in. The paper's Figure 3 compares architectures; with one model there is nothing to "
        "compare, but the shares of neurons that serve one label alone are:"
    )
    rows = []
    for name, found in results.items():
        exclusive, shared = (one(found, metric, **TIGHT) for metric in ("exclusive_neurons", "shared_neurons"))
        rows.append([name, f"{exclusive:.0f}", f"{shared:.0f}", f"{100 * exclusive / (exclusive + shared):.0f} %"])
    page.table(["", "of one label", "of several", "share of one label"], rows)
    for name, found in results.items():
        page.figure(_label_chart(found), f"labels_{name.lower()}", f"{name}: neurons per label")


def _label_chart(rows: pd.DataFrame) -> alt.Chart:
    """The forty labels with most neurons and the twenty with fewest, where there are more."""
    sizes = pick(rows, metric="label_neurons", **TIGHT).set_index("label")["value"].astype(float)
    homes = pick(rows, metric="dominant_layer", **TIGHT).set_index("label")["value"].astype(float)
    sizes = sizes.sort_values(ascending=False, kind="stable")
    if len(sizes) > 60:
        sizes = pd.concat([sizes.head(40), sizes.tail(20)])
    frame = pd.DataFrame(
        {"label": sizes.index, "neurons": sizes.to_numpy(), "layer": homes.reindex(sizes.index).to_numpy()}
    )
    return (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            alt.X("label:N", sort=None, title=None).axis(labelAngle=-60, labelLimit=90),
            alt.Y("neurons:Q").title("neurons"),
            alt.Color("layer:O").title("dominant layer").scale(scheme="viridis"),
        )
        .properties(width=900, height=160)
    )  # fmt: skip


def _rankers(page: Page, rows: pd.DataFrame) -> None:
    accuracy = pick(rows, metric="accuracy").set_index(["subset", "x"])["value"].astype(float)
    names, shares = (list(dict.fromkeys(accuracy.index.get_level_values(level))) for level in ("subset", "x"))
    spearman = pick(rows, metric="agreement_spearman", subset="probe").set_index("subset2")["value"].astype(float)
    lines = [
        [name.replace("_", " "), *(percent(accuracy[name, share]) for share in shares), rho]
        for name in names
        for rho in [f"{spearman[name]:.2f}" if name != "probe" else "\u2013"]
    ]
    below = [name for name in names if accuracy[name, 0.1] < accuracy["random", 0.1]]
    page.text(
        "Penalties are not those of the tables above and differ between the two tables here (tops are trained with "
        "l2 = 0.001 alone, representatives with l1 = l2 = 0.001): numbers are to be compared within a table only.",
        "Every ranker orders all neurons; probes are trained on the tops alone, once, and there is one random draw: "
        "these are numbers without intervals. On the top 10 %, "
        + (listing([name.replace("_", " ") for name in below]) or "no ranker")
        + " scored lower than the random draw.",
    )
    page.table(["ranker", *(f"top {100 * share:g}%" for share in shares), "Spearman with the probe's"], lines)


def _redundancy(page: Page, rows: pd.DataFrame, neurons: pd.DataFrame) -> None:
    within = one(rows, "dev_accuracy", subset="all") - float(pick(rows, metric="minimal_neurons")["x"].iloc[0])

    def minimal(**where: Any) -> str:
        reached = one(rows, "minimal_dev_accuracy", **where) >= within
        return f"{one(rows, 'minimal_neurons', **where):.0f}" if reached else "not reached"

    lines = [["all neurons", "", "", percent(one(rows, "accuracy", **ALL)), minimal(**ALL)]]
    for x in sorted(pick(rows, metric="clusters")["x"].unique(), reverse=True):
        representatives = percent(one(rows, "accuracy", subset="representatives", x=x))
        counts = [f"{one(rows, metric, x=x, layer=None):.0f}" for metric in ("clusters", "clusters_over_layers")]
        lines.append([f"correlation {x:g}", *counts, representatives, minimal(subset="representatives", x2=x)])
    within_layers = pick(rows, metric="clusters")
    least = float(within_layers[within_layers["layer"].notna()]["value"].min())
    width = one(neurons, "neurons") / within_layers["layer"].nunique()
    page.text(
        "Neurons put together while they correlate (by average linkage over the words of dev), the best-ranked of each "
        f"cluster standing for it. Clustered within one layer, at least {least:.0f} clusters of {width:.0f} neurons "
        "are left at any of these cuts: what goes together is in different layers. Probes were trained once."
    )
    page.table(["cut at", "clusters", "over several layers", "accuracy of representatives", "minimal set"], lines)


if __name__ == "__main__":
    command(__file__, build)
