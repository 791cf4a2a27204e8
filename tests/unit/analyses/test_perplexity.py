"""What perplexity and minimal pairs refuse, and what they say; text in blocks; a head fitted on a frozen encoder."""

import json
from copy import deepcopy
from dataclasses import replace

import declared
import numpy as np
import pandas as pd
import pytest
import tiny
import tiny_lm
import torch

from vestige.analyses.minimal_pairs import BAD, GOOD, MinimalPairs
from vestige.analyses.perplexity import Perplexity
from vestige.corpus.load import load_corpus
from vestige.corpus.readers.blimp import read_blimp
from vestige.corpus.types import Corpus, Sentence
from vestige.errors import AnalysisError, CorpusError, ModelError
from vestige.models.files.load import load_model
from vestige.models.lm.head import HeadRecipe, LMHead, fit_head
from vestige.models.tokens.align import SPECIAL
from vestige.models.tokens.masking import mask_each, text_blocks

SHORT = {"block": 32, "resamples": 2}


@pytest.fixture(scope="module")
def bert():
    return tiny_lm.encoder("bert"), tiny_lm.encoder("bert", 1)


def bare(family="bert"):
    return load_model(tiny.model(family), tokenizer=tiny.tokenizer(family), name="bare")


def test_a_model_without_a_head_says_what_it_cannot_do():
    with pytest.raises(AnalysisError, match="bare has no language-model head, so it says nothing of tokens"):
        Perplexity(**SHORT).run(tiny_lm.inputs(bare()))


def test_a_tuned_model_without_a_head_takes_its_references(bert):
    found = declared.run(Perplexity(**SHORT), tiny_lm.inputs(bare(), bert[0]))
    assert {row["metric"] for row in found.rows} >= {"perplexity", "reference_perplexity", "masked_tokens"}
    with pytest.raises(AnalysisError, match="bare has no language-model head"):
        Perplexity(**SHORT, head="own").run(tiny_lm.inputs(bare(), bert[0]))


@pytest.mark.parametrize("settings", [{}, {"unit": "sentence"}, {"method": "pseudo"}, {"sweep": False}])
def test_what_one_model_alone_lacks_has_a_reason(bert, settings):
    alone = declared.run(Perplexity(**SHORT, **settings), tiny_lm.inputs(bert[0]))
    assert alone.absent["reference_perplexity"] == "the model has no reference"
    assert "masked_tokens" in declared.run(Perplexity(**SHORT), tiny_lm.inputs(tiny_lm.encoder("gpt2"))).absent


def test_items_hold_the_loss_of_every_text_under_every_model(bert):
    found = Perplexity(**SHORT, single=(2,)).run(tiny_lm.inputs(*bert))
    items = pd.DataFrame(found.items)
    assert list(items) == ["sentence", "subset", "axis", "x", "nats", "tokens"]
    sums = items.groupby(["subset", "axis", "x"], dropna=False)[["nats", "tokens"]].sum()
    losses = sums["nats"] / sums["tokens"]
    for row in found.rows:
        if row["metric"] in ("loss", "reference_loss"):
            subset = row.get("subset") or ("reference" if "reference" in row["metric"] else "model")
            at = (items["subset"] == subset) & ((items["x"] == row["x"]) if "x" in row else items["x"].isna())
            assert items[at]["nats"].sum() / items[at]["tokens"].sum() == pytest.approx(row["value"])
            assert row["low"] <= row["high"]
    assert len(losses) == 2 + 4 + 1 + 1


def test_models_that_are_no_language_models_are_refused(bert):
    with pytest.raises(AnalysisError, match="neither a masked nor a causal model"):
        Perplexity(**SHORT).run(tiny_lm.inputs(bare("t5")))
    with pytest.raises(AnalysisError, match="the model itself is missing"):
        Perplexity(**SHORT).run(replace(tiny_lm.inputs(bert[0]), encoder=None))


def test_a_head_of_another_vocabulary_or_width_is_refused(bert, tmp_path):
    larger = tiny_lm.whole("bert")
    larger.resize_token_embeddings(300)
    other = load_model(larger, tokenizer=tiny.tokenizer("bert"), head=True, name="larger")
    with pytest.raises(AnalysisError, match="scores 300 tokens, but bert 0 has"):
        Perplexity(**SHORT).run(tiny_lm.inputs(bert[0], other))
    torch.manual_seed(0)
    wide = tiny.AutoModel.from_config(tiny.config("bert", width=16)).eval()
    with pytest.raises(AnalysisError, match="does not take states"):
        Perplexity(**SHORT).run(
            tiny_lm.inputs(load_model(wide, tokenizer=tiny.tokenizer("bert"), name="narrow"), bert[0])
        )
    LMHead(torch.zeros(9, 32)).save(tmp_path / "small.safetensors")
    with pytest.raises(ModelError, match=r"bias is \(9,\)"):
        Perplexity(**SHORT, head_file=str(tmp_path / "small.safetensors")).run(tiny_lm.inputs(bare()))
    with pytest.raises(ModelError, match="not a saved head"):
        Perplexity(**SHORT, head_file=str(tmp_path / "none")).run(tiny_lm.inputs(bare()))


