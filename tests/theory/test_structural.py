"""What must hold of structural probes, on vectors that have a tree planted in them.

A word's planted vector is the sum of one unit vector per arc on its way to the root: squared
distances are then exactly tree distances, and squared lengths depths.
"""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from vestige.analyses.base import Inputs, check_rows
from vestige.analyses.structural_probe import StructuralProbe
from vestige.checksums import seal
from vestige.corpus.types import Corpus, Sentence
from vestige.errors import AnalysisError
from vestige.measures.trees import tree_depths, tree_distances
from vestige.probes.problem import Features
from vestige.probes.structural import (
    Sentences,
    StructuralRecipe,
    loss_and_gradients,
    mean_loss,
    predictions,
    read_batch,
    train_structural,
)
from vestige.representations.store import Representations, create_layers, write_manifest

ARCS = 16
"""Arcs a planted sentence has at most."""


def random_heads(rng, words, bushy=1.0):
    """Words in random order, each attached to one of the three before it, or (if not bushy) to the last."""
    order = rng.permutation(words)
    heads = np.zeros(words, dtype=int)
    for place in range(1, words):
        first = max(0, place - 3) if rng.random() < bushy else place - 1
        heads[order[place]] = order[rng.integers(first, place)] + 1
    return heads


def planted(heads):
    """(words, ARCS): the k-th arc, in order of its lower word, is the k-th direction."""
    arc = np.cumsum(heads > 0) - 1
    vectors = np.zeros((len(heads), ARCS))
    for word in range(len(heads)):
        at = word
        while heads[at]:
            vectors[word, arc[at]] = 1
            at = heads[at] - 1
    return vectors


def trees(seed, count, longest=ARCS + 1, shortest=2, bushy=1.0):
    rng = np.random.default_rng(seed)
    return [random_heads(rng, rng.integers(shortest, longest + 1), bushy) for _ in range(count)]


def slim(seed, count):
    """Trees with few equal distances: a prediction that is right but for rounding can rank them nearly as gold."""
    return trees(seed, count, shortest=10, bushy=0.1)


def sentences(kind, all_heads, vectors):
    """`vectors` per layer: (words of all sentences, width)."""
    lengths = np.array([len(heads) for heads in all_heads])
    measure = tree_distances if kind == "distance" else tree_depths
    gold = [measure(heads).astype(np.float32) for heads in all_heads]
    layers = [Features(np.ascontiguousarray(layer, dtype=np.float32)) for layer in vectors]
    return Sentences(layers, np.cumsum(lengths) - lengths, lengths, gold)


def corpus(**splits):
    made = {
        split: tuple(
            Sentence(f"{split}{at}", tuple(f"w{i}" for i in range(len(heads))), annotations={"head": tuple(heads)})
            for at, heads in enumerate(all_heads)
        )
        for split, all_heads in splits.items()
    }
    return Corpus("planted", made, {"head": "tree"})


def represent(folder, made, vector, widths, keep=999):
    """Layer l of a sentence is vector(heads, l)."""
    found = {}
    for split, items in made.splits.items():
        (folder / split).mkdir(parents=True)
        index = [(i, j) for i, s in enumerate(items) for j in range(min(keep, len(s.words)))]
        for layer, array in enumerate(create_layers(folder / split, len(index), widths, "float32")):
            array[:] = np.concatenate([vector(np.array(s.annotations["head"]), layer)[:keep] for s in items])
            array.flush()
        manifest = {"widths": list(widths), "rows": len(index)}
        write_manifest(folder / split, np.array(index, dtype=np.int32), manifest)
        seal(folder / split, folder / split)
        found[split] = Representations.open(folder / split)
    return Inputs(made.task("head"), {"mean": found}, "planted model")


def table(outcome, metric):
    frame = pd.DataFrame(outcome.rows)
    return frame[frame["metric"] == metric].groupby("layer")["value"].mean()


def every(values, expected, tolerance=1e-9):
    np.testing.assert_allclose(values, expected, atol=tolerance)


