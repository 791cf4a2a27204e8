"""Redundant neurons: how many are left when each cluster of correlated ones has one representative?

After dalvi2020: neurons are clustered by the absolute correlation of their activations, within
every layer and over all layers. The best-ranked neuron of each cluster stands for it; probes on
the representatives alone show what the others added, and whether a minimal set gets smaller when
it is chosen among representatives.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import WHOLE, Axis, Metric
from vestige.analyses.neuron_metrics import (
    CORRELATION,
    DELTA,
    DEV_ACCURACY,
    FIT,
    OVERLAP,
    accuracy,
    counted,
    detail,
    ranked_by_probe,
)
from vestige.analyses.rows import NeuronRows
from vestige.analyses.settings import Penalty, Share, Some, Whole
from vestige.neurons.ablation import ablate
from vestige.neurons.matrix import Neurons
from vestige.neurons.minimal import minimal_sets, train_subsets
from vestige.neurons.redundancy import Clusters, clusters_of, correlations, representatives
from vestige.probes.rows import Place
from vestige.progress import bar

EITHER = (DELTA, Axis(DELTA.name, DELTA.title, second=CORRELATION.name))
"""Minimal sets among all neurons, or among representatives at a correlation."""


@dataclass(frozen=True)
class NeuronRedundancy(Analysis):
    """How many neurons are left when each cluster of correlated ones has one representative, and what they know.

    `l1` and `l2` are those of all probes; correlations are taken over the words of dev.
    """

    name: ClassVar[str] = "neuron_redundancy"
    title: ClassVar[str] = "Neurons: redundancy"
    source: ClassVar[str] = "dalvi2020"
    needs = frozenset({"hidden_states"})
    levels = ("token",)
    version = 5
    metrics = (
        accuracy(WHOLE, CORRELATION),
        counted("clusters", "clusters of neurons", CORRELATION, about="Over all layers; or within one, by layer."),
        counted("clusters_over_layers", "clusters with neurons of several layers", CORRELATION),
        counted("minimal_neurons", "neurons of the minimal set", *EITHER),
        Metric(
            "minimal_dev_accuracy", "accuracy of the minimal set on dev", "percent", "higher", decimals=1,
            along=EITHER, role="detail",
        ),
        DEV_ACCURACY,
        OVERLAP,
        *FIT,
        detail("neurons", "neurons"),
    )  # fmt: skip

    pooling: Literal["first", "last", "mean", "max"] = "last"
    """How the hidden states of a word's tokens become one vector."""
    correlation: Annotated[tuple[Share, ...], Some] = (0.9, 0.7, 0.5)
    """Neurons are put together while they correlate at least so much, on average."""
    delta: Penalty = 0.005
    """Accuracy that a minimal set may lose, in parts of one."""
    step: Share = 0.01
    """Share of neurons by which the search for minimal sets grows."""
    l1: Penalty = 1e-4
    """L1 penalty of all probes."""
    l2: Penalty = 1e-4
    """L2 penalty of all probes."""
    seed: Whole = 0
    """Of the probes' training."""
    split: str = "test"
    """The split that is scored."""

    @property
    def stochastic(self) -> bool:
        """Probes end before they have converged, and are trained once: comparisons describe and do not judge."""
        return True

    def run(self, inputs: Inputs) -> Outcome:
        task, outcome = NeuronRows.of(inputs, self.split), Outcome()
        train, dev, gold, dev_gold = task.train, task.dev, task.gold, task.labels("dev")
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", len(self.correlation) + 2) as shown:
            outcome.add("neurons", train.width)
            probe, order = ranked_by_probe(task, self.l1, self.l2, self.seed, outcome)
            shown.advance()
            everything = {"all": np.arange(train.width)}
            oracle = ablate(dev, dev_gold, probe.weights, probe.biases, everything).accuracy["all"]
            found = ablate(task.held, task.labels(self.split), probe.weights, probe.biases, everything)
            task.right[Place("all")] = correct = found.correct["all"]
            outcome.add("dev_accuracy", oracle, subset="all", n=len(dev_gold))
            outcome.add("accuracy", correct.mean(), subset="all", n=len(correct))
            chosen = {Place("all"): order}
            matrix = correlations(dev)
            shown.advance()
            for least in self.correlation:
                clusters = self._clusters(dev, matrix, least, outcome)
                place = Place("representatives", axis="correlation", x=least)
                chosen[place] = best = representatives(clusters, order)
                (small,) = train_subsets(
                    train, gold, task.count, best, [len(best)], l1=self.l1, l2=self.l2, seed=self.seed
                )
                outcome.add("accuracy", task.score(small, place), n=len(task.held), **place.where)
                shown.advance()
            for place, ids in chosen.items():
                reached, _ = minimal_sets(
                    train, gold, dev, dev_gold, task.count, ids, oracle, [self.delta],
                    step=max(1, round(self.step * train.width)), l1=self.l1, l2=self.l2, seed=self.seed,
                )  # fmt: skip
                smallest = reached[self.delta]
                among = {} if place.axis is None else {"axis2": place.axis, "x2": place.x}
                where = {"subset": place.subset, "axis": "delta", "x": self.delta, **among}
                outcome.add("minimal_neurons", smallest.size, **where)
                outcome.add("minimal_dev_accuracy", smallest.accuracy, **where)
        outcome.items = task.rows.items(self.split, task.right)
        return outcome

    def _clusters(self, dev: Neurons, matrix: np.ndarray, least: float, outcome: Outcome) -> Clusters:
        """Clusters over all layers; how many there are, and how many of them within every layer."""
        where = {"axis": "correlation", "x": least}
        constant = (matrix != 0).sum(1) == 1
        found = Clusters(np.arange(dev.width), clusters_of(matrix, 1 - least, apart=constant))
        outcome.add("clusters", found.count, **where)
        outcome.add("clusters_over_layers", int((found.layers(dev.offsets) > 1).sum()), **where)
        for layer, (low, high) in enumerate(zip(dev.offsets[:-1], dev.offsets[1:], strict=True)):
            within = clusters_of(matrix[low:high, low:high], 1 - least, apart=constant[low:high])
            outcome.add("clusters", int(within.max()) + 1, layer=layer, **where)
        return found
