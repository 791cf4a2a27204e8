"""Words and their sub-words, case by case, on tokenizers whose vocabularies are written out here.

The situations are those that the aligners of jiant and NeuroX are tested on: pieces of every kind
of tokenizer, spans, unknown and vanished words, sentences at and past the limit. The tables are
made by hand and can be derived again: the pieces of a word put together are the word.
"""

from collections.abc import Sequence
from functools import cache

import pytest
import tiny
from fixed_tokenizers import CONTROL, KINDS
from tokenizers import decoders
from transformers import BertConfig, BertModel

from vestige.corpus.types import Sentence
from vestige.errors import CorpusError
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.tokens.align import Encoded

SPECIALS = 2
"""[CLS] words [SEP]"""
PAIR_SPECIALS = 3
"""[CLS] words [SEP] words [SEP]"""
BYTES = ("byte_bpe", "split_byte_bpe")

_BYTE_TABLE = {
    "the": "Ġthe",
    "Nora's": "ĠNora 's",
    "kettle": "Ġket tle",
    "didn't": "Ġdidn 't",
    "boil.": "Ġboil .",
    "unbelievable": "Ġun believ able",
    "well-mixed": "Ġwell - mix ed",
    "a.m.": "Ġa . m .",
    "Why?!": "ĠWhy ?!",
}
TABLES = {
    "wordpiece": {
        "the": "the",
        "Nora's": "nora ' s",
        "kettle": "ket ##tle",
        "didn't": "didn ' t",
        "boil.": "boil .",
        "unbelievable": "un ##believ ##able",
        "well-mixed": "well - mix ##ed",
        "a.m.": "a . m .",
        "Why?!": "why ? !",
    },
    "suffix_bpe": {
        "the": "the</w>",
        "Nora's": "nora</w> '</w> s</w>",
        "kettle": "ket tle</w>",
        "didn't": "didn</w> '</w> t</w>",
        "boil.": "boil</w> .</w>",
        "unbelievable": "un believ able</w>",
        "well-mixed": "well</w> -</w> mix ed</w>",
        "a.m.": "a</w> .</w> m</w> .</w>",
        "Why?!": "why</w> ?</w> !</w>",
    },
    "byte_bpe": _BYTE_TABLE,
    "split_byte_bpe": _BYTE_TABLE,
    "unigram": {
        "the": "▁the",
        "Nora's": "▁nora ' s",
        "kettle": "▁ket tle",
        "didn't": "▁didn ' t",
        "boil.": "▁boil .",
        "unbelievable": "▁un believ able",
        "well-mixed": "▁well - mix ed",
        "a.m.": "▁a . m .",
        "Why?!": "▁why ? !",
    },
}
WORDS = tuple(_BYTE_TABLE)

SPANS = {
    "wordpiece": {(0, 1): (1, 2), (1, 3): (2, 7), (3, 5): (7, 12), (5, 7): (12, 19), (8, 9): (23, 26), (0, 9): (1, 26)},
    "byte_bpe": {(0, 1): (1, 2), (1, 3): (2, 6), (3, 5): (6, 10), (5, 7): (10, 17), (8, 9): (21, 23), (0, 9): (1, 23)},
}
"""Half-open spans of WORDS -> of tokens, [CLS] counted."""
SPANS |= {"suffix_bpe": SPANS["wordpiece"], "split_byte_bpe": SPANS["byte_bpe"], "unigram": SPANS["wordpiece"]}


@cache
def encoder(kind: str, limit: int = 512) -> HuggingFaceEncoder:
    """A tokenizer with a model that takes so many tokens."""
    tokenizer = KINDS[kind]()
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4,
        max_position_embeddings=limit,
    )  # fmt: skip
    return HuggingFaceEncoder(BertModel(config), tokenizer, kind)


def encode(kind: str, words: Sequence[str], second: Sequence[str] = (), limit: int = 512) -> Encoded:
    (encoded,) = encoder(kind, limit).encode([Sentence("s", tuple(words), tuple(second), source="s.txt:1")])
    return encoded


def pieces(kind: str, encoded: Encoded) -> list[list[str]]:
    """The pieces of every kept word, in order."""
    tokens = encoder(kind).tokenizer.convert_ids_to_tokens(list(encoded.ids))
    found: list[list[str]] = [[] for _ in range(encoded.kept)]
    for token, word in zip(tokens, encoded.word_of, strict=True):
        if word >= 0:
            found[word].append(token)
    return found


def put_together(kind: str, parts: Sequence[str]) -> str:
    if kind in BYTES:
        return decoders.ByteLevel().decode(list(parts)).removeprefix(" ")
    return "".join(parts).replace("##", "").replace("</w>", "").replace("▁", "")


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


