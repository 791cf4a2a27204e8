"""What a page is made of: findings, figures, tables, sections. Everything else in this room builds or writes these."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pandas as pd
from markupsafe import Markup

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True)
class Evidence:
    """The comparison whose numbers a finding names first: a row of the table `comparisons`, in the metric's unit."""

    metric: str
    layer: int | None
    label: str | None
    base: float
    tuned: float
    difference: float
    low: float
    high: float
    q: float
    verdict: str

    @classmethod
    def of(cls, row: Mapping[str, Any] | pd.Series) -> "Evidence":
        """From a row of `comparisons`."""
        found: dict[str, Any] = {one.name: row.get(one.name) for one in fields(cls)}
        found = {name: None if value is None or pd.isna(value) else value for name, value in found.items()}
        found |= {name: math.nan if found[name] is None else float(found[name]) for name in cls._NUMBERS}
        found["layer"] = None if found["layer"] is None else int(found["layer"])
        return cls(**found)

    _NUMBERS: ClassVar[tuple[str, ...]] = ("base", "tuned", "difference", "low", "high", "q")


@dataclass(frozen=True)
class Finding:
    """One statement: what it is about, what it says, and how much it matters."""

    lead: str
    text: str
    kind: str
    """A verdict (lower, higher, unchanged, undecided, described), or note: the colour of its mark."""
    weight: float = 0.0
    """How much it matters: of a change its size in margins of equivalence; what claims nothing is below 1."""
    key: tuple[str, ...] = ()
    """Analysis, corpus, task, params and model, as far as it is of one; empty where it is of several."""
    evidence: Evidence | None = None
    """The comparison that it names first, where it rests on one."""

    def __str__(self) -> str:
        return f"{self.lead}: {self.text}"


Topic = Literal["parameters", "representations", "knowledge", "kind", "use", "advice"]
"""What a sentence of the opening answers, in this order: which weights and which layers changed; what a probe reads
less or more of; whether that is lost, moved or re-encoded; whether it is still used; what follows for a next tuning."""


@dataclass(frozen=True)
class Answer:
    """A sentence of the paragraph that opens the report, about one tuned model; a test supports what it claims."""

    topic: Topic
    model: str
    text: str
    kind: str = "note"
    """The verdict that it goes by, as of a finding."""


@dataclass(frozen=True)
class Figure:
    """A chart, and what it shows for those who cannot see it."""

    chart: "alt.LayerChart"
    description: str
    width: int | None = None
    """Pixels, where it must not be squeezed into the width of the page; None: it fills its place."""

    @cached_property
    def spec(self) -> dict[str, Any]:
        """Its Vega-Lite specification, made when it is asked for; no address of a schema in it."""
        spec = self.chart.to_dict(validate=False)
        for name in ("$schema", "config"):
            spec.pop(name, None)
        return {**visible(spec), "autosize": {"type": "fit-x", "contains": "padding"}}


@dataclass(frozen=True)
class Drawing:
    """A picture that is no chart."""

    title: str
    picture: Markup


@dataclass(frozen=True)
class Table:
    """A table of strings; `marks` names the verdict of a row where it has one."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    marks: Sequence[str] = field(default_factory=tuple)
    words: int = 1
    """So many columns from the left are words, not numbers."""


@dataclass(frozen=True)
class Folded:
    """Figures and tables that stay folded until asked for."""

    title: str
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()


@dataclass
class Block:
    """A heading, a line that says what is shown, and then figures, drawings and tables."""

    heading: str
    lede: str = ""
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    folded: list[Folded] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    note: str = ""
    """Small print under the figures."""
    closed: bool = False
    """Whether the whole block stays folded."""


@dataclass
class Section:
    """All that is shown of one task, or of one view over all tasks."""

    title: str
    name: str
    """corpus/task, for those who look for it; empty of a view over several."""
    findings: list[Finding] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)


@dataclass
class Page:
    """What one analysis has to say; several analyses may share one (layer probes of words and of sentences)."""

    title: str
    lede: str = ""
    sections: list[Section] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    """What this analysis says in the paragraph that opens the whole report."""
    overview: str = ""
    """One sentence over everything, after that paragraph."""
    limits: list[str] = field(default_factory=list)
    """What the numbers of this analysis do not say, a line each."""
    explorer: list[dict[str, Any]] = field(default_factory=list)
    """Views of the neuron explorer (data for the script of the page)."""
    explorer_note: str = ""

    @property
    def findings(self) -> list[Finding]:
        """All findings of all sections, in order."""
        return [finding for section in self.sections for finding in section.findings]


_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
"""Line separators, control characters and what is no character at all."""


DIGITS = 6
"""Of numbers in a chart: more cannot be seen, and would only make pages large."""


def visible(value: Any) -> Any:
    """A value as a chart may hold it: invisible characters of strings written out ('a\\u2028b'), numbers rounded.

    Vega writes the order of labels into expressions of its own. A line separator ends such an expression in the
    middle of a string, and the chart is not drawn; other control characters make a picture that is no XML.
    """
    if isinstance(value, str):
        return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: visible(item) for name, item in value.items()}
    return [visible(item) for item in value] if isinstance(value, list) else value
