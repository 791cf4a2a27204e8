"""What must hold of output drift and of lenses: copies do not drift, the last layer is the output."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import tiny
import tiny_lm
import torch
from sklearn.linear_model import Ridge

from vestige.analyses.lens import LayerLens
from vestige.analyses.output_drift import OutputDrift
from vestige.analyses.perplexity import Perplexity
from vestige.corpus.types import Corpus, Task
from vestige.errors import AnalysisError
from vestige.measures.affine import AffineFitter
from vestige.measures.divergence import kl_divergence
from vestige.models.files.load import load_model
from vestige.models.lm.language_model import head_of
from vestige.models.tokens.masking import next_tokens

FAMILIES = ("bert", "roberta", "albert", "gpt2", "llama", "modernbert")
QUICK = {"rate": 0.5, "resamples": 20}


def rows(outcome, metric: str) -> pd.DataFrame:
    found = pd.DataFrame(outcome.rows)
    return found[found["metric"] == metric]


def given(family: str, tuned: int = 1, level="token"):
    """Two random models of a family on labelled words of a text that is also its train split."""
    encoders = [tiny_lm.encoder(family, seed) for seed in (tuned, 0)]
    made = tiny_lm.inputs(*encoders)
    labels = {s.id: tuple("long" if len(w) > 4 else "short" for w in s.words) for s in tiny_lm.SENTENCES}
    sentences = tuple(replace(s, annotations={"size": labels[s.id]}) for s in tiny_lm.SENTENCES)
    task = Task(Corpus("tiny", {"train": sentences, "test": sentences}, {"size": level}), "size", level)
    return replace(made, task=task, reference=replace(made.reference, task=task)), encoders


def test_kl_is_torchs_and_zero_of_the_same():
    torch.manual_seed(0)
    one, two = 3 * torch.randn(2, 50, 200)
    expected = torch.nn.functional.kl_div(
        two.double().log_softmax(-1), one.double().log_softmax(-1), reduction="none", log_target=True
    ).sum(-1)
    torch.testing.assert_close(kl_divergence(one, two), expected)
    assert (kl_divergence(one, one) == 0).all() and (kl_divergence(one, one + 7) < 1e-6).all()
    uniform, sure = torch.zeros(1, 8), torch.tensor([[100.0, *[0.0] * 7]])
    assert kl_divergence(sure, uniform).item() == pytest.approx(np.log(8))


@pytest.mark.parametrize("family", (*FAMILIES, "xlnet"))
def test_a_copy_does_not_drift(family):
    inputs, _ = given(family, tuned=0)
    found = OutputDrift(**QUICK).run(inputs)
    assert (rows(found, "kl")["value"] == 0).all() and (found.items["kl"] == 0).all()
    assert (rows(found, "same_token")["value"] == 1).all()
    if family == "xlnet":
        return
    lens = LayerLens(**QUICK).run(inputs)
    assert (rows(lens, "drift")["value"] == 0).all() and (rows(lens, "left_change")["value"] == 0).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_layer_of_a_lens_is_the_output(family):
    inputs, _ = given(family)
    drift = OutputDrift(**QUICK).run(inputs)
    lens = LayerLens(**QUICK).run(inputs)
    last = rows(lens, "drift").query("layer == 3")
    (whole,) = rows(drift, "kl")[rows(drift, "kl")["label"].isna()]["value"]
    assert whole > 0.01 and last["value"].tolist() == pytest.approx([whole, whole], rel=1e-5)
    for metric in ("left", "reference_left"):
        assert rows(lens, metric).query("layer == 3")["value"].tolist() == [0, 0]
        assert (rows(lens, metric).query("layer < 3")["value"] > 0.01).all()


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_drift_of_a_causal_model_is_that_of_its_own_logits(family):
    """Against the logits of transformers' whole models, token by token."""
    inputs, (tuned, base) = given(family)
    found = OutputDrift(head="own", resamples=20).run(inputs)
    items = pd.DataFrame(found.items).set_index(["sentence", "word"])["kl"]
    for sentence, encoded in zip(tiny_lm.SENTENCES, base.encode(tiny_lm.SENTENCES), strict=True):
        ids = torch.tensor([encoded.ids])
        with torch.inference_mode():
            logs = [model.head(ids).logits[0].double().log_softmax(-1) for model in (tuned, base)]
        kl = torch.nn.functional.kl_div(*logs, reduction="none", log_target=True).sum(-1)
        by_word: dict[int, list[float]] = {}
        for cloze in next_tokens([(0, encoded)]):
            for place in cloze.targets:
                by_word.setdefault(encoded.word_of[place], []).append(kl[place - 1].item())
        for word, values in by_word.items():
            assert items[sentence.id, word] == pytest.approx(np.mean(values), rel=1e-4, abs=1e-6)


