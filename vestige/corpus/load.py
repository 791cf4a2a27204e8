"""`load_corpus`: from a name or files to a Corpus, by the catalog and the table of formats."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vestige.corpus.catalog import Entry, entries, find_entry
from vestige.corpus.formats import find_format
from vestige.corpus.recognise import SUFFIXES, recognise
from vestige.corpus.types import SPLITS, Corpus
from vestige.errors import CorpusError
from vestige.files import check_file


def load_corpus(
    source: str | Path | Mapping[str, Any],
    *,
    format: str | None = None,
    name: str | None = None,
    dev: float | None = None,
    test: float | None = None,
    seed: int = 0,
    derive: str | Mapping[str, Mapping[str, Any]] | None = None,
    **options: Any,
) -> Corpus:
    """A corpus by its name in the catalog, from a file or folder, from a file per split, or from the hub.

    `dev` and `test` are shares of train that are cut off where a corpus has none. Files with a word and its tag a
    line, treebanks and tables with a header are told apart by their content.

    >>> load_corpus("treebank")                                           # built in
    >>> load_corpus("ud_ewt")                                             # in the catalog: `vestige ls corpora`
    >>> load_corpus("treebank", derive="bigram_shift")                    # a task made from trees or text
    >>> load_corpus("treebank", derive={"word_content": {"targets": 50}})
    >>> load_corpus({"train": "a.conllu", "test": "b.conllu"}, dev=0.1)   # dev cut from train
    >>> load_corpus({"train": "train.txt", "test": "test.txt"}, format="conll2000", dev=0.1)
    >>> load_corpus({"train": "t.txt"}, format="columns", columns={"ner": 3})
    >>> load_corpus({"train": ["words.txt", "labels.txt"]}, format="parallel", task="pos")
    >>> load_corpus("bigram_shift.txt", format="senteval", task="bigram_shift")
    >>> load_corpus("stanfordnlp/sst2", format="hub", words="sentence", label="label")
    """
    entry = find_entry(source) if isinstance(source, str) and format is None else None
    corpus = _from_catalog(entry, options) if entry else _from_files(source, format, name, options)
    for split, share in (("test", test), ("dev", dev)):
        if share is not None:
            corpus = corpus.hold_out(split, share, seed)
    if derive is not None:
        from vestige.corpus.derive import derive_task

        task, settings = _derived(derive)
        corpus = derive_task(corpus, task, seed=seed, **settings)
    return corpus


def _derived(derive: Any) -> tuple[str, Mapping[str, Any]]:
    """The task and its options."""
    if isinstance(derive, str):
        return derive, {}
    if isinstance(derive, Mapping) and len(derive) == 1:
        task, settings = next(iter(derive.items()))
        if isinstance(task, str) and isinstance(settings, Mapping) and all(isinstance(name, str) for name in settings):
            return task, settings
    raise CorpusError(
        f"derive should be the name of one task, or {{name: {{option: value}}}}, found {derive!r:.80}",
        fix="see `vestige ls derived`",
    )


def _from_catalog(entry: Entry, options: Mapping[str, Any]) -> Corpus:
    root = entry.root()
    if root is not None:
        corpus = _read(entry.sources(root), entry.format, entry.name, {**entry.options, **options})
        absent = [f"{split} is not here ({', '.join(paths)})" for split, paths in entry.absent(root).items()]
        return replace(corpus, notes=(*corpus.notes, *absent)) if absent else corpus
    if entry.hub is None or entry.restricted:
        raise entry.missing()
    hub = {**entry.hub, **options}
    try:
        return _read(hub.pop("id"), "hub", entry.name, hub)
    except CorpusError as error:
        raise entry.missing(error) from None


def _from_files(source: Any, format: str | None, name: str | None, options: Mapping[str, Any]) -> Corpus:
    if format is not None and find_format(format).whole:
        return _read(source, format, name or Path(str(source)).stem, options)
    source = _split_files(Path(source)) if isinstance(source, str | Path) else _checked(source)
    if format is None:
        format, found = recognise(source)
        options = {**found, **options}
    return _read(source, format, name or _guess_name(source), options)


def _read(source: Any, format: str, name: str, options: Mapping[str, Any]) -> Corpus:
    found = find_format(format)
    if found.whole:
        splits = found.read(source, **options)
    else:
        splits = {split: found.read(paths, **options) for split, paths in source.items()}
    levels = found.levels_of(splits, **options)
    notes = tuple(note for sentences in splits.values() for note in getattr(sentences, "notes", ()))
    return Corpus(name, {split: tuple(sentences) for split, sentences in splits.items()}, levels, notes)


def _checked(source: Any) -> Mapping[str, Any]:
    """Files by split, or lists of files."""
    if isinstance(source, Mapping) and source:
        several = [(split, files if isinstance(files, list | tuple) else [files]) for split, files in source.items()]
        if all(
            isinstance(split, str) and files and all(isinstance(file, str | Path) for file in files)
            for split, files in several
        ):
            return source
    raise CorpusError(
        f"a corpus is a name, a file, a folder, or files by split, found {source!r:.80}",
        fix='give them as {"train": ..., "dev": ..., "test": ...}',
    )


def _split_files(path: Path) -> dict[str, Any]:
    """A single file is a corpus with one split; in a folder, file names say train, dev or test."""
    if not _exists(path):
        builtin = ", ".join(entry.name for entry in entries() if entry.builtin)
        raise CorpusError(
            f"{path}: no such file or folder, nor a corpus of the catalog ({builtin}, ...)",
            fix="check the path, or see `vestige ls corpora`; an id on the Hugging Face hub needs format='hub'",
        )
    if not path.is_dir():
        check_file(path, CorpusError)
        return {"train": path}
    by_split = 'give the files by split: {"train": ..., "dev": ..., "test": ...}'
    files = [file for file in sorted(path.iterdir()) if _splits_named(file)]
    kind = next((suffix for suffix in SUFFIXES if any(file.suffix.lower() == suffix for file in files)), None)
    if kind is None:
        raise CorpusError(
            f"{path}: no file that ends in {', '.join(SUFFIXES)} and whose name says train, dev or test", fix=by_split
        )
    found: dict[str, Path] = {}
    for file in files:
        for split in _splits_named(file) if file.suffix.lower() == kind else ():
            if split in found:
                raise CorpusError(f"{path}: both {found[split].name} and {file.name} say {split}", fix=by_split)
            found[split] = file
    return {split: found[split] for split in SPLITS if split in found}


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError) as error:  # a name that is too long, or holds NUL
        raise CorpusError(f"{str(path)!r:.80}: no name of a file ({error})", fix="check the path") from None


def _splits_named(file: Path) -> set[str]:
    return {*SPLITS} & {*re.split("[^a-z]+", file.stem.lower())}


def _guess_name(source: Mapping[str, Any]) -> str:
    first = next(iter(source.values()))
    path = Path(first[0] if isinstance(first, list | tuple) else first)
    return path.parent.name or path.stem
