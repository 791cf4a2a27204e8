"""What an analysis is: typed parameters, a statement of what it needs and what it measures, and one method.

From the one class come the YAML schema, the cache key, the CLI's listing and help, the comparison of base and tuned
models, and a page of the report.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any, ClassVar, Literal, cast, get_type_hints

import numpy as np
from pydantic import TypeAdapter, ValidationError

from vestige.analyses.metric import Metric
from vestige.analyses.schema import ROW
from vestige.corpus.types import Level, Task
from vestige.errors import AnalysisError
from vestige.models.encoders.encoder import Encoder
from vestige.models.files.tensors import Weights
from vestige.representations.store import Representations

Need = Literal["hidden_states", "attentions", "logits", "tensors", "trainable_model"]
"""`tensors`: weights one by one, for which no model is loaded."""


@dataclass(frozen=True)
class Own:
    """What a model that the study tuned was tuned for."""

    task: Task
    folder: Path
    """Of `finetune`: the model with its head."""


class _NoTask:
    """In place of the task of an analysis that reads no corpus: whatever is asked of it is an error."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AnalysisError(
            "an analysis without levels reads no corpus, so that it has no task",
            fix="declare the levels of the tasks that it takes",
        )


NO_TASK = cast(Task, _NoTask())


@dataclass(frozen=True)
class Inputs:
    """What an analysis is given."""

    task: Task
    """`NO_TASK` of an analysis that reads no corpus."""
    poolings: Mapping[str, Mapping[str, Representations]]
    """By pooling that the analysis asks for, then by split."""
    model: str
    baseline: bool = False
    """Whether the model is itself a baseline (a random twin): its own controls are not needed."""
    unfinished: Path | None = None
    """A folder of this run's own, where an interrupted one left what it had."""
    encoder: Encoder | None = None
    """The model itself, where the analysis needs more than hidden states."""
    weights: Weights | None = None
    """Its weights, tensor by tensor, where the analysis needs these."""
    trainable: str | None = None
    """What `finetune` takes as its base, where the analysis trains the model itself."""
    own: Own | None = None
    """The model's own task, where the study tuned it and the analysis asks for it."""
    device: str = "cpu"
    """Where it is trained."""
    cache: Path | None = None
    """Where models that the analysis makes are kept."""
    reference: "Inputs | None" = None
    """The same of the model it is compared with, where the analysis takes two."""

    @property
    def representations(self) -> Mapping[str, Representations]:
        """By split; of the analysis' first pooling."""
        return next(iter(self.poolings.values()), {})

    def of_pooling(self, pooling: str) -> "Inputs":
        """The same with one pooling alone."""
        return replace(self, poolings={pooling: self.poolings[pooling]})

    def split(self, name: str) -> Representations:
        """The representations of a split, or an error that says what lacks them."""
        if name not in self.representations:
            raise AnalysisError(
                f"corpus {self.task.corpus.name!r} has no {name!r} split",
                fix=f"name a file for {name!r}, or cut it from train (dev: 0.1 in a study file)",
            )
        found = self.representations[name]
        if not len(found.index):
            raise AnalysisError(
                f"split {name!r} of corpus {self.task.corpus.name!r} has nothing to read",
                fix="check the files; words past a model's limit are left out",
            )
        return found


