"""Did a probe fail? A low accuracy is a finding about the model only if no like probe reads more from the same vectors.

A penalised probe can be at its optimum and still read next to nothing: where a few huge vectors or directions set the
scale of a layer, the penalty forbids weights on all others. With the attention sink of SmolLM2-135M left in
and outlier units not shrunk, the probe of layer 15 reached 69 % of the dev words, certified, where 93 % can be read.

The rule. A probe is suspected where its dev accuracy is more than FAR below that of the word-type majority, or where on
train it has learnt less than LEARNT of the way from the majority label to the word-type majority (the only sign
for probes trained by Adam, whose short training is part of their protocol). The suspicion alone says nothing:
random twins and layers without the property are suspected rightly and read as they are. A suspected probe has
*failed* if a check, a linear probe of the same rows with a ridge a thousand times weaker than the weakest that is
tried, reads at least FAR more of dev. Its numbers are kept, and no verdict is given on them.
"""

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from vestige.analyses.metric import Metric
from vestige.probes.linear.solver import solve
from vestige.probes.problem import log_probabilities
from vestige.probes.rows import LabelledRows

FAR = 0.05
LEARNT = 0.1
WEAK_RIDGE = 2e-3
"""Of the check, divided by the number of training rows."""
ENOUGH, PASSES = 0.05, 150
"""The check is trained to this optimality gap, in nats a row, or for so many passes: unfinished, it proves as much."""


FAILED_PROBE = Metric(
    "failed_probe", "accuracy that a failed probe missed", "percent", decimals=1, role="failure",
    about="Above 0 where a probe's accuracy is far below what word types alone give, or it learnt next to nothing "
    f"on train, and a check (a linear probe with a ridge a thousand times weaker) reads at least {100 * FAR:g} points "
    "more of dev from the same hidden states: nothing is claimed of it.",
)  # fmt: skip


def failure(rows: LabelledRows, layer: int, accuracies: tuple[float, float], converged: bool) -> float:
    """How much more of dev the check reads than a failed probe, or 0; accuracies are of train and dev."""
    learnt, read = accuracies
    labels, gold = rows.labels["train"], rows.labels["dev"]
    table = _majorities(rows.types["train"], labels)
    majority = int(labels.mode().values)
    share = float((labels == majority).double().mean())
    of_types = _accuracy(table, majority, rows.types["train"], labels)
    suspected = learnt < share + LEARNT * (of_types - share)
    if converged:
        suspected |= read < _accuracy(table, majority, rows.types["dev"], gold) - FAR
    if not suspected:
        return 0.0
    train, ridge = rows.features("train", layer).resident(), WEAK_RIDGE / len(labels)
    check = solve(train, labels[None], len(rows.classes), [0.0], [ridge], tolerance=ENOUGH, max_passes=PASSES)
    more = float((log_probabilities(check, rows.features("dev", layer))[0].argmax(-1) == gold).double().mean()) - read
    return more if more >= FAR else 0.0


def _majorities(words: Sequence[str], labels: Tensor) -> dict[str, int]:
    """Each word type's most frequent label in train; among equals the first class."""
    counts: dict[str, Counter[int]] = {}
    for word, label in zip(words, labels.tolist(), strict=True):
        counts.setdefault(word, Counter())[label] += 1
    return {word: min(found, key=lambda label: (-found[label], label)) for word, found in counts.items()}


def _accuracy(table: dict[str, int], majority: int, words: Sequence[str], gold: Tensor) -> float:
    guessed = torch.tensor([table.get(word, majority) for word in words])
    return float((guessed == gold).double().mean())
