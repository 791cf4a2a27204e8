"""Where finished work is kept, and how it gets there whole.

The root is `--cache`, else VESTIGE_CACHE, else the user's cache folder. A folder in it is written
under a temporary name and renamed into place when it is complete; killing the writer leaves
nothing that a reader would take for a result.
"""

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vestige.errors import StorageError


def cache_folder(given: str | Path | None = None) -> Path:
    """The root of the cache; sub-folders are named by content hashes."""
    if given is not None:
        return Path(given).expanduser()
    if os.environ.get("VESTIGE_CACHE"):
        return Path(os.environ["VESTIGE_CACHE"]).expanduser()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "vestige"


@contextmanager
def writing(folder: Path) -> Iterator[Path]:
    """A temporary folder that takes the name `folder` if the block ends well.

    Another process may finish the same folder first; equal names mean equal content, so its work
    is kept and ours dropped.
    """
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.part")
    with explaining_storage(folder):
        try:
            temporary.mkdir(parents=True)
            yield temporary
            try:
                os.replace(temporary, folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not folder.exists():
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def explaining_storage(place: Path) -> Iterator[None]:
    """Turn a full disk or a read-only folder into an error that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError(
                f"the disk that holds {place.parent} is full",
                fix="free some space or choose another place (--cache, or VESTIGE_CACHE), and run again: "
                "finished work is kept",
            ) from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOTDIR, errno.EEXIST):
            raise StorageError(
                f"cannot write into {place.parent}: {error.strerror}",
                fix="choose a folder you may write to with --cache, or VESTIGE_CACHE",
            ) from error
        raise


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    with explaining_storage(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
