"""Models that come in several in a study: replicates, steps, twins, adapters; and its corpora and other encoders."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from peft import LoraConfig, get_peft_model
from small_study import conllu
from transformers import AutoModel

from unit.models import test_elmo as elmo
from vestige.errors import CorpusError, ModelError, SpecError
from vestige.models.files.load import load_model
from vestige.study.corpora import Given
from vestige.study.engines.settings import EngineSpec
from vestige.study.facts import collect_facts
from vestige.study.families import expand_models
from vestige.study.plan import make_plan
from vestige.study.run import Study, steps_until
from vestige.study.spec import make_spec


def expand(models):
    return expand_models(models, "study.yaml")


class TestExpansion:
    def test_single_models_stay_as_they_are(self):
        models = {"a": {"load": "x"}, "b": {"load": "y", "reference": "a"}}
        assert expand(models) == models

    def test_replicates_and_what_is_made_from_them(self):
        expanded = expand(
            {
                "base": {"load": ["x", "y"], "read": {"sink": "add"}},
                "tuned": {"finetune": {"of": "base", "task": "c/t"}, "runs": 3},
                "twin": {"random_twin_of": "base"},
                "further": {"load": ["p", "q"], "reference": "base"},
            }
        )
        assert expanded == {
            "base#0": {"load": "x", "read": {"sink": "add"}, "pretrain_seed": 0},
            "base#1": {"load": "y", "read": {"sink": "add"}, "pretrain_seed": 1},
            "tuned#0": {"finetune": {"of": "base#0", "task": "c/t"}, "runs": 3, "pretrain_seed": 0},
            "tuned#1": {"finetune": {"of": "base#1", "task": "c/t"}, "runs": 3, "pretrain_seed": 1},
            "twin#0": {"random_twin_of": "base#0", "pretrain_seed": 0},
            "twin#1": {"random_twin_of": "base#1", "pretrain_seed": 1},
            "further#0": {"load": "p", "reference": "base#0", "pretrain_seed": 0},
            "further#1": {"load": "q", "reference": "base#1", "pretrain_seed": 1},
        }

    def test_through_several_links_in_any_order(self):
        expanded = expand(
            {
                "twin": {"random_twin_of": "bare", "reference": "bare"},
                "bare": {"adapter_off": "tuned"},
                "tuned": {"load": ["x", "y"], "reference": "bare"},
            }
        )
        assert list(expanded) == ["twin#0", "twin#1", "bare#0", "bare#1", "tuned#0", "tuned#1"]
        assert expanded["twin#1"] == {"random_twin_of": "bare#1", "reference": "bare#1", "pretrain_seed": 1}
        assert expanded["tuned#0"] == {"load": "x", "reference": "bare#0", "pretrain_seed": 0}

    def test_one_replicate_can_be_referred_to(self):
        expanded = expand({"base": {"load": ["x", "y"]}, "other": {"load": "z", "reference": "base#1"}})
        assert expanded["other"] == {"load": "z", "reference": "base#1"}

    def test_steps(self, tmp_path):
        for step in (100, 20):
            (tmp_path / f"checkpoint-{step}").mkdir()
        expanded = expand({"run": {"checkpoints": str(tmp_path), "reference": "base"}, "base": {"load": "x"}})
        assert list(expanded) == ["run@20", "run@100", "base"]
        assert expanded["run@20"] == {
            "reference": "base", "load": str(tmp_path / "checkpoint-20"), "revision": None, "step": 20,
        }  # fmt: skip

    def test_steps_of_a_fine_tuning(self):
        tune = {"of": "base", "task": "a/b"}
        models = expand({"base": {"load": "x"}, "tuned": {"finetune": tune, "runs": 2, "steps": [5, 9]}})
        assert models["tuned@9"] == {"finetune": tune, "runs": 2, "step": 9} and set(models) >= {"tuned@5"}
        with pytest.raises(SpecError, match="steps of a finetune"):
            expand({"tuned": {"load": "x", "steps": [5]}})

    def test_steps_by_revision(self):
        expanded = expand({"run": {"checkpoints": "some/model", "revisions": {7: "step7", 3: "early"}}})
        assert expanded == {
            "run@3": {"load": "some/model", "revision": "early", "step": 3},
            "run@7": {"load": "some/model", "revision": "step7", "step": 7},
        }

    def test_steps_compared_with_replicates_are_refused(self, tmp_path):
        (tmp_path / "checkpoint-1").mkdir()
        models = {"base": {"load": ["x", "y"]}, "run": {"checkpoints": str(tmp_path), "reference": "base"}}
        with pytest.raises(SpecError, match="'run@1' is one model but 'base' has 2 replicates"):
            expand(models)

    @pytest.mark.parametrize(
        ("models", "complaint"),
        [
            ({"a": {"load": ["x", "y"]}, "b": {"load": "z", "reference": "a"}}, "'b' is one model but 'a' has 2"),
            (
                {"a": {"load": ["x", "y"]}, "b": {"load": ["z"], "reference": "a"}},
                "'b' refers to models with {'b': 1, 'a': 2} replicates",
            ),
            (
                {
                    "a": {"load": ["x", "y"]},
                    "b": {"load": ["x", "y", "z"]},
                    "c": {"random_twin_of": "a", "reference": "b"},
                },
                "'c' refers to models with {'a': 2, 'b': 3} replicates",
            ),
            (
                {
                    "one": {"load": "x"},
                    "a": {"load": ["y", "z"]},
                    "c": {"finetune": {"of": "one", "task": "c/t"}, "reference": "a"},
                },
                "'c' is one model but 'a' has 2 replicates",
            ),
            ({"a": {"load": []}}, "'a' has an empty list"),
            ({"a": {"load": "x", "checkpoints": "y"}}, "both load and checkpoints"),
            ({"a": {"checkpoints": ["x", "y"]}}, "'a' should name the folder or hub id of one run"),
        ],
    )
    def test_mistakes(self, models, complaint):
        with pytest.raises(SpecError) as raised:
            expand(models)
        assert complaint in raised.value.problem and raised.value.problem.startswith("study.yaml: ")

    def test_a_circle_is_no_trap(self):
        circle = {"a": {"random_twin_of": "b"}, "b": {"random_twin_of": "a"}}
        assert expand(circle) == circle

    def test_a_folder_without_checkpoints(self, tmp_path):
        with pytest.raises(ModelError, match="no folders checkpoint-<step>"):
            expand({"run": {"checkpoints": str(tmp_path)}})


class TestSpec:
    def spec(self, model, **corpora):
        return make_spec(
            {
                "study": "x",
                "models": {"base": "minilm", "other": model},
                "corpora": corpora or {"treebank": "treebank"},
                "analyses": [{"layer_probe": {"tasks": "treebank/upos"}}],
            }
        )

    @pytest.mark.parametrize(
        ("model", "complaint"),
        [
            ({"load": "x", "read": {"final_nrm": "pre"}}, "did you mean 'final_norm'?"),
            ({"load": "x", "read": {"sync": True}}, "did you mean 'sink'?"),
            ({"load": "x", "read": {"final_norm": "befor"}}, "'as_is', 'pre' or 'post' (found 'befor')"),
            ({"load": "x", "read": {"part": "middle"}}, "'encoder' or 'decoder' (found 'middle')"),
            ({"load": "x", "sink": "add"}, "unknown key"),
            ({"load": "x", "adapter_off": "base"}, "exactly one of"),
            ({"load": "x", "runs": 3}, "runs belongs to a model with finetune, found with load"),
            ({"random_twin_of": "base", "read": {"sink": "add"}}, "read belongs to a model with load"),
            ({"adapter_off": "base", "tokenizer": "x"}, "tokenizer belongs to a model with load"),
            ({"load": "x", "reference": ["base"]}, "reference"),
            ({"load": "x", "reference": "bse"}, "did you mean 'base'?"),
            (5, "model 'other' should be a name or a mapping, found 5"),
        ],
    )
    def test_mistakes(self, model, complaint):
        with pytest.raises(SpecError) as raised:
            self.spec(model)
        assert complaint in raised.value.problem

    def test_a_corpus_that_is_no_mapping(self):
        with pytest.raises(SpecError, match="corpus 'treebank' should be a name or a mapping, found 5"):
            self.spec("minilm", treebank=5)

    def test_readings_and_places_are_kept(self):
        places = {"embeddings": "cpu", "encoder": "disk"}
        made = self.spec({"load": "x", "read": {"chat": "user", "sink": "add"}, "device_map": places}).models["other"]
        assert made.read.changes() == {"chat": "user", "sink": "add"}
        assert made.device_map == places


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a corpus and tiny models: two bases, a run with checkpoints, an adapter, an ELMo."""
    folder = tmp_path_factory.mktemp("families")
    rng = np.random.default_rng(0)
    words = [line.split() for line in tiny.TEXT]
    for split, count in (("train", 16), ("dev", 5), ("test", 8)):
        mixed = [list(rng.permutation(words[rng.integers(len(words))])) for _ in range(count)]
        (folder / f"{split}.conllu").write_text(conllu(mixed))
    rows = [
        f"{split}\t{'good' if i % 2 else 'bad'}\t{' '.join(rng.permutation(words[i % 6]))}"
        for split, count in (("tr", 16), ("va", 4), ("te", 4))
        for i in range(count)
    ]
    (folder / "opinions.txt").write_text("\n".join(rows) + "\n")
    for seed in (0, 1):
        tiny.save("bert", folder / f"base-{seed}", layers=1, seed=seed)
    for step in (5, 10):
        tiny.save("bert", folder / "run" / f"checkpoint-{step}", layers=1, seed=20 + step)
    torch.manual_seed(3)
    model = AutoModel.from_pretrained(folder / "base-0")
    tuned = get_peft_model(model, LoraConfig(r=2, target_modules=["query", "dense"], init_lora_weights=False))
    tuned.save_pretrained(folder / "adapter")
    elmo.save(folder / "elmo")
    return folder


