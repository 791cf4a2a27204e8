"""Perplexity: how well does a tuned encoder still serve the language-model head it once had?

mosbach2020, section 5.2. The head is the pre-trained one; the text is the same, with the same
masks, for every model. Then the last layers of the tuned encoder are replaced by the reference's,
one more at a time: the layers whose replacement lowers perplexity are those that fine-tuning changed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.exchange import exchange
from vestige.analyses.metric import WHOLE, Axis, Metric
from vestige.analyses.remarks import TRUNCATED, count
from vestige.analyses.settings import Count, Share, Whole
from vestige.comparison.estimators import Ratio
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
from vestige.probes.rows import Place
from vestige.progress import bar

EVERYTHING = "layers and embeddings"

_ALONG = (
    WHOLE,
    Axis("last_replaced", "last blocks replaced by the reference's"),
    Axis("layer_replaced", "the one block replaced"),
)


BLOCK_TOKENS = count("block_tokens", "tokens of a block", "Special ones included.")
MASKED_TOKENS = count("masked_tokens", "masked tokens", "`label` is a hash of the masks.")
_REFERENCE = (
    Metric(
        "reference_perplexity", "perplexity of the reference", better="lower", decimals=1, along=(WHOLE,),
        role="baseline",
    ),
    Metric("reference_loss", "loss of the reference", "nats", "lower", along=(WHOLE,), role="detail"),
)  # fmt: skip
_COST = (
    count("layer_evaluations", "block evaluations per batch", "Of all mixtures together."),
    count("layer_evaluations_naive", "block evaluations per batch, each mixture by itself"),
)


@dataclass(frozen=True)
class Perplexity(Analysis):
    """How well a model still serves the language-model head it once had, as a whole and with layers replaced.

    Perplexity is exp of the mean loss over all asked tokens (not over batches).
    """

    name: ClassVar[str] = "perplexity"
    version = 4
    metrics = (
        Metric("perplexity", "perplexity", better="lower", decimals=1, along=_ALONG),
        Metric(
            "loss", "loss", "nats", "lower", 0.02, along=_ALONG,
            compared=Ratio(where=(("subset", "model"),), numerator="nats", denominator="tokens", count="tokens"),
        ),
        *_REFERENCE,
        BLOCK_TOKENS,
        MASKED_TOKENS,
        *_COST,
        TRUNCATED,
    )  # fmt: skip
    title: ClassVar[str] = "Perplexity, and with layers replaced"
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
    """Share of tokens that are masked (masked)."""
    corrupt: Corrupt = "bert"
    """bert: of the chosen tokens 80 % are masked, 10 % replaced, 10 % kept. mask: all are masked."""
    mask_seeds: Count = 1
    """Patterns of masks; the loss is the mean over all of them."""
    head: HeadChoice = "reference"
    """Whose language-model head: the reference's; the model's own; the reference's, tied to the model's embeddings."""
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
    """Bootstrap resamples of the intervals."""
    seed: Whole = 0
    """Of the masks and the bootstrap."""
    split: str = "test"
    """The split whose text is read."""

    @property
    def given(self) -> tuple[Metric, ...]:
        unasked = [TRUNCATED if self.unit == "block" else BLOCK_TOKENS, *(() if self.sweep else _COST)]
        if self.method not in ("auto", "masked"):
            unasked.append(MASKED_TOKENS)
        return tuple(metric for metric in self.metrics if metric not in unasked)

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
        if inputs.reference is None:
            missing = (*_REFERENCE, *(_COST if self.sweep else ()))
            outcome.absent |= {metric.name: "the model has no reference" for metric in missing}
        if self.unit == "block":
            outcome.add("block_tokens", len(texts[0].ids), n=len(texts))
        else:
            lost = sum(text.words - text.kept for text in texts)
            outcome.add("truncated_words", lost, n=sum(text.words for text in texts))
        if asked is not None:
            outcome.add("masked_tokens", found.tokens.sum(), label=digest(asked), n=sum(len(t.ids) for t in texts))
        elif self.method == "auto":
            outcome.absent[MASKED_TOKENS.name] = f"a {kind} model is asked without masks"
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
            return _Variants([Place("model")], [own], lambda given: [last_state(encoder, given)])
        other = language_model(inputs.reference.encoder, inputs.reference.model)
        mine, its = (each.encode(sentences) if self.unit == "sentence" else uncut(each, sentences)
                     for each in (encoder, other))  # fmt: skip
        same_tokens(sentences, mine, its, inputs.model, inputs.reference.model)
        own = choose_head(self.head, self.head_file, encoder, other)
        theirs = own if self.head == "reference" else choose_head("own", self.head_file, other, None)
        where = [Place("model"), Place("reference")]
        heads = [own, theirs]
        if not self.sweep:
            return _Variants(where, heads, lambda given: [last_state(encoder, given), last_state(other, given)])
        mixer = exchange(Mixer, encoder, other, "set sweep: false")
        last = self.last if self.last is not None else range(mixer.depth + 1)
        try:
            plans = [mixer.last(0), mixer.last(mixer.depth, embeddings=True)]
            for blocks in last:
                plans.append(mixer.last(blocks))
                where.append(Place("layers", None, "last_replaced", blocks))
            if self.last is None:
                plans.append(mixer.last(mixer.depth, embeddings=True))
                where.append(Place(EVERYTHING, None, "last_replaced", mixer.depth))
            for layer in self.single:
                plans.append(mixer.single(layer))
                where.append(Place("single layer", None, "layer_replaced", layer))
        except ModelError as error:
            raise AnalysisError(f"{inputs.model}: {error.problem}", fix="name fewer layers") from error
        restored = theirs if self.head == "tied" else own  # a head that is tied to embeddings follows them
        heads += [restored if at.subset == EVERYTHING else own for at in where[2:]]
        return _Variants(where, heads, lambda given: mixer.states(plans, given), mixer, len(set(plans)))

    def _outcome(self, found: Likelihoods, variants: "_Variants", units: np.ndarray) -> Outcome:
        outcome = Outcome()
        asked = int(found.tokens.sum())
        low, high = bootstrap_interval(-found.sums.T, found.tokens, self.resamples, seed=self.seed)
        for model, place in enumerate(variants.where):
            loss, ends = found.losses[model], (low[model], high[model])
            where = place.where if place.axis else {}
            prefix = "reference_" if place.subset == "reference" else ""
            for name, value, of in (("perplexity", np.exp(loss), np.exp(ends)), ("loss", loss, ends)):
                outcome.add(f"{prefix}{name}", value, low=of[0], high=of[1], n=asked, **where)
        if variants.mixer is not None:
            outcome.add("layer_evaluations", variants.mixer.evaluations / found.batches, n=found.batches)
            outcome.add("layer_evaluations_naive", variants.plans * variants.mixer.depth, n=found.batches)
        places = {name: [getattr(place, name) for place in variants.where] for name in ("subset", "axis", "x")}
        outcome.items = {
            "sentence": np.tile(units, len(variants.where)),
            **{
                name: np.repeat(np.array(values, dtype=float if name == "x" else object), len(units))
                for name, values in places.items()
            },
            "nats": -found.sums.ravel(),
            "tokens": np.tile(found.tokens.astype(np.int64), len(variants.where)),
        }
        return outcome


def _by_length(asked: Sequence[Cloze]) -> Iterator[Cloze]:
    """Questions about texts of similar length next to each other."""
    return (asked[number] for number in longest_first([len(cloze.encoded.ids) for cloze in asked]))


@dataclass(frozen=True)
class _Variants:
    """Models that answer the same questions."""

    where: list[Place]
    heads: list[Head]
    run: Run
    mixer: Mixer | None = None
    plans: int = 0
    """How many different models the mixer runs."""
