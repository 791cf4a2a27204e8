"""The numbers that the papers print, beside ours where model and data are the paper's, and nowhere else.

`published.csv` has one number a line: the paper, its table, the model, the row and the column as we call them, the
number as printed, the row and the place in it where the paper prints it, and what is known to be wrong with it.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from vestige.papers.observed import Observed

MARK = "\u2020"
"""Beside a number that is a known slip of the paper."""
TOLERANCE = 0.1
"""A training set that differs from the paper's by more than this share of its size is another one."""


@dataclass(frozen=True)
class Original:
    """A model of a paper, by its id on the hub, as it can be told from the tables of a run."""

    title: str
    """What the paper calls it."""
    owner: str
    id: str
    layers: int
    width: int
    kind: str
    """transformers' name of the architecture."""

    def is_of(self, side: Observed) -> bool:
        """Whether a base model is this one: its id, its architecture and its shape."""
        (about, *_) = side.lock["models"]["base"]
        same = about.get("type") == self.kind and set(about.get("widths", ())) == {self.width}
        return side.source in (self.id, f"{self.owner}/{self.id}") and side.layers == self.layers and same


BERT_CASED = Original("BERT", "google-bert", "bert-base-cased", 13, 768, "bert")
BERT_UNCASED = Original("BERT", "google-bert", "bert-base-uncased", 13, 768, "bert")
ROBERTA = Original("RoBERTa", "FacebookAI", "roberta-base", 13, 768, "roberta")
XLNET = Original("XLNet", "xlnet", "xlnet-base-cased", 13, 768, "xlnet")
ALBERT = Original("ALBERT", "albert", "albert-base-v1", 13, 768, "albert")


@dataclass(frozen=True)
class Published:
    """One number of a paper."""

    paper: str
    table: str
    model: str
    row: str
    column: str
    value: str
    """As printed."""
    printed_row: str
    """What the paper's line begins with, after the heading above it: 'POS > Top'."""
    place: int
    """Which cell of that line, from 1."""
    slip: str = ""
    """What is known to be wrong with it."""

    @property
    def text(self) -> str:
        """For a table; marked if it is a slip."""
        return self.value + (MARK if self.slip else "")


@cache
def numbers() -> tuple[Published, ...]:
    """All of them."""
    text = (files("vestige.papers") / "published.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return tuple(Published(place=int(row.pop("place")), **row) for row in rows)


def find(paper: str, table: str, model: str, row: str, column: str) -> str:
    """A number as a table shows it; nothing where the paper has none."""
    where = (paper, table, model, row, column)
    return next((one.text for one in numbers() if (one.paper, one.table, one.model, one.row, one.column) == where), "")


def slips(paper: str, table: str, models: Sequence[str]) -> str:
    """A line on the slips among the numbers of a table, for below it; empty without any."""
    found = {one.slip for one in numbers() if one.paper == paper and one.table == table and one.model in models}
    told = "; ".join(sorted(found - {""}))
    return f"{MARK} {told}." if told else ""


def original_of(side: Observed, originals: Sequence[Original], sizes: dict[str, int]) -> Original | None:
    """The paper's model that a base model is, if the data are the paper's too; else nothing is to be shown beside.

    `sizes` has the training sentences of the paper's corpora by the names that the full study gives them: a smoke run
    (`--limit`), another scale and a stand-in are told by them.
    """
    if side.lock["spec"].get("limit"):
        return None
    there = side.lock["corpora"]
    for name, size in sizes.items():
        train = there.get(name, {}).get("splits", {}).get("train", {}).get("sentences", 0)
        if abs(train - size) > TOLERANCE * size:
            return None
    return next((one for one in originals if one.is_of(side)), None)
