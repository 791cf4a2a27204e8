"""Erasure: does a model still use what a layer knows?

A probe says that a property can be read from a layer, not that the layers above it do so. Here the
property is erased from the layer's states in the forward pass (LEACE), and what is lost is measured:
the score of the task that the model was tuned on, the perplexity of the language-model head, and what
a linear probe still reads at the layer (nothing, if erasing worked) and at the last one (what the
layers above make anew of the context, or out of what is not linear). Taking away as many random
directions is the control, as in amnesic probing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, get_args

import numpy as np
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome, Own
from vestige.analyses.layer_probe import L2_PATH, PATH_GAIN
from vestige.analyses.perplexity import Perplexity
from vestige.analyses.rows import WordRows
from vestige.analyses.settings import Count, Positive, Share, Some, Whole
from vestige.corpus.control import baseline_accuracies
from vestige.corpus.types import Task
from vestige.errors import AnalysisError
from vestige.finetune.model import Tunable, load_tuned
from vestige.finetune.score import score
from vestige.measures.erasure import Pooling, Variant, check_erasing, leace, variants, word_states
from vestige.measures.resampling import bootstrap_interval
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.encoders.reading import AS_IS
from vestige.models.lm.head import HeadChoice, choose_head, head_path
from vestige.models.lm.language_model import Head, kind_of, last_state, resolve_method
from vestige.models.lm.likelihood import likelihoods
from vestige.probes.linear.quasi_newton import principal_axes, solve
from vestige.probes.problem import log_probabilities, standard
from vestige.progress import bar


@dataclass(frozen=True)
class Erasure(Analysis):
    """Rows by the layer that was erased, and by subset: `none`, `erased`, or `random` directions.

    `accuracy` is that of a probe at the erased layer, `last_accuracy` that of one at the last layer;
    `change` is the share of the layer's variance by which its states were moved, `rank` the number of
    directions that were taken away. Perplexity is that of sentences, where there is a head. A model
    that the study tuned also has the measures of its own task as `task_...`, the one it is judged by first.
    """

    name: ClassVar[str] = "erasure"
    title: ClassVar[str] = "Erasure of a property, and what it costs"
    source: ClassVar[str] = "LEACE, Belrose et al. 2023; random directions after amnesic probing, Elazar et al. 2021"
    needs = frozenset({"hidden_states", "logits"})
    levels = ("token",)
    version = 4
    models = 2
    alone = True

    layers: Annotated[tuple[int, ...], Some] | None = None
    """Layers to erase, one at a time; None: all of them."""
    pooling: Pooling = "last"
    draws: Count = 1
    """Random erasers of a layer."""
    last: bool = True
    """Also probe the last layer, which takes a pass over all sentences per layer and eraser."""
    tolerance: Positive = 1e-2
    """Of the probes: largest certified distance from the optimum, in nats per word."""
    head: HeadChoice = "reference"
    head_file: str | None = None
    """A file with a head (`LMHead`), for models that come without one."""
    rate: Share = 0.15
    """Share of tokens that are masked."""
    sentences: Count | None = None
    """Perplexity is that of the first so many of the split; None: all."""
    resamples: Count = 1000
    seed: Whole = 0
    split: str = "test"
    own_task: bool = True
    """Also score a model that the study tuned on the task it was tuned for, while it is erased."""
    own_split: str | None = None
    """On this split of that task; None: dev or, where there is none, test."""

    @property
    def wants_own_task(self) -> bool:
        return self.own_task

    def run(self, inputs: Inputs) -> Outcome:
        encoder = _erasable(inputs.encoder, inputs.model)
        data = WordRows.of(inputs, self.split)
        layers = _layers(self.layers, encoder)
        train, labels = data.representations["train"], data.labels["train"].numpy()
        sample = encoder.encode(inputs.task.corpus["train"][:1])[0]
        outcome = Outcome()
        own_split = self._own_split(inputs.own, encoder, outcome)
        majority = baseline_accuracies(inputs.task, self.split)["majority"]
        outcome.add("majority", majority, n=len(data.labels[self.split]))
        erasers: dict[int, list[Variant]] = {}
        for layer in layers:
            found = leace(train.layer(layer), labels, len(data.classes))
            check_erasing(encoder, layer, sample)
            erasers[layer] = list(variants(found, self.draws, self.seed))
            outcome.add("rank", found.rank, layer=layer)
            for one in erasers[layer]:
                outcome.add("change", one.change(train.layer(layer)), layer=layer, **one.where)
        self._probe(inputs, encoder, data, erasers, outcome)
        self._ask(inputs, encoder, erasers, outcome)
        if inputs.own is not None and own_split is not None:
            tuned = load_tuned(inputs.own.folder, inputs.device)
            _score(tuned, inputs.own.task, own_split, erasers, outcome, inputs.model)
        return outcome

    def _own_split(self, own: Own | None, encoder: HuggingFaceEncoder, outcome: Outcome) -> str | None:
        """The split to score the model's own task on, if there is one and the model is read as it was tuned."""
        if own is None:
            return None
        if self.own_split is not None:
            own.task.corpus[self.own_split]
        there = [split for split in ("dev", "test") if split in own.task.corpus.splits]
        why = "" if there or self.own_split else "its corpus has neither dev nor test"
        if encoder.reading != AS_IS:
            why = f"it is not read as it was tuned ({', '.join(encoder.reading.changes())})"
        if why:
            outcome.add("own_task_left_out", 1, subset=why)
            return None
        return self.own_split or there[0]

    def _probe(
        self,
        inputs: Inputs,
        encoder: HuggingFaceEncoder,
        data: WordRows,
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
        self, inputs: Inputs, encoder: HuggingFaceEncoder, data: WordRows, layer: int, one: Variant
    ) -> dict[str, np.ndarray]:
        """The last layer's vectors of every split while a layer is erased."""
        top, corpus = encoder.depth, inputs.task.corpus
        with one.applied(encoder, layer):
            return {
                split: word_states(encoder, corpus[split], [top], self.pooling, found.index)[top]
                for split, found in data.representations.items()
            }

    def _accuracy(self, rows: Mapping[str, np.ndarray], data: WordRows, what: str) -> float:
        """Of a linear probe on the scored split; the ridge is chosen on dev, as in a layer-wise probe."""
        frame = standard(rows["train"], what)
        train = frame.resident()
        axes, labels = principal_axes(train), data.labels["train"].unsqueeze(0)

        def right(fit: Any, split: str) -> float:
            predicted = log_probabilities(fit, frame.like(rows[split]))[0].argmax(-1)
            return float((predicted == data.labels[split]).double().mean())

        best, best_fit, start = -1.0, None, None
        for ridge in (strength / len(train) for strength in L2_PATH):
            fit = solve(
                train, labels, len(data.classes), [0.0], [ridge], tolerance=self.tolerance, start=start, axes=axes
            )
            if (accuracy := right(fit, "dev")) < best + PATH_GAIN:
                break
            best, best_fit, start = accuracy, fit, fit.weights
        return right(best_fit, self.split)

    def _ask(
        self, inputs: Inputs, encoder: HuggingFaceEncoder, erasers: Mapping[int, list[Variant]], outcome: Outcome
    ) -> None:
        """Perplexities of the same sentences with the same masks, of all erasers in one go."""
        head = self._head(inputs, encoder)
        if head is None:
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
                with one.applied(encoder, layer):
                    yield last_state(encoder, given)

        with bar(f"perplexity of {inputs.model}, erased") as shown:
            heads = [head] * (1 + len(changed))
            found = likelihoods(encoder, clozes, len(texts), kind, lambda g: list(states(g)), heads, tick=shown.advance)
        low, high = bootstrap_interval(-found.sums.T, found.tokens, self.resamples, seed=self.seed)
        asked = int(found.tokens.sum())
        places = {id(one): number for number, (_, one) in enumerate(changed, start=1)}
        for layer, each in erasers.items():
            for one in each:
                model = places.get(id(one), 0)
                for name, losses in (("", found.losses), ("_low", low), ("_high", high)):
                    outcome.add(f"perplexity{name}", np.exp(losses[model]), layer=layer, n=asked, **one.where)

    def _head(self, inputs: Inputs, encoder: HuggingFaceEncoder) -> Head | None:
        """The head to ask, or None where there is none."""
        other = None if inputs.reference is None else inputs.reference.encoder
        giver = other if isinstance(other, HuggingFaceEncoder) and self.head != "own" else encoder
        if encoder.config.is_encoder_decoder or (giver.head is None and head_path(self.head_file, giver) is None):
            return None
        return choose_head(self.head, self.head_file, encoder, None if giver is encoder else giver)


