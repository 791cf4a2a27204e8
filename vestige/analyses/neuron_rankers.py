"""Rankings of neurons compared: do other methods than a probe's weights find the same ones, and as good ones?

Every ranker orders all neurons on the training words. Two rankings agree as far as their tops
overlap and their ranks correlate. Which is better, probes trained on the tops alone show.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, ClassVar, Literal

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import WHOLE, Metric
from vestige.analyses.neuron_metrics import FIT, OVERLAP, SHARE, accuracy, ranked_by_probe
from vestige.analyses.rows import NeuronRows
from vestige.analyses.settings import Penalty, Share, Some, Whole
from vestige.errors import AnalysisError
from vestige.neurons.minimal import train_subsets
from vestige.neurons.rankers import RANKERS, agreement
from vestige.neurons.ranking import share_to_count
from vestige.probes.rows import Place
from vestige.progress import bar

PROBE = "probe"
"""The ranking by the weights of an elastic-net probe (durrani2020)."""


@dataclass(frozen=True)
class NeuronRankers(Analysis):
    """How far rankings of neurons agree, and how good the tops of each are.

    `l1` and `l2` are those of the probe whose weights rank; probes on the tops have `l2` alone.
    """

    name: ClassVar[str] = "neuron_rankers"
    title: ClassVar[str] = "Neurons: rankings compared"
    source: ClassVar[str] = "antverg2022 (probeless); torroba hennigen2020 (gaussian); durrani2020 (probe)"
    needs = frozenset({"hidden_states"})
    levels = ("token",)
    version = 5
    metrics = (
        accuracy(SHARE),
        Metric("agreement_overlap", "overlap of the tops of two rankings", "percent", decimals=0, along=(SHARE,)),
        Metric("agreement_spearman", "rank correlation of two rankings", decimals=2, along=(WHOLE,)),
        OVERLAP,
        *FIT,
    )

    pooling: Literal["first", "last", "mean", "max"] = "last"
    """How the hidden states of a word's tokens become one vector."""
    rankers: Annotated[tuple[str, ...], Some] = (PROBE, *RANKERS)
    """Methods whose rankings are compared: probe, probeless, gaussian, iou, average_precision, mutual_information or
    random."""
    l1: Penalty = 1e-4
    """L1 penalty of the probe that ranks."""
    l2: Penalty = 1e-4
    """L2 penalty of all probes."""
    shares: Annotated[tuple[Share, ...], Some] = (0.01, 0.05, 0.1)
    """Tops of the rankings that are compared and on which probes are trained."""
    seed: Whole = 0
    """Of the probes' training and the random ranking."""
    split: str = "test"
    """The split that is scored."""

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

    @property
    def given(self) -> tuple[Metric, ...]:
        """What is of the probe alone is there where the probe is; agreements are of two rankers."""
        unasked = () if PROBE in self.rankers else (OVERLAP.name, *(metric.name for metric in FIT))
        if len(self.rankers) == 1:
            unasked = (*unasked, "agreement_overlap", "agreement_spearman")
        return tuple(metric for metric in self.metrics if metric.name not in unasked)

    def run(self, inputs: Inputs) -> Outcome:
        task, outcome = NeuronRows.of(inputs, self.split), Outcome()
        sizes = [share_to_count(share, task.train.width) for share in self.shares]
        orders: dict[str, np.ndarray] = {}
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", len(self.rankers)) as shown:
            for name in self.rankers:
                orders[name] = self._order(name, task, outcome)
                probes = train_subsets(
                    task.train, task.gold, task.count, orders[name], sizes, l2=self.l2, seed=self.seed
                )
                for share, probe in zip(self.shares, probes, strict=True):
                    place = Place(name, "top", "share", share)
                    outcome.add("accuracy", task.score(probe, place), n=len(task.held), **place.where)
                shown.advance()
        for first, second in combinations(self.rankers, 2):
            found = agreement(orders[first], orders[second], sizes)
            pair = {"subset": first, "subset2": second}
            for share, size in zip(self.shares, sizes, strict=True):
                outcome.add("agreement_overlap", found.overlap[size], axis="share", x=share, **pair)
            outcome.add("agreement_spearman", found.spearman, **pair)
        outcome.items = task.rows.items(self.split, task.right)
        return outcome

    def _order(self, name: str, task: NeuronRows, outcome: Outcome) -> np.ndarray:
        """All neurons, best first; of the probe also how far it is from its optimum, and what a re-fit would rank."""
        if name != PROBE:
            return RANKERS[name](task.train, task.gold.numpy(), task.rows.classes)
        return ranked_by_probe(task, self.l1, self.l2, self.seed, outcome, self.shares)[1]
