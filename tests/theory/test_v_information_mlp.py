"""V-information of the mlp family: what only a hidden layer reads, what adds nothing, and what one seed may say."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from synthetic import corpus, label_vector, represent

from vestige.analyses.v_information import VInformation
from vestige.comparison.differences import Settings, control_false_discoveries
from vestige.corpus.types import Corpus
from vestige.errors import AnalysisError
from vestige.probes.beside import Beside
from vestige.probes.linear.least_loss_mlp import least_loss_mlp
from vestige.probes.linear.mlp import MlpRecipe, solve_mlp
from vestige.probes.problem import standard
from vestige.study.differences import compare_declared

MLP = {"probe": "mlp", "hidden": 16, "resamples": 50, "seeds": 2}
LN2 = np.log(2)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A corpus with a tag that is the exclusive or of two planted signs, and a model that shows both signs."""
    folder = tmp_path_factory.mktemp("made")
    words = corpus(np.random.default_rng(0), sizes=(("train", 150), ("dev", 60), ("test", 80)))
    xor = {
        split: tuple(
            replace(s, annotations={"tag": tuple(f"T{sum(signs(s, at)) % 2}" for at in range(len(s.words)))})
            for s in sentences
        )
        for split, sentences in words.splits.items()
    }
    task = Corpus(words.name, xor, words.levels)
    return SimpleNamespace(
        folder=folder,
        words=words,
        xor=represent(folder / "xor", task, both_signs, widths=(8,)),
        base=represent(folder / "base", words, label_vector),
    )


def signs(sentence, word) -> tuple[int, int]:
    """Two bits that depend on the word and on its place."""
    return int(sentence.words[word][1:]) % 2, word % 2


def both_signs(sentence, word, layer):
    one, other = signs(sentence, word)
    return 4 * np.array([2 * one - 1, 2 * other - 1, 0, 0, 0, 0, 0, 0])


def rows_of(outcome, metric, layer=0):
    found = [
        row["value"]
        for row in outcome.rows
        if row["metric"] == metric and row["layer"] == layer and "label" not in row
    ]  # fmt: skip
    return np.array(found)


def test_an_exclusive_or_is_nothing_to_linear_probes_and_one_bit_to_the_mlp(made):
    linear, mlp = (
        VInformation(context=False, **settings).run(made.xor) for settings in ({"resamples": 50}, MLP)
    )  # fmt: skip
    (entropy,) = [row["value"] for row in mlp.rows if row["metric"] == "entropy"]
    assert entropy == pytest.approx(1, abs=0.01)
    assert np.abs(rows_of(linear, "information")).max() < 0.02
    assert len(rows_of(mlp, "information")) == 2 and rows_of(mlp, "information").min() > 0.95
    assert rows_of(mlp, "ignored").tolist() == [0]
    assert not {row["metric"] for row in mlp.rows} & {"l2", "optimality_gap"}


def test_where_labels_are_linear_the_mlp_knows_as_much_as_linear_probes(made):
    linear, mlp = (VInformation(context=False, **more).run(made.base) for more in ({"resamples": 50}, MLP))
    for layer in range(3):
        assert rows_of(mlp, "information", layer) == pytest.approx(rows_of(linear, "information", layer)[0], abs=0.12)


def test_shuffled_labels_have_no_information_for_it_either(made):
    rng, splits = np.random.default_rng(4), {}
    for split, sentences in made.words.splits.items():
        tags = rng.permutation([tag for s in sentences for tag in s.annotations["tag"]]).tolist()
        splits[split] = tuple(replace(s, annotations={"tag": tuple(tags.pop() for _ in s.words)}) for s in sentences)
    task = Corpus(made.words.name, splits, made.words.levels).task("tag")
    outcome = VInformation(context=False, **MLP).run(replace(made.base, task=task))
    found = [row["value"] for row in outcome.rows if row["metric"] == "information"]
    assert len(found) == 6 and np.abs(found).max() < 0.03


def test_a_probe_that_says_less_than_the_shares_of_labels_is_ignored(made):
    """Where dev contradicts train, every probe is worse on dev than the shares: the family ignores the layer."""
    swapped = tuple(
        replace(s, annotations={"tag": tuple({"T0": "T1", "T1": "T0"}[tag] for tag in s.annotations["tag"])})
        for s in made.xor.task.corpus["dev"]
    )
    words = made.xor.task.corpus
    task = Corpus(words.name, {**words.splits, "dev": swapped}, words.levels).task("tag")
    outcome = VInformation(context=False, **MLP).run(replace(made.xor, task=task))
    assert rows_of(outcome, "information").tolist() == [0, 0] and rows_of(outcome, "ignored").tolist() == [1]


def test_a_layer_beside_a_copy_or_a_rotation_of_itself_gains_nothing(made):
    """[h; h] is on its principal axes the same numbers as [h; 0]: not within noise alone, but nearly exactly."""
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(16, 16)))[0]
    turned = represent(made.folder / "turned", made.words, label_vector, mapped=lambda rows: 5 * rows @ rotation)
    for other in (made.base, turned):
        outcome = VInformation(context=False, **MLP).run(replace(other, reference=made.base))
        for metric in ("lost", "gained"):
            for layer in range(3):
                assert np.abs(rows_of(outcome, metric, layer)).max() < 0.01


