"""`vestige finetune`: the models that are studied, made from the command line."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from vestige.cache import writing
from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus, Task
from vestige.errors import SpecError
from vestige.finetune.recipe import Recipe, load_recipe, make_recipe
from vestige.finetune.train import Tuned, finetune

BY_LEVEL = {"span": "mosbach2020_squad", "tree": "merchant2020_parsing"}
"""Recipes of tasks that the defaults of `Recipe` do not fit."""


def tune(
    model: str,
    task: str,
    *,
    format: str | None = None,
    recipe: str | None = None,
    changes: Sequence[str] = (),
    runs: int = 1,
    keep: Sequence[int] | None = None,
    dev: float | None = None,
    sample: int | None = None,
    device: str = "cpu",
    threads: int = 2,
    out: Path | None = None,
    cache: Path | None = None,
) -> Iterator[tuple[Tuned, Path]]:
    """Every run with the folder it lies in; `task` is corpus, corpus/task or a file, `changes` are key=value."""
    if runs < 1:
        raise SpecError(f"{runs} runs", fix="ask for at least one")
    places = [None if out is None else out / f"run-{seed}" if runs > 1 else out for seed in range(runs)]
    for place in places:
        if place is not None and place.exists():
            raise SpecError(f"{place} is there already", fix="name a new folder, or remove it")
    wanted = find_task(task, format, dev, sample)
    made = find_recipe(recipe or BY_LEVEL.get(wanted.level), changes)
    for seed, place in enumerate(places):
        tuned = finetune(model, wanted, made, seed=seed, device=device, threads=threads, cache=cache, keep=keep)
        yield tuned, tuned.folder if place is None else _copied(tuned, place)


def find_task(name: str, format: str | None = None, dev: float | None = None, sample: int | None = None) -> Task:
    """A corpus of the catalog, one of its tasks, or a file with the labels of one."""
    corpus, label = _corpus(name, format, dev)
    if label is None:
        if len(corpus.levels) != 1:
            raise SpecError(
                f"{name} has several tasks: {', '.join(corpus.levels)}", fix=f"name one of them: {name}/TASK"
            )
        label = next(iter(corpus.levels))
    corpus = corpus if sample is None else corpus.sample(sample)
    return corpus.task(label)


def find_recipe(name: str | None, changes: Sequence[str]) -> Recipe:
    """The named recipe, or the default one, with values changed as `key=value` says."""
    said: dict[str, Any] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise SpecError(f"a change of the recipe is written key=value, found {change!r}", fix="rate=5e-5, say")
        said[key.strip()] = _value(value)
    return make_recipe(said) if name is None else load_recipe(name, **said)


def _value(text: str) -> Any:
    """As YAML reads it; `5e-5` too, which YAML takes for text."""
    try:
        return float(text) if "e" in text.lower() else yaml.safe_load(text)
    except ValueError:
        return yaml.safe_load(text)


def _corpus(name: str, format: str | None, dev: float | None) -> tuple[Corpus, str | None]:
    if Path(name).exists() or format is not None:
        return load_corpus(name, format=format, dev=dev), None
    corpus, _, label = name.partition("/")
    return load_corpus(corpus, dev=dev), label or None


def _copied(tuned: Tuned, place: Path) -> Path:
    with writing(place) as temporary:
        shutil.copytree(tuned.folder, temporary, dirs_exist_ok=True)
    return place
