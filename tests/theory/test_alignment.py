"""Words and sub-words: what holds for every family whatever its weights."""

import numpy as np
import pytest
import tiny

from vestige.corpus.types import Sentence
from vestige.errors import CorpusError, RepresentationError
from vestige.models.tokens.align import SPECIAL
from vestige.representations.extract import batches_by_length, represent
from vestige.representations.pool import WORD_POOLINGS
from vestige.representations.store import Representations

SENTENCES = [Sentence(f"s{i}", tuple(line.split()), source=f"text:{i + 1}") for i, line in enumerate(tiny.TEXT)]
SENTENCES += [Sentence("one", ("Please",)), Sentence("two", ("the", "dog"))]
LIMITED = tuple(family for family in tiny.FAMILIES if family not in ("xlnet", "t5"))


def mark(family: str) -> str:
    """What the tokenizer writes into a piece to say that a word starts, or goes on, there."""
    return "##" if family in tiny.LOWERCASING else "Ġ" if family in tiny.BYTE_LEVEL else "▁"


@pytest.fixture(params=tiny.FAMILIES)
def family(request) -> str:
    return request.param


@pytest.fixture
def encoder(family, tiny_encoder):
    return tiny_encoder(family)


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


def vectors(found: Representations, layer: int) -> dict[tuple[int, int], np.ndarray]:
    """By (sentence number, word number)."""
    return {(int(s), int(w)): row for (s, w), row in zip(found.index, found.layer(layer), strict=True)}


def test_the_pieces_of_a_word_put_together_are_the_word(family, encoder):
    for sentence, encoded in zip(SENTENCES, encoder.encode(SENTENCES), strict=True):
        pieces = encoder.tokenizer.convert_ids_to_tokens(list(encoded.ids))
        words = [
            "".join(p for p, w in zip(pieces, encoded.word_of, strict=True) if w == n) for n in range(encoded.words)
        ]
        expected = [word.lower() if family in tiny.LOWERCASING else word for word in sentence.words]
        assert [word.replace(mark(family), "") for word in words] == expected


def test_first_last_mean_and_max_agree_on_words_of_one_piece_and_differ_on_others(encoder, cache):
    found = represent(encoder, SENTENCES, WORD_POOLINGS, cache=cache)
    pieces = np.concatenate([np.bincount([w for w in e.word_of if w != SPECIAL]) for e in encoder.encode(SENTENCES)])
    assert (pieces == 1).sum() >= 5
    for layer in range(found["last"].layers):
        first, last, mean, highest = (found[pooling].layer(layer) for pooling in WORD_POOLINGS)
        single, several = pieces == 1, pieces > 1
        for other in (first, mean, highest):
            np.testing.assert_array_equal(other[single], last[single])
        assert (first[several] != last[several]).any(axis=1).all()
        two = pieces == 2
        assert_close(mean[two], (first[two] + last[two]) / 2)
        assert_close(highest[two], np.maximum(first[two], last[two]))


@pytest.mark.parametrize("family", tiny.FAMILIES, indirect=True)
def test_the_summary_token_is_where_the_family_has_it(family, encoder):
    for encoded in encoder.encode(SENTENCES):
        place = encoder.summary_position(encoded)
        assert place == (len(encoded.ids) - 1 if family in tiny.SUMMARY_LAST else 0)
        if encoder.tokenizer.cls_token_id is not None:
            assert encoded.ids[place] == encoder.tokenizer.cls_token_id


def test_the_order_of_sentences_is_irrelevant(encoder, cache):
    order = np.random.default_rng(0).permutation(len(SENTENCES))
    straight = represent(encoder, SENTENCES, ("last", "cls"), cache=cache / "a", batch_tokens=60)
    shuffled = represent(encoder, [SENTENCES[i] for i in order], ("last", "cls"), cache=cache / "b", batch_tokens=60)
    for layer in range(straight["last"].layers):
        expected, found = (vectors(r["last"], layer) for r in (straight, shuffled))
        assert len(found) == len(expected)
        for (sentence, word), vector in found.items():
            assert_close(vector, expected[int(order[sentence]), word])
        assert_close(shuffled["cls"].layer(layer), straight["cls"].layer(layer)[order])


