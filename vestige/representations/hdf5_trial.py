"""An HDF5 file tried out in a process of its own: damaged ones can make the library run for ever, or crash it."""

import subprocess
import sys
from pathlib import Path

from vestige.errors import RepresentationError

SECONDS = 10
_PER_SECOND = 20 * 2**20
_TRIAL = """
import sys, h5py
small, packed = map(int, sys.argv[2:])
def visit(name, item):
    if isinstance(item, h5py.Dataset) and not item.external and not item.is_virtual:
        if item.nbytes <= max(small, packed * item.id.get_storage_size()):
            try:
                item[()]
            except Exception:
                pass
with h5py.File(sys.argv[1], "r") as file:
    file.visititems(visit)
"""


def try_hdf5(path: Path, small: int, packed: int) -> None:
    """An error where reading the file does not end, or ends the process; other damage shows when it is read.

    Values of more than `small` bytes that are packed more than `packed` times are not tried.
    """
    seconds = SECONDS + path.stat().st_size // _PER_SECOND
    fix = "the file is damaged: copy or extract it again"
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _TRIAL, str(path.absolute()), str(small), str(packed)],
            capture_output=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise RepresentationError(f"{path}: cannot be read as HDF5 (it does not end in {seconds} s)", fix=fix) from None
    if done.returncode < 0:
        raise RepresentationError(f"{path}: cannot be read as HDF5 (the library crashes)", fix=fix)
