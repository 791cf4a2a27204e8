"""Every kind of problem: a model learns it, is loaded again with its head, and gives the same answers."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tiny
import torch
from transformers import AutoModel

from unit.finetune.made import THOROUGH, corpus, opinions, pairs, questions, trees, words
from vestige.corpus.types import Sentence
from vestige.errors import ModelError
from vestige.finetune.examples import Example
from vestige.finetune.model import build, load_tuned
from vestige.finetune.problems import find_problem
from vestige.finetune.problems.answers import Answers, _target
from vestige.finetune.problems.base import word_weights
from vestige.finetune.problems.sentences import MeanHead
from vestige.finetune.recipe import Recipe
from vestige.finetune.score import answer, score
from vestige.finetune.train import finetune
from vestige.models.files.load import load_model
from vestige.models.files.series import find_checkpoints
from vestige.models.tokens.align import Encoded

PROBLEMS = {
    "classes": (opinions, THOROUGH),
    "classes of pairs": (pairs, replace(THOROUGH, rate=2e-3, epochs=12)),
    "classes by the mean": (opinions, replace(THOROUGH, pooling="mean", save_steps=10)),
    "numbers": (lambda: pairs(labels=(0.5, 4.5), name="stsb"), THOROUGH),
    "numbers by the mean": (lambda: pairs(labels=(0.5, 4.5), name="stsb"), replace(THOROUGH, pooling="mean")),
    "words": (words, THOROUGH),
    "words by the mean": (words, replace(THOROUGH, word="mean")),
    "answers": (questions, replace(THOROUGH, max_tokens=40)),
    "answers in windows": (questions, replace(THOROUGH, epochs=5, max_tokens=24, stride=8)),
    "trees": (trees, replace(THOROUGH, rate=1e-3, batch=2)),
}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_model_learns_it_and_is_the_same_when_loaded_again(kind, tmp_path, cache):
    make, recipe = PROBLEMS[kind]
    task = make()
    tuned = finetune(tiny.save("bert", tmp_path / "bert"), task, recipe, threads=1, cache=cache)
    curve, primary = tuned.log["curve"], tuned.log["primary"]
    assert curve[-1]["loss"] < 0.9 * curve[1]["loss"]
    reached = tuned.log["scores"]["dev"][primary]
    assert reached["value"] > reached["majority"] and reached["low"] <= reached["value"] <= reached["high"]
    again = score(tuned, task)
    assert again.summary() == tuned.log["scores"]["dev"]
    kept = [json.loads(line) for line in (tuned.folder / "answers-dev.jsonl").read_text().splitlines()]
    assert json.loads(json.dumps([row["answer"] for row in kept])) == json.loads(json.dumps(list(again.answers)))
    states = load_model(tuned.folder)
    plain = AutoModel.from_pretrained(tuned.folder)
    inside = load_tuned(tuned.folder).encoder
    batch = states.encode(task.corpus["dev"])
    with torch.inference_mode():
        theirs = plain(**states.inputs(batch), output_hidden_states=True).hidden_states
    for ours, in_training, hugging in zip(
        states.hidden_states(batch), inside.hidden_states(batch), theirs, strict=True
    ):
        assert torch.equal(ours, in_training) and torch.equal(ours, hugging)
    if recipe.save_steps:
        assert score(tuned.folder / f"checkpoint-{find_checkpoints(tuned.folder).steps[0]}", task).task == again.task


@pytest.mark.parametrize("family", ["roberta", "albert", "xlnet", "gpt2", "llama", "t5"])
def test_padding_changes_no_answer(family, tmp_path):
    """A sentence alone and in a batch beside a longer one, under every head, before any training."""
    folder = tiny.save(family, tmp_path / family)
    base = load_model(folder)
    for task, recipe in ((pairs(labels=(0.5, 4.5)), Recipe()), (pairs(labels=(0.5, 4.5)), Recipe(pooling="mean"))):
        problem = find_problem(task, recipe)
        backbone = AutoModel.from_pretrained(folder)
        model = build(backbone, base.tokenizer, problem, recipe, name=family, seed=1, device="cpu").eval()
        together, _ = answer(model, task.corpus["train"], task.name)
        alone = [answer(model, [sentence], task.name)[0][0] for sentence in task.corpus["train"][:6]]
        assert together[:6] == pytest.approx(alone, abs=1e-4)
        assert np.ptp(together) > 0


@pytest.mark.parametrize(("family", "make"), [("bart", words), ("t5", words), ("t5", questions)])
@pytest.mark.parametrize("lora", [None, {"r": 4, "alpha": 8}], ids=["whole", "lora"])
def test_families_that_transformers_has_no_head_for_get_one_of_ours(family, make, lora, tmp_path, cache):
    """It reads the encoder's states, learns, is saved beside the backbone and answers the same when loaded."""
    task = make()
    recipe = replace(THOROUGH, rate=1e-2, lora=lora)
    tuned = finetune(tiny.save(family, tmp_path / family), task, recipe, threads=1, cache=cache)
    curve = tuned.log["curve"]
    assert (tuned.folder / "head.safetensors").exists()
    assert curve[-1]["loss"] < 0.9 * curve[1]["loss"]
    assert score(tuned, task).summary() == tuned.log["scores"]["dev"]
    model = load_tuned(tuned.folder)
    sentences = task.corpus["dev"][:4]
    assert answer(model, sentences, task.name)[0] == [answer(model, [s], task.name)[0][0] for s in sentences]
    batch = load_model(tuned.folder, base=str(tmp_path / family) if lora else None).encode(task.corpus["dev"])
    for ours, inside in zip(
        load_model(tuned.folder).hidden_states(batch), model.encoder.hidden_states(batch), strict=True
    ):
        assert torch.equal(ours, inside)


