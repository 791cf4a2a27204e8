"""The neuron rows of a run taken apart: one group is one task under one setting, with all its models."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from vestige.report.settings import Setting, unknown_setting
from vestige.report.wording import DASH, GLUE, count, percent

ANALYSIS = "neurons"
FURTHER_ANALYSES = {"neuron_rankers": "rankings compared", "neuron_redundancy": "redundancy"}
"""Further analyses of neurons, and what a heading calls them."""
MINIMAL = "minimal within "
STABLE = 0.8
"""A ranking whose re-fit has less than this of its top in common is in part the solver's choice."""
_REFITS = ("refit_base", "refit_tuned")
"""Columns of changes that kept runs without re-fits lack: nothing is claimed of their moves."""
TOP = 0.05
"""The top of a ranking by which that is judged."""


@dataclass(frozen=True)
class Measure:
    """A number over runs of fine-tuning: mean, smallest, largest."""

    mean: float
    low: float
    high: float
    runs: int

    def percent(self) -> str:
        """'91.6', with the range of runs where there are several."""
        return self._with_range(percent(self.mean), percent(self.low), percent(self.high))

    def count(self) -> str:
        """'134 (120\u2013150)'."""
        return self._with_range(*(count(round(value)) for value in (self.mean, self.low, self.high)))

    def _with_range(self, mean: str, low: str, high: str) -> str:
        return mean if self.runs == 1 or low == high else f"{mean} ({low}{DASH}{high})"


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
class NeuronGroup:
    """One task under one setting."""

    corpus: str
    task: str
    setting: Setting
    rows: pd.DataFrame
    compared: pd.DataFrame
    """Differences by tuned model and subset."""
    changes: pd.DataFrame
    twins: tuple[str, ...]
    deltas: tuple[tuple[float, str], ...]
    """(accuracy that may be lost, name of the subset) of the minimal sets, the tightest first."""
    unreached: pd.DataFrame
    """model, run, subset: where no set smaller than all neurons is enough. `rows` has nothing of such sets."""

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
        """(reference, tuned) of every model that is compared with another of this group."""
        sources = [frame for frame in (self.rows, self.compared, self.changes) if "reference" in frame]
        found = dict.fromkeys(
            (reference, model)
            for frame in sources
            for reference, model in frame[["reference", "model"]].drop_duplicates().itertuples(index=False)
            if not pd.isna(reference)
        )
        return [pair for pair in found if pair[0] in self.models and pair[1] in self.models]

    @cached_property
    def roots(self) -> list[str]:
        """The models that are compared with no other."""
        tuned = {model for _, model in self.pairs}
        return [name for name in self.models if name not in tuned]

    def tuned_from(self, root: str) -> list[str]:
        return [model for reference, model in self.pairs if reference == root]

    def missed(self, model: str, subset: str) -> int:
        """In how many runs of a model no set smaller than all neurons is enough."""
        return int(((self.unreached["model"] == model) & (self.unreached["subset"] == subset)).sum())

    def stability(self, model: str, subset: str | None = None) -> Measure | None:
        """What a re-fit has in common with the top of a model's ranking, or with a minimal set."""
        where = {"axis": "share", "x": TOP} if subset is None else {"subset": subset}
        return self.measure("ranking_overlap", model, **where)

    @cached_property
    def rankers(self) -> list[str]:
        """The rankers that were compared, in their order."""
        pairs = self.select("agreement_spearman")["subset"].str.split(" & ")
        return list(dict.fromkeys([*pairs.str[0], *pairs.str[1]]))

    @property
    def runs(self) -> dict[str, int]:
        """Runs of fine-tuning, by tuned model."""
        return {model: self.rows.loc[self.rows["model"] == model, "run"].nunique() for _, model in self.pairs}

    @property
    def scored(self) -> str:
        """The split that accuracy is of."""
        return str(self.setting.parameters.get("split") or "test")

    def select(self, metric: str, model: str | None = None, **where: Any) -> pd.DataFrame:
        """The rows of a metric; `where` are columns and the values they must have (None: missing)."""
        rows = self.rows[self.rows["metric"] == metric]
        for name, value in {"model": model, **where}.items() if model is not None else where.items():
            rows = rows[rows[name].isna() if value is None else rows[name] == value]
        return rows

    def measure(self, metric: str, model: str, **where: Any) -> Measure | None:
        """A metric of a model over its runs; None where it was not computed."""
        values = self.select(metric, model, **where)["value"]
        if values.empty:
            return None
        return Measure(float(values.mean()), float(values.min()), float(values.max()), len(values))

    def selections(self, model: str) -> list[str]:
        """The selections whose change was measured: tops of the ranking first, for they are of equal size."""
        if self.changes.empty:
            return []
        names = dict.fromkeys(self.changes.loc[self.changes["model"] == model, "selection"])
        minimal = [name for _, name in self.deltas if name in names]
        return [*(name for name in names if not name.startswith(MINIMAL)), *minimal]

    def change(self, model: str, selection: str, statistic: str, layer: int | None = None) -> Change | None:
        """The figure over all runs where there is one, else that of the single run."""
        rows = self.changes[
            (self.changes["model"] == model)
            & (self.changes["selection"] == selection)
            & (self.changes["statistic"] == statistic)
        ]
        rows = rows[rows["layer"].isna() if layer is None else rows["layer"] == layer]
        if rows.empty:
            return None
        single = rows[rows["run"].notna()]
        whole = rows[rows["run"].isna()]
        told = whole if len(whole) else single
        names = ("value", "low", "high", "refit_base", "refit_tuned")
        return Change(
            **{name: float(told[name].mean()) for name in names},
            expected=float(single["expected"].mean()),
            p=tuple(single["p"].dropna()),
            runs=max(1, single["run"].nunique()),
        )


