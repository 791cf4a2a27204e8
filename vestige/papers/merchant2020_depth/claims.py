"""What the paper says of frozen and truncated models, each statement a test over the tables of a run.

Every point of a curve is a model that was trained on its own: differences have intervals over tuning runs
(`freezing: {runs: 3}`), and of single models none.
"""

import pandas as pd

from vestige.papers.lookup import ENDS, one, pick
from vestige.papers.observed import Observed
from vestige.papers.paper import Statement
from vestige.papers.verdicts import Claim, Estimate, Part

TASKS = {
    "MNLI": ("mnli/mnli",),
    "SQuAD": ("squad/answer",),
    "opinions": ("opinions/opinion",),
    "Parsing": ("parsing/head", "ewt/head", "treebank/head"),
}
"""The tasks that models were tuned on; the third is in no figure of the paper."""
MEASURES = ("accuracy", "f1", "las")
"""What tasks are scored by: of these, the one that the task is tuned by, which the analyses report first."""
FEW = {"MNLI": 2 / 12, "SQuAD": 3 / 12}
"""Of the blocks that must be free to change: on MNLI the score falls when the last two are frozen as well, on SQuAD
when three or fewer may change."""
KEPT = {"MNLI": 3 / 12, "SQuAD": 5 / 12}
"""Of the blocks with which a cut model comes close to the whole."""
CLOSE = 0.03
"""So small a difference of score is none."""
MINE, DEEP = ("MNLI", "SQuAD", "opinions"), "Parsing"
ONCE = "Every one of these models was trained once, and chance in training is not covered by any interval."


def places_of(side: Observed, analysis: str) -> dict[str, tuple[str, str]]:
    """Corpus and measure of every task."""
    found = {}
    for title, (corpus, task) in side.places(TASKS, analysis).items():
        there = pick(side.results, analysis=analysis, corpus=corpus, task=task)["metric"]
        found[title] = (corpus, next(measure for measure in there if measure in MEASURES))
    return found


def measure_of(side: Observed, analysis: str, title: str) -> str:
    """What a task is scored by."""
    return places_of(side, analysis)[title][1]


def scores(side: Observed, analysis: str) -> pd.DataFrame:
    """Columns task, x, value, low, high, majority; means over runs."""
    parts = []
    for title, (corpus, metric) in places_of(side, analysis).items():
        rows = pick(side.results, analysis=analysis, corpus=corpus)
        found = pick(rows, metric=metric)[["x", *ENDS]].astype({"x": int, **dict.fromkeys(ENDS, float)})
        found = found.groupby("x", as_index=False).mean()
        parts.append(found.assign(majority=one(rows, "majority", subset=metric), task=title))
    return pd.concat(parts, ignore_index=True)


def _at(side: Observed, analysis: str, title: str, x: int) -> Estimate:
    """The score at a place of the curve, over tuning runs."""
    corpus, metric = places_of(side, analysis)[title]
    rows = pick(side.results, analysis=analysis, corpus=corpus, metric=metric)
    return Estimate.of_runs(list(rows[rows["x"].astype(int) == x]["value"].astype(float)))


def _told(side: Observed, analysis: str, wanted: dict[str, dict[str, int]]) -> str:
    """'MNLI: 61.2 with nothing frozen, 40.1 with ...'."""
    lines = []
    for title, named in wanted.items():
        cells = [f"{100 * _at(side, analysis, title, x).value:.1f} with {name}" for name, x in named.items()]
        lines.append(f"{title}: {', '.join(cells)}")
    return "; ".join(lines)


def _covered(parts: list[Part]) -> str:
    return "Intervals are over tuning runs." if any(part.estimate.known for part in parts) else ONCE


def few_layers_are_needed(side: Observed) -> Claim:
    """Figure 3: a model of which only a few blocks may change, beside one of which all may."""
    depth, parts = side.layers - 1, []
    for title in places_of(side, "freezing"):
        if title in FEW:
            free = round(FEW[title] * depth) + 1
            lost = _at(side, "freezing", title, depth - free) - _at(side, "freezing", title, -1)
            parts.append(Part(f"{title}, {free} free", lost, above=-CLOSE))
    ends = {title: {"nothing frozen": -1, "the head alone learning": depth} for title in places_of(side, "freezing")}
    return Claim(
        "Only a few unfrozen layers are needed: on MNLI the score falls only when the last two of twelve are "
        "frozen, on SQuAD when three or fewer may change.",
        parts,
        lead=f"Change of score by freezing all other blocks, not below {-100 * CLOSE:g} points",
        note=f"{_told(side, 'freezing', ends)}. {_covered(parts)}",
    )


def parsing_needs_depth(side: Observed) -> Claim:
    """Figure 3: what freezing the lower half costs, of what freezing all blocks costs."""
    depth, costs, parts = side.layers - 1, {}, []
    for title in places_of(side, "freezing"):
        whole, half, none = (_at(side, "freezing", title, x) for x in (-1, depth // 2, depth))
        costs[title] = (whole - half, whole - none)
    for title in MINE:
        if title in costs and DEEP in costs:
            parts.append(Part(f"{DEEP} minus {title}", costs[DEEP][0] - costs[title][0], above=0))
    told = [
        f"{title} {100 * half.value:.1f} and {100 * whole.value:.1f} points" for title, (half, whole) in costs.items()
    ]
    return Claim(
        "Parsing needs deeper change than MNLI and SQuAD.",
        parts,
        lead="Difference of what freezing the lower half of the blocks costs",
        note=f"What freezing the lower half of the blocks costs, and freezing all of them: "
        f"{', '.join(told)}. {_covered(parts)}",
    )


def cut_models_come_close(side: Observed) -> Claim:
    """Figure 4."""
    depth, parts = side.layers - 1, []
    there = places_of(side, "truncation")
    for title in there:
        if title in KEPT:
            kept = round(KEPT[title] * depth)
            lost = _at(side, "truncation", title, kept) - _at(side, "truncation", title, depth)
            parts.append(Part(f"{title}, {kept} blocks", lost, above=-CLOSE))
        elif title == DEEP:
            kept = round(max(KEPT.values()) * depth)
            lost = _at(side, "truncation", title, kept) - _at(side, "truncation", title, depth)
            parts.append(Part(f"{title}, {kept} blocks", lost, below=-CLOSE))
    ends = {title: {"half of the blocks": depth // 2, "all": depth} for title in there}
    return Claim(
        "Cut models come close to the whole with three layers on MNLI and five on SQuAD, while parsing needs more.",
        parts,
        lead=f"Change of score by cutting, not below {-100 * CLOSE:g} points but on parsing",
        note=f"{_told(side, 'truncation', ends)}. {_stuck(scores(side, 'truncation'))}{_covered(parts)}",
    )


def _stuck(found: pd.DataFrame) -> str:
    """Models that are not above the majority."""
    told = []
    for title, rows in found.groupby("task", sort=False):
        low = [str(row.x) for row in rows.itertuples() if row.low <= row.majority]
        told += [f"{title} with {' or '.join(low)} blocks"] if low else []
    return f"The interval of {' and '.join(told)} reaches down to the majority. " if told else ""


FREEZING, TRUNCATION = ("freezing",), ("truncation",)
STATEMENTS = (
    Statement("few_layers_are_needed", few_layers_are_needed, FREEZING),
    Statement("parsing_needs_depth", parsing_needs_depth, FREEZING),
    Statement("cut_models_come_close", cut_models_come_close, TRUNCATION),
)