@pytest.mark.parametrize("kind", ["distance", "depth"])
def test_identity_meets_a_planted_tree_exactly(kind):
    heads = trees(0, 30, shortest=1)
    data = sentences(kind, heads, [np.concatenate([planted(h) for h in heads])])
    every(mean_loss(kind, data, [torch.eye(ARCS)], [0]), 0.0)
    for group, predicted in predictions(kind, data, [torch.eye(ARCS)], [0]):
        inside = group.inside if kind == "depth" else group.inside.unsqueeze(-1) * group.inside.unsqueeze(-2)
        assert torch.equal((predicted[0] * inside).round(), group.gold)


def test_a_probe_that_starts_at_the_answer_scores_everything(tmp_path, monkeypatch):
    """DSpr, NSpr, UUAS and root accuracy 1, losses 0, when the map is the identity and is not moved."""
    heads = {"train": trees(1, 4), "dev": trees(2, 4), "test": trees(3, 40)}
    inputs = represent(tmp_path, corpus(**heads), lambda h, layer: planted(h), (ARCS,))
    identity = torch.eye(ARCS).view(1, ARCS, ARCS)
    monkeypatch.setattr("vestige.probes.structural.initial_maps", lambda *_: identity)
    outcome = StructuralProbe(max_epochs=0, rescale=False, axes="units").run(inputs)
    for metric in ("dspr", "dspr_without_self", "uuas", "nspr", "root_accuracy"):
        every(table(outcome, metric), 1.0)
    for metric in ("distance_loss", "depth_loss"):
        every(table(outcome, metric), 0.0)


def test_a_planted_tree_is_recovered_under_a_random_mix_with_noise(tmp_path):
    rng = np.random.default_rng(4)
    width = ARCS + 8
    mix = np.linalg.qr(rng.normal(size=(width, width)))[0] * rng.uniform(0.7, 1.5, size=width)
    noise = np.random.default_rng(5)

    def vector(heads, layer):
        clean = np.concatenate([planted(heads), noise.normal(size=(len(heads), 8))], axis=1)
        return (noise.normal(size=clean.shape) if layer else clean) @ mix + 3.0

    heads = {"train": slim(6, 300), "dev": slim(7, 40), "test": slim(8, 40)}
    inputs = represent(tmp_path, corpus(**heads), vector, (width, width))
    outcome = StructuralProbe(probes="distance", rate=0.02).run(inputs)
    dspr, uuas = table(outcome, "dspr"), table(outcome, "uuas")
    assert dspr[0] >= 0.99 and uuas[0] >= 0.99
    assert dspr[1] < 0.7 and uuas[1] < 0.5


def test_depths_are_recovered_from_a_mix_without_offset(tmp_path):
    rng = np.random.default_rng(9)
    mix = np.linalg.qr(rng.normal(size=(ARCS, ARCS)))[0] * rng.uniform(0.7, 1.5, size=ARCS)
    heads = {"train": slim(6, 300), "dev": slim(7, 40), "test": slim(8, 40)}
    outcome = StructuralProbe(probes="depth", rate=0.02).run(
        represent(tmp_path, corpus(**heads), lambda h, layer: planted(h) @ mix, (ARCS,))
    )
    assert table(outcome, "nspr")[0] >= 0.99 and table(outcome, "root_accuracy")[0] >= 0.95


@pytest.fixture(scope="module")
def random_case():
    rng = np.random.default_rng(10)
    heads = trees(11, 25, shortest=1)
    words = sum(map(len, heads))
    return heads, rng.normal(size=(words, 12)), torch.tensor(rng.normal(size=(12, 5)), dtype=torch.float32)


def all_predictions(kind, heads, vectors, m):
    data = sentences(kind, heads, [vectors])
    found = {}
    for group, predicted in predictions(kind, data, [m], [0]):
        for sentence, length, mine in zip(group.sentences, group.lengths.int().tolist(), predicted[0], strict=True):
            found[int(sentence)] = mine[tuple([slice(length)] * mine.dim())]
    return [found[at] for at in range(len(heads))]


def test_distances_are_symmetric_with_a_zero_diagonal_and_not_negative(random_case):
    for mine in all_predictions("distance", *random_case):
        torch.testing.assert_close(mine, mine.T, atol=1e-4, rtol=1e-5)
        assert not mine.diagonal().any() and (mine >= 0).all()


