"""The part of the page on erasure: is what a layer knows still used by the tuned model?"""

from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from vestige.papers.lookup import one, pick
from vestige.papers.merchant2020.claims import TITLES
from vestige.papers.observed import Observed
from vestige.papers.page import Page, layer_lines
from vestige.papers.paper import Paper, Sides

ERASED = {"none": "nothing erased", "erased": "part of speech", "random": "random directions"}


def write(page: Page, paper: Paper, sides: Sides) -> None:
    """All of it."""
    page.text(
        "A probe says that part of speech can be read from a layer, not that the model reads it there. Here it is "
        "erased from one layer at a time (LEACE, fitted on the training part), and the model is scored on the dev "
        "set of the task that it was tuned on; beside it, as many random directions are taken away (mean over draws)."
    )
    page.each(sides, _write)


def _write(page: Page, side: Observed) -> None:
    there = set(pick(side.results, analysis="erasure")["model"])
    tuned = {role: title for role, title in side.tuned(TITLES).items() if role in there}
    page.text(_erased_probe(side, tuned))
    page.figure(_used(side, tuned), "erasure", "Score of the tuned task with part of speech erased from a layer")
    page.text(_used_in_words(side, tuned))
    _words_lost(page, side, tuned)


def _erasures(side: Observed, metric: str | None, model: str) -> pd.DataFrame:
    """By layer (rows) and what is erased (columns), means over draws; None: of the measure of the model's own task."""
    rows = pick(side.results, analysis="erasure", model=model)
    rows = pick(rows, metric=metric or _own_measure(rows))
    means = rows.groupby(["layer", "subset"])["value"].mean().unstack()
    return means[list(ERASED)].astype(float).sort_index()


def _own_measure(rows: pd.DataFrame) -> str:
    """The measure that a model's own task is judged by: the first one."""
    return next(name for name in rows["metric"] if name.startswith("task_") and name != "task_majority")


def _erased_probe(side: Observed, tuned: Mapping[str, str]) -> str:
    found = np.concatenate([_erasures(side, "accuracy", model)["erased"] for model in ("base", *tuned)])
    majority = one(pick(side.results, analysis="erasure"), "majority", model="base")
    level = " to ".join(dict.fromkeys(f"{100 * value:.1f}" for value in (found.min(), found.max())))
    least = f"{100 * majority:.1f}"
    return f"A linear probe of an erased layer gets {level} % of the words right, the most frequent tag {least} %."


def _used(side: Observed, tuned: Mapping[str, str]) -> alt.FacetChart:
    parts = []
    for model, title in tuned.items():
        wide = _erasures(side, None, model).rename(columns=ERASED)
        parts.append((100 * wide).reset_index().melt("layer", var_name="curve").assign(panel=title))
    colours = dict(zip(ERASED.values(), ("#bbbbbb", "#aa3377", "#66ccee"), strict=True))
    return layer_lines(pd.concat(parts), "score on dev (%)", colours, "erased", height=180, shared=False)


def _used_in_words(side: Observed, tuned: Mapping[str, str]) -> str:
    told = []
    for model, title in tuned.items():
        found = 100 * _erasures(side, None, model)
        lost = found["none"] - found["erased"]
        at = lost.idxmax()
        told.append(
            f"{title}: {found['none'][at]:.1f}, at most {lost[at]:.1f} points lost by erasing (layer {at}), where "
            f"random directions take {found['none'][at] - found['random'][at]:.1f}"
        )
    return (
        "; ".join(told) + ". Scores are those that the tasks are tuned by. The layer is the one that loses most, "
        "chosen by these very numbers: they describe and have no interval."
    )


def _words_lost(page: Page, side: Observed, tuned: Mapping[str, str]) -> None:
    lines = []
    rows = pick(side.results, analysis="erasure", metric="perplexity")
    for model in ("base", *tuned):
        if pick(rows, model=model).empty:
            continue
        found = _erasures(side, "perplexity", model)
        cells = [
            f"{erased:,.0f} ({random:,.0f})" for erased, random in zip(found["erased"], found["random"], strict=True)
        ]
        lines.append([tuned.get(model, model), f"{found['none'].iloc[0]:,.0f}", *cells])
    if lines:
        page.table(
            ["tuned on", "nothing erased", *map(str, found.index)],
            lines,
            f"Perplexity of the base model's language-model head on {rows['corpus'].iloc[0]}, by the layer that part "
            "of speech is erased from; in brackets with random directions erased",
        )
