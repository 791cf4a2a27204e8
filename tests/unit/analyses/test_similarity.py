"""The similarity analysis on made-up representations: rows, matching, sampling and bad input."""

from copy import deepcopy
from dataclasses import replace

import declared
import numpy as np
import pytest
import synthetic
import tiny
import torch

from vestige.analyses import find_analysis
from vestige.analyses.base import Inputs
from vestige.analyses.similarity import SimilarityAnalysis
from vestige.checksums import seal
from vestige.corpus.types import Corpus, Sentence
from vestige.errors import AnalysisError
from vestige.measures.rsa import rsa
from vestige.models.files.load import load_model
from vestige.representations.extract import represent as represent_sentences
from vestige.representations.store import Representations


@pytest.fixture(scope="module")
def corpus():
    return synthetic.corpus(np.random.default_rng(0), sizes=(("train", 3), ("dev", 3), ("test", 40)))


def represent(folder, corpus, **settings) -> Inputs:
    return synthetic.represent(folder, corpus, synthetic.label_vector, **settings)


def edit(inputs: Inputs, layer: int, row: int, value: float) -> None:
    array = np.load(inputs.representations["test"].folder / f"layer{layer:02d}.npy", mmap_mode="r+")
    array[row] = value
    array.flush()
    seal(inputs.representations["test"].folder, inputs.representations["test"].folder)


@pytest.fixture
def pair(tmp_path, corpus) -> Inputs:
    base = represent(tmp_path / "base", corpus)
    return replace(represent(tmp_path / "tuned", corpus, seed=1), reference=replace(base, model="base"))


def values(outcome, metric, column="value"):
    """By layer; of the curve, not of the map of all pairs."""
    rows = [row for row in outcome.rows if row["metric"] == metric and "layer2" not in row]
    return {row.get("layer"): row[column] for row in rows if column in row}


def test_is_found_by_name_and_takes_two_models():
    assert find_analysis("similarity") is SimilarityAnalysis
    assert SimilarityAnalysis.models == 2


def test_rows_are_the_measures_of_corresponding_layers_with_intervals(pair):
    outcome = declared.run(SimilarityAnalysis(measures=("rsa", "neighbour_overlap")), pair)
    found = values(outcome, "rsa")
    for layer in range(3):
        x, y = (inputs.representations["test"].layer(layer) for inputs in (pair, pair.reference))
        assert found[layer] == pytest.approx(rsa(x, y), abs=1e-12)
        for metric in ("rsa", "neighbour_overlap"):
            low, value, high = (values(outcome, metric, column)[layer] for column in ("low", "value", "high"))
            assert low < value < high
    assert found[0] > found[2]
    assert all(row["n"] == len(pair.representations["test"]) for row in outcome.rows if row["metric"] == "rsa")


def test_a_model_beside_itself_has_rsa_of_exactly_one(pair):
    outcome = SimilarityAnalysis(measures=("rsa", "cka")).run(replace(pair.reference, reference=pair.reference))
    assert set(values(outcome, "rsa").values()) == set(values(outcome, "cka").values()) == {1.0}


def test_all_pairs_name_both_layers(pair):
    outcome = declared.run(SimilarityAnalysis(measures=("rsa", "svcca", "rsa_euclidean"), all_pairs=True), pair)
    pairs = [row for row in outcome.rows if "layer2" in row]
    grid = {(row["layer"], row["layer2"]): row["value"] for row in pairs if row["metric"] == "rsa"}
    assert len(grid) == 9
    x, y = pair.representations["test"].layer(2), pair.reference.representations["test"].layer(0)
    assert grid[2, 0] == pytest.approx(rsa(x, y), abs=1e-12)
    assert grid[1, 1] == values(outcome, "rsa")[1]
    for metric in ("svcca", "rsa_euclidean"):
        assert sum(row["metric"] == metric for row in pairs) == 9