def test_the_mean_leaves_padding_out():
    torch.manual_seed(0)
    head = MeanHead(8, 2, 0.1).eval()
    states = torch.randn(1, 5, 8)
    padded = torch.cat([states, 100 * torch.ones(1, 3, 8)], 1)
    mask = torch.tensor([[1, 1, 1, 1, 1, 0, 0, 0]])
    assert torch.allclose(head(states, torch.ones(1, 5)), head(padded, mask), atol=1e-6)
    expected = head.out(torch.tanh(head.dense(states.mean(1))))
    assert torch.allclose(head(states, torch.ones(1, 5)), expected, atol=1e-6)


def test_words_are_their_first_last_or_mean_sub_words():
    encoded = Encoded((9, 8, 7, 6, 5), (0,) * 5, (-1, 0, 0, 2, -1), 3, 3)
    states = torch.arange(5.0)[:, None]
    found = {word: (word_weights([encoded], word)[0] @ states)[:, 0].tolist() for word in ("first", "last", "mean")}
    assert found == {"first": [1, 0, 3], "last": [2, 0, 3], "mean": [1.5, 0, 3]}


def test_words_that_vanish_or_do_not_fit_count_as_wrong(tmp_path, cache):
    made = [
        Sentence(f"w{i}", ("the", "\u200d", "fox", "jump"), annotations={"x": ("a", "b", "c", "d")}) for i in range(8)
    ]
    task = corpus("vanishing", made, "x", "token")
    tuned = finetune(
        tiny.save("bert", tmp_path / "bert"), task, replace(THOROUGH, max_tokens=5), threads=1, cache=cache
    )
    found = score(tuned, task)
    assert found.answers[0][1] is None and found.answers[0][3] is None
    assert found.metrics["accuracy"].value == 0.5


class TestAnswers:
    def test_the_answer_is_found_by_its_characters(self):
        text = "It was 1066, they say"
        sentence = Sentence("q", ("when",), tuple(text.split()),
                            {"answer_texts": ("1066",), "answer_starts": (7,), "context": text})  # fmt: skip
        spans = [None, None, None, (0, 2), (3, 6), (7, 9), (9, 11), (11, 12), (13, 17), None]
        assert _target(sentence, spans, 0) == (5, 6)
        assert _target(sentence, [*spans[:4], (3, 6), (7, 9), None], 0) == (0, 0)
        assert _target(sentence, [None, (9, 11), (11, 12), None], 0) == (0, 0)

    def test_windows_cover_the_context_and_move_on_by_the_stride(self, tiny_encoder):
        encoder = tiny_encoder("bert")
        problem = find_problem(questions(), Recipe(max_tokens=20, stride=5))
        sentence = questions().corpus["train"][1]
        examples, notes = problem.examples(encoder, [sentence], "answer", True)
        starts = [next(span for span in e.note[0] if span)[0] for e in examples]
        ids = encoder.tokenizer(sentence.annotations["context"], add_special_tokens=False, return_offsets_mapping=True)
        assert starts == [ids["offset_mapping"][5 * i][0] for i in range(len(examples))]
        covered = {span for e in examples for span in e.note[0] if span}
        assert covered == set(map(tuple, ids["offset_mapping"]))
        assert notes == ["1 of 1 contexts are longer than 20 tokens and are read in several windows"]
        assert all(len(e.encoded.ids) <= 20 for e in examples)

    def test_an_answer_lies_in_the_context_ends_after_it_starts_and_is_short(self):
        """The largest sums of scores are, in turn: backwards, too long, in the question; then comes the answer."""
        problem = Answers((), Recipe(max_answer=2))
        offsets = [None, None, None, (0, 3), (4, 6), (7, 9), (10, 12)]
        start, end = torch.zeros(1, 7), torch.zeros(1, 7)
        start[0, [5, 3, 1]] = torch.tensor([9.0, 8.0, 7.0])
        end[0, [3, 6, 2, 4]] = torch.tensor([9.0, 8.0, 9.0, 5.0])
        example = Example(0, Encoded((1,) * 7, (0,) * 7, (0,) * 7, 7, 7), None, 1, (offsets, 0))
        given = problem.targets([example], None, False)
        output = SimpleNamespace(start_logits=start, end_logits=end)
        sums = {(s, e): float(start[0, s] + end[0, e]) for s in range(3, 7) for e in range(s, min(s + 2, 7))}
        best = max(sums, key=lambda pair: sums[pair])
        value, first, last, none = problem.read(output, given, None, [example])[0]
        assert (value, first, last, none) == (sums[best], offsets[best[0]][0], offsets[best[1]][1], 0.0)

    def test_the_best_window_of_a_question_answers_it(self):
        sentences = [Sentence("q", ("a",), annotations={"context": "left right", "answer_texts": ("right",)})]
        examples = [Example(0, Encoded((1,), (0,), (0,), 1, 1), None) for _ in range(2)]
        windows = [(1.0, 0, 4, 6.0), (2.0, 5, 10, 1.5)]
        assert Answers((), Recipe()).combine(examples, windows, sentences) == ["right"]
        assert Answers(("no answer",), Recipe()).combine(examples, windows, sentences) == ["right"]
        windows[1] = (2.0, 5, 10, 2.5)
        assert Answers(("no answer",), Recipe()).combine(examples, windows, sentences) == [""]

    def test_questions_without_an_answer_can_be_learned(self, tmp_path, cache):
        task = questions(answered=False)
        recipe = replace(THOROUGH, max_tokens=40, epochs=10)
        tuned = finetune(tiny.save("bert", tmp_path / "bert"), task, recipe, threads=1, cache=cache)
        found = score(tuned, task)
        assert {"", "jump"} <= set(found.answers)

    def test_other_spans_are_refused(self, tmp_path, cache):
        made = [Sentence(f"e{i}", ("a", "b"), annotations={"entity": ()}) for i in range(4)]
        with pytest.raises(ModelError, match="spans answer a question"):
            finetune(tiny.save("bert", tmp_path / "bert"), corpus("e", made, "entity", "span"), THOROUGH, cache=cache)


