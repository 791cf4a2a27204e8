"""Perplexity: how well does a tuned encoder still serve the language-model head it once had?

mosbach2020, section 5.2. The head is the pre-trained one; the text is the same, with the same
masks, for every model. Then the last layers of the tuned encoder are replaced by the reference's,
one more at a time: the layers whose return lowers perplexity are those that fine-tuning changed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.settings import Count, Share, Whole
from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError, ModelError
from vestige.measures.resampling import bootstrap_interval
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.lm.head import HeadChoice, choose_head, fitted_block
from vestige.models.lm.language_model import (
    Head,
    Kind,
    kind_of,
    language_model,
    last_state,
    resolve_method,
    same_tokens,
)
from vestige.models.lm.likelihood import Likelihoods, Run, likelihoods, longest_first
from vestige.models.surgery.mixing import Mixer
from vestige.models.tokens.align import Encoded
from vestige.models.tokens.masking import (
    Cloze,
    Corrupt,
    Hide,
    digest,
    mask_each,
    mask_randomly,
    next_tokens,
    text_blocks,
    uncut,
)
from vestige.progress import bar

EVERYTHING = "layers and embeddings"


@dataclass(frozen=True)
class Perplexity(Analysis):
    """Perplexity is exp of the mean loss over all asked tokens (not over batches)."""

    name: ClassVar[str] = "perplexity"
    version = 3
    title: ClassVar[str] = "Perplexity, and with layers put back"
    source: ClassVar[str] = "mosbach2020, section 5.2; pseudo-perplexity after Salazar et al. 2020"
    needs = frozenset({"logits"})
    levels = ("token", "span", "span_pair", "sentence", "sentence_pair", "tree", "text")
    models = 2
    alone = True
    uses_labels = False

    method: Literal["auto", "masked", "pseudo", "causal"] = "auto"
    """masked: a random share of tokens at once. pseudo: each token alone. causal: each after those before
    it. auto: masked for masked models, causal for causal ones, pseudo for permutation models (XLNet)."""
    unit: Literal["block", "sentence"] = "block"
    """block: all text in a row, cut into equal pieces, the rest dropped. sentence: every sentence alone."""
    block: Count | None = None
    """Tokens of a block, special ones included; a model's own limit, where that is less. None: as many as a head that
    comes with vestige was fitted on, else 512."""
    hide: Hide = "token"
    """For pseudo: hide the token alone, or more of its word with it."""
    rate: Share = 0.15
    corrupt: Corrupt = "bert"
    mask_seeds: Count = 1
    """Patterns of masks; the loss is the mean over all of them."""
    head: HeadChoice = "reference"
    head_file: str | None = None
    """A file with a head (`LMHead`), for models that come without one."""
    sweep: bool = True
    """Also replace layers by the reference's."""
    last: tuple[int, ...] | None = None
    """How many of the last layers to replace; None: every number, and at the end the embeddings too."""
    single: tuple[int, ...] = ()
    """Layers, counted from 1, to be replaced alone."""
    sentences: Count | None = None
    """The first so many of the split; None: all."""
    resamples: Count = 1000
    seed: Whole = 0
    split: str = "test"

    def run(self, inputs: Inputs) -> Outcome:
        encoder = language_model(inputs.encoder, inputs.model)
        sentences = [s for s in inputs.task.corpus[self.split][: self.sentences] if s.words]
        kind = kind_of(encoder)
        method = resolve_method(self.method, kind, encoder)
        texts = self._texts(encoder, inputs, sentences)
        variants = self._variants(inputs, encoder, sentences)
        asked = list(self.clozes(method, encoder, kind, texts)) if method == "masked" else None
        if asked is not None and not asked:
            raise AnalysisError(
                f"a rate of {self.rate:g} masks none of the {sum(len(t.ids) for t in texts)} tokens",
                fix="raise the rate or use more text",
            )
        clozes = self.clozes(method, encoder, kind, texts) if asked is None else _by_length(asked)
        with bar(f"perplexity of {inputs.model}") as shown:
            found = likelihoods(encoder, clozes, len(texts), kind, variants.run, variants.heads, tick=shown.advance)
        named = [sentence.id for sentence in sentences] if self.unit == "sentence" else map(str, range(len(texts)))
        outcome = self._outcome(found, variants, np.array(list(named), dtype=object))
        if self.unit == "block":
            outcome.add("block_tokens", len(texts[0].ids), n=len(texts))
        else:
            lost = sum(text.words - text.kept for text in texts)
            outcome.add("truncated_words", lost, n=sum(text.words for text in texts))
        if asked is not None:
            outcome.add("masked_tokens", found.tokens.sum(), label=digest(asked), n=sum(len(t.ids) for t in texts))
        return outcome

    def clozes(self, method: str, encoder: HuggingFaceEncoder, kind: Kind, texts: Sequence[Encoded]) -> Iterator[Cloze]:
        mask = None if kind == "permutation" else encoder.tokenizer.mask_token_id
        if method == "masked":
            for number in range(self.mask_seeds):
                size = encoder.tokenizer.vocab_size
                yield from mask_randomly(texts, mask, size, self.rate, self.seed + number, self.corrupt)
        else:
            order = [(unit, texts[unit]) for unit in longest_first([len(text.ids) for text in texts])]
            yield from next_tokens(order) if method == "causal" else mask_each(order, mask, self.hide)

    def _texts(self, encoder: HuggingFaceEncoder, inputs: Inputs, sentences: Sequence[Sentence]) -> list[Encoded]:
        """What the encoder of `inputs` is shown."""
        if self.unit == "sentence":
            return encoder.encode(sentences)
        giver = inputs.reference.encoder if inputs.reference is not None and self.head != "own" else encoder
        block = self.block or fitted_block(self.head_file, language_model(giver, inputs.model)) or 512
        return text_blocks(encoder, sentences, block)

    def _variants(self, inputs: Inputs, encoder: HuggingFaceEncoder, sentences: Sequence[Sentence]) -> "_Variants":
        """The model, its reference, and the mixtures of both."""
        if inputs.reference is None:
            own = choose_head(self.head, self.head_file, encoder, None)
            return _Variants([{}], [own], lambda given: [last_state(encoder, given)], ["perplexity"])
        other = language_model(inputs.reference.encoder, inputs.reference.model)
        mine, its = (each.encode(sentences) if self.unit == "sentence" else uncut(each, sentences)
                     for each in (encoder, other))  # fmt: skip
        same_tokens(sentences, mine, its, inputs.model, inputs.reference.model)
        own = choose_head(self.head, self.head_file, encoder, other)
        theirs = own if self.head == "reference" else choose_head("own", self.head_file, other, None)
        where: list[dict[str, Any]] = [{}, {}]
        names, heads = ["perplexity", "reference_perplexity"], [own, theirs]
        if not self.sweep:
            return _Variants(where, heads, lambda given: [last_state(encoder, given), last_state(other, given)], names)
        mixer = _mixer(encoder, other)
        last = self.last if self.last is not None else range(mixer.depth + 1)
        try:
            plans = [mixer.last(0), mixer.last(mixer.depth, embeddings=True)]
            for count in last:
                plans.append(mixer.last(count))
                where.append({"axis": "last_replaced", "x": count, "subset": "layers"})
            if self.last is None:
                plans.append(mixer.last(mixer.depth, embeddings=True))
                where.append({"axis": "last_replaced", "x": mixer.depth, "subset": EVERYTHING})
            for layer in self.single:
                plans.append(mixer.single(layer))
                where.append({"axis": "layer_replaced", "x": layer, "subset": "single layer"})
        except ModelError as error:
            raise AnalysisError(f"{inputs.model}: {error.problem}", fix="name fewer layers") from error
        restored = theirs if self.head == "tied" else own  # a head that is tied to embeddings follows them
        heads += [restored if at.get("subset") == EVERYTHING else own for at in where[2:]]
        names += ["perplexity"] * (len(where) - 2)
        return _Variants(where, heads, lambda given: mixer.states(plans, given), names, mixer, len(set(plans)))

    def _outcome(self, found: Likelihoods, variants: "_Variants", units: np.ndarray) -> Outcome:
        outcome = Outcome()
        asked = int(found.tokens.sum())
        low, high = bootstrap_interval(-found.sums.T, found.tokens, self.resamples, seed=self.seed)
        for model, (metric, where) in enumerate(zip(variants.metrics, variants.where, strict=True)):
            loss = metric.replace("perplexity", "loss")
            outcome.add(metric, np.exp(found.losses[model]), n=asked, **where)
            outcome.add(f"{metric}_low", np.exp(low[model]), n=asked, **where)
            outcome.add(f"{metric}_high", np.exp(high[model]), n=asked, **where)
            outcome.add(loss, found.losses[model], n=asked, **where)
        if variants.mixer is not None:
            outcome.add("layer_evaluations", variants.mixer.evaluations / found.batches, n=found.batches)
            outcome.add("layer_evaluations_naive", variants.plans * variants.mixer.depth, n=found.batches)
        names = [
            f"{where['axis']} {where['x']} ({where['subset']})" if where else metric
            for metric, where in zip(variants.metrics, variants.where, strict=True)
        ]
        outcome.items = {
            "sentence": np.tile(units, len(names)),
            "subset": np.repeat(np.array(names, dtype=object), len(units)),
            "metric": np.full(len(units) * len(names), "log_probability", dtype=object),
            "value": found.sums.ravel(),
            "tokens": np.tile(found.tokens.astype(np.int64), len(names)),
        }
        return outcome


def _by_length(asked: Sequence[Cloze]) -> Iterator[Cloze]:
    """Questions about texts of similar length next to each other."""
    return (asked[number] for number in longest_first([len(cloze.encoded.ids) for cloze in asked]))


@dataclass(frozen=True)
class _Variants:
    """Models that answer the same questions."""

    where: list[dict[str, Any]]
    heads: list[Head]
    run: Run
    metrics: list[str]
    mixer: Mixer | None = None
    plans: int = 0
    """How many different models the mixer runs."""


def _mixer(encoder: HuggingFaceEncoder, other: HuggingFaceEncoder) -> Mixer:
    if hasattr(encoder, "peft") or hasattr(other, "peft"):
        raise AnalysisError(
            f"layers of {encoder.name} cannot be replaced while an adapter is on them",
            fix="merge the adapter into the weights and save them, or set sweep: false",
        )
    try:
        return Mixer(encoder.model, other.model)
    except ModelError as error:
        raise AnalysisError(error.problem, fix=f"{error.fix}, or set sweep: false") from error