def test_the_sample_is_drawn_by_the_seed_and_kept(pair):
    first, again, other = (SimilarityAnalysis(n=50, seed=seed).run(pair) for seed in (0, 0, 1))
    assert first.rows == again.rows
    places = [list(zip(*o.tables["sampled_words"].values(), strict=True)) for o in (first, other)]
    assert len(set(places[0])) == 50
    assert places[0] != places[1]
    number = {s.id: i for i, s in enumerate(pair.task.corpus["test"])}
    chosen = {(number[sentence], word) for sentence, word in places[0]}
    rows = [i for i, place in enumerate(map(tuple, pair.representations["test"].index)) if place in chosen]
    x, y = (inputs.representations["test"].layer(1)[rows] for inputs in (pair, pair.reference))
    assert values(first, "rsa")[1] == pytest.approx(rsa(x, y), abs=1e-12)


def test_pieces_are_matched_by_their_place_in_the_word(tmp_path, tiny_encoder):
    sentences = tuple(Sentence(str(number), tuple(line.split())) for number, line in enumerate(tiny.TEXT))
    made = Corpus("c", {"test": sentences}, {"t": "text"})
    inputs = {}
    for seed, name in enumerate(("base", "tuned")):
        encoder = load_model(tiny.model("bert", seed=seed), tokenizer=tiny.tokenizer("bert"), name=name)
        found = represent_sentences(encoder, made["test"], ("pieces",), cache=tmp_path)["pieces"]
        inputs[name] = Inputs(made.task("t"), {"pieces": {"test": found}}, name)
    pieces, words = (len(inputs["base"].representations["test"]), sum(len(s.words) for s in made["test"]))
    assert pieces > words
    outcome = SimilarityAnalysis(measures=("rsa",), pooling="pieces").run(
        replace(inputs["tuned"], reference=inputs["base"])
    )
    x, y = (inputs[name].representations["test"].layer(2) for name in ("tuned", "base"))
    assert values(outcome, "rsa")[2] == pytest.approx(rsa(x, y), abs=1e-12)
    other = represent_sentences(tiny_encoder("roberta"), made["test"], ("pieces",), cache=tmp_path)["pieces"]
    stranger = Inputs(made.task("t"), {"pieces": {"test": other}}, "stranger")
    with pytest.raises(AnalysisError, match="tuned and stranger cut words into different pieces"):
        SimilarityAnalysis(measures=("rsa",), pooling="pieces").run(replace(inputs["tuned"], reference=stranger))


def test_words_are_matched_by_place_and_the_rest_is_counted(tmp_path, corpus):
    base = represent(tmp_path / "base", corpus)
    tuned = represent(tmp_path / "tuned", corpus, seed=1, keep=4)
    outcome = SimilarityAnalysis(measures=("rsa",)).run(replace(tuned, reference=base))
    keep = base.representations["test"].index[:, 1] < 4
    assert values(outcome, "unmatched_words") == {None: 0}
    assert values(outcome, "unmatched_words_of_reference") == {None: (~keep).sum()}
    x, y = tuned.representations["test"].layer(1), base.representations["test"].layer(1)[keep]
    assert values(outcome, "rsa")[1] == pytest.approx(rsa(x, y), abs=1e-12)


def test_words_that_vanished_are_left_out_and_counted(pair):
    for layer in range(3):
        edit(pair, layer, 5, 0.0)
    outcome = SimilarityAnalysis(measures=("rsa",)).run(pair)
    assert values(outcome, "vanished_words") == {None: 1}
    assert {row["n"] for row in outcome.rows if row["metric"] == "rsa"} == {len(pair.representations["test"]) - 1}


@pytest.mark.parametrize(("value", "what"), [(0.0, "zero"), (np.nan, "NaN")])
def test_a_vector_no_cosine_can_be_had_of_is_named(pair, value, what):
    edit(pair, 1, 7, value)
    sentence, word = pair.representations["test"].index[7]
    with pytest.raises(AnalysisError, match=what) as raised:
        SimilarityAnalysis().run(pair)
    named = pair.task.corpus["test"][sentence]
    assert named.id in str(raised.value)
    assert repr(named.words[word]) in str(raised.value)
    assert "layer 1" in str(raised.value)


def test_a_zero_vector_is_a_vector_to_measures_without_cosines(pair):
    edit(pair, 1, 7, 0.0)
    found = SimilarityAnalysis(measures=("cka", "rsa_euclidean", "procrustes")).run(pair)
    assert {row["layer"] for row in found.rows if row["metric"] == "cka"} == {0, 1, 2}
    with pytest.raises(AnalysisError, match="zero") as raised:
        SimilarityAnalysis(measures=("cka", "neighbour_overlap")).run(pair)
    assert "measures: [cka]" in raised.value.fix