class TestTrees:
    def test_a_word_without_a_head_is_named(self, tmp_path, cache):
        made = [Sentence("t0", ("a", "b"), annotations={"head": (-1, 1)}, source="x.conllu:3")]
        with pytest.raises(ModelError, match=r"x\.conllu:3: a word has no head"):
            finetune(tiny.save("bert", tmp_path / "bert"), corpus("t", made, "head", "tree"), THOROUGH, cache=cache)

    def test_long_sentences_are_left_out_of_training_and_counted(self, tmp_path, cache):
        recipe = replace(THOROUGH, epochs=1, max_tokens=16)
        tuned = finetune(tiny.save("bert", tmp_path / "bert"), trees(), recipe, threads=1, cache=cache)
        left_out = 16 - tuned.log["examples"]
        assert 0 < left_out < 16
        assert tuned.log["notes"][0] == f"train: {left_out} of 16 sentences have more than 16 tokens and were left out"
        found = score(tuned, trees())
        assert all(len(heads) == len(words) for (heads, _), (words, _) in zip(found.answers, found.gold, strict=True))
        assert any(-1 in heads for heads, _ in found.answers)


@pytest.mark.parametrize("merge", [False, True])
def test_an_adapter_is_trained_instead_of_the_weights(merge, tmp_path, cache):
    base = tiny.save("bert", tmp_path / "bert")
    recipe = replace(THOROUGH, rate=1e-2, batch=8, lora={"r": 4, "alpha": 8, "merge": merge}, save_steps=16)
    tuned = finetune(base, opinions(), recipe, threads=1, cache=cache)
    assert tuned.log["curve"][-1]["loss"] < tuned.log["curve"][1]["loss"]
    assert tuned.log["learning"] < 0.2 * tuned.log["parameters"]
    assert (tuned.folder / "adapter_model.safetensors").exists() is not merge
    encoder, plain = load_model(tuned.folder), load_model(base)
    batch = plain.encode(opinions().corpus["dev"])
    assert not torch.allclose(encoder.hidden_states(batch)[-1], plain.hidden_states(batch)[-1], atol=1e-3)
    inside = load_tuned(tuned.folder).encoder
    assert torch.allclose(encoder.hidden_states(batch)[-1], inside.hidden_states(batch)[-1], atol=1e-5)
    assert score(tuned, opinions()).summary() == tuned.log["scores"]["dev"]
    assert find_checkpoints(tuned.folder).load(16).depth == 3
    if not merge:
        assert encoder.without_adapter().fingerprint == plain.fingerprint
        with pytest.raises(ModelError, match="has no base on disk"):
            finetune(base, opinions(), recipe, keep=[0], threads=1, cache=cache)


@pytest.mark.parametrize("kind", ["classes by the mean", "words", "answers"])
def test_adapters_go_with_other_heads_too(kind, tmp_path, cache):
    make, recipe = PROBLEMS[kind]
    recipe = replace(recipe, lora=True, epochs=2, save_steps=None)
    tuned = finetune(tiny.save("roberta", tmp_path / "base"), make(), recipe, threads=1, cache=cache)
    assert score(tuned, make()).summary() == tuned.log["scores"]["dev"]
    assert load_model(tuned.folder).depth == 3
