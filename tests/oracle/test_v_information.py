"""V-information against scikit-learn's log-loss of its own logistic regression, and against counts by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from synthetic import corpus, label_vector, represent

from vestige.analyses.information_groups import FREQUENCIES, LENGTHS
from vestige.analyses.v_information import VInformation

L2 = 0.003


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    words = corpus(np.random.default_rng(5), sizes=(("train", 150), ("dev", 30), ("test", 80)))
    folder = tmp_path_factory.mktemp("oracle")
    base, tuned = (represent(folder / str(seed), words, label_vector, seed=seed) for seed in (1, 2))
    return replace(tuned, reference=base)


@pytest.fixture(scope="module")
def outcome(inputs):
    return VInformation(l2=L2, tolerance=1e-4, resamples=50).run(inputs)


def rows_of(inputs, split):
    index, labels = inputs.split(split).index, inputs.task.labels(split)
    return index, np.array([labels[s][w] for s, w in index])


def standardised(inputs, layer):
    """Train, dev and test around the mean of train, at root mean square 1."""
    train, *held = (np.asarray(inputs.split(split).layer(layer), dtype=float) for split in ("train", "dev", "test"))
    size = np.sqrt(np.mean((train - train.mean(0)) ** 2))
    return [(rows - train.mean(0)) / size for rows in (train, *held)]


def beside(one, other):
    return [np.hstack(pair) / np.sqrt(2) for pair in zip(one, other, strict=True)]


def bits(fitted, rows, gold) -> tuple[float, float]:
    """Cross-entropies of a classifier of scikit-learn on dev and test."""
    train, *held = rows
    fitted.fit(train, gold[0])
    dev, test = (
        log_loss(own, fitted.predict_proba(mine), labels=fitted.classes_) / np.log(2)
        for mine, own in zip(held, gold[1:], strict=True)
    )
    return dev, test


def test_all_informations_are_those_of_scikit_learn(inputs, outcome):
    """Its softmax regression minimises C * (sum of losses) + |w|^2 / 2; the family is what dev likes best."""
    gold = [rows_of(inputs, split)[1] for split in ("train", "dev", "test")]
    nothing = bits(DummyClassifier(strategy="prior"), [np.zeros((len(own), 1)) for own in gold], gold)

    def probe(rows, *parts):
        strength = 1 / (2 * L2 * len(gold[0]))
        return min(*parts, bits(LogisticRegression(C=strength, tol=1e-9, max_iter=5000), rows, gold))

    found = {(row["metric"], row.get("layer")): row["value"] for row in outcome.rows if "label" not in row}
    assert found["entropy", None] == pytest.approx(nothing[1], abs=1e-9)
    first = standardised(inputs, 0)
    ground = probe(first, nothing)
    for layer in range(3):
        tuned, base = standardised(inputs, layer), standardised(inputs.reference, layer)
        of_tuned, of_base = (probe(side, nothing) for side in (tuned, base))
        both = probe(beside(base, tuned), of_base, of_tuned)
        expected = {"information": nothing[1] - of_tuned[1], "reference_information": nothing[1] - of_base[1]}
        expected |= {"lost": of_tuned[1] - both[1], "gained": of_base[1] - both[1]}
        if layer:
            expected["context"] = ground[1] - probe(beside(first, tuned), ground, of_tuned)[1]
        for metric, value in expected.items():
            assert found[metric, layer] == pytest.approx(value, abs=2e-3), (metric, layer)


def test_groups_are_those_of_a_table_of_words(inputs, outcome):
    """The same groups by pandas, from items, sentences and labels."""
    items = pd.DataFrame(outcome.items)
    sentences = {sentence.id: sentence for sentence in inputs.task.corpus["test"]}
    often = pd.Series([word for sentence in inputs.task.corpus["train"] for word in sentence.words]).value_counts()
    pairs = list(zip(items["sentence"], items["word"], strict=True))
    words = [sentences[s].words[w] for s, w in pairs]
    items = items.assign(
        word_type=words,
        label=[sentences[s].annotations["tag"][w] for s, w in pairs],
        frequency=_cut([often.get(word, 0) for word in words], FREQUENCIES),
        length=_cut([len(sentences[s].words) for s, _ in pairs], LENGTHS),
        change=items["pvi"] - items["reference_pvi"],
    ).rename(columns={"word_type": "word_", "word": "place"})
    found = pd.DataFrame([row for row in outcome.rows if row["metric"] == "pointwise"])
    assert {"label", "frequency", "length"} <= set(found["subset"])
    for kind in ("label", "frequency", "length"):
        for (layer, name), mine in items.groupby(["layer", kind]):
            row = found[(found["subset"] == kind) & (found["label"] == name) & (found["layer"] == layer)]
            if len(mine) < 30 or mine["sentence"].nunique() < 30:
                assert row.empty
            else:
                assert row["value"].item() == pytest.approx(mine["change"].mean()) and row["n"].item() == len(mine)


def _cut(values, bins):
    ends = [-np.inf, *(end for end, _ in bins)]
    return pd.cut(values, ends, labels=[name for _, name in bins]).astype(str)
