"""Lens: what does each layer already say, and where do tuned and base begin to say something else?

The language-model head on every layer's states gives a distribution over tokens per layer. How far that of the tuned
model is from the base's says at which depth the prediction changed; how far it is from the model's own output, how
early the model settles on what it says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.lens_reading import Lens as Reader
from vestige.analyses.lens_reading import check_lens
from vestige.analyses.metric import Metric
from vestige.analyses.perplexity import Perplexity
from vestige.analyses.remarks import count, remark
from vestige.analyses.settings import Count, Penalty, Share, Whole
from vestige.comparison.estimators import Within
from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError
from vestige.measures.divergence import kl_divergence
from vestige.measures.jackknife import LEAST_GROUPS
from vestige.measures.resampling import bootstrap_interval
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.lm.head import HeadChoice, choose_head
from vestige.models.lm.language_model import kind_of, language_model, resolve_method, same_tokens
from vestige.models.lm.questions import ask, by_word
from vestige.models.tokens.masking import Cloze
from vestige.progress import bar

Kind = Literal["logit", "tuned"]
NAMES: dict[Kind, str] = {"logit": "logit lens", "tuned": "tuned lens"}
ROWS = 128
"""States whose scores over the vocabulary are in memory at once, of both models."""
VALUES = ("drift", "base_left", "tuned_left")


_FITTED = count("fitted_tokens", "tokens that the tuned lens is fitted on")
_FEW = remark(
    "few_fitted_tokens", "few tokens for the tuned lens",
    "the maps of the tuned lens are fitted on {n} tokens, fewer than the width of a layer",
)  # fmt: skip


@dataclass(frozen=True)
class LayerLens(Analysis):
    """What the language-model head reads from every layer of a tuned model and its reference.

    By the logit lens, and by a tuned lens whose maps are fitted on the reference alone, by least squares in closed
    form. Divergences are in nats, means over words, at the tokens that `output_drift` asks for.
    """

    name: ClassVar[str] = "lens"
    title: ClassVar[str] = "Lens: what each layer says"
    source: ClassVar[str] = (
        "logit lens, nostalgebraist 2020; tuned lens, Belrose et al. 2023, its maps by ridge regression"
    )
    needs = frozenset({"logits"})
    levels = ("token", "span", "span_pair", "sentence", "sentence_pair", "tree", "text")
    models = 2
    uses_labels = False
    metrics = (
        Metric(
            "drift", "KL divergence from the reference at the same layer", "nats", margin=0.02,
            compared=Within(before="none", after="drift"), sides=("no drift", "drift"),
            about="Never below 0; of a copy exactly 0.",
        ),
        Metric(
            "left_change", "change of the KL divergence left to the model's own output", "nats", "lower", 0.05,
            compared=Within(before="base_left", after="tuned_left"), sides=("reference", "tuned"),
        ),
        Metric("left", "KL divergence left to the model's own output", "nats", "lower"),
        Metric("reference_left", "KL divergence left in the reference", "nats", "lower", role="detail"),
        _FITTED,
        _FEW,
    )  # fmt: skip

    lenses: tuple[Kind, ...] = ("logit", "tuned")
    """logit: the head on the states as they are. tuned: on states mapped to the last layer's."""
    penalty: Penalty = 1e-3
    """Of the maps of the tuned lens, in units of the mean variance of a unit."""
    fit_split: str = "train"
    """The split on which the maps are fitted."""
    fit_sentences: Count | None = 2000
    """The first so many of it; None: all."""
    rate: Share = 0.15
    """Share of tokens that are masked (masked models)."""
    head: HeadChoice = "reference"
    """Whose language-model head: the reference's; each model's own; the reference's, tied to the model's embeddings."""
    head_file: str | None = None
    """A file with a head (`LMHead`), for models that come without one."""
    sentences: Count | None = 200
    """The first so many of the split; None: all."""
    resamples: Count = 1000
    """Bootstrap resamples of the intervals."""
    seed: Whole = 0
    """Of the masks and the bootstrap."""
    split: str = "test"
    """The split whose text is read."""

    @property
    def given(self) -> tuple[Metric, ...]:
        return tuple(one for one in self.metrics if "tuned" in self.lenses or one not in (_FITTED, _FEW))

    def run(self, inputs: Inputs) -> Outcome:
        encoder = language_model(inputs.encoder, inputs.model)
        if inputs.reference is None:
            raise AnalysisError(f"{inputs.model} has no reference to be read beside", fix="name its reference")
        other = language_model(inputs.reference.encoder, inputs.reference.model)
        for one in (encoder, other):
            check_lens(one, kind_of(one))
        if encoder.depth != other.depth:
            raise AnalysisError(
                f"{inputs.model} has {encoder.depth} layers, its reference {other.depth}",
                fix="compare models of one depth",
            )
        sentences = [s for s in inputs.task.corpus[self.split][: self.sentences] if s.words]
        same_tokens(sentences, encoder.encode(sentences), other.encode(sentences), inputs.model, inputs.reference.model)
        mine = choose_head(self.head, self.head_file, encoder, other)
        theirs = mine if self.head == "reference" else choose_head("own", self.head_file, other, None)
        readers = (Reader(other, theirs), Reader(encoder, mine))
        outcome = Outcome()
        lenses: dict[str, tuple[Reader, Reader]] = {NAMES["logit"]: readers} if "logit" in self.lenses else {}
        if "tuned" in self.lenses:
            lenses[NAMES["tuned"]] = self._tuned(inputs, readers, outcome)
        ids = np.array([sentence.id for sentence in sentences], dtype=object)
        self._report(ids, *self._read(encoder, sentences, lenses, inputs.model), list(lenses), outcome)
        return outcome

    def _clozes(self, encoder: HuggingFaceEncoder, sentences: Sequence[Sentence], seed: int) -> list[Cloze]:
        kind = kind_of(encoder)
        asking = Perplexity(rate=self.rate, seed=seed)
        return list(asking.clozes(resolve_method("auto", kind, encoder), encoder, kind, encoder.encode(sentences)))

    def _tuned(self, inputs: Inputs, readers: tuple[Reader, Reader], outcome: Outcome) -> tuple[Reader, Reader]:
        """Both with the maps of the reference."""
        base = readers[0]
        sentences = [s for s in inputs.task.corpus[self.fit_split][: self.fit_sentences] if s.words]
        clozes = self._clozes(base.encoder, sentences, self.seed + 1)
        fitted, width = sum(len(cloze.targets) for cloze in clozes), base.encoder.widths[-1]
        maps = base.tuned(ask(base.encoder, clozes, kind_of(base.encoder)), self.penalty).maps
        outcome.add("fitted_tokens", fitted)
        outcome.add("few_fitted_tokens", int(fitted < width), n=fitted)
        one, two = (replace(reader, maps=maps) for reader in readers)
        return one, two

    def _read(
        self,
        encoder: HuggingFaceEncoder,
        sentences: Sequence[Sentence],
        lenses: Mapping[str, tuple[Reader, Reader]],
        name: str,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sentence and word of every asked word, and (lenses, layers, 3, words): the values of `VALUES`."""
        clozes, found = self._clozes(encoder, sentences, self.seed), []
        readers = next(iter(lenses.values()))
        with bar(f"lens of {name}", len(clozes)) as shown, torch.inference_mode():
            for asked in ask(encoder, clozes, kind_of(encoder)):
                states = [reader.states(asked) for reader in readers]
                chunks = [
                    np.stack([_divergences(both, states, slice(start, start + ROWS)) for both in lenses.values()])
                    for start in range(0, len(asked.units), ROWS)
                ]
                found.append((asked.units, asked.words, np.concatenate(chunks, axis=-1)))
                shown.advance(asked.questions)
        units, words, values = (np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
        if not np.isfinite(values).all():
            raise AnalysisError(
                f"{name} or its reference: probabilities of words are not finite",
                fix="check the weights; a model tuned to divergence gives such values",
            )
        return by_word(units, words, values)

    def _report(
        self,
        ids: np.ndarray,
        units: np.ndarray,
        words: np.ndarray,
        values: np.ndarray,
        names: list[str],
        outcome: Outcome,
    ) -> None:
        layers, size = values.shape[1], len(units)
        sums = np.zeros((len(ids), values[..., 0].size))
        np.add.at(sums, units, values.reshape(-1, size).T)
        often = np.bincount(units, minlength=len(ids))
        low, high = bootstrap_interval(sums[often > 0], often[often > 0], self.resamples, seed=self.seed)
        known = (often > 0).sum() >= LEAST_GROUPS
        ends = np.stack([low, high]).reshape(2, *values.shape[:-1])
        for lens, layer in np.ndindex(len(names), layers):
            where = {"layer": layer, "subset": names[lens], "n": size}
            drift, base, tuned = values[lens, layer].mean(-1)
            for metric, value, place in (("drift", drift, 0), ("reference_left", base, 1), ("left", tuned, 2)):
                between = dict(zip(("low", "high"), ends[:, lens, layer, place], strict=True)) if known else {}
                outcome.add(metric, value, **between, **where)
            outcome.add("left_change", tuned - base, **where)
        outcome.items = {
            "sentence": np.tile(ids[units], len(names) * layers),
            "word": np.tile(words, len(names) * layers),
            "subset": np.repeat(np.array(names, dtype=object), layers * size),
            "layer": np.tile(np.repeat(np.arange(layers, dtype=np.int16), size), len(names)),
            "none": np.zeros(len(names) * layers * size),
            **{name: values[:, :, place].ravel() for place, name in enumerate(VALUES)},
        }


def _divergences(both: tuple[Reader, Reader], states: Sequence[Sequence[Tensor]], rows: slice) -> np.ndarray:
    """(layers, 3, rows): from base to tuned, from the base's output to its layer, and the same of the tuned model."""
    last = len(states[0]) - 1
    outputs = [reader.scores(last, mine[last][rows]) for reader, mine in zip(both, states, strict=True)]
    found = []
    for layer in range(last + 1):
        base, tuned = (reader.scores(layer, mine[layer][rows]) for reader, mine in zip(both, states, strict=True))
        pairs = ((base, tuned), (outputs[0], base), (outputs[1], tuned))
        found.append(torch.stack([kl_divergence(*pair) for pair in pairs]))
    return torch.stack(found).cpu().numpy()
