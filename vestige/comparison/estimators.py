"""How a metric of base and tuned models is compared: from the tables an analysis leaves to sums per sentence.

Every estimator but one is a ratio of sums over sentences, so that all share one path to intervals, tests, equivalence,
variance split and false-discovery control (`vestige.comparison.differences`). A number that is no such ratio (a
dimension, a correlation) is compared by what it is without each group of sentences (`Replicates`).

An estimator names a table that the analysis leaves beside its rows (columns `sentence`, `probe_seed` and any of the
columns that say where a number lies, see `vestige.analyses.schema`), the rows of it that count, and the columns that
are summed. Each different place in the table (a layer, an input, a share of neurons) is compared by itself.
"""

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Estimator:
    """Base of all: which rows of which table count."""

    table: str = "items"
    where: tuple[tuple[str, Any], ...] = ()
    """Columns and the value each must have: (("subset", "task"),). They say which rows count, not where they lie."""

    @property
    def selecting(self) -> set[str]:
        """Columns that say which rows count."""
        return {name for name, _ in self.where}

    @property
    def within(self) -> bool:
        """Whether both scores are in the table of the tuned model: an analysis of two models measured them there."""
        return False

    @property
    def columns(self) -> set[str]:
        """All columns that it reads, but for those that say where a score lies."""
        named = (getattr(self, field.name) for field in fields(self) if field.name != "table")
        return {"sentence", *self.selecting, *(name for name in named if isinstance(name, str) and name)}


@dataclass(frozen=True)
class Share(Estimator):
    """The share of items that are right; an item is (sentence, word), and only items that all models have count."""

    column: str = "correct"


@dataclass(frozen=True)
class Mean(Estimator):
    """The mean of a real-valued item; an item is (sentence, word), or a sentence where there is no column `word`."""

    column: str = "value"


@dataclass(frozen=True)
class Ratio(Estimator):
    """A sum over a sum, a row per sentence. The denominators are those of the task, the same for all models."""

    numerator: str = "value"
    denominator: str = "n"
    count: str = ""
    """A column that must be equal in all models for a sentence to be compared; reported as the number of items."""


@dataclass(frozen=True)
class F1(Estimator):
    """Twice the hits over predicted and gold labels, a row per sentence; denominators differ between models."""

    hits: str = "hits"
    predicted: str = "predicted"
    gold: str = "gold"
    count: str = "targets"
    """A column that must be equal in all models for a sentence to be compared; reported as the number of items."""


@dataclass(frozen=True)
class StrataMean(Estimator):
    """The mean over strata (sentence lengths) of the mean of a sentence's value; a row per sentence."""

    column: str = "value"
    strata: str = "words"
    strata_range: tuple[int, int] = (0, 2**31)
    """Strata from the first number to the second, both included; sentences of others are left out."""


@dataclass(frozen=True)
class Difference(Estimator):
    """One share minus another of the same sentences: selectivity. The first is averaged over its seeds."""

    first: Share = Share()
    second: Share = Share()

    @property
    def selecting(self) -> set[str]:
        return self.first.selecting | self.second.selecting

    @property
    def columns(self) -> set[str]:
        return self.first.columns | self.second.columns


@dataclass(frozen=True)
class Within(Estimator):
    """The mean of one column minus that of another, of the same items, for an analysis of two models.

    The table of the tuned model has both: what a probe of the base gets right in the base and in the tuned model, say.
    """

    before: str = "before"
    after: str = "after"
    count: str = ""
    """Where given, a row is a group of items of one sentence: the two columns are sums, and this one says over how many
    items. Places that differ in more than the layer are then groups that have items of their own."""

    @property
    def within(self) -> bool:
        return True


@dataclass(frozen=True)
class Replicates(Estimator):
    """A number of the whole corpus, by what it is without each group of sentences (the delete-a-group jackknife).

    The table has a row for every place and group: `left_out` (the group, -1: nothing), `sentences` (how many there
    are) and the value. Both models leave out the same sentences.
    """

    table: str = "replicates"
    column: str = "value"
    before: str = ""
    """Of an analysis of two models: the column of the first number, `column` being that of the second."""

    @property
    def within(self) -> bool:
        return bool(self.before)

    @property
    def columns(self) -> set[str]:
        return super().columns - {"sentence"} | {"left_out", "sentences"}
