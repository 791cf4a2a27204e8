"""What lm-evaluation-harness left of every item: the files of its `--log_samples`.

One JSON object a line, a file for every task: `samples_TASK_DATE.jsonl`. A line is one item under one filter, with
`doc_id`, `doc_hash` (or the document itself), `metrics` (their names) and a value under each of these names.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vestige.digest import digest_json
from vestige.errors import AnalysisError
from vestige.files import check_file, load_json

_NAME = re.compile(r"samples_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:[.-]\d+)?)$")
_DESCRIBING = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
    "target_hash",
}  # fmt: skip
"""Keys of a line that are no metrics."""
_MADE = "run lm-eval with --log_samples and --output_path, and name the folder or the samples_*.jsonl files"

Place = tuple[str, str, str]
"""Task, filter, metric."""


@dataclass(frozen=True)
class Item:
    """One document under one filter."""

    value: float
    document: str
    """A hash of the document and its gold answer."""
    prompt: str
    """A hash of the prompt; empty where the file does not say."""
    where: str
    """File and line."""


@dataclass
class Logged:
    """What one model's files hold."""

    items: dict[Place, dict[int, Item]] = field(default_factory=dict)
    """By task, filter and metric, then by the number of the document."""
    skipped: dict[Place, str] = field(default_factory=dict)
    """Metrics that have no number per item, and what they have instead."""
    notes: list[str] = field(default_factory=list)


def read_items(source: str | Path | Sequence[str | Path]) -> Logged:
    """The items of a file, of several, or of a folder with those of one model."""
    found = Logged()
    for task, path in _files(source, found.notes):
        for where, line in _lines(path):
            _add(found, task, line, where)
    found.items = {place: items for place, items in found.items.items() if place not in found.skipped}
    if not found.items:
        raise AnalysisError(f"{source}: no metric with a number per item", fix=_MADE)
    return found


def _files(source: str | Path | Sequence[str | Path], notes: list[str]) -> list[tuple[str, Path]]:
    """Tasks and their files; of several files of a task in one folder, that of the last date."""
    if isinstance(source, str | Path):
        path = Path(source)
        paths = sorted(path.rglob("samples_*.jsonl")) if path.is_dir() else [path]
    else:
        paths = [Path(one) for one in source]
    if not paths:
        raise AnalysisError(f"{source}: no samples_*.jsonl in this folder", fix=_MADE)
    if len(folders := {path.parent for path in paths}) > 1 and isinstance(source, str | Path):
        raise AnalysisError(
            f"{source}: items of several models or runs: {', '.join(sorted(map(str, folders)))}",
            fix="name the folder of one model",
        )
    newest: dict[str, tuple[str, Path]] = {}
    for path in paths:
        named = _NAME.fullmatch(path.stem)
        task, date = (named["task"], named["date"]) if named else (path.stem.removeprefix("samples_"), "")
        if task in newest:
            last = max(newest[task][1].name, path.name)
            notes.append(f"{task}: several files; {last} was read, the last by its date")
        newest[task] = max(newest.get(task, ("", path)), (date, path))
    return [(task, path) for task, (_, path) in newest.items()]


def _lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    check_file(path, AnalysisError)
    with open(path, "rb") as stream:
        for number, content in enumerate(stream, start=1):
            if not content.strip():
                continue
            where = f"{path}:{number}"
            try:
                line = load_json(content, nan=True)
            except ValueError as error:  # also of bytes that are no text
                raise AnalysisError(
                    f"{where}: not JSON ({error})", fix="copy the file again, or run lm-eval again"
                ) from None
            if not isinstance(line, dict) or type(line.get("doc_id")) is not int:
                raise AnalysisError(f"{where}: expected an object with a whole number under 'doc_id'", fix=_MADE)
            yield where, line


def _add(found: Logged, task: str, line: Mapping[str, Any], where: str) -> None:
    names = line.get("metrics")
    names = names if isinstance(names, list) else [name for name in line if name not in _DESCRIBING]
    document = f"{_hash(line, 'doc')} {line.get('target_hash') or digest_json(str(line.get('target')))}"
    for name in names:
        place, value = (task, str(line.get("filter", "none")), str(name)), line.get(str(name))
        items = found.items.setdefault(place, {})
        if not isinstance(value, int | float):
            found.skipped.setdefault(place, f"a {type(value).__name__} per item, scored over the whole corpus")
            continue
        if not math.isfinite(value):
            found.skipped.setdefault(place, f"{value} at {where}")
            continue
        if line["doc_id"] in items:
            raise AnalysisError(
                f"{where}: document {line['doc_id']} of {task} for the second time "
                f"(first: {items[line['doc_id']].where})",
                fix="name the file of one evaluation: lm-eval appends to a file that is there",
            )
        items[line["doc_id"]] = Item(float(value), document, str(line.get("prompt_hash") or ""), where)


def _hash(line: Mapping[str, Any], name: str) -> str:
    """The harness' own hash or, in files of before it had one, that of the document itself."""
    return str(line.get(f"{name}_hash") or digest_json(line.get(name)))
