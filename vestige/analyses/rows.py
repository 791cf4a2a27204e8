"""What word-level analyses ask of their inputs: the word, the label and the class of every row; and its neurons."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from vestige.analyses.base import Inputs
from vestige.corpus.control import control_labels
from vestige.corpus.types import Task
from vestige.errors import AnalysisError
from vestige.neurons.matrix import Neurons
from vestige.neurons.minimal import Subset
from vestige.representations.store import Representations


@dataclass(frozen=True)
class WordRows:
    """Labels and word types of every row, by split."""

    representations: dict[str, Representations]
    words: dict[str, list[str]]
    labels: dict[str, Tensor]
    """(rows,) class numbers; -1 for labels that train lacks."""
    classes: list[str]

    @classmethod
    def of(cls, inputs: Inputs, scored: str) -> "WordRows":
        """Train, dev and the split that is scored."""
        representations = {split: inputs.split(split) for split in dict.fromkeys(("train", "dev", scored))}
        names = {split: _labels_of_rows(inputs.task, split, r) for split, r in representations.items()}
        words = {split: _words_of_rows(inputs.task, split, r) for split, r in representations.items()}
        classes = sorted(set(names["train"]))
        if len(classes) < 2:
            raise AnalysisError(
                f"task {inputs.task.name!r} of corpus {inputs.task.corpus.name!r} has "
                f"{'only the label ' + repr(classes[0]) if classes else 'no label'} in train",
                fix="a probe needs at least two labels: choose another task or more sentences",
            )
        number = {label: index for index, label in enumerate(classes)}
        labels = {split: torch.tensor([number.get(x, -1) for x in row]) for split, row in names.items()}
        return cls(representations, words, labels, classes)

    def control_labels(self, seeds: int) -> dict[str, Tensor]:
        """Per split (seeds, rows): a random class per word type, drawn from the task's own shares."""
        types = sorted({word for words in self.words.values() for word in words})
        number = {label: index for index, label in enumerate(self.classes)}
        shares = Counter(self.classes[label] for label in self.labels["train"].tolist())
        drawn = [control_labels(types, shares, seed) for seed in range(seeds)]
        return {
            split: torch.tensor([[number[labels[word]] for word in words] for labels in drawn])
            for split, words in self.words.items()
        }

    def places(self, task: Task, split: str) -> tuple[np.ndarray, np.ndarray]:
        """Sentence id and word number of every row of a split."""
        index = self.representations[split].index
        ids = np.array([sentence.id for sentence in task.corpus[split]], dtype=object)
        return ids[index[:, 0]], index[:, 1]

    def items(self, task: Task, split: str, *right: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Every word of a split under every probe; `right`, one a probe seed, says by name which rows are correct."""
        sentences, words = self.places(task, split)
        names = [name for of_seed in right for name in of_seed]
        seeds = [seed for seed, of_seed in enumerate(right) for _ in of_seed]
        return {
            "sentence": np.tile(sentences, len(names)),
            "word": np.tile(words, len(names)),
            "subset": np.repeat(np.array(names, dtype=object), len(words)),
            "probe_seed": np.repeat(np.array(seeds, dtype=np.int16), len(words)),
            "correct": np.concatenate([correct for of_seed in right for correct in of_seed.values()]),
        }


@dataclass(frozen=True)
class NeuronRows:
    """Rows and labels with the neurons of all layers side by side, by split."""

    rows: WordRows
    neurons: Mapping[str, Neurons]
    split: str
    """The one that is scored."""
    right: dict[str, np.ndarray] = field(default_factory=dict)
    """By probe, which rows of the scored split it gets right."""

    @classmethod
    def of(cls, inputs: Inputs, scored: str) -> "NeuronRows":
        """Train, dev and the split that is scored."""
        rows = WordRows.of(inputs, scored)
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

    def score(self, probe: Subset, subset: str) -> float:
        """Accuracy on the scored split; which rows were right is kept."""
        self.right[subset] = probe.predict(self.held) == self.labels(self.split)
        return float(self.right[subset].mean())


def _labels_of_rows(task: Task, split: str, representations: Representations) -> list[str]:
    labels = task.labels(split)
    return [labels[sentence][word] for sentence, word in representations.index]


def _words_of_rows(task: Task, split: str, representations: Representations) -> list[str]:
    sentences: Sequence = task.corpus[split]
    return [sentences[sentence].all_words[word] for sentence, word in representations.index]
