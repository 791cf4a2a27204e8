"""Data sets of the Hugging Face hub by their id, and folders or files that `datasets` can load.

A column of text is split into words at white space; a column of lists is taken as words already.
The label column's own type says what its values are: class numbers become their names, floats stay
numbers (for regression), and a list labels word by word. Code that a data set brings is never run.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from vestige.corpus.readers.notes import Noted
from vestige.corpus.types import Level, Sentence, with_ids
from vestige.errors import CorpusError
from vestige.files import check_file, read_file

SPLIT_NAMES = {"validation": "dev", "valid": "dev", "val": "dev"}
"""How hub data sets call their splits -> how we do; other names stay as they are."""

FILES = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv", ".tsv": "csv", ".arrow": "arrow"}
"""Suffix of a single file -> the module of `datasets` that reads it."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_DEEPEST = 200

Convert = Callable[[Any], Any]


def read_hub(
    source: str | Path,
    *,
    words: str,
    label: str | None = None,
    second: str | None = None,
    config: str | None = None,
    revision: str | None = None,
    splits: Mapping[str, str] | None = None,
    level: Level | None = None,
    task: str | None = None,
    numeric: bool | None = None,
    names: bool = True,
) -> dict[str, Noted]:
    """Sentences by split from a data set on the Hugging Face hub, or from a local copy of one.

    `source` is an id ("stanfordnlp/sst2"), a folder (of parquet, JSON or CSV files, or written by
    `save_to_disk`) or one such file. `words`, `second` and `label` name columns; without a label the
    sentences are plain text. `splits` maps our names to the data set's and leaves all others out
    ({"dev": "validation_matched"}). `level="tree"` reads a list of integers as heads. `numeric` says
    whether labels are numbers (unless said, floats are); classes keep their numbers, as text, if `names`
    is false. The task is named after the label's column.

    Rows without a label (-1 or null, as in the hidden test sets of GLUE) are left out and counted in
    the notes; a split of which nothing is left is not there. So are blank rows of plain text.
    """
    columns = _Columns(words, second, label, task or label, level, numeric, names)
    found = _load(source, config, revision)
    wanted = splits or {SPLIT_NAMES.get(name, name): name for name in found}
    read = {}
    for split, name in wanted.items():
        if name not in found:
            raise CorpusError(
                f"{source}: no split {name!r}; it has {', '.join(found)}",
                fix='map ours to theirs with splits={"dev": "..."}',
            )
        read[split] = columns.sentences(f"{source}:{name}", found[name])
    return {split: sentences for split, sentences in read.items() if sentences}


@dataclass(frozen=True)
class _Columns:
    """Which columns to read, and how."""

    words: str
    second: str | None
    label: str | None
    task: str | None
    level: Level | None
    numeric: bool | None
    names: bool

    def sentences(self, place: str, rows: Any) -> Noted:
        named = [column for column in (self.words, self.second, self.label) if column is not None]
        for column in named:
            if column not in rows.features:
                raise CorpusError(
                    f"{place}: no column {column!r}; it has {', '.join(rows.features)}",
                    fix="name these with words=, second= and label=",
                )
        convert = _conversion(place, self.label, rows.features[self.label], self) if self.label else None
        found, unlabelled = [], 0
        for number, row in enumerate(_rows(place, rows, named)):
            where = f"{place}:{number}"
            if self.label and _unlabelled(row[self.label]):
                unlabelled += 1
                continue
            first = _words(row[self.words], self.words, where)
            other = _words(row[self.second], self.second, where) if self.second else ()
            if first and (other or not self.second):
                found.append(Sentence("", first, other, self._annotations(where, row, convert), where))
            elif self.label:
                raise CorpusError(f"{where}: a labelled row without words", fix="remove it from the data set")
        return Noted(with_ids(found), [f"{place}: {unlabelled} rows without a label left out"] if unlabelled else [])

    def _annotations(self, where: str, row: Mapping[str, Any], convert: Convert | None) -> dict[str, Any]:
        if convert is None or self.label is None or self.task is None:
            return {}
        try:
            return {self.task: convert(row[self.label])}
        except (ValueError, TypeError) as error:
            raise CorpusError(
                f"{where}: {row[self.label]!r:.60} in the column {self.label!r} is no label ({error})",
                fix="repair the row, or name another column",
            ) from None


def _rows(place: str, rows: Any, columns: list[str]) -> Iterator[Mapping[str, Any]]:
    """The rows one by one; a file may turn out to be damaged as late as here."""
    found = iter(rows.select_columns(columns))
    number = 0
    while True:
        try:
            row = next(found)
        except StopIteration:
            return
        except Exception as error:
            raise CorpusError(f"{place}:{number}: {_said(error)}", fix="get the data set again") from None
        yield row
        number += 1


def _words(value: Any, column: str, where: str) -> tuple[str, ...]:
    if isinstance(value, str) or value is None:
        return tuple((value or "").split())
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise CorpusError(
        f"{where}: the column {column!r} holds neither text nor a list of words but {value!r:.60}",
        fix="name a column of text or of words",
    )


