"""The tables of the page."""

from collections.abc import Callable
from typing import Any

from vestige.papers.lookup import pick
from vestige.papers.mosbach2020 import figures
from vestige.papers.mosbach2020.changes import POOLINGS, PROBED, SOURCES, TITLES, changes_of
from vestige.papers.mosbach2020.mechanisms import perplexities
from vestige.papers.observed import Observed
from vestige.papers.page import Page, spread, unlearnt
from vestige.papers.paper import Paper, Sides
from vestige.report.wording import listing

SCORES = {
    "cola": [("matthews", "Matthews")],
    "sst2": [("accuracy", "accuracy")],
    "rte": [("accuracy", "accuracy")],
    "squad": [("exact_match", "exact match"), ("f1", "F1")],
}
GROUPS = ("lower", "upper")


def tuned(page: Page, paper: Paper, sides: Sides) -> None:
    """Table 1."""
    titles = _titles(sides)
    rows = {
        f"{titles[role]}, {title}": (role, measure)
        for role, measures in SCORES.items()
        if role in titles
        for measure, title in measures
    }

    def score(side: Observed, title: str) -> str:
        role, measure = rows[title]
        runs = side.lock["models"].get(role, [])
        return spread([run["curve"][-1][f"dev_{measure}"] for run in runs]) if runs else ""

    caption = "Table 1: the tuned models on dev, mean of the runs (their range)"
    paper.by_model(page, sides, ["task"], [(title,) for title in rows], {"": score}, caption, "Table 1")
    for side in sides:
        whose = f"{side.title}: " if len(sides) > 1 else ""
        page.text(*(f"{whose}{text}" for text in unlearnt(side, side.tuned(TITLES))))


def _titles(sides: Sides) -> dict[str, str]:
    """What each tuned model was tuned on, by role: the paper's task, or the corpus that stands in for it."""
    return {role: title for side in sides for role, title in side.tuned(TITLES).items()}


def probing_sets(page: Page, paper: Paper, sides: Sides) -> None:
    """How derived sets of sentences were made, and their sizes."""
    side, lines = sides[0], []
    for source, probed in changes_of(side).pairs:
        about = side.lock["corpora"][f"{source}_{probed}"]
        made = [note.removeprefix("derived: ").replace("_", " ") for note in about["notes"] if note[:9] == "derived: "]
        sizes = [f"{about['splits'][split]['sentences']:,}" for split in ("train", "dev", "test")]
        lines.append([PROBED[probed], SOURCES[source], " ".join(made) or "as published", *sizes])
    page.table(["sentences", "from", "how they were made", "train", "dev", "test"], lines, words=3)


def base(page: Page, paper: Paper, sides: Sides) -> None:
    """Figure 1."""
    page.each(
        sides,
        lambda page, side: page.figure(
            figures.base_accuracy(side), "figure1", "Probe accuracy of the base model by layer and pooling"
        ),
    )


def groups(page: Page, paper: Paper, sides: Sides) -> None:
    """Tables 2 and 5, and Figures 4 and 5."""
    keys, titles = list(dict.fromkeys(pair for side in sides for pair in changes_of(side).pairs)), _titles(sides)
    for number, tasks in ((2, ("cola", "sst2")), (5, ("rte", "squad"))):
        there = [task for task in tasks if any(task in changes_of(side).tuned for side in sides)]
        columns = {
            f"{told}, {titles[task]}, {GROUPS[half]}": _group(pooling, task, half)
            for pooling, told in POOLINGS.items()
            for task in there
            for half in (0, 1)
        }
        caption = f"Table {number}: change of accuracy in points, averaged over the lower and the upper layers"
        rows = [(PROBED[probed], SOURCES[source]) for source, probed in keys]
        if there:
            paper.by_model(page, sides, ["", "from"], rows, columns, caption, f"Table {number}")
    named = [f"{side.title}: {_named_groups(side)}" for side in sides if changes_of(side).tuned]
    page.text(
        f"Layers: {'; '.join(named)}. \\* the 95 % interval over sentences and runs leaves out zero; nothing is "
        "corrected for the many cells of these tables. Figure 4: change with [CLS], with a dot where a layer's "
        "interval leaves out zero; the diamonds are tuned [CLS] against the *mean* of the base model, which a gain of "
        "new knowledge would have to pass. Figure 5: change with the mean."
    )
    page.text(_failed(sides))
    page.each(sides, _by_layer)