def test_distances_ignore_translation_and_depths_do_not(random_case):
    """Even by far more than the distances, where inner products alone would lose them in rounding."""
    heads, vectors, m = random_case
    for kind, same in (("distance", True), ("depth", False)):
        pairs = zip(
            all_predictions(kind, heads, vectors, m), all_predictions(kind, heads, vectors + 300.0, m), strict=True
        )
        assert all(torch.allclose(a, b, atol=0.02, rtol=1e-4) for a, b in pairs) is same


@pytest.mark.parametrize("kind", ["distance", "depth"])
def test_an_orthogonal_map_after_the_probe_changes_nothing(random_case, kind):
    heads, vectors, m = random_case
    turn = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(0)))[0]
    for a, b in zip(
        all_predictions(kind, heads, vectors, m), all_predictions(kind, heads, vectors, m @ turn), strict=True
    ):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("kind", ["distance", "depth"])
def test_loss_and_gradient_are_those_of_the_definition(random_case, kind):
    """Against autograd on differences written out in full."""
    heads, vectors, m = random_case
    data = sentences(kind, heads, [vectors])
    batch = read_batch(data, np.arange(len(heads)))
    loss, (gradient,) = loss_and_gradients(kind, [batch.rows[0]], [m], batch)
    exact = m.double().requires_grad_()
    losses = []
    for start, length, gold in zip(data.starts, data.lengths, data.gold, strict=True):
        z = torch.tensor(vectors[start : start + length], dtype=torch.float32).double() @ exact
        away = z.unsqueeze(0) - z.unsqueeze(1) if kind == "distance" else z
        losses.append((away.square().sum(-1) - torch.tensor(gold)).abs().mean())
    expected = torch.stack(losses).mean()
    expected.backward()
    torch.testing.assert_close(loss[0].double(), expected.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradient.double(), exact.grad, atol=1e-4, rtol=1e-4)
    every(mean_loss(kind, data, [m], [0]), expected.item(), 1e-4)


def test_a_layer_is_trained_alike_alone_and_among_others():
    rng = np.random.default_rng(12)
    heads = {"train": trees(13, 60), "dev": trees(14, 20)}
    vectors = {
        split: [np.concatenate([planted(h) for h in all_heads]) + s * rng.normal(size=(sum(map(len, all_heads)), ARCS))
                for s in (0.1, 0.5, 3.0)]
        for split, all_heads in heads.items()
    }  # fmt: skip
    recipe = StructuralRecipe(rank=8, rate=0.02, patience=2)
    data = {split: sentences("distance", heads[split], vectors[split]) for split in heads}
    together = train_structural("distance", data["train"], data["dev"], recipe, [3])
    assert len(set(together.epochs.flatten().tolist())) > 1, "the layers should not all stop at once"
    alone = {split: sentences("distance", heads[split], vectors[split][:1]) for split in heads}
    first = train_structural("distance", alone["train"], alone["dev"], recipe, [3])
    every(first.dev_loss[0], together.dev_loss[0], 1e-5)
    torch.testing.assert_close(first.weights[0], together.weights[0], atol=1e-4, rtol=1e-3)


def test_the_weights_kept_are_those_of_the_best_epoch_on_dev():
    heads = {"train": trees(15, 40), "dev": trees(16, 20)}
    rng = np.random.default_rng(17)
    data = {
        split: sentences("depth", h, [rng.normal(size=(sum(map(len, h)), 30)) for _ in range(2)])
        for split, h in heads.items()
    }
    for reset in (False, True):
        recipe = StructuralRecipe(rate=0.02, reset_moments=reset)
        fit = train_structural("depth", data["train"], data["dev"], recipe, [0, 1])
        assert (fit.epochs < recipe.max_epochs).sum() >= 3, "noise is soon over-fitted"
        maps = list(fit.weights.flatten(0, 1))
        every(mean_loss("depth", data["dev"], maps, [0, 0, 1, 1]), fit.dev_loss.flatten(), 1e-5)


