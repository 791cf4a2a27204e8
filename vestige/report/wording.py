"""How numbers, layers, tasks and verdicts are written, so that every page writes them alike."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

MINUS = "\u2212"
ARROW = "\u2192"
DASH = "\u2013"
GLUE = "\u00a0"
"""A space at which no line breaks."""

_TASKS = {
    "upos": "Part of speech",
    "xpos": "Part of speech (fine)",
    "pos": "Part of speech",
    "deprel": "Dependency relations",
    "chunk": "Chunks",
    "semtag": "Semantic tags",
    "sem": "Semantic tags",
    "ccg": "CCG supertags",
    "ner": "Named entities",
}

VERDICTS = ("lower", "higher", "unchanged", "undecided", "described", "failed probe")
"""The first three claim something; of the others nothing is claimed."""


def number(value: float, decimals: int) -> str:
    """A number with a true minus and no negative zero; missing values as a dash."""
    if value is None or math.isnan(value):
        return DASH
    text = f"{value:.{decimals}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def signed(value: float, decimals: int) -> str:
    """A number that carries its sign where it is not zero: '+0.30'."""
    text = number(value, decimals)
    return f"+{text}" if value > 0 and float(text) != 0 else text


def percent(share: float, decimals: int = 1) -> str:
    """A share as a number of percent: 0.8264 -> '82.6'; missing values as a dash."""
    return number(100 * share, decimals)


def chance(name: str, value: float) -> str:
    """A p- or q-value: 'q = 0.012', 'q < 0.001'."""
    sign, number = ("<", "0.001") if value < 0.0005 else ("=", f"{value:.3f}")
    return GLUE.join([name, sign, number])


def bare_chance(value: float) -> str:
    """A p- or q-value for a table's cell."""
    if math.isnan(value):
        return DASH
    return "< 0.001" if value < 0.0005 else f"{value:.3f}"


def count(number: float) -> str:
    """A whole number with thin spaces between thousands."""
    return f"{int(number):,}".replace(",", "\u202f")


def layer(number: int) -> str:
    """'the embeddings' or 'layer 6'."""
    return "the embeddings" if number == 0 else f"layer {number}"


def layers(numbers: Iterable[int]) -> str:
    """Several layers, runs of three or more joined: 'the embeddings and layers 2 to 5 and 7'."""
    numbers = sorted(set(numbers))
    blocks = [number for number in numbers if number != 0]
    parts = ["the embeddings"] if 0 in numbers else []
    if len(blocks) == 1:
        parts.append(layer(blocks[0]))
    elif blocks:
        parts.append("layers " + listing(_runs(blocks)))
    return listing(parts)


def be(numbers: Sequence[int]) -> str:
    """'is' of one layer, 'are' of several and of the embeddings."""
    return "is" if len(numbers) == 1 and numbers[0] != 0 else "are"


def listing(parts: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    parts = list(parts)
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def capital(text: str) -> str:
    """The text with its first letter as a capital; the rest stays as it is."""
    return text[:1].upper() + text[1:]


def task_title(task: str) -> str:
    """A task's name for headings; an unknown task keeps its own."""
    return _TASKS.get(task.lower(), task)


def _runs(numbers: Sequence[int]) -> list[str]:
    """Ascending numbers, of which three or more without a gap are joined: '2 to 5', '7'."""
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        first, *rest = (number for _, number in run)
        parts += [f"{first} to {rest[-1]}"] if len(rest) > 1 else [str(number) for number in (first, *rest)]
    return parts
