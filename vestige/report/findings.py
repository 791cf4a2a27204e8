"""The findings of a run as Python has them: sentences to read, objects to go through, a data frame with intervals."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from typing import overload

import pandas as pd
from markupsafe import escape

from vestige.report.types import Evidence, Finding

KEY = ("analysis", "corpus", "task", "params", "model")
_EVIDENCE = [one.name for one in fields(Evidence)]


class Findings(Sequence[Finding]):
    """What a run shows, in words, the heaviest first; `frame` has the numbers that the sentences rest on."""

    def __init__(self, found: Sequence[Finding]) -> None:
        self._found = tuple(found)

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> "Findings": ...
    def __getitem__(self, index: int | slice) -> "Finding | Findings":
        return Findings(self._found[index]) if isinstance(index, slice) else self._found[index]

    def __repr__(self) -> str:
        """The sentences, under what each is about."""
        return "\n".join(line for lead, own in self._by_lead() for line in (lead, *(f"  {one.text}" for one in own)))

    def _repr_html_(self) -> str:
        """The same for a notebook: no script, no style sheet, no id."""
        return findings_html(self)

    @property
    def frame(self) -> pd.DataFrame:
        """A row a finding: what it is about, its sentence, and the comparison that it names first.

        Of a sentence that rests on several comparisons, or on none, the columns of numbers are empty. Values are in
        the metric's unit (of percent: shares of one), as in `comparisons`.
        """
        rows = [
            {
                "lead": one.lead,
                "finding": one.text,
                "kind": one.kind,
                "weight": one.weight,
                **dict(zip(KEY, one.key, strict=False)),
                **(vars(one.evidence) if one.evidence else {}),
            }
            for one in self
        ]
        columns = ["lead", "finding", "kind", "weight", *KEY, *_EVIDENCE]
        return pd.DataFrame(rows, columns=columns).astype({"layer": "Int64"})

    def _by_lead(self) -> Iterator[tuple[str, list[Finding]]]:
        for lead, several in groupby(self, key=lambda one: one.lead):
            yield lead, list(several)


def findings_html(found: Sequence[Finding]) -> str:
    """A list of sentences; colours are the notebook's own."""
    parts = ["<div>"]
    for lead, several in groupby(found, key=lambda one: one.lead):
        items = "".join(f"<li>{escape(one.text)} <em>({escape(one.kind)})</em></li>" for one in several)
        parts.append(f"<p><strong>{escape(lead)}</strong></p><ul>{items}</ul>")
    return "".join([*parts, "</div>"])
