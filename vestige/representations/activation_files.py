"""The two files in which NeuroX and its kin keep activations, a sentence at a time.

HDF5 ("ELMo style"): a dataset per sentence, "0", "1", ..., of shape (layers, words, width), and
under `sentence_to_index` one JSON object from the text of a sentence to the name of its dataset.
JSON lines: per sentence `linex_index` and `features`, a list with the `token` and the `layers`
(`index`, `values`) of every word.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from tokenizers import decoders

from vestige.errors import RepresentationError
from vestige.files import load_json
from vestige.representations.hdf5_trial import try_hdf5

SENTENCE_TO_INDEX = "sentence_to_index"

_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}")
_SMALL = 64 * 2**20
_MOST_PACKED = 100
"""Activations are noise, which hardly packs at all."""


@dataclass(frozen=True)
class Activations:
    """What a file has on one sentence."""

    number: int
    """Which sentence it is, counted from 0."""
    words: int
    """How many words it has vectors for."""
    layers: Sequence[np.ndarray]
    """Per layer (words, width), float32."""
    text: str | None
    """Its words as the file spells them, joined by single spaces; None where it does not say."""
    place: str
    """Where in the file it stands, for error messages."""


def read_hdf5(path: Path) -> Iterator[Activations]:
    """The sentences in the order of their numbers; datasets of two dimensions have one layer."""
    try_hdf5(path, _SMALL, _MOST_PACKED)
    with _reading(path):
        file = h5py.File(path, "r")
    with file:
        with _reading(path):
            numbers = sorted(int(key) for key in file if _NUMBER.fullmatch(key))
            texts = _texts(path, file)
        for number in numbers:
            place = f"{path}, dataset {str(number)!r}"
            with _reading(place):
                layers = _layers_of_dataset(_inside(file, str(number), place), place)
            yield Activations(number, layers.shape[1], list(layers), texts.get(number), place)


def _inside(file: h5py.File, name: str, place: str) -> Any:
    """What the file itself holds under a name; links and storage that lead into other files are not followed."""
    found = None if isinstance(file.get(name, getlink=True), h5py.ExternalLink) else file[name]
    if found is None or (isinstance(found, h5py.Dataset) and (found.external or found.is_virtual)):
        raise RepresentationError(f"{place}: its values lie in another file", fix="copy them into this one")
    packed = found.id.get_storage_size() if isinstance(found, h5py.Dataset) else 0
    if isinstance(found, h5py.Dataset) and found.nbytes > max(_SMALL, _MOST_PACKED * packed):
        raise RepresentationError(
            f"{place}: {found.nbytes} bytes of values in {packed} bytes of the file",
            fix="the file is damaged or was made to fill the memory: extract the activations again",
        )
    return found


def _layers_of_dataset(found: Any, place: str) -> np.ndarray:
    if not isinstance(found, h5py.Dataset) or found.ndim not in (2, 3) or found.dtype.kind not in "fiu":
        what = f"{found.dtype}, {found.shape}" if isinstance(found, h5py.Dataset) else "a group"
        raise RepresentationError(
            f"{place}: expected numbers of shape (layers, words, width) or (words, width), found {what}",
            fix="name a file of word activations",
        )
    values = found[()]
    with np.errstate(over="ignore"):  # whoever takes the values looks whether they are finite
        return (values if values.ndim == 3 else values[np.newaxis]).astype(np.float32, copy=False)


def _texts(path: Path, file: h5py.File) -> dict[int, str]:
    """Sentence number -> text, as far as the file tells."""
    if SENTENCE_TO_INDEX not in file:
        return {}
    try:
        content = np.ravel(_inside(file, SENTENCE_TO_INDEX, f"{path}, dataset {SENTENCE_TO_INDEX!r}")[()])[0]
        return {int(number): text for text, number in load_json(content).items()}
    except (ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise RepresentationError(
            f"{path}, dataset {SENTENCE_TO_INDEX!r}: expected one JSON object from texts to numbers ({error})",
            fix="write the file anew, or delete this dataset: the words are then not compared",
        ) from error


@contextmanager
def _reading(place: str | Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:
        raise RepresentationError(
            f"{place}: cannot be read as HDF5 ({error})",
            fix="the file is damaged, cut short or of another kind: copy or extract it again",
        ) from error


def read_json(path: Path) -> Iterator[Activations]:
    """The sentences in the order of the lines; layers in the order of their indices."""
    with open(path, "rb") as stream:
        for line, content in enumerate(stream, start=1):
            if not content.strip():
                continue
            place = f"{path}:{line}"
            try:
                found = _from_record(load_json(content, nan=True), place)
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
                reason = f"no {error}" if isinstance(error, KeyError) else error
                raise RepresentationError(
                    f"{place}: expected one sentence of NeuroX's JSON activations ({reason})",
                    fix="the file is damaged, cut short or of another kind: copy or extract it again",
                ) from error
            yield found


def _from_record(record: Mapping[str, Any], place: str) -> Activations:
    number, features = record["linex_index"], record["features"]
    if type(number) is not int:
        raise TypeError(f"linex_index is {number!r}")
    words = [{layer["index"]: layer["values"] for layer in feature["layers"]} for feature in features]
    depths = {len(feature["layers"]) for feature in features}
    if len(depths) > 1 or any(word.keys() != words[0].keys() or len(word) not in depths for word in words):
        raise ValueError("its words do not have the same layers")
    layers = [_numbers([word[index] for word in words], index) for index in sorted(words[0])] if words else []
    return Activations(number, len(words), layers, " ".join(feature["token"] for feature in features), place)


def _numbers(values: list[list[float]], index: int) -> np.ndarray:
    try:
        array = np.array(values)
    except ValueError as error:
        raise ValueError(f"layer {index} has not one width") from error
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise ValueError(f"layer {index} holds other things than numbers, or vectors of several widths")
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


_UNKNOWN = re.compile(r"\[UNK\]|<unk>|<0x[0-9A-F]{2}>")
_OCCURRENCE = re.compile(r" \(Occurrence \d+\)$")
_BYTES = decoders.ByteLevel()


def same_words(text: str, words: Sequence[str]) -> bool:
    """Whether a file's text may stand for the words: NeuroX writes the pieces of every word put together."""
    for spelling in (text, _OCCURRENCE.sub("", text)):
        if spelling == " ".join(words):
            return True
        parts = spelling.split(" ")
        if len(parts) == len(words) and all(map(_may_be, parts, words)):
            return True
    return False


