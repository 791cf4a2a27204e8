"""Which blocks can a task do without? Its score with some dropped before tuning (durrani2021, section 5)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from vestige.analyses.metric import Axis
from vestige.analyses.settings import Some
from vestige.analyses.tuning import TuningAnalysis, Variant, chosen_depths, of_variants
from vestige.finetune.recipe import Recipe
from vestige.models.surgery.blocks import bottom_pruned, top_pruned

_STRATEGIES = {"top": top_pruned, "bottom": bottom_pruned}


@dataclass(frozen=True)
class Pruning(TuningAnalysis):
    """How well a model can be tuned for a task without some of its blocks.
    Intervals are over held-out examples; they do not cover other runs of training.

    Blocks are dropped from the model as it was loaded, then all that is left is tuned; embeddings stay.
    """

    name: ClassVar[str] = "pruning"
    title: ClassVar[str] = "Layer pruning"
    source: ClassVar[str] = "durrani2021, section 5, Tables 2 and 6; sajjad2020"
    metrics = of_variants(Axis("dropped_blocks", "blocks dropped"))

    strategies: Annotated[tuple[Literal["top", "bottom"], ...], Some] = ("top", "bottom")
    """Whether blocks are dropped from the top or from the bottom; each is tried."""
    dropped: Annotated[tuple[int, ...], Some] | None = None
    """None: half of them; the whole model is always tuned for comparison."""

    def variants(self, recipe: Recipe, depth: int) -> Iterator[Variant]:
        yield Variant(0, "all", recipe, None)
        counts = (depth // 2,) if self.dropped is None else self.dropped
        for count in chosen_depths(counts, range(1, depth), "dropped blocks"):
            for strategy in self.strategies:
                yield Variant(count, strategy, recipe, _STRATEGIES[strategy](depth, count))