def run(place: Path, folder: Path, models, **changes):
    raw = {
        "study": "tiny",
        "models": models,
        "corpora": {"words": {"files": {s: str(place / f"{s}.conllu") for s in ("train", "dev", "test")}}},
        "analyses": [{"layer_probe": {"tasks": ["words/upos"], "seeds": 1, "control": False, "protocol": "durrani"}}],
        "compare": {"resamples": 19},
        "compute": {"model_threads": 1},
        **changes,
    }
    return Study.from_dict(raw, folder / "out", cache=folder / "cache", overwrite=True).run()


def accuracy(results, model) -> dict:
    rows = results[(results["model"] == model) & (results["metric"] == "accuracy")]
    return dict(zip(rows["layer"], rows["value"], strict=True))


class TestRuns:
    def test_replicates_are_compared_one_by_one(self, place, tmp_path):
        tune = {"of": "base", "task": "opinions/opinion", "recipe": {"epochs": 1, "rate": 1e-2}}
        finished = run(
            place,
            tmp_path,
            {
                "base": [str(place / "base-0"), str(place / "base-1")],
                "tuned": {"finetune": tune},
                "twin": {"random_twin_of": "base"},
            },
            corpora={
                "words": {"files": {s: str(place / f"{s}.conllu") for s in ("train", "dev", "test")}},
                "opinions": {
                    "files": str(place / "opinions.txt"), "format": "senteval", "options": {"task": "opinion"},
                },
            },
        )  # fmt: skip
        results, comparisons = finished.results, finished.comparisons
        assert set(results["model"]) == {f"{name}#{i}" for name in ("base", "tuned", "twin") for i in (0, 1)}
        for model, rows in results.groupby("model"):
            assert set(rows["pretrain_seed"]) == {int(model[-1])}
            assert rows["step"].isna().all()
        assert set(zip(comparisons["model"], comparisons["reference"], strict=True)) == {
            ("tuned#0", "base#0"),
            ("tuned#1", "base#1"),
        }
        for row in comparisons[comparisons["metric"] == "accuracy"].itertuples():
            tuned, base = accuracy(results, row.model), accuracy(results, row.reference)
            assert row.difference == pytest.approx(tuned[row.layer] - base[row.layer])
        described = finished.tables.lock["models"]
        prints = {name: made[0]["fingerprint"] for name, made in described.items()}
        assert len(set(prints.values())) == 6, "every replicate has a twin of its own"
        assert prints["base#1"] == load_model(place / "base-1").fingerprint
        assert {made["baseline"] for name in ("twin#0", "twin#1") for made in described[name]} == {True}

    def test_steps_are_a_column(self, place, tmp_path):
        finished = run(
            place,
            tmp_path,
            {
                "base": str(place / "base-0"),
                "during": {"checkpoints": str(place / "run"), "reference": "base"},
            },
        )
        steps = {model: set(rows["step"].dropna()) for model, rows in finished.results.groupby("model")}
        assert steps == {"base": set(), "during@5": {5}, "during@10": {10}}
        assert set(finished.comparisons["model"]) == {"during@5", "during@10"}
        prints = {name: made[0]["fingerprint"] for name, made in finished.tables.lock["models"].items()}
        assert prints["during@10"] == load_model(place / "run" / "checkpoint-10").fingerprint

    def test_checkpoints_of_a_fine_tuning_of_the_study_are_models_too(self, place, tmp_path):
        recipe = {"epochs": 1, "rate": 1e-2, "batch": 4, "save_steps": 1}
        tune = {"of": "base", "task": "opinions/opinion", "recipe": recipe}
        opinions = {"files": str(place / "opinions.txt"), "format": "senteval", "options": {"task": "opinion"}}
        words = {"files": {s: str(place / f"{s}.conllu") for s in ("train", "dev", "test")}}
        models = {"base": str(place / "base-0"), "tuned": {"finetune": tune}}
        finished = run(
            place, tmp_path, {**models, "during": {"finetune": tune, "steps": [1, 2]}},
            corpora={"words": words, "opinions": opinions},
        )  # fmt: skip
        steps = {model: set(rows["step"].dropna()) for model, rows in finished.results.groupby("model")}
        assert steps == {"base": set(), "tuned": set(), "during@1": {1}, "during@2": {2}}
        assert set(finished.comparisons["reference"]) == {"base"}
        described = finished.tables.lock["models"]
        assert len({made[0]["fingerprint"] for made in described.values()}) == 4
        lacking = run(
            place, tmp_path / "lacking", {**models, "during": {"finetune": tune, "steps": [99]}},
            corpora={"words": words, "opinions": opinions},
        )  # fmt: skip
        assert {failure["model"] for failure in lacking.failed} == {"during@99"}
        assert "step 99, but checkpoints are kept of 1, 2" in lacking.failed[0]["problem"]

    @pytest.mark.parametrize("order", [("base", "tuned"), ("tuned", "base"), ("tuned", "base", "again")])
    def test_base_and_tuned_come_from_one_folder(self, order, place, tmp_path):
        models = {
            "base": {"adapter_off": "tuned"},
            "tuned": {"load": str(place / "adapter"), "reference": "base"},
            "again": {"adapter_off": "tuned"},
        }
        finished = run(place, tmp_path, {name: models[name] for name in order})
        plain = load_model(place / "base-0")
        prints = {name: made[0]["fingerprint"] for name, made in finished.tables.lock["models"].items()}
        assert prints["base"] == plain.fingerprint == prints.get("again", plain.fingerprint) != prints["tuned"]
        assert set(finished.comparisons["reference"]) == {"base"}
        assert accuracy(finished.results, "base") != accuracy(finished.results, "tuned")
        assert finished.tables.lock["models"]["base"][0]["name"] == "base"

    def test_a_twin_of_a_base_without_its_adapter(self, place, tmp_path):
        models = {"tuned": str(place / "adapter"), "base": {"adapter_off": "tuned"}, "twin": {"random_twin_of": "base"}}
        lock = run(place, tmp_path, models).tables.lock
        twin = load_model(place / "base-0").random_twin(1234)
        assert lock["models"]["twin"][0]["fingerprint"] == twin.fingerprint

    @pytest.mark.parametrize(
        ("models", "complaint"),
        [
            ({"plain": "base-0", "off": {"adapter_off": "plain"}}, "'plain' has no adapter to switch off"),
            ({"twin": {"random_twin_of": "off"}, "off": {"random_twin_of": "twin"}}, "made from each other"),
            ({"off": {"adapter_off": "twin"}, "twin": {"adapter_off": "off"}}, "made from each other"),
            (
                {"a": "adapter", "b": {"finetune": {"of": "a", "task": "words/upos"}}},
                "'b' is tuned from 'a', which has an adapter",
            ),
            (
                {"a": {"load": "base-0", "tokenizer": "base-1"}, "b": {"finetune": {"of": "a", "task": "words/upos"}}},
                "'b' is tuned from 'a', which has a tokenizer from elsewhere",
            ),
        ],
    )
    def test_mistakes(self, models, complaint, place, tmp_path, monkeypatch):
        monkeypatch.chdir(place)
        with pytest.raises(SpecError) as raised:
            run(place, tmp_path, models)
        assert complaint in raised.value.problem


