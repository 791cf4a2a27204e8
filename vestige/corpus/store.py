"""A task as one JSON file: what another process needs to score words, and nothing else."""

import json
from pathlib import Path
from typing import Any

from vestige.cache import read_checked, write_checked
from vestige.corpus.types import Corpus, Level, Sentence, Span, SpanPair, Task
from vestige.digest import digest_json
from vestige.errors import DamageError


def task_path(task: Task, root: Path) -> Path:
    """Where a task is kept: a file named by its content."""
    return root / f"{_content(task)[0]}.json"


def save_task(task: Task, root: Path) -> Path:
    """Write the task under a name made from its content; a file that is there and whole is left alone."""
    path = task_path(task, root)
    if read_checked(path) is None:
        write_checked(path, _content(task)[1])
    return path


def _content(task: Task) -> tuple[str, bytes]:
    """The task as a file, and the name of the file; made once."""
    if "stored" not in task.__dict__:
        content = {
            "corpus": task.corpus.name,
            "notes": list(task.corpus.notes),
            "task": task.name,
            "level": task.level,
            "splits": {
                split: [
                    [s.id, list(s.words), list(s.second), s.annotations.get(task.name), task.companions(s)]
                    for s in sentences
                ]
                for split, sentences in task.corpus.splits.items()
            },
        }
        text = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
        task.__dict__["stored"] = digest_json(content), text
    return task.__dict__["stored"]


def read_task(path: Path) -> Task:
    """The task that `save_task` wrote."""
    stored = read_checked(path)
    if stored is None:
        raise DamageError(f"{path}: the task is not there, or damaged", fix="run again: it is made again")
    content = json.loads(stored.decode("utf-8", "surrogatepass"))
    name = content["task"]
    splits = {
        split: tuple(
            Sentence(
                id_,
                tuple(words),
                tuple(second),
                {
                    **{other: _restored(value, "token") for other, value in beside.items()},
                    name: _restored(labels, content["level"]),
                },
            )
            for id_, words, second, labels, beside in sentences
        )
        for split, sentences in content["splits"].items()
    }
    return Corpus(content["corpus"], splits, {name: content["level"]}, tuple(content["notes"])).task(name)


def _restored(labels: Any, level: Level) -> Any:
    """An annotation as it was before JSON turned its tuples into lists."""
    if level == "span":
        return tuple(Span(start, end, tuple(names)) for start, end, names in labels)
    if level == "span_pair":
        return tuple(SpanPair((a, b), (c, d), tuple(names)) for (a, b), (c, d), names in labels)
    return tuple(labels) if isinstance(labels, list) else labels
