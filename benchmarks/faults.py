"""What becomes of a study when machines fail: each fault at twenty random moments, and every artefact damaged.

    python benchmarks/faults.py                      # all faults; goes on where it was, a try at a time
    python benchmarks/faults.py --only 'driver killed' --tries 5
    python benchmarks/faults.py --write              # the page again from the kept results

A small study is run to its end once. Then, for every fault and moment, it is started with an empty cache, the fault
happens, it is started again where its driver has ended, and its tables are compared with the first, byte for byte.
Full disks need root (a small file system is mounted), the clock needs `faketime`, SLURM slurm-wlm and munge, and root.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import fcntl
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fault_study import PATIENCE, RAW, Driver, Place, begun, events, made, prepare, to_json

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "faults.json"
STAGES = 5
"""Of the small study, one after the other: tune, load, extract, analyse, compare."""


@dataclass
class Try:
    """One study, one fault."""

    place: Place
    folder: Path
    rng: random.Random
    engine: dict[str, Any] = field(default_factory=dict)
    program: bool = False
    drivers: list[Driver] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    """Paths of the cache that the fault changed."""

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def start(self, name: str = "run") -> Driver:
        """Another driver."""
        self.drivers.append(self.place.start(self.folder, name, self.program, **self.engine))
        return self.drivers[-1]


@dataclass(frozen=True)
class Kind:
    """A fault: what happens, and what has to be there."""

    does: Callable[[Try], bool]
    """Lets it happen; False where it came too late."""
    engine: dict[str, Any] = field(default_factory=dict)
    around: Callable[[], Any] | None = None
    """A context in which all its tries run; what it gives is added to the settings of the engine."""
    each: Callable[[Path], Any] | None = None
    """A context around every try, which is given its folder."""
    program: bool = False
    """Whether drivers are started as commands, and not forked."""
    slow: bool = False
    """Whether every step waits for programs to start, which take most of a try: there is one run of fine-tuning then,
    and a try begins with the steps that a run had finished at a random point, and is disturbed while the next run."""
    elsewhere: Callable[[str, int], bool] | None = None
    """Has it tried by another process, where this one cannot."""


def attempt(place: Place, kind: Kind, folder: Path, seed: str, length: float, engine: dict[str, Any]) -> dict | None:
    """Start, wait a random part of the time that a run takes, let it happen; what came of it, or None: too late."""
    rng = random.Random(seed)
    tried = Try(place, folder, rng, {**kind.engine, **engine}, kind.program)
    moment = rng.uniform(0.02, 1.0) * length
    if kind.slow:
        place.finish(folder, rng.randrange(len(place.steps)))
        moment /= STAGES
    first = tried.start()
    while kind.slow and not events([first.run])[1:] and not first.wait(0.1):
        pass
    if first.wait(moment):
        return None
    row = happens(tried, kind)
    return None if row is None else {"moment": round(moment, 2), **row}


def happens(tried: Try, kind: Kind) -> dict[str, Any] | None:
    """Let it happen now, and bring the study to its end; what came of it, or None where it had ended."""
    place, first = tried.place, tried.drivers[0]
    finished, before = place.finished(tried.folder), len(events([first.run]))
    if not kind.does(tried):
        _end(tried)
        return None
    row: dict[str, Any] = {"steps": len(place.steps), "finished": len(finished), "errors": [], "result": ""}
    for driver in list(tried.drivers):
        _finish(tried, driver, row)
        if tried.damaged and not row["result"]:  # damage that this run no longer met
            _finish(tried, tried.start("after"), row)
        if row["result"]:
            _end(tried)
            break
    runs = list(dict.fromkeys(driver.run for driver in tried.drivers))
    found = events(runs)
    again = made(events(runs[:1])[before:] + events(runs[1:])) & finished
    row["lost"] = sorted(place.steps[key]["title"] for key in again - place.touched(tried.damaged))
    count = begun(found)
    row["again"] = round(sum(max(0, n - 1) for n in count.values()) / len(place.steps), 4)
    row["damaged"] = tried.damaged[:5]
    if not row["result"]:
        row["result"] = "same" if all(place.same(run) for run in runs) else "wrong"
    return row


def _finish(tried: Try, driver: Driver, row: dict[str, Any]) -> None:
    """Wait for a driver, and start the study again as long as it ends with an error or was killed."""
    for _ in range(5):
        if not driver.wait():
            row["result"] = "hang"
            return
        if RAW in driver.said():
            row["result"], row["errors"] = "raw", [*row["errors"], driver.said()[-1500:]]
            return
        if driver.code == 0:
            return
        if driver.code != -signal.SIGKILL:
            line = next((line for line in driver.said().splitlines() if line.startswith("error: ")), driver.said())
            row["errors"].append(line.replace(str(tried.folder), "...")[:300])
        with suppress(OSError):
            driver.output.unlink()
        driver = tried.start(driver.run.name)
        tried.drivers.pop()
        row["restarts"] = row.get("restarts", 0) + 1
    row["result"] = "unfinished"


def _end(tried: Try) -> None:
    for driver in tried.drivers:
        if not driver.ended():
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(10)


QUICK = ("driver killed", "bit flipped", "cache partly deleted")
"""What needs neither root nor another program, and is tried once by the tests."""


def quick(place: Place, kinds: dict[str, Kind]) -> dict[str, Any]:
    """A few faults, each when five steps are finished, however fast this machine is today; nothing is kept."""
    found = {}
    for name in QUICK:
        folder = Path(tempfile.mkdtemp(prefix="try-", dir=place.root))
        tried = Try(place, folder, random.Random(name), kinds[name].engine)
        first = tried.start()
        while len(place.finished(folder)) < 5:
            assert not first.wait(0.02), first.said()
        found[name] = happens(tried, kinds[name])
    return found


def sweep(place: Place, name: str, kind: Kind, tries: int, kept: dict[str, Any]) -> None:
    """Try a fault until there are so many tries; every one is kept at once."""
    rows = kept.setdefault("moments", {}).setdefault(name, [])
    context = kind.around() if kind.around is not None else None
    engine = context.__enter__() if context is not None else {}
    length, number = _length(place, kind, engine), 0
    try:
        while len(rows) < tries and number < 5 * tries:
            number += 1
            folder = Path(tempfile.mkdtemp(prefix="try-", dir=place.root))
            inside = kind.each(folder) if kind.each is not None else None
            try:
                if inside is not None:
                    inside.__enter__()
                began = time.monotonic()
                row = attempt(place, kind, folder, f"{name} {len(rows)} {number}", length, engine)
            finally:
                if inside is not None:
                    inside.__exit__(None, None, None)
            if row is None:
                length *= 0.85
                print(f"{name}: too late", file=sys.stderr, flush=True)
            else:
                row["seconds"] = round(time.monotonic() - began, 1)
                rows.append(row)
                _keep({name: rows})
                print(name, len(rows), {k: v for k, v in row.items() if k != "damaged"}, file=sys.stderr, flush=True)
            if row is None or row["result"] == "same":
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        if context is not None:
            context.__exit__(None, None, None)


_lengths: dict[str, float] = {}


def _length(place: Place, kind: Kind, engine: dict[str, Any]) -> float:
    """Seconds that a run takes now, undisturbed; measured once for an engine that starts programs."""
    name = kind.engine.get("name", "inline")
    if name not in _lengths or name == "inline":
        _lengths[name] = _measured(place, kind, engine)
    return _lengths[name]


def _measured(place: Place, kind: Kind, engine: dict[str, Any]) -> float:
    folder = Path(tempfile.mkdtemp(prefix="length-", dir=place.root))
    began = time.monotonic()
    driver = place.start(folder, "run", kind.program, **{**kind.engine, **engine})
    assert driver.wait() and driver.code == 0, driver.said()
    assert place.same(driver.run), "an engine gives other tables, undisturbed"
    return time.monotonic() - began


def read() -> dict[str, Any]:
    """The kept results."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def _keep(moments: dict[str, list[dict[str, Any]]] | None = None, **changed: Any) -> None:
    """Put results to those of other faults, which another process may be trying meanwhile."""
    with open(Path(tempfile.gettempdir()) / "vestige-faults.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = {**read(), **changed}
        kept["moments"] = {**kept.get("moments", {}), **(moments or {})}
        temporary = RESULTS.with_name(f".{RESULTS.name}.{os.getpid()}")
        temporary.write_text(to_json(kept))
        temporary.replace(RESULTS)


def _try(name: str, tries: int, root: Path) -> None:
    """One kind of fault, or all damage between two runs; the small study is run when it is first needed."""
    from fault_kinds import KINDS

    if name == "damage":
        from damage import try_all

        try_all(read().get("damage", []), lambda rows: _keep(damage=rows))
        return
    kind = KINDS[name]
    if kind.elsewhere is None or not kind.elsewhere(name, tries):
        runs = 1 if kind.slow else 2
        if runs not in _places:
            _places[runs] = prepare(root / f"runs-{runs}", runs)
        sweep(_places[runs], name, kind, tries, read())


_places: dict[int, Place] = {}


def main() -> None:
    """Try what is asked for, and write the page."""
    from fault_kinds import KINDS
    from fault_page import GOAL, write

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=[*KINDS, "damage"])
    parser.add_argument("--tries", type=int, default=GOAL)
    parser.add_argument("--write", action="store_true", help="only the page, from the kept results")
    parser.add_argument("--quick", action="store_true", help="a few faults once, as JSON; nothing is kept")
    asked = parser.parse_args()
    if asked.quick:
        with tempfile.TemporaryDirectory(prefix="faults-") as root:
            print(f"\n{json.dumps(quick(prepare(Path(root)), KINDS))}")
        return
    names = asked.only or [*KINDS, "damage"]
    if not asked.write:
        with tempfile.TemporaryDirectory(prefix="faults-") as root:
            for name in names:
                _try(name, asked.tries, Path(root))
    write(read())


__all__ = ["PATIENCE", "Kind", "Try"]

if __name__ == "__main__":
    sys.modules["faults"] = sys.modules["__main__"]
    main()
