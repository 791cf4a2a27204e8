"""The tables of the page: those of the paper, every model beside the others, and what goes beyond it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from vestige.papers.durrani2020.claims import ALL, KEPT, LOOSE, TIGHT, by_property
from vestige.papers.lookup import one, percent, pick
from vestige.papers.observed import Observed
from vestige.papers.page import Page
from vestige.papers.paper import Paper, Sides
from vestige.report.wording import listing

PROPERTY = ("POS", "SEM", "Chunking", "CCG")


def _properties(sides: Sides) -> list[str]:
    return [name for name in PROPERTY if any(name in by_property(side) for side in sides)]


def _cell(number: Callable[[pd.DataFrame, str], str]) -> Callable[[Observed, str, str], str]:
    """A column: a number of a property; nothing where the run has not looked for it."""

    def text(side: Observed, name: str, row: str) -> str:
        results = by_property(side)
        return number(results[name], row) if name in results else ""

    return text


def ablation(page: Page, paper: Paper, sides: Sides) -> None:
    """Tables 1 and 6."""
    for number, metric, on in ((1, "accuracy", "test"), (6, "dev_accuracy", "dev")):
        paper.by_model(
            page,
            sides,
            ["", "kept"],
            [(name, kept) for name in _properties(sides) for kept in KEPT],
            {"": _cell(partial(_of_kept, metric=metric))},
            f"Table {number}: accuracy with 20 % of the neurons kept and the others zeroed out, without training again "
            f"({on})",
            f"Table {number}",
        )


def _of_kept(rows: pd.DataFrame, kept: str, metric: str) -> str:
    return percent(one(rows, metric, **KEPT[kept]))


ROWS = ("selected", "accuracy, all", "accuracy, selected", "selectivity, all", "selectivity, selected")


def minimal(page: Page, paper: Paper, sides: Sides) -> None:
    """Tables 2, 3 and 7."""
    for number, chosen, split, told in (
        (2, TIGHT, "", "the smallest set within 0.5 points on dev, trained again (test)"),
        (3, LOOSE, "", "the same within 2 points"),
        (7, TIGHT, "dev_", "as Table 2, on dev"),
    ):
        paper.by_model(
            page,
            sides,
            ["", ""],
            [(name, row) for name in _properties(sides) for row in ROWS],
            {"": _cell(partial(_of_minimal, chosen=chosen, split=split))},
            f"Table {number}: {told}",
            f"Table {number}",
        )
    counts = [
        f"{side.title} has {int(one(next(iter(by_property(side).values())), 'neurons'))} neurons" for side in sides
    ]
    page.text(f"{listing(counts)}.")


def _of_minimal(rows: pd.DataFrame, row: str, chosen: dict[str, Any], split: str) -> str:
    if row == "selected":
        size, share = (one(rows, metric, **chosen) for metric in ("minimal_neurons", "minimal_share"))
        return f"{size:.0f}/{100 * share:.0f}%"
    metric, which = row.split(", ")
    if metric not in set(rows["metric"]):
        return ""
    return percent(one(rows, split + metric, **(ALL if which == "all" else chosen)))


def data(page: Page, paper: Paper, sides: Sides) -> None:
    """Table 4."""
    side, lines = sides[0], []
    for name, rows in by_property(side).items():
        corpus, task = rows["corpus"].iloc[0], rows["task"].iloc[0]
        splits = side.lock["corpora"][corpus]["splits"]
        labels = pick(rows, metric="label_neurons", **TIGHT)["label"].nunique()
        sizes = [f"{splits[split]['sentences']} ({splits[split]['words']})" for split in ("train", "dev", "test")]
        lines.append([name, f"{corpus}/{task}", *sizes, str(labels)])
    page.table(
        ["", "read from", "train", "dev", "test", "tags"], lines, "Table 4: sentences (words), and tags in train",
        words=2,
    )  # fmt: skip


def penalties(page: Page, paper: Paper, sides: Sides) -> None:
    """Table 5."""

    def found(side: Observed, name: str) -> str:
        rows = by_property(side).get(name)
        return "" if rows is None else ", ".join(f"{one(rows, metric):g}" for metric in ("l1", "l2"))

    paper.by_model(
        page,
        sides,
        [""],
        [(name,) for name in _properties(sides)],
        {"": found},
        "Table 5: penalties l1, l2 with the best score on dev (means over seeds)",
        "Table 5",
    )


def rankers(page: Page, paper: Paper, sides: Sides) -> None:
    """Beyond the paper: other rankings."""
    page.text(
        "Penalties are not those of the tables above and differ between the two tables here (tops are trained with "
        "l2 = 0.001 alone, representatives with l1 = l2 = 0.001): numbers are to be compared within a table only."
    )
    page.each(sides, _rankers)


def _rankers(page: Page, side: Observed) -> None:
    rows = pick(side.results, analysis="neuron_rankers")
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
        "Every ranker orders all neurons; probes are trained on the tops alone, once, and there is one random draw: "
        "these are numbers without intervals. On the top 10 %, "
        + (listing([name.replace("_", " ") for name in below]) or "no ranker")
        + " scored lower than the random draw.",
    )
    page.table(["ranker", *(f"top {100 * share:g}%" for share in shares), "Spearman with the probe's"], lines)


def redundancy(page: Page, paper: Paper, sides: Sides) -> None:
    """Beyond the paper: neurons that go together."""
    page.each(sides, _redundancy)


def _redundancy(page: Page, side: Observed) -> None:
    rows = pick(side.results, analysis="neuron_redundancy")
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
    width = side.lock["models"]["base"][0]["widths"][0]
    page.text(
        "Neurons put together while they correlate (by average linkage over the words of dev), the best-ranked of each "
        f"cluster standing for it. Clustered within one layer, at least {least:.0f} clusters of {width} neurons "
        "are left at any of these cuts: what goes together is in different layers. Probes were trained once."
    )
    page.table(["cut at", "clusters", "over several layers", "accuracy of representatives", "minimal set"], lines)
