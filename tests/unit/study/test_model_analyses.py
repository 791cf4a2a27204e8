"""Analyses that need the model itself, and its reference, in a study: loaded from folders or handed over in memory."""

import json

import pytest
import tiny
import tiny_lm
import torch

from vestige.models.files.load import load_model
from vestige.study.corpora import Given
from vestige.study.run import Study
from vestige.study.spec import make_spec

ANALYSES = [
    {"attention": {"tasks": ["trees/upos"], "resamples": 20, "sentences": 6}},
    {"perplexity": {"tasks": ["trees/upos"], "resamples": 20, "block": 40, "rate": 0.3, "sentences": 12}},
    {"similarity": {"tasks": ["trees/upos"], "n": 60, "groups": 0, "measures": ["rsa", "cka"]}},
    {"structural_probe": {"tasks": ["trees/head"], "max_epochs": 2, "rank": 4}},
    {"structural_probe": {"tasks": ["trees/head"], "max_epochs": 1, "rank": 2, "probes": "depth"}},
    {"description_length": {"tasks": ["trees/upos"], "control": False, "fractions": [0.25, 0.5, 1.0]}},
]


def study(models, folder, jobs=1, given=None):
    raw = {"study": "models", "models": models, "corpora": {"trees": "treebank"}, "analyses": ANALYSES, "limit": 24}
    return Study(make_spec(raw), folder / "run", given=given, cache=folder / "cache").run(jobs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    for name, seed in (("base", 0), ("tuned", 1)):
        tiny_lm.whole("bert", seed).save_pretrained(place / name)
        tiny.tokenizer("bert").save_pretrained(place / name)
    return place


@pytest.fixture(scope="module")
def run(folder):
    models = {"base": str(folder / "base"), "tuned": {"load": str(folder / "tuned"), "reference": "base"}}
    return study({**models, "random twin": {"random_twin_of": "base"}}, folder, jobs=2)


def values(run, analysis, model, metric):
    rows = run.results
    return rows[(rows["analysis"] == analysis) & (rows["model"] == model) & (rows["metric"] == metric)]


def test_models_that_differ_in_their_head_alone_have_numbers_of_their_own(folder, tmp_path):
    """The backbone's hash does not tell them apart."""
    model = tiny_lm.whole("bert")
    with torch.no_grad():
        model.cls.predictions.bias += torch.linspace(-2, 2, len(model.cls.predictions.bias))
    model.save_pretrained(tmp_path / "other")
    tiny.tokenizer("bert").save_pretrained(tmp_path / "other")
    asked = {"perplexity": {"tasks": ["trees/upos"], "resamples": 20, "block": 40, "rate": 0.3, "sentences": 12}}
    in_memory = {
        name: load_model(str(place), head=True, name=name)
        for name, place in (("memory one", folder / "base"), ("memory other", tmp_path / "other"))
    }
    raw = {
        "study": "heads",
        "models": {"one": str(folder / "base"), "other": str(tmp_path / "other"), **dict.fromkeys(in_memory, "given")},
        "corpora": {"trees": "treebank"},
        "analyses": [asked],
        "limit": 24,
    }
    made = Study(make_spec(raw), tmp_path / "run", given=Given(in_memory), cache=tmp_path / "cache").run()
    found = made.results[made.results["metric"] == "perplexity"].set_index("model")["value"]
    assert found["one"] != found["other"]
    assert (found["memory one"], found["memory other"]) == (found["one"], found["other"])


def test_the_tuned_model_is_compared_with_its_reference(run):
    assert (values(run, "attention", "tuned", "emd")["value"] > 0).all()
    assert set(values(run, "similarity", "tuned", "rsa")["layer"]) == {0, 1, 2, 3}
    assert len(values(run, "perplexity", "tuned", "perplexity")) > 1


def test_a_model_without_a_reference_is_measured_alone_where_that_says_something(run):
    assert len(values(run, "attention", "base", "entropy"))
    assert values(run, "attention", "base", "emd").empty
    assert len(values(run, "perplexity", "base", "perplexity")) == 1
    assert values(run, "similarity", "base", "rsa").empty


def test_only_splits_that_an_analysis_reads_are_represented(folder, tmp_path):
    analyses = [{"similarity": {"tasks": ["trees/upos"], "n": 60, "groups": 0, "measures": ["cka"], "split": "dev"}}]
    models = {"base": str(folder / "base"), "tuned": {"load": str(folder / "tuned"), "reference": "base"}}
    raw = {"study": "one", "models": models, "corpora": {"trees": "treebank"}, "analyses": analyses, "limit": 24}
    Study(make_spec(raw), tmp_path / "run", cache=tmp_path / "cache").run(1)
    assert len(list((tmp_path / "cache" / "representations").iterdir())) == 2


def test_probes_of_trees_and_code_lengths_are_there_for_every_model(run):
    for model in ("base", "tuned", "random twin"):
        assert set(values(run, "structural_probe", model, "uuas")["layer"]) == {0, 1, 2, 3}
        assert len(values(run, "description_length", model, "codelength"))


def test_scores_of_trees_are_compared_with_the_base_layer_by_layer(run):
    found = run.comparisons[run.comparisons["analysis"] == "structural_probe"]
    assert found.groupby("params")["metric"].unique().map(sorted).tolist().count(["nspr", "root_accuracy"]) == 1
    for params, metrics in found.groupby("params", sort=False)["metric"].unique().items():
        for metric in metrics:
            before, after = (
                rows[rows["params"] == params].groupby("layer")["value"].mean().astype(float)
                for rows in (values(run, "structural_probe", model, metric) for model in ("base", "tuned"))
            )
            rows = found[(found["params"] == params) & (found["metric"] == metric)]
            assert rows["layer"].tolist() == [0, 1, 2, 3]
            assert rows["base"].tolist() == pytest.approx(before.tolist())
            assert rows["difference"].tolist() == pytest.approx((after - before).tolist())
    assert set(found["metric"]) == {"uuas", "dspr", "nspr", "root_accuracy"}


def test_code_lengths_are_compared_with_the_base_layer_by_layer(run):
    found = run.comparisons[run.comparisons["analysis"] == "description_length"]
    assert found["metric"].tolist() == ["saved"] * 4 and found["layer"].tolist() == [0, 1, 2, 3]
    for model, side in (("base", "base"), ("tuned", "tuned")):
        expected = values(run, "description_length", model, "saved")["value"].astype(float)
        assert found[side].tolist() == pytest.approx(expected.tolist())
    assert (found["items"] == values(run, "description_length", "base", "codelength")["n"].iloc[0]).all()


def test_models_in_memory_give_the_same_numbers(run, folder, tmp_path):
    given = Given({name: tiny_lm.encoder("bert", seed) for name, seed in (("base", 0), ("tuned", 1))})
    models = {"base": {"load": "(given)"}, "tuned": {"load": "(given)", "reference": "base"}}
    other = study(models, tmp_path, jobs=2, given=given)
    for analysis, metric in (("attention", "emd"), ("perplexity", "perplexity"), ("similarity", "cka")):
        mine, theirs = (values(found, analysis, "tuned", metric)["value"].tolist() for found in (run, other))
        assert mine == pytest.approx(theirs, rel=1e-6)


def test_a_report_is_written_without_a_page_of_layer_probes(run):
    assert "What is left of the language model" in run.report().read_text()
    assert "Layer by layer" not in run.report().read_text()


def test_minimal_pairs_of_blimp_are_scored_by_paradigm_and_compared(folder, tmp_path):
    data = tmp_path / "blimp"
    data.mkdir()
    for paradigm in ("word_order", "agreement"):
        about = {"UID": paradigm, "linguistics_term": "made up", "field": "syntax"}
        pairs = [" ".join(text.split()[:6]) for text in tiny.TEXT[:4]]
        records = [
            {**about, "pairID": number, "sentence_good": good, "sentence_bad": " ".join(good.split()[::-1])}
            for number, good in enumerate(pairs)
        ]
        (data / f"{paradigm}.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    raw = {
        "study": "pairs",
        "models": {"base": str(folder / "base"), "tuned": {"load": str(folder / "tuned"), "reference": "base"}},
        "corpora": {"pairs": {"files": str(data), "format": "blimp"}},
        "analyses": [{"minimal_pairs": {"tasks": ["pairs/acceptability"], "resamples": 20}}],
    }
    run = Study(make_spec(raw), tmp_path / "run", cache=tmp_path / "cache").run(2)
    for model in ("base", "tuned"):
        found = values(run, "minimal_pairs", model, "accuracy").set_index("label")["n"]
        assert found[["agreement", "word_order"]].tolist() == [4, 4] and found.sum() == 16
    assert len(values(run, "minimal_pairs", "tuned", "accuracy_change")) == 3
    assert run.comparisons["items"].tolist() == [8]
    assert "word_order" in run.report().read_text()
