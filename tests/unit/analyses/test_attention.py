"""The attention analysis: its rows and items, its choices, and what it refuses."""

from copy import deepcopy
from dataclasses import replace

import declared
import numpy as np
import pandas as pd
import pytest
import tiny
import tiny_lm
import torch

from vestige.analyses import attention as module
from vestige.analyses.attention import Attention
from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError
from vestige.models.files.load import load_model


@pytest.fixture(scope="module")
def bert():
    return tiny_lm.encoder("bert"), tiny_lm.encoder("bert", 1)


@pytest.fixture(scope="module")
def outcome(bert):
    return declared.run(Attention(resamples=200), tiny_lm.inputs(*bert))


def frame(outcome):
    return pd.DataFrame(outcome.rows)


def test_rows_have_every_metric_by_layer_and_head_and_their_mean(outcome):
    rows = frame(outcome)
    for metric in ("entropy", "entropy_normalised", "emd", "emd_normalised", "tv", "js", "entropy_change"):
        mine = rows[rows["metric"] == metric]
        heads = mine[mine["head"].notna()]
        means = mine[mine["head"].isna()].set_index("layer")["value"]
        assert sorted(means.index) == [1, 2, 3]
        assert len(heads) == 12 and set(heads["head"]) == {0, 1, 2, 3}
        assert heads.groupby("layer")["value"].mean().to_numpy() == pytest.approx(means.to_numpy())
        assert set(mine["n"]) == {6}
        low, high = (mine[mine["head"].isna()].set_index("layer")[side] for side in ("low", "high"))
        assert (low <= means).all() and (means <= high).all() and (low < high).all()


def test_items_hold_a_value_per_sentence_layer_and_metric(outcome):
    items = pd.DataFrame(outcome.items)
    assert list(items) == ["sentence", "layer", "metric", "value"]
    assert not items.duplicated(["sentence", "layer", "metric"]).any()
    means = items.groupby(["metric", "layer"])["value"].mean()
    for row in outcome.rows:
        if (row["metric"], row.get("layer")) in means.index and "head" not in row:
            assert row["value"] == pytest.approx(means[row["metric"], row["layer"]])


def test_without_a_reference_there_are_entropies_only(bert, outcome):
    alone = declared.run(Attention(resamples=200), tiny_lm.inputs(bert[0]))
    assert {row["metric"] for row in alone.rows} == {
        "entropy",
        "entropy_normalised",
        "left_out_sentences",
        "truncated_words",
    }
    mine, theirs = (frame(each).query("metric == 'entropy'")["value"].to_numpy() for each in (alone, outcome))
    assert np.array_equal(mine, theirs)


def test_the_distance_between_embeddings_is_there_where_it_is_asked_for(bert):
    asked = Attention(embedding="words", embedding_sentences=2, resamples=2)
    found = frame(declared.run(asked, tiny_lm.inputs(*bert)))
    assert set(found.loc[found["metric"] == "emd_embedding", "n"]) == {2}
    assert "emd_embedding" in declared.run(asked, tiny_lm.inputs(bert[0])).absent


@pytest.mark.parametrize("family", ["bert", "xlnet"])
def test_the_summary_is_the_familys_own_position(family):
    model = tiny_lm.encoder(family)
    place = (0,) if family == "bert" else (-1,)
    by_rule, by_place = (
        frame(Attention(queries=queries, resamples=2).run(tiny_lm.inputs(model)))["value"].to_numpy()
        for queries in ("summary", place)
    )
    assert np.array_equal(by_rule, by_place)


def test_queries_of_words_leave_special_tokens_out(bert):
    sentence = tiny_lm.SENTENCES[0]
    length = len(bert[0].encode([sentence])[0].ids)
    inner = tuple(range(1, length - 1))
    one, other = (
        frame(Attention(queries=queries, resamples=2).run(tiny_lm.inputs(bert[0], None, [sentence])))["value"]
        for queries in ("words", inner)
    )
    assert np.array_equal(one, other)


