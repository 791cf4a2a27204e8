"""Representations on disk: one memory-mapped array per layer, an index of rows, a manifest.

The folder is written by `vestige.cache.writing`: what is there is complete, and every file is compared with its
checksum when it is first read.
"""

import json
import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from vestige.cache import demand, whole

FORMAT = 4
"""Raised whenever the layout of the folder or the meaning of its numbers changes."""
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Representations:
    """Vectors of one pooling of one list of sentences, at every layer."""

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> "Representations":
        """Open a folder that `writing` has finished."""
        demand(folder, MANIFEST)
        return cls(folder, json.loads((folder / MANIFEST).read_text()))

    def __repr__(self) -> str:
        """Of which model, how many vectors of what width at how many layers."""
        about = self.manifest
        whose = f"{about['model']!r}: " if "model" in about else ""
        pooling = f"{about['pooling']} pooling" if "pooling" in about else "vectors"
        widths = " or ".join(map(str, sorted({*self.widths})))
        return f"Representations({whose}{pooling}, {len(self)} rows of {self.layers} layers x {widths})"

    @property
    def layers(self) -> int:
        """How many layers there are, embeddings included."""
        return len(self.manifest["widths"])

    @property
    def widths(self) -> list[int]:
        """Width of every layer."""
        return self.manifest["widths"]

    @property
    def width_groups(self) -> list[range]:
        """Runs of neighbouring layers of equal width."""
        widths = self.widths
        cuts = [0, *(i for i in range(1, len(widths)) if widths[i] != widths[i - 1]), len(widths)]
        return [range(first, last) for first, last in pairwise(cuts)]

    def layer(self, index: int) -> np.ndarray:
        """The vectors of one layer, (rows, width), memory-mapped and read-only."""
        return np.load(self._checked(f"layer{index:02d}.npy"), mmap_mode="r")

    @cached_property
    def index(self) -> np.ndarray:
        """Per row (sentence number, word number); the word number is -1 for sentence vectors."""
        return np.load(self._checked("index.npy"))

    def _checked(self, file: str) -> Path:
        demand(self.folder, file)
        return self.folder / file

    def __len__(self) -> int:
        return self.manifest["rows"]


def stored(folder: Path) -> bool:
    """Whether the representations are there and, as far as their names, sizes and manifest show, whole.

    Layers can be large: they are compared when they are read.
    """
    return whole(folder, lambda name: name == MANIFEST)


_LOST = {
    "truncated_words": "words",
    "vanished_words": "words",
    "sink_words": "words",
    "unknown_tokens": "word_tokens",
}
"""What is counted, and among what."""


def lost_words(splits: Iterable[Representations]) -> Iterator[dict[str, Any]]:
    """Results on words that have no vector of their own, and on unknown tokens, over all splits."""
    found = [split.manifest for split in splits]
    for metric, among in _LOST.items():
        yield {"metric": metric, "value": sum(m[metric] for m in found), "n": sum(m[among] for m in found)}


def row_blocks(rows: int, size: int) -> Iterator[slice]:
    """All rows in order, `size` at a time: how matrices that may be larger than memory are read."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def expect(array: np.ndarray, span: slice) -> None:
    """Tell the system that these rows of a mapped array are read next, and not what lies around them.

    Otherwise a read from disk takes along up to thirty times what is asked for.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is None or not hasattr(mapped, "madvise") or not hasattr(mmap, "MADV_RANDOM"):
        return
    rows = array[span]
    start = rows.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    mapped.madvise(mmap.MADV_RANDOM)
    if rows.nbytes:
        mapped.madvise(mmap.MADV_WILLNEED, first, start + rows.nbytes - first)


def create_layers(folder: Path, rows: int, widths: tuple[int, ...], dtype: str) -> list[np.memmap]:
    """Empty arrays on disk, one per layer; the space is claimed now, so a full disk shows at once."""
    arrays = []
    for layer, width in enumerate(widths):
        path = folder / f"layer{layer:02d}.npy"
        array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(rows, width))
        if rows and hasattr(os, "posix_fallocate"):
            with open(path, "r+b") as stream:
                os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
        arrays.append(array)
    return arrays


def write_manifest(folder: Path, index: np.ndarray, manifest: dict[str, Any]) -> None:
    """The row index and the manifest, last: they make the folder readable."""
    np.save(folder / "index.npy", index)
    (folder / MANIFEST).write_text(json.dumps({"format": FORMAT, **manifest}, indent=1))
