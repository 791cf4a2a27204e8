"""Scores of texts against short, independent programmes over Hugging Face's models."""

import numpy as np
import pandas as pd
import pytest
import tiny_lm
import torch

from vestige.analyses.minimal_pairs import MinimalPairs
from vestige.analyses.perplexity import Perplexity
from vestige.corpus.types import Corpus, Sentence, Task

SENTENCES = tiny_lm.SHORT[:4]
FAMILIES = ("bert", "roberta", "albert", "xlnet", "gpt2")


def padded_left(model, encoded, by=3):
    """Ids, types, mask and positions of one sentence behind three pads."""
    length = len(encoded.ids)
    ids = torch.tensor([[model.tokenizer.pad_token_id or 0] * by + list(encoded.ids)])
    given = {"input_ids": ids, "attention_mask": torch.tensor([[0] * by + [1] * length])}
    if "token_type_ids" in model.tokenizer.model_input_names:
        given["token_type_ids"] = torch.tensor([[0] * by + list(encoded.type_ids)])
    if model.config.model_type in ("bert", "albert", "gpt2"):
        given["position_ids"] = torch.tensor([[0] * by + list(range(length))])
    return given


@torch.inference_mode()
def pseudo_likelihood(model, sentence, by=3):
    """One token masked at a time, one sentence at a time, padded on the left."""
    encoded = model.encode([sentence])[0]
    total, count = 0.0, 0
    for place, word in enumerate(encoded.word_of):
        if word < 0 or (model.config.model_type == "gpt2" and place == 0):
            continue
        given, at = padded_left(model, encoded, by), place + by
        answer = encoded.ids[place]
        if model.config.model_type == "xlnet":
            size = given["input_ids"].shape[1]
            given["perm_mask"], given["target_mapping"] = torch.zeros(1, size, size), torch.zeros(1, 1, size)
            given["perm_mask"][0, :, at] = given["target_mapping"][0, 0, at] = 1
            scores = model.head(**given).logits[0, 0]
        elif model.config.model_type == "gpt2":
            scores = model.head(**given).logits[0, at - 1]
        else:
            given["input_ids"][0, at] = model.tokenizer.mask_token_id
            scores = model.head(**given).logits[0, at]
        total, count = total + float(scores.double().log_softmax(-1)[answer]), count + 1
    return total, count


@pytest.mark.parametrize("family", FAMILIES)
def test_pseudo_perplexity_and_causal_perplexity(family):
    model = tiny_lm.encoder(family)
    method = "causal" if family == "gpt2" else "pseudo"
    found = Perplexity(method=method, unit="sentence", resamples=2).run(tiny_lm.inputs(model, None, SENTENCES))
    expected = [pseudo_likelihood(model, sentence) for sentence in SENTENCES]
    total, count = map(sum, zip(*expected, strict=True))
    assert found.rows[0]["n"] == count
    assert found.rows[0]["value"] == pytest.approx(np.exp(-total / count), rel=1e-5)
    assert -found.items["nats"] == pytest.approx([each for each, _ in expected], rel=1e-5)


def test_masked_perplexity_against_the_loss_of_transformers():
    model = tiny_lm.encoder("bert")
    found = Perplexity(block=32, resamples=2, corrupt="mask", rate=0.3).run(tiny_lm.inputs(model))
    from vestige.models.tokens.masking import mask_randomly, text_blocks

    blocks = text_blocks(model, tiny_lm.SENTENCES, 32)
    total, count = 0.0, 0
    for cloze in mask_randomly(blocks, model.tokenizer.mask_token_id, model.tokenizer.vocab_size, 0.3, 0, "mask"):
        labels = torch.full((1, 32), -100)
        labels[0, list(cloze.targets)] = torch.tensor(cloze.answers)
        with torch.inference_mode():
            loss = model.head(input_ids=torch.tensor([cloze.encoded.ids]), labels=labels).loss
        total, count = total + float(loss) * len(cloze.targets), count + len(cloze.targets)
    assert found.rows[0]["value"] == pytest.approx(np.exp(total / count), rel=1e-5)