def _may_be(part: str, word: str) -> bool:
    if not part or _UNKNOWN.search(part):
        return True
    return _letters(word) in (_letters(part.replace("</w>", "")), _letters(_BYTES.decode([part])))


def _letters(text: str) -> str:
    """Letters and digits without case, accents and the differences that NFKC takes away."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(character for character in folded if character.isalnum())


Rows = Iterable[tuple[Sequence[str], np.ndarray]]
"""Per sentence its words and their vectors, (layers, words, width)."""


def write_hdf5(path: Path, rows: Rows) -> None:
    """As NeuroX writes it: texts that occur again are called "<text> (Occurrence 2)" and so on."""
    numbers: dict[str, str] = {}
    with h5py.File(path, "w") as file:
        for number, (words, vectors) in enumerate(rows):
            file.create_dataset(str(number), data=vectors, dtype="float32")
            text = name = " ".join(words)
            occurrence = 1
            while name in numbers:
                occurrence += 1
                name = f"{text} (Occurrence {occurrence})"
            numbers[name] = str(number)
        file.create_dataset(SENTENCE_TO_INDEX, data=[json.dumps(numbers)], dtype=h5py.string_dtype())


def write_json(path: Path, rows: Rows) -> None:
    """As NeuroX reads it, with the nine digits that give a float32 back (NeuroX itself keeps eight decimals)."""
    with open(path, "w", encoding="ascii") as stream:
        for number, (words, vectors) in enumerate(rows):
            features = [
                {"token": word, "layers": [{"index": i, "values": _digits(v)} for i, v in enumerate(vectors[:, place])]}
                for place, word in enumerate(words)
            ]
            stream.write(json.dumps({"linex_index": number, "features": features}) + "\n")


def _digits(vector: np.ndarray) -> list[float]:
    return [float(f"{value:.9g}") for value in vector.tolist()]


READERS: dict[str, Callable[[Path], Iterator[Activations]]] = {
    ".hdf5": read_hdf5,
    ".h5": read_hdf5,
    ".json": read_json,
    ".jsonl": read_json,
}
WRITERS: dict[str, Callable[[Path, Rows], None]] = {".hdf5": write_hdf5, ".json": write_json}
"""Only the suffixes by which NeuroX knows the formats."""