class TestElmo:
    def test_it_is_studied_like_any_model_with_and_without_its_state(self, place, tmp_path):
        finished = run(
            place,
            tmp_path,
            {
                "elmo": str(place / "elmo"),
                "stream": {"load": str(place / "elmo"), "stateful": True, "reference": "elmo"},
                "twin": {"random_twin_of": "elmo"},
            },
        )
        layered = finished.results.dropna(subset=["layer"])
        by_model = {name: rows.groupby("layer")["value"].agg(tuple) for name, rows in layered.groupby("model")}
        assert [list(found.index) for found in by_model.values()] == [[0, 1, 2, 3]] * 3
        prints = {name: made[0]["fingerprint"] for name, made in finished.tables.lock["models"].items()}
        assert len(set(prints.values())) == 3
        assert by_model["elmo"][0] == by_model["stream"][0]  # no state reaches the word vectors
        for layer in (1, 2, 3):
            assert len({by_model[name][layer] for name in by_model}) == 3
        assert set(finished.comparisons["layer"]) == {0, 1, 2, 3}

    @pytest.mark.parametrize(
        "option", [{"read": {"sink": "add"}}, {"device_map": "auto"}, {"tokenizer": "base-0"}, {"base": "base-0"}]
    )
    def test_what_it_cannot_do_is_said(self, option, place, tmp_path):
        key = "sink" if "read" in option else next(iter(option))
        with pytest.raises(ModelError, match=f"is an ELMo, so {key!r} has no meaning"):
            run(place, tmp_path, {"elmo": {"load": str(place / "elmo"), **option}})

    def test_other_models_have_no_state(self, place, tmp_path):
        with pytest.raises(ModelError, match="is no ELMo, so 'stateful' has no meaning"):
            run(place, tmp_path, {"base": {"load": str(place / "base-0"), "stateful": True}})


