"""Description length of labelled spans as an analysis: rows, what it counts, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
from edge_corpora import corpus, named, represent

from vestige.analyses.base import check_rows
from vestige.analyses.description_length import DescriptionLength
from vestige.corpus.types import Corpus, Span, SpanPair
from vestige.errors import AnalysisError
from vestige.probes.codes.online import sending_order

FEW = {"seeds": 1, "fractions": (0.3, 1.0)}
LEXICAL = {"inputs": ("layer 0",), **FEW}


def spans(count, seed=0, labels="ABCD"):
    """Two spans a sentence, of one and two words."""
    rng = np.random.default_rng(seed)
    return [
        (6, [Span(0, 1, (str(rng.choice(list(labels))),)), Span(2, 4, (str(rng.choice(list(labels))),))])
        for _ in range(count)
    ]


def shown(strengths, seed=0):
    """Vectors that show a target's labels at its first word, layer by layer as clearly as told."""
    rng = np.random.default_rng(seed)

    def vector(sentence, word, layer):
        found = rng.normal(size=6)
        for target in sentence.annotations["edge"]:
            if word == (target.first[0] if isinstance(target, SpanPair) else target.start):
                for label in target.labels:
                    found["ABCD".find(label)] += strengths[layer]
        return found

    return vector


def frame_of(given, /, **settings):
    return pd.DataFrame(DescriptionLength(**settings).run(given).rows)


def values(frame, metric):
    """By layer, or by the name of what was read."""
    mine = named(frame[frame["metric"] == metric])
    return mine["value"].groupby(mine["input"]).sum()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    made = corpus(train=spans(100), dev=spans(40, 1), test=spans(50, 2))
    return represent(tmp_path_factory.mktemp("spans"), made, shown((0, 5)), [6] * 2)


@pytest.fixture(scope="module")
def frame(inputs):
    return frame_of(inputs, **FEW)


def test_sentences_add_up_to_the_code_of_their_targets(inputs):
    outcome = DescriptionLength(**FEW).run(inputs)
    codes, rows = pd.DataFrame(outcome.tables["codes"]), pd.DataFrame(outcome.rows)
    np.testing.assert_allclose(named(codes).groupby("input")["bits"].sum(), values(rows, "codelength").sort_index())
    np.testing.assert_allclose(codes["saved_bits"], codes["uniform_bits"] - codes["bits"])
    counts = {sentence.id: len(sentence.annotations[inputs.task.name]) for sentence in inputs.task.corpus["train"]}
    assert (codes["labels"] == codes["sentence"].map(counts)).all()


def test_rows_have_the_names_that_those_of_words_have(frame):
    lengths = values(frame, "codelength")
    assert lengths.index.tolist() == ["layer 0", "layer 1", "mix"]
    assert lengths["layer 1"] < 0.7 * lengths["layer 0"] and lengths["mix"] < lengths["layer 0"]
    [uniform] = frame[frame["metric"] == "uniform_codelength"].to_dict("records")
    assert uniform["value"] == 200 * 2 and uniform["n"] == 200
    np.testing.assert_allclose(values(frame, "compression"), 400 / lengths)
    np.testing.assert_allclose(values(frame, "bits_per_label"), lengths / 200)
    np.testing.assert_allclose(values(frame, "block_bits"), lengths)
    blocks = frame[(frame["metric"] == "block_bits") & (frame["layer"] == 1)]
    assert blocks["x"].tolist() == [60, 200] and blocks["n"].tolist() == [60, 140]
    assert blocks["value"].iloc[0] == 60 * 2 and (blocks["axis"] == "labels_sent").all()
    assert frame[frame["metric"] == "dropped_fractions"]["value"].item() == 0
    accuracy = values(frame, "accuracy")
    assert accuracy["layer 1"] > 0.9 and accuracy["layer 0"] < 0.5
    assert not frame["metric"].str.startswith("control").any()


def test_layers_lie_along_layers_and_the_mix_along_nothing(frame):
    bits = frame[frame["metric"] == "bits_per_label"]
    assert bits["layer"].dropna().tolist() == [0, 1] and bits["axis"].isna().all()
    assert bits[bits["layer"].isna()]["input"].tolist() == ["mix"]


