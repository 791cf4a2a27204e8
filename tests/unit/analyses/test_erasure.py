"""Erasing a layer in every family, what the analysis says of it, and what a tuned model loses."""

from dataclasses import asdict, replace

import declared
import numpy as np
import pandas as pd
import pytest
import tiny
import tiny_lm
import torch

from unit.finetune.made import QUICK, opinions, words
from vestige.analyses.base import Inputs
from vestige.analyses.erased_scores import erase_and_score
from vestige.analyses.erasure import Erasure
from vestige.analyses.perplexity import Perplexity
from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus, Sentence
from vestige.errors import AnalysisError
from vestige.finetune.model import load_tuned
from vestige.finetune.score import score
from vestige.finetune.train import finetune
from vestige.measures.erasure import Eraser, leace
from vestige.models.files.load import load_model
from vestige.models.lm.language_model import cloze_inputs
from vestige.models.surgery.erasing import check_erasing, erasing
from vestige.models.tokens.masking import mask_randomly
from vestige.representations.extract import represent
from vestige.representations.words import word_states
from vestige.study.corpora import Given
from vestige.study.run import Study
from vestige.study.spec import make_spec

FEW = {"resamples": 5, "rate": 0.3}

NOTED_BEFORE = {("albert", 1), ("albert", 2), ("xlnet", 0), ("deberta", 0)}
"""Layers that transformers shows as they were before the next block was handed them."""


def sizes():
    """Whether a word is long or short, in three splits; every sentence several times, so that a probe learns it."""
    found = tuple(replace(s, id=f"{s.id}-{copy}") for copy in range(8) for s in words().corpus["train"])
    return Corpus("words", {"train": found, "dev": found[:8], "test": found[4:16]}, {"size": "token"}).task("size")


def inputs_of(encoder, task, cache, reference=None):
    rows = {split: represent(encoder, found, cache=cache)["last"] for split, found in task.corpus.splits.items()}
    other = None if reference is None else Inputs(task, {}, reference.name, encoder=reference)
    return Inputs(task, {"last": rows}, encoder.name, encoder=encoder, reference=other)


def some_eraser(width, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, 300)
    return leace(rng.normal(size=(300, width)) + rng.normal(size=(4, width))[labels], labels, 4)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """All rows of a tiny BERT of two blocks."""
    inputs = inputs_of(tiny_lm.encoder("bert", layers=2), sizes(), tmp_path_factory.mktemp("cache"))
    return pd.DataFrame(declared.run(Erasure(**FEW, draws=2), inputs).rows), inputs


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_what_lies_below_stays_and_the_layer_is_erased(tiny_encoder, family):
    encoder = tiny_encoder(family)
    batch = encoder.encode(tiny_lm.SENTENCES[:2])
    mask = encoder.inputs(batch)["attention_mask"].bool()
    before = [state[mask] for state in encoder.hidden_states(batch)]
    for layer in range(encoder.depth + 1):
        eraser = some_eraser(encoder.widths[layer])
        check_erasing(encoder, layer, batch[0])
        with erasing(encoder, layer, eraser):
            during = [state[mask] for state in encoder.hidden_states(batch)]
        for lower in range(layer):
            assert torch.equal(during[lower], before[lower])
        noted = before[layer] if (family, layer) in NOTED_BEFORE else eraser(before[layer])
        assert torch.allclose(during[layer], noted, atol=1e-3)
        for higher in range(layer + 1, encoder.depth + 1):
            assert not torch.allclose(during[higher], before[higher], atol=1e-3)
    assert all(torch.equal(state[mask], old) for state, old in zip(encoder.hidden_states(batch), before, strict=True))


def test_a_top_layer_read_before_its_norm_is_erased_there():
    encoder = load_model(tiny.model("gpt2"), tokenizer=tiny.tokenizer("gpt2"), final_norm="pre")
    check_erasing(encoder, encoder.depth, encoder.encode(tiny_lm.SENTENCES[:1])[0])


def test_a_hook_that_misses_the_layer_is_noticed(tiny_encoder, monkeypatch):
    encoder = tiny_encoder("bert")
    encoded = encoder.encode(tiny_lm.SENTENCES[:1])[0]
    monkeypatch.setattr("vestige.models.surgery.unroll.Parts.own", lambda parts, index: parts.blocks[0])
    with pytest.raises(AnalysisError, match="not what the model shows as layer 3"):
        check_erasing(encoder, 3, encoded)


