"""The folder a run works in: found again after a kill, sealed and renamed when it is complete."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from vestige.cache import explaining_storage, put, remove
from vestige.checksums import seal

STATE = ".state.pt"
"""From which a killed run goes on; hidden, so that it is no part of the finished folder."""


@contextmanager
def working(place: Path) -> Iterator[Path]:
    """The folder `.<name>.training` beside `place`; it takes that name when the block ends well.

    What a killed run left there is kept if it can go on from its state. While another process works
    in it, a folder of our own is used. A run that fails leaves what is of use: a state, or checkpoints.
    Of several processes that train together only the first tidies up.
    """
    first = int(os.environ.get("RANK", "0")) == 0
    with explaining_storage(place):
        folder, lock = _claim(place) if first else (_shared(place), None)
        try:
            if first:
                _tidy(folder)
            yield folder
            if first:
                seal(folder, place)
                put(folder, place)
        except BaseException:
            if first and not (folder / STATE).exists() and not any(folder.glob("checkpoint-*")):
                with suppress(OSError):
                    remove(folder)
            raise
        finally:
            if lock is not None:
                os.close(lock)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.barrier()


def _shared(place: Path) -> Path:
    return place.with_name(f".{place.name}.training")


def _claim(place: Path) -> tuple[Path, int | None]:
    """The folder and the lock on it; a link or a file in its place is not ours to follow, and removed."""
    import fcntl

    folder = _shared(place)
    while True:
        if folder.is_symlink() or folder.is_file():
            remove(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            own = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}.training")
            own.mkdir()
            return own, None
        if folder.exists() and os.fstat(lock).st_ino == folder.stat().st_ino:
            return folder, lock
        os.close(lock)


def _tidy(folder: Path) -> None:
    """Take away what was being written at a kill, and everything where there is no state to go on from."""
    resumable = (folder / STATE).exists()
    for path in folder.iterdir():
        if path.name.endswith(".part") or not resumable:
            remove(path)