def test_two_layers_side_by_side_are_read_by_what_a_hidden_layer_can_combine(made):
    """One sign alone tells nothing of the exclusive or; two views of one sign each tell all of it, jointly."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2, (2, 1500))
    labels = torch.from_numpy(a ^ b)
    views = [(np.eye(4)[side] + 0.05 * rng.normal(size=(1500, 4))).astype(np.float32) for side in (a, b)]
    parts = slice(0, 900), slice(900, 1200), slice(1200, 1500)
    frames = [standard(view[parts[0]], "view") for view in views]
    train, dev, held = (
        Beside(*(frame.like(view[part]) for frame, view in zip(frames, views, strict=True))) for part in parts
    )
    alone, *held_out = ((frames[0].like(views[0][part]), labels[part]) for part in parts)
    settings = {"width": 8, "hidden": 16, "seeds": [0, 1]}
    both = least_loss_mlp(train, labels[:900], (dev, labels[900:1200]), (held, labels[1200:]), 2, **settings)
    one = least_loss_mlp(*alone, *held_out, 2, **settings)
    assert all(1 - float(-told.held.mean() / LN2) > 0.95 for told in both)
    assert all(abs(1 - float(-told.held.mean() / LN2)) < 0.02 for told in one)


def test_the_epoch_of_least_loss_is_kept_not_that_of_best_accuracy():
    """On wide rows a probe is soon sure of itself: later epochs are as often right, and say less."""
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 600)
    rows = (np.eye(40)[y] * 1.2 + rng.normal(size=(600, 40))).astype(np.float32)
    labels = torch.from_numpy(y)[None]
    train = standard(rows[:200], "rows")
    dev, loss = train.like(rows[200:]), {}
    for kept_by in ("accuracy", "loss"):
        recipe = MlpRecipe(hidden=32, rate=5e-3, kept_by=kept_by)
        fit = solve_mlp([train], labels[:, :200], [dev], labels[:, 200:], 2, recipe, [0])
        log_p = fit.log_probabilities([dev])[0, 0]
        loss[kept_by] = float(-log_p.gather(-1, labels[0, 200:, None]).mean())
    assert loss["loss"] < loss["accuracy"]


def test_rows_with_an_unseen_label_have_no_part_in_the_choice_by_loss():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 300)
    rows = (np.eye(6)[y] + rng.normal(size=(300, 6))).astype(np.float32)
    labels, train = torch.from_numpy(y), standard(rows[:200], "rows")
    odd = torch.cat([labels[200:], torch.full((50,), -1)])
    more = np.concatenate([rows[200:], 9 * rng.normal(size=(50, 6)).astype(np.float32)])
    plain, with_unseen = (
        least_loss_mlp(train, labels[:200], dev, dev, 2, width=12, hidden=8, seeds=[0])[0]
        for dev in ((train.like(rows[200:]), labels[200:]), (train.like(more), odd))
    )
    assert len(with_unseen.held) == len(plain.held) == 100
    np.testing.assert_allclose(plain.held, with_unseen.held, atol=1e-5)


def judged(outcome, analysis):
    tables = {"items": outcome.items, **outcome.tables}
    metrics = [one for one in analysis.given if one.compared and one.compared.within]
    read = lambda name: (pd.DataFrame(tables[name]), [pd.DataFrame(tables[name])])  # noqa: E731
    found = compare_declared(metrics, read, Settings(resamples=199), stochastic=analysis.stochastic)
    return control_false_discoveries(found)


def test_one_seed_only_describes_and_several_widen_the_intervals(made):
    faded = represent(made.folder / "faded", made.words, lambda *at: 0.3 * label_vector(*at), seed=3)
    pair = replace(faded, reference=made.base)
    for seeds in (1, 3):
        analysis = VInformation(context=False, **{**MLP, "seeds": seeds})
        outcome = analysis.run(pair)
        found = judged(outcome, analysis)
        assert set(found["metric"]) == {"lost", "gained", "pointwise"}
        assert ((found["verdict"] == "described").all()) == (seeds == 1)
        assert set(outcome.items["probe_seed"]) == set(outcome.tables["groups"]["probe_seed"]) == set(range(seeds))
        means = pd.DataFrame(outcome.items).groupby(["layer", "probe_seed"])["pvi"].mean()
        for layer in range(3):
            np.testing.assert_allclose(rows_of(outcome, "information", layer), means.loc[layer], atol=1e-9)
    lost = found[(found["metric"] == "lost") & (found["layer"] == 0)]
    assert lost["verdict"].item() == "higher" and lost["sd_probe_seed"].item() > 0


def test_a_ridge_is_of_linear_probes(made):
    with pytest.raises(AnalysisError, match="the mlp has no ridge"):
        VInformation(probe="mlp", l2=0.1).run(made.base)
