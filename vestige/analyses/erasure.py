"""Erasure: does a model still use what a layer knows?

A probe says that a property can be read from a layer, not that the layers above it do so. Here the
property is erased from the layer's states in the forward pass (LEACE), and what is lost is measured:
the score of the task that the model was tuned on, the perplexity of the language-model head, and what
a linear probe still reads at the layer (nothing, if erasing worked) and at the last one (what the
layers above make anew of the context, or out of what is not linear). Taking away as many random
directions is the control, as in amnesic probing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome, Own
from vestige.analyses.erased_scores import Pooling, chosen_layers, erasable, fitted_erasers, score_erased
from vestige.analyses.metric import LAYER, WHOLE, Metric
from vestige.analyses.perplexity import Perplexity
from vestige.analyses.remarks import remark
from vestige.analyses.rows import labelled_rows
from vestige.analyses.settings import Count, Positive, Share, Some, Whole
from vestige.analyses.tuning import of_the_task
from vestige.corpus.control import baseline_accuracies
from vestige.errors import AnalysisError
from vestige.finetune.model import load_tuned
from vestige.measures.erasure import Variant
from vestige.measures.resampling import bootstrap_interval
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.encoders.reading import AS_IS
from vestige.models.lm.head import HeadChoice, choose_head, head_path
from vestige.models.lm.language_model import Head, kind_of, last_state, resolve_method
from vestige.models.lm.likelihood import likelihoods
from vestige.models.surgery.erasing import check_erasing, erasing
from vestige.probes.linear.converged import converged_probe
from vestige.probes.problem import standard
from vestige.probes.rows import LabelledRows
from vestige.progress import bar
from vestige.representations.words import word_states

_LAST = Metric("last_accuracy", "accuracy of a probe at the last layer", "percent", "higher", decimals=1)
_OWN = (
    *of_the_task(LAYER, prefix="task_", where=" on its own task"),
    Metric(
        "task_majority", "always the most frequent answer", "percent", decimals=1, along=(WHOLE,), role="baseline",
        about="Of the model's own task, by measure (`subset`).",
    ),
    remark("own_task_left_out", "own task left out", "{model} is not scored on its own task: {subset}"),
)  # fmt: skip
"""Of a model that the study tuned, on the task it was tuned for."""
_SCORES = [metric.name for metric in _OWN if metric.role != "remark"]


@dataclass(frozen=True)
class Erasure(Analysis):
    """What a model loses when a property is erased from one of its layers.

    Rows are by the layer that was erased, and by subset: `none`, `erased`, or `random` directions. Perplexity is that
    of sentences, where there is a head. A model that the study tuned also has the measures of its own task, the one it
    is judged by first.
    """

    name: ClassVar[str] = "erasure"
    title: ClassVar[str] = "Erasure of a property, and what it costs"
    source: ClassVar[str] = "LEACE, Belrose et al. 2023; random directions after amnesic probing, Elazar et al. 2021"
    needs = frozenset({"hidden_states", "logits"})
    levels = ("token",)
    version = 7
    metrics = (
        Metric("accuracy", "accuracy of a probe at the erased layer", "percent", "higher", decimals=1),
        _LAST,
        Metric("perplexity", "perplexity", better="lower", decimals=1),
        *_OWN,
        Metric("majority", "always the most frequent label", "percent", decimals=1, along=(WHOLE,), role="baseline"),
        Metric("rank", "directions that were erased", "count", decimals=0, role="detail"),
        Metric("change", "share of the variance that was erased", "percent", decimals=1, role="detail"),
    )
    models = 2
    alone = True

    layers: Annotated[tuple[int, ...], Some] | None = None
    """Layers to erase, one at a time; None: all of them."""
    pooling: Pooling = "last"
    """How the hidden states of a word's tokens become one vector."""
    draws: Count = 1
    """Random erasers of a layer."""
    last: bool = True
    """Also probe the last layer, which takes a pass over all sentences per layer and eraser."""
    tolerance: Positive = 1e-2
    """Of the probes: largest certified distance from the optimum, in nats per word."""
    head: HeadChoice = "reference"
    """Whose language-model head: the reference's; the model's own; the reference's, tied to the model's embeddings."""
    head_file: str | None = None
    """A file with a head (`LMHead`), for models that come without one."""
    rate: Share = 0.15
    """Share of tokens that are masked."""
    sentences: Count | None = None
    """Perplexity is that of the first so many of the split; None: all."""
    resamples: Count = 1000
    """Bootstrap resamples of the intervals."""
    seed: Whole = 0
    """Of the random erasers, the masks and the bootstrap."""
    split: str = "test"
    """The split that is scored."""
    own_task: bool = True
    """Also score a model that the study tuned on the task it was tuned for, while it is erased."""
    own_split: str | None = None
    """On this split of that task; None: dev or, where there is none, test."""

    @property
    def given(self) -> tuple[Metric, ...]:
        unasked = [*(() if self.last else [_LAST]), *(() if self.own_task else _OWN)]
        return tuple(metric for metric in self.metrics if metric not in unasked)

    @property
    def wants_own_task(self) -> bool:
        return self.own_task

    def run(self, inputs: Inputs) -> Outcome:
        encoder = erasable(inputs.encoder, inputs.model)
        data = labelled_rows(inputs, self.split)
        layers = chosen_layers(self.layers, encoder)
        train, labels = data.representations["train"], data.labels["train"].numpy()
        sample = encoder.encode(inputs.task.corpus["train"][:1])[0]
        outcome = Outcome()
        own_split = self._own_split(inputs.own, encoder, outcome)
        majority = baseline_accuracies(inputs.task, self.split)["majority"]
        outcome.add("majority", majority, n=len(data.labels[self.split]))
        erasers: dict[int, list[Variant]] = {}
        for layer in layers:
            check_erasing(encoder, layer, sample)
            erasers[layer] = fitted_erasers(train.layer(layer), labels, layer, self.draws, self.seed, outcome)
        self._probe(inputs, encoder, data, erasers, outcome)
        self._ask(inputs, encoder, erasers, outcome)
        if inputs.own is not None and own_split is not None:
            tuned = load_tuned(inputs.own.folder, inputs.device)
            score_erased(tuned, inputs.own.task, own_split, erasers, outcome, inputs.model)
        return outcome

    def _own_split(self, own: Own | None, encoder: HuggingFaceEncoder, outcome: Outcome) -> str | None:
        """The split to score the model's own task on, if there is one and the model is read as it was tuned."""
        if not self.own_task:
            return None
        if own is None:
            outcome.add("own_task_left_out", 0)
            outcome.absent |= dict.fromkeys(_SCORES, "the study did not tune this model")
            return None
        if self.own_split is not None:
            own.task.corpus[self.own_split]
        there = [split for split in ("dev", "test") if split in own.task.corpus.splits]
        why = "" if there or self.own_split else "its corpus has neither dev nor test"
        if encoder.reading != AS_IS:
            why = f"it is not read as it was tuned ({', '.join(encoder.reading.changes())})"
        outcome.add("own_task_left_out", bool(why), **({"subset": why} if why else {}))
        if why:
            outcome.absent |= dict.fromkeys(_SCORES, why)
            return None
        return self.own_split or there[0]

    def _probe(
        self,
        inputs: Inputs,
        encoder: HuggingFaceEncoder,
        data: LabelledRows,
        erasers: Mapping[int, list[Variant]],
        outcome: Outcome,
    ) -> None:
        """Accuracies at the erased layer, whose rows are known, and at the last one, which is run anew."""
        stored = data.representations
        top = encoder.depth
        plain = {split: found.layer(top) for split, found in stored.items()}
        untouched = self._accuracy(plain, data, f"{inputs.model}, layer {top}") if self.last else 0.0
        count = sum(len(each) for each in erasers.values())
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", count) as shown:
            for layer, each in erasers.items():
                for one in each:
                    where = {"layer": layer, "n": len(data.labels[self.split]), **one.where}
                    rows = {split: one.rows(found.layer(layer)) for split, found in stored.items()}
                    here = self._accuracy(rows, data, f"{inputs.model}, layer {layer}")
                    outcome.add("accuracy", here, **where)
                    if self.last:
                        above = here if layer == top else untouched
                        if layer != top and one.eraser is not None:
                            rows = self._rows_above(inputs, encoder, data, layer, one)
                            above = self._accuracy(rows, data, f"{inputs.model}, layer {top} with {layer} erased")
                        outcome.add("last_accuracy", above, **where)
                    shown.advance()

    def _rows_above(
        self, inputs: Inputs, encoder: HuggingFaceEncoder, data: LabelledRows, layer: int, one: Variant
    ) -> dict[str, np.ndarray]:
        """The last layer's vectors of every split while a layer is erased."""
        top, corpus = encoder.depth, inputs.task.corpus
        with erasing(encoder, layer, one.eraser):
            return {
                split: word_states(encoder, corpus[split], [top], self.pooling, found.index)[top]
                for split, found in data.representations.items()
            }

    def _accuracy(self, rows: Mapping[str, np.ndarray], data: LabelledRows, what: str) -> float:
        """Of a linear probe on the scored split; the ridge is chosen on dev, as in a layer-wise probe."""
        frame, labels = standard(rows["train"], what), data.labels
        dev, scored = (frame.like(rows[split]) for split in ("dev", self.split))
        probe = converged_probe(
            frame.resident(),
            labels["train"],
            dev,
            labels["dev"],
            len(data.classes),
            tolerance=self.tolerance,
        )
        predicted = probe.log_probabilities(scored)[0].argmax(-1)
        return float((predicted == labels[self.split]).double().mean())

    def _ask(
        self, inputs: Inputs, encoder: HuggingFaceEncoder, erasers: Mapping[int, list[Variant]], outcome: Outcome
    ) -> None:
        """Perplexities of the same sentences with the same masks, of all erasers in one go."""
        head = self._head(inputs, encoder)
        if head is None:
            outcome.absent["perplexity"] = "there is no language-model head"
            return
        sentences = [s for s in inputs.task.corpus[self.split][: self.sentences] if s.words]
        texts = encoder.encode(sentences)
        kind = kind_of(encoder)
        method = resolve_method("masked" if kind == "permutation" else "auto", kind, encoder)
        clozes = list(Perplexity(rate=self.rate, seed=self.seed).clozes(method, encoder, kind, texts))
        if not clozes:
            raise AnalysisError(f"a rate of {self.rate:g} masks no token of the text", fix="raise it or use more text")
        changed = [(layer, one) for layer, each in erasers.items() for one in each if one.eraser is not None]

        def states(given: Mapping[str, Any]) -> Iterator[Tensor]:
            yield last_state(encoder, given)
            for layer, one in changed:
                with erasing(encoder, layer, one.eraser):
                    yield last_state(encoder, given)

        with bar(f"perplexity of {inputs.model}, erased") as shown:
            heads = [head] * (1 + len(changed))
            found = likelihoods(encoder, clozes, len(texts), kind, lambda g: list(states(g)), heads, tick=shown.advance)
        low, high = bootstrap_interval(-found.sums.T, found.tokens, self.resamples, seed=self.seed)
        asked = int(found.tokens.sum())
        places = {id(one): number for number, (_, one) in enumerate(changed, start=1)}
        for layer, each in erasers.items():
            for one in each:
                value, *ends = (np.exp(losses[places.get(id(one), 0)]) for losses in (found.losses, low, high))
                outcome.add("perplexity", value, low=ends[0], high=ends[1], layer=layer, n=asked, **one.where)

    def _head(self, inputs: Inputs, encoder: HuggingFaceEncoder) -> Head | None:
        """The head to ask, or None where there is none."""
        other = None if inputs.reference is None else inputs.reference.encoder
        giver = other if isinstance(other, HuggingFaceEncoder) and self.head != "own" else encoder
        if encoder.config.is_encoder_decoder or (giver.head is None and head_path(self.head_file, giver) is None):
            return None
        return choose_head(self.head, self.head_file, encoder, None if giver is encoder else giver)