class TestCorpora:
    def plan(self, place, cache, corpora, tasks, analysis="layer_probe", **changes):
        raw = {
            "study": "x",
            "models": {"base": str(place / "base-0")},
            "corpora": corpora,
            "analyses": [{analysis: {"tasks": tasks, "seeds": 1}}],
            "limit": 6,
            **changes,
        }
        return make_plan(make_spec(raw, base=place), Given(), cache)

    def test_by_name_in_the_catalog(self, place, cache):
        plan = self.plan(place, cache, {"bank": "treebank"}, ["bank/upos"])
        assert plan.corpora["bank"]["name"] == "treebank"
        assert {split: found["sentences"] for split, found in plan.corpora["bank"]["splits"].items()} == {
            "train": 6, "dev": 6, "test": 6,
        }  # fmt: skip

    @pytest.mark.parametrize("derive", ["chunk", {"chunk": {}}])
    def test_with_a_task_made_from_its_trees(self, derive, place, cache):
        corpora = {"bank": {"name": "treebank", "derive": derive}, "plain": "treebank"}
        plan = self.plan(place, cache, corpora, ["bank/chunk", "plain/upos"])
        assert [(cell.corpus, cell.task) for cell in plan.cells] == [("bank", "chunk"), ("plain", "upos")]
        assert plan.corpora["bank"]["name"] == "treebank+chunk"

    def test_an_unknown_derived_task(self, place, cache):
        with pytest.raises(CorpusError, match="chunks"):
            self.plan(place, cache, {"bank": {"name": "treebank", "derive": "chunks"}}, ["bank/chunk"])

    def test_one_file_with_every_split_beside_the_study(self, place, cache):
        corpora = {"opinions": {"files": "opinions.txt", "format": "senteval", "options": {"task": "opinion"}}}
        plan = self.plan(place, cache, corpora, ["opinions/opinion"], "sentence_probe")
        assert plan.corpora["opinions"]["name"] == "opinions"
        assert {split: found["sentences"] for split, found in plan.corpora["opinions"]["splits"].items()} == {
            "train": 6, "dev": 4, "test": 4,
        }  # fmt: skip

    def test_name_and_files_together(self, place, cache):
        with pytest.raises(SpecError, match="either name or files"):
            self.plan(place, cache, {"x": {"name": "treebank", "files": "opinions.txt"}}, ["x/upos"])


