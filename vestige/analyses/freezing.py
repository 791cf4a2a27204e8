"""How deep must fine-tuning reach? The task's score with the first blocks frozen (merchant2020, section 5.2)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from vestige.analyses.metric import Axis
from vestige.analyses.settings import Some
from vestige.analyses.tuning import TuningAnalysis, Variant, chosen_depths, of_variants
from vestige.finetune.recipe import Recipe


@dataclass(frozen=True)
class Freezing(TuningAnalysis):
    """How well a model can be tuned for a task while its first blocks are frozen.
    Intervals are over held-out examples; they do not cover other runs of training.

    On the axis -1 freezes nothing, 0 the embeddings, k them and k blocks; with all blocks the head alone learns.
    """

    name: ClassVar[str] = "freezing"
    title: ClassVar[str] = "Partial freezing"
    source: ClassVar[str] = "merchant2020, section 5.2, Figure 3"
    metrics = of_variants(Axis("frozen_blocks", "blocks frozen (-1: not even the embeddings)"))

    depths: Annotated[tuple[int, ...], Some] | None = None
    """None: every depth."""

    def variants(self, recipe: Recipe, depth: int) -> Iterator[Variant]:
        for blocks in chosen_depths(self.depths, range(-1, depth + 1), "frozen blocks"):
            yield Variant(blocks, None, replace(recipe, freeze=None if blocks < 0 else blocks), None)
