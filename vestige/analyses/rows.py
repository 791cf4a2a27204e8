"""What word-level analyses ask of their inputs: the word, the label and the class of every row; and its neurons."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from vestige.analyses.base import Inputs
from vestige.neurons.matrix import Neurons
from vestige.neurons.minimal import Subset
from vestige.probes.problem import Scale
from vestige.probes.rows import LabelledRows, Place


def labelled_rows(inputs: Inputs, scored: str, scale: Scale = "layer") -> LabelledRows:
    """Train, dev and the split that is scored."""
    representations = {split: inputs.split(split) for split in dict.fromkeys(("train", "dev", scored))}
    return LabelledRows.of(inputs.task, representations, inputs.model, scale)


@dataclass(frozen=True)
class NeuronRows:
    """Rows and labels with the neurons of all layers side by side, by split."""

    rows: LabelledRows
    neurons: Mapping[str, Neurons]
    split: str
    """The one that is scored."""
    right: dict[Place, np.ndarray] = field(default_factory=dict)
    """By probe, which rows of the scored split it gets right."""

    @classmethod
    def of(cls, inputs: Inputs, scored: str) -> "NeuronRows":
        """Train, dev and the split that is scored."""
        rows = labelled_rows(inputs, scored)
        return cls(rows, {split: Neurons.of(found) for split, found in rows.representations.items()}, scored)

    @property
    def train(self) -> Neurons:
        return self.neurons["train"]

    @property
    def dev(self) -> Neurons:
        return self.neurons["dev"]

    @property
    def held(self) -> Neurons:
        return self.neurons[self.split]

    @property
    def gold(self) -> Tensor:
        return self.rows.labels["train"]

    @property
    def count(self) -> int:
        """How many labels there are."""
        return len(self.rows.classes)

    def labels(self, split: str) -> np.ndarray:
        return self.rows.labels[split].numpy()

    def score(self, probe: Subset, place: Place) -> float:
        """Accuracy on the scored split; which rows were right is kept."""
        self.right[place] = probe.predict(self.held) == self.labels(self.split)
        return float(self.right[place].mean())
