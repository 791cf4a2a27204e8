"""How deep must fine-tuning reach? The task's score with the first blocks held fixed (merchant2020, section 5.2)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from vestige.analyses.settings import Some
from vestige.analyses.tuning import TuningAnalysis, Variant, chosen_depths
from vestige.finetune.recipe import Recipe


@dataclass(frozen=True)
class Freezing(TuningAnalysis):
    """On the axis -1 freezes nothing, 0 the embeddings, k them and k blocks; with all blocks the head alone learns."""

    name: ClassVar[str] = "freezing"
    title: ClassVar[str] = "Partial freezing"
    source: ClassVar[str] = "merchant2020, section 5.2, Figure 3"
    axis = "frozen blocks"

    depths: Annotated[tuple[int, ...], Some] | None = None
    """None: every depth."""

    def variants(self, recipe: Recipe, depth: int) -> Iterator[Variant]:
        for blocks in chosen_depths(self.depths, range(-1, depth + 1), "frozen blocks"):
            yield Variant(blocks, None, replace(recipe, freeze=None if blocks < 0 else blocks), None)
