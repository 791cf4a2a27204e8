"""The rows of a neuron analysis taken apart: one task under one setting, with all its models."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from vestige.report.reading import Part, Reading
from vestige.report.wording import DASH, GLUE, count, number

TOP = 0.05
"""The top of a ranking by which its stability is judged."""


@dataclass(frozen=True)
class Selection:
    """Some neurons, or the probe that reads them: the columns subset, side, axis and x of a row."""

    subset: str = ""
    side: str = ""
    axis: str = ""
    x: float | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any] | pd.Series) -> "Selection":
        """That of a row of results or comparisons."""
        subset, side, axis, x = (None if pd.isna(row[name]) else row[name] for name in ("subset", "side", "axis", "x"))
        return cls(subset or "", side or "", axis or "", x)

    @property
    def title(self) -> str:
        """As a reader would say it: 'top 5 %, retrained'."""
        if self.subset == "all":
            return "all neurons"
        if self.subset == "minimal":
            return f"minimal set{self.within}"
        if self.subset == "representatives":
            return f"representatives at {self.x:g}"
        endings = {"": self.part, "ablated": f"{self.part}, others ablated", "retrained": f"{self.part}, retrained"}
        return endings.get(self.subset) or f"{self.subset.replace('_', ' ')}, {self.part}"

    @property
    def part(self) -> str:
        """'top 5 %'."""
        return f"{self.side} {self.share}"

    @property
    def share(self) -> str:
        """'5 %'."""
        return f"{100 * (self.x or 0):g}{GLUE}%"

    @property
    def within(self) -> str:
        """' within 0.5 points' of a minimal set."""
        points = f"{100 * (self.x or 0):g}"
        return f" within {points} {'point' if points == '1' else 'points'}"


ALL = Selection("all")


@dataclass(frozen=True)
class Measure:
    """A number over runs of fine-tuning: mean, smallest, largest."""

    mean: float
    low: float
    high: float
    runs: int

    def percent(self) -> str:
        """'91.6', with the range of runs where there are several."""
        return self._with_range(*(number(100 * value, 1) for value in (self.mean, self.low, self.high)))

    def count(self) -> str:
        """'134 (120\u2013150)'."""
        return self._with_range(*(count(round(value)) for value in (self.mean, self.low, self.high)))

    def _with_range(self, mean: str, low: str, high: str) -> str:
        return mean if self.runs == 1 or low == high else f"{mean} ({low}{DASH}{high})"


def percent(found: Measure | None) -> str:
    """A number of percent as the cell of a table; a dash where it was not computed."""
    return DASH if found is None else found.percent()


def counted(found: Measure | None) -> str:
    """A number of neurons likewise."""
    return DASH if found is None else found.count()


@dataclass(frozen=True)
class Change:
    """One statistic of a selection that fine-tuning changed."""

    value: float
    low: float
    high: float
    """Student's interval over runs and re-fits; NaN where there is none."""
    refit_base: float
    refit_tuned: float
    """The same between two fits of one model; NaN where it was not measured."""
    expected: float
    """By chance, the mean over runs; NaN where no test was made."""
    p: tuple[float, ...]
    """Of every run's permutation test."""
    runs: int


