"""Results have a folder of their own, and no other study's are written over."""

import json
import shutil

import pytest
import tiny
from small_study import study
from typer.testing import CliRunner

from vestige.cli import app
from vestige.errors import ModelError, StorageError
from vestige.study.corpora import Given
from vestige.study.finished import StudyRun
from vestige.study.folders import default_folder
from vestige.study.run import Study
from vestige.study.spec import make_spec
from vestige.study.steps.load import Load
from vestige.study.watch import Watch


def folder_of(raw) -> str:
    return str(default_folder(make_spec(raw), Given()))


def test_folders_tell_the_study_and_differ_with_all_that_is_asked(place):
    raw = study(place)
    others = [
        {"limit": 20},
        {"compare": {"resamples": 98}},
        {"analyses": [{"layer_probe": {"tasks": ["words/xpos"], "seeds": 2}}]},
        {"compute": {"device": "cuda"}},
    ]
    folders = [folder_of(raw), *(folder_of({**raw, **other}) for other in others)]
    assert len({*folders}) == 5 and all(folder.startswith("runs/tiny-") for folder in folders)
    assert folder_of(study(place)) == folders[0]


def test_what_is_in_memory_is_part_of_the_name(place, tiny_encoder):
    spec = make_spec(study(place))
    models = [default_folder(spec, Given({"base": tiny_encoder(family)})) for family in ("bert", "roberta")]
    assert len({*models, default_folder(spec, Given())}) == 3


def test_another_study_is_refused_and_the_same_one_resumes(place, tmp_path, cache):
    first = Study.from_dict(study(place), tmp_path / "run", cache=cache).run()
    before = (tmp_path / "run" / "results.parquet").read_bytes()
    first.report()
    with pytest.raises(StorageError, match="limit is null there and 20 here") as raised:
        Study.from_dict(study(place, limit=20), tmp_path / "run", cache=cache).run()
    assert "--overwrite" in raised.value.fix
    Study.from_dict(study(place), tmp_path / "run", cache=cache).run()
    assert (tmp_path / "run" / "results.parquet").read_bytes() == before and (tmp_path / "run" / "report.html").exists()
    run = Study.from_dict(study(place, limit=20), tmp_path / "run", cache=cache, overwrite=True).run()
    assert {path.stem for path in (tmp_path / "run" / "items").iterdir()} == {*run.results["cell"]}
    assert not (tmp_path / "run" / "report.html").exists(), "a page that tells of other results"


@pytest.mark.parametrize("lost", ["other", "base"])
def test_a_run_of_which_a_model_had_failed_is_resumed_in_its_folder(place, tmp_path, cache, monkeypatch, lost):
    """The lock names the models that could be loaded; those that failed are no sign of another study."""
    make = Load.make

    def fail(step, memory):
        if step.origin.model == lost:
            raise ModelError("it does not load today", fix="wait")
        make(step, memory)

    with monkeypatch.context() as patch:
        patch.setattr(Load, "make", fail)
        asked = Study.from_dict(study(place), tmp_path / "run", cache=cache)
        if lost == "base":  # all depends on it
            with pytest.raises(ModelError, match="today"):
                asked.run()
        else:
            assert asked.run().failed
    assert not Study.from_dict(study(place), tmp_path / "run", cache=cache).run().failed


def test_other_weights_or_words_under_the_same_names_are_refused(place, tmp_path, cache):
    for folder in ("base", "other"):
        shutil.copytree(place / folder, tmp_path / folder)
    for split in ("train", "dev", "test"):
        shutil.copy(place / f"{split}.conllu", tmp_path)
    Study.from_dict(study(tmp_path), tmp_path / "run", cache=cache).run()
    tiny.save("bert", tmp_path / "other", layers=2, seed=9)
    with pytest.raises(StorageError, match=r"another study: models\.other"):
        Study.from_dict(study(tmp_path), tmp_path / "run", cache=cache).run()
    shutil.copytree(place / "other", tmp_path / "other", dirs_exist_ok=True)
    (tmp_path / "dev.conllu").write_text((tmp_path / "test.conllu").read_text())
    with pytest.raises(StorageError, match=r"another study: corpora\.words\.dev"):
        Study.from_dict(study(tmp_path), tmp_path / "run", cache=cache).run()


@pytest.mark.parametrize("damage", ["no lock", "not JSON", "a list", "older"])
def test_results_whose_study_cannot_be_told_are_left_alone(place, tmp_path, damage):
    (tmp_path / "results.parquet").write_bytes(b"mine")
    if damage != "no lock":
        said = {"not JSON": "{", "a list": "[]", "older": json.dumps({"vestige": "0.0.1"})}[damage]
        (tmp_path / "study.lock.json").write_text(said)
    with pytest.raises(StorageError, match=r"cannot be read|holds the results of a study"):
        Study.from_dict(study(place), tmp_path).run()
    assert (tmp_path / "results.parquet").read_bytes() == b"mine"


def test_a_watch_says_it_before_the_training(place, tmp_path):
    (tmp_path / "results.parquet").write_bytes(b"mine")
    with pytest.raises(StorageError, match="holds the results of a study"):
        Watch(tiny.tokenizer("bert"), place, ["upos"], folder=tmp_path)
    Watch(tiny.tokenizer("bert"), place, ["upos"], folder=tmp_path, overwrite=True)


def test_a_run_is_found_by_the_name_of_its_study(tmp_path):
    for name in ("tiny-0123abcd", "other-0123abcd"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.lock.json").write_text("{}")
    assert StudyRun.open(tmp_path / "tiny").tables.folder == tmp_path / "tiny-0123abcd"
    (tmp_path / "tiny-9999abcd").mkdir()
    (tmp_path / "tiny-9999abcd" / "study.lock.json").write_text("{}")
    with pytest.raises(StorageError, match="2 runs of this name"):
        StudyRun.open(tmp_path / "tiny")


def test_the_command_refuses_and_overwrites(place, tmp_path):
    def compare(*more: str):
        command = ["compare", str(place / "base"), str(place / "other"), "--corpus", str(place), "--task", "upos"]
        places = ["--out", str(tmp_path / "run"), "--cache", str(tmp_path / "cache"), "--jobs", "1"]
        return CliRunner().invoke(app, [*command, *places, *more])

    assert compare("--limit", "20").exit_code == 0
    refused = compare("--limit", "15")
    assert isinstance(refused.exception, StorageError) and "limit is 20 there and 15 here" in str(refused.exception)
    assert compare("--limit", "15", "--overwrite").exit_code == 0
    assert json.loads((tmp_path / "run" / "study.lock.json").read_text())["spec"]["limit"] == 15
