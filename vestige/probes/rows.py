"""Rows with a label each, of words or of sentences: what probes are trained and scored on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vestige.corpus.control import control_labels
from vestige.corpus.types import Sentence, Task
from vestige.errors import AnalysisError
from vestige.probes.axes import on_principal_axes
from vestige.probes.problem import Features, Scale, standard
from vestige.representations.store import Representations

Frame = Literal["raw", "standard", "principal"]
"""How probes read the rows of a layer: as they are; around their mean at unit scale; that, on their principal axes."""


class Place(NamedTuple):
    """Where a probe's numbers and items lie, in the columns of `vestige.analyses.schema`."""

    subset: str | None = None
    side: str | None = None
    axis: str | None = None
    x: float | None = None
    layer: int | None = None
    input: str | None = None

    @property
    def where(self) -> dict[str, Any]:
        """The columns that are used."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def place_columns(places: Sequence[Place], repeats: int | Sequence[int]) -> dict[str, np.ndarray]:
    """The columns that any of the places uses, each value repeated; what is not used is missing."""
    numbers = {"x": float, "layer": float if any(place.layer is None for place in places) else np.int16}
    columns = {name: [getattr(place, name) for place in places] for name in Place._fields}
    return {
        name: np.repeat(np.array(values, dtype=numbers.get(name, object)), repeats)
        for name, values in columns.items()
        if any(value is not None for value in values)
    }


@dataclass(frozen=True)
class LabelledRows:
    """Labels and types of every row, by split."""

    task: Task
    model: str
    """Its name, for errors."""
    representations: Mapping[str, Representations]
    types: dict[str, list[str]]
    """What a control task gives a label to: the word of a row, or a type of its sentence."""
    labels: dict[str, Tensor]
    """(rows,) class numbers; -1 for labels that train lacks."""
    classes: list[str]
    scale: Scale = "layer"
    """How the rows of a layer are scaled for probes that read them around their mean."""

    @classmethod
    def of(
        cls,
        task: Task,
        representations: Mapping[str, Representations],
        model: str,
        scale: Scale = "layer",
        types: dict[str, list[str]] | None = None,
    ) -> "LabelledRows":
        """Of the splits given, train among them; the types are the words unless others are given."""
        names = {split: _names(task, split, found.index) for split, found in representations.items()}
        classes = sorted(set(names["train"]))
        if len(classes) < 2:
            raise AnalysisError(
                f"task {task.name!r} of corpus {task.corpus.name!r} has "
                f"{'only the label ' + repr(classes[0]) if classes else 'no label'} in train",
                fix="a probe needs at least two labels: choose another task or more sentences",
            )
        number = {label: index for index, label in enumerate(classes)}
        labels = {split: torch.tensor([number.get(x, -1) for x in row]) for split, row in names.items()}
        if types is None:
            types = {split: _words(task.corpus[split], found.index) for split, found in representations.items()}
        return cls(task, model, representations, types, labels, classes, scale)

    @property
    def layers(self) -> int:
        return self.representations["train"].layers

    @cached_property
    def frames(self) -> list[Features]:
        """Train, a layer each, around its mean and at unit root mean square."""
        train = self.representations["train"]
        return [standard(train.layer(at), f"{self.model}, layer {at}", self.scale) for at in range(self.layers)]

    @cached_property
    def _principal(self) -> list[Features]:
        return [on_principal_axes(frame) for frame in self.frames]

    def framed(self, array: np.ndarray, layer: int, frame: Frame = "standard") -> Features:
        """Some rows of a layer around the mean of train and at unit root mean square, unless asked for otherwise."""
        if frame == "raw":
            return Features(array)
        return (self.frames if frame == "standard" else self._principal)[layer].like(array)

    def features(self, split: str, layer: int, frame: Frame = "standard") -> Features:
        """All rows of a split, as `framed`."""
        return self.framed(self.representations[split].layer(layer), layer, frame)

    def layer_features(self, split: str, layers: range, frame: Frame) -> list[Features]:
        return [self.features(split, layer, frame) for layer in layers]

    def control_labels(self, seeds: int, first: int = 0) -> dict[str, Tensor]:
        """Per split (seeds, rows): a random class per type, drawn from the task's own shares; seeds from `first` on."""
        types = sorted({one for mine in self.types.values() for one in mine})
        number = {label: index for index, label in enumerate(self.classes)}
        shares = Counter(self.classes[label] for label in self.labels["train"].tolist())
        drawn = [control_labels(types, shares, seed) for seed in range(first, first + seeds)]
        return {
            split: torch.tensor([[number[labels[one]] for one in mine] for labels in drawn])
            for split, mine in self.types.items()
        }

    def places(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """Sentence id and word number of every row of a split."""
        index = self.representations[split].index
        ids = np.array([sentence.id for sentence in self.task.corpus[split]], dtype=object)
        return ids[index[:, 0]], index[:, 1]

    def items(self, split: str, *right: Mapping[Place, np.ndarray]) -> dict[str, np.ndarray]:
        """Every row of a split under every probe; `right`, one a probe seed, says by place which rows are correct."""
        sentences, words = self.places(split)
        probes = [(place, seed, correct) for seed, mine in enumerate(right) for place, correct in mine.items()]

        return {
            "sentence": np.tile(sentences, len(probes)),
            "word": np.tile(words, len(probes)),
            **place_columns([place for place, _, _ in probes], len(words)),
            "probe_seed": np.repeat(np.array([seed for _, seed, _ in probes], dtype=np.int16), len(words)),
            "correct": np.concatenate([correct for _, _, correct in probes]),
        }


def _names(task: Task, split: str, index: np.ndarray) -> list[str]:
    """The label of every row, of a word or (word number -1) of a sentence; each a text."""
    labels, sentences = task.labels(split), task.corpus[split]
    names = [labels[s] if w < 0 else labels[s][w] for s, w in index]
    for name, (s, _) in zip(names, index, strict=True):
        if not isinstance(name, str):
            raise AnalysisError(
                f"task {task.name!r}, {sentences[s].source or f'sentence {sentences[s].id}'}: the label {name!r} is no "
                "class",
                fix="a probe predicts classes: choose a task whose labels are names",
            )
    return names


def _words(sentences: Sequence[Sentence], index: np.ndarray) -> list[str]:
    """The word of every row; of a sentence all of them."""
    return [sentences[s].text if w < 0 else sentences[s].all_words[w] for s, w in index]
