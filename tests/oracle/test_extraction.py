"""Hidden states against transformers itself, run on every sentence alone.

The reference tokenises running text and finds words by character offsets: it shares neither
batching, nor alignment, nor pooling with the code under test.
"""

from copy import deepcopy

import numpy as np
import pytest
import tiny
import torch
from transformers import AutoModel, AutoTokenizer

from vestige.corpus.types import Sentence
from vestige.models.files.load import load_model
from vestige.models.files.sources import minilm_folder
from vestige.representations.extract import represent
from vestige.representations.pool import POOLINGS, SENTENCE_POOLINGS, WORD_POOLINGS

FRAGMENTS = " ".join(tiny.TEXT).split()


def sentences(count: int, longest: int) -> list[Sentence]:
    """Stretches of the toy text, of every length from one word on, long and short mixed."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        length = 1 + number * (longest - 1) // (count - 1)
        start = int(rng.integers(0, len(FRAGMENTS) - length))
        made.append(Sentence(f"s{number}", tuple(FRAGMENTS[start : start + length])))
    return [made[i] for i in rng.permutation(count)]


def word_of(text: str, end: int) -> int:
    """Which word of the text a token that ends before character `end` belongs to."""
    before = len(text[:end].split())
    return before if end == 0 or text[end - 1] == " " else before - 1


@torch.no_grad()
def reference(model, tokenizer, sentence: Sentence, summary: int, byte_level: bool) -> dict[str, list[np.ndarray]]:
    """Per pooling the layers of one sentence, (words or 1, width)."""
    text = " " * byte_level + " ".join(sentence.words)
    inputs = tokenizer(text, return_tensors="pt", return_offsets_mapping=True, return_special_tokens_mask=True)
    offsets, special = inputs.pop("offset_mapping")[0], inputs.pop("special_tokens_mask")[0]
    groups: list[list[int]] = [[] for _ in sentence.words]
    for place, ((_, end), no_word) in enumerate(zip(offsets.tolist(), special.tolist(), strict=True)):
        if not no_word:
            groups[word_of(text, end)].append(place)
    states = [state[0] for state in model(**inputs, output_hidden_states=True).hidden_states]
    return {
        "first": [torch.stack([h[g[0]] for g in groups]).numpy() for h in states],
        "last": [torch.stack([h[g[-1]] for g in groups]).numpy() for h in states],
        "mean": [torch.stack([h[g].mean(0) for g in groups]).numpy() for h in states],
        "max": [torch.stack([h[g].amax(0) for g in groups]).numpy() for h in states],
        "pieces": [h[[place for group in groups for place in group]].numpy() for h in states],
        "cls": [h[summary][None].numpy() for h in states],
        "sentence_mean": [h.mean(0)[None].numpy() for h in states],
        "sentence_word_mean": [h[[place for group in groups for place in group]].mean(0)[None].numpy() for h in states],
        "sentence_last": [h[-1][None].numpy() for h in states],
        "sentence_max": [h.amax(0)[None].numpy() for h in states],
    }


def assert_equal_to_reference(found, expected) -> None:
    for pooling in POOLINGS:
        for layer in range(found[pooling].layers):
            target = np.concatenate([one[pooling][layer] for one in expected])
            tolerance = 1e-5 * max(1.0, float(np.abs(target).max()))
            np.testing.assert_allclose(found[pooling].layer(layer), target, rtol=0, atol=tolerance)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_every_layer_of_every_pooling_is_that_of_the_sentence_alone(family, tiny_encoder, cache):
    given = sentences(12, 14)
    found = represent(tiny_encoder(family), given, POOLINGS, cache=cache, batch_tokens=150)
    summary = -1 if family in tiny.SUMMARY_LAST else 0
    model, tokenizer = tiny.stack(family), tiny.tokenizer(family)
    expected = [reference(model, tokenizer, s, summary, family in tiny.BYTE_LEVEL) for s in given]
    assert found["last"].layers == len(expected[0]["last"]) == 4
    assert_equal_to_reference(found, expected)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_tokenizers_padding_side_changes_nothing(family, cache):
    given = sentences(8, 14)
    found = {}
    for side in ("left", "right"):
        tokenizer = deepcopy(tiny.tokenizer(family))
        tokenizer.padding_side = side
        encoder = load_model(tiny.model(family), tokenizer=tokenizer)
        found[side] = represent(encoder, given, POOLINGS, cache=cache / side)
    for pooling in POOLINGS:
        for layer in range(4):
            np.testing.assert_array_equal(found["left"][pooling].layer(layer), found["right"][pooling].layer(layer))


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_pairs_give_the_hidden_states_of_the_pair_alone(family, tiny_encoder, cache):
    encoder = tiny_encoder(family)
    given = [
        Sentence("a", ("the", "lazy", "dog"), ("their", "teachers", "walked", ".")),
        Sentence("b", ("Prices", "rose"), ("nobody", "came")),
        Sentence("c", ("She", "can't", "remember", "whether", "it", "froze")),
    ]
    found = represent(encoder, given, (*WORD_POOLINGS, *SENTENCE_POOLINGS), cache=cache)
    model = tiny.stack(family)
    for number, sentence in enumerate(given):
        inputs = encoder.tokenizer(
            list(sentence.words), list(sentence.second) or None, is_split_into_words=True, return_tensors="pt"
        )
        with torch.no_grad():
            states = model(**inputs, output_hidden_states=True).hidden_states
        for layer, state in enumerate(states):
            mine = found["sentence_mean"].layer(layer)[number]
            np.testing.assert_allclose(mine, state[0].mean(0).numpy(), rtol=0, atol=1e-5 * max(1.0, state.abs().max()))
    rows = np.bincount(found["last"].index[:, 0])
    assert rows.tolist() == [7, 4, 6]


def test_minilm_gives_the_hidden_states_of_transformers(minilm, cache):
    given = sentences(30, 40)
    found = represent(minilm, given, POOLINGS, cache=cache)
    model = AutoModel.from_pretrained(minilm_folder(), dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(minilm_folder())
    assert_equal_to_reference(found, [reference(model, tokenizer, s, 0, False) for s in given])
