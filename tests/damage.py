"""Damage every artefact of a study in every way, run it again, and see what a user would get.

A small study (a tiny BERT, fine-tuned; layer probes and neurons) is run once. Its cache is copied for every fault and
one file or folder of it is damaged. What reads the artefact is taken away, so that it must be read again. The tables
of the second run are compared with those of the first, byte by byte. `benchmarks/faults.py` tries all of them,
`tests/unit/study/test_faults.py` every third.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait sleep: spinning ruins a busy machine

import logging
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from small_study import make_place, study

from vestige import cache
from vestige.errors import VestigeError
from vestige.finetune.loop import Run
from vestige.finetune.workplace import STATE
from vestige.probes.elastic_net import path as penalty_path
from vestige.study.finished import StudyRun
from vestige.study.run import Study

PATIENCE = 300
"""Seconds after which a run counts as one that hangs."""


def spec(place: Path, neurons: bool = True) -> dict[str, Any]:
    """Every kind of artefact is made: representations, tasks, cells, a tuned model with checkpoints, a search."""
    recipe = {"epochs": 2, "rate": 1e-3, "save_steps": 3, "batch": 16}
    tune = {"of": "base", "task": "opinions/label", "recipe": recipe}
    raw = study(place)
    raw["models"] = {"base": str(place / "base"), "tuned": {"finetune": tune}, "early": {"finetune": tune, "step": 3}}
    raw["corpora"]["opinions"] = {"files": {"train": str(place / "opinions.tsv")}}
    both = {"tasks": ["words/upos"], "models": ["base", "tuned"]}
    raw["analyses"] = [{"layer_probe": {**both, "seeds": 1}}]
    if neurons:
        raw["analyses"].append({"neurons": {**both, "grid": [0.0, 1e-3], "retrained": []}})
    return raw


@dataclass(frozen=True)
class Prepared:
    """A finished study, and the folders in which every fault is tried."""

    root: Path
    raw: dict[str, Any]
    expected: dict[str, bytes]
    """The tables of a run that nothing disturbed."""

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def run(self) -> Path:
        return self.root / "run"

    def again(self) -> StudyRun:
        """Run the study with what the cache holds."""
        return Study.from_dict(self.raw, self.run, cache=self.cache).run()

    def read(self) -> None:
        """Read everything that the folder of the run holds, and write its report."""
        found = StudyRun.open(self.run)
        for cell in found.tables.cells["cell"]:
            found.tables.items(cell)
        for cell in found.tables.cells.query("analysis == 'neurons'")["cell"]:
            found.tables.table("neurons", cell)
        found.report()

    def restore(self, state: str) -> None:
        """Put the cache and the run back as they were kept under a name."""
        for name in ("cache", "run"):
            if os.path.lexists(self.root / name):
                _gone(self.root / name)
            if (self.root / state / name).exists():
                shutil.copytree(self.root / state / name, self.root / name)

    def keep(self, state: str) -> None:
        for name in ("cache", "run"):
            if (self.root / name).exists():
                shutil.copytree(self.root / name, self.root / state / name)

    def damaged(self) -> list[Path]:
        """Artefacts of the cache that are not as they were written."""
        patterns = (
            "cells/*", "representations/*/*", "models/[!.]*", "models/[!.]*/checkpoint-*", "described/*", "read/*",
            "compared/*",
        )  # fmt: skip
        return [path for pattern in patterns for path in self.cache.glob(pattern) if not cache.whole(path)]

    def tables(self) -> dict[str, bytes]:
        """Every table of the run but its record of folders and versions."""
        found = [Path(folder) / name for folder, _, names in os.walk(self.run, followlinks=True) for name in names]
        tables = [path for path in sorted(found) if path.suffix == ".parquet" and path.is_file()]
        return {str(path.relative_to(self.run)): path.read_bytes() for path in tables}


def prepare(root: Path, neurons: bool = True) -> Prepared:
    """Run the study once, and keep it finished, without probes, with no model loaded, and killed twice on the way."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "place").mkdir()
    made = Prepared(root, spec(make_place(root / "place"), neurons), {})
    made.again()
    made.expected.update(made.tables())
    made.keep("finished")
    for cell in (made.cache / "cells").iterdir():
        if not (cell / "neurons.parquet").exists():
            shutil.rmtree(cell)
    shutil.rmtree(made.run)
    made.keep("unread")
    shutil.rmtree(made.cache / "described")
    made.keep("unloaded")
    made.restore("unread")
    shutil.rmtree(made.cache / "models")
    with _killed_in_training():
        made.again()
    made.keep("training")
    if not neurons:
        return made
    made.restore("finished")
    shutil.rmtree(next((made.cache / "cells").glob("*/neurons.parquet")).parent)
    with _killed_in_search():
        made.again()
    made.keep("search")
    return made


