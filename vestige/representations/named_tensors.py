"""Activations as tensors by name: caches of TransformerLens and nnsight, `.npz` and `.safetensors` files.

A tensor is either (words, width), a row for every word of all sentences, or (sentences, positions, width), tokens of
padded sentences. Of tokens, `word_ids` says which word each belongs to: (sentences, positions), -1 where it is of none,
as the `word_ids()` of Hugging Face tokenizers do.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from vestige.digest import digest_chunks
from vestige.errors import RepresentationError
from vestige.files import too_large, unpacked_limit
from vestige.representations.activation_files import Activations
from vestige.representations.pool import REDUCE, WORD_POOLINGS, Groups

WORD_IDS = "word_ids"
"""The name under which a file has them."""

_FAMILIES = (
    (r"blocks\.0\.hook_resid_pre", r"blocks\.(\d+)\.hook_resid_post"),
    (r"blocks\.0\.hook_in", r"blocks\.(\d+)\.hook_out"),
    (
        r"(?:.*\.)?(?:wte|embed_tokens|embeddings|word_embeddings)(?:\.output)?",
        r"(?:.*\.)?(?:h|layers?|blocks?)\.(\d+)(?:\.output(?:\.0)?)?",
    ),
    (r"layer_?0+|hidden_states\.0+|0+", r"(?:layer_?|hidden_states\.)?(\d+)"),
)
"""Names of the embeddings and of the blocks' outputs: TransformerLens, its bridge, modules as nnsight names them, and
numbers, of which 0 is the embeddings."""
_PLAIN = _FAMILIES[-1]


TENSOR_FILES = (".npz", ".safetensors")


@dataclass(frozen=True)
class Told:
    """What tensors do not say themselves."""

    layers: Sequence[str] | None = None
    """Names of the layers in their order; None: they are known by their names."""
    word_ids: Any = None
    """Which word every token belongs to; None: in the tensors, or a row is a word."""
    pooling: str = "last"

    @property
    def key(self) -> list[Any]:
        """For the name of what is kept."""
        ids = None if self.word_ids is None else [row.tolist() for row in _word_ids(self.word_ids, "word_ids")]
        return [None if self.layers is None else [*self.layers], ids, self.pooling]

    def wanted(self, names: Sequence[str], place: str) -> list[str]:
        """Of all tensors of a cache, those that are read."""
        ids = [WORD_IDS] if self.word_ids is None and WORD_IDS in names else []
        return [*(name for several in self._names(names, place) for name in several), *ids]

    def read(self, tensors: Mapping[str, Any], sizes: Sequence[int], place: str) -> Iterator[Activations]:
        """A sentence at a time; `sizes` are how many words each has."""
        arrays = [_layer(tensors, several, place) for several in self._names([*tensors], place)]
        ids = tensors.get(WORD_IDS) if self.word_ids is None else self.word_ids
        if ids is None:
            return _of_words(arrays, sizes, place)
        return _of_tokens(arrays, _word_ids(ids, place), sizes, place, self.pooling)

    def _names(self, names: Sequence[str], place: str) -> list[tuple[str, ...]]:
        if self.layers is None:
            return layer_names(names, place)
        for name in (name for name in self.layers if name not in names):
            raise RepresentationError(f"{place}: no tensor {name!r}", fix=f"choose from {', '.join([*names][:20])}")
        return [(name,) for name in self.layers]


def tensors_digest(tensors: Mapping[str, np.ndarray]) -> str:
    """A hash of names, shapes and values."""
    heads = [f"{name} {one.dtype} {one.shape}".encode() for name, one in tensors.items()]
    return digest_chunks([*heads, *(np.ascontiguousarray(one).tobytes() for one in tensors.values())])


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """What a `.npz` or `.safetensors` file holds, by name."""
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                return {name: as_array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > unpacked_limit(path):
                raise too_large(path, RepresentationError)
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, SafetensorError) as error:
        raise RepresentationError(
            f"{path}: cannot be read as {path.suffix} ({error})",
            fix="the file is damaged, cut short or of another kind: write it again",
        ) from error


def as_array(value: Any) -> np.ndarray:
    """A tensor of torch (any precision, any device) or an array, as an array that keeps whole numbers whole."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    return np.asarray(value)


