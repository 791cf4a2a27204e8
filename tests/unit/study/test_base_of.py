"""A tuned model alone names its base: by an adapter's configuration, vestige's log, or a model card."""

import json

import pytest

from vestige.errors import SpecError
from vestige.study.base_of import base_of


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "content", "base"),
    [
        ("adapter_config.json", json.dumps({"base_model_name_or_path": "bert-base-cased"}), "bert-base-cased"),
        ("finetune.json", json.dumps({"base": "minilm"}), "minilm"),
        ("README.md", "---\nbase_model: roberta-base\ntags: [x]\n---\n# A model\n", "roberta-base"),
        ("README.md", "---\nbase_model:\n- roberta-base\n---\n# A model\n", "roberta-base"),
    ],
)
def test_it_is_found_and_said_where(folder, file, content, base):
    (folder / file).write_text(content)
    found = base_of(str(folder))
    assert found.name == base and ("model card" if file == "README.md" else file) in found.why


@pytest.mark.parametrize(
    "card",
    [
        "", "# A model\n", "---\nbase_model: [a, b]\n---\n", "---\nbase_model: {}\n---\n", "---\n: :\n- x\n---\n",
        "---\nbase_model: x",
    ],
)  # fmt: skip
def test_where_nothing_or_several_are_named_both_are_asked_for(folder, card):
    (folder / "README.md").write_text(card)
    (folder / "finetune.json").write_text("[")
    with pytest.raises(SpecError) as raised:
        base_of(str(folder))
    assert "vestige compare BASE TUNED" in raised.value.fix
