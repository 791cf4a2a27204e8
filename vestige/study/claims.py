"""Claims: of several drivers on one cache, one makes a step while the others wait.

A claim is a small file with its owner and a count that the owner raises every few seconds. Whoever wants the step
watches the count: a claim whose count stands still for a while, by the watcher's own clock, is that of a dead owner
and is taken over; a dead process of the same machine is seen at once. Times of files and clocks of other machines
play no role, and nothing but creating, reading and renaming files is asked of the file system.

Two owners at once do no harm: steps are pure, and the first result stays. A claim only saves work.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BEAT = 2.0
"""Seconds between two beats of an owner."""
PATIENCE = 30.0
"""Seconds without a beat after which an owner counts as dead."""

_seen: dict[Path, tuple[str, float]] = {}
"""What was read of claims of others, and when it was first seen like this."""


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Hold a claim during the block; False if a living owner has it."""
    owner = {"host": socket.gethostname(), "pid": os.getpid(), "born": _born(os.getpid()), "id": uuid.uuid4().hex}
    if not _take(path, owner):
        yield False
        return
    stop = threading.Event()
    beats = threading.Thread(target=_beat, args=(path, owner, stop), daemon=True)
    beats.start()
    try:
        yield True
    finally:
        stop.set()
        beats.join()
        with suppress(OSError, ValueError):
            if json.loads(path.read_text())["id"] == owner["id"]:
                path.unlink()


def held(path: Path) -> bool:
    """Whether a living owner has the claim."""
    try:
        text = path.read_text()
        owner = json.loads(text)
        if owner["host"] == socket.gethostname() and _born(owner["pid"]) != owner["born"]:
            return False
    except FileNotFoundError:
        return False
    except (OSError, ValueError, LookupError, TypeError):
        text = "nothing that can be read"
    known, since = _seen.get(path, ("", 0.0))
    if known != text:
        _seen[path] = text, time.monotonic()
        return True
    return time.monotonic() - since < PATIENCE


def release(path: Path) -> None:
    """Take the claim from an owner that was found dead."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    with suppress(OSError):
        os.rename(path, aside)  # only one of several that find it dead succeeds
        os.unlink(aside)


def _take(path: Path, owner: dict[str, object]) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            if held(path):
                return False
            release(path)
            continue
        with os.fdopen(handle, "w") as stream:
            json.dump({**owner, "beat": 0}, stream)
        return True


def _beat(path: Path, owner: dict[str, object], stop: threading.Event) -> None:
    count = 0
    while not stop.wait(BEAT):
        count += 1
        temporary = path.with_name(f".{path.name}.{owner['id']}")
        with suppress(OSError, ValueError):
            if json.loads(path.read_text())["id"] != owner["id"]:
                return  # taken over: somebody thought we were dead
            temporary.write_text(json.dumps({**owner, "beat": count}))
            os.replace(temporary, path)


def _born(pid: int) -> str:
    """When a process of this machine was started; "" where there is none, or where that cannot be seen."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        if Path("/proc/self/stat").exists():
            return ""
        with suppress(OSError):
            os.kill(pid, 0)
            return "alive"
        return ""