def split_neurons(
    results: pd.DataFrame,
    comparisons: pd.DataFrame,
    changes: pd.DataFrame,
    settings: Mapping[str, Setting],
    twins: Sequence[str],
) -> list[NeuronGroup]:
    """The groups of a run in the order of its table; none where no neurons were ranked."""
    if "analysis" not in results:
        return []
    rows = _plain(results[results["analysis"].isin([ANALYSIS, *FURTHER_ANALYSES])], ("value", "x", "layer"))
    rows = rows.assign(run=rows["tune_seed"].astype(float).fillna(0) if "tune_seed" in rows else 0.0)
    compared = pd.DataFrame()
    if "subset" in comparisons:
        compared = _plain(comparisons[comparisons["layer"].isna() & comparisons["subset"].notna()], ())
    changes = changes.reindex(columns=list(dict.fromkeys([*changes, *_REFITS])))
    changes = _plain(changes, ("value", "low", "high", "expected", "p", *_REFITS, "layer", "run"))
    groups = []
    for (corpus, task, params), group in rows.groupby(["corpus", "task", "params"], sort=False):
        deltas, unreached = _minimal_sets(group)
        keys = ["model", "run", "subset"]
        without = pd.MultiIndex.from_frame(group[keys]).isin(pd.MultiIndex.from_frame(unreached))
        where = corpus, task, params
        groups.append(
            NeuronGroup(
                corpus,
                task,
                settings.get(params, unknown_setting(params)),
                group[~without],
                _of(compared, *where),
                _of(changes, *where),
                tuple(twins),
                deltas,
                unreached,
            )
        )
    return groups


def _minimal_sets(rows: pd.DataFrame) -> tuple[tuple[tuple[float, str], ...], pd.DataFrame]:
    """The deltas of minimal sets; and the model, run and subset of those that hold all neurons, as the search ended."""
    sizes = rows[(rows["metric"] == "minimal_neurons") & rows["subset"].str.startswith(MINIMAL)]
    everything = rows[rows["metric"] == "neurons"].groupby(["model", "run"])["value"].max()
    total = pd.MultiIndex.from_frame(sizes[["model", "run"]]).map(everything)
    whole = sizes["value"].to_numpy() >= np.asarray(total, dtype=float)
    return tuple(sorted(set(zip(sizes["x"], sizes["subset"], strict=True)))), sizes.loc[
        whole, ["model", "run", "subset"]
    ]


def subset_title(subset: str) -> str:
    """'top 5% retrained' as a reader would say it: 'top 5 %, retrained'."""
    if subset == "all":
        return "all neurons"
    if subset.startswith(MINIMAL):
        return f"minimal set{within(subset)}"
    return re.sub(r"^(\w+) ([\d.]+)%", rf"\1 \2{GLUE}%", subset).replace("% ", "%, ")


def within(subset: str) -> str:
    """' within 0.5 points' of the name of a minimal set."""
    number = subset.removeprefix(MINIMAL)
    return f" within {number} {'point' if number == '1' else 'points'}"


def _plain(frame: pd.DataFrame, numbers: Sequence[str]) -> pd.DataFrame:
    """Nullable columns as floats and objects, in which missing values behave alike."""
    kinds = {name: float for name in numbers if name in frame}
    text = {name: object for name, kind in frame.dtypes.items() if isinstance(kind, pd.StringDtype)}
    return frame.astype({**text, **kinds})


def _of(frame: pd.DataFrame, corpus: str, task: str, params: str) -> pd.DataFrame:
    if frame.empty:
        return frame
    return frame[(frame["corpus"] == corpus) & (frame["task"] == task) & (frame["params"] == params)]