def test_models_with_other_tokens_are_not_compared(bert):
    tokenizer = deepcopy(tiny.tokenizer("bert"))
    tokenizer.add_tokens(["museum"])
    model = tiny_lm.whole("bert")
    model.resize_token_embeddings(len(tokenizer))
    other = load_model(model, tokenizer=tokenizer, head=True, name="other")
    with pytest.raises(AnalysisError, match=r"sentence s1 as different tokens .* not compared"):
        Perplexity(**SHORT).run(tiny_lm.inputs(other, bert[0]))


def test_tokens_past_a_models_limit_count_when_text_is_cut_into_blocks(bert):
    """A word that only the larger vocabulary has, behind more words than one text of the model takes."""
    long = (Sentence("long", (*["the"] * 80, "museum")), *tiny_lm.SENTENCES)
    tokenizer = deepcopy(tiny.tokenizer("bert"))
    tokenizer.add_tokens(["museum"])
    model = tiny_lm.whole("bert")
    model.resize_token_embeddings(len(tokenizer))
    other = load_model(model, tokenizer=tokenizer, head=True, name="other")
    assert other.limit < 80
    for pair in ((other, bert[0]), (bert[0], other)):
        with pytest.raises(AnalysisError, match="sentence long as different tokens"):
            Perplexity(**SHORT).run(tiny_lm.inputs(*pair, sentences=long))


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_model_that_diverged_has_no_perplexity(family):
    model = tiny_lm.encoder(family)
    with torch.no_grad():
        next(model.model.parameters()).fill_(torch.nan)
    pair = [Sentence(side, ("a", "b"), (), {"pair": "1", "acceptability": side}) for side in (GOOD, BAD)]
    for analysis, sentences in ((Perplexity(**SHORT), tiny_lm.SENTENCES), (MinimalPairs(), pair)):
        with pytest.raises(AnalysisError, match="not finite"):
            analysis.run(tiny_lm.inputs(model, sentences=sentences))


def test_a_causal_model_is_not_asked_for_first_tokens():
    words = [Sentence(f"w{number}", ("the",)) for number in range(3)]
    with pytest.raises(AnalysisError, match="asked for no token at all"):
        Perplexity(unit="sentence").run(tiny_lm.inputs(tiny_lm.encoder("gpt2"), sentences=words))


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_pairs_that_do_not_fit_are_left_out_and_counted(family):
    model = tiny_lm.encoder(family)

    def halves(name, *words):
        notes = ({"pair": name, "acceptability": side} for side in (GOOD, BAD))
        return [
            Sentence(f"{name}{number}", (*words, last), (), note)
            for number, (last, note) in enumerate(zip(("the", "museum"), notes, strict=True))
        ]

    long, short = halves("long", *["the"] * model.limit), halves("short", "the")
    rows = MinimalPairs(resamples=10).run(tiny_lm.inputs(model, sentences=[*long, *short])).rows
    found = {row["metric"]: row for row in rows if "label" not in row}
    assert (found["left_out_pairs"]["value"], found["accuracy"]["n"]) == (1, 1)
    exact = halves("exact", *["the"] * (model.limit - (1 if family == "gpt2" else 3)))
    rows = MinimalPairs(resamples=10).run(tiny_lm.inputs(model, sentences=[*exact, *short])).rows
    assert all(np.isfinite(row["value"]) for row in rows)
    with pytest.raises(AnalysisError, match="no pair fits"):
        MinimalPairs().run(tiny_lm.inputs(model, sentences=long))


def test_a_pair_has_two_sentences(bert):
    twice = [
        Sentence(f"{side}{n}", ("a",), (), {"pair": "1", "acceptability": side}) for n in (0, 1) for side in (GOOD, BAD)
    ]
    with pytest.raises(AnalysisError, match="pair '1' has an acceptable one already"):
        MinimalPairs().run(tiny_lm.inputs(bert[0], sentences=twice))


