"""What an analysis measures: every number it may report, declared once.

From the declarations come the check of an analysis' rows, the comparison of base and tuned models, the default page
of the report and the documentation. A run keeps them beside its tables, so that a page of a third party's analysis
can be written where its package is not installed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from vestige.comparison.estimators import Estimator

Unit = Literal["percent", "bits", "nats", "ratio", "count", "none"]
"""Of the values. `percent`: values are shares of one, shown as percent, their differences as points."""

Better = Literal["higher", "lower", "neither"]

Role = Literal["result", "baseline", "detail", "remark", "failure"]
"""result: drawn, tabulated and put into words. baseline: a level line beside results. detail: kept in the tables,
shown on request. remark: a count of what was lost or left out, reported among the limits where it is above 0.
failure: above 0 where a probe failed, so that nothing is claimed of the results there."""


@dataclass(frozen=True)
class Axis:
    """What a metric lies along: layers, or another quantity of the analysis' own."""

    name: str
    """`layer`: the column of that name. Else the value of the column `axis`, the place being in `x`."""
    title: str
    """For a chart: 'blocks frozen'."""
    second: str = ""
    """Of a grid: the value of the column `axis2`, the place being in `x2`."""


LAYER = Axis("layer", "layer (0 = embeddings)")
WHOLE = Axis("", "")
"""One number for the model: no axis at all."""


@dataclass(frozen=True)
class Metric:
    """One kind of number that an analysis reports."""

    name: str
    """The value of the column `metric`."""
    title: str
    """As it stands inside a sentence: 'probe accuracy', 'RSA', 'bits per label'."""
    unit: Unit = "none"
    better: Better = "neither"
    margin: float | None = None
    """Differences within this are 'unchanged', in the unit of the values (0.005 of a share is half a point)."""
    decimals: int = 3
    """Shown; of percent, after the point of the percentage."""
    along: tuple[Axis, ...] = (LAYER,)
    """Every axis it may lie along; `WHOLE` among them where there is one number for the model."""
    role: Role = "result"
    compared: Estimator | None = None
    """How base and tuned models are compared; None: their values are shown side by side, and nothing is claimed."""
    confirmed_by: str = ""
    """A metric that must show the same change, or lack of change, before it is claimed. Where that metric was not
    measured, differences are described."""
    sides: tuple[str, str] = ("", "")
    """Of a contrast that an analysis of two models measures itself: what its two scores are, as the heads of columns
    ('base probe', 'tuned probe'). The metric is the second minus the first, and is judged against 0."""
    remark: str = ""
    """Of a remark: what the page says, with {value}, {n}, {split}, {subset}, {model} and {layers} filled in."""
    above: float = 0.0
    """Of a remark: it is reported where the value is above this."""
    about: str = ""
    """What it is, for the documentation, where the title does not tell."""

    def __post_init__(self) -> None:
        """A metric that is compared has a margin, a remark its sentence, and what is chosen is one of the choices."""
        for name, choices in (("unit", Unit), ("better", Better), ("role", Role)):
            if (given := getattr(self, name)) not in get_args(choices):
                raise ValueError(f"metric {self.name!r}: {name} {given!r} is none of {', '.join(get_args(choices))}")
        if self.compared is not None and not (self.margin is not None and self.margin > 0):
            raise ValueError(f"metric {self.name!r} is compared, so it needs a margin of equivalence above 0")
        if (self.compared is not None and self.compared.within) != all(self.sides) and self.compared is not None:
            raise ValueError(f"metric {self.name!r}: a contrast within one cell names its two sides, and no other does")
        if (self.role == "remark") != bool(self.remark):
            raise ValueError(f"metric {self.name!r}: a remark has a sentence, and nothing else has")
        if not self.along:
            raise ValueError(f"metric {self.name!r} lies along nothing: name an axis, or WHOLE")

    def as_json(self) -> dict[str, Any]:
        """Plain values, as the lock of a run keeps them."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["along"] = [vars(axis) for axis in self.along]
        plain["compared"] = None if self.compared is None else type(self.compared).__name__
        return plain


@dataclass(frozen=True)
class Declared:
    """What the lock of a run says of an analysis under one setting: enough to write its page without its package."""

    analysis: str
    title: str
    source: str
    about: str
    """The first paragraph of the class' docstring."""
    uses_labels: bool
    metrics: Mapping[str, Metric]
    compared: frozenset[str]
    """Names of the metrics that are compared."""

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Declared":
        """From the lock."""
        metrics, compared = {}, set()
        for one in plain["metrics"]:
            known = {field.name for field in fields(Metric)} & set(one)
            values = {name: one[name] for name in known} | {"along": tuple(Axis(**axis) for axis in one["along"])}
            values |= {"sides": tuple(one.get("sides", ("", ""))), "compared": None}
            metrics[one["name"]] = Metric(**values)
            compared |= {one["name"]} if one["compared"] else set()
        shared = {name: plain[name] for name in ("analysis", "title", "source", "about", "uses_labels")}
        return cls(**shared, metrics=metrics, compared=frozenset(compared))
