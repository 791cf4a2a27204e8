"""The cache as its owner sees it: what is there, whether it is whole, and what can go."""

import os
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from vestige.cache import cache_folder, remove, whole, write_file
from vestige.checksums import CHECKSUMS, unmarked
from vestige.errors import SpecError
from vestige.study.claims import claimed, held
from vestige.study.engines.settings import Size
from vestige.study.plan import Plan

KINDS = {
    "representations": "hidden states",
    "models": "fine-tuned models",
    "cells": "results of analyses",
    "compared": "comparisons",
    "read": "what was counted when a corpus was read",
    "described": "what was found when a model was loaded",
    "tasks": "words and labels",
    "records": "checksums of what steps have made, to notice when they make something else",
    "unfinished": "of analyses that were interrupted",
    "offload": "weights that did not fit into memory",
}


@dataclass(frozen=True)
class Kept:
    """One piece of finished work."""

    kind: str
    path: Path
    size: int
    used: float
    """When it was last read or written, in seconds since 1970."""


def kept(cache: str | Path | None) -> list[Kept]:
    """Everything in the cache, least recently used first."""
    root = cache_folder(cache)
    found = [_kept(kind, path) for kind in KINDS for path in _places(root / kind, kind)]
    return sorted(found, key=lambda each: each.used)


def _places(folder: Path, kind: str) -> list[Path]:
    if not folder.is_dir():
        return []
    places = [path for path in sorted(folder.iterdir()) if not path.name.endswith(".part")]
    return [each for path in places for each in sorted(path.iterdir())] if kind == "representations" else places


def _kept(kind: str, path: Path) -> Kept:
    files = [path] if path.is_file() else [Path(place) / name for place, _, names in os.walk(path) for name in names]
    states = [file.lstat() for file in files if os.path.lexists(file)]
    used = max((max(state.st_atime, state.st_mtime) for state in states), default=path.lstat().st_mtime)
    return Kept(kind, path, sum(state.st_size for state in states), used)


def cache_lines(cache: str | Path | None, studies: bool = False) -> Iterator[str]:
    """What the cache holds, in words."""
    root, found = cache_folder(cache), kept(cache)
    yield f"{root}: {size_text(sum(each.size for each in found))}"
    for kind, title in KINDS.items():
        mine = [each for each in found if each.kind == kind]
        if mine:
            last = time.strftime("%Y-%m-%d %H:%M", time.localtime(mine[-1].used))
            size = size_text(sum(each.size for each in mine))
            yield f"  {kind:16} {len(mine):6}  {size:>9}  last used {last}  ({title})"
    running = [path for path in (root / "claims").glob("[!.]*") if held(path)] if root.is_dir() else []
    if running:
        yield f"  {len(running)} steps are being made now"
    if studies:
        yield from _by_study(root, found)


def _by_study(root: Path, found: Collection[Kept]) -> Iterator[str]:
    users: dict[str, list[str]] = {}
    for note in sorted((root / "studies").glob("*")) if (root / "studies").is_dir() else []:
        for key in note.read_text(encoding="utf-8").split():
            users.setdefault(key, []).append(note.name)
    by_study: dict[str, int] = {}
    for each in found:
        name = each.path.parent.name if each.kind == "representations" else each.path.name.removesuffix(".json")
        for study in users.get(name, ["of no study that is known"]):
            by_study[study] = by_study.get(study, 0) + each.size
    for study, size in sorted(by_study.items(), key=lambda pair: -pair[1]):
        yield f"  {size_text(size):>9}  {study}"


def damaged(cache: str | Path | None) -> Iterator[str]:
    """Every artefact that is not as it was written."""
    for each in kept(cache):
        if each.path.is_file() and each.kind in ("tasks", "records") and unmarked(each.path) is None:
            yield f"{each.path} is damaged"
        nested = [path for path in each.path.glob("*") if (path / CHECKSUMS).exists()] if each.path.is_dir() else []
        for path in (each.path, *nested):
            artefact = path.is_dir() and each.kind not in ("unfinished", "offload") and not path.name.startswith(".")
            if artefact and not whole(path):
                yield f"{path} is damaged"


def clean(
    cache: str | Path | None, kinds: Collection[str], days: float | None, size: str | None, sure: bool
) -> Iterator[str]:
    """Remove what is old, or the least recently used until the rest fits; never what a running study uses."""
    for kind in kinds:
        if kind not in KINDS:
            raise SpecError(f"the cache keeps no {kind!r}", fix=f"choose from {', '.join(KINDS)}")
    if days is None and size is None and not kinds:
        raise SpecError("nothing says what is to be removed", fix="give --kind, --older-than or --down-to")
    root, found = cache_folder(cache), kept(cache)
    going = _going(found, kinds, days, size)
    using = _in_use(root)
    free = [each for each in going if not _used(each, using)]
    for each in free:
        if sure:
            remove(each.path)
    verb = "removed" if sure else "would be removed (say --yes)"
    yield f"{len(free)} pieces, {size_text(sum(each.size for each in free))} {verb}"
    if len(free) < len(going):
        yield f"{len(going) - len(free)} are left: a running study uses them"


def _going(found: Collection[Kept], kinds: Collection[str], days: float | None, size: str | None) -> list[Kept]:
    chosen = [each for each in found if not kinds or each.kind in kinds]
    if days is not None:
        chosen = [each for each in chosen if time.time() - each.used >= days * 86400]
    if size is None:
        return chosen
    try:
        limit = TypeAdapter(Size).validate_python(size)
    except ValidationError:
        raise SpecError(f"{size!r} is no size", fix="write 20GB or 500MB") from None
    left, going = sum(each.size for each in found), []
    for each in chosen:
        if left <= limit:
            break
        going.append(each)
        left -= each.size
    return going


@contextmanager
def in_use(root: Path, study: str, plan: Plan) -> Iterator[None]:
    """What a running study reads and writes is not cleaned away meanwhile; which study it was is remembered."""
    names = {*plan.steps}
    for step in plan.steps.values():
        names |= {Path(file).stem for file in [getattr(step, "task_file", None)] if file}
        names |= {folder.parent.name for folder in getattr(step, "vectors", [])}
    text = "\n".join(sorted(names))
    write_file(root / "studies" / study, text.encode())
    place = root / "running" / uuid.uuid4().hex
    with claimed(place.with_suffix(".claim")):
        write_file(place.with_suffix(".keys"), text.encode())
        try:
            yield
        finally:
            remove(place.with_suffix(".keys"))


def _in_use(root: Path) -> set[str]:
    """Names of what running studies read or write."""
    found: set[str] = set()
    for note in (root / "running").glob("[!.]*.keys") if (root / "running").is_dir() else []:
        if held(note.with_suffix(".claim")):
            found |= {*note.read_text(encoding="utf-8").split()}
        else:
            remove(note)
    return found


def _used(each: Kept, using: set[str]) -> bool:
    names = {each.path.name, each.path.name.removesuffix(".json"), each.path.parent.name}
    return bool(names & using) or any(part.strip(".").split(".")[0] in using for part in names)


def size_text(size: float) -> str:
    """Bytes, for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
