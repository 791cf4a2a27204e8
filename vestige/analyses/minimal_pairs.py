"""Minimal pairs: does a model still find the grammatical sentence more probable than its twin?

After BLiMP (Warstadt et al. 2020). A sentence's score is its log-likelihood under a causal model, its
pseudo-log-likelihood (every token given all others) under a masked or permutation model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import WHOLE, Metric
from vestige.analyses.perplexity import Perplexity
from vestige.analyses.remarks import remark
from vestige.analyses.settings import Count, Whole
from vestige.comparison.estimators import Share
from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError
from vestige.measures.resampling import bootstrap_interval
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.lm.head import HeadChoice, choose_head
from vestige.models.lm.language_model import Head, kind_of, language_model, last_state, resolve_method, same_tokens
from vestige.models.lm.likelihood import likelihoods
from vestige.models.tokens.align import Encoded, with_sink
from vestige.models.tokens.masking import Hide
from vestige.progress import bar

GOOD, BAD = "acceptable", "unacceptable"


@dataclass(frozen=True)
class MinimalPairs(Analysis):
    """How often a model finds the grammatical sentence of a pair more probable, over all pairs and by paradigm.

    Accuracy is the share of pairs whose grammatical sentence scores higher; equal scores are counted as wrong.
    """

    name: ClassVar[str] = "minimal_pairs"
    version = 3
    title: ClassVar[str] = "Minimal pairs"
    source: ClassVar[str] = "BLiMP, Warstadt et al. 2020; scores after Salazar et al. 2020"
    needs = frozenset({"logits"})
    levels = ("sentence",)
    example = "blimp/acceptability"
    models = 2
    alone = True
    metrics = (
        Metric("accuracy", "accuracy", "percent", "higher", 0.005, 1, (WHOLE,), compared=Share()),
        Metric("margin", "log-likelihood of the grammatical sentence over its twin's", "nats", along=(WHOLE,)),
        Metric("ties", "pairs with equal scores", "percent", decimals=1, along=(WHOLE,), role="detail"),
        Metric(
            "reference_accuracy", "accuracy of the reference", "percent", "higher", decimals=1, along=(WHOLE,),
            role="baseline",
        ),
        Metric("accuracy_change", "change of accuracy", "percent", "higher", decimals=1, along=(WHOLE,)),
        Metric("margin_change", "change of the log-likelihood ratio", "nats", "higher", along=(WHOLE,)),
        remark(
            "left_out_pairs",
            "pairs left out",
            "{value} of {n} minimal pairs do not fit the model's limit and are left out",
        ),
    )  # fmt: skip

    hide: Hide = "token"
    """For masked and permutation models: hide the token alone, or more of its word with it."""
    head: HeadChoice = "reference"
    """Whose language-model head: the reference's; the model's own; the reference's, tied to the model's embeddings."""
    head_file: str | None = None
    """A file with a head (`LMHead`), for models that come without one."""
    pairs: Count | None = None
    """The first so many of every paradigm; None: all."""
    resamples: Count = 1000
    """Bootstrap resamples of the intervals."""
    seed: Whole = 0
    """Of the bootstrap."""
    split: str = "test"
    """The split whose pairs are scored."""

    def run(self, inputs: Inputs) -> Outcome:
        encoder = language_model(inputs.encoder, inputs.model)
        every = pairs_of(inputs.task.corpus[self.split], self.pairs)
        pairs, encoded = fitting(encoder, every)
        sentences = [sentence for pair in pairs for sentence in pair]
        models, other = [encoder], None
        if inputs.reference is not None:
            other = language_model(inputs.reference.encoder, inputs.reference.model)
            same_tokens(sentences, encoded, _encode(other, sentences), inputs.model, inputs.reference.model)
            models.append(other)
        heads = [choose_head(self.head, self.head_file, encoder, other)]
        if other is not None:
            heads.append(heads[0] if self.head == "reference" else choose_head("own", self.head_file, other, None))
        scores = self._scores(models, encoded, heads, inputs.model).reshape(len(models), -1, 2)
        outcome = self._outcome(scores[..., 0] - scores[..., 1], pairs)
        if other is None:
            compared = ("reference_accuracy", "accuracy_change", "margin_change")
            outcome.absent |= dict.fromkeys(compared, "the model has no reference")
        outcome.add("left_out_pairs", len(every) - len(pairs), n=len(every))
        return outcome

    def _scores(
        self, models: list[HuggingFaceEncoder], encoded: list[Encoded], heads: list[Head], name: str
    ) -> np.ndarray:
        """(models, sentences): log-likelihoods."""
        encoder, kind = models[0], kind_of(models[0])
        method = resolve_method("causal" if kind == "causal" else "pseudo", kind, encoder)
        clozes = Perplexity(hide=self.hide).clozes(method, encoder, kind, encoded)
        with bar(f"minimal pairs of {name}") as shown:
            return likelihoods(
                encoder,
                clozes,
                len(encoded),
                kind,
                lambda given: [last_state(model, given) for model in models],
                heads,
                tick=shown.advance,
            ).sums

    def _outcome(self, margins: np.ndarray, pairs: Sequence[tuple[Sentence, Sentence]]) -> Outcome:
        """`margins` (models, pairs): score of the grammatical sentence minus that of its twin."""
        outcome = Outcome()
        right = margins > 0
        paradigms = np.array([good.annotations.get("paradigm", "all") for good, _ in pairs], dtype=object)
        groups: list[tuple[dict, np.ndarray]] = [({}, np.ones(len(pairs), dtype=bool))]
        groups += [({"label": name}, paradigms == name) for name in dict.fromkeys(paradigms)]
        for where, chosen in groups:
            found = {"accuracy": right[0], "margin": margins[0], "ties": margins[0] == 0}
            if len(margins) > 1:
                found |= {
                    "reference_accuracy": right[1],
                    "accuracy_change": right[0].astype(float) - right[1],
                    "margin_change": margins[0] - margins[1],
                }
            columns = np.stack([values[chosen].astype(np.float64) for values in found.values()], axis=1)
            low, high = bootstrap_interval(columns, resamples=self.resamples, seed=self.seed)
            for column, metric in enumerate(found):
                interval = {"low": low[column], "high": high[column]}
                outcome.add(metric, columns[:, column].mean(), n=len(columns), **interval, **where)
        ids = np.array([good.annotations["pair"] for good, _ in pairs], dtype=object)
        outcome.items = {
            "sentence": ids,
            "word": np.zeros(len(ids), dtype=np.int32),
            "probe_seed": np.zeros(len(ids), dtype=np.int16),
            "correct": right[0],
            "margin": margins[0],
            "paradigm": paradigms,
        }
        return outcome


def _encode(encoder: HuggingFaceEncoder, sentences: Sequence[Sentence]) -> list[Encoded]:
    """Sentences as they are asked for: causal models need a token before the first."""
    encoded = encoder.encode(sentences)
    if kind_of(encoder) != "causal":
        return encoded
    first = encoder.tokenizer.bos_token_id
    first = encoder.tokenizer.eos_token_id if first is None else first
    return [with_sink(first, sentence) for sentence in encoded]


def fitting(
    encoder: HuggingFaceEncoder, pairs: Sequence[tuple[Sentence, Sentence]]
) -> tuple[list[tuple[Sentence, Sentence]], list[Encoded]]:
    """The pairs of which the model can be shown all of both sentences, and these sentences as tokens."""
    sides = _encode(encoder, [sentence for pair in pairs for sentence in pair])
    limit = encoder.limit or max(len(side.ids) for side in sides)
    whole = [side.kept == side.words and len(side.ids) <= limit for side in sides]
    fits = [number for number in range(len(pairs)) if whole[2 * number] and whole[2 * number + 1]]
    if not fits:
        raise AnalysisError(
            f"{encoder.name} takes {limit} tokens, and no pair fits into them", fix="use shorter sentences"
        )
    return [pairs[number] for number in fits], [sides[2 * number + side] for number in fits for side in (0, 1)]


def pairs_of(sentences: Sequence[Sentence], limit: int | None) -> list[tuple[Sentence, Sentence]]:
    """(acceptable, unacceptable) sentences that share a "pair"."""
    found: dict[str, dict[str, Sentence]] = {}
    for sentence in sentences:
        notes = sentence.annotations
        if "pair" not in notes or notes.get("acceptability") not in (GOOD, BAD):
            raise AnalysisError(
                f"{sentence.source or sentence.id}: no half of a minimal pair",
                fix='use a corpus in BLiMP\'s format, or annotate "pair" and "acceptability"',
            )
        sides = found.setdefault(notes["pair"], {})
        if notes["acceptability"] in sides:
            raise AnalysisError(
                f"{sentence.source or sentence.id}: pair {notes['pair']!r} has an {notes['acceptability']} one already",
                fix="give every pair a name of its own",
            )
        sides[notes["acceptability"]] = sentence
    whole: dict[str, list[tuple[Sentence, Sentence]]] = {}
    for pair, sides in found.items():
        if set(sides) != {GOOD, BAD}:
            raise AnalysisError(
                f"the pair {pair!r} has only its {next(iter(sides))} sentence",
                fix="keep both sentences of a pair in one split (limit the pairs, not the corpus)",
            )
        whole.setdefault(sides[GOOD].annotations.get("paradigm", "all"), []).append((sides[GOOD], sides[BAD]))
    return [pair for members in whole.values() for pair in members[:limit]]
