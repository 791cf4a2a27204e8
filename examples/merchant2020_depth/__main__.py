"""The page of this example: `python -m examples.merchant2020_depth RUN` keeps the tables of a run and writes it."""

import altair as alt
import pandas as pd

from examples.page import Claim, Page, command, pick
from vestige.study.run import StudyRun

TASKS = {"mnli": ("MNLI", "accuracy"), "squad": ("SQuAD", "f1"), "ewt": ("Parsing", "las")}
KEPT = 0.8
"""A score that keeps so much of what the whole tuned model gains counts as reaching it."""


def build(page: Page) -> None:
    """The whole page."""
    run = page.run
    frozen, cut = (_scores(run, analysis) for analysis in ("freezing", "truncation"))
    page.text(
        "# How deep fine-tuning reaches in MiniLM (after Merchant et al. 2020, Figures 3 and 4)",
        "MiniLM is tuned on MNLI, SQuAD 1.1 and dependency parsing (EWT, a biaffine parser) with the embeddings and "
        "its first blocks held fixed, and cut after its first blocks, at every depth. The study file is "
        "[study.yaml](study.yaml).",
        f"The paper tunes BERT on whole training sets. Here is one small model of six blocks, all-MiniLM-L6-v2, itself "
        f"tuned for sentence similarity, one run each, on {_sizes(run)}: nothing below is about BERT, and with so few "
        "examples SQuAD is far from solved. Intervals are over held-out examples; they do not cover another draw of "
        "the training examples or another seed.",
        "## What the paper says, and what is seen here",
    )
    page.claims([_few_blocks(frozen), _parsing_deeper(frozen), _truncation(cut)])
    page.text("## Figure 3: freezing", "\u22121: nothing is held; 0: the embeddings; 6: the head alone learns.")
    page.figure(_chart(frozen, "blocks held fixed"), "freezing", "Score by the number of blocks held fixed")
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
        values = {
            side: pick(rows, metric=f"{metric}{name}").set_index("x")["value"].astype(float)
            for side, name in (("value", ""), ("low", "_low"), ("high", "_high"), ("majority", "_majority"))
        }
        parts.append(pd.DataFrame(values).rename_axis("x").reset_index().assign(task=title).astype({"x": int}))
    return pd.concat(parts, ignore_index=True)


def _by_task(scores: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {title: scores[scores["task"] == title].set_index("x").sort_index() for title, _ in TASKS.values()}


def _reach(scores: pd.DataFrame) -> dict[str, int]:
    """The most blocks that can be held with most of the gain over the head alone; fewer do not do worse."""
    found = {}
    for title, rows in _by_task(scores).items():
        least = rows["value"].iloc[-1] + KEPT * (rows["value"][-1] - rows["value"].iloc[-1])
        found[title] = next((int(x) - 1 for x in rows.index if rows["value"][x] < least), int(rows.index[-1]))
    return found


def _unlearnt(scores: pd.DataFrame) -> list[str]:
    """Tasks on which the whole tuned model is not shown to beat the head alone."""
    return [title for title, rows in _by_task(scores).items() if rows["low"][-1] <= rows["high"].iloc[-1]]


def _few_blocks(scores: pd.DataFrame) -> Claim:
    reach, unlearnt = _reach(scores), _unlearnt(scores)
    depth = int(scores["x"].max())
    return Claim(
        "Only a few unfrozen layers are needed: on MNLI the score falls only when the last two of twelve are frozen, "
        "on SQuAD when three or fewer may change.",
        None if {"MNLI", "SQuAD"} & set(unlearnt) else min(reach["MNLI"], reach["SQuAD"]) >= depth / 2,
        f"{100 * KEPT:g} % of what tuning gains over the head alone is kept with the first "
        + ", ".join(f"{max(k, 0)} ({title})" for title, k in reach.items())
        + f" of {depth} blocks held. "
        + (f"On {' and '.join(unlearnt)} so little is learnt that the two intervals overlap. " if unlearnt else "")
        + " ".join(
            f"{title}: {_told(rows.loc[-1])} with nothing held, {_told(rows.iloc[-1])} with the head alone learning."
            for title, rows in _by_task(scores).items()
        ),
    )


def _parsing_deeper(scores: pd.DataFrame) -> Claim:
    lost = {}
    for title, rows in _by_task(scores).items():
        gain = rows["value"][-1] - rows["value"].iloc[-1]
        half = rows["value"][-1] - rows["value"][int(scores["x"].max()) // 2]
        lost[title] = (half, gain)
    shares = {title: half / gain for title, (half, gain) in lost.items()}
    overlap = [title for title in shares if title != "Parsing" and not _shares_apart(scores, "Parsing", title)]
    return Claim(
        "Parsing needs deeper change than MNLI and SQuAD.",
        None if overlap else shares["Parsing"] > max(shares["MNLI"], shares["SQuAD"]),
        "Holding the lower half of the blocks costs this share of what holding all of them costs: "
        + ", ".join(
            f"{title} {100 * shares[title]:.0f} % ({100 * half:.1f} of {100 * gain:.1f} points)"
            for title, (half, gain) in lost.items()
        )
        + "."
        + (f" The intervals of the scores do not tell parsing from {' and '.join(overlap)}." if overlap else ""),
    )


def _shares_apart(scores: pd.DataFrame, one: str, other: str) -> bool:
    """Whether what holding the lower half costs, as a share of the gain, is told apart by the scores' intervals."""
    bounds = []
    for rows in (_by_task(scores)[title] for title in (one, other)):
        gain, half = rows["value"][-1] - rows["value"].iloc[-1], int(scores["x"].max()) // 2
        bounds.append([(rows["value"][-1] - rows[side][half]) / gain for side in ("high", "low")])
    (low, high), (other_low, other_high) = bounds
    return bool(low > other_high or high < other_low)


def _truncation(scores: pd.DataFrame) -> Claim:
    enough, untaught = {}, []
    for title, rows in _by_task(scores).items():
        least = rows["majority"].iloc[0] + KEPT * (rows["value"].iloc[-1] - rows["majority"].iloc[0])
        enough[title] = min(int(x) for x in rows.index if rows["value"][x] >= least)
        stuck = [str(x) for x in rows.index if rows["low"][x] <= rows["majority"][x]]
        if stuck:
            untaught.append(f"{title} with {' or '.join(stuck)} blocks")
    return Claim(
        "Cut models come close to the whole with three layers on MNLI and five on SQuAD, while parsing needs more.",
        None if untaught else enough["Parsing"] > max(enough["MNLI"], enough["SQuAD"]),
        f"{100 * KEPT:g} % of what the whole gains over the majority is reached with "
        + ", ".join(f"{blocks} blocks ({title})" for title, blocks in enough.items())
        + "."
        + (
            f" But {' and '.join(untaught)} does not leave the majority: so short a training taught it nothing, which "
            "need not be for lack of depth."
            if untaught
            else ""
        ),
    )


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
