"""Inputs of training: cut to the limit, whatever they are."""

import tiny

from vestige.corpus.types import Sentence
from vestige.finetune.examples import encode

LIMIT = 16


def test_a_first_word_that_fills_the_limit_keeps_its_first_tokens():
    endless = "unbelievable" * 8
    for family in ("bert", "roberta", "xlnet", "llama"):
        tokenizer = tiny.tokenizer(family)
        sentences = [Sentence("a", ("The", "dog")), Sentence("b", (endless, "dog")), Sentence("c", (endless,))]
        (plain, long, single), cut = encode(tokenizer, sentences, LIMIT)
        assert len(long.ids) == len(single.ids) == LIMIT > len(plain.ids)
        assert (long.words, long.kept, single.kept, cut) == (2, 1, 1, 1)
        assert set(long.word_of) - {-1} == {0}
        whole = tokenizer([endless], is_split_into_words=True)
        specials = sum(word is None for word in whole.word_ids())
        words = [token for token, word in zip(long.ids, long.word_of, strict=True) if word == 0]
        assert words == [t for t, w in zip(whole["input_ids"], whole.word_ids(), strict=True) if w == 0][: len(words)]
        assert len(words) == LIMIT - specials