def test_a_revision_of_a_hub_model_is_what_is_tuned(place, cache, monkeypatch):
    """The hub's cache is made by hand: two revisions of one model, the tuned one is not main."""
    hub = cache / "hub" / "models--some--model"
    for revision, seed in (("main", 0), ("early", 1)):
        commit = revision.encode().hex().ljust(40, "0")
        (hub / "refs").mkdir(parents=True, exist_ok=True)
        (hub / "refs" / revision).write_text(commit)
        tiny.save("bert", hub / "snapshots" / commit, layers=1, seed=seed)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache / "hub"))
    tune = {"of": "base", "task": "o/opinion", "recipe": {"epochs": 1}}
    raw = {
        "study": "x",
        "models": {"base": {"load": "some/model", "revision": "early"}, "tuned": {"finetune": tune}},
        "corpora": {"o": {"files": "opinions.txt", "format": "senteval", "options": {"task": "opinion"}}},
        "analyses": [{"sentence_probe": {"tasks": ["o/opinion"], "seeds": 1, "models": ["base"]}}],
    }
    study = Study(make_spec(raw, base=place), cache / "run", cache=cache)
    plan = study.plan()
    assert not study.drive(plan, EngineSpec(), steps_until(plan, "load"))
    facts = collect_facts(study.spec, plan, failed=[step.key for step in plan.extracts.values()])
    assert facts.models["base"][0]["fingerprint"] == load_model(place / "base-1").fingerprint
    cards = [json.loads(card.read_text()) for card in (cache / "models").glob("*/finetune.json")]
    assert [Path(card["base"]).name for card in cards] == [b"early".hex().ljust(40, "0")]


def test_studying_an_adapter_warns_of_nothing(place, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(place, tmp_path, {"tuned": str(place / "adapter"), "base": {"adapter_off": "tuned"}})
