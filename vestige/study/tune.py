"""`vestige finetune`: the models that are studied, made from the command line."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vestige.cache import writing
from vestige.checksums import CHECKSUMS
from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus, Task
from vestige.errors import SpecError
from vestige.finetune.recipe import Recipe, default_recipe, load_recipe, make_recipe
from vestige.finetune.train import Tuned, finetune
from vestige.study.key_values import key_values, reader_options


def tune(
    model: str,
    task: str,
    *,
    format: str | None = None,
    options: Sequence[str] = (),
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
    """Every run with the folder it lies in; `task` is corpus, corpus/task or a file.

    `options` of the corpus and `changes` of the recipe are written key=value.
    """
    if runs < 1:
        raise SpecError(f"{runs} runs", fix="ask for at least one")
    places = [None if out is None else out / f"run-{seed}" if runs > 1 else out for seed in range(runs)]
    for place in places:
        if place is not None and place.exists():
            raise SpecError(f"{place} is there already", fix="name a new folder, or remove it")
        if place is not None:
            _check_writable(place)
    wanted = find_task(task, format, dev, sample, options)
    made = find_recipe(recipe or default_recipe(wanted.level), changes)
    for seed, place in enumerate(places):
        tuned = finetune(model, wanted, made, seed=seed, device=device, threads=threads, cache=cache, keep=keep)
        yield tuned, tuned.folder if place is None else _copied(tuned, place)


def find_task(
    name: str,
    format: str | None = None,
    dev: float | None = None,
    sample: int | None = None,
    options: Sequence[str] = (),
) -> Task:
    """A corpus of the catalog, one of its tasks, or a file with the labels of one."""
    corpus, label = _corpus(name, format, dev, reader_options(options))
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
    said = key_values(changes, "a change of the recipe", "rate=5e-5")
    return make_recipe(said) if name is None else load_recipe(name, **said)


def _corpus(name: str, format: str | None, dev: float | None, options: dict[str, Any]) -> tuple[Corpus, str | None]:
    if Path(name).exists() or Path(name).suffix or format is not None:
        return load_corpus(name, format=format, dev=dev, **options), None
    corpus, _, label = name.partition("/")
    return load_corpus(corpus, dev=dev, **options), label or None


def _check_writable(place: Path) -> None:
    """Said before the training, not after it."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=place.parent):
            pass
    except OSError as error:
        raise SpecError(f"{place}: cannot be written ({error.strerror})", fix="name another folder for --out") from None


def _copied(tuned: Tuned, place: Path) -> Path:
    with writing(place, sealed=False) as temporary:
        shutil.copytree(tuned.folder, temporary, dirs_exist_ok=True, ignore=shutil.ignore_patterns(CHECKSUMS))
    return place
