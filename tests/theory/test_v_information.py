"""V-information on worlds whose information is known: entropies by hand, redundancy, unique bits, copies, noise."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from synthetic import corpus, label_vector, represent

from vestige.analyses.information_groups import _distance, _has_heads
from vestige.analyses.information_probes import Probes, linear
from vestige.analyses.v_information import VInformation
from vestige.comparison.differences import Settings
from vestige.corpus.types import Corpus, Sentence
from vestige.errors import AnalysisError
from vestige.probes.beside import Beside
from vestige.probes.linear.least_loss import label_shares, least, least_loss_probe
from vestige.probes.problem import Features, standard
from vestige.probes.rows import LabelledRows
from vestige.representations.shared import in_common
from vestige.study.differences import compare_declared

QUICK = {"tolerance": 2e-3, "resamples": 200}
LN2 = np.log(2)


def entropy(shares) -> float:
    shares = np.asarray(shares, dtype=float)
    return float(-(shares[shares > 0] * np.log2(shares[shares > 0])).sum())


def one_hot(values: np.ndarray) -> np.ndarray:
    return np.eye(values.max() + 1, dtype=np.float32)[values]


def world(y: np.ndarray, *views: np.ndarray, l2: float | None = None):
    """The cross-entropies in bits of nothing, of every view alone and of the first two side by side.

    Train, dev and test are the same rows, so that discrete variables have exactly their shares.
    """
    labels, classes = torch.from_numpy(y), int(y.max()) + 1
    nothing = label_shares(labels, classes, labels, labels)

    def probe(rows):
        held = (rows, labels)
        return least_loss_probe(rows, labels, held, held, classes, l2=l2, tolerance=1e-4)

    frames = [standard(view, "made up") for view in views]
    alone = [least([nothing, probe(frame)]) for frame in frames]
    both = least([*alone[:2], probe(Beside(*frames[:2]))]) if len(views) > 1 else None
    return [told and float(-told.held.mean() / LN2) for told in (nothing, *alone, both)]


def test_given_nothing_the_uncertainty_is_the_entropy_of_the_labels():
    y = np.repeat([0, 1, 2], [40, 10, 50])
    labels = torch.from_numpy(y)
    nothing = label_shares(labels, 3, labels, labels)
    assert -nothing.held.mean() / LN2 == pytest.approx(entropy([0.4, 0.1, 0.5]), abs=1e-12)
    other = torch.tensor([0, 0, 1, 2, -1])
    told = label_shares(labels, 3, labels, other)
    by_hand = -(2 * np.log2(0.4) + np.log2(0.1) + np.log2(0.5)) / 4
    assert len(told.held) == 4 and -told.held.mean() / LN2 == pytest.approx(by_hand, abs=1e-12)


def pairs(table: dict[tuple[int, int, int], int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (y, a, b), each as often as the table says."""
    rows = np.array([row for row, often in table.items() for _ in range(often)])
    return rows[:, 0], rows[:, 1], rows[:, 2]


def test_what_one_of_two_coins_tells_of_both_is_one_bit_and_the_other_adds_one():
    """Y is the pair (A, B): the linear family has the whole conditional distribution, I(Y; B | A) = 1 bit exactly."""
    y, a, b = pairs({(2 * a + b, a, b): 500 for a in (0, 1) for b in (0, 1)})
    nothing, of_a, of_b, both = world(y, one_hot(a), one_hot(b))
    assert nothing == pytest.approx(2)
    assert nothing - of_a == pytest.approx(1, abs=0.01) and nothing - of_b == pytest.approx(1, abs=0.01)
    assert of_a - both == pytest.approx(1, abs=0.01) and of_b - both == pytest.approx(1, abs=0.01)


def test_what_both_tell_alike_is_lost_by_none():
    """B is A again: I(Y; B | A) = 0, whatever each tells alone."""
    y, a, _ = pairs({(0, 0, 0): 600, (1, 0, 0): 200, (0, 1, 0): 100, (1, 1, 0): 300})
    nothing, of_a, again, both = world(y, one_hot(a), one_hot(a)[:, ::-1].copy())
    known = (800 * entropy([0.75, 0.25]) + 400 * entropy([0.25, 0.75])) / 1200
    assert nothing == pytest.approx(entropy([700 / 1200, 500 / 1200]))
    assert of_a == pytest.approx(known, abs=2e-3) and again == pytest.approx(of_a, abs=1e-4)
    assert of_a - both == pytest.approx(0, abs=2e-4)


