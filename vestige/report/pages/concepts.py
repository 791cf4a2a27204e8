"""Concepts: which clusters of words survive fine-tuning, which are of one label, and some that vanished or appeared."""

from collections.abc import Iterator
from itertools import islice

import pandas as pd

from vestige.analyses.metric import Metric
from vestige.report import changes, default, numbers
from vestige.report.reading import Part, Reading
from vestige.report.types import Answer, Block, Folded, Page, Table
from vestige.report.wording import GLUE, layer, layers, percent, task_title

_SURVIVAL, _AGREEMENT, _ALIGNED = "survival", "agreement_change", "beyond_chance"
_FEWER = {"lower": ("fewer", "less"), "higher": ("more", "more")}
_KINDS = {
    "vanished": "Clusters of the base that {model} does not have",
    "appeared": "Clusters of {model} that the base does not have",
}


def page(reading: Reading, analysis: str) -> Page:
    """The default page; examples of clusters where a change is shown."""
    found = default.page(
        reading,
        analysis,
        _nothing_more,
        title="Which clusters of words remain",
        lede="The vectors of words are clustered at every layer, without labels. Clusters of the base are looked for "
        "in the tuned model and in the base clustered again under another seed, which does not find all of them "
        "either: only what is lost beyond that is a change. Clusters are fitted on the words that are counted; "
        "intervals are over sentences and over seeds of the clustering, with the clusters as they are.",
    )
    seen: set[tuple[str, str]] = set()
    for section, part in zip(found.sections, reading.parts(analysis), strict=True):
        several = len({one.corpus for one in reading.parts(analysis)}) > 1
        for model in (name for name in part.models if name not in reading.twins):
            if (part.corpus, model) not in seen:  # clusters of a corpus are the same whatever the labels
                found.answers += _kept(part, model, f" of {part.corpus}" if several else "")
            seen.add((part.corpus, model))
            found.answers += _aligned(part, model)
            section.blocks += _examples(reading, part, model)
    return found


def _nothing_more(part: Part, model: str) -> Iterator[tuple[float, str]]:
    """Curves speak for themselves: what is claimed of them are changes."""
    yield from ()


def _rows(part: Part, model: str, metric: str) -> pd.DataFrame:
    """The comparisons of a model by a metric, layer by layer."""
    if part.changes.empty or metric not in part.declared.metrics:
        return pd.DataFrame()
    rows = changes.of(part, part.declared.metrics[metric])
    return rows[(rows["model"] == model) & rows["layer"].notna() & rows["difference"].notna()]


def _shown(rows: pd.DataFrame, verdict: str) -> pd.DataFrame:
    return rows[rows["verdict"] == verdict] if len(rows) else rows


def _kept(part: Part, model: str, where: str) -> Iterator[Answer]:
    """Whether the base's clusters are in the tuned model: by agreement, else by words in clusters found again."""
    found = {name: _rows(part, model, name) for name in (_AGREEMENT, _SURVIVAL)}
    claimed = False
    for verdict, (fewer, less) in _FEWER.items():
        said = {
            _AGREEMENT: f"Clusters of words{where} agree {less} with the base's than those of the base clustered again "
            "(AMI)",
            _SURVIVAL: f"{fewer.capitalize()} words{where} keep their cluster than when the base is clustered again",
        }
        shown = {name: mine for name, rows in found.items() if len(mine := _shown(rows, verdict))}
        for name, rows in islice(shown.items(), 1):
            claimed = True
            at = _most(part.declared.metrics[name], rows)
            yield Answer("representations", model, f"{said[name]}, at {at}.", verdict)
    agreed = found[_AGREEMENT]
    if not claimed and len(agreed) and (agreed["verdict"] == "unchanged").all():
        within = numbers.margin(part.declared.metrics[_AGREEMENT], float(agreed["margin"].max()))
        text = f"Clusters of words{where} agree with the base's as those of the base clustered again do"
        yield Answer("representations", model, f"{text} (AMI, within \u00b1{within}).", "unchanged")


def _aligned(part: Part, model: str) -> Iterator[Answer]:
    """Whether more or fewer words than in the base are in clusters of one label."""
    rows = _rows(part, model, _ALIGNED)
    tuned_on = part.rows.loc[part.rows["model"] == model, "tuned_on"].dropna()
    own = "its own task" if (tuned_on == part.name).any() else task_title(part.task)
    for verdict, (fewer, _) in _FEWER.items():
        shown = _shown(rows, verdict)
        if len(shown):
            text = f"{fewer.capitalize()} words are, beyond chance, in clusters of one label ({own}) than in the base"
            at = _most(part.declared.metrics[_ALIGNED], shown)
            yield Answer("representations", model, f"{text}, at {at}.", verdict)


def _most(metric: Metric, rows: pd.DataFrame) -> str:
    """'layers 4 to 6 (at layer 6: 45.0 -> 12.3)'."""
    top = rows.loc[rows["difference"].abs().idxmax()]
    most = f"at {layer(int(top['layer']))}: " if len(rows) > 1 else ""
    unit = f"{GLUE}%" if metric.unit == "percent" else ""
    return f"{layers(rows['layer'].astype(int))} ({most}{numbers.moved(metric, top['base'], top['tuned'])}{unit})"


def _examples(reading: Reading, part: Part, model: str) -> Iterator[Block]:
    """Clusters that one model has under every seed and the other under none, of layers where clusters changed."""
    changed = [_rows(part, model, name) for name in (_SURVIVAL, _AGREEMENT)]
    at = sorted({int(number) for rows in changed if len(rows) for number in _shown(rows, "lower")["layer"]})
    cells = part.rows.loc[part.rows["model"] == model, "cell"].drop_duplicates()
    kept = reading.kept("examples")
    table = next((kept[cell] for cell in cells if cell in kept), None)
    if not at or table is None:
        return
    table = table[table["layer"].isin(at)]
    folded = [
        Folded(title.format(model=model), tables=[_table(mine)])
        for kind, title in _KINDS.items()
        if len(mine := table[table["kind"] == kind])
    ]
    if folded:
        yield Block(
            f"Clusters that differ: {model}",
            "Found in one model under every seed, and in the other under none; the largest of every layer at which the "
            "clusters are shown to have changed. Of several runs, the first.",
            folded=folded,
        )


def _table(rows: pd.DataFrame) -> Table:
    """A line for every cluster."""
    lines = []
    for (number, _), mine in rows.groupby(["layer", "example"], sort=False):
        first = mine.iloc[0]
        words = ", ".join(f"{form} ({often})" for form, often in zip(mine["form"], mine["count"], strict=True))
        words += ", …" if first["forms"] > len(mine) else ""
        label = f"{first['label']} ({percent(first['label_share'], 0)}{GLUE}%)"
        lines.append([layer(int(number)), words, label, str(first["size"]), str(first["forms"])])
    return Table("", ["layer", "most frequent words", "most frequent label", "words", "word forms"], lines, words=3)