@pytest.mark.parametrize(
    "settings",
    [
        {"inputs": ("layers", "mix", "mixes")},
        {"code": "variational", "inputs": ("lexical", "mixes"), "epochs": 2, "least_steps": 0, "hidden": 4},
    ],
)
def test_all_that_is_declared_is_reported(inputs, settings):
    analysis = DescriptionLength(**{**FEW, **settings})
    outcome = analysis.run(inputs)
    check_rows(analysis, outcome)
    there = {row["metric"] for row in outcome.rows}
    assert {metric.name for metric in analysis.given} == there | set(outcome.absent)
    assert {"left_out_targets", "shortened_targets", "unseen_labels", "saved", "accuracy"} <= there
    assert {name for name in outcome.absent if not name.startswith("control_")} == {
        "truncated_words", "vanished_words", "sink_words", "unknown_tokens"}  # fmt: skip
    assert any(metric.compared for metric in analysis.given) == ("codes" in outcome.tables)


def test_same_seed_same_numbers_and_another_order_for_another_seed(inputs):
    one, two = (DescriptionLength(**{**LEXICAL, "seeds": 2}).run(inputs).rows for _ in range(2))
    assert one == two
    lengths = [row["value"] for row in one if row["metric"] == "codelength"]
    assert len(lengths) == 2 and lengths[0] != lengths[1]
    assert sum(row["metric"] == "uniform_codelength" for row in one) == 1


def test_two_names_for_one_layer_have_the_same_code(inputs):
    lengths = values(frame_of(inputs, inputs=("layer 1", "top"), **FEW), "codelength")
    assert lengths["layer 1"] == lengths["top"]


def test_published_lengths_and_strict_codes(inputs):
    plain, voita, strict = (
        values(frame_of(inputs, **LEXICAL, **more), "codelength").item()
        for more in ({}, {"compat": "voita2020"}, {"inner_holdout": True})
    )
    assert 60 * 2 + 0.6 * (plain - 120) < voita < 120 + 0.75 * (plain - 120)
    assert strict != plain and strict == pytest.approx(plain, rel=0.2)


def test_sets_of_labels_cost_a_yes_or_no_each(tmp_path):
    rng = np.random.default_rng(0)

    def sets(count):
        drawn = [tuple(label for label in "ABCD" if rng.random() < 0.5) for _ in range(3 * count)]
        return [(3, [Span(at, at + 1, drawn[3 * n + at]) for at in range(3)]) for n in range(count)]

    made = corpus(train=sets(60), dev=sets(30), test=sets(30))
    frame = frame_of(represent(tmp_path, made, shown((0, 6)), [6] * 2), inputs=("layers",), **FEW)
    [uniform] = frame[frame["metric"] == "uniform_codelength"].to_dict("records")
    assert uniform["value"] == uniform["n"] == 180 * 4
    bits = values(frame, "bits_per_label")
    assert bits["layer 0"] == pytest.approx(1, abs=0.06) and bits["layer 1"] < 0.75
    np.testing.assert_allclose(values(frame, "codelength"), bits * 720)
    assert frame[frame["metric"] == "block_bits"]["x"].tolist() == [54 * 4, 720] * 2


def test_the_variational_code_of_sets_of_labels_and_of_pairs(tmp_path):
    """Rows are those of words: a code is the probe and the labels, whatever there is to send."""
    rng = np.random.default_rng(0)

    def pairs(count):
        sets = [tuple(label for label in "ABCD" if rng.random() < 0.5) for _ in range(count)]
        return [(4, [SpanPair((0, 1), (2, 4), labels)]) for labels in sets]

    made = corpus(train=pairs(150), test=pairs(30))
    inputs = represent(tmp_path, made, shown((0, 5)), [6] * 2)
    frame = frame_of(inputs, code="variational", seeds=1, hidden=8, epochs=150, least_steps=0)
    probe, data, length = (values(frame, metric) for metric in ("probe_bits", "data_bits", "codelength"))
    assert length.index.tolist() == ["layer 0", "layer 1", "mix"]
    np.testing.assert_allclose(probe + data, length)
    assert frame[frame["metric"] == "uniform_codelength"]["value"].item() == 600
    np.testing.assert_allclose(values(frame, "bits_per_label"), length / 600)
    np.testing.assert_allclose(values(frame, "compression"), 600 / length)
    assert data["layer 1"] < 300 < data["layer 0"]
    assert values(frame, "accuracy")["layer 1"] > 0.8
    assert not frame["metric"].isin(["block_bits", "dropped_fractions"]).any()