def test_a_probe_that_diverges_or_has_no_rank_is_no_probe():
    heads = {"train": trees(15, 20), "dev": trees(16, 10)}
    rng = np.random.default_rng(17)
    data = {split: sentences("depth", h, [rng.normal(size=(sum(map(len, h)), 6))]) for split, h in heads.items()}
    for recipe, problem in (
        (StructuralRecipe(rate=1e30), "depth probe of layer 0 diverged.* after epoch 1"),
        (StructuralRecipe(rank=0), "rank of 0, of vectors of width 6"),
        (StructuralRecipe(rank=7), "rank of 7, of vectors of width 6"),
    ):
        with pytest.raises(AnalysisError, match=problem):
            train_structural("depth", data["train"], data["dev"], recipe, [0])


def test_items_and_tables_add_up_to_the_rows(tmp_path):
    heads = {"train": trees(1, 30), "dev": trees(2, 10), "test": trees(3, 40, shortest=1)}
    noise = np.random.default_rng(0)
    inputs = represent(
        tmp_path, corpus(**heads), lambda h, layer: planted(h) + layer * noise.normal(size=(len(h), ARCS)), (ARCS, ARCS)
    )
    outcome = StructuralProbe(seeds=2, max_epochs=3, drawn=3).run(inputs)
    rows = pd.DataFrame(outcome.rows)
    items = pd.DataFrame(outcome.items)
    where = ["layer", "probe_seed"]
    assert not items.duplicated(["sentence", "word", "subset", *where]).any()
    for subset, metric in (("edge", "uuas"), ("root", "root_accuracy")):
        mine = items[items["subset"] == subset].groupby(where)["correct"].mean()
        theirs = rows[rows["metric"] == metric].set_index(where)["value"]
        every(mine.to_numpy(), theirs.loc[mine.index].to_numpy())
    assert (items["subset"] == "edge").sum() == 4 * sum(len(h) - 1 for h in heads["test"])
    by_sentence = pd.DataFrame(outcome.tables["sentences"])
    assert len(by_sentence) == 4 * 40
    losses = by_sentence.groupby(where)["distance_loss"].mean()
    every(losses.to_numpy(), rows[rows["metric"] == "distance_loss"].set_index(where)["value"].loc[losses.index])
    drawn = outcome.tables["trees"]
    assert len(drawn["sentence"]) == 3 and set(json.loads(drawn["edges"][0])) == {"0", "1"}
    assert len(json.loads(drawn["edges"][0])["0"]) == len(json.loads(drawn["words"][0])) - 1


@pytest.mark.parametrize("probes", ["both", "distance", "depth"])
def test_all_that_is_declared_is_reported(tmp_path, probes):
    made = corpus(train=trees(1, 10), dev=trees(2, 5), test=trees(3, 10))
    analysis = StructuralProbe(probes=probes, max_epochs=1, seeds=1)
    outcome = analysis.run(represent(tmp_path, made, lambda h, layer: planted(h), (ARCS,)))
    check_rows(analysis, outcome)
    assert {metric.name for metric in analysis.given} == {row["metric"] for row in outcome.rows}
    assert ("dspr" in outcome.tables["sentences"]) == (probes != "depth")


def test_sentences_that_are_too_short_have_no_correlation(tmp_path):
    made = corpus(train=trees(1, 10), dev=trees(2, 5), test=[np.array([0, 1, 1])] * 4)
    analysis = StructuralProbe(max_epochs=1, seeds=1)
    outcome = analysis.run(represent(tmp_path, made, lambda h, layer: planted(h), (ARCS,)))
    check_rows(analysis, outcome)
    assert set(outcome.absent) == {"dspr", "dspr_without_self", "nspr"}


def test_same_seed_same_numbers_and_other_seeds_others(tmp_path):
    heads = {"train": trees(1, 30), "dev": trees(2, 10), "test": trees(3, 20)}
    inputs = represent(tmp_path, corpus(**heads), lambda h, layer: planted(h), (ARCS,))
    one, two = (StructuralProbe(max_epochs=2, seeds=2, rank=4).run(inputs) for _ in range(2))
    assert one.rows == two.rows
    by_seed = [row["value"] for row in one.rows if row["metric"] == "distance_loss"]
    assert by_seed[0] != by_seed[1]