def test_unique_information_beside_shared_is_computed_by_hand():
    """Y depends on A and, where A is 1, on B: the logits of Y are linear in one-hot (A, B) for three cells of A x B.

    p(Y = 1): 0.2 for A = 0 whatever B is, else 0.5 or 0.8. A, B and their product are given as one-hot of the pair in
    the second view, so that the linear family has the true conditional distributions.
    """
    table = {}
    for a, b, share in ((0, 0, 0.2), (0, 1, 0.2), (1, 0, 0.5), (1, 1, 0.8)):
        table |= {(1, a, b): round(1000 * share), (0, a, b): round(1000 * (1 - share))}
    y, a, b = pairs(table)
    nothing, of_a, of_pair, both = world(y, one_hot(a), one_hot(2 * a + b))
    by_hand = {
        "nothing": entropy([1700 / 4000, 2300 / 4000]),
        "a": (entropy([0.2, 0.8]) + entropy([0.65, 0.35])) / 2,
        "pair": (2 * entropy([0.2, 0.8]) + entropy([0.5, 0.5]) + entropy([0.8, 0.2])) / 4,
    }
    assert nothing == pytest.approx(by_hand["nothing"]) and of_a == pytest.approx(by_hand["a"], abs=2e-3)
    assert of_pair == pytest.approx(by_hand["pair"], abs=2e-3)
    assert of_a - both == pytest.approx(by_hand["a"] - by_hand["pair"], abs=2e-3), "what the pair adds to A"
    assert of_pair - both == pytest.approx(0, abs=1e-3), "what A adds to the pair"


@pytest.mark.parametrize("l2", [None, 0.01, 1e-4])
def test_a_copy_a_rotation_and_zeros_add_nothing_whatever_the_ridge(l2):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    view = (np.eye(12)[y] + rng.normal(size=(400, 12))).astype(np.float32)
    rotation = np.linalg.qr(rng.normal(size=(12, 12)))[0].astype(np.float32)
    alone = world(y, view, l2=l2)[1]
    for other in (view, view @ rotation, 7 * view + 3):
        assert world(y, view, other, l2=l2)[-1] == pytest.approx(alone, abs=1e-3)
    labels, padded = torch.from_numpy(y), np.hstack([standard(view, "a").rows(slice(None)), np.zeros((400, 12))])
    rows = Features(padded.astype(np.float32))
    told = least_loss_probe(rows, labels, (rows, labels), (rows, labels), 3, l2=l2, tolerance=1e-4)
    assert -told.held.mean() / LN2 == pytest.approx(alone, abs=1e-3), "[h; 0] is read as h alone is"


def test_a_choice_of_ridge_does_not_jump():
    """Noise that makes another strength the best of those tried moves the ridge by as little as it moves the rest."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, 1200)
    view = (np.eye(30)[y] + rng.normal(size=(1200, 30))).astype(np.float32)
    labels = torch.from_numpy(y)
    ridges = []
    for copy in range(6):
        noisy = view + 0.01 * np.random.default_rng(copy).normal(size=view.shape).astype(np.float32)
        frame = standard(noisy[:400], "noisy")
        dev, held = ((frame.like(noisy[part]), labels[part]) for part in (slice(400, 800), slice(800, 1200)))
        ridges.append(least_loss_probe(frame, labels[:400], dev, held, 4, tolerance=1e-3).ridge)
    assert max(ridges) / min(ridges) < 1.25


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A corpus, and a model whose layers fade."""
    folder = tmp_path_factory.mktemp("made")
    words = corpus(np.random.default_rng(0), sizes=(("train", 150), ("dev", 60), ("test", 80)))
    return SimpleNamespace(folder=folder, corpus=words, base=represent(folder / "base", words, label_vector))


def compared(outcome, base=None):
    """The judged differences of one tuned cell, by metric and layer."""
    analysis = VInformation()
    tables = {"items": outcome.items, **outcome.tables}
    first = tables if base is None else {"items": base.items}
    metrics = [
        one for one in analysis.given if one.compared and (one.compared.within or base is not None)
    ]  # fmt: skip
    read = lambda name: (pd.DataFrame(first.get(name, tables[name])), [pd.DataFrame(tables[name])])  # noqa: E731
    return compare_declared(metrics, read, Settings(resamples=499))


def rows_of(outcome, metric):
    return {row["layer"]: row["value"] for row in outcome.rows if row["metric"] == metric and "label" not in row}