def test_the_order_of_questions_plays_no_role(bert, monkeypatch):
    """Questions about sentences of similar length are asked together: the same numbers, less padding."""
    settings = {"unit": "sentence", "resamples": 2}
    sorted_ = Perplexity(**settings).run(tiny_lm.inputs(*bert)).rows
    monkeypatch.setattr("vestige.analyses.perplexity._by_length", iter)
    for mine, theirs in zip(sorted_, Perplexity(**settings).run(tiny_lm.inputs(*bert)).rows, strict=True):
        assert mine["value"] == pytest.approx(theirs["value"], rel=1e-5)


def test_blocks_are_as_long_as_a_shipped_head_was_fitted_on(minilm):
    text = [Sentence(f"s{n}", ("The", "house", "stands", "on", "a", "hill", ".")) for n in range(80)]
    rows = {
        row["metric"]: row["value"] for row in Perplexity(resamples=2).run(tiny_lm.inputs(minilm, sentences=text)).rows
    }
    assert rows["block_tokens"] == 128


def test_the_shipped_head_of_minilm_knows_more_than_how_common_words_are(minilm, data):
    """On text it was not fitted on, beside unigrams of the text it was fitted on."""
    folder = data / "wikitext2"
    corpus = load_corpus({"train": str(folder / "valid.txt"), "test": str(folder / "test.txt")}, format="text")
    outcome = Perplexity(resamples=2, sentences=90).run(tiny_lm.inputs(minilm, sentences=corpus["test"][:90]))
    found = {row["metric"]: row["value"] for row in outcome.rows}
    seen, asked = (
        [token for block in text_blocks(minilm, sentences, 128)
         for token, word in zip(block.ids, block.word_of, strict=True) if word >= 0]
        for sentences in (corpus["train"], corpus["test"][:90])
    )  # fmt: skip
    counts = np.bincount(seen, minlength=minilm.tokenizer.vocab_size) + 0.1
    unigram = np.exp(-np.log(counts[asked] / counts.sum()).mean())
    assert found["perplexity"] < 0.6 * unigram


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rate": 0.0}, "rate is 0.0"),
        ({"rate": 1e-9}, "masks none of the"),
        ({"head": "foo"}, "head is 'foo'"),
        ({"last": (4,)}, "3 blocks, asked for the last 4"),
        ({"single": (0,)}, "layers 1 to 3, asked for 0"),
        ({"method": "causal"}, "masked model, which 'causal' does not fit"),
    ],
)
def test_settings_that_cannot_be(bert, settings, said):
    with pytest.raises(AnalysisError, match=said):
        Perplexity(**{**SHORT, **settings}).run(tiny_lm.inputs(*bert))


def test_layers_of_other_architectures_are_not_replaced(bert):
    with pytest.raises(AnalysisError, match="3 and 2 blocks"):
        Perplexity(**SHORT).run(tiny_lm.inputs(bert[0], tiny_lm.encoder("bert", layers=2)))
    found = declared.run(Perplexity(**SHORT, sweep=False), tiny_lm.inputs(bert[0], tiny_lm.encoder("bert", layers=2)))
    assert not any("axis" in row for row in found.rows)


def test_chosen_layers_only(bert):
    found = declared.run(Perplexity(**SHORT, last=(1,), single=(3, 1)), tiny_lm.inputs(*bert))
    swept = {
        (row["subset"], row["x"]): row["value"] for row in found.rows if row["metric"] == "perplexity" and "x" in row
    }
    assert list(swept) == [("layers", 1), ("single layer", 3), ("single layer", 1)]
    assert swept["layers", 1] == swept["single layer", 3] != swept["single layer", 1]


def test_more_patterns_of_masks_ask_for_more_tokens(bert):
    one, three = (Perplexity(**SHORT, mask_seeds=seeds).run(tiny_lm.inputs(bert[0])) for seeds in (1, 3))
    assert three.rows[0]["n"] > 2 * one.rows[0]["n"]


@pytest.mark.parametrize("family", ["bert", "roberta", "xlnet", "gpt2", "llama"])
def test_blocks_hold_all_text_but_the_rest(family):
    model = tiny_lm.encoder(family)
    blocks = text_blocks(model, tiny_lm.SENTENCES, 20)
    words = [t for e in model.encode(tiny_lm.SENTENCES) for t, w in zip(e.ids, e.word_of, strict=True) if w >= 0]
    inside = [t for e in blocks for t, w in zip(e.ids, e.word_of, strict=True) if w >= 0]
    assert inside == words[: len(inside)] and len(words) - len(inside) < 20
    frame = model.encode([Sentence("a", ("a",))])[0]
    for block in blocks:
        assert len(block.ids) == len(block.type_ids) == len(block.word_of) == 20
        assert [t for t, w in zip(block.ids, block.word_of, strict=True) if w == SPECIAL] == [
            t for t, w in zip(frame.ids, frame.word_of, strict=True) if w == SPECIAL
        ]
        assert sorted({w for w in block.word_of if w >= 0}) == list(range(block.words))
    if model.limit is not None:
        assert len(text_blocks(model, tiny_lm.SENTENCES * 4, 9999)[0].ids) == model.limit
    with pytest.raises(CorpusError, match="tokens, but a block takes"):
        text_blocks(model, tiny_lm.SENTENCES[:1], 64)


