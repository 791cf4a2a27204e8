"""Every analysis that is compared, on copies of one model: nothing is claimed where nothing is.

The copies are rotated (where the measure should not care for axes) or have 1 % noise, of MiniLM on real
sentences; `benchmarks/null.py` is the same at a larger size. Other seeds of the same probe: see the theory tests
of comparisons and of layer probes.
"""

import json
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from vestige.corpus.load import load_corpus
from vestige.models.encoders.copies import CopiedEncoder
from vestige.study.null import claims, null_study, null_table
from vestige.study.run import Study

FEW = {"train": 50, "dev": 20, "test": 60}
QUICK_EDGES = {"rate": 3e-3, "validate_every": 10, "max_validations": 3, "projected": 32, "hidden": 32}
QUICK_NEURONS = {"l1": 1e-2, "l2": 1e-3, "control": False, "explored": 0, "deltas": [], "retrained": [0.05]}
ANALYSES = {
    "converged": {"layer_probe": {"tasks": ["words/upos"], "control": False}},
    "durrani": {"layer_probe": {"tasks": ["words/upos"], "protocol": "durrani", "control": False}},
    "mlp": {"layer_probe": {"tasks": ["words/upos"], "probe": "mlp", "control": False, "hidden": 8, "seeds": 2}},
    "senteval": {"sentence_probe": {"tasks": ["sentences/bigram_shift"], "protocol": "senteval", "control": "none"}},
    "structural": {"structural_probe": {"tasks": ["words/head"], "rank": 16, "max_epochs": 6}},
    "edges": {"edge_probe": {"tasks": ["arcs/dependency_arcs"], "inputs": ["top", "mix"], **QUICK_EDGES}},
    "code": {"description_length": {"tasks": ["words/upos"], "control": False}},
    "concepts": {
        "concepts": {"tasks": ["words/upos"], "clusters": 10, "n": 400, "groups": 5, "shuffles": 5, "seeds": 3}
    },
    "neurons": {"neurons": {"tasks": ["words/upos"], **QUICK_NEURONS}},
    "information": {"v_information": {"tasks": ["words/upos"], "context": False}},
    "information mlp": {
        "v_information": {"tasks": ["words/upos"], "context": False, "probe": "mlp", "hidden": 8, "seeds": 3}
    },
}
AXES_MATTER = ("neurons",)


@pytest.fixture(scope="module")
def corpora():
    return {
        "words": load_corpus("treebank").sample(FEW),
        "arcs": load_corpus("treebank", derive="dependency_arcs").sample(FEW),
        "sentences": load_corpus("treebank", derive="bigram_shift").sample(FEW),
    }


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("null")


@pytest.mark.parametrize("name", ANALYSES)
def test_a_copy_of_a_model_is_no_finding(name, minilm, corpora, shared_cache, tmp_path):
    rotated = name not in AXES_MATTER
    run = null_study(minilm, corpora, [ANALYSES[name]], tmp_path, rotated=rotated, cache=shared_cache)
    table = null_table(run)
    assert set(table["copy"]) == ({"rotated", "noise"} if rotated else {"noise"}) and table["comparisons"].sum() >= 2
    assert table["described"].sum() == 0, "every comparison has a test"
    assert table["significant"].sum() <= 0.07 * table["comparisons"].sum(), table.to_string()
    assert claims(run) == []


def test_a_rotated_copy_is_moved_and_a_noisy_one_is_not(minilm, corpora, shared_cache, tmp_path):
    """Of a rotated copy the base's probe reads nothing as it is: that is so. Nothing is lost or re-encoded in it."""
    asked = [{"probe_transfer": {"tasks": ["words/upos"]}}]
    run = null_study(minilm, corpora, asked, tmp_path, cache=shared_cache)
    table = null_table(run).set_index(["metric", "copy"])
    assert table["described"].sum() == 0
    moved = table.loc[[(name, "rotated") for name in ("drop", "moved", "moved_affine")]]
    assert (moved["significant"] == moved["comparisons"]).all()
    none = table.drop(index=moved.index).drop(index="elsewhere", errors="ignore")
    assert none["significant"].sum() <= 0.07 * none["comparisons"].sum(), table.to_string()
    assert claims(run) == []
    page = run.report().read_text()
    assert "lost is found" not in page and " lost at " not in page and " re-encoded at " not in page


def test_a_model_that_lost_something_is_a_finding(minilm, corpora, shared_cache, tmp_path):
    """The same study finds half of the signal drowned in noise: it does not find nothing because it cannot."""
    run = null_study(minilm, corpora, [ANALYSES["converged"]], tmp_path, rotated=False, cache=shared_cache, noise=2.0)
    assert null_table(run)["significant"].sum() >= 5 and len(claims(run)) >= 1


def test_a_copy_is_what_it_says(minilm, corpora):
    sentences = corpora["words"]["test"][:3]
    encoded = minilm.encode(sentences)
    plain = minilm.hidden_states(encoded)
    turned = CopiedEncoder(minilm, 0, rotated=True).hidden_states(encoded)
    noisy = CopiedEncoder(minilm, 0, noise=0.01)
    for one, other, third in zip(plain, turned, noisy.hidden_states(encoded), strict=True):
        np.testing.assert_allclose(one @ one.transpose(1, 2), other @ other.transpose(1, 2), rtol=1e-3, atol=1e-2)
        assert float((one - other).abs().max()) > 0.1
        words = len(encoded[0].ids)
        error = (third - one)[0, :words].square().mean().sqrt() / one[0, :words].square().mean().sqrt()
        assert float(error) == pytest.approx(0.01, rel=0.1)
    alone = noisy.hidden_states(encoded[:1])
    np.testing.assert_allclose(alone[3][0], noisy.hidden_states(encoded)[3][0, : alone[3].shape[1]], atol=1e-4)
    assert noisy.fingerprint != CopiedEncoder(minilm, 1, noise=0.01).fingerprint != minilm.fingerprint