def _failed(sides: Sides) -> str:
    """How many probes of these tables failed; empty where none did."""
    found = {side.title: pick(side.results, analysis="sentence_probe", metric="failed_probe") for side in sides}
    failed = {title: int((rows["value"] > 0).sum()) for title, rows in found.items()}
    told = [f"{n:,} of {len(found[title]):,} of {title}" for title, n in failed.items() if n]
    return f"Probes that failed, and are part of these averages: {listing(told)}." if told else ""


def _by_layer(page: Page, side: Observed) -> None:
    page.figure(figures.by_layer(side, "cls"), "figure4", "Change of accuracy by layer with [CLS]")
    page.figure(figures.by_layer(side, "sentence_mean"), "figure5", "Change of accuracy by layer with the mean")


def _named_groups(side: Observed) -> str:
    changes = changes_of(side)
    return " and ".join(changes.groups(*changes.pairs[0], next(iter(changes.tuned)), "cls")["group"])


def _group(pooling: str, task: str, half: int) -> Callable[[Observed, str, str], str]:
    probes = {title: probed for probed, title in PROBED.items()}
    sources = {title: source for source, title in SOURCES.items()}

    def text(side: Observed, probed: str, source: str) -> str:
        changes, pair = changes_of(side), (sources[source], probes[probed])
        if pair not in changes.pairs or task not in changes.tuned:
            return ""
        row: Any = changes.groups(*pair, task, pooling).iloc[half]
        return f"{round(100 * row.difference, 9):+.2f}{'*' if row.low > 0 or row.high < 0 else ''}"

    return text


def attention(page: Page, paper: Paper, sides: Sides) -> None:
    """Figure 2."""
    page.text(
        "Entropy in nats, and the earth mover's distance from the base model's attention for the same sentence and "
        "head (one token's step costs 1), means over heads, sentences and runs.",
    )
    page.each(
        sides,
        lambda page, side: page.figure(
            figures.attention(side), "figure2", "Entropy and movement of the attention of [CLS] by layer"
        ),
    )


def perplexity(page: Page, paper: Paper, sides: Sides) -> None:
    """Figure 3."""
    page.each(sides, _perplexity)


def _perplexity(page: Page, side: Observed) -> None:
    fitted = (
        " The head was fitted on the frozen base model and is weaker than a pre-trained one."
        if side.source == "minilm"
        else ""
    )
    page.text(
        f"Perplexity of masked tokens ({_text_read(side)}) with the language-model head of the base model, mean and "
        f"standard deviation over runs.{fitted} Left: during tuning. Right: with the last layers replaced by "
        "the base model's; the embeddings stay those of the tuned model, so the last point need not be the base's."
    )
    page.figure(figures.perplexity(side), "figure3", "Perplexity during tuning, and with layers replaced")
    table, lines = perplexities(side), []
    titles = list(table["model"].unique())
    for part, title in (("during", "after step {}"), ("replaced", "last {} replaced")):
        mine = table[table["part"] == part]
        for x in sorted(mine["x"].unique()):
            cells = []
            for model in titles:
                values = mine[(mine["model"] == model) & (mine["x"] == x)]["value"]
                several = f"{values.mean():.1f} ± {values.std():.1f}" if len(values) > 1 else ""
                cells.append(several or (f"{values.iloc[0]:.1f}" if len(values) else ""))
            lines.append([title.format(x), *cells])
    head_row = ["", *(f"tuned on {title}" for title in titles)]
    page.table(head_row, lines, "Perplexity, mean ± standard deviation over runs")


def _text_read(side: Observed) -> str:
    """How much of which text."""
    rows = pick(side.results, analysis="perplexity", metric="block_tokens")
    corpus = side.lock["corpora"][str(pick(side.results, analysis="perplexity")["corpus"].iloc[0])]["name"]
    if rows.empty:
        return f"sentences of {corpus}"
    row = rows.iloc[0]
    size = int(row["value"])
    return f"the first {int(row['n']) * size:,} tokens of the test part of {corpus}, in blocks of {size}"
