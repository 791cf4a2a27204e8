"""What must hold of layer-wise probes, on vectors whose content is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import synthetic
from compared import TASK, compare_items

from vestige.analyses.base import check_rows
from vestige.analyses.layer_probe import LayerProbe
from vestige.comparison.differences import Settings, compare
from vestige.corpus.types import Corpus
from vestige.errors import AnalysisError


def table(outcome, metric):
    """Mean over seeds by layer."""
    frame = pd.DataFrame(outcome.rows)
    return frame[frame["metric"] == metric].groupby("layer")["value"].mean()


@pytest.fixture(scope="module")
def made():
    return synthetic.corpus(np.random.default_rng(0), sizes=(("train", 900), ("dev", 60), ("test", 90)))


@pytest.fixture(scope="module")
def inputs(made, tmp_path_factory):
    return synthetic.represent(tmp_path_factory.mktemp("reps"), made, synthetic.label_vector)


@pytest.mark.parametrize(
    "settings", [{}, {"protocol": "durrani"}, {"probe": "mlp"}], ids=["converged", "durrani", "mlp"]
)
def test_accuracy_follows_how_clearly_a_layer_shows_the_label(inputs, settings):
    accuracy = table(LayerProbe(**settings).run(inputs), "accuracy")
    assert accuracy[0] > accuracy[1] > accuracy[2] > 0.25
    assert accuracy[0] > (0.5 if "protocol" in settings else 0.95)


@pytest.mark.parametrize("factor", [0.5, 2.0, 1.7])
def test_rescaling_a_layer_does_not_change_a_converged_probe(made, inputs, tmp_path, factor):
    scaled = synthetic.represent(tmp_path, made, synthetic.label_vector, scale=factor)
    before, after = (table(LayerProbe(control=False).run(i), "accuracy") for i in (inputs, scaled))
    assert np.abs(before - after).max() < 0.001


@pytest.mark.parametrize(
    "settings",
    [{}, {"control": False}, {"probe": "mlp"}, {"protocol": "durrani"}, {"protocol": "durrani", "probe": "mlp"}],
)
def test_all_that_is_declared_is_reported(inputs, settings):
    analysis = LayerProbe(seeds=1, **settings)
    outcome = analysis.run(inputs)
    check_rows(analysis, outcome)
    assert {metric.name for metric in analysis.given} == {row["metric"] for row in outcome.rows}
    assert not outcome.absent


def test_rows_that_a_probe_cannot_give_have_a_reason(inputs):
    analysis = LayerProbe(seeds=1, l2=0.0)
    outcome = analysis.run(replace(inputs, baseline=True))
    check_rows(analysis, outcome)
    assert {"control_accuracy", "selectivity"} <= set(outcome.absent)
    assert {metric.name for metric in analysis.given} == {row["metric"] for row in outcome.rows} | set(outcome.absent)


def test_rescaling_changes_the_papers_protocol_so_the_two_are_told_apart(made, inputs, tmp_path):
    scaled = synthetic.represent(tmp_path, made, synthetic.label_vector, scale=4.0)
    probe = LayerProbe(protocol="durrani", control=False)
    before, after = (table(probe.run(i), "accuracy") for i in (inputs, scaled))
    assert np.abs(before - after).max() > 0.01


def test_converged_probes_certify_their_distance_from_the_optimum(inputs):
    gaps = table(LayerProbe(tolerance=1e-3, control=False).run(inputs), "optimality_gap")
    assert (gaps <= 1e-3).all() and (gaps > -1e-5).all()


def test_selectivity_of_a_control_task_is_about_zero(made, tmp_path):
    """Where gold labels are themselves a control task, nothing sets the two apart."""
    gold = synthetic.control_task(made.task("tag"), seed=99)
    splits = {
        split: tuple(replace(s, annotations={"tag": s.annotations[gold.name]}) for s in sentences)
        for split, sentences in gold.corpus.splits.items()
    }
    made = Corpus("control", splits, {"tag": "token"})
    one_hot = {f"w{i}": np.eye(64)[i] * 50 for i in range(60)}
    inputs = synthetic.represent(tmp_path, made, lambda s, w, layer: one_hot[s.words[w]], widths=(64,))
    outcome = LayerProbe(seeds=5).run(inputs)
    assert abs(table(outcome, "selectivity")[0]) < 0.05


def test_vectors_that_are_word_types_learn_the_control_task_of_all_seen_types(made, tmp_path):
    """One-hot types give control accuracy = share of seen types, plus chance on the rest."""
    one_hot = {f"w{i}": np.eye(64)[i] * 50 for i in range(60)}
    inputs = synthetic.represent(tmp_path, made, lambda s, w, layer: one_hot[s.words[w]], widths=(64,))
    outcome = LayerProbe(l2=1e-5).run(inputs)
    unseen = next(row["value"] for row in outcome.rows if row["metric"] == "unseen_type_share")
    accuracy = table(outcome, "control_accuracy")[0]
    assert 1 - unseen - 0.02 <= accuracy <= 1


def test_same_seed_same_numbers(inputs):
    one, two = (LayerProbe(protocol="durrani").run(inputs) for _ in range(2))
    assert one.rows == two.rows
    for name in one.items:
        np.testing.assert_array_equal(one.items[name], two.items[name])


def test_items_add_up_to_the_accuracies(inputs):
    outcome = LayerProbe().run(inputs)
    items = pd.DataFrame(outcome.items)
    by_layer = items[items["subset"] == "task"].groupby("layer")["correct"].mean()
    np.testing.assert_allclose(by_layer, table(outcome, "accuracy"))
    assert (items["log_probability"].dropna() <= 0).all()


def test_labels_that_train_lacks_are_wrong_and_counted(made, tmp_path):
    changed = replace(made["test"][0], annotations={"tag": ("NEW",) * len(made["test"][0].words)})
    splits = {**made.splits, "test": (changed, *made["test"][1:])}
    corpus = Corpus("made-up", splits, {"tag": "token"})
    inputs = synthetic.represent(
        tmp_path, corpus, lambda s, w, layer: np.zeros(16) if s.id == "test0" else synthetic.label_vector(s, w, layer)
    )
    outcome = LayerProbe(control=False).run(inputs)
    counted = next(row["value"] for row in outcome.rows if row["metric"] == "unseen_label_words")
    assert counted == len(changed.words)
    items = pd.DataFrame(outcome.items)
    theirs = items[items["gold"] == "(not in train)"]
    assert len(theirs) == 3 * counted and not theirs["correct"].any()


def test_a_label_that_only_words_past_the_limit_have_is_no_class(made, tmp_path):
    splits = {
        split: tuple(
            replace(s, annotations={"tag": (*s.annotations["tag"][:2], *["END"] * (len(s.words) - 2))})
            for s in sentences
        )
        for split, sentences in made.splits.items()
    }
    corpus = Corpus("cut", splits, {"tag": "token"})
    inputs = synthetic.represent(tmp_path, corpus, lambda s, w, layer: synthetic.label_vector(s, w, layer), keep=2)
    items = pd.DataFrame(LayerProbe(seeds=1).run(inputs).items)
    assert "END" not in set(items["gold"]) | set(items["predicted"])


def test_a_single_label_is_refused(made, tmp_path):
    splits = {
        split: tuple(replace(s, annotations={"tag": ("T0",) * len(s.words)}) for s in sentences)
        for split, sentences in made.splits.items()
    }
    inputs = synthetic.represent(tmp_path, Corpus("one", splits, {"tag": "token"}), synthetic.label_vector)
    with pytest.raises(AnalysisError, match="only the label 'T0'"):
        LayerProbe().run(inputs)


def test_a_layer_of_zeros_is_refused_by_name(made, tmp_path):
    inputs = synthetic.represent(tmp_path, made, synthetic.label_vector, scale=0.0)
    with pytest.raises(AnalysisError, match="made-up model, layer 0: activations are all zero"):
        LayerProbe().run(inputs)


def test_missing_dev_split_says_how_to_get_one(inputs):
    with pytest.raises(AnalysisError, match="no 'dev' split"):
        LayerProbe().run(
            replace(inputs, poolings={"last": {k: v for k, v in inputs.representations.items() if k != "dev"}})
        )


def test_layers_of_unequal_width_are_probed_alike(made, tmp_path):
    def vector(sentence, word, layer):
        return synthetic.label_vector(sentence, word, 0, width=(16, 24, 24)[layer])

    inputs = synthetic.represent(tmp_path, made, vector, widths=(16, 24, 24))
    for settings in ({}, {"protocol": "durrani"}, {"probe": "mlp"}):
        accuracy = table(LayerProbe(control=False, **settings).run(inputs), "accuracy")
        assert len(accuracy) == 3 and accuracy.min() > (0.5 if "protocol" in settings else 0.95)


def test_other_seeds_of_the_same_probe_are_no_finding(made, tmp_path):
    """A/A: three seeds against three others, on the same vectors; nothing is there to be found."""
    inputs = synthetic.represent(tmp_path, made, lambda s, w, layer: synthetic.label_vector(s, w, 2), widths=(16, 16))
    items = pd.DataFrame(LayerProbe(protocol="durrani", seeds=24, control=False).run(inputs).items)
    by_seed = dict(list(items[items["subset"] == "task"].groupby("probe_seed")))
    p_values, equivalent = [], []
    for trial in range(60):
        drawn = np.random.default_rng(trial).choice(24, size=6, replace=False)
        sides = [pd.concat([by_seed[seed].assign(probe_seed=at) for at, seed in enumerate(mine)])
                 for mine in (drawn[:3], drawn[3:])]  # fmt: skip
        judged = compare(TASK, sides[0], sides[1:], 0.0, Settings(resamples=299, seed=trial), stochastic=True)
        p_values.extend(judged["p"])
        equivalent.extend(judged["p_equivalence"])
    assert np.mean(np.array(p_values) <= 0.05) <= 0.07
    assert min(equivalent) > 0.05, "within a margin of nothing no two probes are alike"


def test_rotated_and_rescaled_copies_of_a_layer_are_no_finding(made, tmp_path):
    """Ten epochs of Adam read a copy otherwise; standardised vectors show that it is one."""
    rng = np.random.default_rng(3)
    sizes, rotation = 10.0 ** rng.uniform(-1.5, 0.5, size=32), np.linalg.qr(rng.normal(size=(32, 32)))[0]
    copies = {"base": lambda rows: rows * sizes, "copy": lambda rows: 3 * (rows * sizes) @ rotation + 1}
    analysis = LayerProbe(protocol="durrani", control=False)
    tables = []
    for name, mapped in copies.items():
        given = lambda s, w, layer: synthetic.label_vector(s, w, layer, 32)  # noqa: E731
        inputs = synthetic.represent(tmp_path / name, made, given, widths=(32, 32), mapped=mapped)
        tables.append(pd.DataFrame(analysis.run(inputs).items))
    judged = compare_items(tables[0], tables[1:], Settings(resamples=299), stochastic=analysis.stochastic)
    found = judged.set_index(["metric", "layer"])
    assert found.loc["accuracy", "difference"].abs().max() > 0.02, "the copy should be read otherwise"
    assert found.loc["accuracy_standardised", "difference"].abs().max() < 0.003
    assert (found.loc["accuracy", "p"] > 0.05).all() and (found.loc["accuracy", "p_equivalence"] > 0.05).all()


WIDE = {"widths": (24, 24), "vector": lambda s, w, layer: synthetic.label_vector(s, w, layer, 24)}


def blown_up(made, folder, times: float):
    """Vectors whose last unit is noise of this size."""
    sizes = np.r_[np.ones(23), times]
    return synthetic.represent(folder, made, **WIDE, mapped=lambda rows: rows * sizes)


@pytest.mark.parametrize("scale", ["layer", "unit"])
def test_one_blown_up_unit_costs_no_accuracy_and_is_counted(made, tmp_path, scale):
    plain, huge = (
        pd.DataFrame(LayerProbe(seeds=1, control=False, scale=scale).run(blown_up(made, tmp_path / str(t), t)).rows)
        for t in (1.0, 3000.0)
    )
    before, after = (rows[rows["metric"] == "accuracy"].set_index("layer")["value"] for rows in (plain, huge))
    np.testing.assert_allclose(after, before, atol=0.001 if scale == "unit" else 0.01)
    assert plain[plain["metric"] == "outlier_units"]["value"].tolist() == [0, 0]
    counted = huge[huge["metric"] == "outlier_units"]
    assert counted[["layer", "value", "n"]].to_numpy().tolist() == [[0, 1, 24], [1, 1, 24]]


def test_by_unit_the_size_of_units_plays_no_role(made, tmp_path):
    sizes = np.geomspace(1e-2, 1e2, 24)
    found = []
    for name, by in (("plain", np.ones(24)), ("sized", sizes)):
        inputs = synthetic.represent(tmp_path / name, made, **WIDE, mapped=lambda rows, by=by: rows * by)
        items = pd.DataFrame(LayerProbe(seeds=1, control=False, scale="unit").run(inputs).items)
        found.append(items["log_probability"].to_numpy())
    np.testing.assert_allclose(*found, atol=2e-2)


class TestFailedProbes:
    def rows(self, made, folder, probe, direction):
        """A direction that a few rows share and that is a thousand times as long as all else, on no unit's axis."""
        rng = np.random.default_rng(0)
        axis = rng.normal(size=24) / 24**0.5

        def mapped(rows):
            rare = rng.random(len(rows)) < 0.05
            return rows + direction * rare[:, None] * axis

        return pd.DataFrame(probe.run(synthetic.represent(folder, made, **WIDE, mapped=mapped)).rows)

    def test_a_probe_that_reads_little_where_much_can_be_read_has_failed(self, made, tmp_path):
        probe = LayerProbe(seeds=1, control=False)
        fine, wrecked = (self.rows(made, tmp_path / str(d), probe, d) for d in (0.0, 3e4))
        failed = wrecked[wrecked["metric"] == "failed_probe"].set_index("layer")["value"]
        assert (failed > 0.05).all() and len(failed)
        assert fine[fine["metric"] == "failed_probe"]["value"].tolist() == [0, 0]
        assert set(wrecked[wrecked["metric"] == "train_accuracy"]["layer"]) == {0, 1}

    def test_a_layer_that_says_nothing_has_not(self, made, tmp_path):
        rng = np.random.default_rng(0)
        inputs = synthetic.represent(tmp_path, made, **WIDE, mapped=lambda rows: rng.normal(size=rows.shape))
        rows = pd.DataFrame(LayerProbe(seeds=1, control=False).run(inputs).rows)
        read = rows[rows["metric"] == "accuracy"]["value"].max()
        types = rows[rows["metric"] == "word_type_majority"]["value"].item()
        assert read < types - 0.05, "the layer should be far below the word-type majority"
        assert rows[rows["metric"] == "failed_probe"]["value"].tolist() == [0, 0]
