"""What probes of layers say in the paragraph that opens the report: of every model a sentence over all tasks."""

from collections.abc import Sequence

from vestige.report import numbers
from vestige.report.pages.layer_parts.group import Group
from vestige.report.types import Answer
from vestige.report.wording import layer, layers, listing

_WORDS = {"lower": "less", "higher": "more"}


def answers(groups: Sequence[Group]) -> list[Answer]:
    """Of every tuned model, which tasks are read less or more from which layers, and which are unchanged."""
    by_model: dict[str, list[Group]] = {}
    for group in groups:
        by_model.setdefault(group.model, []).append(group)
    return [_answer(model, mine) for model, mine in by_model.items()]


def _answer(model: str, groups: Sequence[Group]) -> Answer:
    parts = {verdict: [_changed(group, verdict) for group in groups] for verdict in _WORDS}
    said = {verdict: listing([text for text in texts if text]) for verdict, texts in parts.items()}
    changed = [f"{word} {said[verdict]}" for verdict, word in _WORDS.items() if said[verdict]]
    same = [_name(group) for group in groups if (group.accuracy.changes["verdict"] == "unchanged").all()]
    margin = f"\u00b1{numbers.margin(groups[0].accuracy.metric, groups[0].accuracy.margin)}"
    within = f"within {margin}"
    if changed:
        text = f"Probes read {', and '.join(changed)}"
        text += (
            f"; {listing(same)} {'is' if len(same) == 1 else 'are'} unchanged {within} at every layer" if same else ""
        )
        return Answer("knowledge", model, f"{text}.", "lower" if said["lower"] else "higher")
    if len(same) == len(groups):
        return Answer("knowledge", model, f"What probes read is unchanged {within} at every layer.", "unchanged")
    return Answer("knowledge", model, f"No change of more than {margin} is shown in what probes read.", "undecided")


def _changed(group: Group, verdict: str) -> str:
    """'part of speech from layers 4 to 6 (up to 3.1 points, at layer 6)'."""
    rows = group.accuracy.verdict(verdict)
    if rows.empty:
        return ""
    top = rows.loc[rows["difference"].abs().idxmax()]
    size = numbers.amount(group.accuracy.metric, top["difference"])
    most = size if len(rows) == 1 else f"up to {size}, at {layer(int(top['layer']))}"
    return f"{_name(group)} from {layers(rows['layer'])} ({most})"


def _name(group: Group) -> str:
    """The task inside a sentence: 'part of speech'; with the pooling, where there are several."""
    title = group.title.split(", ")[0]
    title = title if title[:2].isupper() else title[:1].lower() + title[1:]
    return f"{title} ({group.pooling})" if group.pooling else title
