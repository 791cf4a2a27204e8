"""Rankings of neurons compared: do other methods than a probe's weights find the same ones, and as good ones?

Every ranker orders all neurons on the training words. Two rankings agree as far as their tops
overlap and their ranks correlate. Which is better is told by probes trained on the tops alone.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, ClassVar, Literal

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.rows import WordRows
from vestige.analyses.settings import Penalty, Share, Some, Whole
from vestige.errors import AnalysisError
from vestige.neurons.matrix import Neurons
from vestige.neurons.minimal import train_subsets
from vestige.neurons.rankers import RANKERS, agreement
from vestige.neurons.ranking import rank, share_to_count
from vestige.neurons.refit import refit
from vestige.probes.elastic_net.polish import polish
from vestige.progress import bar

PROBE = "probe"
"""The ranking by the weights of an elastic-net probe (durrani2020)."""


@dataclass(frozen=True)
class NeuronRankers(Analysis):
    """`l1` and `l2` are those of the probe whose weights rank; probes on the tops have `l2` alone."""

    name: ClassVar[str] = "neuron_rankers"
    title: ClassVar[str] = "Neurons: rankings compared"
    source: ClassVar[str] = "antverg2022 (probeless); torroba hennigen2020 (gaussian); durrani2020 (probe)"
    needs = frozenset({"hidden_states"})
    levels = ("token",)
    version = 3

    pooling: Literal["first", "last", "mean", "max"] = "last"
    rankers: Annotated[tuple[str, ...], Some] = (PROBE, *RANKERS)
    l1: Penalty = 1e-4
    l2: Penalty = 1e-4
    shares: Annotated[tuple[Share, ...], Some] = (0.01, 0.05, 0.1)
    """Tops of the rankings that are compared and on which probes are trained."""
    seed: Whole = 0
    split: str = "test"

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = [name for name in self.rankers if name not in (PROBE, *RANKERS)]
        if unknown:
            raise AnalysisError(
                f"there is no ranker {unknown[0]!r}", fix=f"name some of {', '.join((PROBE, *RANKERS))}"
            )

    @property
    def stochastic(self) -> bool:
        """Probes end before they have converged, and are trained once: comparisons describe and do not judge."""
        return True

    def run(self, inputs: Inputs) -> Outcome:
        rows = WordRows.of(inputs, self.split)
        train, held = (Neurons.of(rows.representations[split]) for split in ("train", self.split))
        sizes = [share_to_count(share, train.width) for share in self.shares]
        outcome = Outcome()
        orders, right = {}, {}
        gold = rows.labels[self.split].numpy()
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", len(self.rankers)) as shown:
            for name in self.rankers:
                orders[name] = self._order(name, train, rows, outcome)
                probes = train_subsets(
                    train, rows.labels["train"], len(rows.classes), orders[name], sizes, l2=self.l2, seed=self.seed
                )
                for share, size, probe in zip(self.shares, sizes, probes, strict=True):
                    subset = f"{name} top {100 * share:g}%"
                    right[subset] = probe.predict(held) == gold
                    outcome.add(
                        "accuracy", right[subset].mean(), subset=subset, axis="neurons", x=size, n=len(gold)
                    )  # fmt: skip
                shown.advance()
        for first, second in combinations(self.rankers, 2):
            found = agreement(orders[first], orders[second], sizes)
            pair = f"{first} & {second}"
            for share, size in zip(self.shares, sizes, strict=True):
                outcome.add("agreement_overlap", found.overlap[size], subset=pair, axis="share", x=share)
            outcome.add("agreement_spearman", found.spearman, subset=pair)
        outcome.items = rows.items(inputs.task, self.split, right)
        return outcome

    def _order(self, name: str, train: Neurons, rows: WordRows, outcome: Outcome) -> np.ndarray:
        """All neurons, best first; of the probe also how far it is from its optimum, and what a re-fit would rank."""
        gold, classes = rows.labels["train"], len(rows.classes)
        if name != PROBE:
            return RANKERS[name](train, gold.numpy(), rows.classes)
        probe = polish(train, gold, classes, self.l1, self.l2, seed=self.seed)
        order = rank(probe.weights, seed=self.seed).order
        again = refit(train, gold, classes, self.l1, self.l2, from_zero=False, seed=self.seed)
        outcome.add("objective", probe.objective)
        outcome.add("optimality_gap", probe.gap)
        for metric, value, where in again.measures(order, self.shares):
            outcome.add(metric, value, **where)
        return order