def test_a_batch_of_one_equals_a_batch_of_all(encoder, cache):
    poolings = ("last", "cls", "sentence_mean")
    one = represent(encoder, SENTENCES, poolings, cache=cache / "one", batch_tokens=1)
    all_ = represent(encoder, SENTENCES, poolings, cache=cache / "all", batch_tokens=10**6)
    for pooling in poolings:
        for layer in range(one[pooling].layers):
            assert_close(all_[pooling].layer(layer), one[pooling].layer(layer))


@pytest.mark.parametrize("tokens", [1, 7, 20, 1000])
def test_batches_hold_every_sentence_once_within_the_given_tokens(tokens):
    lengths = [3, 9, 1, 4, 4, 30, 2, 9]
    batches = list(batches_by_length(lengths, tokens))
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[number] for number in batch) <= tokens


LONG = Sentence("long", tuple(" ".join(tiny.TEXT).split()), source="long.txt:3")


class TestTruncation:
    @pytest.mark.parametrize("family", LIMITED, indirect=True)
    def test_the_longest_prefix_of_whole_words_is_kept(self, encoder):
        exact = 0
        for start in range(20):
            words = LONG.words[start:]
            (encoded,) = encoder.encode([Sentence("long", words)])
            assert 0 < encoded.kept < encoded.words == len(words)
            assert len(encoded.ids) <= encoder.limit
            (alone,) = encoder.encode([Sentence("prefix", words[: encoded.kept])])
            assert (alone.ids, alone.word_of, alone.kept) == (encoded.ids, encoded.word_of, alone.words)
            tokens = encoder.tokenizer(list(words[: encoded.kept + 1]), is_split_into_words=True)["input_ids"]
            assert len(tokens) > encoder.limit, "one more word would have fitted"
            exact += len(encoded.ids) == encoder.limit
        assert exact, "no sentence fills the limit to the last token"

    @pytest.mark.parametrize("family", LIMITED, indirect=True)
    def test_kept_words_have_rows_and_the_others_are_counted(self, encoder, cache):
        found = represent(encoder, [SENTENCES[0], LONG, SENTENCES[1]], cache=cache)["last"]
        kept = encoder.encode([LONG])[0].kept
        assert np.bincount(found.index[:, 0]).tolist() == [len(SENTENCES[0].words), kept, len(SENTENCES[1].words)]
        assert found.index[found.index[:, 0] == 1, 1].tolist() == list(range(kept))
        assert found.manifest["truncated_sentences"] == 1
        assert found.manifest["truncated_words"] == len(LONG.words) - kept
        prefix = represent(encoder, [Sentence("prefix", LONG.words[:kept])], cache=cache)["last"]
        for layer in range(found.layers):
            assert_close(found.layer(layer)[found.index[:, 0] == 1], prefix.layer(layer))

    def test_a_model_without_limit_keeps_everything(self, tiny_encoder):
        (encoded,) = tiny_encoder("xlnet").encode([Sentence("long", LONG.words * 9)])
        assert encoded.kept == encoded.words == 9 * len(LONG.words)

    @pytest.mark.parametrize("family", LIMITED, indirect=True)
    def test_with_error_an_overlong_sentence_is_named(self, encoder, cache):
        with pytest.raises(CorpusError, match=r"long\.txt:3: \d+ tokens, but the model takes 64"):
            represent(encoder, [SENTENCES[0], LONG], on_overflow="error", cache=cache)
        represent(encoder, SENTENCES, on_overflow="error", cache=cache)

    @pytest.mark.parametrize("family", LIMITED, indirect=True)
    def test_a_first_word_that_does_not_fit_is_named(self, encoder):
        with pytest.raises(CorpusError, match=r"x\.txt:1: not even the first word fits into 64 tokens"):
            encoder.encode([Sentence("x", ("-" * 99, "dog"), source="x.txt:1")])

    @pytest.mark.parametrize("family", LIMITED, indirect=True)
    def test_of_a_pair_only_the_second_segment_is_shortened(self, encoder):
        pair = Sentence("pair", SENTENCES[0].words[:6], LONG.words)
        (encoded,) = encoder.encode([pair])
        assert 6 < encoded.kept < encoded.words
        assert len(encoded.ids) <= encoder.limit
        second = list(LONG.words[: encoded.kept - 6])
        assert list(encoded.ids) == encoder.tokenizer(list(pair.words), second, is_split_into_words=True)["input_ids"]
        with pytest.raises(CorpusError, match="not even the first segment and a word of the second fit"):
            encoder.encode([Sentence("pair", LONG.words, ("the",))])


