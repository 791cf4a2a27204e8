"""Freezing, truncation and pruning in a study; recipes by name, samples, analyses of some models alone."""

import pytest
import tiny

from vestige.errors import AnalysisError, CorpusError, SpecError
from vestige.finetune.metrics import MEASURES
from vestige.finetune.problems import PROBLEMS, Answers, Classes, Numbers, Trees, Words
from vestige.finetune.recipe import load_recipe
from vestige.study.corpora import Given
from vestige.study.plan import make_plan
from vestige.study.run import Study
from vestige.study.spec import make_spec
from vestige.study.steps.origin import tunable

CHANGES = {"epochs": 1, "batch": 8, "rate": 1e-3, "max_tokens": 24}
TASK = {"tasks": ["opinions/opinion"], "models": ["base"], "recipe": "mosbach2020_cola", "changes": CHANGES}


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuning")
    tiny.save("bert", folder / "bert", layers=2)
    return {
        "study": "tuning",
        "models": {"base": str(folder / "bert"), "random twin": {"random_twin_of": "base"}},
        "corpora": {"opinions": {"name": "opinions", "sample": {"train": 24, "dev": 12, "test": 5}}},
        "analyses": [
            {"freezing": TASK},
            {"truncation": {**TASK, "runs": 2}},
            {"pruning": {**TASK, "dropped": [1]}},
        ],
    }


