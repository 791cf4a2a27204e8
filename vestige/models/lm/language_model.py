"""Encoders as language models: how probable is a token where it stands?

Masked models see a mask in its place, causal models what stands before it, permutation models
(XLNet) everything but it. The head runs on the states of the asked positions only. Which head it
is, the caller decides: the pre-trained head of a reference stays tied to the reference's own
embeddings, whatever fine-tuning did to those of the encoder below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.surgery.mixing import computing
from vestige.models.tokens.align import Encoded
from vestige.models.tokens.masking import Cloze

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Kind = Literal["masked", "causal", "permutation"]

Head = Callable[[Tensor], Tensor]
"""States (rows, width) to scores (rows, vocabulary)."""

HEAD_ROWS = 512
"""States whose scores over the vocabulary are in memory at once."""


def language_model(encoder: object, name: str) -> HuggingFaceEncoder:
    """The encoder, if it can be a language model here."""
    if not isinstance(encoder, HuggingFaceEncoder) or encoder.config.is_encoder_decoder:
        what = "the model itself is missing" if encoder is None else "it is neither a masked nor a causal model"
        raise AnalysisError(
            f"{name}: {what}, so there is no language model to be asked",
            fix="leave analyses of language models out for it: perplexity, minimal_pairs, patching, lens, output_drift",
        )
    return encoder


def kind_of(encoder: HuggingFaceEncoder) -> Kind:
    """What kind of language model it is, by what it takes and what its states depend on."""
    if "perm_mask" in encoder._accepts:
        return "permutation"
    return "causal" if is_causal(encoder) else "masked"


def is_causal(encoder: HuggingFaceEncoder) -> bool:
    """Is the state of a token the same whatever follows it?

    The decoder of an encoder-decoder is, though its states depend on all that the encoder reads.
    """
    if encoder._decoding:
        return True
    first = encoder.encode([Sentence("probe", ("one", "two"))])[0]
    second = replace(first, ids=(*first.ids[:-1], first.ids[0]))
    one, other = (encoder.hidden_states([encoded])[-1][0, 0] for encoded in (first, second))
    if not torch.isfinite(one).all():
        raise AnalysisError(
            f"{encoder.name}: hidden states are not finite",
            fix="check the weights; a model tuned to divergence gives such values",
        )
    return torch.equal(one, other)


def resolve_method(method: str, kind: Kind, encoder: HuggingFaceEncoder) -> str:
    """masked, pseudo or causal; "auto" is what fits best. An error where the model cannot be asked that way."""
    fitting = {"masked": ("masked", "pseudo"), "causal": ("causal",), "permutation": ("pseudo", "masked")}[kind]
    if method == "auto":
        method = fitting[0]
    if method not in fitting:
        raise AnalysisError(
            f"{encoder.name} is a {kind} model, which {method!r} does not fit", fix=f"use {' or '.join(fitting)}"
        )
    if kind == "masked" and encoder.tokenizer.mask_token_id is None:
        raise AnalysisError(f"the tokenizer of {encoder.name} has no mask token", fix="use its own tokenizer")
    return method


def cloze_inputs(encoder: HuggingFaceEncoder, batch: Sequence[Cloze], kind: Kind) -> dict[str, Any]:
    """The backbone's keyword arguments for a batch of questions."""
    inputs = encoder.inputs([cloze.encoded for cloze in batch])
    if kind == "permutation":
        tokens = inputs["input_ids"].shape[1]
        unseen = torch.zeros(len(batch), tokens, tokens)
        asked = torch.zeros(len(batch), max(len(cloze.targets) for cloze in batch), tokens)
        for row, cloze in enumerate(batch):
            unseen[row, :, list(cloze.hidden)] = 1
            asked[row, range(len(cloze.targets)), list(cloze.targets)] = 1
        inputs |= {"perm_mask": unseen.to(encoder.device), "target_mapping": asked.to(encoder.device)}
    return inputs


def last_state(encoder: HuggingFaceEncoder, inputs: Mapping[str, Any]) -> Tensor:
    """What the backbone hands to a head."""
    with encoder._active():
        return encoder.model(**inputs).last_hidden_state


