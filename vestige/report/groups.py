"""The comparisons taken apart: one group is one tuned model, one task, one setting, all layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from vestige.report.measures import of_layer_probes
from vestige.report.settings import Setting, unknown_setting
from vestige.report.wording import task_title

KEY = ["corpus", "task", "model", "params"]


@dataclass(frozen=True)
class Group:
    """The differences of one tuned model on one task under one setting."""

    model: str
    reference: str
    corpus: str
    task: str
    setting: Setting
    rows: pd.DataFrame
    """All metrics, all layers."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.corpus, self.task, self.model, self.setting.params)

    @property
    def accuracy(self) -> pd.DataFrame:
        return self.metric("accuracy")

    @property
    def runs(self) -> int:
        return int(self.rows["runs"].max())

    def metric(self, name: str) -> pd.DataFrame:
        """The rows of one metric by layer."""
        return (
            self.rows[self.rows["metric"] == name].sort_values("layer").set_index("layer", drop=False).rename_axis(None)
        )


def split_groups(comparisons: pd.DataFrame, settings: Mapping[str, Setting]) -> list[Group]:
    """All groups of layer probes: tasks and models as in the table, preferred settings first."""
    if comparisons.empty:
        return []
    wanted = of_layer_probes(comparisons)
    wanted = wanted[wanted["metric"].isin(["accuracy", "control_accuracy", "selectivity"])]
    wanted = wanted[wanted["layer"].notna()].astype({"layer": int})
    groups = [
        Group(model, str(rows["reference"].iloc[0]), corpus, task, settings.get(params, unknown_setting(params)), rows)
        for (corpus, task, model, params), rows in wanted.groupby(KEY, sort=False)
        if (rows["metric"] == "accuracy").any()
    ]
    place = {key: index for index, key in enumerate(dict.fromkeys((g.corpus, g.task, g.model) for g in groups))}
    return sorted(groups, key=lambda g: (place[g.corpus, g.task, g.model], g.setting.preference))


def primary(groups: Sequence[Group]) -> list[Group]:
    """The preferred setting of every (task, model)."""
    found: dict[tuple[str, str, str], Group] = {}
    for group in groups:
        found.setdefault((group.corpus, group.task, group.model), group)
    return list(found.values())


@dataclass(frozen=True)
class Titles:
    """Names of tasks and groups, no longer than needed to tell them apart."""

    corpora: int
    models: int

    @classmethod
    def of(cls, groups: Sequence[Group]) -> "Titles":
        return cls(len({group.corpus for group in groups}), len({group.model for group in groups}))

    def task(self, corpus: str, task: str) -> str:
        """'Dependency relations', with the corpus where there are several."""
        return f"{task_title(task)} ({corpus})" if self.corpora > 1 else task_title(task)

    def group(self, group: Group) -> str:
        """The task, and the model where there are several."""
        title = self.task(group.corpus, group.task)
        return f"{title}, {group.model}" if self.models > 1 else title
