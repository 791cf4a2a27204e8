"""How long are the vectors of words, and how many lie nearest to the mean of their own label?"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import Metric
from vestige.comparison.estimators import Mean, Share


@dataclass(frozen=True)
class VectorNorms(Analysis):
    """The mean Euclidean norm of the vectors of a layer, and the share of words whose nearest mean of a label's
    training words is that of their own label."""

    name: ClassVar[str] = "vector_norms"
    title: ClassVar[str] = "Vector norms"
    source: ClassVar[str] = "written for a test"
    needs = frozenset({"hidden_states"})
    levels = ("token",)
    metrics = (
        Metric("norm", "the mean vector norm", margin=0.25, decimals=2, compared=Mean(column="norm")),
        Metric("nearest", "nearest-mean accuracy", "percent", "higher", 0.01, 1, compared=Share()),
    )

    pooling: Literal["first", "last", "mean", "max"] = "last"
    """How the hidden states of a word's tokens become one vector."""
    order: float = 2.0
    """Of the norm."""

    def run(self, inputs: Inputs) -> Outcome:
        train, test = inputs.split("train"), inputs.split("test")
        given, gold = (
            np.array([labels[sentence][word] for sentence, word in found.index])
            for found, labels in ((train, inputs.task.labels("train")), (test, inputs.task.labels("test")))
        )
        outcome, parts = Outcome(), []
        classes = np.unique(given)
        for layer in range(test.layers):
            vectors = test.layer(layer).astype(np.float64)
            means = np.stack([train.layer(layer)[given == label].mean(0) for label in classes])
            nearest = classes[((vectors[:, None] - means) ** 2).sum(-1).argmin(1)]
            norms, correct = np.linalg.norm(vectors, ord=self.order, axis=1), nearest == gold
            outcome.add("norm", norms.mean(), layer=layer, n=len(norms))
            outcome.add("nearest", correct.mean(), layer=layer, n=len(correct))
            parts.append({"layer": np.full(len(norms), layer), "norm": norms, "correct": correct})
        ids = np.array([sentence.id for sentence in inputs.task.corpus["test"]], dtype=object)
        outcome.items = {
            "sentence": np.tile(ids[test.index[:, 0]], len(parts)),
            "word": np.tile(test.index[:, 1], len(parts)),
            "probe_seed": np.zeros(len(parts) * len(ids[test.index[:, 0]]), dtype=np.int16),
            **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
        }
        return outcome