NOTHING = {
    family: ("", "\u200b", "\u0000", "\u00ad", "\ufeff") if family in tiny.LOWERCASING else ("",)
    for family in tiny.FAMILIES
}
"""Words of which the family's tokenizer makes no token."""


class TestVanishedWords:
    @pytest.fixture
    def broken(self, family) -> Sentence:
        return Sentence("v", ("the", *NOTHING[family], "dog"), source="v.txt:8")

    @pytest.fixture
    def whole(self) -> Sentence:
        return Sentence("w", ("the", "dog"))

    def test_zero_gives_zeros_at_every_layer_and_counts(self, family, encoder, broken, whole, cache):
        found = represent(encoder, [broken, whole], WORD_POOLINGS, cache=cache)
        gone = len(NOTHING[family])
        for pooling in WORD_POOLINGS:
            assert found[pooling].manifest["vanished_words"] == gone
            for layer in range(found[pooling].layers):
                rows = found[pooling].layer(layer)
                assert len(rows) == gone + 4
                assert not rows[1 : 1 + gone].any()
                assert_close(rows[[0, 1 + gone]], rows[-2:])

    def test_skip_leaves_the_row_out_and_keeps_word_numbers(self, family, encoder, broken, whole, cache):
        found = represent(encoder, [broken, whole], on_vanished="skip", cache=cache)["last"]
        assert found.index.tolist() == [[0, 0], [0, 1 + len(NOTHING[family])], [1, 0], [1, 1]]
        assert found.manifest["vanished_words"] == len(NOTHING[family])
        for layer in range(found.layers):
            assert_close(found.layer(layer)[:2], found.layer(layer)[2:])

    def test_error_names_sentence_and_word(self, encoder, broken, whole, cache):
        with pytest.raises(
            RepresentationError, match=r"v\.txt:8: the tokenizer of tiny \w+ makes no token of word 2, ''"
        ):
            represent(encoder, [whole, broken], on_vanished="error", cache=cache)
        represent(encoder, [whole], on_vanished="error", cache=cache)

    def test_a_sentence_that_vanishes_whole_is_named(self, tiny_encoder):
        with pytest.raises(CorpusError, match=r"e\.txt:1: the tokenizer makes no token of it at all"):
            tiny_encoder("gpt2").encode([Sentence("e", ("", ""), source="e.txt:1")])


class TestPairs:
    PAIR = Sentence("p", ("The", "fox", "didn't", "jump"), ("the", "unbelievable", "dog", "?"))

    def test_tokens_are_those_the_tokenizer_gives_itself(self, encoder):
        own = encoder.tokenizer(
            list(self.PAIR.words), list(self.PAIR.second), is_split_into_words=True, return_token_type_ids=True
        )
        mixed = encoder.encode([SENTENCES[0], self.PAIR, SENTENCES[1]])
        assert list(mixed[1].ids) == own["input_ids"]
        assert list(mixed[1].type_ids) == own["token_type_ids"]
        assert [mixed[0], mixed[2]] == encoder.encode([SENTENCES[0], SENTENCES[1]])

    def test_words_are_counted_on_through_the_second_segment(self, encoder):
        (encoded,) = encoder.encode([self.PAIR])
        numbers = [word for word in encoded.word_of if word != SPECIAL]
        assert numbers == sorted(numbers)
        assert {*numbers} == set(range(8))
        assert (encoded.words, encoded.kept) == (8, 8)
