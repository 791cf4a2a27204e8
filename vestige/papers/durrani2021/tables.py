"""The tables and figures of the page."""

from collections.abc import Callable
from functools import partial
from typing import Any

import altair as alt
import pandas as pd

from vestige.papers.durrani2021.claims import (
    ALL,
    PROTOCOLS,
    TIGHT,
    fixed_settings,
    largest_disagreement,
    pruned_tasks,
    pruning_measure,
    pruning_scores,
)
from vestige.papers.durrani2021.contrast import PROPERTIES, TITLES, accuracies, changes_of, params_of
from vestige.papers.lookup import one, percent, pick, stands_out
from vestige.papers.observed import Observed
from vestige.papers.page import Page, colours_of, tuned_models
from vestige.papers.paper import Paper, Sides

NUMBERS = {"POS": 1, "Chunking": 4, "SEM": 5}
"""Of the paper's tables of top and bottom neurons."""


def tuned(page: Page, paper: Paper, sides: Sides) -> None:
    """Scores of the tuned models."""
    for side in sides:
        tuned_models(page, side, side.tuned(TITLES))


def layers(page: Page, paper: Paper, sides: Sides) -> None:
    """Figures 1 and 4."""
    page.each(sides, _layers)


def _layers(page: Page, side: Observed) -> None:
    page.text(largest_disagreement(side))
    for protocol, told in PROTOCOLS.items():
        params = params_of(side, protocol)
        if params is not None:
            page.text(f"Probes {told} (`{protocol}`); means over runs.")
            page.figure(_curves(side, params), f"layers_{protocol}", f"Probe accuracy by layer, {protocol}")
            _changes(page, side, params)


def _titled(side: Observed, rows: pd.DataFrame) -> pd.DataFrame:
    """With the titles of properties and models; the mean over runs and seeds by layer."""
    titles = {place: name for name, place in side.places(PROPERTIES, "layer_probe").items()}
    frame = rows.groupby(["corpus", "task", "model", "layer"], as_index=False)["value"].mean()
    frame["property"] = [titles.get(pair) for pair in zip(frame["corpus"], frame["task"], strict=True)]
    frame["model"] = [side.tuned(TITLES).get(name, name) for name in frame["model"]]
    return frame[frame["property"].notna()]


def _curves(side: Observed, params: str) -> alt.FacetChart:
    frame = _titled(side, accuracies(side, params))
    frame["value"] *= 100
    colours = colours_of(side.tuned(TITLES))
    order = [name for name in colours if name in set(frame["model"])]
    properties = [name for name in PROPERTIES if name in set(frame["property"])]
    return (
        alt.Chart(frame)
        .mark_line(point=True)
        .encode(
            alt.X("layer:Q").title("layer (0: embeddings)").axis(tickMinStep=1, format="d"),
            alt.Y("value:Q").title("accuracy (%)").scale(zero=False),
            alt.Color("model:N", sort=order, title="tuned on").scale(
                domain=order, range=[colours[name] for name in order]
            ),
        )
        .properties(width=250, height=220)
        .facet(facet=alt.Facet("property:N", sort=properties, title=None), columns=3)
        .resolve_scale(y="independent")
    )  # fmt: skip


def _changes(page: Page, side: Observed, params: str) -> None:
    changes, lines = changes_of(side, params), []
    for name, (corpus, task) in side.places(PROPERTIES, "layer_probe").items():
        for model, title in side.tuned(TITLES).items():
            part = pick(changes, corpus=corpus, task=task, model=model).sort_values("layer")
            cells = [f"{100 * row.difference:+.1f}{stands_out(row)}" for row in part.itertuples()]
            lines.append([name, title, *cells])
    depth = int(changes["layer"].max())
    page.table(["", "tuned on", *map(str, range(depth + 1))], lines, "Change of accuracy in points, by layer", words=2)
    page.text(
        "One seed of the probes: chance in their training is not known, and none of these differences is tested."
        if (changes["verdict"] == "described").all()
        else "\\* significant after correction: q at most 0.05 over layers, tasks and models, by a test over sentences "
        "and runs."
    )


def spread(page: Page, paper: Paper, sides: Sides) -> None:
    """Figures 2 and 3."""
    page.text(
        "Figures 2 and 3: how the neurons of the minimal sets (within 0.5 points) spread over layers, in percent."
    )
    page.each(sides, _spread)


def _spread(page: Page, side: Observed) -> None:
    rows = pick(fixed_settings(side), metric="selected_neurons", **TIGHT).astype({"layer": int, "value": float})
    frame = _titled(side, rows)
    frame["share"] = 100 * frame["value"] / frame.groupby(["property", "model"])["value"].transform("sum")
    order = ["base", *side.tuned(TITLES).values()]
    chart = (
        alt.Chart(frame)
        .mark_rect()
        .encode(
            alt.X("layer:O").title("layer (0: embeddings)").axis(labelAngle=0),
            alt.Y("model:N", sort=order, title=None),
            alt.Color("share:Q", title="% of neurons").scale(scheme="blues"),
        )
        .properties(width=230, height=190)
        .facet(facet=alt.Facet("property:N", sort=list(PROPERTIES), title=None), columns=3)
    )
    page.figure(chart, "spread", "Layers of the selected neurons, base and tuned models")


