"""What is kept of probes of layers: the metrics they report, accuracies, failures, scored items."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from vestige.analyses.base import Outcome
from vestige.analyses.failed_probe import FAILED_PROBE, failure
from vestige.analyses.metric import WHOLE, Metric, Role
from vestige.analyses.remarks import LOST, OUTLIERS
from vestige.comparison.estimators import Difference, Estimator, Share
from vestige.probes.problem import Fit, outlier_units, unit_sizes
from vestige.probes.rows import LabelledRows

_TASK, _STANDARDISED, _CONTROL = (Share(where=(("subset", name),)) for name in ("task", "standardised", "control"))


def _share(name: str, title: str, role: Role = "result", compared: Estimator | None = None, about: str = "") -> Metric:
    margin = None if compared is None else 0.005
    return Metric(name, title, "percent", "higher", margin, 1, role=role, compared=compared, about=about)


def baseline(name: str, title: str) -> Metric:
    """The accuracy of guessing without a model."""
    return Metric(name, title, "percent", "higher", decimals=1, along=(WHOLE,), role="baseline")


MAJORITY = baseline("majority", "majority label")
GAP = Metric(
    "optimality_gap", "certified distance from the optimum", "nats", "lower", role="detail",
    about="Upper bound on how far the objective is above its minimum.",
)  # fmt: skip
PROBE_METRICS = (
    _share("accuracy", "probe accuracy", compared=_TASK),
    _share(
        "accuracy_standardised", "probe accuracy on standardised hidden states", "detail", _STANDARDISED,
        "The same protocol on rows around their mean, at unit scale and on their principal axes.",
    ),
    _share("control_accuracy", "control-task accuracy", compared=_CONTROL),
    _share(
        "selectivity", "selectivity", compared=Difference(first=_TASK, second=_CONTROL),
        about="Accuracy minus accuracy on a control task, in which every type has a random label.",
    ),
    _share("recall", "recall", "detail"),
    _share("precision", "precision", "detail"),
    _share("f1", "F1", "detail"),
    _share("train_accuracy", "accuracy on train", "detail"),
    Metric("objective", "objective of the probe", "nats", "lower", role="detail"),
    GAP,
    Metric("l2", "ridge", decimals=6, role="detail"),
    Metric("passes", "passes over the training rows", "count", decimals=0, role="detail"),
    FAILED_PROBE,
    OUTLIERS,
    MAJORITY,
    *LOST,
)  # fmt: skip
"""Of probes of words and of sentences alike."""


CONTROL = ("control_accuracy", "selectivity", "control_majority")
IS_BASELINE = "the model is a baseline itself, and gets no control task"


def given_metrics(
    metrics: Iterable[Metric], *, linear: bool, protocol: str, control: bool, penalised: bool
) -> tuple[Metric, ...]:
    """Those that a protocol reports. What it reads from rows as they are, standardised rows must confirm.

    Without a penalty no bound on the distance from the optimum is known.
    """
    out = set() if control else set(CONTROL)
    out |= {"epochs", "dev_accuracy"} if protocol != "senteval" else {"objective", "passes"}
    out |= set() if linear or protocol == "senteval" else {"objective", "passes", "l2"}
    out |= set() if linear and protocol == "converged" and penalised else {"optimality_gap"}
    kept = [metric for metric in metrics if metric.name not in out]
    if protocol == "converged":
        return tuple(metric for metric in kept if metric.name != "accuracy_standardised")
    confirmed = {"accuracy": "accuracy_standardised"}
    confirmed |= dict.fromkeys(("control_accuracy", "selectivity"), "control_accuracy_standardised")
    return tuple(replace(metric, confirmed_by=confirmed.get(metric.name, "")) for metric in kept)


class Scores:
    """Turns log-probabilities into rows and items."""

    def __init__(self, outcome: Outcome, rows: LabelledRows, split: str, controls: dict[str, Tensor] | None) -> None:
        """controls: per split (seeds, rows), labels of the control tasks; None where there are none."""
        self.outcome, self.rows, self.split, self.controls = outcome, rows, split, controls
        self.gold = rows.labels[split]
        self.accuracy: dict[tuple[int, int], float] = {}
        self.parts: list[dict[str, np.ndarray]] = []

    def fitted(self, layer: int, fit: Fit, ridge: float) -> None:
        for metric, value in (("objective", fit.objective[0]), ("optimality_gap", fit.gap[0])):
            if torch.isfinite(value):
                self.outcome.add(metric, float(value), layer=layer)
        self.outcome.add("l2", ridge, layer=layer)
        self.outcome.add("passes", fit.passes, layer=layer)

    def task(self, layer: int, log_p: Tensor) -> None:
        """log_p (seeds, rows, classes)."""
        for seed, mine in enumerate(log_p):
            accuracy = self.accuracy[layer, seed] = self._keep("task", layer, seed, mine, self.gold)
            self.outcome.add("accuracy", accuracy, layer=layer, probe_seed=seed, n=len(self.gold))
            self._per_label(layer, seed, mine.argmax(-1))

    def outliers(self) -> None:
        """How many units of every layer are outliers."""
        for layer, frame in enumerate(self.rows.frames):
            found = int(outlier_units(unit_sizes(replace(frame, scale=1.0))).sum())
            self.outcome.add("outlier_units", found, layer=layer, n=frame.width)

    def trained(self, layer: int, train: Tensor, dev: Tensor, converged: bool = True) -> None:
        """What was learnt, and whether the probe failed; log-probabilities (seeds, rows, classes) of both splits."""
        rows = self.rows
        learnt, read = (
            (log_p.argmax(-1) == rows.labels[split]).double().mean(-1)
            for split, log_p in (("train", train), ("dev", dev))
        )
        for seed, accuracy in enumerate(learnt.tolist()):
            self.outcome.add("train_accuracy", accuracy, layer=layer, probe_seed=seed, n=train.shape[1])
        more = failure(rows, layer, (float(learnt.mean()), float(read.mean())), converged)
        self.outcome.add("failed_probe", more, layer=layer, n=dev.shape[1])

    def standardised(self, layer: int, log_p: Tensor) -> None:
        """The task again, from standardised vectors; log_p (seeds, rows, classes)."""
        for seed, mine in enumerate(log_p):
            accuracy = self._keep("standardised", layer, seed, mine, self.gold)
            self.outcome.add("accuracy_standardised", accuracy, layer=layer, probe_seed=seed, n=len(self.gold))

    def control(self, layer: int, log_p: Tensor) -> None:
        """log_p (seeds, rows, classes)."""
        assert self.controls is not None
        for seed, (mine, labels) in enumerate(zip(log_p, self.controls[self.split], strict=True)):
            accuracy = self._keep("control", layer, seed, mine, labels)
            task = self.accuracy.get((layer, seed), self.accuracy[layer, 0])
            where = {"layer": layer, "probe_seed": seed, "n": len(labels)}
            self.outcome.add("control_accuracy", accuracy, **where)
            self.outcome.add("selectivity", task - accuracy, **where)

    def _per_label(self, layer: int, seed: int, predicted: Tensor) -> None:
        classes = len(self.rows.classes)
        known = self.gold >= 0
        if not known.any():
            no_label = "no label of the scored split occurs in train"
            self.outcome.absent |= dict.fromkeys(("recall", "precision", "f1"), no_label)
        gold_count = torch.bincount(self.gold[known], minlength=classes).double()
        predicted_count = torch.bincount(predicted, minlength=classes).double()
        hit = torch.bincount(self.gold[self.gold == predicted], minlength=classes).double()
        for index, label in enumerate(self.rows.classes):
            if gold_count[index] == 0:
                continue
            where = {"layer": layer, "probe_seed": seed, "label": label, "n": int(gold_count[index])}
            self.outcome.add("recall", hit[index] / gold_count[index], **where)
            self.outcome.add("precision", hit[index] / predicted_count[index].clamp(min=1), **where)
            self.outcome.add("f1", 2 * hit[index] / (gold_count[index] + predicted_count[index]), **where)

    def _keep(self, subset: str, layer: int, seed: int, log_p: Tensor, gold: Tensor) -> float:
        """The items of a probe, which are kept; their accuracy."""
        predicted = log_p.argmax(-1)
        right = predicted == gold
        of_gold = log_p.gather(-1, gold.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        rows = len(gold)
        self.parts.append(
            {
                "subset": np.full(rows, subset),
                "layer": np.full(rows, layer, dtype=np.int16),
                "probe_seed": np.full(rows, seed, dtype=np.int16),
                "row": np.arange(rows, dtype=np.int32),
                "gold": gold.numpy().astype(np.int32),
                "predicted": predicted.numpy().astype(np.int32),
                "correct": right.numpy(),
                "log_probability": torch.where(gold < 0, float("nan"), of_gold).numpy(),
            }
        )
        return float(right.double().mean())

    def items(self) -> dict[str, np.ndarray]:
        """The scored words with their sentence ids; labels by name."""
        columns = {name: np.concatenate([part[name] for part in self.parts]) for name in self.parts[0]}
        row = columns.pop("row")
        sentences, words = self.rows.places(self.split)
        names = np.array([*self.rows.classes, "(not in train)"], dtype=object)
        columns["gold"], columns["predicted"] = names[columns["gold"]], names[columns["predicted"]]
        return {"sentence": sentences[row], "word": words[row], **columns}
