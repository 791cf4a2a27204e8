"""Rows with a label each, of words or of sentences, in the order in which a code sends them."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from vestige.probes.codes.coders import Labelled
from vestige.probes.codes.online import Ordered, sending_order
from vestige.probes.problem import Features
from vestige.probes.rows import Frame, LabelledRows


@dataclass(frozen=True)
class Sent:
    """Train rows in the order in which they are sent, and the labellings that are: the task, and its control."""

    rows: LabelledRows
    frame: Frame
    """How probes read the rows."""
    order: np.ndarray
    ids: np.ndarray
    """Of the sentences, in the order in which they are sent."""
    sizes: np.ndarray
    """Labels of every sentence, in the order in which they are sent."""
    labels: dict[str, Tensor]
    """By split (labellings, rows); train's in the order in which they are sent."""
    names: tuple[str, ...]
    """With what the metrics of every labelling begin."""

    @classmethod
    def of(cls, rows: LabelledRows, seed: int, *, control: bool, frame: Frame) -> "Sent":
        sizes = np.bincount(rows.representations["train"].index[:, 0])
        read = np.flatnonzero(sizes)
        ids = np.array([rows.task.corpus["train"][number].id for number in read], dtype=object)
        shuffled = sending_order(ids.tolist(), seed)
        starts = np.cumsum(sizes) - sizes
        order = np.concatenate([np.arange(starts[s], starts[s] + sizes[s]) for s in read[shuffled]])
        labels = {split: mine[None] for split, mine in rows.labels.items()}
        if control:
            controls = rows.control_labels(1, first=seed)
            labels = {split: torch.cat([mine, controls[split]]) for split, mine in labels.items()}
        labels["train"] = labels["train"][:, torch.from_numpy(order)]
        names = ("", "control_") if control else ("",)
        return cls(rows, frame, order, ids[shuffled], sizes[read[shuffled]], labels, names)

    def labelled(self, layer: int, budget: int) -> Labelled:
        """Train rows of a layer, in memory if they fit the budget."""
        rows = cast(np.ndarray, Ordered(self.rows.representations["train"].layer(layer), self.order))
        return Labelled(self.rows.framed(rows, layer, self.frame).resident(budget), self.labels["train"])

    def features(self, split: str, layer: int) -> Features:
        """All rows of another split."""
        return self.rows.features(split, layer, self.frame)
