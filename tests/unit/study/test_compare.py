"""`compare`: an ordinary study of models and files as they were given, on tasks that the analyses take."""

import pytest
import tiny
import yaml
from small_study import study
from typer.testing import CliRunner

import vestige
from vestige.cli import app
from vestige.corpus.types import Corpus, Sentence
from vestige.errors import ModelError, SpecError
from vestige.study.compare import comparison
from vestige.study.plan import make_plan
from vestige.study.run import Study


def planned(place, *analyses, corpus="treebank", **options):
    """The study of two folders, not run."""
    return comparison(str(place / "base"), place / "other", corpus, analyses=analyses, **options)


def tasks_of(study):
    return {analysis.name: analysis.tasks for analysis in study.spec.analyses}


def test_models_keep_the_folders_they_were_given_by(place, tmp_path, cache):
    options = {"tasks": ["upos"], "limit": 15, "random_twin": False}
    run = vestige.compare(place / "base", place / "other", place, **options, folder=tmp_path, cache=cache)
    lock = run.tables.lock
    assert [lock["models"][name][0]["source"] for name in ("base", "tuned")] == [
        str(place / "base"),
        str(place / "other"),
    ]
    assert lock["spec"]["corpora"] == {place.name: {**lock["spec"]["corpora"][place.name], "files": str(place)}}
    assert f"base ({place / 'base'}) against tuned ({place / 'other'})" in run.report().read_text()


def test_minilm_keeps_its_caveat(minilm, tmp_path, cache):
    options = {"analyses": ["similarity"], "limit": 20, "random_twin": False}
    run = vestige.compare("minilm", "minilm", "treebank", **options, folder=tmp_path, cache=cache)
    assert "base and tuned are MiniLM (all-MiniLM-L6-v2)" in run.report().read_text()
    assert set(run.results["task"]) == {"xpos"}, "once, though the corpus has two tasks that are preferred"


def test_nothing_is_loaded_ahead_and_any_process_can_run_the_cells(place, cache):
    study = planned(place, "attention", "layer_probe", corpus=place, limit=15)
    assert not study.given.models
    cells = make_plan(study.spec, study.given, cache).cells
    assert {cell.model for cell in cells if cell.needs_model} == {"base", "tuned", "random twin"}
    assert not any(cell.stays_here for cell in cells)


def test_analyses_that_tune_the_model_take_a_folder(place, tmp_path, cache):
    freezing = {"freezing": {"depths": [-1], "changes": {"epochs": 1}}}
    opinions = place / "opinions.tsv"
    run = vestige.compare(
        place / "base", place / "other", opinions, analyses=[freezing], random_twin=False, folder=tmp_path, cache=cache
    )
    assert set(run.results["model"]) == {"base", "tuned"} and not run.failed
    assert set(run.results["corpus"]) == {"opinions"}


def test_tasks_are_those_that_the_analysis_takes(place):
    every = tasks_of(planned(place, "layer_probe", "structural_probe", "similarity", "attention"))
    assert every == {
        "layer_probe": ["treebank/xpos", "treebank/upos"],
        "structural_probe": ["treebank/head"],
        "similarity": ["treebank/xpos"],
        "attention": ["treebank/xpos"],
    }
    assert tasks_of(planned(place, "sentence_probe", corpus="opinions")) == {"sentence_probe": ["opinions/opinion"]}
    chosen = tasks_of(planned(place, "layer_probe", "structural_probe", tasks=["head", "deprel"]))
    assert chosen == {"layer_probe": ["treebank/deprel"], "structural_probe": ["treebank/head"]}
    assert tasks_of(planned(place, {"layer_probe": {"tasks": "upos"}})) == {"layer_probe": ["treebank/upos"]}


def test_a_corpus_without_a_task_that_fits_is_refused(place):
    with pytest.raises(SpecError, match="layer_probe takes tasks at level token") as raised:
        planned(place, "layer_probe", corpus="opinions")
    assert "opinion (sentence)" in raised.value.problem and "sentence_probe" in raised.value.fix
    with pytest.raises(vestige.VestigeError, match="no task 'moon'"):
        planned(place, "layer_probe", tasks=["moon"])


