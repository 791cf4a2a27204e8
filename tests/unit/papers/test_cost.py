"""Operations counted on architectures, and what a paper costs on a GPU."""

import json

import numpy as np
import pytest
import tiny

from vestige.corpus.load import load_corpus
from vestige.papers.cost import GPU, PEAK, SHARE, Work, count, size_of
from vestige.papers.flops import architecture, depth_of, forward, is_published, training
from vestige.papers.planning import lines
from vestige.papers.template import fill
from vestige.study.spec import make_spec

PARAMETERS = {"bert-base-cased": 108.3, "bert-base-uncased": 109.5, "roberta-base": 124.6, "xlnet-base-cased": 116.7,
              "albert-base-v1": 11.7}  # fmt: skip
"""Millions, as the models' pages give them."""
MEASURED = ("sst2", "cola", "rte", "mrpc", "stsb", "conll2000", "semeval2010_task8", "wikitext2")


@pytest.mark.parametrize("name", PARAMETERS)
def test_an_architecture_has_as_many_parameters_as_the_published_model(name):
    import torch
    from transformers import AutoConfig, AutoModel

    said = architecture(name)
    with torch.device("meta"):
        model = AutoModel.from_config(AutoConfig.for_model(said.pop("model_type"), **said))
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(PARAMETERS[name], abs=0.06)


def by_hand(width: int, inner: int, depth: int, tokens: int) -> int:
    """Products of a transformer encoder: four maps and two of the feed-forward part, scores and their use; the pooler."""
    block = tokens * (4 * width * width + 2 * width * inner) + 2 * tokens * tokens * width
    return 2 * (depth * block + width * width)


def test_operations_are_those_that_a_count_by_hand_gives():
    assert forward("bert-base-cased", 64) == by_hand(768, 3072, 12, 64)
    assert depth_of("bert-base-cased") == 12 and is_published("google-bert/bert-base-cased")


def test_training_costs_thrice_and_less_with_frozen_or_fewer_blocks():
    whole = training("bert-base-cased", 64)
    assert whole == pytest.approx(3 * forward("bert-base-cased", 64), rel=0.01)
    frozen = [training("bert-base-cased", 64, frozen=blocks) for blocks in (0, 6, 12)]
    assert whole > frozen[0] > frozen[1] > frozen[2] == pytest.approx(whole / 3, rel=0.01)
    assert training("bert-base-cased", 64, blocks=6) == pytest.approx(whole / 2, rel=0.01)


def test_another_model_is_counted_by_its_own_configuration(tmp_path):
    folder = tiny.save("bert", tmp_path / "bert-base-cased", layers=2)
    config = json.loads((folder / "config.json").read_text())
    expected = by_hand(config["hidden_size"], config["intermediate_size"], 2, 16)
    assert forward(str(folder), 16) == expected and not is_published(str(folder))


def test_hours_are_operations_over_the_share_of_the_peak():
    assert Work("m", "passes", 1, PEAK * SHARE * 3600).hours == pytest.approx(1)


def test_the_cost_of_a_study_is_the_sum_of_its_steps():
    spec = make_spec(fill("durrani2021", "full", ["bert-base-cased"]))
    found = {one.kind: one for one in count(spec)}
    assert found["fine-tuning"].steps == 6 * 3 and found["tuned variants"].steps == 3 * 3 * 3
    seen = {name: size_of(name).sentences["train"] for name in ("sst2", "mnli", "qnli", "rte", "mrpc", "stsb")}
    expected = 3 * 3 * sum(
        examples * training("bert-base-cased", size_of(name).tokens(128)) for name, examples in seen.items()
    )  # fmt: skip
    assert found["fine-tuning"].flops == pytest.approx(expected)
    assert found["passes"].steps == (1 + 6 * 3) * 3


@pytest.mark.parametrize("name", MEASURED)
def test_lengths_that_are_called_measured_are_measured_again(data, name):
    split = "test" if name == "wikitext2" else "train"
    words = np.mean([len(sentence.all_words) for sentence in load_corpus(name)[split]])
    assert size_of(name).words == pytest.approx(words, abs=0.06) and size_of(name).source == "measured"


def test_a_plan_says_the_cost_and_what_is_not_here(tmp_path, monkeypatch):
    monkeypatch.setenv("VESTIGE_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("VESTIGE_MODELS", str(tmp_path))
    tiny.save("bert", tmp_path / "bert-base-uncased", layers=2)
    asked = {"cache": tmp_path / "cache"}
    text = "\n".join(lines(["merchant2020_depth"], "full", (), None, {"jobs": 1}, False, asked))
    assert f"on one {GPU}, at 40%" in text and "bert-base-uncased: 12 blocks (as published)" in text
    assert "3 corpora are not on this machine" in text and "`vestige ls corpora squad11`" in text
    (plain,) = lines(["merchant2020_depth"], "full", (), None, {"jobs": 1}, True, asked)
    found = json.loads(plain)["merchant2020_depth"]
    assert found["plan"] is None and set(found["missing"]) == {"mnli", "squad", "parsing"}
    assert found["cost"]["hours"] == pytest.approx(sum(one["hours"] for one in found["cost"]["work"]), abs=0.01)
