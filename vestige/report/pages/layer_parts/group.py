"""The layer probes of a run taken apart: one group is one tuned model, one task, one setting, one pooling."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from vestige.analyses.metric import Metric
from vestige.report.reading import Part


@dataclass(frozen=True)
class Measure:
    """One metric of a group, layer by layer."""

    metric: Metric
    changes: pd.DataFrame
    """The comparison by layer; empty where there is none."""
    levels: dict[str, float]
    """Baselines that belong to the metric, by their titles."""

    @classmethod
    def of(cls, part: Part, name: str, baselines: Sequence[str]) -> "Measure | None":
        """From the tables; None where the metric was not measured."""
        if not (part.rows["metric"] == name).any():
            return None
        changes = part.changes
        if len(changes):
            changes = changes[(changes["metric"] == name) & changes["layer"].notna()].astype({"layer": int})
            changes = changes.assign(x=changes["layer"]).sort_values("layer")
            changes = changes.set_index("layer", drop=False).rename_axis(None)
        metrics, rows = part.declared.metrics, part.rows[part.rows["metric"].isin(baselines)]
        means = rows.groupby("metric", sort=False)["value"].mean()
        levels = {metrics[name].title: float(means[name]) for name in baselines if name in means}
        return cls(metrics[name], changes, levels)

    @property
    def margin(self) -> float:
        """Of equivalence, as the comparison was made with it."""
        return float(self.changes["margin"].iloc[0])

    def verdict(self, *names: str) -> pd.DataFrame:
        """The layers with one of these verdicts."""
        return self.changes[self.changes["verdict"].isin(names)]


@dataclass(frozen=True)
class Group:
    """What is known of a tuned model and its reference on one task; of all models where none is compared."""

    part: Part
    """Its rows are those of the pooling, its changes those of the model, too."""
    title: str
    """The task, with model and pooling where there are several."""
    heading: str
    """The setting, likewise."""
    models: Sequence[str]
    """Reference and tuned model, or all that are no random twins."""
    twins: Sequence[str]
    """Random twins of the reference, or all."""
    pooling: str
    """Empty where there is one only."""
    accuracy: Measure
    control: Measure | None
    selectivity: Measure | None
    primary: bool
    """Whether this is the preferred setting of its task, models and pooling."""

    @property
    def compared(self) -> bool:
        """Whether a tuned model is set against its reference."""
        return len(self.accuracy.changes) > 0

    @property
    def reference(self) -> str:
        return self.models[0]

    @property
    def model(self) -> str:
        return self.models[1]

    @property
    def measures(self) -> list[Measure]:
        """Those that were measured."""
        return [one for one in (self.accuracy, self.control, self.selectivity) if one is not None]

    @property
    def place(self) -> tuple[str, ...]:
        """What it has in common with the same under other settings."""
        return (self.part.corpus, self.part.task, self.pooling, *self.models)