@dataclass(frozen=True)
class NeuronTask:
    """One task under one setting."""

    part: Part
    lead: str
    """Of findings."""
    rows: pd.DataFrame
    compared: pd.DataFrame
    """Differences by tuned model and selection."""
    changes: pd.DataFrame
    """What fine-tuning did to selections of neurons."""
    twins: tuple[str, ...]
    deltas: tuple[Selection, ...]
    """The minimal sets, the tightest first."""
    unreached: pd.DataFrame
    """model, run, x: where no set smaller than all neurons is enough. `rows` has nothing of such sets."""

    @classmethod
    def of(cls, reading: Reading, part: Part, page: str) -> "NeuronTask":
        """The tables of a part; sets that hold all neurons, at which a search ended, are taken out.

        `page` is the title of its page.
        """
        changes = reading.changes
        if len(changes):
            place = [part.corpus, part.task, part.params]
            changes = changes[(changes[["corpus", "task", "params"]] == place).all(axis=1)]
        rows, compared, changes = map(_plain, (part.rows, part.changes, changes))
        rows = rows.assign(run=rows["tune_seed"].astype(float).fillna(0))
        sizes = rows[(rows["metric"] == "minimal_neurons") & (rows["subset"] == "minimal")]
        total = rows[rows["metric"] == "neurons"].groupby(["model", "run"])["value"].max()
        whole = np.asarray(pd.MultiIndex.from_frame(sizes[["model", "run"]]).map(total), dtype=float)
        keys = ["model", "run", "x"]
        unreached = sizes.loc[sizes["value"].to_numpy() >= whole, keys]
        without = pd.MultiIndex.from_frame(rows[keys]).isin(pd.MultiIndex.from_frame(unreached))
        rows = rows[~(without & (rows["subset"] == "minimal"))]
        deltas = tuple(Selection("minimal", "", "delta", x) for x in sorted(set(sizes["x"])))
        lead, twins = f"{page}: {part.title}", tuple(reading.twins)
        return cls(part, lead, rows, compared, changes, twins, deltas, unreached)

    @property
    def scored(self) -> str:
        """The split that accuracy is of."""
        return str(self.part.setting.parameters.get("split") or "test")

    @cached_property
    def models(self) -> list[str]:
        """All models but random twins."""
        return [name for name in dict.fromkeys(self.rows["model"]) if name not in self.twins]

    @cached_property
    def with_twins(self) -> list[str]:
        """All models, random twins last."""
        return self.models + [name for name in dict.fromkeys(self.rows["model"]) if name in self.twins]

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """(reference, tuned) of every model that is compared with another of this task."""
        found = dict.fromkeys(
            pair
            for frame in (self.rows, self.compared, self.changes)
            if "reference" in frame
            for pair in frame[["reference", "model"]].dropna().drop_duplicates().itertuples(index=False, name=None)
        )
        return [(base, model) for base, model in found if base in self.models and model in self.models]

    @cached_property
    def roots(self) -> list[str]:
        """The models that are compared with no other."""
        tuned = {model for _, model in self.pairs}
        return [name for name in self.models if name not in tuned]

    @property
    def several(self) -> bool:
        """Whether a tuned model has several runs."""
        runs = self.rows.groupby("model")["run"].nunique()
        return any(runs.get(model, 1) > 1 for _, model in self.pairs)

    @property
    def ranges(self) -> str:
        """What the brackets of a table hold."""
        return "; means over runs of fine-tuning, the range of runs in brackets" if self.several else ""

    def tuned_from(self, root: str) -> list[str]:
        return [model for reference, model in self.pairs if reference == root]

    def of_pair(self, pair: tuple[str, str]) -> list[tuple[Selection, pd.Series]]:
        """The compared accuracies of a tuned model and its reference, without sets that one of them does not reach."""
        if self.compared.empty:
            return []
        rows = self.compared
        rows = rows[(rows["reference"] == pair[0]) & (rows["model"] == pair[1]) & (rows["metric"] == "accuracy")]
        found = [(Selection.of(row), row) for _, row in rows.iterrows()]
        return [one for one in found if not any(self.missed(model, one[0]) for model in pair)]

    def missed(self, model: str, selection: Selection) -> int:
        """In how many runs of a model no set smaller than all neurons is enough."""
        if selection.subset != "minimal":
            return 0
        return int(((self.unreached["model"] == model) & (self.unreached["x"] == selection.x)).sum())

    def stability(self, model: str, selection: Selection | None = None) -> Measure | None:
        """What a re-fit has in common with the top of a model's ranking, or with a minimal set."""
        return self.measure("ranking_overlap", model, selection or Selection(axis="share", x=TOP))

    def select(
        self, metric: str, model: str | None = None, selection: Selection | None = None, **where: Any
    ) -> pd.DataFrame:
        """The rows of a metric; `where` are columns and the values they must have (None: missing)."""
        rows = self.rows[self.rows["metric"] == metric]
        if selection is not None:
            where |= {name: None if value == "" else value for name, value in vars(selection).items()}
        for name, value in (where if model is None else {**where, "model": model}).items():
            rows = rows[rows[name].isna() if value is None else rows[name] == value]
        return rows

    def measure(self, metric: str, model: str, selection: Selection | None = None, **where: Any) -> Measure | None:
        """A metric of a model over its runs; None where it was not computed."""
        values = self.select(metric, model, selection, **where)["value"]
        if values.empty:
            return None
        return Measure(float(values.mean()), float(values.min()), float(values.max()), len(values))

    def probes(self, subset: str) -> list[Selection]:
        """The selections of a kind of probe ('ablated', 'retrained'), in the order of the table."""
        rows = self.select("accuracy", subset=subset)
        return list(dict.fromkeys(Selection.of(row) for row in rows.to_dict("records")))

    def changed(self, model: str) -> list[Selection]:
        """The selections whose change was measured: tops of the ranking first, for they are of equal size."""
        if self.changes.empty:
            return []
        places = self.changes[self.changes["model"] == model].groupby("selection")["x"].unique()
        tops = [Selection("", "top", "share", float(x)) for x in places.get("top", ())]
        return [*tops, *(one for one in self.deltas if one.x in places.get("minimal", ()))]

    def change(self, model: str, chosen: Selection, statistic: str, layer: int | None = None) -> Change | None:
        """The figure over all runs where there is one, else that of the single run."""
        rows, named = self.changes, chosen.subset or chosen.side
        rows = rows[(rows["model"] == model) & (rows["selection"] == named) & (rows["x"] == chosen.x)]
        rows = rows[rows["statistic"] == statistic]
        rows = rows[rows["layer"].isna() if layer is None else rows["layer"] == layer]
        if rows.empty:
            return None
        single, whole = rows[rows["run"].notna()], rows[rows["run"].isna()]
        shown = whole if len(whole) else single
        return Change(
            **{name: float(shown[name].mean()) for name in ("value", "low", "high", "refit_base", "refit_tuned")},
            expected=float(single["expected"].mean()),
            p=tuple(single["p"].dropna()),
            runs=max(1, single["run"].nunique()),
        )


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Nullable columns as floats and objects, in which missing values behave alike."""
    nullable = frame.dtypes[[isinstance(kind, pd.api.extensions.ExtensionDtype) for kind in frame.dtypes]]
    return frame.astype({name: object if kind.kind == "O" else float for name, kind in nullable.items()})
