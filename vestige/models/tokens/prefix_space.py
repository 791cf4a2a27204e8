"""Tokenizers that mark word starts by a space, made fit for words that are already split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenizers import normalizers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def with_prefix_space(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Tokenizers that mark word starts by a space must see one before every word, the first included.

    Without it the words of a pre-split input are cut like the middles of other words. Byte-level
    pre-tokenizers (RoBERTa, GPT-2) have a flag for it; where one is not alone (Llama 3, Qwen) or
    there is none (Gemma) the space is put in front by a normalizer.
    """
    backend = tokenizer.backend_tokenizer
    if hasattr(backend.pre_tokenizer, "add_prefix_space"):
        backend.pre_tokenizer.add_prefix_space = True
    if hasattr(tokenizer, "add_prefix_space"):
        tokenizer.add_prefix_space = True
    if not _starts_words_as_in_text(tokenizer):
        before = [] if backend.normalizer is None else [backend.normalizer]
        backend.normalizer = normalizers.Sequence([normalizers.Prepend(" "), *before])
    return tokenizer


def _starts_words_as_in_text(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the second word of ["a", "a"] gets the tokens that it gets in "a a"."""
    split = tokenizer(["a", "a"], is_split_into_words=True, add_special_tokens=False)
    second = [token for token, word in zip(split["input_ids"], split.word_ids(), strict=True) if word == 1]
    one, two = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("a", "a a"))
    return second == two[len(one) :]
