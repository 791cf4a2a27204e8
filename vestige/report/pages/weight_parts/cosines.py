"""How alike the changes of several runs and tasks are: cosines of changes, estimated from their sketches."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from vestige.analyses.metric import Metric
from vestige.report import numbers
from vestige.report.drawing.curves import map_chart
from vestige.report.reading import Part, Reading
from vestige.report.types import Block, Finding, Folded, Table
from vestige.report.wording import GLUE, capital

COSINE = Metric("cosine", "cosine of changes", decimals=2)
_MOST_PAIRS = 10
"""Of more pairs there is no table by layer."""
_ERRORS = 2.0
"""Standard errors that are stated."""


@dataclass(frozen=True)
class Sketched:
    """The change of one run of a model, in sketches by what they are of."""

    model: str
    name: str
    """With the run, where there are several."""
    reference: str
    sketches: dict[tuple[str, str], np.ndarray]


def cosine_block(reading: Reading, part: Part, lead: str) -> Block | None:
    """A map of all pairs of runs with one reference, the same by layer, and a sentence on runs and on models."""
    runs = list(_sketched(reading, part))
    pairs = [(one, other) for one, other in combinations(runs, 2) if one.reference == other.reference]
    found = {(one.name, other.name): value for one, other in pairs if (value := _cosine(one, other)) is not None}
    if not found:
        return None
    size = len(next(iter(runs[0].sketches.values())))
    error = _ERRORS * np.sqrt(2 / size)
    lede = (
        "Cosine of the changes of two runs, all weights side by side: 1 says that both moved the weights in one "
        f"direction, 0 that the directions have nothing in common. Estimated from random sketches of {size} numbers: "
        f"an error of up to \u00b1{error:.2f} is to be expected."
    )
    names = [run.name for run in runs]
    block = Block(f"{capital(COSINE.title)} of runs and models", lede)
    both = [(*pair, value) for (one, other), value in found.items() for pair in ((one, other), (other, one))]
    frame, about = pd.DataFrame(both, columns=["x", "y", "value"]), f"{COSINE.title} of {', '.join(names)}"
    block.figures.append(map_chart(frame, COSINE, ("", ""), about, across=names, down=names))
    block.findings += list(_sentences(pairs, found, lead, error))
    if len(found) <= _MOST_PAIRS:
        block.folded.append(Folded("By layer and kind", tables=list(_tables(pairs))))
    return block


def _sketched(reading: Reading, part: Part) -> Iterator[Sketched]:
    kept = reading.kept("sketches")
    columns = ["cell", "model", "reference", "tune_seed"]
    cells = part.rows[columns].drop_duplicates()
    several = cells.groupby("model")["cell"].transform("nunique") > 1
    for row, many in zip(cells.itertuples(index=False), several, strict=True):
        if row.cell in kept and row.model not in reading.twins:
            table = kept[row.cell]
            sketches = {
                (str(of), str(name)): mine.sort_values("place")["value"].to_numpy(dtype=float)
                for (of, name), mine in table.groupby(["of", "part"], sort=False, observed=True)
            }
            name = f"{row.model}, run {row.tune_seed}" if many else row.model
            yield Sketched(row.model, name, row.reference, sketches)


def _cosine(one: Sketched, other: Sketched, of: tuple[str, str] = ("model", "")) -> float | None:
    """None where one of them did not change, or lacks the part."""
    if of not in one.sketches or of not in other.sketches:
        return None
    a, b = one.sketches[of], other.sketches[of]
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return None if length == 0 else float(np.clip(a @ b / length, -1, 1))


def _sentences(
    pairs: list[tuple[Sketched, Sketched]], found: dict[tuple[str, str], float], lead: str, error: float
) -> Iterator[Finding]:
    """The cosines of runs of one model, and those of different models: their range."""
    same = [found[a.name, b.name] for a, b in pairs if a.model == b.model and (a.name, b.name) in found]
    across = [found[a.name, b.name] for a, b in pairs if a.model != b.model and (a.name, b.name) in found]
    for what, values in (("two runs of one model", same), ("different models", across)):
        if values:
            low, high = (numbers.text(COSINE, value) for value in (min(values), max(values)))
            reach = low if low == high else f"{low} to {high}"
            text = f"Changes of {what} have a cosine of {reach} (estimated to \u00b1{error:.2f})."
            yield Finding(lead, text.replace(" to ", f"{GLUE}to{GLUE}", 1) if low != high else text, "described")


def _tables(pairs: list[tuple[Sketched, Sketched]]) -> Iterator[Table]:
    for of in ("layer", "kind"):
        names = dict.fromkeys(name for one, _ in pairs for kind, name in one.sketches if kind == of)
        rows = []
        for name in names:
            values = [_cosine(one, other, (of, name)) for one, other in pairs]
            rows.append([name, *(numbers.text(COSINE, float("nan") if v is None else v) for v in values)])
        head = [of, *(f"{one.name} and {other.name}" for one, other in pairs)]
        yield Table(f"{capital(COSINE.title)} by {of}", head, rows)
