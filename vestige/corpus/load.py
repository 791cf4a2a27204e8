"""`load_corpus`: from a name or files to a Corpus, by a table of formats."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from vestige.corpus.types import SPLITS, Corpus, Level, Sentence
from vestige.errors import CorpusError


class Format(NamedTuple):
    """How to read one file of a format, and what its labels are attached to."""

    read: Callable[..., list[Sentence]]
    levels: Callable[..., dict[str, Level]]


def _conllu(**options: Any) -> Format:
    from vestige.corpus.readers.conllu import LEVELS, read_conllu

    return Format(partial(read_conllu, **options), lambda: dict(LEVELS))


def _conll2000(**options: Any) -> Format:
    from vestige.corpus.readers.columns import CONLL2000_LEVELS, read_conll2000

    return Format(partial(read_conll2000, **options), lambda: dict(CONLL2000_LEVELS))


def _pmb(**options: Any) -> Format:
    from vestige.corpus.readers.columns import PMB_LEVELS, read_pmb

    return Format(partial(read_pmb, **options), lambda: dict(PMB_LEVELS))


def _columns(*, columns: Mapping[str, int], **options: Any) -> Format:
    from vestige.corpus.readers.columns import read_columns

    return Format(partial(read_columns, columns=columns, **options), lambda: dict.fromkeys(columns, "token"))


def _parallel(*, task: str = "label") -> Format:
    from vestige.corpus.readers.parallel import read_parallel

    def read(paths: list[str]) -> list[Sentence]:
        if isinstance(paths, str | Path) or len(paths) != 2:
            raise CorpusError(
                f"parallel files come in pairs, found {paths!r}",
                fix="give each split as [words file, labels file]",
            )
        words, labels = paths
        return read_parallel(words, labels, task)

    return Format(read, lambda: {task: "token"})


def _tsv(*, task: str = "label", **options: Any) -> Format:
    from vestige.corpus.readers.tsv import read_tsv

    return Format(partial(read_tsv, task=task, **options), lambda: {task: "sentence"})


FORMATS: dict[str, Callable[..., Format]] = {
    "conllu": _conllu,
    "conll2000": _conll2000,
    "pmb": _pmb,
    "columns": _columns,
    "parallel": _parallel,
    "tsv": _tsv,
}

BUILTIN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "treebank": ("conllu", "{split}.conllu", {}),
    "opinions": ("tsv", "{split}.tsv", {"task": "opinion"}),
}
"""Corpora inside the package: format, file name, options."""


def load_corpus(
    source: str | Path | Mapping[str, Any],
    *,
    format: str | None = None,
    name: str | None = None,
    dev: float | None = None,
    seed: int = 0,
    **options: Any,
) -> Corpus:
    """A corpus by the name of a built-in one, from one file, or from a file per split.

    >>> load_corpus("treebank")                                           # built in
    >>> load_corpus({"train": "a.conllu", "test": "b.conllu"}, dev=0.1)   # dev cut from train
    >>> load_corpus({"train": "train.txt", "test": "test.txt"}, format="conll2000", dev=0.1)
    >>> load_corpus({"train": "t.txt"}, format="columns", columns={"ner": 3})
    >>> load_corpus({"train": ["words.txt", "labels.txt"]}, format="parallel", task="pos")
    """
    if isinstance(source, str) and source in BUILTIN:
        return _builtin(source)
    if isinstance(source, str | Path):
        source = _split_files(Path(source))
    format = format or _guess_format(source)
    if format not in FORMATS:
        near = get_close_matches(format, FORMATS, n=1)
        raise CorpusError(
            f"unknown corpus format {format!r}; known: {', '.join(FORMATS)}",
            fix=f"did you mean {near[0]!r}?" if near else "name one of them",
        )
    reader = FORMATS[format](**options)
    splits = {split: tuple(reader.read(paths)) for split, paths in source.items()}
    corpus = Corpus(name or _guess_name(source), splits, reader.levels())
    return corpus if dev is None else corpus.hold_out("dev", dev, seed)


def _builtin(name: str) -> Corpus:
    format, pattern, options = BUILTIN[name]
    folder = files("vestige.corpus") / "builtin" / name
    paths = {split: str(folder / pattern.format(split=split)) for split in SPLITS}
    return load_corpus(paths, format=format, name=name, **options)


def _split_files(path: Path) -> dict[str, Any]:
    """A single file is a corpus with one split; in a folder, file names say train, dev or test."""
    if not path.exists():
        raise CorpusError(
            f"{path}: no such file or folder, nor a built-in corpus ({', '.join(BUILTIN)})",
            fix="check the path, or see `vestige ls corpora`",
        )
    if path.is_file():
        return {"train": path}
    by_split = 'give the files by split: {"train": ..., "dev": ..., "test": ...}'
    found: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        for split in {*SPLITS} & {*re.split("[^a-z]+", file.stem.lower())}:
            if file.suffix not in (".conllu", ".tsv"):
                continue
            if split in found:
                raise CorpusError(f"{path}: both {found[split].name} and {file.name} say {split}", fix=by_split)
            found[split] = file
    if not found:
        raise CorpusError(f"{path}: no .conllu or .tsv file whose name says train, dev or test", fix=by_split)
    return {split: found[split] for split in SPLITS if split in found}


def _guess_format(source: Mapping[str, Any]) -> str:
    suffixes = {Path(path).suffix for path in source.values() if isinstance(path, str | Path)}
    if suffixes == {".conllu"}:
        return "conllu"
    if suffixes == {".tsv"}:
        return "tsv"
    raise CorpusError(
        f"cannot tell the format of {', '.join(str(path) for path in source.values())}",
        fix=f"say format=...: one of {', '.join(FORMATS)}",
    )


def _guess_name(source: Mapping[str, Any]) -> str:
    first = next(iter(source.values()))
    path = Path(first[0] if isinstance(first, list | tuple) else first)
    return path.parent.name or path.stem