def test_pointwise_information_averages_to_the_information(made):
    outcome = VInformation(**QUICK).run(made.base)
    items = outcome.items
    for name, metric in (("pvi", "information"), ("context", "context")):
        for layer, value in rows_of(outcome, metric).items():
            assert items[name][items["layer"] == layer].mean() == value
    assert set(rows_of(outcome, "context")) == {1, 2}
    values = rows_of(outcome, "information")
    assert values[0] > values[1] > values[2] > 0, "the layers fade"
    assert {"lost", "gained", "pointwise"} <= set(outcome.absent)


def test_a_model_beside_itself_loses_and_gains_nothing(made):
    outcome = VInformation(**QUICK, context=False).run(replace(made.base, reference=made.base))
    for metric in ("lost", "gained"):
        assert np.abs(list(rows_of(outcome, metric).values())).max() < 1e-3
    assert rows_of(outcome, "information") == rows_of(outcome, "reference_information")
    assert all(row["value"] == 0 for row in outcome.rows if row["metric"] == "pointwise")
    assert len(outcome.tables["examples"]["word"]) == 0, "no word lost or gained"


def test_a_rotated_model_loses_and_gains_nothing(made):
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(16, 16)))[0]
    turned = represent(made.folder / "turned", made.corpus, label_vector, mapped=lambda rows: 5 * rows @ rotation)
    base, outcome = (VInformation(**QUICK).run(one) for one in (made.base, replace(turned, reference=made.base)))
    judged = compared(outcome, base)
    assert {"lost", "gained", "information", "context", "pointwise"} == set(judged["metric"])
    assert judged["difference"].abs().max() < 5e-3 and (judged["p_equivalence"] < 0.05).all()


def test_what_a_model_has_forgotten_is_lost_and_what_it_learnt_is_gained(made):
    """One model tells labels 0 to 2 apart, the other 3 and 4: each lacks what the other has."""

    def knows(some):
        def vector(sentence, word, layer):
            tag = int(sentence.annotations["tag"][word][1:])
            return 3 * np.eye(16)[tag if tag in some else 15]

        return vector

    one = represent(made.folder / "one", made.corpus, knows((0, 1, 2)), widths=(16,), seed=1)
    two = represent(made.folder / "two", made.corpus, knows((3, 4)), widths=(16,), seed=2)
    outcome = VInformation(**QUICK, least_words=20).run(replace(two, reference=one))
    judged = compared(outcome).set_index("metric")
    for metric in ("lost", "gained"):
        assert judged.loc[metric, "difference"] > 0.1 and judged.loc[metric, "low"] > 0.05
    by_label = {row["label"]: row["value"] for row in outcome.rows if row.get("subset") == "label"}
    assert by_label and all((value < 0) == (label in ("T0", "T1", "T2")) for label, value in by_label.items())
    gap = rows_of(outcome, "gained")[0] - rows_of(outcome, "lost")[0]
    change = rows_of(outcome, "information")[0] - rows_of(outcome, "reference_information")[0]
    assert gap == pytest.approx(change, abs=1e-9), "what is gained minus what is lost is the change"
    assert outcome.absent == {"context": "the model has one layer"}


def shuffled(words: Corpus, seed: int) -> Corpus:
    """The same sentences with the labels of each split dealt anew."""
    rng, splits = np.random.default_rng(seed), {}
    for split, sentences in words.splits.items():
        tags = rng.permutation([tag for s in sentences for tag in s.annotations["tag"]]).tolist()
        splits[split] = tuple(replace(s, annotations={"tag": tuple(tags.pop() for _ in s.words)}) for s in sentences)
    return Corpus(words.name, splits, words.levels)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_shuffled_labels_have_no_information(made, seed):
    """The least cross-entropy on dev is that of ignoring the layer, or next to it; intervals hold 0."""
    task = shuffled(made.corpus, seed).task("tag")
    outcome = VInformation(**QUICK, context=False).run(replace(made.base, task=task))
    for row in outcome.rows:
        if row["metric"] == "information":
            assert row["low"] - 0.01 <= 0 <= row["high"] + 0.01 and abs(row["value"]) < 0.02


