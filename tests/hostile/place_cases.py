"""Hostile run folders, outputs, environments and command lines."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import small_study
from typer.testing import CliRunner

from hostile import model_samples as samples
from hostile.case import Case
from hostile.odd_files import CONTENTS, PLACES
from vestige.cache import cache_folder
from vestige.cli import app
from vestige.corpus.load import load_corpus
from vestige.errors import VestigeError
from vestige.listing import lines
from vestige.models.files.load import load_model
from vestige.representations.interchange import export_activations
from vestige.study.finished import StudyRun
from vestige.study.run import Study

TABLES = ("results.parquet", "comparisons.parquet", "cells.parquet", "study.lock.json")


@cache
def run_files() -> dict[str, bytes]:
    """The folder of a small finished run."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        made = small_study.study(small_study.make_place(folder))
        Study.from_dict(made, folder / "run", cache=folder / "cache").run(1)
        paths = [path for path in (folder / "run").rglob("*") if path.is_file()]
        return {path.relative_to(folder / "run").as_posix(): path.read_bytes() for path in paths}


def _report(folder: Path) -> Any:
    done = StudyRun.open(folder / "run")
    return done.report(folder / "report.html").exists() and done.markdown(folder / "report.md").exists()


def _spoilt(name: str, make: Callable[[Path], None], kept: bool = False) -> Callable[[Path], Any]:
    """A run whose table was replaced; with `kept`, one of those that were kept without checksums."""

    def act(folder: Path) -> Any:
        files = {file: content for file, content in run_files().items() if not (kept and "checksum" in file)}
        samples.write(folder / "run", files)
        make(folder / "run" / name)
        return _report(folder)

    return act


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _older(path: Path) -> None:
    import pandas as pd

    pd.read_parquet(path).iloc[:, 3:].to_parquet(path)


def _runs() -> Iterator[Case]:
    kind = "run folders"

    def whole(folder: Path) -> Any:
        samples.write(folder / "run", run_files())
        return _report(folder)

    yield Case(kind, "a whole run", whole, None)
    yield Case(kind, "no folder", _report)
    for what in ("a pipe", "/dev/zero"):
        yield Case(kind, what, lambda folder, what=what: (PLACES[what](folder / "run"), _report(folder)))
    yield Case(kind, "an empty folder", lambda folder: ((folder / "run").mkdir(), _report(folder)))
    yield Case(kind, "an empty file", lambda folder: ((folder / "run").write_text(""), _report(folder)))
    for name in TABLES:
        damages = {**PLACES, **CONTENTS, "half of it": _half}
        for what, make in damages.items():
            yield Case(kind, f"{name}: {what}", _spoilt(name, make))
        for what in ("an empty file", "zeros", "deep brackets"):
            yield Case(kind, f"{name} without checksums: {what}", _spoilt(name, CONTENTS[what], kept=True))
    for name in TABLES[:3]:
        yield Case(kind, f"{name} of an older run", _spoilt(name, _older))
    yield Case(
        kind, "a report into a folder", lambda folder: (whole(folder), StudyRun.open(folder / "run").report(folder))
    )
    yield Case(kind, "runs listed in a folder of rubbish", _listed, None)


def _listed(folder: Path) -> bool:
    samples.write(folder, {"a/study.lock.json": b"[" * 10_000, "b/results.parquet": b"x", "c/study.lock.json": b"{}"})
    return list(lines("runs", None, folder)) is not None


@contextmanager
def _environment(**values: str | None) -> Iterator[None]:
    with patch.dict(os.environ):
        for key, value in values.items():
            os.environ.pop(key, None)
            if value is not None:
                os.environ[key] = value
        yield


def _in(act: Callable[[Path], Any], **values: str | None) -> Callable[[Path], Any]:
    def run(folder: Path) -> Any:
        made = {key: value if value is None else value.format(folder=folder) for key, value in values.items()}
        with _environment(**made):
            return act(folder)

    return run


def _study(folder: Path) -> Any:
    place = folder / "place"
    place.mkdir(exist_ok=True)
    (place / "train.conllu").write_text(small_study.conllu([["She", "ran"], ["It", "slept"]]))
    corpora = {"words": {"files": {"train": str(place / "train.conllu")}}}
    raw = {
        "study": "x",
        "models": {"a": str(samples.write(place / "a", samples.model_files()))},
        "corpora": corpora,
        "analyses": [{"layer_probe": {"tasks": ["words/upos"], "seeds": 1}}],
    }
    return Study.from_dict(raw, folder / "out").run(1)


