"""Measures of attention against SciPy and POT, on random distributions and on models' own attention."""

import numpy as np
import ot
import pandas as pd
import pytest
import tiny
import tiny_lm
import torch
from scipy import stats
from scipy.spatial.distance import cdist, jensenshannon

from vestige.analyses.attention import Attention
from vestige.measures.attention import earth_movers, entropy, jensen_shannon, transport
from vestige.models.files.load import load_model


@pytest.fixture(scope="module")
def rows():
    drawn = np.random.default_rng(0).dirichlet(np.full(23, 0.3), size=(40, 2))
    return torch.tensor(drawn)


def test_random_distributions(rows):
    place = np.arange(23)
    vectors = np.random.default_rng(1).normal(size=(23, 8))
    cost = cdist(vectors, vectors)
    for first, second in rows:
        a, b = first.numpy(), second.numpy()
        assert float(entropy(first)) == pytest.approx(stats.entropy(a), abs=1e-12)
        assert float(earth_movers(first, second)) == pytest.approx(
            stats.wasserstein_distance(place, place, a, b), abs=1e-10
        )
        assert float(jensen_shannon(first, second)) == pytest.approx(jensenshannon(a, b) ** 2, abs=1e-10)
        assert transport(a, b, cost) == pytest.approx(ot.emd2(a, b, cost), abs=1e-9)


FAMILIES = ("bert", "roberta", "xlnet", "gpt2")


def eager(model, sentence):
    """Attention (layers, heads, tokens, tokens) by Hugging Face alone, the sentence unpadded."""
    encoded = model.encode([sentence])[0]
    given = {"input_ids": torch.tensor([encoded.ids])}
    if "token_type_ids" in model.tokenizer.model_input_names:
        given["token_type_ids"] = torch.tensor([encoded.type_ids])
    model.model.set_attn_implementation("eager")
    with torch.inference_mode():
        output = model.model(**given, output_attentions=True)
    return encoded, torch.stack(output.attentions)[:, 0].double().numpy()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("queries", ["summary", "all", (0, -2)])
def test_the_attention_of_models(family, queries):
    model, other = tiny_lm.encoder(family), tiny_lm.encoder(family, 1)
    embedding = "words" if queries == "summary" else None
    outcome = Attention(queries=queries, embedding=embedding, embedding_sentences=2, resamples=2).run(
        tiny_lm.inputs(model, other, tiny_lm.SHORT)
    )
    items = pd.DataFrame(outcome.items).set_index(["sentence", "metric", "layer"])["value"]
    causal = family == "gpt2"
    embeddings = other.model.get_input_embeddings().weight.detach().double().numpy()
    for number, sentence in enumerate(tiny_lm.SHORT):
        encoded, mine = eager(model, sentence)
        _, theirs = eager(other, sentence)
        length = len(encoded.ids)
        summary = 0 if family in ("bert", "roberta") else length - 1
        chosen = {"summary": [summary], "all": range(length)}.get(queries) or [0, length - 2]
        chosen = [query for query in chosen if not causal or query > 0]
        cost = cdist(embeddings[list(encoded.ids)], embeddings[list(encoded.ids)])
        for layer in range(len(mine)):
            found = {"entropy": [], "entropy_normalised": [], "emd": [], "js": [], "emd_normalised": []}
            moved = []
            for head in range(4):
                for query in chosen:
                    keys = query + 1 if causal else length
                    a, b = (each[layer, head, query, :keys] for each in (mine, theirs))
                    a, b, place = a / a.sum(), b / b.sum(), np.arange(keys)
                    found["entropy"].append(stats.entropy(a))
                    found["entropy_normalised"].append(stats.entropy(a) / np.log(keys))
                    found["emd"].append(stats.wasserstein_distance(place, place, a, b))
                    found["emd_normalised"].append(found["emd"][-1] / (keys - 1))
                    found["js"].append(jensenshannon(a, b) ** 2)
                    if number < 2 and embedding:
                        moved.append(ot.emd2(a, b, np.ascontiguousarray(cost[:keys, :keys])))
            for metric, expected in found.items():
                assert items[sentence.id, metric, layer + 1] == pytest.approx(np.mean(expected), abs=2e-5), metric
            if moved:
                assert items[sentence.id, "emd_embedding", layer + 1] == pytest.approx(np.mean(moved), abs=2e-5)


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_the_attention_of_a_decoder_that_an_encoder_feeds(family):
    """Its queries have no later keys, though its states depend on all that the encoder reads."""
    model = load_model(tiny.model(family), tokenizer=tiny.tokenizer(family), name=family, part="decoder")
    outcome = Attention(queries="all", resamples=2).run(tiny_lm.inputs(model, sentences=tiny_lm.SHORT))
    items = pd.DataFrame(outcome.items).set_index(["sentence", "metric", "layer"])["value"]
    for sentence in tiny_lm.SHORT:
        weights = model.attentions(model.encode([sentence]))
        for layer, found in enumerate(weights):
            rows = found[0].double().numpy()
            assert not np.triu(rows, 1).any()
            shares = [stats.entropy(head[q, : q + 1]) / np.log(q + 1) for head in rows for q in range(1, len(head))]
            assert items[sentence.id, "entropy_normalised", layer + 1] == pytest.approx(np.mean(shares), abs=2e-5)


def test_the_attention_of_a_trained_model(minilm):
    twin = minilm.random_twin(0)
    outcome = Attention(resamples=2).run(tiny_lm.inputs(minilm, twin, tiny_lm.SENTENCES[:3]))
    items = pd.DataFrame(outcome.items).set_index(["sentence", "metric", "layer"])["value"]
    for sentence in tiny_lm.SENTENCES[:3]:
        (_, mine), (_, theirs) = eager(minilm, sentence), eager(twin, sentence)
        place = np.arange(mine.shape[-1])
        for layer in range(6):
            a, b = mine[layer, :, 0], theirs[layer, :, 0]
            assert items[sentence.id, "entropy", layer + 1] == pytest.approx(stats.entropy(a, axis=1).mean(), abs=1e-5)
            moved = [stats.wasserstein_distance(place, place, *pair) for pair in zip(a, b, strict=True)]
            assert items[sentence.id, "emd", layer + 1] == pytest.approx(np.mean(moved), abs=1e-5)


def test_intervals_hold_scipys(rows):
    from vestige.measures.resampling import bootstrap_interval

    sums, weights = rows[:, 0, :3].numpy() * 5, np.random.default_rng(3).integers(1, 9, 40)
    low, high = bootstrap_interval(sums, weights, resamples=4000)
    for column in range(3):
        theirs = stats.bootstrap(
            (sums[:, column], weights), lambda a, b, axis: a.sum(axis) / b.sum(axis), paired=True, n_resamples=4000,
            method="percentile", rng=np.random.default_rng(5),
        ).confidence_interval  # fmt: skip
        spread = theirs.high - theirs.low
        assert low[column] == pytest.approx(theirs.low, abs=0.1 * spread)
        assert high[column] == pytest.approx(theirs.high, abs=0.1 * spread)
