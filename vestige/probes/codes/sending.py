"""Rows with a label each, of words or of sentences, in the order in which a code sends them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from vestige.corpus.control import control_labels
from vestige.corpus.types import Sentence, Task
from vestige.errors import AnalysisError
from vestige.probes.axes import on_principal_axes
from vestige.probes.codes.coders import Labelled
from vestige.probes.codes.online import Ordered, sending_order
from vestige.probes.problem import Features, standard
from vestige.representations.store import Representations, lost_words


@dataclass(frozen=True)
class LabelledRows:
    """Rows and labels of every split."""

    representations: Mapping[str, Representations]
    sentences: dict[str, Sequence[Sentence]]
    labels: dict[str, np.ndarray]
    """(rows,) class numbers; -1 for labels that train lacks."""
    classes: list[str]
    layers: list[Features]
    """Of train, each around its mean and at unit root mean square."""

    @classmethod
    def of(cls, task: Task, found: Mapping[str, Representations], model: str, principal: bool) -> "LabelledRows":
        """`principal`: rows on their principal axes."""
        names = {split: _names(task.labels(split), r.index) for split, r in found.items()}
        classes = sorted(set(names["train"]))
        if len(classes) < 2:
            raise AnalysisError(
                f"task {task.name!r} of corpus {task.corpus.name!r} has {len(classes)} label in train",
                fix="a code needs at least two labels: choose another task or more sentences",
            )
        number = {label: at for at, label in enumerate(classes)}
        labels = {split: np.array([number.get(x, -1) for x in row]) for split, row in names.items()}
        train = found["train"]
        layers = [standard(train.layer(at), f"{model}, layer {at}") for at in range(train.layers)]
        layers = [on_principal_axes(layer) for layer in layers] if principal else layers
        return cls(found, {split: task.corpus[split] for split in found}, labels, classes, layers)

    @property
    def train(self) -> Representations:
        return self.representations["train"]

    def remarks(self) -> Iterator[dict[str, Any]]:
        """Rows on words without a vector, and on labels that train lacks: not looked at in dev, missed where scored."""
        yield from lost_words(self.representations.values())
        for split, labels in self.labels.items():
            if unseen := int((labels < 0).sum()):
                yield {"metric": "unseen_labels", "value": unseen, "subset": split, "n": len(labels)}

    def features(self, split: str, layer: int) -> Features:
        return self.layers[layer].like(self.representations[split].layer(layer))


def _names(annotations: Sequence[Any], index: np.ndarray) -> list[str]:
    """The label of every row, of a word or (word number -1) of a sentence."""
    names = [annotations[s] if w < 0 else annotations[s][w] for s, w in index]
    if any(isinstance(name, float) for name in names):
        raise AnalysisError("labels are numbers on a scale", fix="a code length is of classes: choose such a task")
    return [str(name) for name in names]


@dataclass(frozen=True)
class Sent:
    """Train rows in the order in which they are sent, and the labellings that are: the task, and its control."""

    order: np.ndarray
    sentences: np.ndarray
    """Their numbers, in the order in which they are sent."""
    sizes: np.ndarray
    """Labels of every sentence, in the order in which they are sent."""
    labels: dict[str, Tensor]
    """By split (labellings, rows); train's in the order in which they are sent."""
    names: tuple[str, ...]

    @classmethod
    def of(cls, data: LabelledRows, seed: int, control: bool) -> "Sent":
        numbers = data.train.index[:, 0]
        sizes = np.bincount(numbers)
        read = np.flatnonzero(sizes)
        shuffled = read[sending_order([data.sentences["train"][s].id for s in read.tolist()], seed)]
        starts = np.cumsum(sizes) - sizes
        order = np.concatenate([np.arange(starts[s], starts[s] + sizes[s]) for s in shuffled])
        labels = {split: [mine] for split, mine in data.labels.items()}
        names: tuple[str, ...] = ("",)
        if control:
            names = ("", "control_")
            for split, mine in _control(data, seed).items():
                labels[split].append(mine)
        stacked = {split: torch.from_numpy(np.stack(mine)) for split, mine in labels.items()}
        stacked["train"] = stacked["train"][:, torch.from_numpy(order)]
        return cls(order, shuffled, sizes[shuffled], stacked, names)

    def labelled(self, data: LabelledRows, layer: int, budget: int) -> Labelled:
        """Train rows of a layer, in memory if they fit the budget."""
        rows = cast(np.ndarray, Ordered(data.train.layer(layer), self.order))
        return Labelled(data.layers[layer].like(rows).resident(budget), self.labels["train"])


def _control(data: LabelledRows, seed: int) -> dict[str, np.ndarray]:
    """A random class per word type, drawn from the task's own shares."""
    words = {
        split: [data.sentences[split][s].all_words[w] for s, w in r.index] for split, r in data.representations.items()
    }
    counts = np.bincount(data.labels["train"], minlength=len(data.classes))
    shares = dict(zip(data.classes, counts.tolist(), strict=True))
    drawn = control_labels(sorted({word for mine in words.values() for word in mine}), shares, seed)
    number = {label: at for at, label in enumerate(data.classes)}
    return {split: np.array([number[drawn[word]] for word in mine]) for split, mine in words.items()}