@dataclass
class Outcome:
    """What an analysis found: rows for `results`, columns of equal length for `items` and other tables."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    items: dict[str, np.ndarray] = field(default_factory=dict)
    tables: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    """By name, kept beside the rows: a ranking of neurons, for example."""
    absent: dict[str, str] = field(default_factory=dict)
    """Declared metrics that have no row, and why: 'the model has no language-model head'."""

    def add(self, metric: str, value: float, **where: Any) -> None:
        """One row; `where` are columns of `vestige.analyses.schema.ROW`: layer, label, x, low, high, n, ..."""
        self.rows.append({"metric": metric, "value": float(value), **where})


@dataclass(frozen=True)
class Analysis(ABC):
    """Base of all analyses; subclasses are frozen dataclasses whose fields are their parameters."""

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    """Paper and section."""
    needs: ClassVar[frozenset[Need]]
    levels: ClassVar[tuple[Level, ...]]
    """Of the tasks that it takes; (): it reads no corpus, and is run once for every model."""
    models: ClassVar[Literal[1, 2]] = 1
    """1: a model. 2: a model and its reference, on the same batches."""
    alone: ClassVar[bool] = False
    """Whether an analysis of two models also says something of one that has no reference."""
    uses_labels: ClassVar[bool] = True
    """Whether `run` reads the labels of a task; one that reads words alone is run once per corpus."""
    metrics: ClassVar[tuple[Metric, ...]]
    """Every number that it may report; a row of another is an error when the cell is run."""
    in_domain: ClassVar[str] = ""
    """A table of what was found without each group of sentences (columns metric, layer, left_out, value), by which a
    tuned model is compared on the corpus it was tuned on and on others."""
    selection: ClassVar[str] = ""
    """A table of ranked neurons (columns neuron, layer, refit, ...), of which selections are compared."""
    example: ClassVar[str] = ""
    """corpus/task of the catalog that suits it, for the study file that its documentation shows; "": by its levels."""
    version: ClassVar[int] = 1
    """Raised when the same parameters would give other numbers: cached cells are then not reused."""

    def __post_init__(self) -> None:
        """Every setting is of its kind, however the analysis is made."""
        for setting in fields(self):
            value = getattr(self, setting.name)
            try:
                _checker(type(self), setting.name).validate_python(value)
            except ValidationError as error:
                said = error.errors()[0]["msg"].removeprefix("Value error, ").replace("Input should", "it should")
                raise AnalysisError(f"{self.name}: {setting.name} is {value!r}", fix=said) from None

    @property
    def stochastic(self) -> bool:
        """Whether another seed trains another probe: training is not convex, or ends before it has converged.

        Comparisons then take the variance over seeds into intervals and tests; with one seed they only describe.
        """
        return False

    @property
    def given(self) -> tuple[Metric, ...]:
        """The metrics that it reports under these parameters; of those that it may."""
        return self.metrics

    @property
    def poolings(self) -> tuple[str, ...]:
        """Poolings of hidden states that `run` reads: the parameter `pooling`, where there is one."""
        pooling = getattr(self, "pooling", None)
        return () if pooling is None else (pooling,)

    @property
    def wants_own_task(self) -> bool:
        """Whether `run` scores a model that the study tuned on the task it was tuned for."""
        return False

    @property
    def splits(self) -> tuple[str, ...] | None:
        """Splits whose hidden states `run` reads; None: all that the corpus has."""
        return None

    @abstractmethod
    def run(self, inputs: Inputs) -> Outcome:
        """Compute; a pure function of the parameters and the inputs."""

    def parameters(self) -> dict[str, Any]:
        """The parameters by name, as kept in the results."""
        return asdict(self)

    def declared(self) -> dict[str, Any]:
        """What a run keeps of it beside its tables, as plain JSON: see `vestige.analyses.metric.Declared`."""
        return {
            "analysis": self.name,
            "title": self.title,
            "source": self.source,
            "about": " ".join(cleandoc(self.__doc__ or "").split("\n\n")[0].split()),
            "uses_labels": self.uses_labels,
            "metrics": [metric.as_json() for metric in self.given],
        }


@cache
def _checker(kind: type[Analysis], setting: str) -> TypeAdapter[Any]:
    return TypeAdapter(get_type_hints(kind, include_extras=True)[setting])


def check_rows(analysis: Analysis, outcome: Outcome) -> None:
    """Every row is of a declared metric along a declared axis, in known columns; else an error says what to declare."""
    known = {metric.name: metric for metric in analysis.given}
    columns = {column.name for column in ROW}
    for row in outcome.rows:
        metric = known.get(row["metric"])
        where = f"analysis {analysis.name!r}"
        if metric is None:
            raise AnalysisError(
                f"{where} reports {row['metric']!r}, which it does not declare under these parameters",
                fix=f"declare a Metric({row['metric']!r}, ...) among its metrics, or correct the name",
            )
        if unknown := set(row) - columns:
            raise AnalysisError(
                f"{where} says {sorted(unknown)[0]!r} of {metric.name!r}, which is no column of results",
                fix=f"use columns among {', '.join(sorted(columns))}",
            )
        if math.isnan(row["value"]):
            place = {
                name: value for name, value in row.items() if name not in ("metric", "value") and value is not None
            }
            raise AnalysisError(
                f"{where} reports that {metric.name!r} is no number (nan) at {place or 'the whole model'}",
                fix="report numbers only; name what cannot be measured in outcome.absent, with the reason",
            )
        _check_axis(row, metric, where)


def check_tables(analysis: Analysis, outcome: Outcome) -> None:
    """Every metric that has rows and is compared finds the table and the columns that its estimator names."""
    reported = {row["metric"] for row in outcome.rows}
    tables = {"items": outcome.items, **outcome.tables}
    for name, columns in tables.items():
        if len(lengths := {len(values) for values in columns.values()}) > 1:
            raise AnalysisError(
                f"analysis {analysis.name!r} leaves a table {name!r} whose columns have {sorted(lengths)} rows",
                fix="give all columns of a table the same length",
            )
    for metric in analysis.given:
        if metric.compared is None or metric.name not in reported:
            continue
        table = tables.get(metric.compared.table) or {}
        if lacking := sorted(metric.compared.columns - set(table)):
            raise AnalysisError(
                f"analysis {analysis.name!r} declares that {metric.name!r} is compared by the column {lacking[0]!r} of "
                f"its table {metric.compared.table!r}, which has {', '.join(table) or 'no columns'}",
                fix="leave the column, or correct the estimator of the metric",
            )


def _check_axis(row: dict[str, Any], metric: Metric, where: str) -> None:
    on = row.get("axis") or ("layer" if row.get("layer") is not None else ""), row.get("axis2") or ""
    declared = [(axis.name, axis.second) for axis in metric.along]
    if on not in declared:
        lies, *names = (" and ".join(map(repr, filter(None, pair))) or "no axis" for pair in (on, *declared))
        raise AnalysisError(
            f"{where} reports {metric.name!r} along {lies}, but declares it along {', '.join(names)}",
            fix="declare the axis in the metric's `along`, or correct the row",
        )