def erase_and_score(
    tuned: Any,
    known: Task,
    task: Task,
    layers: Sequence[int] | None = None,
    *,
    split: str = "dev",
    pooling: Pooling = "last",
    draws: int = 1,
    seed: int = 0,
    device: str = "cpu",
) -> Outcome:
    """What a tuned model loses of its own `task` when the property `known` is erased from one of its layers.

    `tuned` is a folder that `finetune` made, a `Tuned`, or what `load_tuned` gave; `known` is a token
    task, on whose train words the erasers are fitted. Rows are those of `Erasure`: the task's measures
    as `task_...`, `rank` and `change`, by layer and by subset.
    """
    if known.level != "token":
        raise AnalysisError(f"{known.name!r} labels each {known.level}, not each word", fix="erase a token task")
    if pooling not in get_args(Pooling):
        raise AnalysisError(f"pooling {pooling!r} of words", fix=f"use {', '.join(get_args(Pooling))}")
    model = tuned if isinstance(tuned, Tunable) else load_tuned(getattr(tuned, "folder", tuned), device)
    encoder = _erasable(model.encoder, model.encoder.name)
    wanted = _layers(layers, encoder)
    sentences = known.corpus["train"]
    model.eval()
    encoded = encoder.encode(sentences)
    index = np.array([(number, word) for number, e in enumerate(encoded) for word in range(e.kept)])
    rows = word_states(encoder, sentences, wanted, pooling, index)
    gold = known.labels("train")
    classes, labels = np.unique([gold[s][w] for s, w in index], return_inverse=True)
    outcome = Outcome()
    erasers: dict[int, list[Variant]] = {}
    for layer in wanted:
        found = leace(rows[layer], labels, len(classes))
        check_erasing(encoder, layer, encoded[0])
        erasers[layer] = list(variants(found, draws, seed))
        outcome.add("rank", found.rank, layer=layer)
        for one in erasers[layer]:
            outcome.add("change", one.change(rows[layer]), layer=layer, **one.where)
    _score(model, task, split, erasers, outcome, encoder.name)
    return outcome


