"""The folder a run works in: found again after a kill, and renamed when it is complete."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from vestige.cache import explaining_storage

STATE = "state.pt"
"""From which a killed run goes on."""


@contextmanager
def working(place: Path, proof: str) -> Iterator[Path]:
    """The folder `.<name>.training` beside `place`; it takes that name when the block ends well.

    What a killed run left there is kept if it can go on from its state. While another process works
    in it, a folder of our own is used. A run that fails leaves what is of use: a state, or checkpoints.
    Of several processes that train together only the first tidies up. `proof` is the file that
    says that a folder is complete.
    """
    first = int(os.environ.get("RANK", "0")) == 0
    with explaining_storage(place):
        folder, lock = _claim(place) if first else (_shared(place), None)
        try:
            if first:
                _tidy(folder)
            yield folder
            if first:
                _finish(folder, place, proof)
        except BaseException:
            if first and not (folder / STATE).exists() and not any(folder.glob("checkpoint-*")):
                shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            if lock is not None:
                os.close(lock)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.barrier()


def _shared(place: Path) -> Path:
    return place.with_name(f".{place.name}.training")


def _claim(place: Path) -> tuple[Path, int | None]:
    """The folder and the lock on it."""
    import fcntl

    folder = _shared(place)
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
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
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _finish(folder: Path, place: Path, proof: str) -> None:
    if (place / proof).exists():
        shutil.rmtree(folder)
        return
    shutil.rmtree(place, ignore_errors=True)
    os.replace(folder, place)
