"""A study from models and a corpus to tables, on tiny models."""

import json
import shutil

import pandas as pd
import pytest
import tiny
from small_study import study

import vestige
from vestige.analyses.layer_probe import LayerProbe
from vestige.corpus.types import Corpus, Sentence
from vestige.errors import AnalysisError, ModelError, SpecError
from vestige.models.files.load import load_model
from vestige.report.warnings import warnings
from vestige.study import differences
from vestige.study.finished import StudyRun
from vestige.study.run import Study

COLUMNS = [
    "study",
    "cell",
    "model",
    "reference",
    "tuned_on",
    "pretrain_seed",
    "tune_seed",
    "step",
    "analysis",
    "params",
    "corpus",
    "task",
    "split",
    "pooling",
    "layer",
    "layer2",
    "head",
    "label",
    "input",
    "side",
    "subset",
    "subset2",
    "axis",
    "x",
    "axis2",
    "x2",
    "metric",
    "probe_seed",
    "value",
    "low",
    "high",
    "n",
]


def test_tables_have_the_promised_columns_and_a_second_run_computes_nothing(place, tmp_path, cache, monkeypatch):
    run = Study.from_dict(study(place), tmp_path / "run", cache=cache).run()
    assert list(run.results.columns) == COLUMNS
    assert set(run.results["model"]) == {"base", "other"}
    assert len(run.comparisons[run.comparisons["metric"] == "accuracy"]) == 3
    first = (tmp_path / "run" / "results.parquet").read_bytes()

    def refuse(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(LayerProbe, "run", refuse)
    monkeypatch.setattr("vestige.representations.extract._run", refuse)
    Study.from_dict(study(place), tmp_path / "run", cache=cache).run()
    assert (tmp_path / "run" / "results.parquet").read_bytes() == first


def test_an_empty_cache_gives_the_same_bytes(place, tmp_path, cache):
    for name in ("one", "two"):
        Study.from_dict(study(place), tmp_path / name, cache=cache).run(jobs=2 if name == "two" else 1)
        shutil.rmtree(cache)
    for table in ("results.parquet", "comparisons.parquet", "study.lock.json"):
        assert (tmp_path / "one" / table).read_bytes() == (tmp_path / "two" / table).read_bytes(), table


def test_items_are_kept_beside_the_results(place, tmp_path, cache):
    run = Study.from_dict(study(place), tmp_path / "run", cache=cache).run()
    cell = run.results[run.results["model"] == "base"]["cell"].iloc[0]
    items = run.tables.items(cell)
    task = items[(items["subset"] == "task") & (items["layer"] == 0)]
    accuracy = run.results.query("cell == @cell and metric == 'accuracy' and layer == 0")["value"].iloc[0]
    assert task["correct"].mean() == pytest.approx(accuracy)


def test_fine_tuned_runs_are_compared_with_their_base(place, tmp_path, cache):
    raw = study(place)
    tune = {"of": "base", "task": "opinions/label", "recipe": {"epochs": 1, "rate": 1e-3}}
    raw["models"] = {
        "base": str(place / "base"),
        "tuned": {"finetune": tune, "runs": 2},
        "twin": {"random_twin_of": "base"},
    }
    raw["corpora"]["opinions"] = {"files": {"train": str(place / "opinions.tsv")}}
    run = Study.from_dict(raw, tmp_path / "run", cache=cache).run()
    assert set(run.results.query("model == 'tuned'")["tune_seed"]) == {0, 1}
    assert (run.comparisons["runs"] == 2).all() and run.comparisons["sd_tuning_run"].notna().all()
    lock = json.loads((tmp_path / "run" / "study.lock.json").read_text())
    prints = [model["fingerprint"] for model in lock["models"]["tuned"]]
    assert len(set(prints)) == 2 and lock["models"]["base"][0]["fingerprint"] not in prints
    assert "control_accuracy" not in set(run.results.query("model == 'twin'")["metric"])


def test_in_memory_models_are_compared_in_three_lines(place, tmp_path, cache, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus = vestige.load_corpus(place)
    base, tuned = tiny.model("bert", layers=2), tiny.model("bert", layers=2, seed=5, classes=2)
    run = vestige.compare(base, tuned, corpus, tokenizer=tiny.tokenizer("bert"), tasks=["upos"], cache=cache)
    assert set(run.results["model"]) == {"base", "tuned", "random twin"}
    assert isinstance(run.comparisons, pd.DataFrame)


def test_other_tokens_and_other_depths_are_said(place, tmp_path, cache):
    raw = study(place)
    raw["models"]["other"]["load"] = str(place / "deeper")
    raw["models"]["roberta"] = {"load": str(place / "roberta"), "reference": "base"}
    run = Study.from_dict(raw, tmp_path / "run", cache=cache).run()
    notes = " ".join(run.tables.lock["notes"])
    assert "other has 3 blocks, base has 2" in notes
    said = [line for line in warnings(run.reading) if "different tokens" in line]
    assert [line.partition(":")[0] for line in said] == ["roberta and base cut words into different tokens"]
    assert said[0] in run.report().read_text()
    assert set(run.comparisons.query("model == 'other'")["layer"]) == {0, 1, 2}


def test_a_pair_of_models_with_nothing_in_common_costs_no_other_comparison(place, tmp_path, cache, monkeypatch):
    def read(name, cell):
        table = before(name, cell)
        return table.assign(sentence=table["sentence"].astype(str) + "?") if cell.model == "other" else table

    before = differences.read_table
    monkeypatch.setattr(differences, "read_table", read)
    raw = study(place)
    raw["models"]["third"] = {"load": str(place / "deeper"), "reference": "base"}
    run = Study.from_dict(raw, tmp_path / "run", cache=cache).run()
    assert set(run.comparisons["model"]) == {"third"}
    assert any(
        "other is not compared with base: base and tuned were scored on different sentences" in note
        for note in run.tables.lock["notes"]
    )


def test_words_past_the_limit_are_counted(tmp_path, cache):
    tags = {"tag": tuple("ab" * 60)}
    long = [Sentence(f"l{i}", ("word", "fox") * 60, annotations=tags) for i in range(3)]
    corpus = Corpus("long", {"train": tuple(long), "dev": tuple(long), "test": tuple(long)}, {"tag": "token"})
    encoder = load_model(tiny.model("bert"), tokenizer=tiny.tokenizer("bert"), name="base")
    run = vestige.compare(encoder, encoder, corpus, tasks=["tag"], cache=cache, folder=tmp_path, random_twin=False)
    assert "past the model's limit" in " ".join(run.tables.lock["notes"])
    assert run.results.query("metric == 'truncated_words'")["value"].iloc[0] > 0


def test_a_workers_error_arrives_as_it_was_raised(place, tmp_path, cache):
    one_label = place / "one.conllu"
    one_label.write_text("1\tfox\tfox\tLOW\tLOW\t_\t0\troot\t_\t_\n\n")
    raw = study(place)
    raw["corpora"]["words"]["files"] = {s: str(one_label) for s in ("train", "dev", "test")}
    with pytest.raises(AnalysisError, match="only the label 'LOW'"):
        Study.from_dict(raw, tmp_path / "run", cache=cache).run(jobs=2)


def test_a_task_at_the_wrong_level_is_refused_before_any_model_is_loaded(place, tmp_path, cache):
    raw = study(place, analyses=[{"layer_probe": {"tasks": ["words/head"]}}])
    raw["models"]["base"] = str(place / "nowhere")
    with pytest.raises(SpecError, match="level token"):
        Study.from_dict(raw, tmp_path / "run", cache=cache).run()


def test_a_missing_model_is_named(place, tmp_path, cache):
    raw = study(place)
    raw["models"]["base"] = str(place / "nowhere")
    with pytest.raises(ModelError, match="nowhere"):
        Study.from_dict(raw, tmp_path / "run", cache=cache).run()


def test_an_unfinished_folder_is_no_run(tmp_path):
    with pytest.raises(vestige.VestigeError, match="not a finished run"):
        _ = StudyRun.open(tmp_path).results


def test_an_analysis_that_uses_no_labels_is_run_once_per_corpus(place, tmp_path, cache):
    raw = study(place, analyses=[{"similarity": {"tasks": ["words/upos", "words/xpos"]}}])
    run = Study.from_dict(raw, tmp_path / "run", cache=cache).run()
    assert set(run.results["task"]) == {"upos"} and run.results["cell"].nunique() == 1
    said = "similarity uses no labels: it is run once, on words/upos, and not on words/xpos"
    assert said in run.tables.lock["notes"] and said in run.report().read_text()
    raw["analyses"] = [{"similarity": {"tasks": ["words/xpos"]}}]
    again = Study.from_dict(raw, tmp_path / "again", cache=cache).run()
    assert set(again.results["cell"]) == set(run.results["cell"]), "labels are no part of what it was computed from"
