"""Fuzzing: seeded mutants of every kind of file, read as a user would; the same number gives the same mutant."""

import copy
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hostile import model_samples
from hostile.mutate import change_value, mutate
from hostile.samples import SAMPLES, Sample
from hostile.study import STUDY
from vestige.corpus.load import load_corpus
from vestige.models.files.load import load_model
from vestige.study.spec import make_spec, read_spec

OPTIONS = (
    "dev",
    "seed",
    "derive",
    "format",
    "sentence",
    "label",
    "task",
    "numeric",
    "skip_labels",
    "second",
    "name",
    "columns",
)


@dataclass(frozen=True)
class Target:
    """A kind of input: `spoil` writes mutant number `seed` into a folder and returns what reads it."""

    name: str
    spoil: Callable[[Path, random.Random], Callable[[], Any]]

    def prepare(self, folder: Path, seed: int) -> Callable[[], Any]:
        """What has to be tried; the folder is emptied before."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return self.spoil(folder, random.Random(f"{self.name}-{seed}"))


def _corpus(sample: Sample) -> Callable[[Path, random.Random], Callable[[], Any]]:
    def spoil(folder: Path, rng: random.Random) -> Callable[[], Any]:
        name = rng.choice(list(sample.files))
        if name in sample.inner and rng.random() < 0.7:
            text, pack = sample.inner[name]
            content = pack(mutate(text.encode(), rng).decode("utf-8", "replace"))
        else:
            content = mutate(sample.files[name](), rng)
        sample.write(folder, **{name: content})
        return lambda: sample.read(folder)

    return spoil


def _files(
    files: Callable[[], Mapping[str, bytes]], read: Callable[[Path], Any], but: str = "\0"
) -> Callable[[Path, random.Random], Callable[[], Any]]:
    def spoil(folder: Path, rng: random.Random) -> Callable[[], Any]:
        name = rng.choice([name for name in sorted(files()) if not name.startswith(but)])
        model_samples.write(folder, files(), **{name: mutate(files()[name], rng)})
        return lambda: read(folder)

    return spoil


def _study(folder: Path, rng: random.Random) -> Callable[[], Any]:
    if rng.random() < 0.5:
        (folder / "study.yaml").write_bytes(mutate(STUDY.encode(), rng))
        return lambda: read_spec(folder / "study.yaml").as_json()
    raw = copy.deepcopy(_PLAIN)
    for _ in range(rng.choice((1, 1, 2))):
        changed = change_value(raw, rng)
        raw = changed if isinstance(changed, dict) else raw
    return lambda: make_spec(raw, base=folder).as_json()


_PLAIN = yaml.safe_load(STUDY)


def _asked(folder: Path, rng: random.Random) -> Callable[[], Any]:
    """A valid corpus that is asked for in an odd way."""
    sample = rng.choice([SAMPLES[name] for name in ("conllu", "tsv", "columns", "glue", "text", "senteval")])
    sample.write(folder)
    asked: dict[str, Any] = {"source": sample.source(folder), "format": sample.format, **sample.options}
    changed = change_value({**asked, rng.choice(OPTIONS): None}, rng)
    source = changed.pop("source", None)
    options = {key: value for key, value in changed.items() if key.isidentifier()}
    return lambda: load_corpus(source, **options)


def targets() -> Iterator[Target]:
    """Every kind of input."""
    for name, sample in SAMPLES.items():
        yield Target(name, _corpus(sample))
    yield Target("options of load_corpus", _asked)
    yield Target("study files", _study)
    yield Target("model folders", _files(model_samples.model_files, model_samples.load))
    yield Target(
        "adapters",
        _files(model_samples.adapter_files, lambda f: load_model(f / "adapter", base=f / "base"), but="base/"),
    )
    yield Target("activations in JSON", _files(lambda: {"a.json": model_samples.json_file()}, _activations("a.json")))
    yield Target("activations in HDF5", _files(lambda: {"a.hdf5": model_samples.hdf5_file()}, _activations("a.hdf5")))


def _activations(name: str) -> Callable[[Path], Any]:
    return lambda folder: model_samples.activations(folder / name)