def test_erased_words_are_the_words_of_erased_tokens(tiny_encoder, cache):
    encoder = tiny_encoder("bert")
    sentences = tiny_lm.SENTENCES
    index = np.array([(number, word) for number, s in enumerate(sentences) for word in range(len(s.words))])[::-1]
    eraser = some_eraser(32)
    for pooling in ("first", "last", "mean"):
        plain = word_states(encoder, sentences, [2], pooling, index)[2]
        assert np.allclose(plain[::-1], represent(encoder, sentences, (pooling,), cache=cache)[pooling].layer(2))
        with erasing(encoder, 2, eraser):
            assert np.allclose(word_states(encoder, sentences, [2], pooling, index)[2], eraser.rows(plain), atol=1e-4)


def test_the_probe_falls_to_the_majority_where_it_is_erased(found):
    rows, _ = found
    majority = rows[rows["metric"] == "majority"]["value"].item()
    table = rows[rows["metric"] == "accuracy"]
    assert set(table["layer"]) == {0, 1, 2}
    assert (table[table["subset"] == "erased"]["value"] == majority).all()
    for other in ("none", "random"):
        assert (table[table["subset"] == other]["value"] > majority + 0.1).all()
    assert (rows[rows["metric"] == "rank"]["value"] == 2).all()
    change = rows[rows["metric"] == "change"]
    assert (change[change["subset"] == "none"]["value"] == 0).all()
    assert change[change["subset"] != "none"]["value"].between(1e-6, 1).all()
    assert set(table[table["subset"] == "random"]["probe_seed"]) == {0, 1}


def test_the_last_layer_is_run_anew(found):
    rows, _ = found
    last = rows[rows["metric"] == "last_accuracy"].set_index(["layer", "subset"])["value"]
    here = rows[rows["metric"] == "accuracy"].set_index(["layer", "subset"])["value"]
    assert {last[layer, "none"] for layer in range(3)} == {here[2, "none"]}
    assert last[2, "erased"] == here[2, "erased"]
    for layer in (0, 1):
        assert here[layer, "erased"] + 0.05 < last[layer, "erased"] < last[layer, "none"] - 0.05


def test_perplexity_is_that_of_the_sentences_and_of_the_erased_model(found):
    rows, inputs = found
    table = rows[rows["metric"] == "perplexity"]
    plain = Perplexity(**FEW, unit="sentence").run(inputs).rows[0]
    none, erased = (table[table["subset"] == subset].set_index("layer")["value"] for subset in ("none", "erased"))
    assert none.tolist() == pytest.approx([plain["value"]] * 3)
    assert (table["n"] == plain["n"]).all()
    assert (abs(erased - none) > 1e-3).all()
    encoder = inputs.encoder
    eraser = leace(inputs.split("train").layer(1), np.array(_numbers(inputs)), 3)
    with erasing(encoder, 1, eraser):
        assert Perplexity(**FEW, unit="sentence").run(inputs).rows[0]["value"] == pytest.approx(erased[1])
    assert (table["low"] <= table["value"]).all() and (table["value"] <= table["high"]).all()


def _numbers(inputs):
    labels = inputs.task.labels("train")
    names = sorted({label for row in labels for label in row})
    return [names.index(labels[s][w]) for s, w in inputs.split("train").index]


def test_a_model_without_a_head_is_probed_alone_and_takes_the_head_of_its_reference(cache):
    bare = load_model(tiny.model("bert"), tokenizer=tiny.tokenizer("bert"), name="bare")
    once = Erasure(**FEW, layers=(1,), last=False)
    found = declared.run(once, inputs_of(bare, sizes(), cache))
    alone = {row["metric"] for row in found.rows}
    assert alone == {"majority", "rank", "change", "accuracy", "own_task_left_out"}
    assert found.absent["perplexity"] == "there is no language-model head"
    beside = once.run(inputs_of(bare, sizes(), cache, tiny_lm.encoder("bert"))).rows
    assert {row["metric"] for row in beside} - alone == {"perplexity"}
    assert {row["layer"] for row in beside if row["metric"] == "perplexity"} == {1}
    own = replace(once, head="own").run(inputs_of(bare, sizes(), cache, tiny_lm.encoder("bert")))
    assert {row["metric"] for row in own.rows} == alone


@pytest.mark.parametrize("family", ["xlnet", "gpt2", "albert"])
def test_other_kinds_of_language_models(family, cache):
    once = Erasure(**FEW, layers=(0, 2), last=False)
    rows = pd.DataFrame(once.run(inputs_of(tiny_lm.encoder(family), sizes(), cache)).rows)
    table = rows[rows["metric"] == "perplexity"].set_index(["layer", "subset"])["value"]
    assert abs(table[2, "erased"] - table[2, "none"]) > 1e-3
    assert abs(table[0, "erased"] - table[2, "erased"]) > 1e-3