def layer_names(names: Sequence[str], place: str) -> list[tuple[str, ...]]:
    """Names of the layers in order, the embeddings first where they are there (one tensor, or two that are added)."""
    for embeddings, blocks in _FAMILIES:
        found = {int(match[1]): name for name in names if (match := re.fullmatch(blocks, name))}
        first = [name for name in names if re.fullmatch(embeddings, name)]
        if (embeddings, blocks) == _PLAIN:
            first = []
        elif found and not first:
            first = [name for name in ("hook_embed", "hook_pos_embed") if name in names]
        if not found:
            continue
        numbers = sorted(found)
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))) or (first and numbers[0] != 0):
            raise RepresentationError(
                f"{place}: layers {', '.join(map(str, numbers))} are there, and others between them are not",
                fix="import all layers, or say which tensors are the layers: layers=[name, name ...]",
            )
        return [*([tuple(first)] if first else []), *((found[number],) for number in numbers)]
    raise RepresentationError(
        f"{place}: no name that says which layer it is, among {', '.join(list(names)[:6])}{' ...' * (len(names) > 6)}",
        fix="say which tensors are the layers: layers=[name, name ...], the embeddings first",
    )


def _layer(tensors: Mapping[str, Any], names: Sequence[str], place: str) -> np.ndarray:
    found = [as_array(tensors[name]) for name in names]
    if any(one.dtype.kind not in "fiu" or one.ndim not in (2, 3) for one in found):
        raise RepresentationError(
            f"{place}, {names[0]!r}: expected numbers of shape (words, width) or (sentences, positions, width), found "
            f"{found[0].dtype}, {found[0].shape}",
            fix="name tensors of hidden states",
        )
    with np.errstate(over="ignore"):
        return np.sum([one.astype(np.float32) for one in found], axis=0)


def _word_ids(given: Any, place: str) -> list[np.ndarray]:
    """A row of whole numbers for every sentence; None, as tokenizers have it, is -1."""
    rows = given.tolist() if hasattr(given, "tolist") else list(given)
    rows = rows if rows and isinstance(rows[0], list | tuple) else [rows]
    try:
        return [np.array([-1 if one is None else one for one in row], dtype=np.int64) for row in rows]
    except (TypeError, ValueError) as error:
        raise RepresentationError(
            f"{place}: word_ids are whole numbers, a row for every sentence ({error})",
            fix="give [encoding.word_ids(n) for n in ...] of a fast tokenizer",
        ) from None


def _of_words(arrays: Sequence[np.ndarray], sizes: Sequence[int], place: str) -> Iterator[Activations]:
    for array in arrays:
        if array.ndim != 2 or len(array) != sum(sizes):
            raise RepresentationError(
                f"{place}: expected a row for each of the {sum(sizes)} words of all sentences, found {array.shape}",
                fix="of tokens, say which word each belongs to: word_ids=[encoding.word_ids(n) for n in ...]",
            )
    first = 0
    for number, size in enumerate(sizes):
        yield Activations(number, size, [array[first : first + size] for array in arrays], None, place)
        first += size


def _of_tokens(
    arrays: Sequence[np.ndarray], ids: Sequence[np.ndarray], sizes: Sequence[int], place: str, pooling: str
) -> Iterator[Activations]:
    if pooling not in WORD_POOLINGS:
        raise RepresentationError(f"{place}: no pooling {pooling!r}", fix=f"choose from {', '.join(WORD_POOLINGS)}")
    arrays = [array[np.newaxis] if array.ndim == 2 else array for array in arrays]
    for array in arrays:
        if len(array) != len(ids) or len(ids) != len(sizes):
            raise RepresentationError(
                f"{place}: {len(array)} sentences of tensors and {len(ids)} of word_ids for {len(sizes)} sentences",
                fix="give just the sentences that were read, in their order",
            )
    for number, (row, size) in enumerate(zip(ids, sizes, strict=True)):
        where = f"{place}, sentence {number}"
        groups = _groups(row, size, arrays[0].shape[1], where)
        states = [torch.from_numpy(array[number : number + 1]) for array in arrays]
        yield Activations(number, size, [REDUCE[pooling](one, groups).numpy() for one in states], None, where)


def _groups(ids: np.ndarray, size: int, positions: int, where: str) -> Groups:
    if len(ids) > positions or ids.max(initial=-1) >= size:
        raise RepresentationError(
            f"{where}: word_ids of {len(ids)} positions up to word {ids.max(initial=-1)}, where the tensors have "
            f"{positions} positions and the sentence has {size} words",
            fix="word_ids and tensors have to come from the same tokens (with the same first token, if one was added)",
        )
    if lacking := sorted({*range(size)} - {*ids.tolist()}):
        raise RepresentationError(
            f"{where}: no token of word {lacking[0]}",
            fix="leave out sentences that are longer than what was read, and words of which a tokenizer makes nothing",
        )
    places = np.flatnonzero(ids >= 0)
    if (np.diff(ids[places]) < 0).any():
        raise RepresentationError(f"{where}: word_ids are not in order", fix="give them as the tokenizer does")
    position = torch.from_numpy(places)
    return Groups(torch.zeros_like(position), position, torch.from_numpy(ids[places]), size)