def test_sentences_without_a_tree_or_without_vectors_are_left_out_and_counted(tmp_path):
    made = corpus(train=trees(1, 30), dev=trees(2, 10), test=trees(3, 20, longest=9))
    first, second, third, *rest = made["test"]
    spoiled = (
        replace(first, annotations={"head": (0,) * len(first.words)}),
        replace(second, annotations={"head": (2, 1, *[1] * (len(second.words) - 2))}),
        replace(third, words=tuple("abcdefghijkl"), annotations={"head": (0, *[1] * 11)}),
    )
    made = Corpus("spoiled", {**made.splits, "test": (*spoiled, *rest)}, {"head": "tree"})
    rng = np.random.default_rng(0)
    inputs = represent(tmp_path, made, lambda h, layer: rng.normal(size=(len(h), 8)), (8,), keep=10)
    outcome = StructuralProbe(max_epochs=1).run(inputs)
    lost = [row for row in outcome.rows if row["metric"] == "left_out_sentences"]
    assert {row["subset"]: row["value"] for row in lost if row["split"] == "test"} == {
        "more than one root": 1, "no root": 1, "words without a vector": 1}  # fmt: skip
    assert set(outcome.items["sentence"]) <= {s.id for s in rest}


def test_a_split_without_any_tree_is_refused(tmp_path):
    made = corpus(train=[np.array([0, 0, 1])] * 3, dev=trees(2, 3), test=trees(3, 3))
    inputs = represent(tmp_path, made, lambda h, layer: np.ones((len(h), 4)), (4,))
    with pytest.raises(AnalysisError, match=r"split 'train': no sentence has one tree .*3 with more than one root"):
        StructuralProbe().run(inputs)


def test_punctuation_by_tags_that_are_not_there_is_refused(tmp_path):
    made = corpus(train=trees(1, 3), dev=trees(2, 3), test=trees(3, 3))
    inputs = represent(tmp_path, made, lambda h, layer: np.ones((len(h), 4)), (4,))
    with pytest.raises(AnalysisError, match="recognised by xpos"):
        StructuralProbe(punctuation="xpos").run(inputs)


def test_rescaling_makes_the_scale_of_a_layer_irrelevant(tmp_path):
    made = corpus(train=trees(1, 40), dev=trees(2, 10), test=trees(3, 20))
    losses = []
    for factor in (1.0, 4.0):
        inputs = represent(tmp_path / str(factor), made, lambda h, layer, f=factor: f * planted(h), (ARCS,))
        losses.append(
            table(StructuralProbe(probes="distance", rescale=True, max_epochs=3).run(inputs), "distance_loss")
        )
    every(losses[0], losses[1], 1e-5)


def test_a_rotated_copy_trains_the_same_probes(tmp_path):
    made = corpus(train=trees(1, 40), dev=trees(2, 10), test=trees(3, 20))
    rng = np.random.default_rng(4)
    sizes, rotation = 10.0 ** rng.uniform(-1, 1, size=ARCS), np.linalg.qr(rng.normal(size=(ARCS, ARCS)))[0]
    losses = {"principal": [], "units": []}
    for number, turn in enumerate((np.eye(ARCS), rotation)):
        inputs = represent(tmp_path / str(number), made, lambda h, layer, turn=turn: planted(h) * sizes @ turn, (ARCS,))
        for axes, found in losses.items():
            found.append(table(StructuralProbe(seeds=1, axes=axes, max_epochs=5).run(inputs), "distance_loss"))
    every(losses["principal"][0], losses["principal"][1], 1e-4)
    assert abs(losses["units"][0] - losses["units"][1]).max() > 0.01, "unit by unit a copy is read otherwise"


def test_layers_of_unequal_width(tmp_path):
    made = corpus(train=trees(1, 20), dev=trees(2, 10), test=trees(3, 20))
    rng = np.random.default_rng(0)
    inputs = represent(tmp_path, made, lambda h, layer: rng.normal(size=(len(h), (4, 6, 6)[layer])), (4, 6, 6))
    found = table(StructuralProbe(max_epochs=1, seeds=1).run(inputs), "dspr")
    assert found.index.tolist() == [0, 1, 2]