class TestTables:
    def test_every_word_has_the_pieces_of_the_table(self, kind):
        encoded = encode(kind, WORDS)
        assert pieces(kind, encoded) == [TABLES[kind][word].split() for word in WORDS]
        sizes = [len(TABLES[kind][word].split()) for word in WORDS]
        expected = [word for word, size in enumerate(sizes) for _ in range(size)]
        assert list(encoded.word_of) == [-1, *expected, -1]

    def test_the_table_follows_from_the_words(self, kind):
        for word, parts in TABLES[kind].items():
            assert put_together(kind, parts.split()) == (word if kind in BYTES else word.lower())

    def test_a_word_has_the_same_pieces_wherever_it_stands(self, kind):
        for shift in range(len(WORDS)):
            turned = WORDS[shift:] + WORDS[:shift]
            assert pieces(kind, encode(kind, turned)) == [TABLES[kind][word].split() for word in turned]

    @pytest.mark.parametrize("span", SPANS["wordpiece"])
    def test_spans_of_words_are_spans_of_tokens(self, kind, span):
        word_of = encode(kind, WORDS).word_of
        places = [place for place, word in enumerate(word_of) if span[0] <= word < span[1]]
        assert places == list(range(*SPANS[kind][span]))

    def test_in_a_pair_words_are_counted_on(self, kind):
        encoded = encode(kind, WORDS[:2], WORDS[2:4])
        assert pieces(kind, encoded) == [TABLES[kind][word].split() for word in WORDS[:4]]
        sizes = [len(TABLES[kind][word].split()) for word in WORDS[:4]]
        assert [place for place, word in enumerate(encoded.word_of) if word < 0] == [
            0,
            1 + sizes[0] + sizes[1],
            2 + sum(sizes),
        ]


GONE = {
    "wordpiece": ("", "\u200b", "\u00ad", "\u0001", "\ufeff", "\u0301", " ", "\u00a0", "\u2028", "\u200b\u00ad"),
    "suffix_bpe": ("", "\u200b", "\u00ad", "\u0001", "\ufeff", "\u0301", " ", "\u00a0", "\u2028", "\u200b\u00ad"),
    "byte_bpe": ("",),
    "split_byte_bpe": ("",),
    "unigram": ("", "\u0301", "\u0301\u0308"),
}
"""Words of which the tokenizer makes nothing; bytes are bytes, so byte-level ones lose no character."""
VANISHING = [(kind, word) for kind, words in GONE.items() for word in words]


@pytest.mark.parametrize(("kind", "gone"), VANISHING)
class TestVanishedWords:
    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("-x", [0]),
            ("x-x", [1]),
            ("x-", [1]),
            ("---x", [0, 1, 2]),
            ("x---x", [1, 2, 3]),
            ("x---", [1, 2, 3]),
            ("-x-x--x-", [0, 2, 4, 5, 7]),
            ("-", [0]),
            ("---", [0, 1, 2]),
        ],
    )
    def test_they_keep_their_number_and_shift_nobody(self, kind, gone, pattern, expected):
        words = [gone if letter == "-" else "kettle" for letter in pattern]
        encoded = encode(kind, words)
        assert encoded.vanished == expected
        assert (encoded.words, encoded.kept) == (len(words), len(words))
        kettle = TABLES[kind]["kettle"].split()
        assert pieces(kind, encoded) == [kettle if letter == "x" else [] for letter in pattern]
        assert encoded.ids == encode(kind, [word for word in words if word == "kettle"] or [gone]).ids

    def test_in_either_segment_of_a_pair(self, kind, gone):
        encoded = encode(kind, ["the", gone], [gone, "kettle", gone])
        the, kettle = ([*TABLES[kind][word].split()] for word in ("the", "kettle"))
        assert encoded.vanished == [1, 2, 4]
        assert pieces(kind, encoded) == [the, [], [], kettle, []]
        assert encoded.ids == encode(kind, ["the"], ["kettle"]).ids


@pytest.mark.parametrize("kind", BYTES)
def test_byte_level_tokenizers_make_something_of_every_character(kind):
    for word in {word for words in GONE.values() for word in words} - {""}:
        encoded = encode(kind, ["the", word, "dog"])
        assert not encoded.vanished
        assert put_together(kind, pieces(kind, encoded)[1]) in (word, word.removeprefix(" "))


