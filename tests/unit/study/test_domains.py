"""Similarity on the corpus a model was tuned on and on others, in a study: what is compared with what."""

import pytest
import tiny

from vestige.report.pages.similarity import page
from vestige.study.run import Study
from vestige.study.steps.analyse import Cell
from vestige.study.steps.step import restore

RECIPE = {"like": "mosbach2020_cola", "epochs": 1, "batch": 8, "rate": 1e-3, "max_tokens": 24}
MEASURED = {"n": 150, "measures": ["rsa"]}


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("domains")
    tiny.save("bert", folder / "bert", layers=2)
    raw = {
        "study": "domains",
        "models": {
            "base": str(folder / "bert"),
            "happy": {"finetune": {"of": "base", "task": "opinions/opinion", "recipe": RECIPE}, "runs": 2},
            "loaded": {"load": str(folder / "bert"), "reference": "base"},
        },
        "corpora": {
            "opinions": {"name": "opinions", "sample": {"train": 24, "dev": 30, "test": 30}},
            "lengths": {"name": "opinions", "derive": {"sentence_length": {"minimum": 1}}, "sample": {"test": 30}},
            "trees": {"name": "treebank", "sample": {"train": 5, "dev": 30, "test": 30}},
        },
        "analyses": [
            {"similarity": {"tasks": ["opinions/opinion", "lengths/sentence_length", "trees/upos"], **MEASURED}},
            {"similarity": {"tasks": ["trees/upos"], "split": "dev", **MEASURED}},
            {"similarity": {"tasks": ["trees/upos"], **MEASURED, "pooling": "first"}},
        ],
    }
    return Study.from_dict(raw, folder / "run", cache=folder / "cache")


@pytest.fixture(scope="module")
def run(asked):
    return asked.run()


def test_a_comparison_of_domains_travels_to_other_processes(asked):
    steps = [step for step in asked.plan().compares if step.outside]
    again = [restore(step.to_json()) for step in steps]
    assert steps and [step.title for step in again] == [step.title for step in steps]
    assert all(isinstance(cell, Cell) for step in again for cell in (*step.tuned, *step.outside))


def test_the_corpus_of_the_tuning_and_what_is_made_from_it_are_compared_with_all_others(run):
    found = run.comparisons
    assert set(found["model"]) == {"happy"} and set(found["reference"]) == {"base"}
    assert set(found["tuned_on"]) == {"opinions/opinion"} and set(found["analysis"]) == {"similarity"}
    pairs = found.groupby(["corpus", "other_corpus"]).size()
    assert pairs.to_dict() == {("opinions", "trees"): 6, ("lengths", "trees"): 6}
    splits = run.results.drop_duplicates("params").set_index("params")["split"]
    assert set(found["other_params"].map(splits)) == {"test", "dev"}
    assert not {"base", "tuned"} & set(found)


def test_differences_are_those_of_the_results_averaged_over_runs(run):
    rows = run.results[(run.results["model"] == "happy") & (run.results["pooling"] == "last")]
    rows = rows[(rows["metric"] == "rsa") & rows["layer"].notna() & (rows["split"] == "test")]
    means = rows.groupby(["corpus", "layer"])["value"].mean().astype(float)
    found = run.comparisons[run.comparisons["metric"] == "rsa"]
    found = found[found["other_params"].isin(set(rows["params"])) & (found["corpus"] == "opinions")]
    assert found["layer"].tolist() == [0, 1, 2] and (found["runs"] == 2).all()
    for row in found.itertuples():
        assert row.in_domain == pytest.approx(means["opinions", row.layer])
        assert row.out_of_domain == pytest.approx(means["trees", row.layer])
        assert row.difference == pytest.approx(row.in_domain - row.out_of_domain)
        assert row.low <= row.difference <= row.high and row.q >= row.p
        assert (row.items, row.other_items) == (150, 150) and (row.sentences, row.other_sentences) == (30, 30)


def test_the_report_tells_them(run):
    found = page(run.reading, "similarity").findings
    told = [finding.text for finding in found if finding.text.startswith("Tuned on opinions,")]
    assert any("on opinions" in text and "trees (test)" in text for text in told)
    assert any("on lengths" in text for text in told)