def test_drift_of_a_masked_model_is_that_of_its_own_logits():
    inputs, (tuned, base) = given("bert")
    found = OutputDrift(head="own", **QUICK).run(inputs)
    items = pd.DataFrame(found.items).set_index(["sentence", "word"])["kl"]
    texts = base.encode(tiny_lm.SENTENCES)
    seen = 0
    for cloze in Perplexity(rate=0.5).clozes("masked", base, "masked", texts):
        with torch.inference_mode():
            ids = torch.tensor([cloze.encoded.ids])
            logs = [model.head(ids).logits[0].double().log_softmax(-1) for model in (tuned, base)]
        kl = torch.nn.functional.kl_div(*logs, reduction="none", log_target=True).sum(-1)
        by_word: dict[int, list[float]] = {}
        for place in cloze.targets:
            by_word.setdefault(cloze.encoded.word_of[place], []).append(kl[place].item())
        for word, values in by_word.items():
            seen += 1
            assert items[tiny_lm.SENTENCES[cloze.unit].id, word] == pytest.approx(np.mean(values), rel=1e-4, abs=1e-6)
    assert seen == len(items)


def test_labels_split_the_words():
    found = OutputDrift(**QUICK).run(given("bert")[0])
    kl = rows(found, "kl").set_index(rows(found, "kl")["label"].fillna("all"))
    assert set(kl.index) == {"all", "long", "short"} and kl.loc["all", "n"] == kl.loc[["long", "short"], "n"].sum()
    weighed = (kl["value"] * kl["n"]).loc[["long", "short"]].sum() / kl.loc["all", "n"]
    assert kl.loc["all", "value"] == pytest.approx(weighed)
    assert kl.loc["all", "low"] < kl.loc["all", "value"] < kl.loc["all", "high"]


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_the_logit_lens_by_hand(family):
    """Hidden states of transformers, its final norm where there is one, and its own head."""
    inputs, (tuned, _) = given(family)
    found = LayerLens(lenses=("logit",), head="own", **QUICK).run(inputs)
    items = pd.DataFrame(found.items).query("layer == 1").set_index(["sentence", "word"])["tuned_left"]
    head, sentence = head_of(tuned), tiny_lm.SENTENCES[0]
    (encoded,) = tuned.encode([sentence])
    method = "causal" if family == "gpt2" else "masked"
    cloze = next(iter(Perplexity(rate=0.5).clozes(method, tuned, method, [encoded])))
    with torch.inference_mode():
        output = tuned.model(torch.tensor([cloze.encoded.ids]), output_hidden_states=True)
        states = output.hidden_states[1][0]
        states = tuned.model.ln_f(states) if family == "gpt2" else states
        kl = kl_divergence(head(output.last_hidden_state[0]), head(states))
    by_word: dict[int, list[float]] = {}
    for place in cloze.targets:
        by_word.setdefault(cloze.encoded.word_of[place], []).append(kl[place - (family == "gpt2")].item())
    for word, values in by_word.items():
        assert items[sentence.id, word] == pytest.approx(np.mean(values), rel=1e-4, abs=1e-6)


def test_the_tuned_lens_reads_what_an_affine_map_hides():
    """Where a layer is an affine image of the last, the tuned lens says what the model says, and the logit lens not."""
    inputs, (tuned, base) = given("bert", tuned=0)
    with torch.no_grad():  # the last two blocks pass on what they get, but for a norm
        for model in (tuned, base):
            for block in model.model.encoder.layer[1:]:
                block.attention.output.dense.weight.zero_()
                block.output.dense.weight.zero_()
    found = rows(LayerLens(rate=0.9, penalty=1e-9, resamples=20).run(inputs), "left").set_index(["subset", "layer"])
    assert found.loc[("tuned lens", 2), "value"] < 0.2 * found.loc[("logit lens", 2), "value"]


def test_an_affine_map_is_found_again_and_is_scikit_learns():
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(300, 12)) + 3, rng.normal(size=(12, 5))
    y = x @ weights + 2 + 0.1 * rng.normal(size=(300, 5))
    fitter = AffineFitter(12, 5)
    for start in range(0, 300, 70):
        fitter.update(torch.tensor(x[start : start + 70]), torch.tensor(y[start : start + 70]))
    exact = fitter.fit(0.0)
    np.testing.assert_allclose(exact.weights.numpy(), weights, atol=0.05)
    penalty = 0.1
    alpha = penalty * len(x) * x.var(0).mean()
    theirs, mine = Ridge(alpha).fit(x, y), fitter.fit(penalty)
    np.testing.assert_allclose(mine.weights.numpy(), theirs.coef_.T, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(mine(torch.tensor(x)).numpy(), theirs.predict(x), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("analysis", [OutputDrift, LayerLens])
def test_models_without_a_head_or_with_other_tokens_are_refused(analysis):
    headless = load_model(deepcopy(tiny_lm.whole("bert").base_model), tokenizer=tiny.tokenizer("bert"), name="bare")
    with pytest.raises(AnalysisError, match="bare has no language-model head"):
        analysis(**QUICK).run(tiny_lm.inputs(tiny_lm.encoder("bert"), headless))
    with pytest.raises(AnalysisError, match="different tokens"):
        analysis(**QUICK).run(tiny_lm.inputs(tiny_lm.encoder("bert"), tiny_lm.encoder("roberta")))
    with pytest.raises(AnalysisError, match="no reference"):
        analysis(**QUICK).run(tiny_lm.inputs(tiny_lm.encoder("bert")))


def test_a_lens_does_not_read_permutation_models():
    with pytest.raises(AnalysisError, match="permutation model"):
        LayerLens(**QUICK).run(tiny_lm.inputs(tiny_lm.encoder("xlnet"), tiny_lm.encoder("xlnet", 1)))
