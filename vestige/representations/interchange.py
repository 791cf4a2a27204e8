"""Activations of other people's making in, ours out: NeuroX's HDF5 and JSON lines; in also tensors by name."""

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from vestige.cache import cache_folder, explaining_storage, writing
from vestige.corpus.types import Sentence, words_digest
from vestige.digest import digest_json, sha256_of_file
from vestige.errors import RepresentationError
from vestige.files import check_file
from vestige.progress import bar
from vestige.representations.activation_files import READERS, WRITERS, Activations, Rows, same_words
from vestige.representations.named_tensors import TENSOR_FILES, Told, as_array, read_tensors, tensors_digest
from vestige.representations.pool import SENTENCE_POOLINGS
from vestige.representations.store import FORMAT, Representations, create_layers, stored, write_manifest

GIVEN = "given"
"""The pooling of imported activations: whoever extracted them chose it."""

T = TypeVar("T")


def export_activations(representations: Representations, sentences: Sequence[Sentence], path: str | Path) -> None:
    """Write word representations of the sentences as an `.hdf5` or a `.json` file for NeuroX.

    The format has one width for all layers and a vector for every word.
    """
    path = Path(path)
    write = _by_suffix(WRITERS, path)
    _check_export(representations, sentences, path)
    layers = [representations.layer(layer) for layer in range(representations.layers)]

    def rows() -> Rows:
        start = 0
        for sentence in sentences:
            words = sentence.all_words
            yield words, np.stack([layer[start : start + len(words)] for layer in layers]).astype(np.float32)
            start += len(words)

    with _whole_file(path) as temporary:
        write(temporary, rows())


def import_activations(
    source: str | Path | Mapping[str, Any],
    sentences: Sequence[Sentence],
    *,
    name: str | None = None,
    cache: Path | None = None,
    check_words: bool = True,
    layers: Sequence[str] | None = None,
    word_ids: Any = None,
    pooling: str = "last",
) -> Representations:
    """The activations that a file or a cache has for the words of the sentences; read once, and then kept.

    Layers are numbered as the source has them, from 0 on, whether its first is that of the embeddings or not.

    - `.hdf5`, `.json`: as NeuroX writes them. Sentences are matched by number. Where the file has the words, they must
      be those of the sentences, but for what a tokenizer does to them (marks of sub-words, case, accents, unknown
      pieces); `check_words=False` compares no more than their count.
    - `.npz`, `.safetensors`, or a cache in memory (a dictionary of tensors, TransformerLens' `ActivationCache`, what
      nnsight saved): the layers are known by their names, or named in `layers`. A tensor has a row for every word of
      all sentences or, (sentences, positions, width), tokens; `word_ids` then says which word each token belongs to
      (`[encoding.word_ids(n) for n in ...]`, or a tensor of that name), and `pooling` which of a word's tokens counts:
      first, last, mean or max.
    """
    if not isinstance(source, str | Path) and not hasattr(source, "keys"):
        raise RepresentationError(
            f"activations of a {type(source).__name__} cannot be imported", fix="give a file, or tensors by name"
        )
    path = Path(source) if isinstance(source, str | Path) else None
    place = str(path) if path is not None else "the cache"
    if not sentences:
        raise RepresentationError(f"{place}: no sentences were given", fix="give those that it was made of")
    told = Told(layers, word_ids, pooling)
    if path is not None:
        _check_format(path, told)
        fingerprint = _fingerprint(path)
    else:
        tensors = {key: as_array(source[key]) for key in told.wanted([*source.keys()], place)}  # type: ignore
        fingerprint = tensors_digest(tensors)
    key = digest_json([FORMAT, GIVEN, fingerprint, words_digest(sentences), check_words, *told.key])
    folder = cache_folder(cache) / "representations" / key / GIVEN
    with explaining_storage(folder):
        there = stored(folder)
    label = name if name is not None else path.stem if path is not None else "cache"
    if not there:
        sizes = [len(sentence.all_words) for sentence in sentences]
        if path is None or path.suffix in TENSOR_FILES:
            given = told.read(tensors if path is None else read_tensors(path), sizes, place)
        else:
            given = READERS[path.suffix](path)
        with writing(folder) as temporary:
            _store(temporary, given, label, place, sentences, fingerprint, check_words)
    found = Representations.open(folder)
    return replace(found, manifest={**found.manifest, "model": label})


def _check_format(path: Path, told: Told) -> None:
    """A suffix that is known; where the file itself says what its layers and words are, nothing else does."""
    _by_suffix({**READERS, **dict.fromkeys(TENSOR_FILES)}, path)
    if path.suffix not in TENSOR_FILES and (told.layers is not None or told.word_ids is not None):
        raise RepresentationError(
            f"{path}: layers and word_ids are of tensors by name; this format says itself what they are",
            fix="leave them out",
        )


def _fingerprint(path: Path) -> str:
    check_file(path, RepresentationError)
    try:
        return sha256_of_file(path)
    except OSError as error:
        raise RepresentationError(f"{path}: cannot be read ({error.strerror})", fix="check the path") from error


