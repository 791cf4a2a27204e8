"""Neurons that say the same: how many are left when each group of correlated ones has a single speaker?

After dalvi2020: neurons are clustered by the absolute correlation of their activations, within
every layer and over all layers. The best-ranked neuron of each cluster stands for it; probes on
the representatives alone tell what the others added, and whether a minimal set gets smaller when
it is chosen among representatives.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.rows import WordRows
from vestige.analyses.settings import Penalty, Share, Some, Whole
from vestige.neurons.ablation import ablate
from vestige.neurons.matrix import Neurons
from vestige.neurons.minimal import minimal_sets, train_subsets
from vestige.neurons.ranking import rank
from vestige.neurons.redundancy import Clusters, clusters_of, correlations, representatives
from vestige.neurons.refit import refit
from vestige.probes.elastic_net.polish import Polished, polish
from vestige.progress import bar


@dataclass(frozen=True)
class NeuronRedundancy(Analysis):
    """`l1` and `l2` are those of all probes; correlations are taken over the words of dev."""

    name: ClassVar[str] = "neuron_redundancy"
    title: ClassVar[str] = "Neurons: redundancy"
    source: ClassVar[str] = "dalvi2020"
    needs = frozenset({"hidden_states"})
    levels = ("token",)
    version = 3

    pooling: Literal["first", "last", "mean", "max"] = "last"
    correlation: Annotated[tuple[Share, ...], Some] = (0.9, 0.7, 0.5)
    """Neurons are put together while they correlate at least so much, on average."""
    delta: Penalty = 0.005
    """Accuracy that a minimal set may lose, in parts of one."""
    step: Share = 0.01
    l1: Penalty = 1e-4
    l2: Penalty = 1e-4
    seed: Whole = 0
    split: str = "test"

    @property
    def stochastic(self) -> bool:
        """Probes end before they have converged, and are trained once: comparisons describe and do not judge."""
        return True

    def run(self, inputs: Inputs) -> Outcome:
        rows = WordRows.of(inputs, self.split)
        train, dev, held = (Neurons.of(rows.representations[split]) for split in ("train", "dev", self.split))
        gold, classes = rows.labels["train"], len(rows.classes)
        dev_gold, held_gold = (rows.labels[split].numpy() for split in ("dev", self.split))
        outcome = Outcome()
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", len(self.correlation) + 2) as shown:
            probe, order = self._ranked(train, gold, classes, outcome)
            shown.advance()
            everything = {"all": np.arange(train.width)}
            oracle = ablate(dev, dev_gold, probe.weights, probe.biases, everything).accuracy["all"]
            right = ablate(held, held_gold, probe.weights, probe.biases, everything).correct
            outcome.add("dev_accuracy", oracle, subset="all", n=len(dev_gold))
            outcome.add("accuracy", right["all"].mean(), subset="all", n=len(held_gold))
            chosen = {"all neurons": order}
            matrix = correlations(dev)
            shown.advance()
            for least in self.correlation:
                clusters = self._clusters(dev, matrix, least, outcome)
                name = f"representatives at {least:g}"
                chosen[name] = best = representatives(clusters, order)
                (small,) = train_subsets(
                    train, gold, classes, best, [len(best)], l1=self.l1, l2=self.l2, seed=self.seed
                )
                right[name] = small.predict(held) == held_gold
                where = {"subset": name, "axis": "correlation", "x": least}
                outcome.add("accuracy", right[name].mean(), n=len(held_gold), **where)
                shown.advance()
            for name, ids in chosen.items():
                reached, _ = minimal_sets(
                    train, gold, dev, dev_gold, classes, ids, oracle, [self.delta],
                    step=max(1, round(self.step * train.width)), l1=self.l1, l2=self.l2, seed=self.seed,
                )  # fmt: skip
                found = reached[self.delta]
                outcome.add("minimal_neurons", found.size, subset=name, axis="delta", x=self.delta)
                outcome.add("minimal_dev_accuracy", found.accuracy, subset=name, axis="delta", x=self.delta)
        outcome.items = rows.items(inputs.task, self.split, right)
        return outcome

    def _ranked(self, train: Neurons, gold: Tensor, classes: int, outcome: Outcome) -> tuple[Polished, np.ndarray]:
        """The probe on all neurons and its ranking; how far it is from its optimum, and what a re-fit would rank."""
        probe = polish(train, gold, classes, self.l1, self.l2, seed=self.seed)
        order = rank(probe.weights, seed=self.seed).order
        again = refit(train, gold, classes, self.l1, self.l2, from_zero=False, seed=self.seed)
        outcome.add("neurons", train.width)
        outcome.add("objective", probe.objective)
        outcome.add("optimality_gap", probe.gap)
        for metric, value, where in again.measures(order):
            outcome.add(metric, value, **where)
        return probe, order

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
