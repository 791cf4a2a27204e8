"""Sentence probes against scikit-learn's logistic regression and a plain torch reading of SentEval's protocol."""

import numpy as np
import pandas as pd
import pytest
import sentence_vectors
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression

from vestige.analyses.sentence_probe import SentenceProbe
from vestige.comparison.differences import Settings
from vestige.comparison.layer_groups import group_differences
from vestige.probes.linear.senteval import SEED, SentEvalRecipe, solve_senteval
from vestige.probes.problem import Features


@pytest.mark.parametrize("l2", [1e-3, 0.1])
def test_converged_probes_are_those_of_scikit_learn(tmp_path, l2):
    made = sentence_vectors.corpus(labels=("A", "B", "C"))

    def vector(sentence, layer):
        return 1.2 * np.eye(12)["ABC".index(sentence.annotations["label"])]

    inputs = sentence_vectors.represent(tmp_path, made, vector, layers=2)
    items = pd.DataFrame(SentenceProbe(l2=l2, tolerance=1e-6, control="none").run(inputs).items)
    labels = {split: np.array([s.annotations["label"] for s in made[split]]) for split in ("train", "test")}
    for layer in range(2):
        train, test = (inputs.representations[split].layer(layer) for split in ("train", "test"))
        train, test = (rows - train.mean(0, dtype=np.float64) for rows in (train, test))
        scale = 1 / np.sqrt((train**2).mean())
        # scikit-learn sums the loss and halves the penalty, ours is the mean loss and the whole penalty.
        theirs = LogisticRegression(C=1 / (2 * l2 * len(train)), tol=1e-8, max_iter=5000)
        theirs.fit(train * scale, labels["train"])
        mine = items[items["layer"] == layer]
        np.testing.assert_array_equal(mine["predicted"], theirs.predict(test * scale))
        expected = theirs.predict_log_proba(test * scale)
        of_gold = expected[np.arange(len(test)), np.searchsorted(theirs.classes_, labels["test"])]
        np.testing.assert_allclose(mine["log_probability"], of_gold, atol=5e-3)


class Plain:
    """SentEval's classifier as its documentation describes it: one probe at a time, torch's modules and seeds."""

    def __init__(self, width, classes, hidden, dropout, l2):
        np.random.seed(SEED)
        torch.manual_seed(SEED)
        if hidden:
            parts = (torch.nn.Linear(width, hidden), torch.nn.Dropout(dropout), torch.nn.Sigmoid())
            self.model = torch.nn.Sequential(*parts, torch.nn.Linear(hidden, classes))
        else:
            self.model = torch.nn.Linear(width, classes)
        self.optimiser = torch.optim.Adam(self.model.parameters(), weight_decay=l2)

    def epoch(self, x, y):
        self.model.train()
        order = torch.from_numpy(np.random.permutation(len(x)))
        for rows in order.split(64):
            self.optimiser.zero_grad()
            torch.nn.functional.cross_entropy(self.model(x[rows]), y[rows]).backward()
            self.optimiser.step()

    @torch.no_grad()
    def log_p(self, x):
        self.model.eval()
        return self.model(x).log_softmax(-1)

    def fit(self, x, y, dev_x, dev_y, test_x):
        best, missed, epochs, kept = -1.0, 0, 0, None
        while epochs <= 200:
            for _ in range(4):
                self.epoch(x, y)
            epochs += 4
            accuracy = float((self.log_p(dev_x).argmax(1) == dev_y).double().mean())
            if accuracy > best:
                best, kept = accuracy, self.log_p(test_x)
            else:
                missed += 1
                if missed > 5:
                    break
        return best, epochs, kept


@pytest.mark.parametrize(("hidden", "dropout"), [(0, 0.0), (6, 0.0), (6, 0.2)], ids=["linear", "mlp", "dropout"])
def test_the_batched_protocol_is_senteval_one_probe_at_a_time(hidden, dropout):
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(10, 3))

    def draw(rows):
        x = rng.normal(size=(rows, 10)).astype(np.float32)
        y = (x @ weights + 2.0 * rng.normal(size=(rows, 3))).argmax(1)
        return x, torch.from_numpy(y)

    (x, y), (dev_x, dev_y), (test_x, _) = (draw(rows) for rows in (150, 80, 50))
    other = torch.from_numpy(rng.integers(0, 3, size=(2, 150)))
    labels = torch.stack([y, other[0]])
    dev_labels = torch.stack([dev_y, other[1, :80]])
    recipe = SentEvalRecipe(hidden=hidden, dropout=dropout)
    fit = solve_senteval(Features(x), labels, Features(dev_x), dev_labels, 3, recipe)
    mine = fit.log_probabilities(Features(test_x))
    for probe in range(2):
        given = [torch.from_numpy(x), labels[probe], torch.from_numpy(dev_x), dev_labels[probe]]
        found = [Plain(10, 3, hidden, dropout, l2).fit(*given, torch.from_numpy(test_x)) for l2 in recipe.l2]
        chosen = int(np.argmax([round(100 * accuracy, 2) for accuracy, _, _ in found]))
        accuracy, epochs, log_p = found[chosen]
        assert fit.l2[probe].item() == recipe.l2[chosen]
        assert fit.dev_accuracy[probe].item() == accuracy
        assert fit.epochs[probe].item() == epochs
        np.testing.assert_allclose(mine[probe], log_p, atol=1e-4)


def test_intervals_of_groups_are_those_of_scipy_over_sentences():
    """Results of a sentence go together over layers: the unit is the sentence's mean difference."""
    rng = np.random.default_rng(0)
    ease = rng.normal(size=(300, 1))
    base, tuned = (rng.normal(size=(300, 4)) + 2 * ease + shift > 0 for shift in (0.0, 0.4))

    def items(correct):
        sentence, layer = np.meshgrid([f"s{i}" for i in range(300)], np.arange(4), indexing="ij")
        columns = {"sentence": sentence.ravel(), "layer": layer.ravel(), "correct": correct.ravel()}
        return pd.DataFrame({**columns, "word": -1, "subset": "task", "probe_seed": 0})

    groups = {"low": [0], "rest": [1, 2, 3]}
    found = group_differences(items(base), [items(tuned)], groups, Settings(resamples=9999)).set_index("group")
    for name, layers in groups.items():
        means = (tuned[:, layers].astype(float) - base[:, layers]).mean(1)
        theirs = stats.bootstrap((means,), np.mean, method="percentile", n_resamples=9999, rng=rng)
        expected = theirs.confidence_interval
        np.testing.assert_allclose(found.loc[name, "difference"], means.mean())
        np.testing.assert_allclose(found.loc[name, ["low", "high"]].astype(float), expected, atol=4e-3)
        np.testing.assert_allclose(found.loc[name, "sd_items"], theirs.standard_error, rtol=0.05)
