"""Neurons: which of them carry a property, how few are enough, and in which layers they are.

durrani2020 and the neuron half of durrani2021. One probe on the neurons of all layers, with
penalties found by search, ranks them; the probe is fitted once more, to see how far the ranking is
the solver's doing; it is tested by ablating neurons (without training again) and by training again
on the best and the worst of them; the smallest sufficient set is found, and where its neurons are
is reported by layer and by label.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import Metric
from vestige.analyses.neuron_metrics import CONTROL, MINIMAL, NEURONS, SEARCH, report_fits
from vestige.analyses.neuron_tables import explorer_table, minimal_place, ranking_table, report_spread
from vestige.analyses.rows import NeuronRows
from vestige.analyses.settings import Penalty, Share, Some, Whole
from vestige.neurons.ablation import ablate
from vestige.neurons.minimal import Subset, minimal_sets, train_subsets
from vestige.neurons.ranking import Ranking, bottom, rank, share_to_count, top
from vestige.neurons.refit import Refit, refit
from vestige.neurons.search import GRID, Search, search_penalties
from vestige.probes.elastic_net.polish import Polished, polish
from vestige.probes.elastic_net.proximal import Form
from vestige.probes.rows import Place
from vestige.progress import bar


@dataclass(frozen=True)
class NeuronAnalysis(Analysis):
    """Which neurons carry a property, how few are enough, and in which layers they are.

    Two protocols are kept apart by `subset`: `ablated` sets all but the chosen neurons of the probe that has all to
    zero (durrani2020), `retrained` trains a new probe on the chosen neurons alone (durrani2021).
    """

    name: ClassVar[str] = "neurons"
    title: ClassVar[str] = "Neurons: ranking, minimal sets, spread"
    source: ClassVar[str] = "durrani2020; durrani2021, section 4.2"
    needs = frozenset({"hidden_states"})
    levels = ("token",)
    selection = "neurons"
    version = 8
    metrics = NEURONS

    pooling: Literal["first", "last", "mean", "max"] = "last"
    """How the hidden states of a word's tokens become one vector."""
    l1: Penalty | None = None
    """None: searched on dev, together with l2."""
    l2: Penalty | None = None
    """None: searched on dev, together with l1."""
    form: Form = "squared"
    """The L2 term: the papers' square, or the norm that NeuroX's code has ("norm": no optimality gap is known)."""
    grid: Annotated[tuple[Penalty, ...], Some] = GRID
    """Values of l1 and of l2 that the search tries."""
    share: Share = 0.2
    """Of neurons kept or ablated, in the search and in the table of the paper."""
    retrained: tuple[Share, ...] = (0.05, 0.1)
    """Shares of neurons, top and bottom, on which probes are trained again."""
    deltas: tuple[Penalty, ...] = (0.005, 0.02)
    """Accuracy that a minimal set may lose, in parts of one."""
    step: Share = 0.01
    """Share of neurons by which the search for minimal sets grows."""
    control: bool = True
    """Also train probes of a control task, for selectivity."""
    explored: Whole = 24
    """Neurons from the top of the ranking whose words and sentences are kept for the report."""
    seed: Whole = 0
    """Of the probes' training and the random neurons; re-fits take the next one."""
    split: str = "test"
    """The split that is scored."""

    @property
    def stochastic(self) -> bool:
        """Probes end before they have converged: the re-fit's items are those of probe_seed 1."""
        return True

    @property
    def given(self) -> tuple[Metric, ...]:
        """Without minimal sets, a control task or a search for penalties where these are not asked for."""
        searched = len(self._l1_grid) + len(self._l2_grid) > 2
        asked = ((MINIMAL, bool(self.deltas)), (CONTROL, self.control), (SEARCH, searched))
        unasked = [metric for metrics, wanted in asked for metric in metrics if not wanted]
        return tuple(metric for metric in self.metrics if metric not in unasked)

    def run(self, inputs: Inputs) -> Outcome:
        task = NeuronRows.of(inputs, self.split)
        outcome = Outcome()
        searched = {*self._l1_grid, 0.0} if len(self._l1_grid) + len(self._l2_grid) > 2 else ()
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", len(searched) + 6) as shown:
            l1, l2, start = self._penalties(task, outcome, inputs.unfinished, lambda _: shown.advance())
            probe = polish(task.train, task.gold, task.count, l1, l2, start=start, form=self.form, seed=self.seed)
            ranking = rank(probe.weights, seed=self.seed)
            self._describe(probe, ranking, l1, l2, outcome)
            shown.advance()
            again = refit(
                task.train, task.gold, task.count, l1, l2, from_zero=start is not None, form=self.form, seed=self.seed
            )
            report_fits(probe, again, ranking.order, outcome)
            shown.advance()
            right = self._ablate(task, probe, ranking, outcome)
            shown.advance()
            self._retrain(task, ranking, l1, l2, outcome)
            shown.advance()
            minimal = self._minimal(task, right["dev"], ranking, l1, l2, outcome)
            shown.advance()
            if self.control and not inputs.baseline:
                self._selectivity(task, right, minimal, l1, l2, outcome)
            elif self.control:
                outcome.absent |= {metric.name: "a baseline has no control task of its own" for metric in CONTROL}
            report_spread(task, ranking, again, minimal, outcome)
            shown.advance()
        outcome.items = self._items(task, again, l1, l2, outcome)
        outcome.tables["neurons"] = ranking_table(task.train, ranking, again, minimal)
        if self.explored:
            outcome.tables["explorer"] = explorer_table(task, inputs.split(self.split), ranking, self.explored)
        return outcome

    def _items(self, task: NeuronRows, again: Refit, l1: float, l2: float, outcome: Outcome) -> dict[str, np.ndarray]:
        """What the probe and its re-fit (probe_seed 1) got right; a comparison judges by how far the two differ.

        Minimal sets are searched once, so that their changes are described only.
        """
        fits = [task.right]
        if again.ranking is not None:
            other, second = replace(self, seed=self.seed + 1), replace(task, right={})
            other._ablate(second, again.probe, again.ranking, Outcome())
            other._retrain(second, again.ranking, l1, l2, Outcome())
            fits.append(second.right)
            for place, correct in second.right.items():
                outcome.add("refit_accuracy", correct.mean(), n=len(correct), **place.where)
        else:
            outcome.absent["refit_accuracy"] = "the re-fit has no weight other than zero"
        return task.rows.items(self.split, *fits)

    @property
    def _l1_grid(self) -> tuple[float, ...]:
        return self.grid if self.l1 is None else (self.l1,)

    @property
    def _l2_grid(self) -> tuple[float, ...]:
        return self.grid if self.l2 is None else (self.l2,)

    def _penalties(
        self, task: NeuronRows, outcome: Outcome, unfinished: Path | None, tick: Callable[[float], None]
    ) -> tuple[float, float, tuple[Tensor, Tensor] | None]:
        """The pair to use, searched where it is not given, and weights to start from."""
        l1, l2 = self._l1_grid, self._l2_grid
        if len(l1) == len(l2) == 1:
            return l1[0], l2[0], None
        found: Search = search_penalties(
            task.train,
            task.gold,
            task.dev,
            task.labels("dev"),
            task.count,
            l1=l1,
            l2=l2,
            share=self.share,
            form=self.form,
            seed=self.seed,
            tick=tick,
            unfinished=unfinished,
        )
        for pair in found.pairs:
            where = {"axis": "l1", "x": pair.l1, "axis2": "l2", "x2": pair.l2}
            for name in ("score", "accuracy", "top", "bottom"):
                outcome.add(f"search_{name}", getattr(pair, name), **where)
        best = found.best
        return best.l1, best.l2, (best.solution.weights, best.solution.biases)

    def _describe(self, probe: Polished, ranking: Ranking, l1: float, l2: float, outcome: Outcome) -> None:
        for metric, value in (
            ("l1", l1),
            ("l2", l2),
            ("zero_weights", probe.zeros),
            ("passes", probe.passes),
            ("neurons", len(ranking.order)),
            ("ranked_neurons", ranking.ranked),
        ):
            outcome.add(metric, value)

    def _ablate(self, task: NeuronRows, probe: Polished, ranking: Ranking, outcome: Outcome) -> dict[str, float]:
        """All but the top, the bottom, or a random share of neurons set to zero; the accuracy of all, by split."""
        count = share_to_count(self.share, task.train.width)
        drawn = np.random.default_rng([self.seed, 7]).permutation(task.train.width)[:count]
        sides = {"top": top(ranking, count), "random": drawn, "bottom": bottom(ranking, count)}
        places = {"all": Place("all"), **{side: Place("ablated", side, "share", self.share) for side in sides}}
        keeps = {"all": np.arange(task.train.width), **sides}
        whole = {}
        for metric, split in (("dev_accuracy", "dev"), ("accuracy", self.split)):
            found = ablate(task.neurons[split], task.labels(split), probe.weights, probe.biases, keeps)
            for kept, value in found.accuracy.items():
                outcome.add(metric, value, n=len(task.labels(split)), **places[kept].where)
            whole[split] = found.accuracy["all"]
        task.right.update({places[kept]: correct for kept, correct in found.correct.items()})
        return whole

    def _retrain(self, task: NeuronRows, ranking: Ranking, l1: float, l2: float, outcome: Outcome) -> None:
        """New probes on the top and on the bottom of the ranking."""
        sizes = [share_to_count(share, task.train.width) for share in self.retrained]
        if not sizes:
            return
        for side, order in (("top", ranking.order), ("bottom", ranking.order[::-1].copy())):
            probes = self._trained(task, task.gold, order, sizes, l1, l2)
            for share, probe in zip(self.retrained, probes, strict=True):
                place = Place("retrained", side, "share", share)
                outcome.add("accuracy", task.score(probe, place), n=len(task.held), **place.where)

    def _trained(
        self, task: NeuronRows, gold: Tensor, order: np.ndarray, sizes: list[int], l1: float, l2: float
    ) -> list[Subset]:
        """Probes on the first neurons of an order."""
        return train_subsets(
            task.train, gold, task.count, order, sizes, l1=l1, l2=l2, form=self.form, seed=self.seed
        )  # fmt: skip

    def _minimal(
        self, task: NeuronRows, oracle: float, ranking: Ranking, l1: float, l2: float, outcome: Outcome
    ) -> dict[float, Subset]:
        """The smallest sets within each delta of `oracle`, the dev accuracy of the probe that has all neurons."""
        step = max(1, round(self.step * task.train.width))
        reached, tried = minimal_sets(
            task.train, task.gold, task.dev, task.labels("dev"), task.count, ranking.order, oracle, self.deltas,
            step=step, l1=l1, l2=l2, form=self.form, seed=self.seed,
        )  # fmt: skip
        for size in tried:
            outcome.add("dev_accuracy", size.accuracy, subset="growing", axis="neurons", x=size.size)
        for delta, found in reached.items():
            place = minimal_place(delta)
            outcome.add("minimal_neurons", found.size, **place.where)
            outcome.add("minimal_share", found.size / task.train.width, **place.where)
            outcome.add("dev_accuracy", found.accuracy, n=len(task.dev), **place.where)
            outcome.add("accuracy", task.score(found.probe, place), n=len(task.held), **place.where)
        return {delta: found.probe for delta, found in reached.items()}

    def _selectivity(
        self, task: NeuronRows, right: Mapping[str, float], minimal: dict[float, Subset], l1: float, l2: float,
        outcome: Outcome,
    ) -> None:  # fmt: skip
        """The same probes on a control task: all neurons (`right`, by split, on the task itself), and minimal sets."""
        controls = {split: labels[0] for split, labels in task.rows.control_labels(1).items()}
        gold = controls["train"]
        other = polish(task.train, gold, task.count, l1, l2, form=self.form, rounds=3, seed=self.seed)
        small = {
            delta: self._trained(task, gold, found.neurons, [len(found.neurons)], l1, l2)[0]
            for delta, found in minimal.items()
        }
        whole = {"all": np.arange(task.train.width)}
        for prefix, split in (("dev_", "dev"), ("", self.split)):
            scored, labels = task.neurons[split], controls[split].numpy()
            control = ablate(scored, labels, other.weights, other.biases, whole).accuracy["all"]
            outcome.add(f"{prefix}control_accuracy", control, subset="all")
            outcome.add(f"{prefix}selectivity", right[split] - control, subset="all")
            for delta, found in minimal.items():
                control, where = small[delta].accuracy(scored, labels), minimal_place(delta).where
                outcome.add(f"{prefix}control_accuracy", control, **where)
                right_of_task = found.accuracy(scored, task.labels(split))
                outcome.add(f"{prefix}selectivity", right_of_task - control, **where)
