"""What analyses share that tune the model itself: scores of a task by what of the model was frozen or cut."""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import WHOLE, Axis, Metric
from vestige.analyses.settings import Count
from vestige.errors import AnalysisError
from vestige.finetune.metrics import MEASURES
from vestige.finetune.recipe import Recipe, default_recipe, load_recipe, make_recipe
from vestige.finetune.score import Scores, score
from vestige.finetune.train import finetune
from vestige.models.files.load import load_model
from vestige.progress import bar


class Variant(NamedTuple):
    """One way to tune the model."""

    x: int
    """Its place on the axis."""
    side: str | None
    recipe: Recipe
    keep: Sequence[int] | None


def of_the_task(*along: Axis, prefix: str = "", where: str = "") -> tuple[Metric, ...]:
    """The measures by which a tuned model is scored on its task; a task has some of them."""
    return tuple(
        Metric(f"{prefix}{name}", f"{title}{where}", "percent", "higher", decimals=1, along=along)
        for name, title in MEASURES.items()
    )


def of_variants(axis: Axis) -> tuple[Metric, ...]:
    """What an analysis reports that tunes one variant after another."""
    return (
        *of_the_task(axis),
        Metric(
            "majority", "always the most frequent answer", "percent", "higher", decimals=1, along=(WHOLE,),
            role="baseline", about="By measure (`subset`).",
        ),
        Metric("trained_parameters", "parameters that were trained", "count", decimals=0, along=(axis,), role="detail"),
    )  # fmt: skip


def lacks_other_measures(outcome: Outcome, found: Collection[str], prefix: str = "") -> None:
    """Note the measures that the task does not have."""
    others = (f"{prefix}{name}" for name in MEASURES if name not in found)
    outcome.absent |= dict.fromkeys(others, "the task is not scored by it")


@dataclass(frozen=True)
class TuningAnalysis(Analysis):
    """Tunes the model on the task once per variant and run; models are kept, so nothing is tuned twice.

    Layers that share a block (ALBERT) get one of their own each in all variants, so that these differ in nothing else.
    """

    needs = frozenset({"trainable_model"})
    levels = ("sentence", "sentence_pair", "token", "tree", "span")
    version = 2

    recipe: str | None = None
    """Name of a recipe, see `vestige ls recipes`; None: mosbach2020's values, or what the task's level asks for."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Values of the recipe that are to be others."""
    runs: Count = 1
    """Fine-tuning runs of every variant, by seed."""
    split: str = "dev"
    """The split that is scored."""

    @property
    def _axis(self) -> str:
        return self.metrics[0].along[0].name

    @abstractmethod
    def variants(self, recipe: Recipe, depth: int) -> Iterator[Variant]:
        """Every way to tune a model of so many blocks."""

    def run(self, inputs: Inputs) -> Outcome:
        if inputs.trainable is None:
            raise AnalysisError(
                f"{self.name} tunes {inputs.model}, which is only in memory or made from another model",
                fix="save it as a folder and load that",
            )
        name = self.recipe or default_recipe(inputs.task.level)
        recipe = make_recipe(self.changes) if name is None else load_recipe(name, **self.changes)
        inputs.task.corpus[self.split]
        depth = len(load_model(inputs.trainable).widths) - 1
        variants = list(self.variants(recipe, depth))
        outcome = Outcome()
        parts = []
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", len(variants) * self.runs) as shown:
            for variant in variants:
                for seed in range(self.runs):
                    parts.append(self._tuned(inputs, variant, seed, outcome))
                    shown.advance()
        outcome.tables["scores"] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return outcome

    def _tuned(self, inputs: Inputs, variant: Variant, seed: int, outcome: Outcome) -> dict[str, np.ndarray]:
        """Rows of one tuned model, and how well it did on every example."""
        assert inputs.trainable is not None
        tuned = finetune(
            inputs.trainable,
            inputs.task,
            variant.recipe,
            seed=seed,
            device=inputs.device,
            threads=torch.get_num_threads(),
            cache=inputs.cache,
            keep=variant.keep,
            unrolled=True,
        )
        found = score(tuned, inputs.task, self.split, device=inputs.device)
        rows = len(found.ids)
        if not outcome.rows:
            self._describe(found, outcome)
        where = {"axis": self._axis, "x": variant.x, "side": variant.side, "probe_seed": seed}
        for name, measure in found.metrics.items():
            outcome.add(name, measure.value, low=measure.low, high=measure.high, n=rows, **where)
        outcome.add("trained_parameters", tuned.log["learning"], **where)
        return {
            "sentence": np.array(found.ids, dtype=object),
            "axis": np.full(rows, self._axis, dtype=object),
            "x": np.full(rows, variant.x, dtype=np.int16),
            "side": np.full(rows, variant.side, dtype=object),
            "probe_seed": np.full(rows, seed, dtype=np.int16),
            "score": np.array(found.items, dtype=np.float64),
        }

    def _describe(self, found: Scores, outcome: Outcome) -> None:
        """What all variants share: the majority baselines, and which measures the task does not have."""
        for name, measure in found.metrics.items():
            if measure.majority is not None:
                outcome.add("majority", measure.majority, subset=name, n=len(found.ids))
        lacks_other_measures(outcome, found.metrics)


def chosen_depths(wanted: Sequence[int] | None, possible: Sequence[int], what: str) -> list[int]:
    """The depths asked for, or all that are possible."""
    unknown = [depth for depth in wanted or () if depth not in possible]
    if unknown:
        raise AnalysisError(
            f"{what} {unknown[0]}, but the model allows {possible[0]} to {possible[-1]}", fix="name depths it has"
        )
    return list(possible) if wanted is None else list(wanted)