def test_a_first_block_of_one_class_goes_by_the_uniform_code_and_is_counted(tmp_path):
    plain = spans(60, labels="AB")
    for at in sending_order([f"train{number}" for number in range(60)], 0)[:20]:
        plain[at] = (6, [Span(0, 1, ("A",)), Span(2, 4, ("A",))])
    made = corpus(train=plain, dev=spans(20, 1, "AB"), test=spans(20, 2, "AB"))
    inputs = represent(tmp_path, made, shown((5,)), [6])
    frame = frame_of(inputs, inputs=("layers",), fractions=(0.1, 0.2, 0.5, 1.0))
    assert values(frame, "untrained_blocks").item() == 2
    blocks = frame[frame["metric"] == "block_bits"]
    assert blocks["value"].tolist()[:3] == blocks["n"].tolist()[:3] == [12, 12, 36]
    assert blocks["value"].iloc[3] < 60


def test_targets_that_truncation_cuts_are_counted_and_not_sent(tmp_path):
    def pairs(count):
        always = [SpanPair((0, 2), (3, 6), ("A",)), SpanPair((5, 6), (0, 1), ("B",))]
        return [(6, [SpanPair((0, 1), (1, 2), ("AB"[n % 2],)), *always]) for n in range(count)]

    made = corpus(train=pairs(20), dev=pairs(6), test=pairs(6))
    frame = frame_of(represent(tmp_path, made, shown((3,)), [6], keep=4), inputs=("lexical",), **FEW)
    left = frame[frame["metric"] == "left_out_targets"].set_index(["split", "subset"])
    assert left.loc[("train", "no word of span 1 has a vector"), ["value", "n"]].tolist() == [20, 60]
    assert frame[frame["metric"] == "shortened_targets"].set_index("split")["value"]["train"] == 20
    assert frame[frame["metric"] == "uniform_codelength"]["n"].item() == 40


def test_labels_that_train_lacks_are_counted_and_wrong(tmp_path):
    strange = [(6, [Span(0, 1, ("E",))])] * 5
    made = corpus(train=spans(40), dev=[*spans(15, 1), *strange], test=strange)
    frame = frame_of(represent(tmp_path, made, shown((5,)), [6]), **LEXICAL)
    unseen = frame[frame["metric"] == "unseen_labels"].set_index("split")["value"]
    assert unseen.to_dict() == {"train": 0, "dev": 5, "test": 5}
    assert values(frame, "accuracy").item() == 0


@pytest.mark.parametrize(
    ("splits", "settings", "problem"),
    [
        ({"train": [(3, [])] * 3}, {}, "split 'train': none of 0 targets of 'edge' in 3 sentences"),
        ({"train": [(9, [Span(7, 9, ("A",))])]}, {}, "split 'train': none of 1 targets"),
        ({"train": spans(5, labels="A")}, {}, "all 10 targets of train have the same labels .A."),
        ({"dev": None}, {}, "no 'dev' split"),
        ({}, {"pooling": "cls"}, "pooling 'cls' does not fit task 'edge' at level span"),
        ({}, {"inputs": ("mix",)}, "cannot be mixed"),
    ],
)
def test_what_has_no_code_is_refused(tmp_path, splits, settings, problem):
    given = {"train": spans(5), "dev": spans(5, 1), "test": spans(5, 2), **splits}
    made: Corpus = corpus(**{name: part for name, part in given.items() if part is not None})
    inputs = represent(tmp_path, made, lambda s, w, layer: np.ones(6 - layer), [6, 5], keep=7)
    with pytest.raises(AnalysisError, match=problem):
        DescriptionLength(**settings).run(inputs)
