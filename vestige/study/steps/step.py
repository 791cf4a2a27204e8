"""What a step is: a name, the steps it reads, the folder it leaves, and one method that makes it."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from vestige.cache import give_up, whole
from vestige.models.encoders.encoder import Encoder

Memory = Mapping[str, Encoder]
"""By name, models that no other process can load."""


@dataclass(frozen=True, kw_only=True)
class Step(ABC):
    """Everything another process needs to compute it; plain JSON."""

    kind: ClassVar[str]
    """load, tune, extract, analyse or compare."""
    key: str
    """Content hash of what goes into it; names of models and folders play no role."""
    cache: str
    inputs: tuple[str, ...] = ()
    """Keys of the steps whose results it reads."""
    threads: int = 1
    device: str = "cpu"
    stays_here: bool = False
    """Whether only the process that was handed a model can run it."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The step in words."""

    @property
    @abstractmethod
    def about(self) -> set[str]:
        """Names of models, corpora and analyses that it has to do with."""

    @property
    @abstractmethod
    def folder(self) -> Path:
        """What it leaves; there and whole when it is done."""

    @property
    def done(self) -> bool:
        """Whether its result is there and whole."""
        return whole(self.folder)

    @property
    def there(self) -> bool:
        """Whether all that steps after it read is there: more than `done` where hidden states may be dropped."""
        return self.done

    @property
    def reads_states(self) -> bool:
        """Whether it reads hidden states that other steps have left."""
        return False

    @property
    def root(self) -> Path:
        """Of the cache."""
        return Path(self.cache)

    @abstractmethod
    def make(self, memory: Memory) -> None:
        """Compute it and put the result into place."""

    def check(self) -> list[str]:
        """What is wrong with all that it has left, which is made again from then on; empty if nothing is."""
        return [f"{folder}: {found}" for folder in self.leaves if (found := give_up(folder))]

    @property
    def leaves(self) -> list[Path]:
        """Every artefact that it has left."""
        return [self.folder]

    def to_json(self) -> str:
        """What `restore` makes it from, in another process."""
        return json.dumps({"kind": self.kind, **asdict(self)})


def restore(text: str) -> Step:
    """The step that `to_json` wrote."""
    from vestige.study.steps.analyse import Cell, Side
    from vestige.study.steps.compare import Compare
    from vestige.study.steps.extract import Extract
    from vestige.study.steps.load import Load
    from vestige.study.steps.origin import Origin
    from vestige.study.steps.tune import Tune

    kinds: dict[str, type[Step]] = {kind.kind: kind for kind in (Load, Tune, Extract, Cell, Compare)}
    parts: dict[str, Any] = {"origin": Origin, "side": Side.restore, "reference": Side.restore}
    plain = json.loads(text)
    kind = kinds[plain.pop("kind")]
    plain["inputs"] = tuple(plain["inputs"])
    for name, made in parts.items():
        if plain.get(name) is not None:
            plain[name] = made(**plain[name])
    if "base" in plain and kind is Compare:
        plain["base"] = _cell(plain["base"])
        plain |= {name: tuple(map(_cell, plain[name])) for name in ("tuned", "outside")}
    return kind(**plain)


def _cell(plain: dict[str, Any]) -> Step:
    return restore(json.dumps({"kind": "analyse", **plain}))
