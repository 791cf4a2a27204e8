"""Blocks, prices and the books of the online code, by hand; and inputs that no code can be made of."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import synthetic
import torch

from vestige.analyses.base import check_rows
from vestige.analyses.description_length import DescriptionLength
from vestige.analyses.layer_probe import LayerProbe
from vestige.corpus.types import Corpus
from vestige.errors import AnalysisError
from vestige.probes.codes.coders import Labelled, LinearCoder, MlpCoder
from vestige.probes.codes.online import (
    Blocks,
    Ordered,
    bernoulli_nats,
    class_nats,
    cut_blocks,
    online_code,
    sending_order,
)
from vestige.probes.problem import Features


def test_blocks_are_cut_by_sentences_and_counted_in_labels():
    sizes = [3] * 1000
    assert cut_blocks(sizes, classes=5).ends == (12, 24, 48, 96, 186, 375, 750, 1500, 3000)
    assert cut_blocks(sizes, classes=5).dropped == 2
    assert cut_blocks([1, 2, 3, 4], classes=2, fractions=(0.5, 1.0), fewest=1).ends == (3, 10)


def test_fractions_with_fewer_labels_than_classes_are_dropped():
    assert cut_blocks([1] * 1000, classes=100).ends == (125, 250, 500, 1000)


def test_so_few_labels_that_one_block_is_left_are_sent_uniformly():
    blocks = cut_blocks([1] * 9, classes=2)
    assert blocks.ends == (9,)
    code = online_code(lambda known, end: pytest.fail("nothing to train"), blocks, uniform=1.0)
    assert code.bits().tolist() == [9.0] and code.compression().tolist() == [1.0]


@pytest.mark.parametrize("fractions", [(), (0.5,), (0.5, 0.2, 1.0), (0.5, 0.5, 1.0)])
def test_fractions_that_do_not_grow_to_one_are_refused(fractions):
    with pytest.raises(AnalysisError, match="fractions"):
        cut_blocks([1] * 50, 2, fractions)


def test_no_sentences_are_refused():
    with pytest.raises(AnalysisError, match="blocks of 0 sentences"):
        cut_blocks([], 2)


def test_a_block_without_a_probe_is_sent_uniformly_and_said_to_be():
    def prices(known, end):
        return np.repeat([[np.nan], [1.0]], end - known, axis=1)

    code = online_code(prices, Blocks((10, 20, 40), 0), uniform=2.0, probes=2)
    np.testing.assert_allclose(code.block_bits()[0], [20, 20, 40])
    np.testing.assert_allclose(code.block_bits("voita2020"), [[20, 20, 40], [20, 10, 20]])
    assert code.untrained.tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_of_two_labellings_only_the_one_with_a_single_class_so_far_cannot_be_trained(kind):
    rng = np.random.default_rng(0)
    labels = torch.tensor(rng.integers(0, 2, size=(2, 60)))
    labels[0, :20] = 1
    rows = rng.normal(size=(60, 4)).astype(np.float32)
    train, dev = (Labelled(Features(rows[part]), labels[:, part]) for part in (slice(40), slice(40, 60)))
    coder = LinearCoder(train, dev, 2) if kind == "linear" else MlpCoder([train], [dev], 2)
    assert np.isnan(coder(20, 30)).tolist() == [[True] * 10, [False] * 10]
    assert np.isfinite(coder(30, 40)).all()


def test_mixing_bounds_the_price_of_a_class_never_seen():
    log_p = torch.tensor([[-1e9, 0.0]])
    assert class_nats(log_p, torch.tensor([0])).item() > 1e8
    np.testing.assert_allclose(class_nats(log_p, torch.tensor([0]), known=9).item(), np.log(10 * 2))
    np.testing.assert_allclose(class_nats(log_p, torch.tensor([1]), known=9).item(), -np.log(0.9 + 0.1 / 2))


def test_prices_of_sets_of_labels():
    logits = torch.tensor([[0.0, 0.0, 0.0], [20.0, -20.0, 0.0]])
    gold = torch.tensor([[1, 0, 1], [1, 0, 1]])
    bits = bernoulli_nats(logits, gold) / np.log(2)
    np.testing.assert_allclose(bits, [3.0, 1.0], atol=1e-6)


def test_rows_in_another_order_are_read_when_asked_for():
    array = np.arange(12.0).reshape(6, 2)
    ordered = Ordered(array, np.array([5, 0, 3]))
    assert ordered.shape == (3, 2) and ordered[1:][:, 0].tolist() == [0.0, 6.0]
    assert ordered.part(1, 3)[np.array([1])].tolist() == [[6.0, 7.0]]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    made = synthetic.corpus(np.random.default_rng(0), sizes=(("train", 300), ("dev", 40), ("test", 40)))
    return synthetic.represent(tmp_path_factory.mktemp("d"), made, synthetic.label_vector)


@pytest.fixture(scope="module")
def online(inputs):
    return pd.DataFrame(DescriptionLength().run(inputs).rows)


def by_layer(frame, metric):
    return frame[frame["metric"] == metric].groupby("layer")["value"].sum()


def test_sentences_add_up_to_the_code_of_the_task(inputs):
    outcome = DescriptionLength(compat="voita2020", seeds=2).run(inputs)
    codes, rows = pd.DataFrame(outcome.tables["codes"]), pd.DataFrame(outcome.rows)
    lengths = rows[rows["metric"] == "codelength"].set_index(["layer", "probe_seed"])["value"].sort_index()
    np.testing.assert_allclose(codes.groupby(["layer", "probe_seed"])["bits"].sum(), lengths)
    sizes = {sentence.id: len(sentence.words) for sentence in inputs.task.corpus["train"]}
    assert (codes["labels"] == codes["sentence"].map(sizes)).all()
    np.testing.assert_allclose(codes["uniform_bits"], codes["labels"] * np.log2(5))


def test_blocks_add_up_to_the_code_and_to_all_labels(inputs, online):
    blocks = online[(online["metric"] == "block_bits") & (online["layer"] == 0)]
    assert blocks["n"].sum() == len(inputs.split("train")) == blocks["x"].max()
    np.testing.assert_allclose(by_layer(online, "block_bits"), by_layer(online, "codelength"))
    uniform = online[online["metric"] == "uniform_codelength"]["value"].item()
    np.testing.assert_allclose(uniform, len(inputs.split("train")) * np.log2(5))
    np.testing.assert_allclose(uniform / by_layer(online, "codelength"), by_layer(online, "compression"))


def test_clearer_layers_have_shorter_codes_and_the_control_task_a_longer_one(online):
    lengths = by_layer(online, "codelength")
    assert lengths[0] < lengths[1] < lengths[2]
    assert (by_layer(online, "control_codelength") > lengths).all()
    assert by_layer(online, "accuracy")[0] > 0.95


@pytest.mark.parametrize(
    "settings", [{}, {"control": False}, {"code": "variational", "epochs": 2, "hidden": 4, "least_steps": 0}]
)
def test_all_that_is_declared_is_reported(inputs, settings):
    analysis = DescriptionLength(seeds=1, fractions=(0.3, 1.0), **settings)
    outcome = analysis.run(inputs)
    check_rows(analysis, outcome)
    assert set(outcome.absent) == {"left_out_targets", "shortened_targets"}
    assert {metric.name for metric in analysis.given} == {row["metric"] for row in outcome.rows} | set(outcome.absent)
    assert {metric.name for metric in analysis.given} <= {metric.name for metric in analysis.metrics}


@pytest.mark.parametrize(
    "settings",
    [
        {"probe": "mlp", "hidden": 16},
        {"code": "variational", "epochs": 30, "hidden": 16, "least_steps": 0},
        {"inner_holdout": True},
        {"compat": "voita2020"},
    ],
    ids=["mlp", "variational", "inner", "voita"],
)
def test_other_codes_rank_the_layers_alike(inputs, settings):
    frame = pd.DataFrame(DescriptionLength(control=False, fractions=(0.05, 0.3, 1.0), **settings).run(inputs).rows)
    lengths = by_layer(frame, "codelength")
    assert lengths[0] < lengths[1] < lengths[2]
    assert by_layer(frame, "accuracy")[0] > 0.9


def test_same_seed_same_numbers_and_another_order_for_another_seed(inputs):
    one, two = (
        DescriptionLength(seeds=2, control=False, fractions=(0.05, 0.3, 1.0)).run(inputs).rows for _ in range(2)
    )
    assert one == two
    frame = pd.DataFrame(one)
    lengths = frame[frame["metric"] == "codelength"].set_index(["probe_seed", "layer"])["value"]
    assert (lengths[0] != lengths[1]).all()
    np.testing.assert_allclose(lengths[0], lengths[1], rtol=0.3)


def test_a_first_block_of_one_class_goes_by_the_uniform_code_and_is_counted(tmp_path):
    made = synthetic.corpus(np.random.default_rng(1), sizes=(("train", 300), ("dev", 30), ("test", 30)))
    order = sending_order([sentence.id for sentence in made["train"]], 0)

    def relabelled(sentences):
        out = list(sentences)
        for place in order[:10]:
            out[place] = replace(out[place], annotations={"tag": ("T0",) * len(out[place].words)})
        return tuple(out)

    made = Corpus("one", {**made.splits, "train": relabelled(made["train"])}, {"tag": "token"})
    inputs = synthetic.represent(tmp_path, made, synthetic.label_vector)
    for probe in ("linear", "mlp"):
        rows = pd.DataFrame(
            DescriptionLength(control=False, probe=probe, fractions=(0.01, 0.03, 0.2, 1.0)).run(inputs).rows
        )
        assert by_layer(rows, "untrained_blocks").tolist() == [2, 2, 2]
        first = rows[(rows["metric"] == "block_bits") & (rows["layer"] == 0)].iloc[:2]
        np.testing.assert_allclose(first["value"], first["n"] * np.log2(5))


def test_sentence_labels_are_sent_too(tmp_path):
    made = synthetic.corpus(np.random.default_rng(2))
    splits = {
        split: tuple(replace(s, annotations={"long": str(int(len(s.words) > 8))}) for s in sentences)
        for split, sentences in made.splits.items()
    }
    corpus = Corpus("lengths", splits, {"long": "sentence"})
    inputs = synthetic.represent(
        tmp_path, made, lambda s, w, layer: np.eye(16)[len(s.words)] * (3, 1, 0)[layer], keep=1
    )
    for split in inputs.representations.values():
        split.index[:, 1] = -1
    inputs = replace(inputs, task=corpus.task("long"))
    frame = pd.DataFrame(DescriptionLength(pooling="cls").run(inputs).rows)
    lengths = by_layer(frame, "codelength")
    assert lengths[0] < lengths[2] and not frame["metric"].str.startswith("control").any()
    for pooling in ("last", "pieces"):
        with pytest.raises(AnalysisError, match=f"pooling '{pooling}' does not fit task 'long' at level sentence"):
            DescriptionLength(pooling=pooling).run(inputs)


def test_labels_that_train_lacks_are_counted(inputs):
    def renamed(sentence):
        return replace(sentence, annotations={"tag": ("T9", *sentence.annotations["tag"][1:])})

    splits = {**inputs.task.corpus.splits, "test": tuple(map(renamed, inputs.task.corpus["test"]))}
    strange = replace(inputs, task=Corpus("strange", splits, {"tag": "token"}).task("tag"))
    frame = pd.DataFrame(DescriptionLength(control=False, fractions=(0.3, 1.0)).run(strange).rows)
    [found] = frame[(frame["metric"] == "unseen_labels") & (frame["value"] > 0)].to_dict("records")
    words = sum(len(sentence.words) for sentence in splits["test"])
    assert (found["split"], found["value"], found["n"]) == ("test", len(splits["test"]), words)
    assert by_layer(frame, "accuracy").max() <= 1 - len(splits["test"]) / words


def test_a_single_label_is_refused(inputs):
    splits = {
        split: tuple(replace(s, annotations={"tag": ("T0",) * len(s.words)}) for s in sentences)
        for split, sentences in inputs.task.corpus.splits.items()
    }
    with pytest.raises(AnalysisError, match="only the label 'T0' in train"):
        DescriptionLength().run(replace(inputs, task=Corpus("one", splits, {"tag": "token"}).task("tag")))


def test_sentences_that_two_models_read_are_sent_in_one_order():
    ids = [f"s{i}" for i in range(200)]
    order = [ids[at] for at in sending_order(ids, 3)]
    less = [name for name in ids if name not in ("s7", "s130")]
    assert [less[at] for at in sending_order(less, 3)] == [name for name in order if name in less]
    assert sorted(order) == sorted(ids) and order != [ids[at] for at in sending_order(ids, 4)] != ids


@pytest.mark.parametrize("analysis", [DescriptionLength(fractions=(0.1, 1.0)), LayerProbe(seeds=1)])
def test_words_of_a_second_segment_are_words(tmp_path, analysis):
    made = synthetic.corpus(np.random.default_rng(3))
    splits = {
        split: tuple(replace(s, words=s.words[:2], second=s.words[2:]) for s in sentences)
        for split, sentences in made.splits.items()
    }
    inputs = synthetic.represent(tmp_path, Corpus("two", splits, {"tag": "token"}), synthetic.label_vector)
    rows = pd.DataFrame(analysis.run(inputs).rows)
    alone = pd.DataFrame(analysis.run(synthetic.represent(tmp_path / "alone", made, synthetic.label_vector)).rows)
    assert len(rows) == len(alone), "where a segment ends plays no role"
