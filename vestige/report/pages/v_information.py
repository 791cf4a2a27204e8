"""V-information: bits that came or went, and an explorer of the words and constructions behind them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from vestige.analyses.information_groups import KINDS
from vestige.analyses.metric import Metric
from vestige.analyses.v_information import VInformation
from vestige.comparison.differences import LEAST_SENTENCES
from vestige.report import changes, default, numbers
from vestige.report.reading import Part, Reading
from vestige.report.types import Answer, Block, Finding, Folded, Page, Section, Table
from vestige.report.wording import DASH, capital, count, layer, layers, listing

_SHOWN = 12
"""Groups in the table that is not folded: of those that lost, and of those that gained."""
_SAID = 3
"""Groups that a sentence names."""
_WORDS = {
    "label": "words labelled {}",
    "relation": "words that are {} of their head",
    "distance": "words at a distance of {} from their head",
    "frequency": "words that occur {} times in train",
    "letters": "words of {} letters",
    "length": "words in sentences of {} words",
    "word": "the word \u2018{}\u2019",
}
_OWN = {("distance", "root"): "roots of sentences", ("frequency", "not in train"): "words that do not occur in train"}


def page(reading: Reading, analysis: str) -> Page:
    """The default page, with the groups of words that lost or gained, and single words as examples."""
    found = default.page(
        reading,
        analysis,
        title="How many bits are lost and gained?",
        lede="V-information is what a probe knows of a property, in bits per word: how much less uncertain a "
        "label is to it than to one that knows the shares of labels alone. Lost is what the base's layer adds to the "
        "tuned layer of the same number, gained what the tuned layer adds to the base's: both can happen where the "
        "V-information of the two is the same.",
    )
    parts = reading.parts(analysis)
    examples = reading.kept("examples")
    for section, part in zip(found.sections, parts, strict=True):
        _explore(reading, part, section, default.lead_of(part, found.title))
        section.blocks += list(_single_words(part, examples))
    found.answers = _answers(reading, parts)
    both = [part for part in parts if "lost" in set(part.rows["metric"])]
    if both:
        found.limits = [_limit(dict.fromkeys(map(_probes, both)))]
    return found


def _probes(part: Part) -> str:
    """The family of probes, as the subject of a sentence."""
    return "probes with a hidden layer" if part.setting.probe == "mlp" else "linear probes"


def _limit(families: Iterable[str]) -> str:
    return (
        f"Bits lost and gained are those that {listing(list(families))} find with this much training data: a property "
        "that is written differently, so that no such probe reads it, counts as lost; a second view of a property that "
        "each model shows only noisily counts as lost and gained at once."
    )


def _explore(reading: Reading, part: Part, section: Section, lead: str) -> None:
    """Blocks on the groups of every tuned model; what their verdicts support is put into words."""
    metric = part.declared.metrics.get("pointwise")
    rows = changes.of(part, metric) if metric is not None and len(part.changes) else pd.DataFrame()
    for model, mine in rows.groupby("model", sort=False) if len(rows) else ():
        assert metric is not None
        block = Block(
            f"Which words: {model}" if rows["model"].nunique() > 1 else "Which words",
            "Mean pointwise V-information of groups of words in the base and the tuned model. A group is shown where "
            f"it has at least {_least(reading, part)} words in at least {LEAST_SENTENCES} sentences; intervals are "
            "over sentences, and q is corrected for all groups, layers and tasks.",
        )
        block.findings = list(_sentences(reading, part, metric, str(model), mine, lead))
        shown = mine[mine["verdict"].isin(["lower", "higher"])]
        for verdict, what in (("lower", "lost"), ("higher", "gained")):
            some = _largest(shown[shown["verdict"] == verdict], _SHOWN)
            if len(some):
                block.tables.append(_group_table(metric, some, f"Groups that {what} most, each at its layer"))
        for kind, title in KINDS.items():
            if len(own := mine[mine["subset"] == kind]):
                block.folded.append(Folded(f"{title}: all groups and layers", tables=[_by_layer(metric, own, title)]))
        section.blocks.append(block)


def _least(reading: Reading, part: Part) -> int:
    """How many words a group needs to be shown."""
    kept = reading.cells.loc[reading.cells["params"] == part.params, "parameters"]
    return int(json.loads(kept.iloc[0]).get("least_words", VInformation.least_words))


def _sentences(
    reading: Reading, part: Part, metric: Metric, model: str, rows: pd.DataFrame, lead: str
) -> Iterator[Finding]:
    """The groups that lost and that gained most; nothing of groups without a verdict."""
    for verdict, verb in (("lower", "lose"), ("higher", "gain")):
        mine = _largest(rows[rows["verdict"] == verdict], _SAID)
        if mine.empty:
            continue
        said = [
            f"{_named(row)} at {layer(int(row['layer']))} {changes.with_numbers(metric, row, reading.judging)}"
            for _, row in mine.iterrows()
        ]
        text = f"Of the groups of words in {model}, those that {verb} most bits are {listing(said)}."
        yield Finding(lead, text, verdict, 1.0, (*part.key, model))


def _largest(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """The largest changes, every group once, at the layer where its change is largest."""
    order = rows["difference"].abs().sort_values(ascending=False, kind="stable").index
    return rows.loc[order].drop_duplicates(["subset", "label"]).head(most)


def _named(row: pd.Series) -> str:
    """'words labelled VERB'."""
    return _OWN.get((row["subset"], row["label"])) or _WORDS[row["subset"]].format(row["label"])


def _group_table(metric: Metric, rows: pd.DataFrame, caption: str) -> Table:
    head = ["group", "words", "sentences", "layer", *metric.sides, "change", "interval", "q", "verdict"]
    lines = [
        [
            capital(_named(row)),
            count(row["items"]),
            count(row["sentences"]),
            str(int(row["layer"])),
            *changes.cells(metric, row, 0),
        ]
        for _, row in rows.iterrows()
    ]
    return Table(f"{caption} (bits per word)", head, lines, tuple(rows["verdict"]))


def _by_layer(metric: Metric, rows: pd.DataFrame, title: str) -> Table:
    """A line for every group, those with most words first; at every layer the change, in brackets where it has no
    verdict of change.
    """
    depths = sorted({int(one) for one in rows["layer"]})
    lines = []
    for _, mine in sorted(rows.groupby("label", sort=False), key=lambda one: -one[1]["items"].max()):
        by_layer = {int(row["layer"]): row for _, row in mine.iterrows()}
        first = mine.iloc[0]
        cells = [_change(metric, by_layer[at]) if at in by_layer else DASH for at in depths]
        lines.append([str(first["label"]), count(first["items"]), count(first["sentences"]), *cells])
    caption = "Change of bits per word by layer; in brackets: not shown to differ, or within the margin"
    return Table(caption, [title, "words", "sentences", *(str(at) for at in depths)], lines)


def _change(metric: Metric, row: pd.Series) -> str:
    text = numbers.change(metric, row["difference"])
    return text if row["verdict"] in ("lower", "higher") else f"({text})"


def _single_words(part: Part, tables: Mapping[str, pd.DataFrame]) -> Iterator[Block]:
    """The words that changed most, inside their sentences, by layer; of several runs those of the first."""
    known = {cell: table for cell, table in tables.items() if len(table)}
    cells = part.rows[part.rows["cell"].isin(known)].drop_duplicates("model")
    for _, row in cells.iterrows():
        table, block = known[row["cell"]], Block(f"Single words: {row['model']}", closed=True)
        block.lede = (
            "The words whose pointwise V-information changed most. They are examples: no test is made of single words, "
            "and in any two models some words differ."
        )
        for at, mine in sorted(table.groupby("layer"), key=lambda one: -one[0]):
            lines = [
                [one.left, one.word, one.right, one.label, *_bits(one.before, one.after)] for one in mine.itertuples()
            ]
            head = ["before it", "word", "after it", "label", "base", "tuned", "change"]
            block.folded.append(
                Folded(capital(layer(int(at))), tables=[Table("Bits of single words", head, lines, words=4)])
            )
        yield block


def _bits(before: float, after: float) -> list[str]:
    shown = Metric("bits", "bits", "bits", decimals=2)
    return [numbers.text(shown, before), numbers.text(shown, after), numbers.change(shown, after - before)]


def _answers(reading: Reading, parts: Sequence[Part]) -> list[Answer]:
    """Of every tuned model a sentence over all tasks: what it lost and what it gained, where a test shows it."""
    models = dict.fromkeys(model for part in parts for model in part.models if model not in reading.twins)
    families = dict.fromkeys(map(_probes, parts))
    of = {one: [part for part in parts if _probes(part) == one] for one in families}
    made = [_answer(model, family, of[family], len(of) > 1) for model in models for family in families]
    return [one for one in made if one is not None]


def _answer(model: str, family: str, parts: Sequence[Part], several: bool) -> Answer | None:
    """Of one family of probes; `several`: there are others."""
    lost, gained = ([_bits_of(part, model, name) for part in parts] for name in ("lost", "gained"))
    lost, gained = [one for one in lost if one], [one for one in gained if one]
    said = [f"{listing(lost)} from the base\u2019s layers that the tuned ones do not give"] if lost else []
    said += [f"{listing(gained)} from the tuned layers that the base\u2019s do not give"] if gained else []
    if said:
        text = f"{capital(family)} read {', and '.join(said)}."
        return Answer("kind", model, text, "lower" if lost else "higher")
    if all(none := [_none(part, model) for part in parts]):
        to = f" for {family}" if several else ""
        text = f"No V-information about {listing(none)} is lost or gained{to} at any layer, within the margin."
        return Answer("kind", model, text, "unchanged")
    return None


def _of(part: Part, model: str, name: str) -> pd.DataFrame:
    metric = part.declared.metrics.get(name)
    rows = changes.of(part, metric) if metric is not None and len(part.changes) else pd.DataFrame()
    return rows[rows["model"] == model] if len(rows) else rows


def _bits_of(part: Part, model: str, name: str) -> str:
    """'up to 0.131 bits per word about part of speech (layers 4 to 6, most at layer 6)'; empty without a verdict."""
    rows = _of(part, model, name)
    rows = rows[rows["verdict"] == "higher"] if len(rows) else rows
    if rows.empty:
        return ""
    top = rows.loc[rows["difference"].idxmax()]
    metric, where = part.declared.metrics[name], layers(int(one) for one in rows["layer"])
    size = f"{numbers.amount(metric, top['difference'])} per word about {_task(part)}"
    if len(rows) == 1:
        return f"{size} ({where})"
    return f"up to {size} ({where}, most at {layer(int(top['layer']))})"


def _none(part: Part, model: str) -> str:
    """The task, where both are shown to be within the margin at every layer; else empty."""
    rows = [_of(part, model, name) for name in ("lost", "gained")]
    same = all(len(one) and (one["verdict"] == "unchanged").all() for one in rows)
    return _task(part) if same else ""


def _task(part: Part) -> str:
    """The task inside a sentence, without the setting that its title may name."""
    title = part.title.removesuffix(f" ({part.setting.name})")
    return title if title[:2].isupper() else title[:1].lower() + title[1:]
