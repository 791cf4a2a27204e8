"""On real corpora: a pre-trained model learns a little of MRPC, and SQuAD's answers are where we say they are."""

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus
from vestige.finetune.metrics import exact_match
from vestige.finetune.problems import find_problem
from vestige.finetune.recipe import load_recipe
from vestige.finetune.score import score
from vestige.finetune.train import finetune
from vestige.models.files.load import load_model


def test_minilm_learns_from_a_few_pairs_of_mrpc(data, minilm, cache):
    corpus = load_corpus("mrpc")
    task = corpus.limit(32).task("mrpc")
    recipe = load_recipe("durrani2021_mrpc", batch=16, epochs=2, rate=3e-4, max_tokens=48)
    tuned = finetune("minilm", task, recipe, threads=1, cache=cache)
    assert tuned.log["curve"][2]["loss"] < tuned.log["curve"][1]["loss"]
    again = score(tuned, task, "test")
    assert again.summary() == tuned.log["scores"]["test"] and {"accuracy", "f1"} <= set(again.metrics)
    encoder = load_model(tuned.folder)
    assert encoder.fingerprint != minilm.fingerprint and encoder.depth == minilm.depth
    assert load_model(tuned.folder / "checkpoint-4").fingerprint == encoder.fingerprint


@pytest.mark.parametrize("family", ["minilm", "roberta"])
def test_squads_answers_are_found_again_from_the_tokens_that_hold_them(family, data, minilm, tiny_encoder):
    encoder = minilm if family == "minilm" else tiny_encoder(family)
    task = load_corpus("squad11").limit(150).task("answer")
    sentences = task.corpus["dev"]
    recipe = load_recipe("mosbach2020_squad", stride=16, max_question=16)
    problem = find_problem(Corpus("x", {"train": sentences}, task.corpus.levels).task("answer"), recipe)
    examples, _ = problem.examples(encoder, sentences, "answer", True)
    found = {}
    for example in examples:
        offsets, cls = example.note
        start, end = example.target
        if (start, end) != (cls, cls):
            context = sentences[example.item].annotations["context"]
            found[example.item] = context[offsets[start][0] : offsets[end][1]]
    gold = {item: sentences[item].annotations["answer_texts"][:1] for item in found}
    assert all(gold[item][0] in text for item, text in found.items())
    right = sum(exact_match(text, gold[item]) for item, text in found.items())
    assert right >= 0.95 * len(found)  # answers that are part of a token ("gold" of "golden") cannot be cut out
    assert len(found) >= (1.0 if family == "minilm" else 0.7) * len(sentences)
