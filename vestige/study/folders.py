"""Where the results of a study lie: in a folder of its own, and never over those of another study."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vestige.corpus.types import words_digest
from vestige.digest import digest_json
from vestige.errors import StorageError
from vestige.study.corpora import Given
from vestige.study.spec import StudySpec
from vestige.study.tables import LOCK

RUNS = Path("runs")
_REPLACE = "name another folder with --out (in Python folder=), or replace them with --overwrite (overwrite=True)"


def default_folder(spec: StudySpec, given: Given) -> Path:
    """`runs/NAME-HASH`; the hash is of the whole spec and of what was handed over in memory."""
    models = {name: encoder.fingerprint for name, encoder in given.models.items()}
    corpora = {
        name: [[split, words_digest(found)] for split, found in corpus.splits.items()]
        for name, corpus in given.corpora.items()
    }
    return RUNS / f"{spec.study}-{digest_json([spec.as_json(), models, corpora], length=8)}"


def refuse_results(folder: Path) -> None:
    """An error if the folder holds results of whatever study."""
    if (folder / LOCK).exists() or (folder / "results.parquet").exists():
        raise StorageError(f"{folder} holds the results of a study", fix=_REPLACE)


def refuse_others(folder: Path, lock: Mapping[str, Any]) -> None:
    """An error if the folder holds results of another study than the one that the keys of `lock` tell of.

    Those of the same study are another matter: running it again resumes it.
    """
    if not (folder / LOCK).exists():
        return refuse_results(folder)
    try:
        if not (folder / LOCK).is_file():
            raise ValueError("no file")
        there = json.loads((folder / LOCK).read_text(encoding="utf-8"))
        kept = {key: _identity(key, there[key]) for key in lock}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(
            f"{folder}/{LOCK} cannot be read, so nobody can tell whose results these are ({type(error).__name__})",
            fix=_REPLACE,
        ) from error
    asked = json.loads(json.dumps({key: _identity(key, value) for key, value in lock.items()}))
    if "models" in asked:
        asked["models"] = {name: _finished(kept["models"][name], keys) for name, keys in asked["models"].items()
                           if name in kept["models"]}  # fmt: skip
    difference = next(_differences(kept, asked), None)
    if difference is not None:
        raise StorageError(f"{folder} holds the results of another study: {difference}", fix=_REPLACE)


def _finished(there: list[str], here: list[str]) -> list[str]:
    """The runs of a model as far as they could be loaded the last time: what had failed is not among those there."""
    return [key for key in here if key in there] if set(there) <= set(here) else here


def _identity(key: str, value: Any) -> Any:
    """What of a part of the lock makes two studies the same: of models what makes them, of corpora their words."""
    if key == "models":
        return {name: [copy["key"] for copy in copies] for name, copies in value.items()}
    if key == "corpora":
        return {
            name: {split: about["digest"] for split, about in corpus["splits"].items()}
            for name, corpus in value.items()
        }
    return value


def _differences(there: Any, here: Any, where: str = "") -> Iterator[str]:
    """Values that differ, each with its place."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for key in {**there, **here}:
            place = f"{where}.{key}" if where else str(key)
            if key in there and key in here:
                yield from _differences(there[key], here[key], place)
            else:
                yield f"{place.removeprefix('spec.')} is {'only there' if key in there else 'only here'}"
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for number, pair in enumerate(zip(there, here, strict=True)):
            yield from _differences(*pair, f"{where}.{number}")
    elif there != here:
        yield f"{where.removeprefix('spec.')} is {_short(there)} there and {_short(here)} here"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