def _score(
    model: Tunable, task: Task, split: str, erasers: Mapping[int, Sequence[Variant]], outcome: Outcome, name: str
) -> None:
    """The measures of a tuned model's task with every eraser in it, and that of always the same answer."""
    plain = score(model, task, split)
    primary = model.problem.primary
    if (always := plain.metrics[primary].majority) is not None:
        outcome.add(f"task_{primary}_majority", always, n=len(plain.ids))
    with bar(f"{task.name} of {name}, erased", sum(len(each) for each in erasers.values())) as shown:
        for layer, one in ((layer, one) for layer, each in erasers.items() for one in each):
            with one.applied(model.encoder, layer):
                found = plain if one.eraser is None else score(model, task, split, majority=False)
            where = {"layer": layer, "n": len(found.ids), **one.where}
            for measure in sorted(found.metrics, key=lambda measure: measure != primary):
                for side in ("", "_low", "_high"):
                    value = getattr(found.metrics[measure], side.strip("_") or "value")
                    outcome.add(f"task_{measure}{side}", value, **where)
            shown.advance()


def _erasable(encoder: object, name: str) -> HuggingFaceEncoder:
    if not isinstance(encoder, HuggingFaceEncoder):
        what = "the model itself is missing" if encoder is None else "it is no Hugging Face model"
        raise AnalysisError(f"{name}: {what}, so nothing can be erased in it", fix="leave erasure out for this model")
    return encoder


def _layers(wanted: Sequence[int] | None, encoder: HuggingFaceEncoder) -> list[int]:
    unknown = [layer for layer in wanted or () if not 0 <= layer <= encoder.depth]
    if unknown:
        raise AnalysisError(
            f"{encoder.name} has layers 0 to {encoder.depth}, asked for {unknown[0]}", fix="name layers it has"
        )
    return list(range(encoder.depth + 1)) if wanted is None else list(wanted)
