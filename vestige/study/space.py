"""Hidden states on disk: under a limit, they are dropped when no step needs them, and made again if one does."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vestige.study.steps.extract import Extract, folder_size
from vestige.study.steps.step import Step


@dataclass
class Space:
    """What the hidden states of a study may take on disk; without a limit, nothing is dropped."""

    limit: int | None
    extracts: Mapping[str, Extract]
    reserved: dict[str, int] = field(default_factory=dict)
    """By key, bytes of steps that are being made."""

    @classmethod
    def of(cls, steps: Mapping[str, Step], limit: int | None) -> "Space":
        return cls(limit, {key: step for key, step in steps.items() if isinstance(step, Extract)})

    def used(self) -> int:
        """Bytes on disk, and those that running steps are going to write."""
        idle = {folder for key, step in self.extracts.items() if key not in self.reserved for folder in step.vectors}
        return sum(map(folder_size, idle)) + sum(self.reserved.values())

    def admits(self, step: Step) -> bool:
        """Whether a step may be started now; if so, its bytes are reserved."""
        if self.limit is None or not isinstance(step, Extract):
            return True
        size = step.size()
        if self.used() + size > self.limit:
            return False
        self.reserved[step.key] = size
        return True

    def ended(self, step: Step) -> None:
        """A step is no longer running."""
        self.reserved.pop(step.key, None)

    def drop(self, keys: Iterable[str]) -> list[Extract]:
        """Drop the hidden states of these steps; which of them had any.

        Corpora of the same words, as a treebank and the arcs of its trees, share their hidden states: what is also
        another step's stays.
        """
        if self.limit is None:
            return []
        found = {key: self.extracts[key] for key in keys if key in self.extracts and key not in self.reserved}
        shared = {folder for key, step in self.extracts.items() if key not in found for folder in step.vectors}
        return [step for step in found.values() if step.drop(shared)]

    def size(self, step: Step) -> int:
        """Bytes of the hidden states that a step makes."""
        return step.size() if isinstance(step, Extract) else 0

    def at_once(self, step: Step) -> int:
        """Bytes of all hidden states that a step reads."""
        return sum(self.extracts[key].size() for key in step.inputs if key in self.extracts)
