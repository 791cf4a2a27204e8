"""A run as the report reads it: the four tables, with settings, groups and names worked out once."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from vestige.comparison.differences import Settings
from vestige.report.contrasts import contrast_findings
from vestige.report.findings import Finding, group_findings, headlines
from vestige.report.groups import Group, Titles, primary, split_groups
from vestige.report.measures import layer_means, twins
from vestige.report.settings import Setting, read_settings, unknown_setting
from vestige.report.wording import count, listing


@dataclass(frozen=True)
class Reading:
    """The tables of a run and what follows from them."""

    results: pd.DataFrame
    comparisons: pd.DataFrame
    cells: pd.DataFrame
    lock: Mapping[str, Any]

    @cached_property
    def settings(self) -> dict[str, Setting]:
        return read_settings(self.cells)

    @cached_property
    def judging(self) -> Settings:
        """Confidence, margin and alpha of the comparisons."""
        return Settings(**self.lock.get("spec", {}).get("compare", {}))

    @cached_property
    def groups(self) -> list[Group]:
        return split_groups(self.comparisons, self.settings)

    @cached_property
    def primary(self) -> list[Group]:
        return primary(self.groups)

    @cached_property
    def titles(self) -> Titles:
        models = len({group.model for group in self.groups})
        return Titles(len({corpus for corpus, _ in self.tasks}), models)

    @cached_property
    def accuracy(self) -> pd.DataFrame:
        """Mean accuracy by corpus, task, params, model and layer."""
        return layer_means(self.results, "accuracy")

    @cached_property
    def tasks(self) -> list[tuple[str, str]]:
        """(corpus, task) of every probe, in the order of the table."""
        return list(dict.fromkeys(zip(self.accuracy["corpus"], self.accuracy["task"], strict=True)))

    @cached_property
    def headlines(self) -> list[Finding]:
        """The findings that open the page."""
        across = contrast_findings(self.groups, self.titles, self.judging)
        return headlines(self.groups, across, self.titles, self.judging)

    def settings_of(self, corpus: str, task: str) -> list[Setting]:
        """The settings a task was probed under, the preferred one first."""
        rows = self.accuracy[(self.accuracy["corpus"] == corpus) & (self.accuracy["task"] == task)]
        known = [self.settings.get(params, unknown_setting(params)) for params in dict.fromkeys(rows["params"])]
        return sorted(known, key=lambda setting: setting.preference)

    def further_findings(self, group: Group) -> list[Finding]:
        """What is found of a group and does not open the page."""
        shown = set(map(str, self.headlines)) if group in self.primary else set()
        return [f for f in group_findings(group, self.titles, self.judging) if str(f) not in shown]

    @property
    def title(self) -> str:
        return str(self.lock.get("spec", {}).get("study") or self.lock.get("study") or "study")

    @cached_property
    def statement(self) -> str:
        """What was compared, in a line."""
        against: dict[str, list[str]] = {}
        for group in self.primary:
            names = against.setdefault(group.reference, [])
            names += [group.model] if group.model not in names else []
        if against:
            subject = listing(
                [
                    f"{self._named(base)} against {listing([self._named(name) for name in names])}"
                    for base, names in against.items()
                ]
            )
        else:
            plain = [name for name in dict.fromkeys(self.accuracy["model"]) if name not in twins(self.lock)]
            subject = listing([self._named(name) for name in plain])
        corpora = dict.fromkeys(corpus for corpus, _ in self.tasks)
        on = listing([f"{listing([t for c, t in self.tasks if c == corpus])} of {corpus}" for corpus in corpora])
        scored = ""
        if self.primary and self._alike:
            rows = self.primary[0].rows
            scored = f", on {count(rows['words'].max())} words in {count(rows['sentences'].max())} sentences"
        return f"{subject}, probed layer by layer for {on}{scored}."

    @property
    def _alike(self) -> bool:
        """Whether all tasks were scored on the same number of words."""
        return len({int(group.rows["words"].max()) for group in self.primary}) == 1

    def _named(self, name: str) -> str:
        """A model with where it comes from: 'tuned (fine-tuned on sst/label)'."""
        copy = (self.lock.get("models", {}).get(name) or [{}])[0]
        origin = f"fine-tuned on {copy['tuned_on']}" if copy.get("tuned_on") else copy.get("source")
        return f"{name} ({origin})" if origin and origin not in (name, "(given)") else name
