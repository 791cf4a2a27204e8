"""What must hold of a drop that is split: a rotation moves, another map re-encodes, erasing loses, a copy does nothing."""

from pathlib import Path

import declared
import numpy as np
import pandas as pd
import pytest
import synthetic
from transferred import by_layer, judged, tuned

from vestige.analyses.base import Inputs, Outcome
from vestige.analyses.probe_transfer import ProbeTransfer
from vestige.errors import AnalysisError
from vestige.measures.erasure import leace
from vestige.probes.rows import LabelledRows

WIDTH = 16
ANALYSIS = ProbeTransfer(tolerance=1e-3)
PARTS = ["lost", "re_encoded", "moved"]
AFFINE_PARTS = ["lost", "re_encoded_affine", "moved_affine"]


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Inputs:
    sizes = (("train", 400), ("dev", 80), ("test", 90))
    made = synthetic.corpus(np.random.default_rng(0), sizes=sizes)
    return synthetic.represent(tmp_path_factory.mktemp("base"), made, synthetic.label_vector)


@pytest.fixture(scope="module")
def rotation() -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(1).normal(size=(WIDTH, WIDTH)))[0]


def run(base: Inputs, folder: Path, change, analysis: ProbeTransfer = ANALYSIS, **more) -> tuple[Outcome, pd.DataFrame]:
    outcome = declared.run(analysis, tuned(folder, base, change, **more))
    return outcome, by_layer(outcome)


def adds_up(found: pd.DataFrame) -> None:
    for parts in (PARTS, AFFINE_PARTS):
        np.testing.assert_allclose(found[parts].sum(axis=1), found["drop"], atol=1e-12)


def test_a_copy_is_nothing_at_all(base, tmp_path):
    outcome, found = run(base, tmp_path, lambda rows, layer: rows)
    assert (found[["drop", *PARTS, *AFFINE_PARTS]] == 0).all(axis=None)
    assert set(judged(ANALYSIS, outcome)["verdict"]) == {"unchanged"}
    assert "no layer lost" in outcome.absent["elsewhere"]


def test_a_rotated_shifted_and_scaled_copy_is_moved_and_nothing_else(base, rotation, tmp_path):
    outcome, found = run(base, tmp_path, lambda rows, layer: 3 * rows @ rotation + layer + 1)
    adds_up(found)
    assert (found["drop"] > 0.1).all()
    np.testing.assert_allclose(found["moved"], found["drop"], atol=0.004)
    np.testing.assert_allclose(found["moved_affine"], found["drop"], atol=0.004)
    np.testing.assert_allclose(found["scale"], 1 / 3, rtol=1e-5)
    verdicts = judged(ANALYSIS, outcome).groupby("metric")["verdict"].agg(set)
    assert verdicts["moved"] == verdicts["drop"] == {"higher"}
    assert verdicts["lost"] == verdicts["re_encoded"] == verdicts["re_encoded_affine"] == {"unchanged"}


def test_a_rescaled_layer_is_moved_not_lost(base, tmp_path):
    _, found = run(base, tmp_path, lambda rows, layer: 0.1 * rows)
    assert (found["moved"] > 0.02).any()
    assert found[["lost", "re_encoded"]].abs().max(axis=None) < 0.004


def test_an_invertible_map_is_re_encoded_for_a_rotation_and_moved_for_an_affine_map(base, rotation, tmp_path):
    stretched = rotation * np.geomspace(0.25, 4, WIDTH) @ rotation[::-1]
    _, found = run(base, tmp_path, lambda rows, layer: rows @ stretched + 1)
    adds_up(found)
    clear = found.loc[:1]
    assert (clear["re_encoded"] > 0.05).all() and (clear["lost"].abs() < 0.015).all()
    assert (clear["re_encoded_affine"].abs() < 0.015).all()
    np.testing.assert_allclose(clear["moved_affine"], clear["drop"], atol=0.015)


def test_what_a_map_makes_too_small_for_a_probe_of_its_own_is_read_by_the_bases_after_an_affine_map(
    base, rotation, tmp_path
):
    squeezed = rotation * np.geomspace(0.1, 10, WIDTH)
    _, found = run(base, tmp_path, lambda rows, layer: rows @ squeezed)
    adds_up(found)
    assert found.loc[0, "lost"] > 0.02
    assert found.loc[0, "re_encoded_affine"] == pytest.approx(-found.loc[0, "lost"], abs=0.01)