def asked_states(states: Tensor, batch: Sequence[Cloze], kind: Kind) -> Tensor:
    """(targets, width): the states from which the targets of a batch are predicted, in order."""
    shift = 1 if kind == "causal" else 0
    places = [
        range(len(cloze.targets)) if kind == "permutation" else [place - shift for place in cloze.targets]
        for cloze in batch
    ]
    rows = [row for row, cloze in enumerate(batch) for _ in cloze.targets]
    return states[rows, [place for each in places for place in each]]


def log_probabilities(head: Head, states: Tensor, answers: Sequence[int]) -> Tensor:
    """(rows,): the log-probability of every answer, in nats."""
    gold = torch.tensor(answers, device=states.device)
    found = [
        head(rows).float().log_softmax(-1).gather(-1, asked[:, None])[:, 0]
        for rows, asked in zip(states.split(HEAD_ROWS), gold.split(HEAD_ROWS), strict=True)
    ]
    return torch.cat(found).cpu().double()


class WholeHead:
    """The head of a Hugging Face model, whatever its parts are called: the forward pass without the backbone's."""

    def __init__(self, whole: PreTrainedModel) -> None:
        self.whole = whole
        ids = torch.zeros(1, 2, dtype=torch.long, device=whole.get_input_embeddings().weight.device)
        with torch.inference_mode():
            self._output = whole.base_model(input_ids=ids)

    @torch.inference_mode()
    def __call__(self, states: Tensor) -> Tensor:
        given = copy(self._output)
        given["last_hidden_state"] = states.unsqueeze(0)
        with computing(self.whole.base_model, lambda *_, **__: given):
            return self.whole(input_ids=torch.zeros(1, len(states), dtype=torch.long, device=states.device)).logits[0]


def head_of(encoder: HuggingFaceEncoder, embeddings: Tensor | None = None) -> WholeHead:
    """The head the encoder was loaded with; `embeddings` replace the ones its scores are tied to."""
    if encoder.head is None:
        raise AnalysisError(
            f"{encoder.name} has no language-model head, so it says nothing of tokens",
            fix="load a checkpoint that holds its head (head=True), name a head_file, or leave analyses of language "
            "models out",
        )
    if embeddings is None:
        return WholeHead(encoder.head)
    scores: Module | None = encoder.head.get_output_embeddings()
    if scores is None or scores.weight is not encoder.head.get_input_embeddings().weight:
        raise AnalysisError(
            f"the head of {encoder.name} is not tied to its embeddings", fix='use head="reference" or "own"'
        )
    made = deepcopy(encoder.head)
    made.get_output_embeddings().weight = Parameter(embeddings.detach().clone(), requires_grad=False)
    return WholeHead(made)


def check_head(head: Head, encoder: HuggingFaceEncoder) -> None:
    """The head must take the encoder's states and score its vocabulary."""
    width, rows = encoder.widths[-1], encoder.model.get_input_embeddings().weight.shape[0]
    try:
        scores = head(torch.zeros(1, width, device=encoder.device, dtype=encoder.model.dtype))
    except RuntimeError as error:
        raise AnalysisError(
            f"the head does not take states of {encoder.name}, which are {width} wide, in {encoder.model.dtype}",
            fix="use its own head, and load all models with one dtype",
        ) from error
    if scores.shape[-1] != rows:
        raise AnalysisError(
            f"the head scores {scores.shape[-1]} tokens, but {encoder.name} has {rows}",
            fix="use the head that was trained with this vocabulary (a tuned model may have added tokens)",
        )


def same_tokens(
    sentences: Sequence[Sentence], first: Iterable[Encoded], second: Iterable[Encoded], one: str, other: str
) -> None:
    """An error that names the first sentence which two models read as different tokens."""
    for sentence, a, b in zip(sentences, first, second, strict=True):
        if a.ids != b.ids:
            raise AnalysisError(
                f"{one} and {other} read {sentence.source or f'sentence {sentence.id}'} as different tokens "
                f"({len(a.ids)} and {len(b.ids)}), so they are not compared token by token",
                fix="compare models with one tokenizer, or leave the reference out",
            )