def test_several_tuned_models_go_by_their_own_names(place):
    study = comparison(place / "base", [place / "other", place / "deeper"], "treebank", analyses=["layer_probe"])
    assert list(study.spec.models) == ["base", "other", "deeper", "random twin"]
    study = comparison(place / "base", [place / "other", place / "other"], "treebank", analyses=["layer_probe"])
    assert list(study.spec.models) == ["base", "tuned-1", "tuned-2", "random twin"]


def test_folders_tell_what_is_compared(place):
    one, two = (planned(place, "layer_probe", limit=limit).folder for limit in (None, 20))
    assert one.name.startswith("compare-base-other-treebank-") and one != two
    by_task = planned(place, "layer_probe", tasks=["upos"]).folder
    models = comparison(
        tiny.model("bert"), tiny.model("bert", seed=1), "treebank", analyses=["layer_probe"],
        tokenizer=tiny.tokenizer("bert"),
    )  # fmt: skip
    assert (
        models.folder.name.startswith("compare-base-tuned-treebank-") and len({one, two, by_task, models.folder}) == 4
    )


def test_a_model_or_device_that_is_not_here_is_said_before_any_work(place, tmp_path, cache):
    with pytest.raises(ModelError, match="nowhere"):
        vestige.compare(place / "base", place / "nowhere", "treebank", folder=tmp_path, cache=cache)
    for device in ("cuda:99", "banana", "meta"):
        with pytest.raises(ModelError, match=device):
            planned(place, "layer_probe", device=device, cache=cache).run()
    assert not cache.exists()


def test_every_command_that_runs_models_takes_a_device(place, minilm, tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(study(place)))
    for command in (["run", str(file)], ["compare", str(place / "base"), str(place / "other")], ["demo"]):
        said = CliRunner().invoke(app, [*command, "--device", "cuda:99", "--cache", str(tmp_path / "cache")])
        assert isinstance(said.exception, ModelError) and "no device 'cuda:99'" in str(said.exception), command
    assert Study.from_file(file).spec.compute.device == "cpu"
    assert Study.from_file(file, device="mps").spec.compute.device == "mps"


def test_a_corpus_in_memory_has_no_format(place):
    corpus = Corpus("a/b", {"train": (Sentence("s", ("x",), annotations={"t": ("A",)}),)}, {"t": "token"})
    with pytest.raises(SpecError, match="no format"):
        planned(place, "layer_probe", corpus=corpus, format="conllu")
    assert list(planned(place, "layer_probe", corpus=corpus).spec.corpora) == ["a-b"]


@pytest.mark.parametrize(
    ("row", "suffix", "more"),
    [
        ("{word}\t{tag}", ".txt", []),
        ("{word} _ {tag}", ".conll", ["--format", "columns", "--option", "columns={tag: 2}"]),
    ],
)
def test_the_command_reads_words_and_tags_of_the_users_own(place, tmp_path, row, suffix, more):
    words = [line.split() for line in tiny.TEXT]
    block = ["".join(row.format(word=w, tag="CAP" if w[0].isupper() else "LOW") + "\n" for w in line) for line in words]
    file = tmp_path / f"mine{suffix}"
    file.write_text("\n".join(block * 6))
    command = ["compare", str(place / "base"), str(place / "other"), "--corpus", str(file), *more, "--jobs", "1"]
    said = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "run"), "--cache", str(tmp_path / "cache")])
    assert said.exit_code == 0, said.output
    run = vestige.study.run.StudyRun.open(tmp_path / "run")
    assert set(zip(run.results["corpus"], run.results["task"], strict=True)) == {("mine", "tag")}
    notes = " ".join(run.tables.lock["corpora"]["mine"]["notes"])
    assert "test: " in notes and "dev: " in notes and "cut from train" in (tmp_path / "run" / "report.html").read_text()
