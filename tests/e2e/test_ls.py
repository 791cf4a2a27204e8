"""`vestige ls`: what it lists, that it fits a terminal, and that it reads what is here."""

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import tiny
import yaml

from vestige.analyses import analysis_names, find_analysis
from vestige.corpus.catalog import entries, find_entry
from vestige.corpus.derive import DERIVED
from vestige.corpus.formats import FORMATS
from vestige.corpus.load import load_corpus
from vestige.errors import VestigeError
from vestige.listing import GROUPS, WIDTH, lines
from vestige.study.run import Study
from vestige.study.spec import make_spec

PAIR = "index\tquestion\tsentence\tlabel\n0\tWhy is it ?\tIt is so .\tentailment\n1\tIs it ?\tNo .\tnot_entailment\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A machine with nothing but the dev part of QNLI."""
    monkeypatch.setenv("VESTIGE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("VESTIGE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data" / "qnli").mkdir(parents=True)
    (tmp_path / "data" / "qnli" / "dev.tsv").write_text(PAIR)
    return tmp_path / "data"


def group_of(listed: list[str], name: str) -> str:
    at = next(number for number, line in enumerate(listed) if line.split()[:1] == [name])
    return next(line for line in reversed(listed[:at]) if line in GROUPS.values())


def test_every_corpus_is_listed_where_it_belongs_and_fits_the_width(folder):
    listed = [*lines("corpora")]
    assert max(map(len, listed)) <= WIDTH
    assert sorted(line.split()[0] for line in listed if line.startswith("  ")) == sorted(e.name for e in entries())
    places = {"treebank": "built in", "qnli": "here", "sst2": "hub", "conll2000": "by hand", "ptb": "licence"}
    assert {name: group_of(listed, name) for name in places} == {n: GROUPS[place] for n, place in places.items()}
    headings = [line for line in listed if line in GROUPS.values()]
    assert headings == [*GROUPS.values()]


def test_sizes_are_those_of_the_splits_that_are_here(folder):
    rows = {line.split()[0]: line for line in lines("corpora") if line.startswith("  ")}
    assert "– / 5463 / –" in rows["qnli"] and "CC BY-SA 4.0" in rows["qnli"] and "sentence_pair" in rows["qnli"]
    assert "1037 / 133 / 300" in rows["treebank"]
    assert "67349 / 872 / –" in rows["sst2"]


def test_a_corpus_that_is_here_is_read(folder):
    said = "\n".join(lines("corpora", "qnli"))
    assert "2 pairs, 13 words" in said
    assert "sentence_pair, 2 labels: entailment, not_entailment" in said
    assert "train is not here (train.tsv)" in said
    assert "CC BY-SA 4.0" in said and "Rajpurkar" in said and "durrani2021" in said


def test_numbers_trees_and_texts_have_no_list_of_labels(folder):
    (folder / "stsb").mkdir()
    (folder / "stsb" / "sts-dev.csv").write_text("g\tf\ty\t1\t2.500\tA b .\tC d .\ng\tf\ty\t2\t4.75\tE .\tF .\n")
    assert "sentence_pair, numbers from 2.5 to 4.75" in "\n".join(lines("corpora", "stsb"))
    (folder / "wikitext2").mkdir()
    (folder / "wikitext2" / "valid.txt").write_text(" = Title = \n\n Some text .\n")
    assert any(line.split() == ["task", "text", "text"] for line in lines("corpora", "wikitext2"))
    assert any(line.split() == ["task", "head", "tree"] for line in lines("corpora", "treebank"))


def test_a_corpus_that_is_not_here_is_described_and_not_fetched(folder):
    said = " ".join(" ".join(lines("corpora", "ptb")).split())
    assert "it needs a licence" in said and "LDC99T42" in said and f"folder {folder}/treebank_3" in said
    assert "train 39832, dev 1700, test 2416 (as published)" in said
    assert "load_corpus('sst2') fetches nyu-mll/glue" in " ".join(" ".join(lines("corpora", "sst2")).split())


@pytest.mark.parametrize("name", [entry.name for entry in entries() if not entry.builtin])
def test_what_is_said_of_a_corpus_fits_the_width(folder, name):
    assert all(len(line) <= WIDTH or str(folder) in line for line in lines("corpora", name))


def snippet(name: str) -> str:
    """The study file at the end of what is said of an analysis."""
    listed = [*lines("analyses", name)]
    at = listed.index(f"a study file: vestige run {name}.yaml")
    return "\n".join(line.removeprefix("  ") for line in listed[at + 1 :]) + "\n"


@pytest.mark.parametrize("name", analysis_names())
def test_an_analysis_is_documented_with_all_parameters_and_metrics(name):
    kind, listed = find_analysis(name), [*lines("analyses", name)]
    assert listed[0] == f"{name}: {kind.title}" and max(map(len, listed)) <= WIDTH
    parts = [listed.index(title) for title in ("parameters", "metrics", f"a study file: vestige run {name}.yaml")]
    names = [line.split()[0] for line in listed[parts[0] : parts[2]] if line.startswith("  ") and line[2] != " "]
    assert names == [*(field.name for field in fields(kind)), *(metric.name for metric in kind.metrics)]
    said = " ".join(" ".join(listed).split())
    assert kind.source in said and all(need in said for need in kind.needs) and ", ".join(kind.levels) in said
    for metric in kind.metrics:
        assert f" {metric.name} {metric.title}; " in said


def test_a_parameter_is_said_with_type_bounds_default_and_meaning():
    said = " ".join(" ".join(lines("analyses", "layer_probe")).split())
    assert "protocol converged | durrani; default converged. How the probe is trained" in said
    assert "l2 number (at least 0) or null; default null. null: chosen on dev" in said
    assert (
        "accuracy probe accuracy; percent; along layer; higher is better; margin 0.5 points; compared by Share" in said
    )
    assert "recipe text or null; default null. Name of a recipe" in " ".join(
        " ".join(lines("analyses", "pruning")).split()
    )


@pytest.mark.parametrize("name", analysis_names())
def test_the_study_file_of_every_analysis_is_one(name):
    spec = make_spec(yaml.safe_load(snippet(name)))
    (analysis,), kind = spec.analyses, find_analysis(name)
    assert analysis.name == name and bool(analysis.tasks) == bool(kind.levels)
    if not kind.levels:
        return
    corpus, _, task = analysis.tasks[0].partition("/")
    entry, asked = find_entry(spec.corpora[corpus].name), spec.corpora[corpus]
    levels = load_corpus(asked.name, derive=asked.derive).levels if entry.builtin else entry.tasks
    assert levels[task] in kind.levels


def test_the_study_file_of_an_analysis_runs(tmp_path):
    tiny.save("bert", tmp_path / "tiny", layers=2)
    (tmp_path / "study.yaml").write_text(snippet("layer_probe").replace("minilm", "tiny"))
    run = Study.from_file(tmp_path / "study.yaml", tmp_path / "run", cache=tmp_path / "cache", limit=40).run()
    assert set(run.results["model"]) == {"base", "tuned"} and not run.failed
    assert set(run.comparisons["metric"]) >= {"accuracy", "selectivity"}


def test_formats_are_listed_with_their_options():
    said = " ".join(" ".join(lines("formats")).split())
    assert all(name in said for name in FORMATS)
    assert "options columns, word, separator" in said


def test_derived_tasks_are_listed_with_what_they_need():
    said = {line.split()[0]: line for line in lines("derived") if not line.startswith(" ")}
    assert {*said} == {*DERIVED}
    assert "labels per sentence; from words" in said["bigram_shift"]


def test_what_cannot_be_listed_is_refused():
    for what, name in (("moons", None), ("formats", "conllu")):
        with pytest.raises(VestigeError, match="cannot list"):
            [*lines(what, name)]
    with pytest.raises(VestigeError, match="unknown analysis 'layer_prob'") as raised:
        [*lines("analyses", "layer_prob")]
    assert raised.value.fix == "did you mean 'layer_probe'?"
    with pytest.raises(VestigeError, match="no corpus 'treebnk'") as raised:
        [*lines("corpora", "treebnk")]
    assert raised.value.fix == "did you mean 'treebank'?"


def test_the_command_prints_them(folder):
    def vestige(*arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "vestige.cli", "ls", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONUTF8": "1"})

    assert vestige("corpora").stdout.splitlines() == [*lines("corpora")]
    assert "2 pairs, 13 words" in vestige("corpora", "qnli").stdout
    said = vestige("corpora", "treebnk")
    assert said.returncode == 1 and "did you mean 'treebank'?" in said.stderr and not said.stdout


def test_runs_are_listed_with_what_they_were_asked(tmp_path):
    spec = {
        "analyses": [{"name": "similarity"}],
        "models": {"base": {}, "tuned": {}},
        "corpora": {"words": {}},
        "limit": 9,
    }
    for name, said in (("one", json.dumps({"spec": spec, "failed": [{}]})), ("two", "{")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.lock.json").write_text(said)
    said = " ".join(" ".join(lines("runs", None, tmp_path)).split())
    assert "one similarity of base, tuned on words, limit 9, 1 failed (not finished" in said
    assert "two cannot be read" in said
