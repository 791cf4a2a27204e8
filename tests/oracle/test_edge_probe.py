"""Edge probes against scikit-learn, SciPy, a probe written out target by target, and on a real treebank."""

import numpy as np
import pandas as pd
import pytest
import torch
from edge_corpora import named
from scipy import stats
from sklearn.metrics import f1_score

from vestige.analyses.base import Inputs
from vestige.analyses.edge_probe import EdgeProbe
from vestige.comparison.differences import Settings, compare
from vestige.comparison.estimators import F1
from vestige.corpus.derive import derive_task
from vestige.corpus.readers.conllu import parse_conllu
from vestige.corpus.readers.text import read_lines
from vestige.corpus.types import Corpus
from vestige.measures.edge_scores import EdgeCounts, tenney_labels
from vestige.probes.edges.model import EdgeProbe as Probe
from vestige.probes.edges.model import EdgeRecipe, Edges, Source, read_batch
from vestige.probes.problem import Features
from vestige.representations.extract import represent


@pytest.mark.parametrize("labels", [["1", "0"], ["Other", "a", "b"], ["ARG0", "R-ARG0", "ARGM-LOC", "V", "zero"]])
def test_f1_equals_scikit_learns_on_indicator_matrices(labels):
    rng = np.random.default_rng(len(labels))
    gold = rng.random((400, len(labels))) < 0.3
    predicted = np.where(rng.random(gold.shape) < 0.7, gold, ~gold)
    predicted[:, -1] = False
    counts = EdgeCounts(gold.astype(np.uint8), np.arange(400) // 7, tenney_labels(labels))
    for part in (slice(0, 111), slice(111, 400)):
        counts.add(part, predicted[part, :-1])
    which = np.flatnonzero(tenney_labels(labels))
    assert counts.f1("micro") == pytest.approx(f1_score(gold, predicted, average="micro"))
    assert counts.f1("tenney") == pytest.approx(f1_score(gold, predicted, labels=which, average="micro"))
    np.testing.assert_allclose(counts.label_f1(), f1_score(gold, predicted, average=None, zero_division=0))
    np.testing.assert_array_equal(counts.correct, (gold == predicted).all(1))
    assert counts.sentences["micro"][:, 2].tolist() == [int(gold[at : at + 7].sum()) for at in range(0, 400, 7)]


def by_hand(probe, layers, target):
    """Logits of one target, word by word, from the probe's parameters."""
    weights = probe.scores.softmax(0)
    pooled = []
    for role, (start, end) in enumerate(target):
        words = []
        for row in range(start, end):
            mixed = probe.gamma * sum(w * layer[row] for w, layer in zip(weights, layers, strict=True))
            words.append(probe.project[role].weight @ mixed + probe.project[role].bias)
        scores = torch.stack([(probe.attend[role].weight @ word + probe.attend[role].bias)[0] for word in words])
        shares = scores.exp() / scores.exp().sum()
        pooled.append(sum(share * word for share, word in zip(shares, words, strict=True)))
    hidden = torch.tanh(probe.hidden.weight @ torch.cat(pooled) + probe.hidden.bias)
    normed = (hidden - hidden.mean()) / (hidden.var(unbiased=False) + 1e-5).sqrt()
    return probe.output.weight @ (normed * probe.norm.weight + probe.norm.bias) + probe.output.bias


def test_logits_and_gradients_equal_those_of_a_probe_written_out():
    rng = np.random.default_rng(0)
    layers = [rng.normal(size=(30, 5)).astype(np.float32) for _ in range(3)]
    starts = rng.integers(0, 24, size=(9, 2))
    spans = np.stack([starts, starts + rng.integers(1, 6, size=(9, 2))], axis=-1)
    labels = (rng.random((9, 4)) < 0.5).astype(np.uint8)
    data = Edges([Features(layer) for layer in layers], spans, labels, np.array([0, 9]))
    probe = Probe(Source((0, 1, 2), mixed=True), [5] * 3, 2, 4, EdgeRecipe(projected=6, hidden=7), 3)
    with torch.no_grad():
        probe.scores.copy_(torch.tensor([0.5, -0.2, 1.0]))
        probe.gamma.fill_(1.3)
    batch = read_batch(data, np.arange(9), [0, 1, 2])
    tensors = [torch.from_numpy(layer) for layer in layers]
    both = []
    for logits in (probe(batch), torch.stack([by_hand(probe, tensors, target) for target in spans.tolist()])):
        torch.nn.functional.binary_cross_entropy_with_logits(logits, batch.labels).backward()
        both.append((logits.detach(), {name: p.grad.clone() for name, p in probe.named_parameters()}))
        probe.zero_grad()
    torch.testing.assert_close(both[0][0], both[1][0], atol=1e-5, rtol=1e-5)
    for name, gradient in both[0][1].items():
        torch.testing.assert_close(gradient, both[1][1][name], atol=1e-6, rtol=1e-4, msg=name)


def counts(rng, share):
    gold = np.random.default_rng(7).integers(1, 9, size=160)
    hits = rng.binomial(gold, share)
    columns = {
        "sentence": np.arange(160),
        "input": np.full(160, "mix"),
        "probe_seed": np.zeros(160, dtype=int),
        "hits": hits,
        "targets": gold,
        "predicted": hits + rng.binomial(3, 0.2, size=160),
        "gold": gold,
    }
    return pd.DataFrame(columns)


def changes(base, tuned, settings=None, stochastic=True):
    return compare(F1(), base, [tuned], 0.005, settings, stochastic=stochastic, places=["input"]).iloc[0]


def test_intervals_and_p_of_f1_differences_equal_scipys():
    rng = np.random.default_rng(2)
    base, tuned = counts(rng, 0.75), counts(rng, 0.77)
    ours = changes(base, tuned, Settings(resamples=9999), stochastic=False)

    def difference(h1, n1, h2, n2, axis=-1):
        return 2 * h2.sum(axis) / n2.sum(axis) - 2 * h1.sum(axis) / n1.sum(axis)

    columns = [p.to_numpy() for one in (base, tuned) for p in (one["hits"], one["predicted"] + one["gold"])]
    theirs = stats.bootstrap(
        columns, difference, paired=True, vectorized=True, method="percentile", n_resamples=9999, random_state=1
    )
    assert ours["difference"] == pytest.approx(difference(*columns))
    width = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert abs(ours["low"] - theirs.confidence_interval.low) < 0.05 * width
    assert abs(ours["high"] - theirs.confidence_interval.high) < 0.05 * width

    exchanged = stats.permutation_test(
        [np.arange(160), np.arange(160) + 160],
        lambda x, y: difference(*(np.concatenate(columns[at::2])[z] for z in (x, y) for at in (0, 1))),
        permutation_type="samples",
        vectorized=False,
        n_resamples=4999,
        random_state=1,
    )
    assert 0.2 < exchanged.pvalue < 0.9
    assert ours["p"] == pytest.approx(exchanged.pvalue, abs=0.03)


def test_minilm_knows_dependencies_that_its_embeddings_do_not(data, minilm, cache):
    path = data / "ud_ewt" / "en_ewt-ud-dev.conllu"
    lines = read_lines(path)
    sentences = [s for s in parse_conllu(lines[: lines.index("", 9000)], path) if 2 < len(s.words) <= 30]
    splits = {"train": sentences[:170], "dev": sentences[170:200], "test": sentences[200:260]}
    corpus = Corpus("ewt", {n: tuple(part) for n, part in splits.items()}, {"head": "tree", "deprel": "token"})
    task = derive_task(corpus, "dependency_arcs").task("dependency_arcs")
    found = {name: represent(minilm, part, ("mean",), cache=cache)["mean"] for name, part in task.corpus.splits.items()}
    analysis = EdgeProbe(
        inputs=("lexical", "layer 3"), projected=64, hidden=64, rate=4e-3, validate_every=30, max_validations=6
    )
    outcome = analysis.run(Inputs(task, {"mean": found}, "minilm"))
    rows = pd.DataFrame(outcome.rows)
    f1 = named(rows[rows["metric"] == "f1_micro"]).groupby("input")["value"].mean()
    assert f1["layer 3"] > 0.6 and f1["layer 3"] > f1["lexical"] + 0.04
    found = changes(_renamed(outcome, "lexical"), _renamed(outcome, "layer 3"))
    assert found["low"] > 0 and found["p"] < 0.05
    assert found["difference"] == pytest.approx(f1["layer 3"] - f1["lexical"])


def _renamed(outcome, name):
    """The sentences of one input, as those of a model of its own."""
    table = named(pd.DataFrame(outcome.tables["sentences"]))
    return table[table["input"] == name].assign(input="mix")
