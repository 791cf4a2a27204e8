"""Sentences run together are of similar length: padding is work for nothing."""

import numpy as np

from vestige.representations.extract import ENOUGH_TOKENS, PADDED_SHARE, batches_by_length

LENGTHS = np.random.default_rng(0).geometric(1 / 20, 1000).clip(3, 120).tolist()


def test_little_of_what_a_model_sees_is_padding():
    batches = list(batches_by_length(LENGTHS, 4096))
    padded = sum(len(batch) * max(LENGTHS[number] for number in batch) for batch in batches)
    assert padded < 1.06 * sum(LENGTHS)
    assert len(batches) < padded / ENOUGH_TOKENS + 10, "nor are batches needlessly small"


def test_a_batch_of_enough_tokens_takes_no_sentence_much_shorter_than_its_longest():
    for batch in batches_by_length(LENGTHS, 4096):
        longest = LENGTHS[batch[0]]
        enough = -(-ENOUGH_TOKENS // longest)
        assert all(LENGTHS[number] >= (1 - PADDED_SHARE) * longest for number in batch[enough:])


def test_sentences_of_one_length_fill_a_batch():
    assert [len(batch) for batch in batches_by_length([16] * 600, 4096)] == [256, 256, 88]


def test_nothing_gives_no_batch():
    assert list(batches_by_length([], 4096)) == []
