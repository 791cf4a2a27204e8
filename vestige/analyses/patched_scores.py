"""Scores of a model with parts of another in it: its own task, the language model's loss, minimal pairs, a probe.

Every score is that of all sentences and of all but each of some twenty groups of them, so that any function of scores
has an interval by the jackknife.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from vestige.analyses.base import Own
from vestige.analyses.minimal_pairs import fitting, pairs_of
from vestige.analyses.perplexity import Perplexity
from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError
from vestige.finetune.model import Tunable
from vestige.finetune.score import answer
from vestige.measures.jackknife import deal
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.lm.head import choose_head
from vestige.models.lm.language_model import kind_of, resolve_method, same_tokens
from vestige.models.lm.likelihood import Likelihoods, likelihoods
from vestige.models.surgery.patching import Change, Patch, Patcher, patched
from vestige.models.tokens.align import Encoded
from vestige.models.tokens.masking import Cloze
from vestige.progress import bar
from vestige.representations.extract import batches_for
from vestige.representations.pool import REDUCE, groups_for

PATCHED_TOKENS = 1024
"""Tokens, padding included, that are run at once; the states of all changes are kept meanwhile."""


class Replicated(NamedTuple):
    """One score of several models, and what it is without each group of sentences."""

    values: np.ndarray
    """(models, 1 + groups)."""
    sentences: int


def replicate(sentences: int, score: Callable[[np.ndarray], Sequence[float] | np.ndarray]) -> Replicated:
    """`score` takes numbers of sentences and gives a value per model."""
    every = np.arange(sentences)
    groups = deal(every)
    left = [] if len(groups) == 1 else [np.setdiff1d(every, group) for group in groups]
    return Replicated(np.stack([np.asarray(score(kept), float) for kept in (every, *left)], axis=1), sentences)


def task_scores(patcher: Patcher, model: Tunable, own: Own, split: str, changes: Sequence[Change]) -> Replicated:
    """The measure that the tuned model is judged by on its task, of every change of its backbone."""
    problem, sentences = model.problem, own.task.corpus[split]
    gold = problem.gold(sentences, own.task.name)
    answers = []
    with bar(f"{own.task.name} of {model.encoder.name}, patched", len(changes)) as shown:
        for change in changes:
            with patched(patcher, model.encoder.model, change):
                answers.append(answer(model, sentences, own.task.name)[0])
            shown.advance()

    def score(kept: np.ndarray) -> list[float]:
        true = [gold[number] for number in kept]
        return [problem.statistics(true, [each[n] for n in kept])[problem.primary].value for each in answers]

    return replicate(len(sentences), score)


class Asker(NamedTuple):
    """A patched language model under the reference's head."""

    patcher: Patcher
    encoder: HuggingFaceEncoder
    other: HuggingFaceEncoder
    head_file: str | None

    def losses(self, sentences: Sequence[Sentence], asking: Perplexity, changes: Sequence[Change]) -> Replicated:
        """Nats per asked token of sentences, each read alone."""
        texts = self.encoder.encode(sentences)
        self._check(sentences)
        found = self._ask(asking, asking.method, texts, changes)
        sums, tokens = -found.sums, found.tokens
        asked = np.flatnonzero(tokens)
        return replicate(len(asked), lambda kept: sums[:, asked[kept]].sum(1) / tokens[asked[kept]].sum())

    def pair_accuracies(
        self, sentences: Sequence[Sentence], pairs: int | None, changes: Sequence[Change]
    ) -> Replicated:
        """The share of minimal pairs of which the acceptable sentence is the more probable one."""
        chosen, texts = fitting(self.encoder, pairs_of(sentences, pairs))
        self._check([sentence for pair in chosen for sentence in pair])
        found = self._ask(Perplexity(), "causal" if kind_of(self.encoder) == "causal" else "pseudo", texts, changes)
        margins = found.sums.reshape(len(changes), -1, 2)
        right = margins[..., 0] > margins[..., 1]
        return replicate(len(chosen), lambda kept: right[:, kept].mean(1))

    def _check(self, sentences: Sequence[Sentence]) -> None:
        mine, theirs = (each.encode(sentences) for each in (self.encoder, self.other))
        same_tokens(sentences, mine, theirs, self.encoder.name, self.other.name)

    def _ask(self, asking: Perplexity, method: str, texts: Sequence[Encoded], changes: Sequence[Change]) -> Likelihoods:
        head = choose_head("reference", self.head_file, self.encoder, self.other)
        kind = kind_of(self.encoder)
        method = resolve_method(method, kind, self.encoder)
        clozes: list[Cloze] = list(asking.clozes(method, self.encoder, kind, texts))
        if not clozes:
            raise AnalysisError("no token of the text is asked for", fix="raise the rate, or use more text")
        with bar(f"language model of {self.encoder.name}, patched") as shown, torch.inference_mode():
            return likelihoods(
                self.encoder,
                sorted(clozes, key=lambda cloze: -len(cloze.encoded.ids)),
                len(texts),
                kind,
                lambda given: self.patcher.states(changes, given),
                [head] * len(changes),
                tick=shown.advance,
            )


class WordReader(NamedTuple):
    """Word vectors of a patched model's last layer."""

    patcher: Patcher
    encoder: HuggingFaceEncoder
    pooling: str

    def check(self, sentence: Sentence) -> None:
        """An error unless what a patched model hands on is what the encoder shows as its last layer."""
        encoded = self.encoder.encode([sentence])
        shown = self.encoder.hidden_states(encoded)[-1]
        (given,) = self.patcher.states([Patch(host=0)], self.encoder.inputs(encoded))
        if shown.shape != given.shape or not torch.allclose(shown, given, rtol=1e-3, atol=1e-3):
            raise AnalysisError(
                f"{self.encoder.name}: its last layer is not read as the model hands it on",
                fix="read the model with its final norm (leave final_norm: pre out), or leave patched_probe out",
            )

    def right(
        self,
        sentences: Sequence[Sentence],
        index: np.ndarray,
        gold: np.ndarray,
        predict: Callable[[np.ndarray], np.ndarray],
        changes: Sequence[Change],
    ) -> Replicated:
        """The share of the words of `index` (words, 2: sentence, word) that are predicted as `gold`, by change."""
        encoded = self.encoder.encode(sentences)
        starts = np.concatenate([[0], np.cumsum([text.kept for text in encoded], dtype=int)])
        wanted = np.full(starts[-1], -1)
        wanted[starts[index[:, 0]] + index[:, 1]] = np.arange(len(index))
        right = np.zeros((len(changes), len(index)))
        with bar(f"a probe of {self.encoder.name}, patched", len(encoded)) as shown, torch.inference_mode():
            for numbers in batches_for(self.encoder, encoded, 1 if self.encoder.alone else PATCHED_TOKENS):
                batch = [encoded[number] for number in numbers]
                rows = wanted[np.concatenate([np.arange(starts[n], starts[n + 1]) for n in numbers])]
                groups = groups_for(self.pooling, batch, self.encoder, self.encoder.device)
                for at, states in enumerate(self.patcher.states(changes, self.encoder.inputs(batch))):
                    vectors = REDUCE[self.pooling](states, groups).to("cpu", torch.float32).numpy()[rows >= 0]
                    right[at, rows[rows >= 0]] = predict(vectors) == gold[rows[rows >= 0]]
                shown.advance(len(batch))
        names, sentence = np.unique(index[:, 0], return_inverse=True)
        words = np.bincount(sentence)
        sums = np.stack([np.bincount(sentence, weights=one) for one in right])
        return replicate(len(names), lambda kept: sums[:, kept].sum(1) / words[kept].sum())
