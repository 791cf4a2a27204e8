"""What must hold of perplexity, of mixed models and of the questions that language models are asked."""

import numpy as np
import pandas as pd
import pytest
import tiny_lm
import torch

from vestige.analyses.perplexity import Perplexity
from vestige.errors import AnalysisError
from vestige.models.lm.head import LMHead
from vestige.models.lm.language_model import WholeHead, head_of, kind_of
from vestige.models.lm.likelihood import likelihoods
from vestige.models.surgery.blocks import replace_blocks
from vestige.models.surgery.mixing import Mixer
from vestige.models.surgery.unroll import unroll
from vestige.models.tokens.masking import digest, mask_each, mask_randomly, next_tokens, text_blocks

FAMILIES = ("bert", "roberta", "albert", "xlnet", "gpt2")
SETTINGS = {"block": 32, "resamples": 20, "rate": 0.3}


def frame(outcome):
    return pd.DataFrame(outcome.rows)


def value(outcome, metric, **where):
    rows = frame(outcome)
    rows = rows[rows["metric"] == metric]
    if not where and "axis" in rows:
        rows = rows[rows["axis"].isna()]
    for name, wanted in where.items():
        rows = rows[rows[name] == wanted]
    (found,) = rows["value"]
    return found


def uniform(model):
    """Make a language model that scores all tokens alike."""
    with torch.no_grad():
        for weight in model.head.get_output_embeddings().parameters():
            weight.zero_()
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_uniform_scores_have_the_perplexity_of_the_vocabulary(family):
    model = tiny_lm.encoder(family)
    model.head.set_output_embeddings(torch.nn.Linear(*model.head.get_output_embeddings().weight.T.shape))
    found = Perplexity(**SETTINGS).run(tiny_lm.inputs(uniform(model)))
    size = model.head.get_output_embeddings().weight.shape[0]
    assert value(found, "perplexity") == pytest.approx(size, rel=1e-6)


def test_a_model_that_knows_every_answer_has_perplexity_one():
    model = tiny_lm.encoder("gpt2")
    blocks = text_blocks(model, tiny_lm.SENTENCES, 32)
    clozes = list(next_tokens(enumerate(blocks)))
    answers = [answer for cloze in clozes for answer in cloze.answers]
    given = iter(answers)

    def head(states):
        scores = torch.full((len(states), 400), -1e4)
        scores[range(len(states)), [next(given) for _ in states]] = 1e4
        return scores

    found = likelihoods(
        model, clozes, len(blocks), "causal", lambda inputs: [model.model(**inputs).last_hidden_state], [head]
    )
    assert np.exp(found.losses) == pytest.approx([1.0])
    assert found.tokens.sum() == len(answers) == len(blocks) * 31


@pytest.mark.parametrize("family", FAMILIES)
def test_mixtures_are_the_models_that_replacing_builds(family):
    """Bit for bit, for every number of last blocks, with the embeddings, and for single layers."""
    mine, theirs = (unroll(tiny_lm.whole(family, seed)) for seed in (0, 1))
    mixer = Mixer(mine.base_model, theirs.base_model)
    model = tiny_lm.encoder(family)
    blocks = text_blocks(model, tiny_lm.SENTENCES, 24)[:3]
    inputs = model.inputs(blocks)
    plans = [mixer.last(r) for r in range(4)] + [mixer.last(3, embeddings=True)]
    plans += [mixer.single(layer) for layer in (1, 2, 3)]
    changed = [(range(3 - r, 3), False) for r in range(4)] + [(range(3), True)]
    changed += [([block], False) for block in range(3)]
    for states, (chosen, embeddings) in zip(mixer.states(plans, inputs), changed, strict=True):
        built = replace_blocks(mine, theirs, list(chosen), embeddings).base_model
        with torch.inference_mode():
            assert torch.equal(states, built(**inputs).last_hidden_state), (chosen, embeddings)


def test_mixing_leaves_both_models_as_they_were():
    mine, theirs = (tiny_lm.whole("gpt2", seed).base_model for seed in (0, 1))
    ids = torch.arange(5, 11)[None]
    with torch.inference_mode():
        before = [each(ids).last_hidden_state for each in (mine, theirs)]
        mixer = Mixer(mine, theirs)
        mixed = mixer.states([mixer.last(2), mixer.last(3, embeddings=True)], {"input_ids": ids})
        after = [each(ids).last_hidden_state for each in (mine, theirs)]
    assert all(map(torch.equal, before, after))
    assert torch.equal(mixed[1], before[1]) and not torch.equal(mixed[0], before[0])
    assert all("forward" not in vars(module) for each in (mine, theirs) for module in each.modules())