def _models(sides: Sides) -> list[str]:
    """Roles that some base model has: the base itself, and what it was tuned on."""
    return ["base", *dict.fromkeys(role for side in sides for role in side.tuned(TITLES))]


def _title(sides: Sides, role: str) -> str:
    return "Base" if role == "base" else next(t for s in sides for r, t in s.tuned(TITLES).items() if r == role)


def _cell(
    sides: Sides, name: str, number: Callable[[pd.DataFrame], str], places: str = "neurons"
) -> Callable[[Observed, str], str]:
    """A column: a number of a property and a model by the title of its task."""
    roles = {_title(sides, role): role for role in _models(sides)}

    def text(side: Observed, title: str) -> str:
        place = side.places(PROPERTIES, places).get(name)
        rows = fixed_settings(side)
        mine = pick(rows, corpus=place[0], task=place[1], model=roles[title]) if place else rows.iloc[:0]
        return number(mine) if len(mine) else ""

    return text


def top_and_bottom(page: Page, paper: Paper, sides: Sides) -> None:
    """Tables 1, 4 and 5."""
    keys = [(_title(sides, role),) for role in _models(sides)]
    wanted: dict[str, dict[str, Any]] = {"all": ALL}
    for share in (0.05, 0.1):
        for which in ("top", "bottom"):
            wanted[f"{which} {100 * share:.0f} %"] = {"subset": "retrained", "side": which, "x": share}
    for name, number in NUMBERS.items():
        if any(name in side.places(PROPERTIES, "neurons") for side in sides):
            columns = {
                title: _cell(sides, name, partial(_number, metric="accuracy", where=where))
                for title, where in wanted.items()
            }
            caption = f"Table {number}: {name}, accuracy of probes trained on the top and bottom neurons"
            paper.by_model(page, sides, [""], keys, columns, caption, f"Table {number}")


def minimal(page: Page, paper: Paper, sides: Sides) -> None:
    """Table 7, of tuned models too."""
    keys = [(_title(sides, role),) for role in _models(sides)]
    for name in PROPERTIES:
        if not any(name in side.places(PROPERTIES, "neurons") for side in sides):
            continue
        columns = {"selected": _cell(sides, name, _size)}
        for metric in ("accuracy", "selectivity"):
            for which, where in (("all", ALL), ("selected", TIGHT)):
                columns[f"{metric}, {which}"] = _cell(sides, name, partial(_number, metric=metric, where=where))
        caption = f"Table 7: {name}, minimal sets within 0.5 points, means over runs"
        paper.by_model(page, sides, [""], keys, columns, caption, f"Table 7, {name}")


def _number(rows: pd.DataFrame, metric: str, where: dict[str, Any]) -> str:
    return percent(one(rows, metric, **where)) if metric in set(rows["metric"]) else ""


def _size(rows: pd.DataFrame) -> str:
    size, share = (one(rows, metric, **TIGHT) for metric in ("minimal_neurons", "minimal_share"))
    return f"{size:.0f} ({100 * share:.0f} %)"


def searched(page: Page, paper: Paper, sides: Sides) -> None:
    """Table 8."""

    def found(side: Observed, name: str) -> str:
        place = side.places(PROPERTIES, "neurons").get(name)
        rows = pick(side.results, analysis="neurons", model="base")
        rows = rows[rows["params"].isin(side.settings("neurons", l1=None))]
        mine = pick(rows, corpus=place[0], task=place[1]) if place else rows.iloc[:0]
        return ", ".join(f"{one(mine, metric):g}" for metric in ("l1", "l2")) if len(mine) else ""

    if any(side.settings("neurons", l1=None) for side in sides):
        caption = "Table 8: penalties l1, l2 found by the search, base models"
        paper.by_model(page, sides, [""], [(name,) for name in PROPERTIES], {"": found}, caption, "Table 8")
    page.text(
        "All other numbers on neurons use l1 = l2 = 0.001 for every model and property, so that base and tuned models "
        "differ in nothing but their weights."
    )


def pruning(page: Page, paper: Paper, sides: Sides) -> None:
    """Tables 2 and 6."""
    rows = {"Baseline": "all", "Prune Top": "top", "Prune Bottom": "bottom", "majority": "majority"}
    names = dict(item for side in sides for item in pruned_tasks(side).items())

    def score(name: str) -> Callable[[Observed, str], str]:
        def text(side: Observed, row: str) -> str:
            if name not in pruned_tasks(side):
                return ""
            found = pruning_scores(side, name)[rows[row]]
            if len(found) == 1:
                return f"{100 * found[0]:.1f}"
            return "{:.1f} ({:.1f} to {:.1f})".format(*(100 * value for value in found))

        return text

    columns = {title: score(name) for name, title in names.items()}
    caption = (
        "Tables 2 and 6: score on dev after tuning, whole and with the upper or the lower half of the blocks dropped"
    )
    paper.by_model(page, sides, [""], [(row,) for row in rows], columns, caption, "Table 2")
    measures = "; ".join(
        f"{title} {next(pruning_measure(side, name) for side in sides if name in pruned_tasks(side))}"
        for name, title in names.items()
    )
    page.text(f"Measures: {measures}. Intervals of 95 % are over examples; chance in tuning is not covered.")
