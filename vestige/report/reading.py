"""A run as the report reads it: its tables, with settings, groups and names worked out once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from vestige.comparison.differences import Settings
from vestige.report.contrasts import contrast_findings
from vestige.report.findings import MOST, Finding, group_findings, headlines
from vestige.report.groups import Group, Titles, primary, split_groups
from vestige.report.measures import LAYER_PROBES, layer_means, of_layer_probes, twins
from vestige.report.neuron_findings import neuron_findings
from vestige.report.neuron_rows import ANALYSIS, FURTHER_ANALYSES, NeuronGroup, split_neurons
from vestige.report.settings import Setting, read_settings, unknown_setting
from vestige.report.wording import count, listing

MOST_BESIDE = 4
"""So many findings on neurons open a page that has findings on layers too."""


@dataclass(frozen=True)
class Reading:
    """The tables of a run and what follows from them."""

    results: pd.DataFrame
    comparisons: pd.DataFrame
    cells: pd.DataFrame
    lock: Mapping[str, Any]
    changes: pd.DataFrame = field(default_factory=pd.DataFrame)
    """What fine-tuning did to selections of neurons."""
    explorers: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """By cell, what its best neurons answer to."""
    trees: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """By cell, sentences with the trees that a structural probe found in them."""

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
        corpora = {corpus for corpus, _ in self.tasks} | {group.corpus for group in self.neuron_groups}
        return Titles(len(corpora), models)

    @cached_property
    def probes(self) -> pd.DataFrame:
        """The rows of the layer probes."""
        return of_layer_probes(self.results)

    @cached_property
    def accuracy(self) -> pd.DataFrame:
        """Mean accuracy by corpus, task, params, model and layer."""
        return layer_means(self.probes, "accuracy")

    @cached_property
    def neuron_groups(self) -> list[NeuronGroup]:
        return split_neurons(self.results, self.comparisons, self.changes, self.settings, tuple(twins(self.lock)))

    @cached_property
    def tuned_runs(self) -> dict[str, int]:
        """Runs of every model that is compared with another, or that the study tuned and looked at."""
        found = {group.model: group.runs for group in self.groups}
        for group in self.neuron_groups:
            for model, runs in group.runs.items():
                found.setdefault(model, runs)
        if "runs" in self.comparisons:
            for model, most in self.comparisons.groupby("model", sort=False)["runs"].max().items():
                found.setdefault(str(model), int(most))
        looked_at = set(self.results["model"]) if "model" in self.results else set()
        for name, copies in self.lock.get("models", {}).items():
            if name in looked_at and any("tuned_on" in copy for copy in copies):
                found.setdefault(name, len(copies))
        return found

    @property
    def compares(self) -> bool:
        """Whether any model of the run is set beside another, by whatever analysis."""
        measured = "reference" in self.results and bool(self.results["reference"].notna().any())
        return measured or len(self.comparisons) > 0

    @cached_property
    def neuron_headlines(self) -> list[Finding]:
        """The findings on neurons that open the page, beside those on layers."""
        made = [finding for group in self.neuron_groups for finding in self.findings_of(group)]
        places = MOST_BESIDE if self.groups else MOST
        kept = {id(finding) for finding in sorted(made, key=lambda finding: finding.rank)[:places]}
        return [finding for finding in made if id(finding) in kept]

    def findings_of(self, group: NeuronGroup) -> list[Finding]:
        """All that is found of the neurons of a task."""
        return neuron_findings(group, f"Neurons: {self.neuron_title(group)}", self.judging)

    def further_neuron_findings(self, group: NeuronGroup) -> list[Finding]:
        """What is found of neurons and does not open the page."""
        shown = set(map(str, self.neuron_headlines))
        return [finding for finding in self.findings_of(group) if str(finding) not in shown]

    def neuron_title(self, group: NeuronGroup) -> str:
        """The task, and the setting where there are several."""
        title = self.titles.task(group.corpus, group.task)
        if group.setting.analysis in FURTHER_ANALYSES:
            return f"{title}: {FURTHER_ANALYSES[group.setting.analysis]}"
        alike = {other.setting.params for other in self.neuron_groups if other.setting.analysis == ANALYSIS}
        return f"{title} ({group.setting.name})" if len(alike) > 1 else title

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
        pairs = [(group.reference, group.model) for group in self.primary]
        pairs += [pair for group in self.neuron_groups for pair in group.pairs]
        if len(self.comparisons):
            pairs += list(self.comparisons[["reference", "model"]].drop_duplicates().itertuples(index=False, name=None))
        for reference, model in pairs:
            names = against.setdefault(reference, [])
            names += [model] if model not in names else []
        if against:
            subject = listing(
                [
                    f"{self._named(base)} against {listing([self._named(name) for name in names])}"
                    for base, names in against.items()
                ]
            )
        else:
            names = [*self.accuracy["model"], *(name for group in self.neuron_groups for name in group.models)]
            names += [] if names else list(self.results["model"])
            plain = [name for name in dict.fromkeys(names) if name not in twins(self.lock)]
            subject = listing([self._named(name) for name in plain])
        probed = [f"probed layer by layer for {_on(self.tasks)}{self._scored}"] if self.tasks else []
        of_neurons = dict.fromkeys((group.corpus, group.task) for group in self.neuron_groups)
        probed += [f"probed neuron by neuron for {_on(list(of_neurons))}"] if of_neurons else []
        probed += [f"measured by {listing(self.further)}"] if self.further else []
        return f"{subject}, {'; '.join(probed)}."

    @property
    def further(self) -> list[str]:
        """The analyses that are neither of layer probes nor of neurons, as a reader would call them."""
        known = {*LAYER_PROBES, ANALYSIS, *FURTHER_ANALYSES}
        found = self.results["analysis"].drop_duplicates()
        return [name.replace("_", " ") for name in found if name not in known]

    @property
    def _scored(self) -> str:
        if not self.primary or not self._alike:
            return ""
        rows = self.primary[0].rows
        return f", on {count(rows['words'].max())} words in {count(rows['sentences'].max())} sentences"

    @property
    def _alike(self) -> bool:
        """Whether all tasks were scored on the same number of words."""
        return len({int(group.rows["words"].max()) for group in self.primary}) == 1

    def _named(self, name: str) -> str:
        """A model with where it comes from: 'tuned (fine-tuned on sst/label)'."""
        copy = (self.lock.get("models", {}).get(name) or [{}])[0]
        origin = f"fine-tuned on {copy['tuned_on']}" if copy.get("tuned_on") else copy.get("source")
        return f"{name} ({origin})" if origin and origin not in (name, "(given)") else name


def _on(tasks: list[tuple[str, str]]) -> str:
    """'upos and deprel of treebank'."""
    corpora = dict.fromkeys(corpus for corpus, _ in tasks)
    return listing([f"{listing([t for c, t in tasks if c == corpus])} of {corpus}" for corpus in corpora])
