"""Single neurons: words, sentences and histograms of planted values, JSON, and what is refused."""

import json

import numpy as np
import pytest
import synthetic
import tiny

from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError, RepresentationError
from vestige.neurons.explore import (
    COLUMNS_AT_ONCE,
    Occurrence,
    TopSentence,
    activation_over_sentence,
    explorer_data,
    label_histogram,
    look_at,
    strongest_sentences,
    strongest_words,
    words_of,
)
from vestige.neurons.matrix import Neurons
from vestige.representations.extract import represent

SENTENCES = [
    Sentence("s0", ("storm", "and", "rain")),
    Sentence("s1", ("rain", "again"), ("and", "storm")),
    Sentence("s2", ("no", "rain", "at", "all")),
]
INDEX = np.array([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1), (2, 2)])
"""The last word of the last sentence has no row."""
STORM = [9, 0, 1, 1, 0, 0, 7, 0, 1, 0]
"""A neuron that responds to storms, and a little to rain."""


def neurons(*columns, layers: int = 1) -> Neurons:
    made = np.array(columns, dtype=np.float32).T
    return Neurons(tuple(np.split(made, layers, axis=1)))


def z(values) -> np.ndarray:
    return (np.array(values) - np.mean(values)) / np.std(values)


def top_words(made, sentences, index, ids, k=10, min_count=3):
    words = words_of(sentences, index, len(made))
    return [strongest_words(neuron, words, index, k, min_count) for neuron in look_at(made, ids)]


def top_sentences(made, index, ids, k=5):
    return [strongest_sentences(neuron, index, k) for neuron in look_at(made, ids)]


class TestWords:
    def test_types_and_single_words_by_strength(self):
        found = top_words(neurons(STORM), SENTENCES, INDEX, [0], k=3, min_count=2)[0]
        expected = z(STORM)
        assert [(t.word, t.count) for t in found.types] == [("storm", 2), ("rain", 3), ("and", 2)]
        means = [np.mean(expected[rows]) for rows in ([0, 6], [2, 3, 8], [1, 5])]
        np.testing.assert_allclose([t.z for t in found.types], means, rtol=1e-6)
        assert found.occurrences[:2] == [
            Occurrence("storm", 0, 0, pytest.approx(expected[0])),
            Occurrence("storm", 1, 3, pytest.approx(expected[6])),
        ]

    def test_a_neuron_that_speaks_downwards_is_read_downwards(self):
        up, down = (top_words(neurons(s * np.array(STORM)), SENTENCES, INDEX, [0], min_count=1)[0] for s in (1, -1))
        assert [t.word for t in down.types] == [t.word for t in up.types]
        assert [t.z for t in down.types] == [-t.z for t in up.types]
        assert down.occurrences[0].z == -up.occurrences[0].z < 0

    def test_rare_words_are_left_out_of_types_only(self):
        values = [0, 0, 0, 0, 5, 0, 0, 0, 0, 0]
        found = top_words(neurons(values), SENTENCES, INDEX, [0], k=1, min_count=2)[0]
        assert found.types[0].word == "storm" and found.occurrences[0].word == "again"
        assert top_words(neurons(values), SENTENCES, INDEX, [0], k=1, min_count=1)[0].types[0].word == "again"

    def test_ties_go_to_what_came_first(self):
        values = [1, 0, 0, 0, 0, 0, 1, 0, 0, 0]
        found = top_words(neurons(values), SENTENCES, INDEX, [0], k=4, min_count=1)[0]
        assert [(o.sentence, o.position) for o in found.occurrences] == [(0, 0), (1, 3), (0, 1), (0, 2)]

    def test_a_constant_neuron_answers_to_nothing(self):
        constant = neurons([0.1] * 10)
        assert top_words(constant, SENTENCES, INDEX, [0]) == [([], [])]
        assert top_sentences(constant, INDEX, [0]) == [[]]
        (neuron,) = look_at(constant, [0])
        assert neuron.sign == 0 and neuron.deviation == 0 and not neuron.z.any()
        assert activation_over_sentence(neuron, 3, INDEX, 0) == [0, 0, 0]

    def test_every_neuron_is_itself_in_the_order_given(self):
        rng = np.random.default_rng(0)
        many = Neurons(tuple(rng.normal(size=(10, width)).astype(np.float32) for width in (30, 50)))
        ids = rng.permutation(80)[: COLUMNS_AT_ONCE + 9]
        for neuron, expected in zip(look_at(many, ids), ids, strict=True):
            assert neuron.id == expected
            assert (neuron.layer, neuron.unit) == ((0, expected) if expected < 30 else (1, expected - 30))
            np.testing.assert_array_equal(neuron.values, many.layers[neuron.layer][:, neuron.unit])