@pytest.mark.parametrize("layers", [6])
def test_common_beginnings_are_computed_once(layers):
    mine, theirs = (tiny_lm.whole("bert", seed, layers).base_model for seed in (0, 1))
    mixer = Mixer(mine, theirs)
    ids = {"input_ids": torch.arange(5, 11)[None]}
    embedded = []
    for side in (mine, theirs):
        side.embeddings.word_embeddings.register_forward_hook(lambda module, *_: embedded.append(module))
    mixer.states([mixer.last(r) for r in range(layers + 1)], ids)
    assert mixer.evaluations == 27  # of 42: a block once for the tuned model, then r for the last r
    assert len(embedded) == mixer.embeddings == 1
    mixer.states(
        [mixer.last(r) for r in range(7)] + [mixer.last(6, True)] + [mixer.single(k) for k in range(1, 7)], ids
    )
    assert mixer.evaluations - 27 == 48  # of 84
    assert len(embedded) == mixer.embeddings == 3  # the other's embeddings too, for the plan that has them


def test_blocks_that_were_not_changed_are_not_run_twice():
    mine = tiny_lm.whole("bert", 0, 4).base_model
    theirs = tiny_lm.whole("bert", 0, 4).base_model
    with torch.no_grad():
        theirs.encoder.layer[3].output.dense.weight.mul_(1.5)
    mixer = Mixer(mine, theirs)
    states = mixer.states([mixer.last(r) for r in range(5)], {"input_ids": torch.arange(5, 11)[None]})
    assert mixer.evaluations == 5
    assert torch.equal(states[1], states[4]) and not torch.equal(states[0], states[1])


@pytest.mark.parametrize("family", FAMILIES)
def test_replacing_layers_leads_from_the_tuned_model_to_its_reference(family):
    model, base = tiny_lm.encoder(family), tiny_lm.encoder(family, 1)
    found = Perplexity(**SETTINGS).run(tiny_lm.inputs(model, base))
    alone = Perplexity(**SETTINGS).run(tiny_lm.inputs(base))
    tuned, restored = value(found, "perplexity"), value(found, "perplexity", subset="layers and embeddings")
    assert value(found, "perplexity", subset="layers", x=0) == tuned
    assert restored == value(found, "reference_perplexity") == value(alone, "perplexity")
    assert value(found, "perplexity", subset="layers", x=3) != restored
    assert value(found, "layer_evaluations") < value(found, "layer_evaluations_naive")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_replaced_by_itself_is_unchanged(family):
    found = frame(Perplexity(**SETTINGS, single=(1, 2)).run(tiny_lm.inputs(*[tiny_lm.encoder(family)] * 2)))
    assert found[found["metric"] == "perplexity"]["value"].nunique() == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_numbers_depend_neither_on_the_batch_nor_on_the_tokenizers_side_of_padding(family):
    model = tiny_lm.encoder(family)
    encoded = model.encode(tiny_lm.SHORT)
    kind = kind_of(model)
    mask = None if kind == "permutation" else model.tokenizer.mask_token_id

    def run(texts, tokens):
        clozes = next_tokens(texts) if kind == "causal" else mask_each(texts, mask)
        states = lambda inputs: [model.model(**inputs).last_hidden_state]  # noqa: E731
        return likelihoods(model, clozes, 6, kind, states, [head_of(model)], tokens).sums[0]

    alone, some = run(enumerate(encoded), 1), run(enumerate(encoded), 50)
    model.tokenizer.padding_side = {"left": "right", "right": "left"}[model.tokenizer.padding_side]
    together = run(enumerate(encoded), 4096)
    for other in (some, together):
        assert np.abs(alone - other).max() / np.abs(alone).max() < 1e-5