def _store(
    folder: Path,
    activations: Iterable[Activations],
    label: str,
    place: str,
    sentences: Sequence[Sentence],
    fingerprint: str,
    check_words: bool,
) -> None:
    sizes = [len(sentence.words) + len(sentence.second) for sentence in sentences]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    widths: tuple[int, ...] = ()
    targets: list[np.memmap] = []
    seen: set[int] = set()
    vanished = 0
    with bar(f"activations of {label}", len(sentences)) as shown:
        for given in activations:
            _check_number(given, seen, len(sentences), label)
            _check_sentence(given, sentences[given.number], check_words)
            if not seen:
                widths = _widths(given)
                targets = create_layers(folder, int(starts[-1]), widths, "float32")
            _check_layers(given, widths)
            for target, values in zip(targets, given.layers, strict=True):
                target[starts[given.number] : starts[given.number + 1]] = values
            vanished += int(np.all([~values.any(axis=1) for values in given.layers], axis=0).sum())
            seen.add(given.number)
            shown.advance()
    for number, sentence in enumerate(sentences):
        if number not in seen:
            raise RepresentationError(
                f"{place}: no activations of sentence {number} ({_where(sentence)}); it has {len(seen)} of "
                f"{len(sentences)} sentences",
                fix="give just the sentences that the file was made of, in their order",
            )
    for target in targets:
        target.flush()
    index = [(number, word) for number, size in enumerate(sizes) for word in range(size)]
    write_manifest(
        folder,
        np.array(index, dtype=np.int32).reshape(-1, 2),
        {
            "model": label,
            "fingerprint": fingerprint,
            "pooling": GIVEN,
            "widths": list(widths),
            "rows": len(index),
            "sentences": len(sentences),
            "words": len(index),
            "truncated_sentences": 0,
            "truncated_words": 0,
            "vanished_words": vanished,
            "sink_words": 0,
            "word_tokens": len(index),
            "unknown_tokens": 0,
            "words_digest": words_digest(sentences),
            "tokens": digest_json([GIVEN, words_digest(sentences)]),
        },
    )


def _check_number(given: Activations, seen: set[int], sentences: int, label: str) -> None:
    if given.number in seen:
        raise RepresentationError(f"{given.place}: sentence {given.number} for the second time", fix="remove one")
    if not 0 <= given.number < sentences:
        raise RepresentationError(
            f"{given.place}: sentence {given.number}, but only {sentences} sentences were given (counted from 0)",
            fix=f"give all sentences that {label} was made of, in their order",
        )


def _check_sentence(given: Activations, sentence: Sentence, check_words: bool) -> None:
    words = sentence.all_words
    if given.words != len(words):
        raise RepresentationError(
            f"{given.place}: {given.words} vectors, but the sentence ({_where(sentence)}) has {len(words)} words",
            fix="give the sentences that the file was made of, in their order; NeuroX drops the words past a "
            "model's limit: shorten such sentences",
        )
    if check_words and given.text is not None and not same_words(given.text, words):
        raise RepresentationError(
            f"{given.place}: the file has {given.text!r}, the sentence ({_where(sentence)}) is {' '.join(words)!r}",
            fix="give the sentences in the order of the file; if they are the same, spelt in another way, import "
            "with check_words=False",
        )


def _widths(given: Activations) -> tuple[int, ...]:
    return tuple(values.shape[1] for values in given.layers)


def _check_layers(given: Activations, widths: tuple[int, ...]) -> None:
    if not widths:
        raise RepresentationError(f"{given.place}: not a single layer", fix="extract the activations again")
    if _widths(given) != widths:
        raise RepresentationError(
            f"{given.place}: layers of the widths {list(_widths(given))}, where the first sentence has {list(widths)}",
            fix="every sentence needs the same layers: extract the activations again",
        )
    for layer, values in enumerate(given.layers):
        if not np.isfinite(values).all():
            raise RepresentationError(
                f"{given.place}, layer {layer}: NaN or infinite activations",
                fix="check the model that they came from and extract them again, in float32",
            )


def _check_export(representations: Representations, sentences: Sequence[Sentence], path: Path) -> None:
    pooling = representations.manifest["pooling"]
    if pooling == "pieces" or pooling in SENTENCE_POOLINGS:
        raise RepresentationError(
            f"{path}: the format has a vector per word, {pooling!r} gives one per "
            f"{'token' if pooling == 'pieces' else 'sentence'}",
            fix="export a word pooling (first, last, mean, max)",
        )
    if len(set(representations.widths)) > 1:
        raise RepresentationError(
            f"{path}: the format has one width for all layers, these have {representations.widths}",
            fix="such models cannot be exported to NeuroX",
        )
    if representations.manifest["sentences"] != len(sentences):
        raise RepresentationError(
            f"{path}: representations of {representations.manifest['sentences']} sentences, but {len(sentences)} "
            "were given",
            fix="give the sentences that were represented",
        )
    if representations.manifest["words_digest"] != words_digest(sentences):
        raise RepresentationError(
            f"{path}: the representations are of other words than those given",
            fix="give the sentences that were represented",
        )
    found = np.bincount(representations.index[:, 0], minlength=len(sentences))
    for sentence, count in zip(sentences, found, strict=True):
        words = len(sentence.words) + len(sentence.second)
        if count != words:
            raise RepresentationError(
                f"{path}: {count} vectors for the {words} words of {_where(sentence)}; the format needs all of them",
                fix='give the sentences that were represented; represent them with on_vanished="zero", and shorten '
                "those past the model's limit",
            )


def _where(sentence: Sentence) -> str:
    return sentence.source or f"sentence {sentence.id}"


def _by_suffix(formats: Mapping[str, T], path: Path) -> T:
    if path.suffix not in formats:
        raise RepresentationError(
            f"{path}: {path.suffix or 'no suffix'} is no format of activations", fix=f"choose from {', '.join(formats)}"
        )
    return formats[path.suffix]


@contextmanager
def _whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` that becomes it if the block ends well."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    with explaining_storage(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