def _environments() -> Iterator[Case]:
    kind = "environment"
    catalogued = lambda folder: load_corpus("ud_ewt")  # noqa: E731
    for what, value in {
        "a file": "{folder}/file", "a pipe": "{folder}/pipe", "/dev/null": "/dev/null", "an absent folder": "/no/such",
    }.items():  # fmt: skip

        def act(folder: Path, act: Any = catalogued) -> Any:
            (folder / "file").write_text("x")
            os.mkfifo(folder / "pipe")
            return act(folder)

        yield Case(kind, f"VESTIGE_DATA is {what}", _in(act, VESTIGE_DATA=value, VESTIGE_CACHE="{folder}/c"), "ud_ewt")
        if what != "an absent folder":
            yield Case(kind, f"VESTIGE_CACHE is {what}", _in(lambda f, a=act: a(f, _study), VESTIGE_CACHE=value))
    yield Case(kind, "VESTIGE_CACHE is read-only", _in(_study, VESTIGE_CACHE="/sys/vestige"))
    yield Case(kind, "no home", _in(_homeless, HOME=None, VESTIGE_CACHE=None, XDG_CACHE_HOME=None))
    yield Case(
        kind,
        "a home that is not there",
        _in(lambda f: "no" in str(cache_folder()), HOME="/no/such", VESTIGE_CACHE=None, XDG_CACHE_HOME=None),
        None,
    )
    yield Case(
        kind,
        "no device of that name",
        lambda folder: load_model(samples.write(folder, samples.model_files()), device="abacus"),
        "no device",
    )
    yield Case(
        kind,
        "no such graphics card",
        lambda folder: load_model(samples.write(folder, samples.model_files()), device="cuda:99"),
        "no device",
    )

    def export(name: str) -> Callable[[Path], Any]:
        def act(folder: Path) -> Any:
            (folder / "a.json").write_bytes(samples.json_file())
            (folder / "folder.json").mkdir()
            found = samples.activations(folder / "a.json")
            return export_activations(found, samples.SENTENCES, folder / name if name[0] != "/" else Path(name))

        return act

    for name in ("folder.json", "a.json/x.json", "/sys/x.json", "x.npz", f"{'a' * 300}.json"):
        yield Case(kind, f"activations written to {name[:20]}", export(name))


def _homeless(folder: Path) -> Any:
    with patch("pwd.getpwuid", side_effect=KeyError):
        return cache_folder()


def _command(*words: str) -> Callable[[Path], Any]:
    """What `vestige WORDS` does; a usage error of the command line is as good as one of ours."""

    def act(folder: Path) -> Any:
        (folder / "study.yaml").write_text("study: x")
        done = CliRunner().invoke(app, [word.format(folder=folder) for word in words])
        if done.exit_code == 2 and done.exception is not None:
            raise VestigeError(done.output or "usage", fix="see --help")
        if done.exception is not None:
            raise done.exception
        return done.exit_code == 0

    return act


def _commands() -> Iterator[Case]:
    for words in (
        ("run", "{folder}"), ("run", "{folder}/nothing.yaml"), ("run", "/dev/zero"), ("run", "{folder}/study.yaml"),
        ("run", "{folder}/study.yaml", "--limit", "-5"), ("run", "{folder}/study.yaml", "--limit", "0"),
        ("run", "{folder}/study.yaml", "--jobs", "-1"), ("demo", "--limit", "-5"), ("demo", "--limit", "x"),
        ("compare", "minilm", "minilm", "--limit", "-5"), ("compare", "minilm", "minilm", "--corpus", "/dev/zero"),
        ("compare", "minilm", "minilm", "--corpus", "{folder}/nothing"), ("compare", "minilm", "minilm", "--analysis", "x"),
        ("finetune", "minilm", "--task", "opinions", "--runs", "0"), ("finetune", "minilm", "--task", "opinions", "--threads", "0"),
        ("finetune", "minilm", "--task", "opinions", "--sample", "-1"), ("finetune", "minilm", "--task", "opinions", "--dev", "nan"),
        ("finetune", "minilm", "--task", "opinions", "--keep", "x"), ("finetune", "minilm", "--task", "nothing"),
        ("finetune", "minilm", "--task", "opinions", "--out", "{folder}"), ("report", "{folder}"), ("report", "/dev/zero"),
        ("ls", "nothing"), ("nothing",),
    ):  # fmt: skip
        yield Case("command line", f"vestige {' '.join(words)}".replace("{folder}", "FOLDER"), _command(*words))


CASES = [*_runs(), *_environments(), *_commands()]
