"""The geometry analysis on made-up representations: rows, sampling, groups and bad input."""

import declared
import numpy as np
import pytest
import synthetic

from vestige.analyses.base import Inputs
from vestige.analyses.geometry import Geometry
from vestige.checksums import seal
from vestige.errors import AnalysisError
from vestige.measures.geometry import Cloud
from vestige.measures.intrinsic import intrinsic_dimension


@pytest.fixture(scope="module")
def corpus():
    return synthetic.corpus(np.random.default_rng(0), sizes=(("test", 40),))


@pytest.fixture
def inputs(tmp_path, corpus) -> Inputs:
    return synthetic.represent(tmp_path / "base", corpus, synthetic.label_vector)


def edit(inputs: Inputs, layer: int, rows, value) -> None:
    folder = inputs.representations["test"].folder
    array = np.load(folder / f"layer{layer:02d}.npy", mmap_mode="r+")
    array[rows] = value
    array.flush()
    seal(folder, folder)


def values(outcome, metric: str, column: str = "value") -> dict:
    return {row["layer"]: row[column] for row in outcome.rows if row["metric"] == metric}


def test_rows_are_the_measures_of_every_layer_with_intervals(inputs):
    outcome = declared.run(Geometry(), inputs)
    for layer in range(3):
        vectors = np.asarray(inputs.split("test").layer(layer), dtype=np.float64)
        cloud = Cloud(vectors)
        expected = {
            "mean_cosine": cloud.mean_cosine(),
            "norm": cloud.norm(),
            "participation_ratio": cloud.spectra().participation_ratio(),
            "intrinsic_dimension": intrinsic_dimension(vectors).values,
        }
        for metric, value in expected.items():
            assert values(outcome, metric)[layer] == pytest.approx(value[0])
            assert values(outcome, metric, "low")[layer] < value[0] < values(outcome, metric, "high")[layer]
    table = outcome.tables["replicates"]
    assert sorted(set(table["left_out"])) == list(range(-1, 20)) and set(table["sentences"]) == {40}
    assert len(table["value"]) == 21 * 3 * 9


def test_the_sample_is_seeded_and_groups_are_those_of_all_sentences(inputs):
    few = Geometry(words=60, measures=("norm",))
    one, again = (values(few.run(inputs), "norm") for _ in range(2))
    other = values(Geometry(words=60, measures=("norm",), seed=1).run(inputs), "norm")
    assert one == again and one[0] != other[0]
    sentences = np.repeat(np.arange(40), 3)
    whole, half = Geometry()._groups(sentences, 40), Geometry()._groups(sentences[::2], 40)
    for mine, theirs in zip(whole, half, strict=True):
        assert set(sentences[::2][theirs]) <= set(sentences[mine])


def test_only_what_is_asked_for_is_declared_and_measured(inputs):
    outcome = declared.run(Geometry(measures=("spectrum",)), inputs)
    measured = {"participation_ratio", "isoscore", "alike_vectors", "vanished_words"}
    assert {row["metric"] for row in outcome.rows} == measured


def test_copies_are_counted(inputs):
    rows = inputs.split("test").layer(0).shape[0]
    edit(inputs, 0, slice(0, 51), inputs.split("test").layer(0)[100].copy())
    outcome = declared.run(Geometry(), inputs)
    assert values(outcome, "copied_vectors") == {0: 51, 1: 0, 2: 0}
    assert values(outcome, "copied_vectors", "n")[0] == rows


def test_a_layer_whose_vectors_do_not_differ_has_no_geometry(inputs):
    edit(inputs, 0, slice(None), 1.0)
    outcome = declared.run(Geometry(), inputs)
    assert values(outcome, "alike_vectors") == {0: 1, 1: 0, 2: 0}
    assert sorted(values(outcome, "mean_cosine")) == [1, 2]
    for layer in (1, 2):
        edit(inputs, layer, slice(None), 1.0)
    nothing = declared.run(Geometry(), inputs)
    assert nothing.absent["mean_cosine"] == "vectors do not differ" and not len(nothing.tables["replicates"]["value"])


def test_words_without_a_vector_are_left_out_and_counted(inputs):
    for layer in range(3):
        edit(inputs, layer, 3, 0.0)
    outcome = declared.run(Geometry(), inputs)
    (vanished,) = [row for row in outcome.rows if row["metric"] == "vanished_words"]
    assert vanished["value"] == 1 and values(outcome, "norm", "n")[0] == vanished["n"] - 1


def test_a_vector_that_is_zero_at_one_layer_is_named_and_some_measures_do_not_mind(inputs):
    edit(inputs, 1, 3, 0.0)
    with pytest.raises(AnalysisError, match=r"layer 1: the vector of 'w.*is zero") as error:
        Geometry().run(inputs)
    assert "spectrum, dimension" in error.value.fix
    declared.run(Geometry(measures=("spectrum", "dimension", "outliers")), inputs)
    edit(inputs, 1, 3, np.nan)
    with pytest.raises(AnalysisError, match="NaN or infinite"):
        Geometry(measures=("spectrum",)).run(inputs)


def test_bad_settings_and_too_few_words_are_refused(tmp_path):
    with pytest.raises(AnalysisError, match="a sample of 3 words is too small"):
        Geometry(words=3)
    with pytest.raises(AnalysisError, match="measures"):
        Geometry(measures=("angle",))
    small = synthetic.corpus(np.random.default_rng(0), sizes=(("test", 1),))
    inputs = synthetic.represent(tmp_path / "few", small, synthetic.label_vector, keep=2)
    with pytest.raises(AnalysisError, match="2 words of 'test'"):
        Geometry().run(inputs)


def test_few_sentences_have_values_without_intervals(tmp_path):
    small = synthetic.corpus(np.random.default_rng(0), sizes=(("test", 3),))
    inputs = synthetic.represent(tmp_path / "few", small, synthetic.label_vector)
    outcome = declared.run(Geometry(measures=("cosine",)), inputs)
    assert len(values(outcome, "mean_cosine")) == 3 and not any("low" in row for row in outcome.rows)
    assert set(outcome.tables["replicates"]["left_out"]) == {-1}
