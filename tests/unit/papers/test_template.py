"""The study of a paper with one and with several models, and the run that it becomes again."""

import pytest
import tiny

from vestige.errors import SpecError, VestigeError
from vestige.models.files.sources import local_copy, model_folder
from vestige.papers.observed import observe
from vestige.papers.paper import COMMANDS, NAMES, find_paper, studies_of
from vestige.papers.template import SCALES, fill
from vestige.study.run import Study
from vestige.study.spec import make_spec


@pytest.fixture(autouse=True)
def somewhere(monkeypatch):
    monkeypatch.setenv("VESTIGE_DATA", "/data")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", NAMES)
def test_every_template_is_a_study_of_one_and_of_two_models(name, scale):
    alone, both = (make_spec(fill(name, scale, models)) for models in (["minilm"], ["minilm", "roberta-base"]))
    assert len(both.models) == 2 * len(alone.models)
    assert {model.load for model in both.models.values() if model.load} == {"minilm", "roberta-base"}
    assert "MiniLM and roberta-base" in both.about
    for one, two in zip(alone.analyses, both.analyses, strict=True):
        assert one.parameters == two.parameters and one.tasks == two.tasks
        assert len(two.models or ()) == 2 * len(one.models or ())


def test_the_full_scale_has_the_corpora_that_data_are_told_by():
    for name in NAMES:
        assert {*find_paper(name).sizes} <= {*make_spec(fill(name, "full", ["minilm"])).corpora}


def test_two_models_of_one_name_are_refused():
    with pytest.raises(SpecError, match="two models are called 'bert'"):
        fill("durrani2021", "demo", ["a/bert", "b/bert"])


def test_a_paper_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(VestigeError, match="durrani2020"):
        studies_of("smith2026")
    assert {study for studies in COMMANDS.values() for study in studies} == {*NAMES}


def test_models_made_from_one_another_keep_their_own_base():
    spec = make_spec(fill("merchant2020", "demo", ["minilm", "x/tiny"]))
    assert spec.models["tiny parsing"].finetune.of == "tiny"
    assert spec.models["minilm random twin"].random_twin_of == "minilm"


def test_a_run_of_two_models_is_read_as_two_runs_of_one(tmp_path):
    for name, seed in (("first", 0), ("second", 1)):
        tiny.save("bert", tmp_path / name, layers=2, seed=seed)
    models = [str(tmp_path / name) for name in ("first", "second")]
    raw = {
        "study": "both",
        "about": "MiniLM?",
        "models": {
            "first": models[0],
            "second": models[1],
            "first random twin": {"random_twin_of": "first"},
            "second random twin": {"random_twin_of": "second"},
        },
        "corpora": {"treebank": "treebank"},
        "analyses": [{"layer_probe": {"tasks": ["treebank/upos"], "seeds": 1, "control": False}}],
        "limit": 24,
        "compute": {"on_unknown": "allow"},
    }
    run = Study(make_spec(raw), tmp_path / "run", cache=tmp_path / "cache").run(jobs=1, name="inline")
    sides = observe(run)
    assert [side.title for side in sides] == ["first", "second"]
    for side in sides:
        assert set(side.results["model"]) == {"base", "random twin"} == set(side.lock["models"])
        assert side.layers == 3 and side.has("layer_probe") and not side.has("neurons")
        assert side.places({"POS": ("ptb/pos", "treebank/upos"), "SEM": ("pmb/semtag",)}, "layer_probe") == {
            "POS": ("treebank", "upos")
        }
    values = [side.results[side.results["model"] == "base"]["value"].to_numpy() for side in sides]
    assert len(values[0]) == len(values[1]) and not (values[0] == values[1]).all()


def test_a_hub_id_is_looked_for_in_the_folder_of_local_copies_first(tmp_path, monkeypatch):
    tiny.save("bert", tmp_path / "google-bert" / "bert-base-cased", layers=2)
    tiny.save("bert", tmp_path / "bert-base-cased@v2", layers=2)
    assert local_copy("google-bert/bert-base-cased") is None
    monkeypatch.setenv("VESTIGE_MODELS", str(tmp_path))
    assert model_folder("google-bert/bert-base-cased") == tmp_path / "google-bert" / "bert-base-cased"
    assert model_folder("bert-base-cased", "v2") == tmp_path / "bert-base-cased@v2"
    assert local_copy("google-bert/bert-base-cased", "v1") is None and local_copy("roberta-base") is None