def test_the_page_is_written_from_its_results_and_claims_nothing(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from benchmarks import null

    kept = json.loads(null.RESULTS.read_text())
    rows = [row for mine in kept.values() for row in mine]
    assert null.PAGE.read_text() == null.page(kept)
    assert {*kept} == {*null.ANALYSES, *null.ASKED, null.SIMILARITY} and not any(row["claims"] for row in rows)
    assert len(kept[null.SIMILARITY]) == 10 and all(row["least"] > 0.99 for row in kept[null.SIMILARITY])
    compared = [row for row in rows if row["name"] != null.SIMILARITY]
    found = pd.DataFrame(compared).groupby("name")[["comparisons", "described", "changed"]].sum()
    assert (found["changed"] <= 0.07 * (found["comparisons"] - found["described"])).all()


@pytest.fixture(scope="module")
def noisy(minilm, tmp_path_factory):
    """A folder with MiniLM whose weights have 1 % noise, for analyses that ask the model itself."""
    torch.manual_seed(0)
    model = deepcopy(minilm.model)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(0.01 * weights.std(correction=0) * torch.randn_like(weights))
    folder = tmp_path_factory.mktemp("noisy")
    model.save_pretrained(folder)
    minilm.tokenizer.save_pretrained(folder)
    return folder


def null_run(noisy, analyses, cache, folder, sentences=100, **more):
    """MiniLM against its noisy copy, on the text of a treebank; `more` sentences of other splits are read."""
    raw = {
        "study": "null",
        "models": {"base": "minilm", "noise": {"load": str(noisy), "reference": "base"}},
        "corpora": {"text": {"name": "treebank", "sample": {"test": sentences, **more}}},
        "analyses": analyses,
    }
    return Study.from_dict(raw, folder, cache=cache).run()


def test_noise_on_weights_is_no_finding_of_the_language_model(noisy, shared_cache, tmp_path):
    asked = [{"perplexity": {"tasks": ["text/upos"], "unit": "sentence", "sweep": False}}]
    run = null_run(noisy, asked, shared_cache, tmp_path)
    assert run.comparisons["metric"].tolist() == ["loss"] and run.comparisons["verdict"].tolist() == ["unchanged"]
    assert claims(run) == []


def test_noise_on_weights_leaves_nothing_to_recover(noisy, shared_cache, tmp_path):
    asked = [{"patching": {"tasks": ["text/upos"], "measures": ["loss"], "cumulative": False, "g": [0.5]}}]
    run = null_run(noisy, asked, shared_cache, tmp_path, sentences=40)
    assert not run.results["metric"].isin(["loss_kept", "loss_recovered"]).any()
    assert set(run.comparisons["verdict"]) == {"unchanged"} and len(run.comparisons) == 26
    assert claims(run) == []


QUICK_CLOUD = {"tasks": ["words/upos"], "words": 800, "measures": ["cosine", "norm", "spectrum", "dimension"]}


def test_geometry_and_similarity_of_a_copy_are_no_finding(minilm, corpora, shared_cache, tmp_path):
    """Noise truly adds dimensions, a few in a thousand: not a rotated copy, but a noisy one may differ that much."""
    asked = [{"geometry": QUICK_CLOUD}, {"similarity": {"tasks": ["words/upos"]}}]
    run = null_study(minilm, {"words": corpora["words"]}, asked, tmp_path, cache=shared_cache)
    table = null_table(run).set_index(["copy", "metric"])
    assert table["described"].sum() == 0 and table.loc["rotated", "significant"].sum() == 0, table.to_string()
    assert (table["unchanged"] == table["comparisons"]).all() and len(table) == 12, table.to_string()
    rotated = run.results[(run.results["model"] == "rotated 0") & run.results["metric"].str.startswith("cka")]
    assert len(rotated) == 21 and rotated["value"].astype(float).min() > 0.99999
    assert claims(run) == []


def test_noise_on_weights_is_no_finding_of_geometry(noisy, shared_cache, tmp_path):
    asked = [{"geometry": {"tasks": ["text/upos"], "words": 800}}, {"similarity": {"tasks": ["text/upos"]}}]
    run = null_run(noisy, asked, shared_cache, tmp_path)
    assert set(run.comparisons["verdict"]) == {"unchanged"}, run.comparisons.to_string()
    assert run.comparisons["metric"].nunique() == 7 and claims(run) == []


def test_noise_on_weights_leaves_nothing_to_recover_under_a_frozen_probe(noisy, shared_cache, tmp_path):
    asked = [{"patched_probe": {"tasks": ["text/upos"], "sites": ["block"], "g": [0.5], "tolerance": 0.05}}]
    run = null_run(noisy, asked, shared_cache, tmp_path, sentences=60, train=60, dev=20)
    assert not run.results["metric"].isin(["probe_kept", "probe_recovered"]).any()
    assert len(run.comparisons) == 7 and not run.comparisons["verdict"].isin(["lower", "higher"]).any()
    assert claims(run) == []


def test_noise_on_weights_is_no_drift(noisy, shared_cache, tmp_path):
    asked = [{"output_drift": {"tasks": ["text/upos"]}}, {"lens": {"tasks": ["text/upos"], "sentences": 60}}]
    run = null_run(noisy, asked, shared_cache, tmp_path)
    whole = run.results[(run.results["metric"] == "kl") & run.results["label"].isna()]
    assert 0 < whole["value"].item() < 0.02
    assert set(run.comparisons["verdict"]) == {"unchanged"}, run.comparisons.to_string()
    assert claims(run) == []