class TestLimit:
    """`sizes` are those of the table: the(1) kettle(2) unbelievable(3) well-mixed(4)."""

    ORDER = ("kettle", "the", "unbelievable", "well-mixed", "the", "kettle")

    def fitting(self, kind: str, words: Sequence[str], room: int) -> int:
        sizes = [len(TABLES[kind][word].split()) for word in words]
        return max(count for count in range(len(words) + 1) if sum(sizes[:count]) <= room)

    def test_as_many_whole_words_as_fit_whatever_the_limit(self, kind):
        full = SPECIALS + sum(len(TABLES[kind][word].split()) for word in self.ORDER)
        assert full == SPECIALS + 13
        for limit in range(SPECIALS + 2, full + 2):
            encoded = encode(kind, self.ORDER, limit=limit)
            kept = self.fitting(kind, self.ORDER, limit - SPECIALS)
            assert (encoded.words, encoded.kept) == (6, kept), limit
            assert encoded.ids == encode(kind, self.ORDER[:kept]).ids
            assert pieces(kind, encoded) == [TABLES[kind][word].split() for word in self.ORDER[:kept]]

    def test_of_a_pair_the_second_segment_loses_words(self, kind):
        first = self.ORDER[:2]
        second = self.ORDER[2:]
        full = PAIR_SPECIALS + 13
        for limit in range(PAIR_SPECIALS + 3 + 3, full + 2):
            encoded = encode(kind, first, second, limit=limit)
            kept = self.fitting(kind, self.ORDER, limit - PAIR_SPECIALS)
            assert (encoded.words, encoded.kept) == (6, kept), limit
            assert encoded.ids == encode(kind, first, second[: kept - 2]).ids

    @pytest.mark.parametrize(
        ("words", "limit", "kept", "length"),
        [
            ("unbelievable kettle", 7, 2, 7),  # an exact fit
            ("unbelievable kettle", 6, 1, 5),  # cut in the middle of the second word
            ("unbelievable kettle the", 7, 2, 7),  # cut between words
            ("unbelievable", 5, 1, 5),
        ],
    )
    def test_a_word_is_kept_whole_or_not_at_all(self, kind, words, limit, kept, length):
        encoded = encode(kind, words.split(), limit=limit)
        assert (encoded.kept, len(encoded.ids)) == (kept, length)

    @pytest.mark.parametrize(
        ("words", "limit", "kept", "vanished"),
        [
            ("unbelievable - ", 5, 2, [1]),  # an exact fit, then a vanished word: nothing is lost
            ("unbelievable - kettle", 5, 2, [1]),  # the break comes after the vanished word
            ("unbelievable - - kettle", 6, 3, [1, 2]),
            ("- unbelievable kettle", 6, 2, [0]),
            ("the kettle - the", 4, 1, []),  # the break comes before it
            ("the - kettle - the", 5, 4, [1, 3]),
            ("the - kettle - unbelievable", 5, 4, [1, 3]),
        ],
    )
    def test_vanished_words_take_no_room(self, kind, words, limit, kept, vanished):
        given = [GONE[kind][-1] if word == "-" else word for word in words.split()]
        encoded = encode(kind, given, limit=limit)
        assert (encoded.kept, encoded.vanished) == (kept, vanished)
        assert encoded.words == len(given)

    def test_a_first_word_that_does_not_fit_is_an_error(self, kind):
        with pytest.raises(CorpusError, match=r"s\.txt:1: not even the first word fits into 4 tokens"):
            encode(kind, ["unbelievable", "the"], limit=4)
        with pytest.raises(CorpusError, match=r"s\.txt:1: not even the first segment and a word of the second fit"):
            encode(kind, ["kettle", "the"], ["unbelievable"], limit=8)


SNOWMAN = {"wordpiece": "[UNK]", "suffix_bpe": "[UNK]", "unigram": "▁ [UNK]"} | dict.fromkeys(BYTES, "Ġ â ĺ ĥ")


class TestUnknownWords:
    @pytest.mark.parametrize("order", ["the ☃ kettle", "☃ the kettle", "the kettle ☃", "☃ ☃ ☃"])
    def test_they_keep_their_place(self, kind, order):
        encoded = encode(kind, order.split())
        table = {**TABLES[kind], "☃": SNOWMAN[kind]}
        assert pieces(kind, encoded) == [table[word].split() for word in order.split()]
        assert not encoded.vanished

    def test_a_part_that_is_unknown_is_a_part_of_the_word(self):
        assert pieces("wordpiece", encode("wordpiece", ["well-☃", "dog"])) == [["well", "-", "[UNK]"], ["dog"]]
        assert pieces("unigram", encode("unigram", ["well-☃", "dog"])) == [["▁well", "-", "[UNK]"], ["▁dog"]]


