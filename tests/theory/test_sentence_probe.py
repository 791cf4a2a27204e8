"""What must hold of sentence-level probes, on vectors whose content is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sentence_vectors
import torch
from scipy import stats

from vestige.analyses.base import Inputs
from vestige.analyses.sentence_probe import SentenceProbe
from vestige.corpus.types import Corpus
from vestige.probes.linear.senteval import SentEvalRecipe, Stopping, _winners, solve_senteval
from vestige.probes.problem import Features
from vestige.representations.extract import represent

PROTOCOLS = [
    {},
    {"probe": "mlp"},
    {"protocol": "senteval", "seeds": 1},
    {"protocol": "senteval", "probe": "mlp", "hidden": 8, "l2": 1e-4, "seeds": 1},
]
NAMES = ["converged", "converged mlp", "senteval", "senteval mlp"]


def table(outcome, metric):
    """Mean over seeds by layer."""
    frame = pd.DataFrame(outcome.rows)
    return frame[frame["metric"] == metric].groupby("layer")["value"].mean()


@pytest.fixture(scope="module")
def made():
    return sentence_vectors.corpus()


@pytest.fixture(scope="module")
def inputs(made, tmp_path_factory):
    return sentence_vectors.represent(tmp_path_factory.mktemp("reps"), made, sentence_vectors.planted(1))


@pytest.mark.parametrize("settings", PROTOCOLS, ids=NAMES)
def test_a_planted_property_is_found_where_it_is_and_random_labels_are_at_chance(inputs, settings):
    accuracy = table(SentenceProbe(control="none", **settings).run(inputs), "accuracy")
    assert accuracy[1] >= 0.98
    chance = stats.binom.interval(0.999, 100, 0.5)
    assert all(chance[0] <= 100 * accuracy[layer] <= chance[1] for layer in (0, 2))


@pytest.mark.parametrize("settings", PROTOCOLS[:1] + PROTOCOLS[2:], ids=NAMES[:1] + NAMES[2:])
def test_the_order_of_sentences_plays_no_role(made, tmp_path, settings):
    rng = np.random.default_rng(1)
    splits = {split: tuple(found[i] for i in rng.permutation(len(found))) for split, found in made.splits.items()}
    mixed = Corpus("made-up", splits, made.levels)
    planted = sentence_vectors.planted(1, strength=0.7)
    both = [
        pd.DataFrame(
            SentenceProbe(seeds=1, **{k: v for k, v in settings.items() if k != "seeds"})
            .run(sentence_vectors.represent(tmp_path / str(number), corpus, planted))
            .items
        ).set_index(["subset", "layer", "sentence"])
        for number, corpus in enumerate((made, mixed))
    ]
    other = both[1].loc[both[0].index]
    np.testing.assert_allclose(both[0]["log_probability"], other["log_probability"], atol=1e-3)
    assert (both[0]["predicted"] == other["predicted"]).all()


def test_scale_is_nothing_to_a_converged_probe_and_something_to_senteval(made, inputs, tmp_path):
    scaled = sentence_vectors.represent(tmp_path, made, sentence_vectors.planted(1), scale=4.0)
    changes = {}
    for protocol in ("converged", "senteval"):
        probe = SentenceProbe(protocol=protocol, seeds=1, l2=1e-3, tolerance=1e-4, control="none")
        before, after = (probe.run(given).items["log_probability"] for given in (inputs, scaled))
        changes[protocol] = np.abs(before - after).max()
    assert changes["converged"] < 0.01 and changes["senteval"] > 0.1


@pytest.mark.parametrize("probe", ["linear", "mlp"])
def test_a_long_vector_that_all_sentences_share_is_nothing_to_a_converged_probe(made, inputs, tmp_path, probe):
    """A thousand times as long as what tells the sentences apart, as the [CLS] of lower layers has it."""
    shared = 1000 * np.linspace(-1, 1, 12)
    planted = sentence_vectors.planted(1)
    moved = sentence_vectors.represent(tmp_path, made, lambda s, layer: planted(s, layer) + shared)
    before, after = (
        table(SentenceProbe(probe=probe, seeds=1, control="none").run(given), "accuracy") for given in (inputs, moved)
    )
    assert before[1] > 0.9
    np.testing.assert_allclose(before, after, atol=0.03)


@pytest.mark.parametrize("protocol", ["converged", "senteval"])
def test_vectors_that_are_all_alike_give_one_label_to_all(made, tmp_path, protocol):
    inputs = sentence_vectors.represent(tmp_path, made, lambda s, layer: np.ones(12), layers=1, noise=0.0)
    outcome = SentenceProbe(protocol=protocol, seeds=1, control="none").run(inputs)
    predicted = outcome.items["predicted"][outcome.items["subset"] == "task"]
    assert len(set(predicted)) == 1
    share = [s.annotations["label"] for s in made["test"]].count(predicted[0]) / 100
    assert table(outcome, "accuracy")[0] == share
    majority = next(row["value"] for row in outcome.rows if row["metric"] == "majority")
    assert protocol == "senteval" or share == majority


def test_the_first_token_of_a_model_tells_nothing_before_the_first_block(made, tiny_encoder, cache):
    encoder = tiny_encoder("bert")
    found = {split: represent(encoder, s, ("cls",), cache=cache)["cls"] for split, s in made.splits.items()}
    outcome = SentenceProbe(control="none").run(Inputs(made.task("label"), {"cls": found}, "tiny"))
    majority = next(row["value"] for row in outcome.rows if row["metric"] == "majority")
    assert table(outcome, "accuracy")[0] == majority


def test_flat_accuracy_stops_after_28_epochs_and_endless_gains_after_204():
    recipe = SentEvalRecipe()
    stopping = Stopping(2, recipe)
    passes = 0
    while stopping.running.any():
        passes += 1
        stopping.record(torch.tensor([0.5, passes / 1000], dtype=torch.float64))
    assert stopping.epochs.tolist() == [28, 204]
    assert passes == 51


def test_validation_passes_without_gain_are_counted_over_the_whole_training():
    stopping = Stopping(1, SentEvalRecipe(tenacity=2))
    gains = []
    for accuracy in (0.5, 0.4, 0.6, 0.6, 0.7, 0.1, 0.9):
        gains.append(bool(stopping.record(torch.tensor([accuracy], dtype=torch.float64))))
    assert gains == [True, False, True, False, True, False, False]
    assert stopping.epochs.item() == 24 and stopping.best.item() == 0.7


def test_training_itself_stops_by_the_same_counts():
    """Flat: rows that are all alike. Ever better: dev rows that come right one by one as the first weight grows."""
    sides = np.tile([1.0, -1.0], 32)
    train = np.stack([sides, np.zeros(64)], axis=1).astype(np.float32)
    labels = torch.from_numpy((sides > 0).astype(np.int64)).unsqueeze(0)
    ahead = np.linspace(-3, 3, 20_000)
    dev = np.stack([np.ones(20_000), ahead], axis=1).astype(np.float32)
    ones = torch.ones(1, 20_000, dtype=torch.long)
    growing = solve_senteval(Features(train), labels, Features(dev), ones, 2, SentEvalRecipe(l2=(0.0,)))
    assert growing.epochs.item() == 204
    alike = np.ones((64, 2), dtype=np.float32)
    flat = solve_senteval(Features(alike), labels, Features(alike), labels, 2, SentEvalRecipe())
    assert flat.epochs.item() == 28 and flat.dev_accuracy.item() == 0.5
    assert flat.l2.item() == 1e-5, "the first of equals"


def test_dev_accuracies_that_are_equal_to_two_decimals_are_equal():
    recipe = SentEvalRecipe(l2=(1e-5, 1e-4))
    stopping = Stopping(4, recipe)
    stopping.record(torch.tensor([0.90001, 0.90004, 0.9000, 0.9002], dtype=torch.float64))
    won = _winners([torch.arange(4.0).view(4, 1, 1)], stopping, recipe, probes=2)
    assert won.l2.tolist() == [1e-5, 1e-4]
    assert won.parameters[0].flatten().tolist() == [0.0, 3.0]


def test_a_control_task_by_first_words_is_learnt_from_first_words(made, tmp_path):
    """With vectors that are first words, the control accuracy is the share of seen ones, the task's is chance."""
    spread = np.random.default_rng(0).normal(size=(20, 12)) * 9

    def vector(sentence, layer):
        return spread[int(sentence.words[0][1:])]

    inputs = sentence_vectors.represent(tmp_path, made, vector, layers=1, noise=0.01)
    outcome = SentenceProbe(l2=1e-4, probe="mlp").run(inputs)
    unseen = next(row["value"] for row in outcome.rows if row["metric"] == "unseen_first_word_share")
    assert unseen == 0
    assert table(outcome, "control_accuracy")[0] > 0.9
    assert table(outcome, "selectivity")[0] < -0.2


def test_a_control_task_by_sentences_can_be_memorised_and_no_more(made, tmp_path):
    few = replace(made, splits={**made.splits, "train": made["train"][:12]})
    inputs = sentence_vectors.represent(tmp_path, few, sentence_vectors.nothing, layers=1)
    memorised, held = (
        table(SentenceProbe(control="sentence", l2=1e-5, split=split).run(inputs), "control_accuracy")[0]
        for split in ("train", "test")
    )
    assert memorised == 1.0
    assert abs(held - 0.5) < 0.15