@pytest.fixture(scope="module")
def done(raw, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return Study.from_dict(raw, folder / "run", cache=folder / "cache").run(), folder


def rows_of(run, analysis, metric):
    rows = run.results[(run.results["analysis"] == analysis) & (run.results["metric"] == metric)]
    return rows


def test_every_depth_is_frozen_once(done):
    rows = rows_of(done[0], "freezing", "accuracy")
    assert list(rows["x"]) == [-1, 0, 1, 2]
    assert set(rows["axis"]) == {"frozen_blocks"}
    learning = rows_of(done[0], "freezing", "trained_parameters").set_index("x")["value"]
    assert learning[-1] > learning[0] > learning[1] > learning[2] > 0


def test_layers_that_share_a_block_are_frozen_and_dropped_one_by_one(raw, tmp_path):
    tiny.save("albert", tmp_path / "albert", layers=2)
    mine = {**raw, "models": {"base": str(tmp_path / "albert")}}
    mine["analyses"] = [{"freezing": TASK}, {"pruning": {**TASK, "dropped": [1]}}]
    run = Study.from_dict(mine, tmp_path / "run", cache=tmp_path / "cache").run()
    learning = rows_of(run, "freezing", "trained_parameters").set_index("x")["value"]
    assert learning[-1] > learning[0] > learning[1] > learning[2] > 0
    assert list(rows_of(run, "pruning", "accuracy")["side"]) == ["all", "top", "bottom"]


def test_the_revision_that_is_named_is_tuned(raw, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("vestige.study.steps.origin.model_folder", lambda *given: asked.append(given) or tmp_path)
    source = {"source": "someone/model", "revision": "old", "tokenizer": None}
    assert tunable(source, "base") == tmp_path and asked == [("someone/model", "old")]
    with pytest.raises(SpecError, match="a tokenizer from elsewhere"):
        tunable({**source, "tokenizer": "other"}, "base")


def test_a_split_that_is_not_there_is_told_before_anything_is_tuned(raw, tmp_path):
    mine = {**raw, "analyses": [{"freezing": {**TASK, "split": "nowhere"}}]}
    with pytest.raises(CorpusError, match="no split 'nowhere'"):
        Study.from_dict(mine, tmp_path / "run", cache=tmp_path / "cache").run()
    assert not (tmp_path / "cache" / "models").exists()


def test_truncation_keeps_the_first_blocks_in_every_run(done):
    rows = rows_of(done[0], "truncation", "accuracy")
    assert [(x, seed) for x, seed in zip(rows["x"], rows["probe_seed"], strict=True)] == [
        (1, 0),
        (1, 1),
        (2, 0),
        (2, 1),
    ]
    learning = rows_of(done[0], "truncation", "trained_parameters").groupby("x")["value"].first()
    assert learning[1] < learning[2]


def test_pruning_drops_from_both_ends_and_has_the_whole_model_beside_it(done):
    rows = rows_of(done[0], "pruning", "accuracy")
    assert list(zip(rows["x"], rows["side"], strict=True)) == [(0, "all"), (1, "top"), (1, "bottom")]


def test_what_one_analysis_tuned_the_others_take(done):
    whole = {
        analysis: rows[rows["x"] == x]["value"].iloc[0]
        for analysis, x in (("freezing", -1), ("truncation", 2), ("pruning", 0))
        for rows in [rows_of(done[0], analysis, "accuracy")]
    }
    assert len(set(whole.values())) == 1
    models = list((done[1] / "cache" / "models").iterdir())
    assert len([model for model in models if (model / "finetune.json").exists()]) == 4 + (1 + 2) + 1


def test_intervals_and_every_answer_are_kept(done):
    rows = rows_of(done[0], "freezing", "accuracy").set_index("x")
    low, high, value = (rows[column] for column in ("low", "high", "value"))
    assert ((low <= value) & (value <= high)).all()
    cell = rows_of(done[0], "freezing", "accuracy")["cell"].iloc[0]
    scores = done[0].tables.table("scores", cell)
    assert scores.groupby("x")["score"].mean().round(6).to_dict() == value.round(6).to_dict()


def test_the_majority_stands_once_beside_all_variants(done):
    rows = rows_of(done[0], "pruning", "majority")
    assert "accuracy" in set(rows["subset"]) and not rows.duplicated(["subset", "cell"]).any()


def test_every_measure_of_every_problem_has_a_title():
    given = {
        Classes: (["a", "b"], ["a", "a"]),
        Numbers: ([0.1, 0.4], [0.2, 0.2]),
        Words: ([("a", "b")], [("a", "a")]),
        Answers: ([("yes",)], ["no"]),
        Trees: ([([2, 0], ["x", "y"])], [([2, 0], ["x", "y"])]),
    }
    assert set(given) == set(PROBLEMS.values())
    names = {
        name
        for kind, pair in given.items()
        for name in kind(["a", "b"], load_recipe("mosbach2020_cola")).statistics(*pair)
    }
    assert names == set(MEASURES)


def test_random_twins_are_not_tuned(done):
    assert set(done[0].results["model"]) == {"base"}


@pytest.mark.parametrize(
    ("analysis", "depths", "told"),
    [
        ("freezing", {"depths": [3]}, "frozen blocks 3, but the model allows -1 to 2"),
        ("truncation", {"depths": [0]}, "kept blocks 0, but the model allows 1 to 2"),
        ("pruning", {"dropped": [2]}, "dropped blocks 2, but the model allows 1 to 1"),
    ],
)
def test_a_depth_the_model_does_not_have(raw, tmp_path, analysis, depths, told):
    with pytest.raises(AnalysisError, match=told):
        Study.from_dict(
            {**raw, "analyses": [{analysis: {**TASK, **depths}}]}, tmp_path / "run", cache=tmp_path / "cache"
        ).run()


def test_a_model_in_memory_cannot_be_tuned(raw, tmp_path):
    from vestige.models.files.load import load_model

    given = Given({"base": load_model(tiny.model("bert", layers=2), tokenizer=tiny.tokenizer("bert"))})
    spec = make_spec({**raw, "analyses": [{"freezing": TASK}]})
    with pytest.raises(AnalysisError, match="only in memory"):
        Study(spec, tmp_path / "run", given=given, cache=tmp_path / "cache").run()


class TestSpec:
    def tuned(self, raw, recipe, **more):
        models = {"base": raw["models"]["base"]}
        models["tuned"] = {"finetune": {"of": "base", "task": "opinions/opinion", "recipe": recipe, **more}}
        return make_spec({**raw, "models": models, "analyses": [{"freezing": TASK}]}).models["tuned"].finetune

    def test_a_recipe_by_name(self, raw):
        assert self.tuned(raw, "merchant2020_mnli").recipe.name == "merchant2020_mnli"

    def test_a_recipe_like_another(self, raw):
        made = self.tuned(raw, {"like": "mosbach2020_sst2", "rate": 1e-4}).recipe
        assert (made.rate, made.epochs) == (1e-4, 1)

    def test_an_unknown_recipe(self, raw):
        with pytest.raises(Exception, match="no recipe is called 'mosbach2020_sst'"):
            self.tuned(raw, "mosbach2020_sst")

    def test_blocks_to_keep(self, raw):
        assert self.tuned(raw, {}, keep=[0]).keep == (0,)

    def test_an_analysis_of_a_model_that_is_not_there(self, raw):
        with pytest.raises(SpecError, match="freezing is to read 'bass'; did you mean 'base'"):
            make_spec({**raw, "analyses": [{"freezing": {**TASK, "models": ["bass"]}}]})

    def test_a_family_stands_for_its_members(self, raw, tmp_path):
        models = {"base": [raw["models"]["base"], raw["models"]["base"]]}
        spec = make_spec({**raw, "models": models, "analyses": [{"freezing": TASK}]})
        plan = make_plan(spec, Given(), tmp_path)
        assert [cell.model for cell in plan.cells] == ["base#0", "base#1"]

    def test_a_sample_is_drawn_and_noted(self, raw, tmp_path):
        plan = make_plan(make_spec(raw), Given(), tmp_path)
        assert plan.corpora["opinions"]["splits"]["train"]["sentences"] == 24
        assert "train: 24 of 800 sentences, drawn with seed 0" in plan.corpora["opinions"]["notes"]
