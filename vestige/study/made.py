"""A step that is made a second time gives the same bytes; where it does not, that is said.

Steps are named by what goes into them, so a second run of one is expected to leave what the first did. What the first
left is remembered by its checksums, also after the files are gone.
"""

import json
import logging
from contextlib import suppress

from vestige.cache import read_checked, write_checked
from vestige.checksums import CHECKSUMS
from vestige.study.steps.step import Step

_log = logging.getLogger(__name__)
_NUMBERS = (".safetensors", ".npy", ".parquet")
"""Files that hold results; logs and records of versions may differ."""


def compare_with_before(step: Step) -> None:
    """Remember what a step has just made, or warn where it is not what an earlier run of it made."""
    path = step.root / "records" / f"{step.key}.json"
    now, before = _sums(step), read_checked(path)
    if before is None:
        write_checked(path, json.dumps(now).encode())
        return
    with suppress(ValueError):
        then = json.loads(before)
        differing = sorted(name for name in now if name in then and now[name] != then[name])
        if differing:
            _log.warning(
                "%s was made again and is not what it was (%s differs): the machine or a library gives other numbers "
                "than before, so results from before and after should not be compared",
                step.title,
                differing[0],
            )


def _sums(step: Step) -> dict[str, str]:
    """By artefact and file, the checksums of what holds results."""
    found: dict[str, str] = {}
    for folder in step.leaves:
        with suppress(OSError, ValueError, LookupError, TypeError):
            for name, (_, checksum) in json.loads((folder / CHECKSUMS).read_bytes())["files"].items():
                if name.endswith(_NUMBERS):
                    found[f"{folder.parent.name}/{folder.name}/{name}"] = checksum
    return found
