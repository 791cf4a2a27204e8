"""V-information: how many bits about a property does a layer give a probe, and which of them came or went?

A probe's accuracy counts right guesses; its information counts what it knows, in bits per word (Xu et al. 2020): how
much less uncertain the label is to the best probe of a family V than to one that knows the shares of labels alone.
Conditional V-information (Hewitt et al. 2021) tells what a layer adds to another: what the tuned layer lacks of what
the base's gives, and what it gives that the base's does not, even where both give as many bits. Pointwise (Ethayarajh
et al. 2022), every word has its own number, so that one can ask which words lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.failed_probe import FAILED_PROBE, failure
from vestige.analyses.information_groups import examples, group_means, group_sums, grouped
from vestige.analyses.information_probes import LN2, Probes, Seeds, linear, mlp
from vestige.analyses.information_scores import Scored
from vestige.analyses.metric import WHOLE, Metric
from vestige.analyses.remarks import LOST, count, remark
from vestige.analyses.settings import Count, Penalty, Positive, Whole
from vestige.comparison.differences import LEAST_SENTENCES
from vestige.comparison.estimators import Mean, Within
from vestige.errors import AnalysisError
from vestige.probes.problem import Scale
from vestige.probes.rows import LabelledRows
from vestige.progress import bar
from vestige.representations.shared import in_common
from vestige.representations.store import lost_words

MARGIN = 0.02
"""Bits per word. A share of right guesses that changes by half a point, the margin of probe accuracy, moves the
uncertainty of a label by about as much where a probe is right nine times in ten."""
GROUP_MARGIN = 0.05
"""Of groups, which have fewer words."""

_CONTEXT = Metric(
    "context", "V-information beyond the embeddings", "bits", "higher", MARGIN, compared=Mean(column="context"),
    about="What a layer adds to the model's own layer 0: H_V(Y | [h0; 0]) - H_V(Y | [h0; h]).",
)  # fmt: skip
_OF_TWO = (
    Metric(
        "lost", "V-information lost", "bits", "lower", MARGIN,
        compared=Within(before="pvi", after="both_pvi"), sides=("tuned alone", "tuned and base"),
        about="What the base's layer adds to the tuned one: H_V(Y | [tuned; 0]) - H_V(Y | [tuned; base]).",
    ),
    Metric(
        "gained", "V-information gained", "bits", "higher", MARGIN,
        compared=Within(before="reference_pvi", after="both_pvi"), sides=("base alone", "base and tuned"),
        about="What the tuned layer adds to the base's: H_V(Y | [base; 0]) - H_V(Y | [base; tuned]).",
    ),
    Metric(
        "pointwise", "pointwise V-information of groups of words", "bits", "higher", GROUP_MARGIN, role="detail",
        compared=Within("groups", before="before", after="after", count="n"), sides=("base", "tuned"),
        about="Mean change of the words of a group; `subset` says what they are grouped by, `label` which group it is.",
    ),
    Metric("reference_information", "V-information of the reference", "bits", "higher", role="detail"),
    count("small_groups", "groups of words that are too small to be shown"),
    remark(
        "unmatched_words", "unmatched words",
        "{value} of {n} words of the model or its reference have no partner in the other and are left out",
    ),
    remark(
        "unmatched_layers", "unmatched layers",
        "{value} of {n} layers of the model or its reference have no partner of their number in the other",
    ),
)  # fmt: skip
"""Of a model that has a reference."""


@dataclass(frozen=True)
class VInformation(Analysis):
    """How many bits per word about a property a probe reads from every layer, and which came or went.

    I_V(H -> Y) = H_V(Y) - H_V(Y | H), both cross-entropies on held-out words. Under `linear`, probes are softmax
    regressions at their optimum whose ridge has the least cross-entropy on dev; under `mlp` they have a hidden layer,
    read rows on their principal axes, and stop where their cross-entropy on dev is least. Either family may ignore what
    it is given: where no probe beats the shares of labels on dev, information is 0. On the scored split an estimate may
    still be below 0, and is reported as it is. Words with a label that train lacks have no finite information under any
    probe: they are left out and counted.

    Two layers side by side, [a; b], have the size of [a; 0], so that a copy or a rotation of a layer adds nothing to
    it. As the sample is finite, so are the probes: a second noisy view of a property counts as information, also where
    each view, with enough data, would do alone.
    """

    name: ClassVar[str] = "v_information"
    title: ClassVar[str] = "V-information: lost and gained, in bits"
    source: ClassVar[str] = "Xu et al. 2020; conditional: Hewitt et al. 2021; pointwise: Ethayarajh et al. 2022"
    needs = frozenset({"hidden_states"})
    levels = ("token",)
    version = 3
    models = 2
    alone = True
    metrics = (
        *_OF_TWO[:2],
        Metric(
            "information", "V-information", "bits", "higher", MARGIN, compared=Mean(column="pvi"),
            about="H_V(Y) - H_V(Y | h).",
        ),
        _CONTEXT,
        *_OF_TWO[2:],
        Metric(
            "entropy", "entropy of the labels", "bits", along=(WHOLE,), role="baseline",
            about="H_V(Y): cross-entropy of the scored labels under the shares of train.",
        ),
        Metric("l2", "ridge", decimals=6, role="detail", about="Of the probe of the layer alone; 0: it is ignored."),
        Metric("optimality_gap", "certified distance from the optimum", "nats", "lower", role="detail"),
        Metric(
            "ignored", "layers that the probe ignores", "count", decimals=0, role="remark",
            remark="on dev, no probe of {model} at {layers} beats the shares of labels: its V-information there is 0",
        ),
        FAILED_PROBE,
        remark(
            "unseen_label_words", "words with an unseen label",
            "{value} of {n} words of the scored split carry a label that train lacks, and are left out",
        ),
        *LOST,
    )  # fmt: skip

    pooling: Literal["first", "last", "mean", "max"] = "last"
    """How the hidden states of a word's tokens become one vector."""
    context: bool = True
    """Also measure what every layer adds to the embeddings."""
    probe: Literal["linear", "mlp"] = "linear"
    """The family of probes: softmax regressions, or networks with one hidden layer."""
    hidden: Count = 64
    """Hidden units of the mlp."""
    seeds: Count = 3
    """Trainings of the mlp, which depend on a seed; linear probes have one answer."""
    l2: Penalty | None = None
    """Ridge of all linear probes; None: each has that of least cross-entropy on dev."""
    tolerance: Positive = 2e-3
    """Largest certified distance from the optimum, in nats per word (linear); keep it far below the margin of 0.02
    bits."""
    scale: Scale = "layer"
    """layer: one number for all units of a layer, with outlier units shrunk; unit: every unit to unit size."""
    least_words: Count = 30
    """Groups of fewer words are not shown."""
    examples: Whole = 10
    """Words that lost, and words that gained most, which are kept of every layer."""
    resamples: Count = 1000
    """Bootstrap resamples of the intervals."""
    seed: Whole = 0
    """Of the bootstrap."""
    split: str = "test"
    """The split that is scored."""

    @property
    def stochastic(self) -> bool:
        return self.probe == "mlp"

    @property
    def given(self) -> tuple[Metric, ...]:
        out = {*(() if self.context else ("context",)), *(("l2", "optimality_gap") if self.stochastic else ())}
        return tuple(metric for metric in self.metrics if metric.name not in out)

    def run(self, inputs: Inputs) -> Outcome:
        if self.stochastic and self.l2 is not None:
            raise AnalysisError(
                f"{self.name}: l2 is {self.l2:g}, and the mlp has no ridge",
                fix="leave l2 out, or take the linear probe",
            )
        outcome = Outcome()
        mine, theirs = self._sides(inputs, outcome)
        family = mlp(self.hidden, self.seeds) if self.stochastic else linear(self.l2, self.tolerance)
        probes = Probes(mine, self.split, family)
        scored = Scored(outcome, probes, mine, self.resamples, self.seed, self.stochastic)
        outcome.add("unseen_label_words", int((~probes.known).sum()), n=len(probes.known))
        for lost in lost_words(inputs.representations.values()):
            outcome.add(**lost)
        outcome.add("entropy", -probes.nothing.held.mean() / LN2, subset="information", n=int(probes.known.sum()))
        said = self._tell(probes, mine, theirs, outcome, f"{self.name} {inputs.task.name} of {inputs.model}")
        scored.add({name: np.stack(values) for name, values in said.items()})
        if theirs is not None:
            self._group(inputs, probes, mine, said, outcome)
        else:
            outcome.absent |= {metric.name: "the model has no reference" for metric in _OF_TWO}
        if self.context and mine.layers == 1:
            outcome.absent["context"] = "the model has one layer"
        return outcome

    def _sides(self, inputs: Inputs, outcome: Outcome) -> tuple[LabelledRows, LabelledRows | None]:
        """Train, dev and the scored split, of the words that both models have."""
        splits = tuple(dict.fromkeys(("train", "dev", self.split)))
        mine = {split: inputs.split(split) for split in splits}
        if inputs.reference is None:
            return LabelledRows.of(inputs.task, mine, inputs.model, self.scale), None
        theirs = {split: inputs.reference.split(split) for split in splits}
        names = inputs.model, inputs.reference.model
        shared = {split: in_common(mine[split], theirs[split], names, split) for split in splits}
        kept, given = sum(len(one) for one, _ in shared.values()), sum(map(len, (*mine.values(), *theirs.values())))
        outcome.add("unmatched_words", given - 2 * kept, n=given)
        depths = mine["train"].layers, theirs["train"].layers
        outcome.add("unmatched_layers", abs(depths[0] - depths[1]), n=max(depths))
        first, second = (
            LabelledRows.of(inputs.task, {split: both[side] for split, both in shared.items()}, name, self.scale)
            for side, name in enumerate(names)
        )
        return first, second

    def _tell(
        self, probes: Probes, mine: LabelledRows, theirs: LabelledRows | None, outcome: Outcome, what: str
    ) -> dict[str, list[np.ndarray]]:
        """Bits per word at every layer: of the layer alone, beyond layer 0, of the reference, of both together."""
        said: dict[str, list[np.ndarray]] = {}
        ground: Seeds | None = None
        with bar(what, mine.layers) as shown:
            for layer in range(mine.layers):
                trained = probes.alone(mine, layer)
                own = probes.informed(trained)
                self._report(mine, layer, trained, own, outcome)
                said.setdefault("pvi", []).append(probes.bits(own))
                ground = own if ground is None else ground
                if self.context and layer:
                    both = probes.both((mine, 0), (mine, layer), [ground, own])
                    said.setdefault("context", []).append(probes.bits(both) - probes.bits(ground))
                if theirs is not None and layer < theirs.layers:
                    other = probes.informed(probes.alone(theirs, layer))
                    both = probes.both((theirs, layer), (mine, layer), [other, own])
                    said.setdefault("reference_pvi", []).append(probes.bits(other))
                    said.setdefault("both_pvi", []).append(probes.bits(both))
                shown.advance()
        return said

    def _report(self, rows: LabelledRows, layer: int, trained: Seeds, own: Seeds, outcome: Outcome) -> None:
        ignored = not any(np.isfinite(told.ridge) for told in own)
        if not self.stochastic:
            outcome.add("l2", 0.0 if ignored else own[0].ridge, layer=layer)
        outcome.add("ignored", ignored, layer=layer)
        if not self.stochastic:
            outcome.add("optimality_gap", trained[0].gap, layer=layer)
        learnt, read = np.mean([told.accuracies for told in trained], axis=0)
        missed = failure(rows, layer, (float(learnt), float(read)), converged=not self.stochastic)
        outcome.add("failed_probe", missed, layer=layer, n=len(rows.labels["dev"]))

    def _group(
        self,
        inputs: Inputs,
        probes: Probes,
        rows: LabelledRows,
        said: Mapping[str, list[np.ndarray]],
        outcome: Outcome,
    ) -> None:
        """Tables of groups of words, and of the single words that changed most."""
        groups = grouped(inputs.task, self.split, rows, probes.known, self.least_words)
        outcome.add("small_groups", groups.small, n=groups.all)
        before = np.stack(said["reference_pvi"])
        after = np.stack(said["pvi"][: len(before)])
        index = rows.representations[self.split].index[probes.known]
        ids = np.array([sentence.id for sentence in inputs.task.corpus[self.split]], dtype=object)
        if groups.names:
            sentences = index[:, 0].astype(np.int64)
            outcome.tables["groups"] = table = group_sums(groups, sentences, ids, before, after, self.stochastic)
            for value, where in group_means(table):
                outcome.add("pointwise", value, **where)
        else:
            fewest = f"{self.least_words} words in {LEAST_SENTENCES} sentences"
            outcome.absent["pointwise"] = f"no group of words has {fewest}"
        if self.examples:
            labels = np.array(rows.classes, dtype=object)[rows.labels[self.split].numpy()[probes.known]]
            outcome.tables["examples"] = examples(
                inputs.task, self.split, index, labels, before.mean(1), after.mean(1), self.examples
            )
