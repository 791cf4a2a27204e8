"""A run as the report reads it: its tables, with declarations, settings and parts worked out once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import pandas as pd

from vestige.analyses.metric import Declared
from vestige.comparison.differences import Settings
from vestige.report.settings import Setting, read_settings
from vestige.report.wording import task_title


@dataclass(frozen=True)
class Part:
    """What one analysis under one setting left of one task."""

    corpus: str
    task: str
    params: str
    setting: Setting
    declared: Declared
    rows: pd.DataFrame
    """Of `results`."""
    changes: pd.DataFrame
    """Of `comparisons`: tuned models and their references."""
    domains: pd.DataFrame
    """Of `comparisons`: tuned models on the corpus they were tuned on and on others."""
    title: str
    """The task for a heading; with corpus and setting where there are several."""

    @property
    def name(self) -> str:
        """For those who look for it: 'corpus/task'; empty where no corpus was read."""
        return f"{self.corpus}/{self.task}" if self.corpus else ""

    @property
    def key(self) -> tuple[str, ...]:
        """Of its findings, but for the model."""
        return (self.declared.analysis, self.corpus, self.task, self.params)

    @cached_property
    def models(self) -> list[str]:
        """Every model that was measured, in the order of the table."""
        return list(self.rows["model"].drop_duplicates())


@dataclass(frozen=True)
class Reading:
    """The tables of a run and what follows from them."""

    results: pd.DataFrame
    comparisons: pd.DataFrame
    cells: pd.DataFrame
    lock: Mapping[str, Any]
    changes: pd.DataFrame = field(default_factory=pd.DataFrame)
    """What fine-tuning did to selections of neurons."""
    kept: Callable[[str], Mapping[str, pd.DataFrame]] = field(default=lambda name: {})
    """By name, a table that cells left beside their rows: of every cell that has one."""

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """By hash, the preferred one first."""
        return read_settings(self.cells)

    @cached_property
    def declared(self) -> dict[str, Declared]:
        """By hash of the parameters, what the analysis measures."""
        return {params: Declared.from_json(plain) for params, plain in self.lock["declared"].items()}

    @cached_property
    def judging(self) -> Settings:
        """Confidence, alpha and resamples of the comparisons."""
        given = self.lock.get("spec", {}).get("compare", {})
        return Settings(**{one.name: given[one.name] for one in fields(Settings) if one.name in given})

    @property
    def title(self) -> str:
        """The name of the study."""
        return str(self.lock.get("spec", {}).get("study") or self.lock.get("study") or "study")

    @cached_property
    def analyses(self) -> list[str]:
        """Names, in the order of the table."""
        return list(self.results["analysis"].drop_duplicates()) if "analysis" in self.results else []

    @cached_property
    def twins(self) -> dict[str, str]:
        """Random twins: the model each one is a twin of."""
        models = self.lock.get("spec", {}).get("models", {})
        return {name: model["random_twin_of"] for name, model in models.items() if model.get("random_twin_of")}

    @cached_property
    def tuned_runs(self) -> dict[str, int]:
        """Runs of every model that is compared with another, or that the study tuned and measured."""
        found: dict[str, int] = {}
        if "runs" in self.comparisons:
            found = {
                str(model): int(n) for model, n in self.comparisons.groupby("model", sort=False)["runs"].max().items()
            }
        measured = set(self.results["model"]) if "model" in self.results else set()
        for name, runs in self.lock.get("models", {}).items():
            if name in measured and any("tuned_on" in run for run in runs):
                found.setdefault(name, len(runs))
        return found

    @property
    def compares(self) -> bool:
        """Whether any model of the run is set beside another, by whatever analysis."""
        measured = "reference" in self.results and bool(self.results["reference"].notna().any())
        return measured or len(self.comparisons) > 0

    def parts(self, analysis: str) -> list[Part]:
        """Every task under every setting: tasks in the order of the table, preferred settings first."""
        rows = self.results[self.results["analysis"] == analysis]
        tasks = list(dict.fromkeys(zip(rows["corpus"], rows["task"], strict=True)))
        order = {params: place for place, params in enumerate(self.settings)}
        groups = sorted(
            rows.groupby(["corpus", "task", "params"], sort=False),
            key=lambda group: (tasks.index(group[0][:2]), order.get(group[0][2], len(order))),
        )
        settings = rows.groupby(["corpus", "task"])["params"].nunique()
        return [self._part(key, part, settings[key[:2]] > 1) for key, part in groups]

    def _part(self, key: tuple[str, str, str], rows: pd.DataFrame, several: bool) -> Part:
        corpus, task, params = key
        setting = self.settings.get(params, Setting(params, "", params))  # of a hash that no cell explains
        declared = self.declared[params]
        title = self.task_title(corpus, task) if declared.uses_labels else corpus
        changes = self.comparisons
        if len(changes):
            of_task = (changes["corpus"] == corpus) & (changes["task"] == task) & (changes["params"] == params)
            changes = changes[of_task & (changes["analysis"] == declared.analysis)]
        outside = changes["other_corpus"].notna() if "other_corpus" in changes else pd.Series(False, changes.index)
        return Part(
            corpus,
            task,
            params,
            setting,
            declared,
            rows,
            changes[~outside],
            changes[outside],
            f"{title} ({setting.name})".strip() if several and setting.name != setting.analysis else title,
        )

    def task_title(self, corpus: str, task: str) -> str:
        """'Dependency relations', with the corpus where the study has several."""
        return f"{task_title(task)} ({corpus})" if self._corpora > 1 else task_title(task)

    @cached_property
    def _corpora(self) -> int:
        labelled = [params for params, declared in self.declared.items() if declared.uses_labels]
        return int(self.results.loc[self.results["params"].isin(labelled), "corpus"].nunique())