class TestSentences:
    def test_the_strongest_word_counts(self):
        found = top_sentences(neurons(STORM), INDEX, [0], k=2)[0]
        assert found == [TopSentence(0, pytest.approx(z(STORM)[0])), TopSentence(1, pytest.approx(z(STORM)[6]))]
        assert [one.sentence for one in top_sentences(neurons(STORM), INDEX, [0], k=9)[0]] == [0, 1, 2]

    def test_rows_may_be_sentences(self):
        index = np.array([(0, -1), (1, -1), (2, -1)])
        found = top_sentences(neurons([0, 1, 5]), index, [0], k=2)[0]
        assert [one.sentence for one in found] == [2, 1]

    def test_values_for_a_heat_map(self):
        (neuron,) = look_at(neurons(STORM), [0])
        largest = np.abs(z(STORM)).max()
        found = activation_over_sentence(neuron, 4, INDEX, 1)
        np.testing.assert_allclose(found, z(STORM)[3:7] / largest)
        assert activation_over_sentence(neuron, 3, INDEX, 0)[0] == 1
        *values, without_row = activation_over_sentence(neuron, 4, INDEX, 2)
        assert without_row is None and len(values) == 3


class TestHistogram:
    def test_every_value_is_counted_once_under_its_label(self):
        rng = np.random.default_rng(2)
        values, labels = rng.normal(size=200), rng.choice(["N", "V", "A"], size=200)
        edges, counts = label_histogram(values, labels, bins=7)
        assert list(counts) == ["A", "N", "V"] and len(edges) == 8
        for label, found in counts.items():
            of_label = values[labels == label]
            for b, count in enumerate(found):
                inside = (of_label >= edges[b]) & ((of_label < edges[b + 1]) | ((b == 6) & (of_label == edges[7])))
                assert count == inside.sum()
        assert sum(part.sum() for part in counts.values()) == 200

    def test_a_constant_neuron(self):
        _, counts = label_histogram([3.0, 3.0], ["A", "B"], bins=4)
        assert counts["A"].sum() == counts["B"].sum() == 1