def test_every_model_is_asked_the_same_questions():
    blocks = [text_blocks(tiny_lm.encoder("bert", seed), tiny_lm.SENTENCES, 32) for seed in (0, 1)]
    masks = [digest(mask_randomly(texts, 4, 150, 0.15, 7)) for texts in blocks]
    assert masks[0] == masks[1] != digest(mask_randomly(blocks[0], 4, 150, 0.15, 8))
    found = [Perplexity(**SETTINGS).run(tiny_lm.inputs(tiny_lm.encoder("bert", seed))) for seed in (0, 1)]
    said = [next(row["label"] for row in each.rows if row["metric"] == "masked_tokens") for each in found]
    assert said[0] == said[1]


def test_shares_of_masks():
    texts = text_blocks(tiny_lm.encoder("bert"), tiny_lm.SENTENCES * 40, 32)
    clozes = list(mask_randomly(texts, 4, 150, 0.15, 0))
    words = sum(word >= 0 for text in texts for word in text.word_of)
    chosen = [(c.encoded.ids[t], a) for c in clozes for t, a in zip(c.targets, c.answers, strict=True)]
    assert len(chosen) / words == pytest.approx(0.15, abs=0.01)
    assert np.mean([shown == 4 for shown, _ in chosen]) == pytest.approx(0.8, abs=0.03)
    assert np.mean([shown == answer for shown, answer in chosen]) == pytest.approx(0.1, abs=0.03)
    plain = list(mask_randomly(texts, 4, 150, 0.15, 0, "mask"))
    assert [c.targets for c in plain] == [c.targets for c in clozes]
    assert all(c.encoded.ids[t] == 4 for c in plain for t in c.targets)
    assert all(c.encoded.word_of[t] >= 0 for c in clozes for t in c.targets)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "gpt2"])
def test_the_three_heads_differ_exactly_where_they_should(family):
    """The reference's head stays tied to the reference's embeddings, or is tied to the tuned model's."""
    base, model = tiny_lm.encoder(family), tiny_lm.encoder(family)
    with torch.no_grad():
        model.model.get_input_embeddings().weight.mul_(1.1)
    run = {h: Perplexity(**SETTINGS, head=h).run(tiny_lm.inputs(model, base)) for h in ("reference", "tied", "own")}
    got = {head: value(found, "perplexity") for head, found in run.items()}
    assert got["reference"] != got["tied"] == got["own"]
    for head, found in run.items():
        restored = value(found, "perplexity", subset="layers and embeddings")
        assert (restored == value(found, "reference_perplexity")) == (head != "own")
    assert base.head.get_output_embeddings().weight is base.model.get_input_embeddings().weight


def test_a_head_that_is_not_tied_cannot_be_tied_to_other_embeddings():
    base, model = tiny_lm.encoder("llama"), tiny_lm.encoder("llama", 1)
    with pytest.raises(AnalysisError, match="not tied"):
        Perplexity(**SETTINGS, head="tied").run(tiny_lm.inputs(model, base))


@pytest.mark.parametrize(
    "family", ["bert", "roberta", "albert", "xlnet", "distilbert", "electra", "modernbert", "gpt2"]
)
def test_a_head_alone_gives_the_scores_of_the_whole_model(family):
    model = tiny_lm.encoder(family)
    encoded = model.encode(tiny_lm.SENTENCES[:1])
    with torch.inference_mode():
        states = model.model(**model.inputs(encoded)).last_hidden_state[0]
        expected = model.logits(encoded)[0]
    assert torch.allclose(WholeHead(model.head)(states[[3, 1]]), expected[[3, 1]], atol=1e-5)


def test_a_head_in_a_file_is_berts_own(tmp_path):
    model = tiny_lm.encoder("bert")
    theirs = model.head.cls.predictions
    head = LMHead(model.model.get_input_embeddings().weight)
    head.load_state_dict(
        {
            "dense.weight": theirs.transform.dense.weight.half().float(),
            "dense.bias": theirs.transform.dense.bias.half().float(),
            "norm.weight": theirs.transform.LayerNorm.weight.half().float(),
            "norm.bias": theirs.transform.LayerNorm.bias.half().float(),
            "bias": theirs.bias.half().float(),
        }
    )
    head.save(tmp_path / "head.safetensors")
    bare = tiny_lm.encoder("bert")
    bare.head = None
    found = Perplexity(**SETTINGS, head_file=str(tmp_path / "head.safetensors")).run(tiny_lm.inputs(bare))
    own = Perplexity(**SETTINGS).run(tiny_lm.inputs(model))
    assert value(found, "perplexity") == pytest.approx(value(own, "perplexity"), rel=5e-3)