@pytest.mark.parametrize("layer", [0, 2])
def test_both_streams_of_xlnet_are_erased(layer):
    encoder = tiny_lm.encoder("xlnet")
    cloze = next(mask_randomly(encoder.encode(tiny_lm.SENTENCES[:1]), None, 100, 0.3, 0))
    given = cloze_inputs(encoder, [cloze], "permutation")
    seen = []
    with torch.inference_mode(), erasing(encoder, layer, lambda states: seen.append(states.shape) or states):
        encoder.model(**given)
    assert [shape[0] for shape in seen] == [len(cloze.encoded.ids), len(cloze.targets)]


def test_what_cannot_be(cache):
    encoder = tiny_lm.encoder("bert")
    inputs = inputs_of(encoder, sizes(), cache)
    with pytest.raises(AnalysisError, match="layers 0 to 3, asked for 4"):
        Erasure(layers=(4,)).run(inputs)
    with pytest.raises(AnalysisError, match="layers 0 to 3, asked for -1"), erasing(encoder, -1, some_eraser(32)):
        pass
    with pytest.raises(AnalysisError, match="the model itself is missing"):
        Erasure().run(replace(inputs, encoder=None))
    with pytest.raises(AnalysisError, match="masks no token"):
        Erasure(layers=(1,), last=False, rate=1e-9).run(inputs)
    with pytest.raises(AnalysisError, match="labels each sentence"):
        erase_and_score("nowhere", opinions(), opinions())


class TestTuned:
    @pytest.fixture(scope="class")
    def tuned(self, tmp_path_factory):
        place = tmp_path_factory.mktemp("tuned")
        return finetune(tiny.save("bert", place / "bert"), sizes(), QUICK, threads=1, cache=place / "cache")

    def test_a_tuned_model_loses_its_task_with_the_property_it_is_about(self, tuned):
        rows = pd.DataFrame(erase_and_score(tuned, sizes(), sizes(), split="test", pooling="first").rows)
        table = rows[rows["metric"] == "task_accuracy"].set_index(["layer", "subset"])["value"]
        plain = score(tuned, sizes(), "test")
        assert set(table.index) == {(layer, subset) for layer in range(4) for subset in ("none", "erased", "random")}
        assert table[2, "none"] == plain.metrics["accuracy"].value > 0.9
        assert table[3, "erased"] < 0.8 < 0.95 < table[3, "random"]
        assert (rows[rows["metric"] == "rank"]["value"] == 2).all()

    def test_a_folder_or_what_was_loaded_gives_the_same_and_is_as_it_was_after(self, tuned):
        model = load_tuned(tuned.folder)
        settings = {"layers": [2], "split": "test"}
        loaded = erase_and_score(model, sizes(), sizes(), **settings)
        assert loaded.rows == erase_and_score(tuned.folder, sizes(), sizes(), **settings).rows
        assert score(model, sizes(), "test").metrics == score(tuned, sizes(), "test").metrics

    def test_erasing_nothing_costs_nothing(self, tuned):
        alike = [
            Sentence(s.id, s.words, annotations={"size": ("word",) * len(s.words)}) for s in sizes().corpus["train"]
        ]
        same = Corpus("alike", {"train": tuple(alike)}, {"size": "token"}).task("size")
        rows = pd.DataFrame(erase_and_score(tuned, same, sizes(), split="test").rows)
        assert (rows[rows["metric"] == "rank"]["value"] == 0).all()
        assert rows[rows["metric"] == "task_accuracy"]["value"].nunique() == 1


def test_in_a_study(tmp_path):
    for name, seed in (("base", 0), ("tuned", 1)):
        tiny_lm.whole("bert", seed).save_pretrained(tmp_path / name)
        tiny.tokenizer("bert").save_pretrained(tmp_path / name)
    models = {"base": str(tmp_path / "base"), "tuned": {"load": str(tmp_path / "tuned"), "reference": "base"}}
    wanted = {"erasure": {"tasks": ["words/size"], "layers": [1, 3], "last": False, "sentences": 4, "resamples": 5}}
    raw = {"study": "erasing", "models": models, "corpora": {"words": {"files": {}}}, "analyses": [wanted]}
    raw["compute"] = {"threads": 1, "model_threads": 1}
    given = Given({}, {"words": sizes().corpus})
    run = Study(make_spec(raw), tmp_path / "run", given=given, cache=tmp_path / "cache").run()
    rows = run.results[run.results["metric"].isin(["accuracy", "perplexity"])]
    assert set(zip(rows["model"], rows["metric"], rows["layer"], rows["subset"], strict=True)) == {
        (model, metric, layer, subset)
        for model in ("base", "tuned")
        for metric in ("accuracy", "perplexity")
        for layer in (1, 3)
        for subset in ("none", "erased", "random")
    }


