"""Where finished work is kept, how it gets there whole, and how damage is found.

The root is `--cache`, else VESTIGE_CACHE, else the user's cache folder. An artefact is a folder that
is written under a temporary name, sealed with checksums, flushed to disk and renamed into place:
killing the writer leaves nothing that a reader would take for a result. What has changed since is
reported in one line and made again; the new folder replaces the damaged one. Links are never
followed where something is removed.
"""

import errno
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vestige.checksums import CHECKSUMS, fault, file_is_right, flush, marked, seal, unmarked
from vestige.errors import DamageError, StorageError

_log = logging.getLogger(__name__)
_reported: set[tuple[Path, str]] = set()
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (
    errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ELOOP,
    errno.ENAMETOOLONG, errno.EIO,
)  # fmt: skip


def cache_folder(given: str | Path | None = None) -> Path:
    """The root of the cache; sub-folders are named by content hashes."""
    try:
        if given is not None:
            root = Path(given).expanduser()
        elif os.environ.get("VESTIGE_CACHE"):
            root = Path(os.environ["VESTIGE_CACHE"]).expanduser()
        else:
            root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vestige"
    except RuntimeError:
        raise StorageError(
            "there is no home folder to keep finished work in", fix="name a folder with --cache, or VESTIGE_CACHE"
        ) from None
    if "\0" in str(root):
        raise StorageError(f"{str(root)!r} is no name of a folder", fix="name another with --cache, or VESTIGE_CACHE")
    return root


def whole(folder: Path, reads: Callable[[str], bool] = lambda name: True) -> bool:
    """Whether an artefact is there as it was written; damage is logged in one line, once.

    Names and sizes are looked at every time, the content of files that `reads` names once in a process.
    """
    if not os.path.lexists(folder):
        return False
    found = fault(folder, reads)
    if found is not None:
        _report(folder, found)
    return found is None


def demand(folder: Path, file: str | None = None) -> None:
    """Raise an error unless an artefact (or this file of it) is as it was written."""
    if file is not None and file_is_right(folder / file):
        return
    if found := give_up(folder, lambda name: file in (None, name)):
        raise DamageError(f"{folder} is damaged: {found}", fix="run again: it is made again")


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Read from an artefact that is whole; an error while it is removed or damaged meanwhile is that of damage."""
    demand(folder)
    try:
        yield
    except (OSError, ValueError) as error:
        demand(folder)
        raise error


def give_up(folder: Path, reads: Callable[[str], bool] = lambda name: True) -> str | None:
    """Take the checksums from a damaged artefact, so that it is made again; what was wrong with it, or None."""
    if not os.path.lexists(folder):
        return "it is missing"
    if fault(folder, reads) is None:
        return None
    with explaining_storage(folder), _locked(folder):
        found = fault(folder, reads)  # another process may just have replaced it
        if found is not None:
            _report(folder, found)
            if not folder.is_symlink() and folder.is_dir():
                remove(folder / CHECKSUMS)
                _reported.add((folder, f"it has no {CHECKSUMS}"))  # it is the same damage
    return found


@contextmanager
def writing(folder: Path, sealed: bool = True) -> Iterator[Path]:
    """A temporary folder that takes the name `folder` if the block ends well.

    Another process may finish the same artefact first; equal names mean equal content, so its work
    is kept and ours dropped. What is not an artefact (`sealed` is False) replaces nothing.
    """
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.part")
    with explaining_storage(folder):
        try:
            temporary.mkdir(parents=True)
            with _explaining_removal(temporary):
                yield temporary
                if sealed:
                    seal(temporary, folder)
                    put(temporary, folder)
                else:
                    os.replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def put(made: Path, place: Path) -> None:
    """Give a sealed folder its name; a whole artefact of that name stays, a damaged one is replaced."""
    while os.path.lexists(place) or not _renamed(made, place):
        with _locked(place):
            if whole(place):
                remove(made)
                return
            if os.path.lexists(place):
                aside = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}.part")
                os.rename(place, aside)
                remove(aside)


def _renamed(made: Path, place: Path) -> bool:
    """Rename a folder; False if another process was faster."""
    try:
        os.rename(made, place)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and os.path.lexists(place):
            return False
        raise
    flush(place.parent)
    return True


def remove(path: Path) -> None:
    """Remove a file, a folder or a link, never what a link points to; where nothing is there, nothing is done."""
    with suppress(FileNotFoundError):  # another process may be faster
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    with explaining_storage(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(content)
            flush(temporary)
            temporary.replace(path)
            flush(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def write_checked(path: Path, content: bytes) -> None:
    """Write a file of the cache that stands alone, with its checksum in its first line."""
    with explaining_storage(path):
        if path.is_dir() and not path.is_symlink():
            remove(path)
    write_file(path, marked(path, content))


def read_checked(path: Path) -> bytes | None:
    """What `write_checked` wrote; None where there is nothing, or something else: that is logged in one line."""
    try:
        content = unmarked(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _report(path, f"it cannot be read ({error.strerror})")
        return None
    if content is None:
        _report(path, "its content has changed")
    return content


@contextmanager
def explaining_storage(place: Path) -> Iterator[None]:
    """Turn a full disk or a read-only folder into an error that says what to do."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        number = _error_number(error)
        if number in _FULL:
            raise StorageError(
                f"the disk that holds {place.parent} is full",
                fix="free some space or choose another place (--cache, or VESTIGE_CACHE), and run again: "
                "finished work is kept",
            ) from error
        if number in _REFUSED:
            raise StorageError(
                f"cannot write into {place.parent}: {os.strerror(number)}",
                fix="choose a folder you may write to with --cache, or VESTIGE_CACHE",
            ) from error
        raise


def _error_number(error: Exception) -> int:
    """The system's number of an error; libraries in Rust write it into their text, NumPy how much it could write."""
    if isinstance(error, OSError):
        short = "requested and" in str(error) or "free space" in str(error)
        return error.errno or (errno.ENOSPC if short else 0)
    text = str(error)
    return next((number for number in (*_FULL, *_REFUSED) if f"(os error {number})" in text), 0)


@contextmanager
def _explaining_removal(temporary: Path) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        if temporary.exists():
            raise
        raise DamageError(
            f"{temporary.parent} was removed while it was written to", fix="run again: it is made again"
        ) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Nobody else replaces this folder meanwhile. What cannot be locked is no folder of ours, or gone."""
    import fcntl

    handle = None
    try:
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _report(path: Path, found: str) -> None:
    if (path, found) not in _reported:
        _reported.add((path, found))
        _log.warning("%s is damaged (%s); it is made again", path, found)