def _unlabelled(value: Any) -> bool:
    return value is None or (not isinstance(value, bool | list) and value == -1)


def _conversion(place: str, column: str, feature: Any, how: _Columns) -> Convert:
    """What turns a value of the label column into an annotation, by the type of the column."""
    from datasets import ClassLabel, Value

    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    if inner is not None:
        one = int if how.level == "tree" else _conversion(place, column, inner, how)
        return lambda values: tuple(map(one, values))
    if isinstance(feature, ClassLabel) and how.names and not how.numeric:
        return feature.int2str
    if isinstance(feature, ClassLabel | Value):
        floats = feature.dtype.startswith(("float", "double", "decimal"))
        if not (floats if how.numeric is None else how.numeric):
            return str
        return _shortest if feature.dtype == "float32" else float
    raise CorpusError(
        f"{place}: the column {column!r} holds no labels but {feature}",
        fix="name a column of classes, text or numbers, or of lists of them",
    )


def _shortest(value: float) -> float:
    """3.8 for the float32 nearest to it, which as a Python float is 3.799999952316284."""
    return float(f"{value:.7g}")


def _load(source: str | Path, config: str | None, revision: str | None) -> Mapping[str, Any]:
    """The splits of a data set by the names it gives them."""
    from datasets import DatasetDict, load_dataset, load_from_disk

    try:
        path = Path(source).expanduser()
        with _quiet():
            if (path / "dataset_dict.json").exists() or (path / "state.json").exists():
                found = load_from_disk(str(path))
            elif path.exists() and not path.is_dir():
                _check_depth(path)
                separator = {"sep": "\t"} if path.suffix == ".tsv" else {}
                found = load_dataset(_module(path), data_files=str(path), **separator)
            elif path.is_dir():
                for file in sorted(path.rglob("*")):
                    if not file.is_dir():
                        _check_depth(file)
                found = load_dataset(str(path), config)
            elif str(source).count("/") > 1 or str(source).startswith((".", "/", "~")):
                raise CorpusError(f"{source}: no such file or folder", fix="check the path")
            else:
                found = _from_hub(str(source), config, revision)
    except CorpusError:
        raise
    except ConnectionError as error:
        raise _unreachable(str(source), error) from None
    except Exception as error:  # of datasets, pyarrow, pandas and whatever reads the files for them
        raise _refused(str(source), error) from None
    return found if isinstance(found, DatasetDict) else {"train": found}


def _check_depth(path: Path) -> None:
    """JSON nested without end would overflow the stack of the reader below us, and end the whole process."""
    import numpy as np

    check_file(path, CorpusError)
    content = read_file(path, CorpusError) if path.suffix in (".json", ".jsonl") else b""
    bare = np.frombuffer(_STRING.sub(b"", content), dtype=np.uint8)
    steps = np.isin(bare, list(b"[{")).astype(np.int64) - np.isin(bare, list(b"]}"))
    if steps.size and np.cumsum(steps).max() > _DEEPEST:
        raise CorpusError(f"{path}: JSON nested more than {_DEEPEST} deep", fix="check that it is the right file")


def _from_hub(id_: str, config: str | None, revision: str | None) -> Any:
    """From the hub, or without a network from what `datasets` or `hf download` left in the cache."""
    from datasets import load_dataset
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return load_dataset(id_, config, revision=revision)
    except ConnectionError as error:
        try:
            copy = snapshot_download(id_, repo_type="dataset", revision=revision, local_files_only=True)
        except (LocalEntryNotFoundError, ValueError):
            raise error from None
        return load_dataset(copy, config)


def _module(path: Path) -> str:
    if path.suffix not in FILES:
        raise CorpusError(
            f"{path}: cannot tell the kind of the file from its name",
            fix=f"name it with one of {', '.join(FILES)}",
        )
    return FILES[path.suffix]


def _unreachable(id_: str, error: Exception) -> CorpusError:
    return CorpusError(
        f"the data set {id_!r} is not on this machine and the Hugging Face hub cannot be reached ({error})",
        fix=f"where there is a network, run `hf download --repo-type dataset {quote(id_)}` and copy the hub's cache "
        "(HF_HOME, else ~/.cache/huggingface) here; or run it with `--local-dir FOLDER`, copy that folder "
        "and name it as the source",
    )


def _refused(source: str, error: Exception) -> CorpusError:
    if "scripts" in str(error):
        fix = "vestige runs no code of data sets: try revision='refs/convert/parquet', or download its files"
    else:
        fix = "check the id or path and, where the data set has several parts, name one with config="
    return CorpusError(f"{source}: {_said(error)}", fix=fix)


def _said(error: Exception) -> str:
    """What is wrong, by the first of a chain of errors."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)  # type: ignore[arg-type]
    return f"{str(causes[-1]).strip()[:300] or type(causes[-1]).__name__}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the progress bars of `datasets`, and without its log: what goes wrong is said in our own errors."""
    import datasets

    bars, said = datasets.is_progress_bar_enabled(), datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    try:
        yield
    finally:
        datasets.logging.set_verbosity(said)
        if bars:
            datasets.enable_progress_bars()