class TestUnicode:
    @pytest.mark.parametrize(("kind", "expected"), [("wordpiece", ["caf", "##e"]), ("unigram", ["▁caf", "e"])])
    @pytest.mark.parametrize("word", ["café", "cafe\u0301", "CAFÉ", "ca\u0301fe\u0301", "cafe\u0301\u0308"])
    def test_accents_composed_or_combining_are_taken_off(self, kind, expected, word):
        assert pieces(kind, encode(kind, ["the", word, "dog"]))[1] == expected

    @pytest.mark.parametrize("kind", BYTES)
    @pytest.mark.parametrize(
        "word", ["café", "cafe\u0301", "ﬁsh", "İ", "नमस्ते", "你好", "👩\u200d👧", "🇫🇷", "e\u0301\u0308"]
    )
    def test_byte_level_pieces_give_the_word_back(self, kind, word):
        encoded = encode(kind, ["the", word, "dog"])
        assert put_together(kind, pieces(kind, encoded)[1]) == word
        assert pieces(kind, encoded)[2] == ["Ġdog"]

    def test_chinese_characters_are_pieces_of_one_word(self):
        assert pieces("wordpiece", encode("wordpiece", ["你好", "你", "dog"])) == [["你", "[UNK]"], ["你"], ["dog"]]
        assert pieces("unigram", encode("unigram", ["你好", "你", "dog"])) == [["▁你", "[UNK]"], ["▁你"], ["▁dog"]]

    @pytest.mark.parametrize("word", ["👍", "👩\u200d👧", "🇫🇷"])
    def test_an_emoji_of_several_characters_is_one_word(self, kind, word):
        encoded = encode(kind, ["the", word, "dog"])
        assert not encoded.vanished
        assert len(pieces(kind, encoded)[1]) >= 1
        assert encoded.word_of[1] == 0
        assert [word for word in encoded.word_of if word >= 0][-1] == 2

    def test_a_word_with_a_space_in_it_is_one_word(self):
        assert pieces("wordpiece", encode("wordpiece", ["10 000", "dog"])) == [["10", "000"], ["dog"]]


LOOKALIKES = (*CONTROL, "</s>", "<s>", "<unk>", "[MASK]", "##ing", "##", "Ġthe", "▁the", "the</w>", "dog[SEP]dog")


class TestLookalikes:
    """Words spelt like something of the tokenizer's own."""

    @pytest.mark.parametrize("word", LOOKALIKES)
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_they_are_words_in_their_place_and_nothing_else(self, kind, word, place):
        words = ["kettle", "kettle"]
        words.insert(place, word)
        encoded = encode(kind, words)
        assert not encoded.vanished
        assert [at for at, number in enumerate(encoded.word_of) if number < 0] == [0, len(encoded.ids) - 1]
        numbers = [number for number in encoded.word_of if number >= 0]
        assert numbers == sorted(numbers)
        found = pieces(kind, encoded)
        assert [found[n] for n in range(3) if n != place] == [TABLES[kind]["kettle"].split()] * 2
        assert encoder(kind).summary_position(encoded) == 0

    def test_pieces_in_the_spelling_of_continuations_are_text(self):
        assert pieces("wordpiece", encode("wordpiece", ["un", "##ing"])) == [["un"], ["#", "#", "[UNK]"]]

    @pytest.mark.parametrize("family", tiny.FAMILIES)
    def test_no_family_takes_a_word_for_a_boundary(self, family, tiny_encoder):
        made = tiny_encoder(family)
        (plain,) = made.encode([Sentence("s", ("the", "dog"))])
        summary = plain.word_of[made.summary_position(plain)]
        for word in made.tokenizer.all_special_tokens:
            (encoded,) = made.encode([Sentence("s", (word, "the", word, "dog", word))])
            assert sum(number < 0 for number in encoded.word_of) == sum(number < 0 for number in plain.word_of)
            assert not encoded.vanished
            assert encoded.word_of[made.summary_position(encoded)] == (summary if summary < 0 else 4)


AWKWARD = (
    "well-mixed", "a.m.", "don't", "U.S.", "'s", "(a)", "...", "e\u0301", "café", "ﬁ", "½", "你好", "日本語", "한국어",
    "नमस्ते", "שלום", "👍", "👩\u200d👧", "🇫🇷", "x\u200by", "10 000", "a\tb", "İstanbul", "ǅ", "\U0001d54f", "<b>", "&amp;",
)  # fmt: skip


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_tokens_of_a_sentence_are_those_of_its_words(family, tiny_encoder):
    """Whatever its neighbours, a word is cut as it is cut alone."""
    made = tiny_encoder(family)

    def tokens(words: Sequence[str]) -> list[list[int]]:
        (encoded,) = made.encode([Sentence("s", tuple(words))])
        numbers = [number for number in encoded.word_of if number >= 0]
        assert numbers == sorted(numbers)
        assert encoded.kept == len(words)
        pairs = list(zip(encoded.ids, encoded.word_of, strict=True))
        return [[token for token, number in pairs if number == word] for word in range(len(words))]

    alone = {word: tokens([word])[0] for word in AWKWARD}
    assert all(alone.values())
    for start in range(len(AWKWARD)):
        three = (*AWKWARD, *AWKWARD)[start : start + 3]
        assert tokens(three) == [alone[word] for word in three]
