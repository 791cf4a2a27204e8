"""Every analysis that runs models, in a study whose models are on the pretend device: the results of the CPU."""

import numpy as np
import pandas as pd
import pytest
import tiny
import tiny_lm
from pretend_gpu import DEVICE, pretend_gpu

from unit.analyses.test_contract import ANALYSES, write_pairs
from vestige.study.run import Study

FEW = {"train": 20, "dev": 8, "test": 8}
IN_FLOAT64 = ("attention", "erasure", "lens", "output_drift")
"""They compute in float64 where the model is, if that is possible."""
OTHERS = ("minimal_pairs", "patched_probe", "perplexity", "similarity", "weights")
TUNED = {"patching", "truncation"}
"""They need a model that the study tuned."""
PLACE = ["analysis", "task", "model", "metric", "layer", "label", "subset", "axis", "x", "head", "layer2", "probe_seed"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("devices")
    for seed, name in enumerate(("base", "other")):
        tiny_lm.whole("bert", seed, layers=2).save_pretrained(place / name)
        tiny.tokenizer("bert").save_pretrained(place / name)
    (place / "pairs").mkdir()
    write_pairs(place / "pairs")
    return place


def study(folder, names, device, run):
    tuning = {"of": "base", "task": "opinions/opinion", "recipe": {"like": "mosbach2020_cola", "epochs": 1}}
    tuned = {"finetune": tuning} if TUNED & {*names} else {"load": str(folder / "other"), "reference": "base"}
    raw = {
        "study": "devices",
        "models": {"base": str(folder / "base"), "other": tuned},
        "corpora": {
            "words": {"name": "treebank", "sample": FEW},
            "opinions": {"name": "opinions", "sample": FEW},
            "pairs": {"files": str(folder / "pairs"), "format": "blimp"},
        },
        "analyses": [{name: ANALYSES[name]} for name in names],
        "compare": {"resamples": 19},
        "compute": {"device": device},
    }
    found = Study.from_dict(raw, folder / run, cache=folder / f"cache of {run}").run(name="inline")
    assert not found.failed, found.failed[0]
    return found.results


def alike(here: pd.DataFrame, there: pd.DataFrame) -> None:
    assert len(here) == len(there)
    place = [column for column in PLACE if column in here]
    both = here.merge(there, on=place, suffixes=("", "_there"))
    assert set(here["analysis"]) == set(both["analysis"])
    near = np.isclose(both["value"], both["value_there"], rtol=1e-3, atol=1e-4, equal_nan=True)
    assert near.all(), both.loc[~near, [*place, "value", "value_there"]].to_string()


@pytest.fixture
def known(monkeypatch):
    for module in ("models.files.load", "finetune.train"):
        monkeypatch.setattr(f"vestige.{module}.check_device", lambda device: None)


def test_analyses_that_run_models(folder, known):
    """On a device like CUDA's, and on one without float64."""
    here = study(folder, IN_FLOAT64 + OTHERS, "cpu", "cpu")
    for float64, names in ((True, IN_FLOAT64), (False, IN_FLOAT64 + OTHERS)):
        with pretend_gpu(float64) as gpu:
            there = study(folder, names, DEVICE, f"float64 {float64}")
        alike(here[here["analysis"].isin(names)], there)
        assert gpu.trips.total() > 100, "models were on the device"


def test_analyses_of_a_model_that_the_study_tunes_there(folder, known):
    here = study(folder, sorted(TUNED), "cpu", "tuned, cpu")
    with pretend_gpu(float64=False):
        alike(here, study(folder, sorted(TUNED), DEVICE, "tuned, there"))
