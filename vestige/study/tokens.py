"""How the models of a study cut its corpora into tokens: what is unknown to them, left out, or cut differently.

A model that does not know the words cannot be asked about them: with a tokenizer of another model, or with none of its
own, byte-identical weights seem to have lost everything.
"""

from collections.abc import Mapping
from typing import Any

from vestige.corpus.types import Corpus
from vestige.errors import ModelError
from vestige.models.encoders.encoder import Encoder

MOST_UNKNOWN = 0.2
"""A larger share of unknown tokens is refused unless `compute.on_unknown` is `allow`."""
SAMPLED = 500
"""Sentences of a split that are looked at before a model reads all of them."""


def check_unknown(encoder: Encoder, model: str, name: str, corpus: Corpus) -> None:
    """Refuse a tokenizer that does not know the words of a corpus, before anything is computed."""
    tokens, unknown = _sampled(encoder, corpus)
    if unknown > MOST_UNKNOWN * tokens:
        raise ModelError(
            f"model {model!r} on corpus {name!r}: {100 * unknown / tokens:.0f} % of the tokens ({unknown} of {tokens}) "
            "are unknown to its tokenizer",
            fix="give the tokenizer that the weights were trained with (tokenizer: FOLDER or a model of the study); "
            "if this one is right, set compute: {on_unknown: allow}",
        )


def token_facts(encoder: Encoder, corpus: Corpus, manifests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What study.lock.json keeps: words, those without a vector because of a sink, tokens, unknown ones."""
    found = manifests.values()
    counts = {key: sum(part[key] for part in found) for key in ("words", "sink_words", "word_tokens", "unknown_tokens")}
    if not found:
        counts["word_tokens"], counts["unknown_tokens"] = _sampled(encoder, corpus)
    return {"sink_left_out": encoder.leaves_out_first, **counts}


def _sampled(encoder: Encoder, corpus: Corpus) -> tuple[int, int]:
    encoded = encoder.encode([s for sentences in corpus.splits.values() for s in sentences[:SAMPLED]])
    tokens = sum(word >= 0 for sentence in encoded for word in sentence.word_of)
    return tokens, sum(map(encoder.unknown_tokens, encoded))