def test_causal_perplexity_against_the_loss_of_transformers():
    model = tiny_lm.encoder("llama")
    found = Perplexity(block=24, resamples=2).run(tiny_lm.inputs(model))
    words = [t for e in model.encode(tiny_lm.SENTENCES) for t, w in zip(e.ids, e.word_of, strict=True) if w >= 0]
    blocks = [[1, *words[start : start + 23]] for start in range(0, len(words) - 22, 23)]
    with torch.inference_mode():
        ids = torch.tensor(blocks)
        assert found.rows[0]["value"] == pytest.approx(
            float(model.head(input_ids=ids, labels=ids).loss.exp()), rel=1e-5
        )
    assert found.rows[0]["n"] == 23 * len(blocks)


def pairs(reverse=False):
    """Sentences beside themselves in another order of words."""
    made = []
    for number, sentence in enumerate(tiny_lm.SHORT):
        about = {"pair": f"p{number}", "paradigm": f"paradigm{number % 2}"}
        sides = [sentence.words, sentence.words[::-1]]
        for label, words in zip(("acceptable", "unacceptable"), sides[::-1] if reverse else sides, strict=True):
            made.append(Sentence(f"{number}-{label}", words, annotations={"acceptability": label, **about}))
    return made


@pytest.mark.parametrize("family", ["bert", "xlnet", "gpt2"])
def test_minimal_pairs(family):
    model, base = tiny_lm.encoder(family), tiny_lm.encoder(family, 1)
    sentences = pairs()
    inputs = tiny_lm.inputs(model, base, sentences)
    task = Task(Corpus("pairs", {"test": tuple(sentences)}, {"acceptability": "sentence"}), "acceptability", "sentence")
    inputs = type(inputs)(task, {}, "tuned", encoder=model, reference=type(inputs)(task, {}, "base", encoder=base))
    found = MinimalPairs(resamples=5, head="own").run(inputs)
    table = pd.DataFrame(found.rows)

    def margins(one):
        if family == "gpt2":
            first = one.tokenizer.bos_token_id

            def score(sentence):
                ids = torch.tensor([[first, *one.encode([sentence])[0].ids]])
                with torch.inference_mode():
                    said = one.head(ids).logits[0, :-1].double().log_softmax(-1)
                return float(said.gather(-1, ids[0, 1:, None]).sum())
        else:

            def score(sentence):
                return pseudo_likelihood(one, sentence)[0]

        return np.array([score(good) - score(bad) for good, bad in zip(sentences[::2], sentences[1::2], strict=True)])

    mine, theirs = margins(model), margins(base)
    order = [int(pair[1:]) for pair in found.items["sentence"]]
    assert found.items["margin"] == pytest.approx(mine[order], rel=1e-4, abs=1e-4)
    assert found.items["correct"].tolist() == (mine > 0)[order].tolist()
    for metric, expected in (
        ("accuracy", mine > 0),
        ("reference_accuracy", theirs > 0),
        ("accuracy_change", (mine > 0).astype(float) - (theirs > 0)),
    ):
        rows = table[table["metric"] == metric]
        assert rows[rows["label"].isna()]["value"].iloc[0] == pytest.approx(expected.mean())
        for number in (0, 1):
            mine_only = rows[rows["label"] == f"paradigm{number}"]
            assert mine_only["value"].iloc[0] == pytest.approx(expected[number::2].mean())
            assert mine_only["n"].iloc[0] == 3
    flipped = pairs(reverse=True)
    task = Task(Corpus("pairs", {"test": tuple(flipped)}, {"acceptability": "sentence"}), "acceptability", "sentence")
    again = MinimalPairs(resamples=5).run(type(inputs)(task, {}, "tuned", encoder=model))
    assert again.rows[0]["value"] == pytest.approx(1 - (mine > 0).mean())