def test_an_erased_property_is_lost(base, tmp_path):
    rows = LabelledRows.of(base.task, base.representations, "base")
    labels, count = rows.labels["train"].numpy(), len(rows.classes)
    erasers = [leace(base.representations["train"].layer(at), labels, count) for at in range(3)]
    outcome, found = run(base, tmp_path, lambda states, layer: erasers[layer].rows(states))
    adds_up(found)
    assert found.loc[0, "drop"] > 0.7 and found.loc[1, "drop"] > 0.4
    chance = 1.3 / count - found.loc[:1, "own_accuracy"]
    assert (chance > 0).all()
    assert (found.loc[:1, "lost"] / found.loc[:1, "drop"]).between(0.9, 1.1).all()
    verdicts = judged(ANALYSIS, outcome).set_index(["metric", "layer"])["verdict"]
    assert verdicts["lost", 0] == verdicts["lost", 1] == "higher"


def test_what_a_layer_lost_is_found_in_another(base, tmp_path):
    """Layer 0 is drowned in noise, and what it held is written into layer 2."""
    rng = np.random.default_rng(0)
    held = {len(found): found.layer(0) for found in base.representations.values()}

    def swapped(rows, layer):
        return rng.normal(size=rows.shape) if layer == 0 else held[len(rows)][:, ::-1] if layer == 2 else rows

    outcome, found = run(base, tmp_path, swapped)
    assert found.loc[0, "lost"] > 0.5 and found.loc[0, "elsewhere_layer"] == 2
    assert found.loc[0, "elsewhere"] == pytest.approx(found.loc[0, "lost"], abs=0.01)
    assert found.loc[0, "elsewhere_in_base"] < found.loc[0, "base_accuracy"] - 0.3
    verdicts = judged(ANALYSIS, outcome).set_index(["metric", "layer"])["verdict"]
    assert verdicts["elsewhere", 0] == "higher" and verdicts["lost", 1] == "unchanged"
    grid = pd.DataFrame(outcome.rows).query("metric == 'across_accuracy' and layer2 == 0 and subset == 'rotated'")
    assert grid.set_index("layer")["value"].idxmax() == 2
    assert grid.set_index("layer")["value"][0] == pytest.approx(found.loc[0, "rotated_accuracy"])


def test_every_difference_of_the_comparison_is_the_value_of_its_row(base, rotation, tmp_path):
    analysis = ProbeTransfer(tolerance=1e-2, across="all")
    noisy = np.random.default_rng(2)
    outcome, found = run(base, tmp_path, lambda rows, _: rows @ rotation + noisy.normal(size=rows.shape), analysis)
    compared = judged(analysis, outcome).pivot(index="layer", columns="metric", values="difference").astype(float)
    assert {*PARTS, *AFFINE_PARTS, "drop", "elsewhere"} == {*compared}
    pd.testing.assert_frame_equal(compared, found[[*compared]], check_names=False, check_index_type=False)
    for parts in (PARTS, AFFINE_PARTS):
        np.testing.assert_allclose(compared[parts].sum(axis=1), compared["drop"], atol=1e-12)


def test_other_widths_leave_what_an_affine_map_can_say(base, rotation, tmp_path):
    wide = np.concatenate([rotation, np.zeros((WIDTH, 4))], axis=1)
    outcome, found = run(base, tmp_path, lambda rows, layer: rows @ wide)
    assert {"drop", "moved", "re_encoded", "moved_affine"} <= set(outcome.absent)
    assert found[["lost", "re_encoded_affine"]].abs().max(axis=None) < 0.02
    verdicts = judged(ANALYSIS, outcome)
    assert set(verdicts["metric"]) == {"lost", "re_encoded_affine"}
    one, _ = run(base, tmp_path / "one", lambda rows, layer: rows @ wide if layer else rows @ rotation)
    remarks = {row["metric"]: (row["value"], row.get("n")) for row in one.rows}
    assert remarks["other_widths"] == (2, 3) and set(by_layer(one)["drop"].dropna().index) == {0}
    assert set(judged(ANALYSIS, one).query("metric == 'moved'")["layer"]) == {0}


def test_a_model_of_fewer_layers_and_words_is_compared_by_what_both_have(base, tmp_path):
    outcome, found = run(base, tmp_path, lambda rows, layer: rows, layers=2, every=2)
    remarks = {row["metric"]: row["value"] for row in outcome.rows if "layer" not in row}
    assert remarks["left_out_layers"] == 1 and remarks["unmatched_words"] > 0
    assert [*found.index] == [0, 1] and (found["drop"] == 0).all()
    assert len(outcome.items["word"]) == 2 * len(base.representations["test"].index[::2])


def test_bad_input_says_what_to_do(base):
    with pytest.raises(AnalysisError, match="none was given"):
        ANALYSIS.run(base)
