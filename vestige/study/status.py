"""How far a study is: read from its events, from whatever shell or machine."""

import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from vestige.errors import StorageError
from vestige.study.claims import BEAT
from vestige.study.record import DRIVER, EVENTS, Record
from vestige.study.tables import find_run

KINDS = {
    "load": "models loaded",
    "tune": "fine-tuning runs",
    "extract": "hidden states",
    "analyse": "analyses",
    "compare": "comparisons",
}
"""Kinds of steps, in words."""
_SILENT = 120.0
"""Seconds without a sign of life after which a driver of another machine seems dead: network file systems show files of
others up to a minute late, and clocks differ a little."""


@dataclass
class Status:
    """Steps by kind and state, what runs, what failed, and for how long."""

    total: Counter[str] = field(default_factory=Counter)
    """By kind; those that were there at the start too."""
    done: Counter[str] = field(default_factory=Counter)
    cached: Counter[str] = field(default_factory=Counter)
    failed: dict[str, dict[str, Any]] = field(default_factory=dict)
    running: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By key, the event that started it."""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """By kind, what finished steps took."""
    began: float = 0.0
    ended: float | None = None
    outcome: str = ""
    owner: dict[str, Any] = field(default_factory=dict)
    jobs: int = 1
    last: float = 0.0
    """When something was noted last."""
    waits: str = ""
    """What a detached driver is that has not begun yet, and where its output goes."""

    @property
    def left(self) -> int:
        """Steps that are not done."""
        return sum((self.total - self.done).values())

    @property
    def alive(self) -> bool | None:
        """Whether the driver runs; None where it runs, or ran, on another machine."""
        if self.ended is not None:
            return False
        if self.owner.get("host") != socket.gethostname():
            return None
        return Path(f"/proc/{self.owner.get('pid')}").exists() if Path("/proc").exists() else None

    def time_left(self) -> float | None:
        """Seconds, from what finished steps of each kind took; None as long as some kind has none."""
        remaining = self.total - self.done
        if any(kind not in self.seconds for kind, count in remaining.items() if count):
            return None
        work = sum(count * sum(self.seconds[kind]) / len(self.seconds[kind]) for kind, count in remaining.items())
        return work / max(1, self.jobs)

    def add(self, event: dict[str, Any]) -> None:
        """Take one event into account."""
        key, kind = event.get("key", ""), event.get("kind", "")
        self.last = max(self.last, event["at"])
        match event["event"]:
            case "detached" if event["at"] >= self.began:  # the driver itself may have been faster
                self.total, self.done, self.failed, self.running = Counter(), Counter(), {}, {}
                self.began, self.ended, self.owner = event["at"], None, event.get("owner", {})
                self.waits = f"{event['where']} (its output: {event['output']})"
            case "planned":
                self.waits = ""
                self.total, self.done = Counter(event["total"]), Counter(event["cached"])
                self.cached, self.failed, self.running = Counter(event["cached"]), {}, {}
                self.began, self.ended, self.outcome = event["at"], None, ""
                self.owner, self.jobs = event.get("owner", {}), event.get("jobs", 1)
            case "started":
                self.running[key] = event
            case "done":
                self.running.pop(key, None)
                self.done[kind] += 1
                self.seconds.setdefault(kind, []).append(event["seconds"])
            case "failed":
                self.running.pop(key, None)
                self.failed[key] = event
            case "retried" | "busy":
                self.running.pop(key, None)
            case "ended":
                self.ended, self.outcome, self.running = event["at"], event.get("outcome", ""), {}


def read_status(folder: Path) -> tuple[Status, Record]:
    """The state of the run in a folder."""
    place = find_run(folder)
    record = Record(place / "log")
    if not (record.folder / EVENTS).is_file():
        raise StorageError(
            f"{folder}: no events of a run in it", fix="name the folder that `vestige run` wrote (runs/NAME-HASH)"
        )
    status = Status()
    for event in record.events():
        try:
            status.add(event)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue  # written by another version
    return status, record


def lines(status: Status, record: Record, now: float | None = None) -> list[str]:
    """The state in words, for a log file or a terminal."""
    now = time.time() if now is None else now
    said = []
    for kind, title in KINDS.items():
        if status.total[kind]:
            cached = f" ({status.cached[kind]} from the cache)" if status.cached[kind] else ""
            said.append(f"{title:18} {status.done[kind]:5} of {status.total[kind]}{cached}")
    for key, event in list(status.running.items())[:20]:
        said.append(f"  running: {event.get('title', key)} ({clock(now - event['at'])}){_position(record, key)}")
    for key, event in status.failed.items():
        said.append(f"  failed: {event.get('title', key)}: {event.get('problem', '')}")
        if event.get("log"):
            said.append(f"    log: {event['log']}")
    return [*said, _closing(status, record, now)]


def _closing(status: Status, record: Record, now: float) -> str:
    taken = clock((status.ended or now) - status.began) if status.began else "0:00:00"
    if status.ended is not None:
        return f"ended after {taken}: {status.outcome}"
    if status.alive is False:
        gone = f"its driver (process {status.owner.get('pid')}) is gone"
        if status.waits:
            return f"ended before it began: {gone}; see {status.waits}"
        return f"stopped after {taken} or less: {gone}; run it again"
    if status.waits:
        return f"not begun yet, {taken} after it was handed to {status.waits}"
    left = status.time_left()
    said = f"running for {taken}" + (f", about {clock(left)} left" if left is not None and status.left else "")
    if status.alive is None:
        silent = now - max(status.last, record.touched(DRIVER))
        driver = f"its driver (process {status.owner.get('pid')} of {status.owner.get('host')})"
        if silent > _SILENT:
            return (
                f"stopped, as it seems: {driver} was last heard of {clock(silent)} ago, and gives a sign of life every "
                f"{BEAT:.0f} seconds; run it again"
            )
        said += f"; {driver} was last heard of {clock(silent)} ago"
    return said


def _position(record: Record, key: str) -> str:
    found = record.progress(key)
    if found is None:
        return ""
    of = f" of {found['total']}" if found.get("total") else ""
    rate = f", {found['done'] / found['seconds']:.1f}/s" if found.get("done") and found.get("seconds") else ""
    return f": {found.get('description', '')} {found.get('done', '')}{of}{rate}"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    return str(timedelta(seconds=max(0, round(seconds))))


def owner() -> dict[str, Any]:
    """This process, as the driver of a run."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def show(folder: Path, watch: bool, say: Callable[[str], None]) -> None:
    """Say how far a run is, once or until it ends."""
    while True:
        status, record = read_status(folder)
        if watch and sys.stdout.isatty():
            say("\x1b[2J\x1b[H" + "\n".join(lines(status, record)))
        else:
            say("\n".join(lines(status, record)))
        if not watch or status.ended is not None or status.alive is False:
            return
        time.sleep(2)
