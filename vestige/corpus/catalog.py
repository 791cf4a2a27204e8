"""The catalog: one YAML file per known corpus, saying what it holds, where it lies and how to get it.

A corpus is looked for in the folder that the environment variable VESTIGE_DATA names, then in
`corpora/` of the cache; one that has an id on the Hugging Face hub is fetched from there.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from vestige.cache import cache_folder
from vestige.corpus.types import Level
from vestige.errors import CorpusError

_HERE = files("vestige.corpus")


@dataclass(frozen=True)
class Entry:
    """What is known of one corpus; the fields are the keys of its YAML file."""

    name: str
    """The file's name."""
    title: str
    tasks: Mapping[str, Level]
    format: str
    files: Mapping[str, Any] | str
    """By split, relative to `folder`; a single path where one file or archive holds every split."""
    licence: str
    citation: str
    get: str
    """How a person gets it: where from, what to sign, what to unpack."""
    folder: str = ""
    """Below a data root; the corpus' own name unless said otherwise."""
    options: Mapping[str, Any] = field(default_factory=dict)
    hub: Mapping[str, Any] | None = None
    """`id` on the Hugging Face hub, and the options of `readers.hub.read_hub`."""
    restricted: bool = False
    """Needs a licence or a signature, so no program may fetch it."""
    builtin: bool = False
    papers: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    """Sentences or examples by split, as published."""

    def root(self) -> Path | None:
        """The folder here that holds most of its splits, if there is one with any."""
        best = max(self.roots(), key=lambda root: len(self.present(root)))
        return best if self.present(best) else None

    def present(self, root: Path) -> list[str]:
        """The splits whose files are all in the folder (one that is called "all" for a single file)."""
        return [split for split, paths in self._paths().items() if all((root / path).exists() for path in paths)]

    def absent(self, root: Path) -> dict[str, list[str]]:
        """The other splits, with their files."""
        present = self.present(root)
        return {split: paths for split, paths in self._paths().items() if split not in present}

    def roots(self) -> list[Path]:
        """Where its files are looked for, first place first."""
        folder = self.folder or self.name
        if self.builtin:
            return [Path(str(_HERE / "builtin" / folder))]
        named = os.environ.get("VESTIGE_DATA")
        return [*([Path(named) / folder] if named else []), cache_folder() / "corpora" / folder]

    def sources(self, root: Path) -> Any:
        """What the reader is given: the path, or those of the splits that are in the folder."""
        if isinstance(self.files, str):
            return root / self.files
        return {
            split: root / item if isinstance(item, str) else [root / path for path in item]
            for split, item in self.files.items()
            if split in self.present(root)
        }

    def missing(self, fetching: CorpusError | None = None) -> CorpusError:
        """The error for a corpus that is not here, and that could not be fetched."""
        places = self.roots()
        files = [p[0] if len(p) == 1 else f"{p[0]} to {p[-1]}" for p in self._paths().values()]
        problem = (
            f"the corpus {self.name!r} ({self.title}) is not on this machine: expected {', '.join(files)} "
            f"in {' or '.join(map(str, places))}"
        )
        named = "" if len(places) > 1 else f", or into {self.folder or self.name} of a folder that VESTIGE_DATA names"
        fix = f"{self.get.strip()} Put the files into {places[0]}{named}."
        if fetching is None:
            return CorpusError(problem, fix=fix)
        return CorpusError(f"{problem}; {fetching.problem}", fix=f"{fix} Or: {fetching.fix}")

    def _paths(self) -> dict[str, list[str]]:
        by_split = {"all": self.files} if isinstance(self.files, str) else self.files
        return {split: [item] if isinstance(item, str) else list(item) for split, item in by_split.items()}


def find_entry(name: str) -> Entry | None:
    """The corpus called `name`, if the catalog has it."""
    named = len(name) < 100 and name.replace("_", "").replace("-", "").isalnum()
    return _read(name) if named and (_HERE / "catalog" / f"{name}.yaml").is_file() else None


def entries() -> list[Entry]:
    """All of the catalog: built-in corpora first, then by name."""
    names = (path.name.removesuffix(".yaml") for path in (_HERE / "catalog").iterdir() if path.name.endswith(".yaml"))
    return sorted((_read(name) for name in names), key=lambda entry: (not entry.builtin, entry.name))


@cache
def _read(name: str) -> Entry:
    raw = yaml.safe_load((_HERE / "catalog" / f"{name}.yaml").read_text(encoding="utf-8"))
    return Entry(name=name, **{**raw, "papers": tuple(raw.get("papers", ()))})