def test_a_layer_whose_vectors_are_all_alike_is_marked_and_the_rest_goes_on(pair):
    edit(pair, 0, slice(None), 0.5)
    outcome = declared.run(SimilarityAnalysis(measures=("rsa", "cka", "rsa_euclidean"), all_pairs=True), pair)
    undefined = [row for row in outcome.rows if row["metric"] == "undefined"]
    for metric in ("rsa", "cka", "rsa_euclidean"):
        assert set(values(outcome, metric)) == {1, 2}
        assert [row["value"] for row in undefined if row["subset"] == metric] == [1, 0, 0]
        assert sum(row["metric"] == metric and "layer2" in row for row in outcome.rows) == 6


def test_few_words_for_the_width_are_told_beside_biased_measures(pair):
    outcome = declared.run(SimilarityAnalysis(measures=("cka_biased",), n=8), pair)
    assert values(outcome, "units_per_item") == {0: 2.0, 1: 2.0, 2: 2.0}
    assert not values(declared.run(SimilarityAnalysis(measures=("cka",), n=8), pair), "units_per_item")


def test_no_intervals_where_none_are_wanted(pair):
    outcome = SimilarityAnalysis(groups=0).run(pair)
    assert values(outcome, "rsa")
    assert not values(outcome, "rsa", "low")


def test_sentence_vectors_are_items_too(pair):
    for inputs in (pair, pair.reference):
        stored = inputs.representations["test"]
        firsts = np.flatnonzero(stored.index[:, 1] == 0)
        for layer, array in enumerate([np.array(stored.layer(layer))[firsts] for layer in range(3)]):
            np.save(stored.folder / f"layer{layer:02d}.npy", array)
        np.save(stored.folder / "index.npy", np.stack([np.arange(40), np.full(40, -1)], axis=1).astype(np.int32))
        seal(stored.folder, stored.folder)
    opened = [
        replace(i, poolings={"sentence_mean": {"test": Representations.open(i.representations["test"].folder)}})
        for i in (pair, pair.reference)
    ]
    outcome = SimilarityAnalysis(pooling="sentence_mean").run(replace(opened[0], reference=opened[1]))
    assert {row["n"] for row in outcome.rows if row["metric"] == "rsa"} == {40}
    assert set(outcome.tables["sampled_words"]["word"]) == {-1}


def test_bad_requests_are_refused(pair):
    with pytest.raises(AnalysisError, match="unknown measure 'rsx'"):
        SimilarityAnalysis(measures=("rsx",))
    with pytest.raises(AnalysisError, match="too small"):
        SimilarityAnalysis(n=2)
    with pytest.raises(AnalysisError, match="none was given"):
        SimilarityAnalysis().run(replace(pair, reference=None))
    with pytest.raises(AnalysisError, match="no 'other' split"):
        SimilarityAnalysis(split="other").run(pair)


def test_layers_below_the_ones_that_changed_have_rsa_of_exactly_one(cache):
    """Two real models, of which the second differs in its last block only."""
    sentences = tuple(Sentence(f"s{i}", tuple(line.split())) for i, line in enumerate(tiny.TEXT))
    corpus = Corpus("tiny", {"test": sentences}, {"text": "text"})
    tuned = deepcopy(tiny.model("bert"))
    with torch.no_grad():
        for weights in tuned.encoder.layer[-1].parameters():
            weights += 0.3 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(0))
    inputs = []
    for name, model in (("base", tiny.model("bert")), ("tuned", tuned)):
        encoder = load_model(model, tokenizer=tiny.tokenizer("bert"), name=name)
        found = represent_sentences(encoder, sentences, cache=cache)
        inputs.append(Inputs(corpus.task("text"), {"last": {"test": found["last"]}}, name))
    found = values(SimilarityAnalysis(measures=("rsa", "cka")).run(replace(inputs[1], reference=inputs[0])), "rsa")
    assert len(found) >= 3
    *below, (_, last) = sorted(found.items())
    assert all(value == 1.0 for _, value in below)
    assert last < 0.99
