"""A study file is checked before anything is computed, and complaints name the nearest known key."""

import pytest

from vestige.errors import SpecError
from vestige.study.spec import make_spec, read_spec

GOOD = """
study: trial
models:
  base: minilm
  tuned: {finetune: {of: base, task: opinions/opinion}}
corpora: {treebank: treebank, opinions: opinions}
analyses:
  - layer_probe: {tasks: [treebank/upos]}
"""


def write(tmp_path, text):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return path


def test_shorthands_and_defaults_are_filled_in(tmp_path):
    spec = read_spec(write(tmp_path, GOOD))
    assert spec.models["base"].load == "minilm"
    assert spec.reference_of("tuned") == "base" and spec.reference_of("base") is None
    assert spec.as_json()["analyses"][0]["parameters"]["protocol"] == "converged"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("corpora:", "corpra:", "'corpora' should map"),
        ("study: trial", "study: trial\nmodel: x", "unknown key 'model'; did you mean 'models'"),
        ("{of: base, task", "{oof: base, task", "did you mean 'of'"),
        ("task: opinions/opinion}", "task: opinions/opinion, recipe: {rte: 1}}", "did you mean 'rate'"),
        ("tasks: [treebank/upos]", "tasks: [treebank/upos], protocl: durrani", "did you mean 'protocol'"),
        ("tasks: [treebank/upos]", "tasks: [treebank/upos], protocol: durani", "'converged' or 'durrani'"),
        ("tasks: [treebank/upos]", "tasks: [treebank/upos], seeds: many", "found 'many'"),
        ("tasks: [treebank/upos]", "tasks: [treebank/upos], seeds: 0", r"seeds: .* equal to 1 \(found 0\)"),
        ("tasks: [treebank/upos]", "tasks: [treebank/upos], l2: .nan", r"l2: .*\(found nan\)"),
        ("tasks: [treebank/upos]", "tasks: [treebank/upos], tolerance: 0", r"tolerance: .* greater than 0"),
        ("layer_probe: {", "perplexity: {rate: 1.5, ", r"rate: .* equal to 1 \(found 1.5\)"),
        ("layer_probe: {", "perplexity: {sentences: -2, ", r"sentences: .*\(found -2\)"),
        ("layer_probe: {", "structural_probe: {rank: 0, ", r"rank: .*\(found 0\)"),
        ("layer_probe: {", "edge_probe: {batch: -1, ", r"batch: .*\(found -1\)"),
        ("layer_probe: {", "edge_probe: {dropout: 1, ", r"dropout: .* less than 1"),
        ("layer_probe: {", "neurons: {grid: [], ", "grid: .*at least 1 item"),
        ("layer_probe", "layer_prob", "did you mean 'layer_probe'"),
        ("of: base", "of: bas", "did you mean 'base'"),
        ("[treebank/upos]", "[treebnk/upos]", "did you mean 'treebank'"),
        ("[treebank/upos]", "[upos]", "should be corpus/task"),
        ("base: minilm", "base: {load: minilm, random_twin_of: tuned}", "exactly one of"),
        ("study: trial", "study: a/b", "letters, digits"),
        ("base: minilm", "base: ${NOT_SET_ANYWHERE}", "NOT_SET_ANYWHERE is not set"),
        ("study: trial", "study: [", "not YAML"),
    ],
)
def test_mistakes_are_explained(tmp_path, old, new, complaint):
    assert old in GOOD
    with pytest.raises(SpecError, match=complaint):
        read_spec(write(tmp_path, GOOD.replace(old, new)))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SpecError, match=r"nowhere\.yaml: no such file"):
        read_spec(tmp_path / "nowhere.yaml")


def test_paths_are_relative_to_the_study_file(tmp_path, monkeypatch):
    monkeypatch.setenv("PLACE", "data")
    text = GOOD.replace("treebank: treebank", "treebank: {files: {train: '${PLACE}/a.conllu'}}")
    assert read_spec(write(tmp_path, text)).corpora["treebank"].files == {"train": str(tmp_path / "data/a.conllu")}


def test_a_dictionary_is_as_good_as_a_file():
    raw = {
        "study": "x",
        "models": {"base": "minilm"},
        "corpora": {"treebank": "treebank"},
        "analyses": [{"layer_probe": {"tasks": "treebank/upos", "seeds": 1}}],
    }
    assert make_spec(raw).analyses[0].parameters.parameters()["seeds"] == 1