def test_negative_estimates_are_reported_as_they_are(made):
    """Under a fixed weak ridge and shuffled labels, dev may prefer a probe by chance; nothing is clipped."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    labels, view = torch.from_numpy(y), rng.normal(size=(120, 20)).astype(np.float32)
    frame = standard(view[:60], "noise")
    held = (frame.like(view[60:]), labels[60:])
    told = least_loss_probe(frame, labels[:60], held, held, 2, l2=1e-4)
    nothing = label_shares(labels[:60], 2, labels[60:], labels[60:])
    assert told.held.mean() < nothing.held.mean(), "the probe is worse than nothing"
    assert least([nothing, told]) is nothing


def test_labels_that_train_lacks_are_left_out_and_counted(made, tmp_path):
    words = made.corpus
    odd = tuple(
        replace(s, annotations={"tag": ("T9", *s.annotations["tag"][1:])}) if number < 7 else s
        for number, s in enumerate(words["test"])
    )
    task = Corpus(words.name, {**words.splits, "test": odd}, words.levels).task("tag")
    outcome = VInformation(**QUICK, context=False).run(replace(made.base, task=task))
    (row,) = [row for row in outcome.rows if row["metric"] == "unseen_label_words"]
    assert row["value"] == 7 and len(outcome.items["pvi"]) == 3 * (row["n"] - 7)
    assert np.isfinite(outcome.items["pvi"]).all()


def test_bad_input_is_named(made):
    words = made.corpus
    rename = lambda s: replace(s, annotations={"tag": tuple(f"X{tag}" for tag in s.annotations["tag"])})  # noqa: E731
    foreign = Corpus(words.name, {**words.splits, "test": tuple(map(rename, words["test"]))}, words.levels)
    with pytest.raises(AnalysisError, match="no word of 'test' of task 'tag' has a label that occurs in train"):
        VInformation(**QUICK).run(replace(made.base, task=foreign.task("tag")))
    without = {"last": {name: found for name, found in made.base.representations.items() if name != "dev"}}
    with pytest.raises(AnalysisError, match="no 'dev' split"):
        VInformation(**QUICK).run(replace(made.base, poolings=without))
    one = Corpus(
        words.name,
        {
            split: tuple(replace(s, annotations={"tag": ("T0",) * len(s.words)}) for s in sentences)
            for split, sentences in words.splits.items()
        },
        words.levels,
    )
    with pytest.raises(AnalysisError, match="only the label 'T0'"):
        VInformation(**QUICK).run(replace(made.base, task=one.task("tag")))


def test_models_of_other_words_widths_and_depths_are_compared_where_they_meet(made):
    def narrow(sentence, word, layer):
        return label_vector(sentence, word, layer, 8)

    other = represent(made.folder / "narrow", made.corpus, narrow, widths=(8, 8), keep=5)
    outcome = VInformation(**QUICK, context=False).run(replace(other, reference=made.base))
    found = {row["metric"]: row["value"] for row in outcome.rows if "layer" not in row}
    assert found["unmatched_words"] > 0 and found["unmatched_layers"] == 1
    assert set(rows_of(outcome, "lost")) == {0, 1}
    deeper = VInformation(**QUICK, context=False).run(replace(made.base, reference=other))
    assert set(rows_of(deeper, "lost")) == {0, 1} and set(rows_of(deeper, "information")) == {0, 1, 2}
    assert int(np.isnan(deeper.items["both_pvi"]).sum()) == len(deeper.items["both_pvi"]) / 3


def test_rows_beside_each_other_are_read_alike_from_disk_and_memory(made):
    one, two = (made.base.split("test").layer(layer) for layer in (0, 1))
    beside = Beside(standard(one, "one"), standard(two, "two"))
    resident = beside.resident()
    assert isinstance(resident, Features) and beside.resident(budget=10) is beside
    torch.testing.assert_close(resident.rows(slice(None)), beside.rows(slice(None)))
    assert float(resident.rows(slice(None)).square().mean()) == pytest.approx(0.5, rel=1e-4)
    with pytest.raises(AnalysisError, match="cannot stand beside"):
        Beside(standard(one, "one"), standard(two[:5], "two"))


def test_shared_rows_are_those_of_the_same_words(made):
    short = represent(made.folder / "short", made.corpus, label_vector, keep=4)
    mine, theirs = in_common(made.base.split("test"), short.split("test"), ("base", "short"), "test")
    assert np.array_equal(mine.index, theirs.index) and len(mine) == len(theirs) == len(short.split("test"))
    assert mine.layer(0).shape == (len(mine), 16)


def test_sentence_groups_know_trees():
    tree = Sentence("s", ("a", "b", "c"), annotations={"head": (2, 0, 2)})
    assert _has_heads(tree) and [_distance(tree, word) for word in range(3)] == [1, 0, 1]
    assert not _has_heads(Sentence("s", ("a",), annotations={"head": ("2",)}))
    assert not _has_heads(Sentence("s", ("a",)))


def test_the_probe_of_nothing_needs_known_labels(made):
    rows = LabelledRows.of(made.corpus.task("tag"), made.base.representations, "made-up")
    rows.labels["dev"][:] = -1
    with pytest.raises(AnalysisError, match="no word of 'dev'"):
        Probes(rows, "test", linear(None, 1e-2))
