"""What must hold of a frozen probe on patched models: as tuned, as the base, and what a layer-wise probe finds."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import tiny_lm
from declared import run

from vestige.analyses.base import Inputs
from vestige.analyses.layer_probe import LayerProbe
from vestige.analyses.patch_places import DIRECTIONS
from vestige.analyses.patched_probe import PatchedProbe
from vestige.corpus.load import load_corpus
from vestige.errors import AnalysisError
from vestige.representations.extract import represent

FEW = {"train": 60, "dev": 20, "test": 30}


@pytest.fixture(scope="module")
def task():
    return load_corpus("treebank").sample(FEW).task("upos")


@pytest.fixture(scope="module")
def given(task, tmp_path_factory):
    """By family and seed: a model on the task."""
    known = {}

    def make(family: str, seed: int) -> Inputs:
        if (family, seed) not in known:
            encoder = tiny_lm.encoder(family, seed)
            cache = tmp_path_factory.mktemp("states")
            rows = {s: represent(encoder, some, cache=cache)["last"] for s, some in task.corpus.splits.items()}
            known[family, seed] = Inputs(task, {"last": rows}, encoder.name, encoder=encoder)
        return known[family, seed]

    return make


def both(given, family="bert", seeds=(1, 0)) -> Inputs:
    return replace(given(family, seeds[0]), reference=given(family, seeds[1]))


def frame(outcome, metric: str) -> pd.DataFrame:
    rows = pd.DataFrame(outcome.rows)
    return rows[rows["metric"] == metric]


def test_shares_are_one_as_tuned_and_zero_as_the_base(given):
    found = run(PatchedProbe(cumulative=False), both(given))
    kept, back = frame(found, "probe_kept"), frame(found, "probe_recovered")
    for rows, expected in ((kept, 0), (back, 1)):
        block = rows[(rows["subset"] == "block") & (rows["layer"] == 3)].iloc[0]
        assert (block["value"], block["low"], block["high"]) == pytest.approx([expected] * 3, abs=1e-9)
    along = back[back["axis"] == "g"].set_index("x")["value"]
    assert along[0.0] == pytest.approx(0, abs=1e-9) and along[1.0] == pytest.approx(1, abs=1e-9)
    levels = pd.concat(frame(found, name) for name in ("probe_base", "probe_tuned", "majority"))
    assert set(levels["subset"]) == {"probe_patched"}, "no level lines beside shares"
    base, tuned = levels["value"][:2]
    assert base > tuned + 0.1, "the base's probe reads the base, and not another model"
    levels = frame(found, "probe_patched").set_index(["subset", "subset2", "layer"])["value"]
    for row in kept.dropna(subset="layer").itertuples():
        expected = (levels[row.subset, DIRECTIONS["kept"], row.layer] - base) / (tuned - base)
        assert row.value == pytest.approx(expected) and row.low <= row.value <= row.high


@pytest.mark.parametrize("family", ["gpt2", "albert"])
def test_everything_patched_is_the_donor(given, family):
    found = run(PatchedProbe(sites=("block",), g=(0.0, 1.0)), both(given, family))
    base, tuned = (frame(found, f"probe_{name}")["value"].item() for name in ("base", "tuned"))
    levels = frame(found, "probe_patched")
    blocks = levels[levels["layer"] == 3].set_index("subset2")["value"]
    assert [blocks[DIRECTIONS[name]] for name in ("kept", "recovered")] == [base, tuned] and base != tuned
    assert levels[levels["axis"] == "g"]["value"].tolist() == [base, tuned]


@pytest.mark.parametrize("whose", ["base", "tuned"])
def test_the_probe_is_that_of_a_layer_wise_probe(given, whose):
    """Trained on the last layer of one model and scored there, before anything is patched."""
    inputs = both(given)
    found = run(PatchedProbe(trained_on=whose, sites=("block",), g=()), inputs)
    probed = LayerProbe(control=False).run(inputs.reference if whose == "base" else inputs)
    top = frame(probed, "accuracy").groupby("layer")["value"].mean()[3]
    assert frame(found, f"probe_{whose}")["value"].item() == pytest.approx(top, abs=1e-9)
    other = "tuned" if whose == "base" else "base"
    assert frame(found, f"probe_{other}")["value"].item() < top


def test_a_copy_has_nothing_to_recover(given):
    found = run(PatchedProbe(g=(0.5,), cumulative=False), both(given, seeds=(0, 0)))
    assert not len(frame(found, "probe_kept")) and "no change to recover" in found.absent["probe_kept"]
    assert (frame(found, "probe_change")["value"] == 0).all()
    table = found.tables["probe_replicates"]
    np.testing.assert_array_equal(table["tuned"], table["patched"])


def test_fewer_sentences_and_bad_input(given):
    inputs = both(given)
    found = PatchedProbe(sentences=10, sites=("block",), g=()).run(inputs)
    assert frame(found, "probe_base")["n"].item() == 10
    with pytest.raises(AnalysisError, match="no reference"):
        PatchedProbe().run(inputs.reference)
    with pytest.raises(AnalysisError, match="cannot be patched: it is missing"):
        PatchedProbe().run(replace(inputs, encoder=None))


def test_a_last_layer_before_the_final_norm_is_refused(given, task, tmp_path):
    inputs = both(given, "gpt2")
    encoder = tiny_lm.load_model(
        tiny_lm.whole("gpt2", 1), tokenizer=tiny_lm.tiny.tokenizer("gpt2"), name="pre", final_norm="pre"
    )
    with pytest.raises(AnalysisError, match="last layer is not read"):
        PatchedProbe().run(replace(inputs, encoder=encoder))
