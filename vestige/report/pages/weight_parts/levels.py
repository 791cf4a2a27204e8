"""Numbers of the page on weights: means over runs, with their range, by layer and kind."""

from collections.abc import Sequence

import pandas as pd

from vestige.analyses.metric import LAYER, Metric
from vestige.report import numbers
from vestige.report.reading import Part
from vestige.report.wording import DASH, listing

HALF = 0.5


def levels(part: Part, metric: str, model: str, *, layers: bool, kinds: bool) -> pd.DataFrame:
    """Rows of a metric of one model, by layer or of all, by kind or of all, with means over runs and their range."""
    rows = part.rows[(part.rows["metric"] == metric) & (part.rows["model"] == model) & part.rows["axis"].isna()]
    rows = rows[(rows["layer"].notna() == layers) & (rows["label"].notna() == kinds)]
    if rows.empty:
        return pd.DataFrame(columns=["layer", "label", "subset", "value", "low", "high", "runs", "n"])
    plain = rows.assign(
        layer=rows["layer"].astype(float).fillna(-1), label=rows["label"].fillna(""), subset=rows["subset"].fillna(""),
        value=rows["value"].astype(float), n=rows["n"].astype(float),
    )  # fmt: skip
    found = plain.groupby(["layer", "label", "subset"], sort=False).agg(
        value=("value", "mean"), low=("value", "min"), high=("value", "max"), runs=("value", "size"), n=("n", "max")
    ).reset_index()  # fmt: skip
    return found.astype({"layer": int})


def level(metric: Metric, row: pd.Series) -> str:
    """A value; of several runs the mean with their range."""
    if row["runs"] < 2:
        return numbers.text(metric, row["value"])
    return numbers.level(metric, row["value"], row["low"], row["high"])


def cell(metric: Metric, rows: pd.DataFrame) -> str:
    """The one value among these rows for a table, or a dash."""
    return level(metric, rows.iloc[0]) if len(rows) else DASH


def where(rows: pd.DataFrame) -> str:
    """The layers of rows inside a sentence: 'layers 5 and 6', 'encoder layer 3 and decoder layer 1'."""
    texts = []
    for stack, mine in rows.groupby("subset", sort=False):
        named = numbers.places(LAYER, mine["layer"])
        texts.append(f"{stack} {named}".strip())
    return listing(texts)


def half_of(shares: pd.DataFrame) -> pd.DataFrame:
    """The fewest places that hold half of all that is there."""
    ordered = shares.sort_values("value", ascending=False, kind="stable")
    before = ordered["value"].cumsum() - ordered["value"]
    return ordered[before < HALF]


def place_name(layer: int, stack: str) -> str:
    """A layer as the head of a row: 'embeddings', '3', 'decoder 3'."""
    return f"{stack} {numbers.place_cell(LAYER, layer)}".strip()


def in_order(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names in the order of those that are known; others after them."""
    there = set(names)
    return [name for name in known if name in there] + sorted(there - set(known))
