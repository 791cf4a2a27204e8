"""Sentences wrapped into a tokenizer's chat template, every token still tied to its word.

The whole message is encoded as text, the way an instruction-tuned model saw it in training; the
tokenizer's character offsets say which word a token came from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vestige.corpus.types import Sentence
from vestige.errors import ModelError
from vestige.models.tokens.align import SPECIAL, Encoded

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MARK = "vestigemark"


def frame_of(tokenizer: PreTrainedTokenizerBase, role: str) -> tuple[str, str]:
    """What the template writes before and after a message of the role."""
    if not getattr(tokenizer, "chat_template", None):
        raise ModelError(
            "the tokenizer has no chat template", fix="leave `chat` out, or name an instruction-tuned model"
        )
    try:
        text = tokenizer.apply_chat_template([{"role": role, "content": _MARK}], tokenize=False)
    except Exception as error:
        raise ModelError(
            f"the chat template refuses a message of role {role!r} ({error})", fix='try chat="user"'
        ) from error
    before, mark, after = text.partition(_MARK)
    if not mark or _MARK in after:
        raise ModelError("the chat template does not show the message once, as it is", fix="leave `chat` out")
    return before, after


def encode_chat(
    tokenizer: PreTrainedTokenizerBase, frame: tuple[str, str], sentences: Sequence[Sentence]
) -> list[Encoded]:
    """Tokens of whole messages; a token that spans two words, or the template and a word, counts for the first word."""
    encoded = []
    for sentence in sentences:
        words = sentence.all_words
        ends, at = [], len(frame[0])
        for word in words:
            at += len(word) + 1
            ends.append(at)
        text = frame[0] + " ".join(words) + frame[1]
        made = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        word_of = tuple(_word(text, start, end, len(frame[0]), ends) for start, end in made["offset_mapping"])
        ids = tuple(made["input_ids"])
        encoded.append(Encoded(ids, (0,) * len(ids), word_of, len(words), len(words)))
    return encoded


def _word(text: str, start: int, end: int, first: int, ends: list[int]) -> int:
    """The word that text[start:end] begins in; spaces belong to the word that they precede."""
    if end <= first:
        return SPECIAL
    while start < ends[-1] - 1 and text[start].isspace():
        start += 1
    return bisect_right(ends, start) if start < ends[-1] - 1 else SPECIAL