def test_in_a_study_a_tuned_model_is_scored_on_its_own_task(tmp_path):
    """Its task is of another corpus than the property; the numbers are those of the function."""
    models = {
        "base": str(tiny.save("bert", tmp_path / "bert")),
        "tuned": {"finetune": {"of": "base", "task": "opinions/opinion", "recipe": asdict(QUICK)}},
    }
    wanted = {"erasure": {"tasks": ["words/size"], "layers": [1, 3], "last": False}}
    raw = {
        "study": "erasing",
        "models": models,
        "corpora": {"words": {"files": {}}, "opinions": {"files": {}}},
        "analyses": [wanted],
        "compute": {"threads": 1, "model_threads": 1},
    }
    made = opinions().corpus
    own = Corpus("opinions", {"train": made["train"], "dev": made["train"][:12]}, {"opinion": "sentence"})
    given = Given({}, {"words": sizes().corpus, "opinions": own})

    def run(**settings):
        wanted["erasure"] |= settings
        return Study(make_spec(raw), tmp_path / "run", given=given, cache=tmp_path / "cache", overwrite=True).run()

    rows = run().results
    mine = rows[rows["metric"].str.startswith("task_")]
    assert set(mine["model"]) == {"tuned"}
    [folder] = (path.parent for path in (tmp_path / "cache" / "models").glob("*/finetune.json"))
    alone = pd.DataFrame(erase_and_score(folder, sizes(), own.task("opinion"), [1, 3]).rows)
    alone = alone[alone["metric"].str.startswith("task_")]
    keys = ["metric", "layer", "subset"]
    found, expected = (
        frame[frame["layer"].notna()].set_index(keys)["value"].astype(float).sort_index() for frame in (mine, alone)
    )
    assert found.index.tolist() == expected.index.tolist() and np.allclose(found, expected)
    assert found["task_accuracy", 1, "none"] > 0.9
    majority = rows[rows["metric"] == "task_majority"]
    assert (majority["value"].item(), majority["subset"].item()) == (0.5, "accuracy")
    page = run().report().read_text(encoding="utf-8")
    assert "in tuned, accuracy on its own task is" in page.lower()
    key = run().tables.cells.set_index("model")["cell"]
    given.corpora["opinions"] = Corpus("renamed", dict(own.splits), {"opinion": "sentence"}, ("a note",))
    assert run().tables.cells.set_index("model")["cell"].equals(key), "names and notes play no role"
    [failed] = run(own_split="later").failed
    assert failed["model"] == "tuned" and "no split 'later'" in failed["problem"]
    given.corpora["opinions"] = Corpus("renamed", {"train": own["train"]}, {"opinion": "sentence"})
    page, rows = (one := run(own_split=None)).report().read_text(encoding="utf-8"), one.results
    assert not rows["metric"].str.startswith("task_").any()
    assert "tuned is not scored on its own task: its corpus has neither dev nor test" in page
    models["base"] = {"load": models["base"], "read": {"sink": "add"}}
    rows = run().results
    left_out = rows[(rows["metric"] == "own_task_left_out") & (rows["model"] == "tuned")]
    assert "(sink)" in left_out["subset"].item()
    rows = run(own_task=False).results
    assert not rows["metric"].str.startswith(("task_", "own_")).any()


def test_parts_of_speech_in_minilm(minilm, data, cache, tmp_path):
    """Real states: nothing linear is left at the layer, and the layers above make much of it anew."""
    text = (data / "ud_ewt" / "en_ewt-ud-dev.conllu").read_text(encoding="utf-8").split("\n\n")
    for split, part in (("train", text[:40]), ("dev", text[40:55]), ("test", text[55:70])):
        (tmp_path / f"{split}.conllu").write_text("\n\n".join(part) + "\n\n", encoding="utf-8")
    task = load_corpus(tmp_path).task("upos")
    rows = pd.DataFrame(Erasure(layers=(2,)).run(inputs_of(minilm, task, cache)).rows)
    table = rows[rows["layer"].notna()].set_index(["metric", "subset"])["value"]
    majority = rows[rows["metric"] == "majority"]["value"].item()
    assert abs(table["accuracy", "erased"] - majority) < 0.02
    assert table["accuracy", "none"] > majority + 0.3
    assert table["accuracy", "random"] > table["accuracy", "none"] - 0.05
    assert table["last_accuracy", "erased"] < table["last_accuracy", "random"]
    assert 0 < table["change", "erased"] < 1
    assert table["perplexity", "erased"] > 1.2 * table["perplexity", "random"]


def test_erasers_are_what_they_say():
    eraser = Eraser(torch.ones(2, 1).double() / 2, torch.ones(1, 2).double(), torch.zeros(2).double())
    assert eraser(torch.tensor([[1.0, 3.0]])).tolist() == [[-1.0, 1.0]]
    assert eraser(torch.tensor([1.0, 3.0], dtype=torch.float16)).dtype == torch.float16
