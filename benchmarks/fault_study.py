"""The small study that faults are tried on, its drivers as processes, and what is counted of a try.

Drivers are forked from a process that has imported everything, so that a try takes seconds; they run the study as
`vestige run` does, and end as it would.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

PATIENCE = 900
"""Seconds after which a driver counts as one that hangs."""
RAW = "Traceback (most recent call last)"


def spec(place: Path, runs: int) -> dict[str, Any]:
    """A tiny BERT, runs of its fine-tuning, a checkpoint, hidden states, probes, a comparison: 13 steps of two runs."""
    from damage import spec as damaged

    raw = damaged(place, neurons=False)
    raw["models"]["tuned"]["runs"] = runs
    return raw


@dataclass
class Driver:
    """A process that runs the study."""

    pid: int
    run: Path
    output: Path
    code: int | None = None

    def ended(self) -> bool:
        """Whether it has ended."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def wait(self, seconds: float = PATIENCE) -> bool:
        """Whether it ends in time."""
        end = time.monotonic() + seconds
        while not self.ended():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def said(self) -> str:
        """All that it printed."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""


@dataclass(frozen=True)
class Place:
    """Where a study is tried: its files, and what a run that nothing disturbed has left."""

    root: Path
    raw: dict[str, Any]
    expected: dict[str, bytes]
    steps: dict[str, dict[str, Any]]
    """By key: kind, title, and the artefacts that it leaves, as paths in the cache."""

    def start(self, folder: Path, results: str = "run", program: bool = False, **engine: Any) -> Driver:
        """A driver on the cache of a folder, with results of its own; `program`: as a command, not forked."""
        run, output = folder / results, folder.parent / f"{folder.name}-{results}.txt"
        if program:
            (folder.parent / "study.yaml").write_text(yaml.safe_dump(self.raw))
            command = [sys.executable, "-m", "vestige.cli", "run", str(folder.parent / "study.yaml"), "--out", str(run)]
            command += ["--cache", str(folder / "cache")]
            for key, value in engine.items():
                command += ["--engine", value] if key == "name" else ["--with", f"{key}={value}"]
            with open(output, "ab") as stream:
                started = subprocess.Popen(command, stdout=stream, stderr=stream, start_new_session=True)
            return Driver(started.pid, run, output)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            os._exit(_drive(self.raw, run, folder / "cache", engine))
        return Driver(pid, run, output)

    def finish(self, folder: Path, count: int) -> None:
        """Put into the cache of a folder what the first steps of the undisturbed run have left."""
        for leaf in (leaf for step in [*self.steps.values()][:count] for leaf in step["leaves"]):
            shutil.copytree(self.root / "undisturbed" / "cache" / leaf, folder / "cache" / leaf, dirs_exist_ok=True)

    def same(self, run: Path) -> bool:
        """Whether all tables of a run have the bytes that are expected."""
        return tables(run) == self.expected

    def finished(self, folder: Path) -> set[str]:
        """Keys of steps whose artefacts are in place."""
        cache = folder / "cache"
        return {
            key
            for key, step in self.steps.items()
            if all((cache / leaf / "checksums.json").exists() for leaf in step["leaves"])
        }

    def touched(self, damaged: Iterable[str]) -> set[str]:
        """Keys of steps that have an artefact at, in or over one of these paths of the cache."""
        places = [Path(path) for path in damaged]

        def near(leaf: str) -> bool:
            return any(Path(leaf) == p or Path(leaf) in p.parents or p in Path(leaf).parents for p in places)

        return {key for key, step in self.steps.items() if any(map(near, step["leaves"]))}


def tables(run: Path) -> dict[str, bytes]:
    """Every table of a run."""
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*.parquet"))}


def _drive(raw: dict[str, Any], run: Path, cache: Path, engine: dict[str, Any]) -> int:
    """As the command line does it: 0, or 1 and an error in words; 2 for an error that nobody foresaw."""
    from vestige.errors import VestigeError
    from vestige.study.run import Study

    try:
        made = Study.from_dict(raw, run, cache=cache).run(**{"name": "inline", **engine})
        for failed in made.failed:
            print(f"error: {failed['problem']}", flush=True)
        return 1 if made.failed else 0
    except VestigeError as error:
        print(f"error: {error}", flush=True)
        return 1
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 2


def prepare(root: Path, runs: int = 2) -> Place:
    """Run the study undisturbed, and keep its tables and the names of its steps."""
    import peft  # noqa: F401  (imported once, here, and not by every driver)
    import scipy.stats  # noqa: F401
    import torch  # noqa: F401
    import transformers  # noqa: F401
    from small_study import make_place
    from transformers import AutoModel, AutoTokenizer, PreTrainedModel  # noqa: F401

    import vestige.finetune.train
    import vestige.study.steps.origin  # noqa: F401
    from vestige.study.engines.local import Local  # noqa: F401
    from vestige.study.run import Study

    (root / "place").mkdir(parents=True)
    child = os.fork()  # models are made in a process of its own, so that this one has run no mathematics
    if child == 0:
        make_place(root / "place")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    place = Place(root, spec(root / "place", runs), {}, {})
    folder = root / "undisturbed"
    folder.mkdir()
    driver = place.start(folder)
    assert driver.wait() and driver.code == 0, driver.said()
    place.expected.update(tables(driver.run))
    for key, step in Study.from_dict(place.raw, folder / "run", cache=folder / "cache").plan().steps.items():
        leaves = [str(leaf.relative_to(folder / "cache")) for leaf in step.leaves]
        place.steps[key] = {"kind": step.kind, "title": step.title, "leaves": leaves}
    return place


def events(runs: Iterable[Path]) -> list[dict[str, Any]]:
    """Events of several runs, one run after the other."""
    from vestige.study.record import Record

    return [event for run in runs for event in Record(run / "log").events()]


def begun(found: Iterable[dict[str, Any]]) -> Counter[str]:
    """By key, how often work on a step was begun: started, and neither found finished nor left to another driver."""
    count: Counter[str] = Counter()
    for event in found:
        if event["event"] == "started":
            count[event["key"]] += 1
        elif event["event"] == "busy" or (event["event"] == "done" and not event.get("made")):
            count[event["key"]] -= 1
    return count


def made(found: Iterable[dict[str, Any]]) -> set[str]:
    """Keys of steps that were started among these events, and computed to their end."""
    started: set[str] = set()
    done: set[str] = set()
    for event in found:
        if event["event"] == "started":
            started.add(event["key"])
        elif event["event"] == "done" and event.get("made") and event["key"] in started:
            done.add(event["key"])
    return done


def to_json(value: Any) -> str:
    """As it is kept."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