class _HangError(BaseException):
    """Nobody takes it for an error of the disk."""


class _KilledError(BaseException):
    """Nobody catches it, as nobody catches a kill."""


@contextmanager
def _killed_in_training() -> Iterator[None]:
    """The state is kept after every step, and the fifth is not reached."""
    keep = Run._keep_state

    def keep_now(self: Run) -> None:
        self._saved = float("-inf")
        keep(self)
        if self.progress.step == 4:
            raise _KilledError

    with patch.object(Run, "_keep_state", keep_now):
        yield from _until_killed()


@contextmanager
def _killed_in_search() -> Iterator[None]:
    keep = penalty_path._keep_stage

    def keep_one(*arguments: Any) -> None:
        keep(*arguments)
        raise _KilledError

    with patch.object(penalty_path, "_keep_stage", keep_one):
        yield from _until_killed()


def _until_killed() -> Iterator[None]:
    try:
        yield
    except _KilledError:
        return
    raise AssertionError("the study ended before it was killed")


@dataclass(frozen=True)
class Fault:
    """One way to damage one artefact."""

    kind: str
    """What the artefact is."""
    state: str
    """In which state of the study it is read."""
    pattern: str
    """Which file or folder: the first that matches, under the prepared root."""
    way: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.pattern.rpartition('/')[2]} {self.way}"


Damage = Callable[[Path, Path, Path], None]
"""Takes the artefact, another one of its kind, and something outside the cache that must stay as it is."""