def test_dropping_the_sink_takes_the_first_key_out():
    model = tiny_lm.encoder("llama")
    with_sink, without = (
        frame(Attention(drop_sink=drop, resamples=2).run(tiny_lm.inputs(model))) for drop in (False, True)
    )
    with torch.inference_mode():
        encoded = model.encode(tiny_lm.SENTENCES)
        expected = []
        for sentence in encoded:
            weights = model.attentions([sentence])[0][0, :, -1, 1:].double()
            weights = weights / weights.sum(-1, keepdim=True)
            expected.append(float(-(weights * weights.log()).sum(-1).mean()))
    first = without[(without["metric"] == "entropy") & (without["layer"] == 1) & without["head"].isna()]["value"]
    assert float(first.iloc[0]) == pytest.approx(np.mean(expected), abs=1e-5)
    assert not np.allclose(with_sink["value"], without["value"])


def test_attention_is_held_in_batches_of_a_fixed_size_that_change_no_number(bert, monkeypatch):
    whole = frame(Attention(queries="all", resamples=2).run(tiny_lm.inputs(*bert)))
    sizes = []
    original = type(bert[0]).attentions

    def watched(self, batch):
        found = original(self, batch)
        sizes.append(sum(weights.nbytes for weights in found))
        return found

    monkeypatch.setattr(type(bert[0]), "attentions", watched)
    for limit in (200_000, 1):
        monkeypatch.setattr(module, "ATTENTION_BYTES", limit)
        sizes.clear()
        small = frame(Attention(queries="all", resamples=2).run(tiny_lm.inputs(*bert)))
        assert np.abs(whole["value"] - small["value"]).max() < 1e-5
        assert max(sizes) <= max(limit, 100_000) and len(sizes) > 6


def test_short_sentences(bert):
    short = [Sentence("empty", ()), Sentence("one", ("dog",)), *tiny_lm.SENTENCES[:2]]
    made = Attention(resamples=2).run(tiny_lm.inputs(*bert, short))
    assert set(made.items["sentence"]) == {"one", "s0", "s1"}
    gpt2 = tiny_lm.encoder("gpt2")
    word = next(token[1:] for token in gpt2.tokenizer.get_vocab() if token[0] == "Ġ" and token[1:].isalpha())
    made = Attention(resamples=2).run(tiny_lm.inputs(gpt2, None, [Sentence("a", (word,)), *tiny_lm.SENTENCES[:1]]))
    assert [row["value"] for row in made.rows if row["metric"] == "left_out_sentences"] == [1]
    assert set(made.items["sentence"]) == {"s0"}
    with pytest.raises(AnalysisError, match="no sentence with words"):
        Attention().run(tiny_lm.inputs(*bert, [Sentence("empty", ())]))
    with pytest.raises(AnalysisError, match="two keys"):
        Attention(queries=(0,)).run(tiny_lm.inputs(gpt2))


def test_models_that_read_other_tokens_are_not_compared(bert):
    tokenizer = deepcopy(tiny.tokenizer("bert"))
    tokenizer.add_tokens(["museum"])
    model = tiny.model("bert")
    model.resize_token_embeddings(len(tokenizer))
    other = load_model(model, tokenizer=tokenizer, name="other")
    with pytest.raises(AnalysisError, match="sentence s1 as different tokens"):
        Attention().run(tiny_lm.inputs(bert[0], other))


def test_models_of_other_shapes_are_not_compared(bert):
    with pytest.raises(AnalysisError, match="layers and heads"):
        Attention().run(tiny_lm.inputs(bert[0], tiny_lm.encoder("bert", layers=2)))


def test_a_model_that_gives_no_weights_is_explained(bert):
    class Silent(type(bert[0])):
        def _attentions(self, batch):
            return (None,)

    silent = tiny_lm.encoder("bert")
    silent.__class__ = Silent
    with pytest.raises(AnalysisError, match="eager"):
        Attention().run(tiny_lm.inputs(silent))
    with pytest.raises(AnalysisError, match="choose a transformer"):
        Attention().run(replace(tiny_lm.inputs(bert[0]), encoder=None))


def test_weights_that_are_not_finite_are_refused():
    broken = tiny_lm.encoder("bert")
    with torch.no_grad():
        broken.model.encoder.layer[1].attention.self.query.weight.fill_(float("nan"))
    with pytest.raises(AnalysisError, match="layer 2: attention is not finite"):
        Attention().run(tiny_lm.inputs(broken))
