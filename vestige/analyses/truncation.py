"""How much depth does a task need? Its score with only the first blocks kept (merchant2020, section 5.2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from vestige.analyses.metric import Axis
from vestige.analyses.settings import Some
from vestige.analyses.tuning import TuningAnalysis, Variant, chosen_depths, of_variants
from vestige.finetune.recipe import Recipe


@dataclass(frozen=True)
class Truncation(TuningAnalysis):
    """How well a model can be tuned for a task with only its first blocks kept.
    Intervals are over held-out examples; they do not cover other runs of training.

    The head reads the last kept block; everything is tuned.
    """

    name: ClassVar[str] = "truncation"
    title: ClassVar[str] = "Truncation"
    source: ClassVar[str] = "merchant2020, section 5.2, Figure 4"
    metrics = of_variants(Axis("kept_blocks", "first blocks kept"))

    depths: Annotated[tuple[int, ...], Some] | None = None
    """None: every depth from one block on."""

    def variants(self, recipe: Recipe, depth: int) -> Iterator[Variant]:
        for blocks in chosen_depths(self.depths, range(1, depth + 1), "kept blocks"):
            yield Variant(blocks, None, recipe, None if blocks == depth else tuple(range(blocks)))
