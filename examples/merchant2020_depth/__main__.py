"""The page of this example: `python -m examples.merchant2020_depth RUN` keeps the tables of a run and writes it."""

import altair as alt
import pandas as pd

from examples.page import ENDS, Page, command, one, pick
from examples.verdicts import Claim
from vestige.study.finished import StudyRun

TASKS = {"mnli": ("MNLI", "accuracy"), "squad": ("SQuAD", "f1"), "ewt": ("Parsing", "las")}


def build(page: Page) -> None:
    """The whole page."""
    run = page.run
    frozen, cut = (_scores(run, analysis) for analysis in ("freezing", "truncation"))
    page.text(
        "# How deep fine-tuning reaches in MiniLM (after Merchant et al. 2020, Figures 3 and 4)",
        "MiniLM is tuned on MNLI, SQuAD 1.1 and dependency parsing (EWT, a biaffine parser) with the embeddings and "
        "its first blocks frozen, and cut after its first blocks, at every depth. The study file is "
        "[study.yaml](study.yaml).",
        f"The paper tunes BERT on whole training sets. Here is one small model of six blocks, all-MiniLM-L6-v2, itself "
        f"tuned for sentence similarity, one run each, on {_sizes(run)}: nothing below is about BERT, and with so few "
        "examples SQuAD is far from solved. Intervals are over held-out examples; they do not cover another draw of "
        "the training examples or another seed.",
    )
    page.claims(_claims(frozen, cut))
    page.text("## Figure 3: freezing", "\u22121: nothing is frozen; 0: the embeddings; 6: the head alone learns.")
    page.figure(_chart(frozen, "frozen blocks"), "freezing", "Score by the number of frozen blocks")
    _table(page, frozen)
    page.text("## Figure 4: truncation")
    page.figure(_chart(cut, "blocks kept"), "truncation", "Score by the number of blocks kept")
    _table(page, cut)


def _sizes(run: StudyRun) -> str:
    sizes = {name: run.tables.lock["corpora"][name]["splits"]["train"]["sentences"] for name in TASKS}
    return ", ".join(f"{sizes[name]} examples of {title}" for name, (title, _) in TASKS.items())


def _scores(run: StudyRun, analysis: str) -> pd.DataFrame:
    """Columns task, x, value, low, high, majority."""
    parts = []
    for corpus, (title, metric) in TASKS.items():
        rows = pick(run.results, analysis=analysis, corpus=corpus)
        found = pick(rows, metric=metric)[["x", *ENDS]].astype({"x": int, **dict.fromkeys(ENDS, float)})
        parts.append(found.assign(majority=one(rows, "majority", subset=metric), task=title))
    return pd.concat(parts, ignore_index=True)


def _by_task(scores: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {title: scores[scores["task"] == title].set_index("x").sort_index() for title, _ in TASKS.values()}


ONCE = "Every one of these models was trained once, and chance in training is not covered by any interval."


def _claims(frozen: pd.DataFrame, cut: pd.DataFrame) -> list[Claim]:
    """What is claimed is a difference between models that were trained apart, once each: it has no interval."""
    half = int(frozen["x"].max()) // 2
    costs = []
    for title, rows in _by_task(frozen).items():
        gain, lost = rows["value"][-1] - rows["value"].iloc[-1], rows["value"][-1] - rows["value"][half]
        costs.append(f"{title} {100 * lost:.1f} of {100 * gain:.1f} points")
    ends = [
        f"{title}: {_told(rows.loc[-1])} with nothing frozen, {_told(rows.iloc[-1])} with the head alone learning"
        for title, rows in _by_task(frozen).items()
    ]
    return [
        Claim(
            "Only a few unfrozen layers are needed: on MNLI the score falls only when the last two of twelve are "
            "frozen, on SQuAD when three or fewer may change.",
            [],
            note=f"{'; '.join(ends)}. {ONCE}",
        ),
        Claim(
            "Parsing needs deeper change than MNLI and SQuAD.",
            [],
            note=f"Freezing the lower half of the blocks costs so much of what freezing all of them costs: "
            f"{', '.join(costs)}. {ONCE}",
        ),
        Claim(
            "Cut models come close to the whole with three layers on MNLI and five on SQuAD, while parsing needs more.",
            [],
            note="With half of the blocks, and whole: "
            + ", ".join(
                f"{title} {100 * rows['value'][half]:.1f} and {100 * rows['value'].iloc[-1]:.1f}"
                for title, rows in _by_task(cut).items()
            )
            + f". {_stuck(cut)}{ONCE}",
        ),
    ]


def _stuck(scores: pd.DataFrame) -> str:
    """Models that are not above the majority."""
    found = []
    for title, rows in _by_task(scores).items():
        low = [str(x) for x in rows.index if rows["low"][x] <= rows["majority"][x]]
        found += [f"{title} with {' or '.join(low)} blocks"] if low else []
    return f"The interval of {' and '.join(found)} reaches down to the majority. " if found else ""


def _told(row: pd.Series) -> str:
    return f"{100 * row['value']:.1f} ({100 * row['low']:.1f} to {100 * row['high']:.1f})"


def _chart(scores: pd.DataFrame, title: str) -> alt.FacetChart:
    frame = scores.copy()
    frame[["value", "low", "high"]] *= 100
    base = alt.Chart(frame).encode(alt.X("x:Q").title(title).axis(tickMinStep=1, format="d"))
    band = base.mark_area(opacity=0.2, color="#4477aa").encode(alt.Y("low:Q").title("score (%)"), alt.Y2("high:Q"))
    line = base.mark_line(point=True, color="#4477aa").encode(alt.Y("value:Q").scale(zero=False))
    order = [title for title, _ in TASKS.values()]
    return (
        alt.layer(band, line)
        .properties(width=230, height=190)
        .facet(facet=alt.Facet("task:N", sort=order, title=None), columns=3)
        .resolve_scale(y="independent")
    )


def _table(page: Page, scores: pd.DataFrame) -> None:
    tasks = _by_task(scores)
    named = dict(TASKS.values())
    places = sorted(scores["x"].unique())
    lines = [[str(x), *(_told(rows.loc[x]) if x in rows.index else "" for rows in tasks.values())] for x in places]
    majority = [f"{100 * rows['majority'].iloc[0]:.1f}" for rows in tasks.values()]
    page.table(["blocks", *(f"{title}, {named[title]}" for title in tasks)], [*lines, ["majority", *majority]])


if __name__ == "__main__":
    command(__file__, build)
