"""`vestige finetune`: from the command line to a folder that AutoModel loads."""

import json

import pytest
import tiny
import torch
from transformers import AutoModel, AutoModelForSequenceClassification
from typer.testing import CliRunner

from vestige.cli import app
from vestige.errors import VestigeError

QUICK = ["--set", "epochs=1", "--set", "rate=1e-3", "--set", "max_tokens=24", "--sample", "16", "--threads", "1"]


@pytest.fixture
def model(tmp_path):
    return str(tiny.save("bert", tmp_path / "bert", layers=2))


def run(tmp_path, *arguments):
    result = CliRunner().invoke(app, ["finetune", *arguments, "--cache", str(tmp_path / "cache")])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_runs_are_saved_and_told(tmp_path, model):
    out = tmp_path / "tuned"
    result = run(tmp_path, model, "--task", "opinions", "--runs", "2", "--freeze", "1", "--out", str(out), *QUICK)
    assert result.exit_code == 0
    assert result.output.count("model: ") == 2
    assert "dev accuracy" in result.output
    assert "majority" in result.output
    whole, before = AutoModel.from_pretrained(out / "run-0"), AutoModel.from_pretrained(model)
    assert torch.equal(whole.encoder.layer[0].output.dense.weight, before.encoder.layer[0].output.dense.weight)
    assert not torch.equal(whole.encoder.layer[1].output.dense.weight, before.encoder.layer[1].output.dense.weight)
    assert AutoModelForSequenceClassification.from_pretrained(out / "run-1").config.num_labels == 2


def test_blocks_can_be_cut_first(tmp_path, model):
    out = tmp_path / "cut"
    run(tmp_path, model, "--task", "opinions/opinion", "--keep", "0", "--out", str(out), *QUICK)
    assert AutoModel.from_pretrained(out).config.num_hidden_layers == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--task", "treebank"], "has several tasks"),
        (["--task", "opinions", "--set", "rate"], "key=value"),
        (["--task", "opinions", "--set", "rat=1"], "unknown key 'rat'"),
        (["--task", "opinions", "--keep", "a"], "whole numbers"),
        (["--task", "opinions", "--freeze", "9", *QUICK], "2 blocks"),
        (["--task", "opinions", "--set", "rate={"], "not YAML"),
        (["--task", "opinions", "--set", "rate=1e-3", "--set", "rate=1e-4"], "given twice"),
        (["--task", "opinions", "--lora", "--set", "lora={r: 4}"], "given twice"),
        (["--task", "opinions", "--device", "foo"], "no device 'foo'"),
        (["--task", "opinions", "--out", "/proc/x/y"], "cannot be written"),
        (["--task", "nowhere.tsv"], "no such file"),
        (["--task", "nowhere", "--format", "hub"], "words"),
        (["--task", "opinions", "--option", "nothing"], "key=value"),
    ],
)
def test_mistakes(tmp_path, model, arguments, told):
    with pytest.raises(VestigeError, match=told):
        run(tmp_path, model, *arguments)


def test_a_table_of_ones_own_has_columns_of_any_name(tmp_path, model):
    table = tmp_path / "mine.tsv"
    lines = [f"{4 - i % 5}\tthe quick fox {i}\tthe museum opened" for i in range(20)]
    table.write_text("\n".join(["points\tone\tother", *lines]) + "\n")
    columns = ["sentence=one", "second=other", "label=points", "numeric=true"]
    options = [part for column in columns for part in ("--option", column)]
    result = run(tmp_path, model, "--task", str(table), *options, "--dev", "0.3", *QUICK)
    assert "dev pearson" in result.output


def test_so_has_a_file_of_json_lines(tmp_path, model):
    file = tmp_path / "mine.jsonl"
    rows = ({"text": f"the quick fox {i}", "mood": ("good", "bad")[i % 2]} for i in range(30))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--format", "hub", "--option", "words=text", "--option", "label=mood"]
    result = run(tmp_path, model, "--task", str(file), *options, "--dev", "0.3", *QUICK)
    assert "dev accuracy" in result.output


def test_an_old_folder_is_not_overwritten(tmp_path, model):
    out = tmp_path / "there"
    out.mkdir()
    with pytest.raises(VestigeError, match="is there already"):
        run(tmp_path, model, "--task", "opinions", "--out", str(out), *QUICK)


def test_no_runs_are_refused_as_a_usage_error(tmp_path, model):
    result = run(tmp_path, model, "--task", "opinions", "--runs", "0")
    assert result.exit_code == 2 and "'--runs'" in result.output
