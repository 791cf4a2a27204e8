"""What analyses share that tune the model itself: scores of a task by how the model was held or cut."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.settings import Count
from vestige.errors import AnalysisError
from vestige.finetune.recipe import Recipe, default_recipe, load_recipe, make_recipe
from vestige.finetune.score import score
from vestige.finetune.train import finetune
from vestige.models.files.load import load_model
from vestige.progress import bar


class Variant(NamedTuple):
    """One way to tune the model."""

    x: int
    """Its place on the axis."""
    subset: str | None
    recipe: Recipe
    keep: Sequence[int] | None


@dataclass(frozen=True)
class TuningAnalysis(Analysis):
    """Tunes the model on the task once per variant and run; models are kept, so nothing is tuned twice.

    Layers that share a block (ALBERT) get one of their own each in all variants, so that these differ in nothing else.
    """

    needs = frozenset({"trainable_model"})
    levels = ("sentence", "sentence_pair", "token", "tree", "span")
    axis = ""

    recipe: str | None = None
    """Name of a recipe, see `vestige ls recipes`; None: mosbach2020's values, or what the task's level asks for."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Values of the recipe that are to be others."""
    runs: Count = 1
    split: str = "dev"

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
        where = {"axis": self.axis, "x": variant.x, "subset": variant.subset, "probe_seed": seed}
        for name, measure in found.metrics.items():
            outcome.add(name, measure.value, n=len(found.ids), **where)
            outcome.add(f"{name}_low", measure.low, **where)
            outcome.add(f"{name}_high", measure.high, **where)
            if measure.majority is not None:
                outcome.add(f"{name}_majority", measure.majority, **where)
        outcome.add("trained_parameters", tuned.log["learning"], **where)
        rows = len(found.ids)
        return {
            "sentence": np.array(found.ids, dtype=object),
            "x": np.full(rows, variant.x, dtype=np.int16),
            "subset": np.full(rows, variant.subset or "", dtype=object),
            "probe_seed": np.full(rows, seed, dtype=np.int16),
            "score": np.array(found.items, dtype=np.float64),
        }


def chosen_depths(wanted: Sequence[int] | None, possible: Sequence[int], what: str) -> list[int]:
    """The depths asked for, or all that are possible."""
    unknown = [depth for depth in wanted or () if depth not in possible]
    if unknown:
        raise AnalysisError(
            f"{what} {unknown[0]}, but the model allows {possible[0]} to {possible[-1]}", fix="name depths it has"
        )
    return list(possible) if wanted is None else list(wanted)
