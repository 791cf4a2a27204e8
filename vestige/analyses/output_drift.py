"""Output drift: how far are the tuned model's distributions over the next or hidden token from the base's?

The loss of a language model may stay while what it says changes: it may be as often right about other tokens. Here the
whole distribution counts: KL(base || tuned) at every asked token, in nats, by part of speech or any other label.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import WHOLE, Metric
from vestige.analyses.perplexity import Perplexity
from vestige.analyses.remarks import TRUNCATED, count
from vestige.analyses.settings import Count, Share, Whole
from vestige.analyses.word_vectors import word_labels
from vestige.comparison.estimators import Within
from vestige.errors import AnalysisError
from vestige.measures.divergence import kl_divergence
from vestige.measures.jackknife import LEAST_GROUPS
from vestige.measures.resampling import bootstrap_interval
from vestige.models.lm.head import HeadChoice, choose_head
from vestige.models.lm.language_model import HEAD_ROWS, kind_of, language_model, last_state, resolve_method, same_tokens
from vestige.models.lm.questions import ask, by_word
from vestige.models.tokens.align import Encoded
from vestige.progress import bar

LABELS = ("token", "sentence")
"""Levels of tasks whose labels tell words apart: each word's own, or that of its sentence."""


class Words(NamedTuple):
    """What was found of every asked word."""

    units: np.ndarray
    """(words,): number of the sentence."""
    words: np.ndarray
    values: np.ndarray
    """(2, words): KL, and whether both hold the same token most probable, means over the word's asked tokens."""
    tokens: int


@dataclass(frozen=True)
class OutputDrift(Analysis):
    """How far the distributions over tokens of a tuned model are from those of its reference.

    KL(reference || tuned) in nats: of masked models at masked tokens, of causal ones at every token that has another
    before it. A word's is the mean over its asked tokens, and the number of a corpus the mean over words.
    """

    name: ClassVar[str] = "output_drift"
    title: ClassVar[str] = "Output drift: what the language model says"
    source: ClassVar[str] = "Kullback and Leibler 1951; masks after mosbach2020, section 5.2"
    needs = frozenset({"logits"})
    levels = ("token", "span", "span_pair", "sentence", "sentence_pair", "tree")
    models = 2
    metrics = (
        Metric(
            "kl", "KL divergence from the reference's output", "nats", margin=0.02, along=(WHOLE,),
            compared=Within(before="none", after="kl"), sides=("no drift", "drift"),
            about="Never below 0; of a copy exactly 0.",
        ),
        Metric(
            "same_token", "the most probable token is the reference's", "percent", decimals=1, along=(WHOLE,),
            about="Share of asked tokens.",
        ),
        count("asked_tokens", "asked tokens"),
        TRUNCATED,
    )  # fmt: skip

    method: Literal["auto", "masked", "pseudo", "causal"] = "auto"
    """masked: a random share of tokens at once. pseudo: each token alone. causal: each after those before
    it. auto: masked for masked models, causal for causal ones, pseudo for permutation models (XLNet)."""
    rate: Share = 0.15
    """Share of tokens that are masked (masked)."""
    mask_seeds: Count = 1
    """Patterns of masks; a word that several of them hide has the mean of all."""
    head: HeadChoice = "reference"
    """Whose language-model head: the reference's; each model's own; the reference's, tied to the model's embeddings."""
    head_file: str | None = None
    """A file with a head (`LMHead`), for models that come without one."""
    sentences: Count | None = None
    """The first so many of the split; None: all."""
    resamples: Count = 1000
    """Bootstrap resamples of the intervals."""
    seed: Whole = 0
    """Of the masks and the bootstrap."""
    split: str = "test"
    """The split whose text is read."""

    def run(self, inputs: Inputs) -> Outcome:
        kept = [n for n, s in enumerate(inputs.task.corpus[self.split][: self.sentences]) if s.words]
        sentences = [inputs.task.corpus[self.split][number] for number in kept]
        texts, found = self._asked(inputs, kept)
        outcome = Outcome()
        self._add(found, np.ones(len(found.words), dtype=bool), outcome)
        if inputs.task.level in LABELS:
            labels = word_labels(inputs.task, self.split, np.array(kept)[found.units], found.words)
            for label in sorted(set(labels)):
                self._add(found, labels == label, outcome, label=label)
        outcome.add("asked_tokens", found.tokens)
        lost = sum(text.words - text.kept for text in texts)
        outcome.add("truncated_words", lost, n=sum(text.words for text in texts))
        outcome.items = {
            "sentence": np.array([sentence.id for sentence in sentences], dtype=object)[found.units],
            "word": found.words,
            "none": np.zeros(len(found.words)),
            "kl": found.values[0],
            "same_token": found.values[1],
        }
        return outcome

    def _asked(self, inputs: Inputs, kept: Sequence[int]) -> tuple[list[Encoded], Words]:
        """The texts, and what both models say about them."""
        encoder = language_model(inputs.encoder, inputs.model)
        if inputs.reference is None:
            raise AnalysisError(f"{inputs.model} has no reference to drift from", fix="name its reference")
        other = language_model(inputs.reference.encoder, inputs.reference.model)
        sentences = [inputs.task.corpus[self.split][number] for number in kept]
        texts = encoder.encode(sentences)
        same_tokens(sentences, texts, other.encode(sentences), inputs.model, inputs.reference.model)
        mine = choose_head(self.head, self.head_file, encoder, other)
        theirs = mine if self.head == "reference" else choose_head("own", self.head_file, other, None)
        kind = kind_of(encoder)
        method = resolve_method(self.method, kind, encoder)
        asking = Perplexity(rate=self.rate, mask_seeds=self.mask_seeds, seed=self.seed)
        clozes = list(asking.clozes(method, encoder, kind, texts))
        found: list[np.ndarray] = []
        with bar(f"output drift of {inputs.model}", len(clozes)) as shown, torch.inference_mode():
            for asked in ask(encoder, clozes, kind):
                states = [asked.pick(last_state(model, asked.inputs)).split(HEAD_ROWS) for model in (other, encoder)]
                scores = [(theirs(before), mine(after)) for before, after in zip(*states, strict=True)]
                kl = torch.cat([kl_divergence(*both) for both in scores])
                same = torch.cat([one.argmax(-1) == two.argmax(-1) for one, two in scores])
                found.append(np.stack([asked.units, asked.words, kl.cpu().numpy(), same.cpu().numpy()]))
                shown.advance(asked.questions)
        units, words, *values = np.concatenate(found, axis=1)
        if not np.isfinite(values).all():
            raise AnalysisError(
                f"{inputs.model} or its reference: probabilities of words are not finite",
                fix="check the weights; a model tuned to divergence gives such values",
            )
        return texts, Words(*by_word(units.astype(int), words.astype(int), np.stack(values)), len(units))

    def _add(self, found: Words, chosen: np.ndarray, outcome: Outcome, **where: str) -> None:
        """Means over the chosen words, with intervals over their sentences."""
        names, unit = np.unique(found.units[chosen], return_inverse=True)
        often = np.bincount(unit)
        for name, values in zip(("kl", "same_token"), found.values[:, chosen], strict=True):
            ends: dict[str, float] = {}
            if len(names) >= LEAST_GROUPS:
                sums = np.bincount(unit, weights=values)[:, None]
                low, high = bootstrap_interval(sums, often, self.resamples, seed=self.seed)
                ends = {"low": low[0], "high": high[0]}
            outcome.add(name, values.mean(), n=int(chosen.sum()), **ends, **where)
