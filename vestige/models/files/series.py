"""Checkpoints of one training run, or revisions of one hub model, as one object with a step axis."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vestige.errors import ModelError
from vestige.models.encoders.encoder import Encoder
from vestige.models.files.load import load_model


@dataclass(frozen=True)
class Checkpoints:
    """Where each step's model is to be had: a folder, or a hub id with its revision."""

    source: str
    places: Mapping[int, tuple[str, str | None]]

    def __repr__(self) -> str:
        """Where from, and which steps."""
        return f"Checkpoints({self.source!r}: {len(self.steps)} steps, {self.steps[0]} to {self.steps[-1]})"

    @property
    def steps(self) -> list[int]:
        """The steps, ascending."""
        return sorted(self.places)

    def load(self, step: int, **options: Any) -> Encoder:
        """The model at a step."""
        if step not in self.places:
            raise ModelError(f"{self.source} has no step {step}", fix=f"its steps: {', '.join(map(str, self.steps))}")
        source, revision = self.places[step]
        return load_model(source, revision=revision, **{"name": f"{self.source}@{step}", **options})

    def __iter__(self) -> Iterator[tuple[int, Encoder]]:
        """Steps and models in order, one model in memory at a time."""
        return ((step, self.load(step)) for step in self.steps)


def find_checkpoints(source: str | Path, revisions: Mapping[int, str] | Sequence[str] | None = None) -> Checkpoints:
    """The folders `checkpoint-<step>` below `source`, or the `revisions` of a hub model.

    Revisions are given by step, or as names that hold the step (`step1000-tokens4B`, `1000-main`).
    """
    if revisions is not None:
        by_step = revisions if isinstance(revisions, Mapping) else {_step(str(name)): str(name) for name in revisions}
        if len(by_step) != len(revisions):
            raise ModelError(f"{source}: two revisions have the same step", fix="give them by step: {1000: name, ...}")
        return Checkpoints(str(source), {int(step): (str(source), name) for step, name in by_step.items()})
    folder = Path(source)
    folders = [path for path in folder.glob("checkpoint-*") if _is_checkpoint(path)]
    found = {int(path.name.rpartition("-")[2]): path for path in folders}
    if len(found) != len(folders):
        raise ModelError(f"{folder}: two folders have the same step", fix="take one of them away")
    if not found:
        raise ModelError(
            f"{folder}: no folders checkpoint-<step>, as transformers' Trainer writes them",
            fix="name the output folder of a training run, or give revisions of a hub model",
        )
    return Checkpoints(str(source), {step: (str(path), None) for step, path in found.items()})


def _is_checkpoint(path: Path) -> bool:
    return path.is_dir() and re.fullmatch(r"checkpoint-\d+", path.name) is not None


def _step(name: str) -> int:
    numbers = re.findall(r"step[-_]?(\d+)", name) or re.findall(r"\d+", name)
    if len(numbers) != 1:
        raise ModelError(
            f"the revision {name!r} does not say its step", fix="give revisions by step: {1000: name, ...}"
        )
    return int(numbers[0])