def test_what_is_hidden_with_a_token():
    model = tiny_lm.encoder("bert")
    (encoded,) = model.encode([Sentence("a", ("internationalised", "dog"))])
    pieces = [place for place, word in enumerate(encoded.word_of) if word == 0]
    assert len(pieces) > 2
    for hide, expected in (("token", pieces[1:2]), ("rest_of_word", pieces[1:]), ("word", pieces)):
        cloze = list(mask_each([(0, encoded)], 4, hide))[1]
        assert list(cloze.hidden) == expected == [p for p, t in enumerate(cloze.encoded.ids) if t == 4]
        assert cloze.targets == (pieces[1],) and cloze.answers == (encoded.ids[pieces[1]],)


def test_sentences_that_are_no_pairs_are_refused(bert):
    with pytest.raises(AnalysisError, match="no half of a minimal pair"):
        MinimalPairs().run(tiny_lm.inputs(bert[0]))
    half = Sentence("a", ("dog",), annotations={"pair": "p", "acceptability": "acceptable"})
    with pytest.raises(AnalysisError, match="only its acceptable sentence"):
        MinimalPairs().run(tiny_lm.inputs(bert[0], None, [half]))


def test_pairs_as_blimp_has_them(bert, tmp_path):
    """Two paradigms of three pairs; the first two of each are scored."""
    for paradigm in ("agreement", "binding"):
        lines = [
            json.dumps(
                {
                    "sentence_good": f"The dog {number} jumped .", "sentence_bad": f"The dog {number} jump .",
                    "UID": paradigm, "pairID": str(number), "linguistics_term": "term", "field": "syntax",
                }
            )
            for number in range(3)
        ]  # fmt: skip
        (tmp_path / f"{paradigm}.jsonl").write_text("\n".join(lines))
    corpus = Corpus("blimp", {k: tuple(v) for k, v in read_blimp(tmp_path).items()}, {"acceptability": "sentence"})
    inputs = replace(tiny_lm.inputs(*bert), task=corpus.task("acceptability"))
    found = declared.run(MinimalPairs(pairs=2, resamples=2), inputs)
    accuracy = {row.get("label"): row for row in found.rows if row["metric"] == "accuracy"}
    assert {label: row["n"] for label, row in accuracy.items()} == {None: 4, "agreement": 2, "binding": 2}
    assert found.items["sentence"].tolist() == ["agreement-0", "agreement-1", "binding-0", "binding-1"]
    assert accuracy["agreement"]["value"] == accuracy["binding"]["value"] == accuracy[None]["value"]


def test_a_head_learns_on_a_frozen_encoder(tmp_path):
    model = tiny_lm.encoder("bert")
    before = {name: weight.clone() for name, weight in model.model.named_parameters()}
    two = [token for token in sorted(model.tokenizer.get_vocab()) if token.isalpha() and len(token) > 1][:2]
    text = [Sentence("alternating", tuple(two * 60))]
    fitted = fit_head(model, text, HeadRecipe(steps=150, batch=16, block=8, learning_rate=1e-2))
    assert fitted.unigram == pytest.approx(np.log(2)) and np.mean(fitted.losses[-40:]) < 0.6
    assert all(torch.equal(weight, before[name]) for name, weight in model.model.named_parameters())
    fitted.head.save(tmp_path / "head.safetensors")
    states = torch.randn(3, 32)
    read = LMHead.load(tmp_path / "head.safetensors", model.model.get_input_embeddings().weight)
    assert torch.allclose(read(states), fitted.head(states), atol=0.1)
    with pytest.raises(AnalysisError, match="no masked model"):
        fit_head(tiny_lm.encoder("gpt2"), tiny_lm.SENTENCES)


def test_a_head_of_minilm_learns(minilm, tmp_path):
    """A few steps on invented text; the file is small."""
    fitted = fit_head(minilm, tiny_lm.SENTENCES, HeadRecipe(steps=12, batch=4, block=32, learning_rate=3e-3))
    assert np.mean(fitted.losses[-3:]) < np.mean(fitted.losses[:3])
    fitted.head.save(tmp_path / "head.safetensors")
    assert (tmp_path / "head.safetensors").stat().st_size < 2_000_000