class TestExplorer:
    @pytest.fixture
    def made(self, tmp_path):
        corpus = synthetic.corpus(np.random.default_rng(0), sizes=(("train", 40),))
        return corpus, synthetic.represent(tmp_path, corpus, synthetic.label_vector, keep=8)

    def test_the_planted_label_is_found(self, made):
        corpus, inputs = made
        sentences, found = corpus["train"], inputs.representations["train"]
        labels = [sentences[i].annotations["tag"][j] for i, j in found.index]
        data = explorer_data(
            found, sentences, [2, 16 + 3], labels=labels, selected_for={"T2": [2, 5], "T4": [2], "T3": [19]}, top=3, k=4,
            shown_labels=1,
        )  # fmt: skip
        first, second = data["neurons"]
        assert data["rows"] == len(found)
        assert (first["id"], first["layer"], first["unit"]) == (2, 0, 2)
        assert (second["id"], second["layer"], second["unit"]) == (19, 1, 3)
        assert first["sign"] == 1 and first["selected_for"] == ["T2", "T4"] and second["selected_for"] == ["T3"]
        assert len(first["words"]) == len(first["occurrences"]) == 4 and len(first["sentences"]) == 3
        for place in first["occurrences"]:
            sentence = sentences[place["sentence"]]
            assert sentence.words[place["position"]] == place["word"]
            assert sentence.annotations["tag"][place["position"]] == "T2"
        for one in first["sentences"]:
            assert one["words"] == list(sentences[one["sentence"]].words)
            assert len(one["values"]) == len(one["words"]) and one["values"][8:] == [None] * len(one["words"][8:])
        shown = {part["label"] for part in first["histogram"]["labels"]}
        assert {"T2", "T4", None} <= shown and len(shown) <= 4
        assert sum(sum(part["counts"]) for part in first["histogram"]["labels"]) == len(found)
        of_label = next(part["counts"] for part in first["histogram"]["labels"] if part["label"] == "T2")
        assert sum(of_label) == labels.count("T2") and sum(of_label[10:]) > 0.8 * sum(of_label)

    def test_it_is_json_with_short_numbers(self, made):
        corpus, inputs = made
        data = explorer_data(inputs.representations["train"], corpus["train"], np.arange(3))
        assert json.loads(json.dumps(data, allow_nan=False)) == data
        assert data["neurons"][0]["histogram"] is None
        assert all(len(repr(one["z"])) <= 7 for one in data["neurons"][0]["words"])

    def test_other_sentences_are_noticed(self, tiny_encoder, cache):
        given = [Sentence(f"s{i}", tuple(line.split())) for i, line in enumerate(tiny.TEXT)]
        found = represent(tiny_encoder("bert"), given, ("last", "cls"), cache=cache)
        assert explorer_data(found["last"], given, [0])["model"] == "tiny bert"
        with pytest.raises(RepresentationError, match="other sentences"):
            explorer_data(found["last"], given[::-1], [0])
        with pytest.raises(RepresentationError, match="sentences, not words"):
            explorer_data(found["cls"], given, [0])


class TestRefused:
    def test_ids(self):
        for ids, message in (([1], "there are 1"), ([-1], "there are 1"), ([0, 0], "twice")):
            with pytest.raises(AnalysisError, match=message):
                top_words(neurons(STORM), SENTENCES, INDEX, ids)
        assert top_words(neurons(STORM), SENTENCES, INDEX, []) == []

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_columns_that_are_not_finite_are_named_and_others_are_read(self, value):
        spoilt = neurons(STORM, [*STORM[:9], value], STORM, STORM, layers=2)
        with pytest.raises(RepresentationError, match=r"neuron 1 \(layer 0, unit 1\): 1 of 10"):
            top_words(spoilt, SENTENCES, INDEX, [0, 1])
        assert len(top_words(spoilt, SENTENCES, INDEX, [0, 3])) == 2

    def test_an_index_that_does_not_fit(self):
        with pytest.raises(RepresentationError, match=r"word 0 of sentence 2 .* there are 2"):
            top_words(neurons(STORM), SENTENCES[:2], INDEX, [0])
        with pytest.raises(RepresentationError, match=r"word 2 of sentence 0 .* has 2 words"):
            top_words(neurons(STORM), [Sentence("x", ("a", "b")), *SENTENCES[1:]], INDEX, [0])
        with pytest.raises(RepresentationError, match=r"shape \(9, 2\) for 10 rows"):
            top_words(neurons(STORM), SENTENCES, INDEX[:9], [0])
        with pytest.raises(RepresentationError, match="sentences, not words"):
            top_words(neurons([1, 2]), SENTENCES, np.array([(0, -1), (1, -1)]), [0])

    def test_no_rows(self):
        with pytest.raises(AnalysisError, match="without a single row"):
            list(look_at(Neurons((np.empty((0, 2), np.float32),)), [0]))

    def test_histograms(self):
        with pytest.raises(AnalysisError, match="one label per activation"):
            label_histogram([1.0, 2.0], ["A"])
        with pytest.raises(RepresentationError, match="NaN"):
            label_histogram([1.0, np.nan], ["A", "A"])

    def test_a_label_of_neurons_that_do_not_exist(self, tmp_path):
        corpus = synthetic.corpus(np.random.default_rng(0), sizes=(("train", 5),))
        found = synthetic.represent(tmp_path, corpus, synthetic.label_vector).representations["train"]
        with pytest.raises(AnalysisError, match="T1: neuron 48"):
            explorer_data(found, corpus["train"], [0], selected_for={"T1": [48]})
