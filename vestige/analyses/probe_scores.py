"""What probes of layers are given and what is kept of them: rows in a frame, accuracies, failures, scored items."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vestige.analyses.base import Outcome
from vestige.analyses.failed_probe import failure
from vestige.analyses.rows import WordRows
from vestige.corpus.types import Task
from vestige.probes.axes import on_principal_axes
from vestige.probes.problem import Features, Fit, Scale, outlier_units, standard, unit_sizes
from vestige.representations.store import Representations

Frame = Literal["raw", "standard", "principal"]
"""How probes read the rows of a layer: as they are; around their mean at unit scale; that, on their principal axes."""


@dataclass(frozen=True)
class Data:
    """Rows of every split, and how those of every layer are centred and scaled."""

    rows: WordRows
    frames: list[Features]
    """Of train, a layer each."""

    @classmethod
    def of(cls, rows: WordRows, model: str, by: Scale = "layer") -> "Data":
        train = rows.representations["train"]
        return cls(rows, [standard(train.layer(at), f"{model}, layer {at}", by) for at in range(train.layers)])

    @property
    def representations(self) -> dict[str, Representations]:
        return self.rows.representations

    @property
    def words(self) -> dict[str, list[str]]:
        return self.rows.words

    @property
    def labels(self) -> dict[str, Tensor]:
        return self.rows.labels

    @property
    def classes(self) -> list[str]:
        return self.rows.classes

    @property
    def layers(self) -> int:
        return self.representations["train"].layers

    def features(self, split: str, layer: int, frame: Frame = "standard") -> Features:
        """Rows around the mean of train and at unit root mean square, unless asked for otherwise."""
        rows = self.representations[split].layer(layer)
        if frame == "raw":
            return Features(rows)
        return (self.frames[layer] if frame == "standard" else self._principal[layer]).like(rows)

    def layer_features(self, split: str, layers: range, frame: Frame) -> list[Features]:
        return [self.features(split, layer, frame) for layer in layers]

    @cached_property
    def _principal(self) -> list[Features]:
        return [on_principal_axes(frame) for frame in self.frames]


class Scores:
    """Turns log-probabilities into rows and items."""

    def __init__(self, outcome: Outcome, data: Data, split: str) -> None:
        self.outcome, self.data, self.split = outcome, data, split
        self.gold = data.labels[split]
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
            predicted = mine.argmax(-1)
            accuracy = float((predicted == self.gold).double().mean())
            self.accuracy[layer, seed] = accuracy
            self.outcome.add("accuracy", accuracy, layer=layer, probe_seed=seed, n=len(self.gold))
            self._per_label(layer, seed, predicted)
            self._keep("task", layer, seed, mine, self.gold)

    def outliers(self) -> None:
        """How many units of every layer are outliers, of which there are any."""
        for layer, frame in enumerate(self.data.frames):
            if found := int(outlier_units(unit_sizes(replace(frame, scale=1.0))).sum()):
                self.outcome.add("outlier_units", found, layer=layer, n=frame.width)

    def trained(self, layer: int, train: Tensor, dev: Tensor, converged: bool = True) -> None:
        """What was learnt, and whether the probe failed; log-probabilities (seeds, rows, classes) of both splits."""
        data = self.data
        learnt, read = (
            (log_p.argmax(-1) == data.labels[split]).double().mean(-1)
            for split, log_p in (("train", train), ("dev", dev))
        )
        for seed, accuracy in enumerate(learnt.tolist()):
            self.outcome.add("train_accuracy", accuracy, layer=layer, probe_seed=seed, n=train.shape[1])
        frames = data.features("train", layer), data.features("dev", layer)
        more = failure(data.rows, frames, (float(learnt.mean()), float(read.mean())), converged)
        if more is not None:
            self.outcome.add("failed_probe", more, layer=layer, n=dev.shape[1])

    def standardised(self, layer: int, log_p: Tensor) -> None:
        """The task again, from standardised vectors; log_p (seeds, rows, classes)."""
        for seed, mine in enumerate(log_p):
            accuracy = float((mine.argmax(-1) == self.gold).double().mean())
            self.outcome.add("accuracy_standardised", accuracy, layer=layer, probe_seed=seed, n=len(self.gold))
            self._keep("standardised", layer, seed, mine, self.gold)

    def control(self, layer: int, log_p: Tensor, gold: Tensor) -> None:
        """log_p (seeds, rows, classes), gold (seeds, rows)."""
        for seed, (mine, labels) in enumerate(zip(log_p, gold, strict=True)):
            accuracy = float((mine.argmax(-1) == labels).double().mean())
            task = self.accuracy.get((layer, seed), self.accuracy[layer, 0])
            where = {"layer": layer, "probe_seed": seed, "n": len(labels)}
            self.outcome.add("control_accuracy", accuracy, **where)
            self.outcome.add("selectivity", task - accuracy, **where)
            self._keep("control", layer, seed, mine, labels)

    def _per_label(self, layer: int, seed: int, predicted: Tensor) -> None:
        classes = len(self.data.classes)
        known = self.gold >= 0
        gold_count = torch.bincount(self.gold[known], minlength=classes).double()
        predicted_count = torch.bincount(predicted, minlength=classes).double()
        hit = torch.bincount(self.gold[self.gold == predicted], minlength=classes).double()
        for index, label in enumerate(self.data.classes):
            if gold_count[index] == 0:
                continue
            where = {"layer": layer, "probe_seed": seed, "label": label, "n": int(gold_count[index])}
            self.outcome.add("recall", hit[index] / gold_count[index], **where)
            self.outcome.add("precision", hit[index] / predicted_count[index].clamp(min=1), **where)
            self.outcome.add("f1", 2 * hit[index] / (gold_count[index] + predicted_count[index]), **where)

    def _keep(self, subset: str, layer: int, seed: int, log_p: Tensor, gold: Tensor) -> None:
        predicted = log_p.argmax(-1)
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
                "correct": (predicted == gold).numpy(),
                "log_probability": torch.where(gold < 0, float("nan"), of_gold).numpy(),
            }
        )

    def items(self, task: Task) -> dict[str, np.ndarray]:
        """The scored words with their sentence ids; labels by name."""
        columns = {name: np.concatenate([part[name] for part in self.parts]) for name in self.parts[0]}
        row = columns.pop("row")
        sentences, words = self.data.rows.places(task, self.split)
        names = np.array([*self.data.classes, "(not in train)"], dtype=object)
        columns["gold"], columns["predicted"] = names[columns["gold"]], names[columns["predicted"]]
        return {"sentence": sentences[row], "word": words[row], **columns}
