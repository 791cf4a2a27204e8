"""What word-level analyses ask of their inputs: the word, the label and the class of every row."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.analyses.base import Inputs
from vestige.corpus.control import control_labels
from vestige.corpus.types import Task
from vestige.errors import AnalysisError
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

    def items(self, task: Task, split: str, right: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Every word of a split under every probe of `right`, which says by name which rows are correct."""
        sentences, words = self.places(task, split)
        return {
            "sentence": np.tile(sentences, len(right)),
            "word": np.tile(words, len(right)),
            "subset": np.repeat(np.array(list(right), dtype=object), len(words)),
            "correct": np.concatenate(list(right.values())),
        }


def _labels_of_rows(task: Task, split: str, representations: Representations) -> list[str]:
    labels = task.labels(split)
    return [labels[sentence][word] for sentence, word in representations.index]


def _words_of_rows(task: Task, split: str, representations: Representations) -> list[str]:
    sentences: Sequence = task.corpus[split]
    return [sentences[sentence].all_words[word] for sentence, word in representations.index]