def _half(path: Path, other: Path, outside: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(path: Path, other: Path, outside: Path) -> None:
    path.write_bytes(b"")


def _flip(path: Path, other: Path, outside: Path) -> None:
    content = bytearray(path.read_bytes())
    content[2 * len(content) // 3] ^= 1
    path.write_bytes(content)


def _gone(path: Path, *_: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _swap(path: Path, other: Path, outside: Path) -> None:
    _gone(path)
    shutil.copytree(other, path) if other.is_dir() else shutil.copyfile(other, path)


def _as_folder(path: Path, other: Path, outside: Path) -> None:
    _gone(path)
    path.mkdir()


def _as_file(path: Path, other: Path, outside: Path) -> None:
    _gone(path)
    path.write_text("nothing of use")


def _as_link(path: Path, other: Path, outside: Path) -> None:
    folder = path.is_dir()
    _gone(path)
    path.symlink_to(outside if folder else outside / "mine")


def _as_pipe(path: Path, other: Path, outside: Path) -> None:
    _gone(path)
    os.mkfifo(path)


FILE_WAYS: dict[str, Damage] = {
    "cut to half": _half,
    "emptied": _empty,
    "one bit flipped": _flip,
    "removed": _gone,
    "replaced by another's": _swap,
    "replaced by a folder": _as_folder,
    "replaced by a link": _as_link,
    "replaced by a pipe": _as_pipe,
}
FOLDER_WAYS: dict[str, Damage] = {
    "removed": _gone,
    "replaced by another's": _swap,
    "replaced by a file": _as_file,
    "replaced by a link": _as_link,
}
WAYS = FILE_WAYS | FOLDER_WAYS
COMMON = ("cut to half", "one bit flipped", "replaced by another's")
"""Tried on every file; the other ways on one file and one folder of every kind."""

_REPRESENTATIONS = "cache/representations/*/last"
KINDS: dict[str, tuple[str, list[str], list[str]]] = {
    "representations": (
        "unread",
        [f"{_REPRESENTATIONS}/{n}" for n in ("manifest.json", "index.npy", "layer01.npy", "checksums.json")],
        [_REPRESENTATIONS],
    ),
    "model facts": ("unread", [f"cache/described/*/{n}" for n in ("model.json", "checksums.json")], ["cache/described/*"]),
    "token counts": ("unread", [f"cache/read/*/{n}" for n in ("corpus.json", "checksums.json")], ["cache/read/*"]),
    "comparison": (
        "finished",
        [f"cache/compared/*/{n}" for n in ("comparisons.parquet", "notes.json", "checksums.json")],
        ["cache/compared/*"],
    ),
    "record of a step": ("unread", ["cache/records/*.json"], ["cache/records"]),
    "task": ("unread", ["cache/tasks/*.json"], ["cache/tasks"]),
    "tuned model": (
        "unread",
        [
            f"cache/models/*/{name}"
            for name in ("model.safetensors", "config.json", "checksums.json")
        ],
        ["cache/models/*"],
    ),
    "checkpoint": (
        "unloaded",
        [f"cache/models/*/checkpoint-3/{name}" for name in ("model.safetensors", "checksums.json")],
        ["cache/models/*/checkpoint-3"],
    ),
    "cell": (
        "finished",
        [f"cache/cells/*/{name}" for name in ("rows.parquet", "items.parquet", "checksums.json")],
        ["cache/cells/*"],
    ),
    "training state": (
        "training",
        [
            f"cache/models/.*.training/{STATE}",
            "cache/models/.*.training/checkpoint-3/model.safetensors",
        ],
        ["cache/models/.*.training"],
    ),
    "unfinished search": ("search", ["cache/unfinished/*/stage-0.pt"], ["cache/unfinished/*"]),
    "run table": (
        "finished",
        [
            f"run/{name}"
            for name in (
                "results.parquet", "comparisons.parquet", "study.lock.json", "checksums.json", "items/*.parquet",
            )
        ],
        ["run/items"],
    ),
}  # fmt: skip
"""Kind of artefact -> the state in which it is read, its files, its folders."""


def faults() -> list[Fault]:
    """All of them."""
    return [
        Fault(kind, state, pattern, way)
        for kind, (state, files, folders) in KINDS.items()
        for patterns, ways in ((files, FILE_WAYS), (folders, FOLDER_WAYS))
        for pattern in patterns
        for way in ways
        if pattern in (files[0], folders[0]) or way in COMMON
    ]


@dataclass(frozen=True)
class Outcome:
    """What came of a fault."""

    result: str
    """made again, right, clear error; raw, wrong, hang."""
    said: str


def attempt(prepared: Prepared, fault: Fault) -> Outcome:
    """Damage the artefact, read it, and run the study again."""
    expected = prepared.expected
    prepared.restore(fault.state)
    outside = prepared.root / "outside"
    shutil.rmtree(outside, ignore_errors=True)
    outside.mkdir()
    (outside / "mine").write_text("all of it")
    found = sorted(prepared.root.glob(fault.pattern))
    WAYS[fault.way](found[0], _another(prepared, found), outside)
    cache._reported.clear()  # so that the line is logged for every fault
    with _logged() as lines:
        error = _tried(prepared.read if fault.kind == "run table" else prepared.again)
        if isinstance(error, VestigeError):
            last = _tried(prepared.again)
            if isinstance(last, VestigeError):
                return Outcome("clear error", str(last).splitlines()[0])
            error = last or error
    said = next(iter(lines), "") if error is None else str(error).splitlines()[0]
    said = said.replace(str(prepared.root), "...")
    if not (outside / "mine").exists() or (outside / "mine").read_text() != "all of it":
        return Outcome("wrong", "something outside the cache was lost")
    if isinstance(error, _HangError):
        return Outcome("hang", said)
    if error is not None and not isinstance(error, VestigeError):
        return Outcome("raw", f"{type(error).__name__}: {said}")
    if (error is None or fault.kind == "run table") and prepared.tables() != expected:
        return Outcome("wrong", said)
    if error is None and (left := prepared.damaged()):
        return Outcome("wrong", f"{left[0]} is still damaged")
    return Outcome("clear error" if error is not None else "made again" if lines else "right", said)


def _another(prepared: Prepared, found: list[Path]) -> Path:
    """Another artefact of the kind: of this study, of another model, or the next file."""
    same = [path for path in found[1:] if path.is_dir() or path.read_bytes() != found[0].read_bytes()]
    model = prepared.root / "place" / "other"
    beside = [path for path in sorted(found[0].parent.iterdir()) if path.is_file() and path != found[0]]
    if found[0].is_dir():
        return same[0] if same else model
    return next(path for path in (*same, model / found[0].name, *beside, model / "config.json") if path.is_file())


def _tried(action: Callable[[], object]) -> BaseException | None:
    """The error that a user would see."""

    def ring(*_: object) -> None:
        raise _HangError("it does not end")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    try:
        action()
    except BaseException as error:
        return error
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


@contextmanager
def _logged() -> Iterator[list[str]]:
    """What the package logs meanwhile."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("vestige")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


GOOD = ("made again", "right", "clear error")
BAD = ("raw", "wrong", "hang")


def try_all(known: list[dict[str, str]], keep: Callable[[list[dict[str, str]]], None]) -> None:
    """Every fault that is not among those known, and what came of it; all are kept after each."""
    found = {row["fault"]: row for row in known}
    with TemporaryDirectory() as folder, patch("os.fsync"):
        prepared = prepare(Path(folder) / "study")
        for fault in faults():
            if str(fault) in found:
                continue
            outcome = attempt(prepared, fault)
            found[str(fault)] = {
                "kind": fault.kind, "fault": str(fault), "result": outcome.result, "said": outcome.said
            }  # fmt: skip
            keep([found[str(each)] for each in faults() if str(each) in found])
            print(fault, outcome, file=sys.stderr, flush=True)
