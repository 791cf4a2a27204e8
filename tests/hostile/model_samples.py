"""Small model folders, adapters and activation files, as hostile ones are made from."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tiny

from vestige.corpus.types import Sentence
from vestige.models.files.load import load_model
from vestige.representations.interchange import import_activations

SENTENCES = [Sentence("1", ("She", "saw", "it")), Sentence("2", ("It", "ran"))]


def _files(make: Callable[[Path], None]) -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        make(Path(folder))
        return {
            path.relative_to(folder).as_posix(): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()
        }


@cache
def model_files() -> Mapping[str, bytes]:
    """A tiny BERT of one layer."""
    return _files(lambda folder: tiny.save("bert", folder, layers=1))


@cache
def adapter_files() -> Mapping[str, bytes]:
    """A tiny BERT in `base`, a LoRA adapter for it in `adapter`."""

    def make(folder: Path) -> None:
        from peft import LoraConfig, get_peft_model

        tiny.save("bert", folder / "base", layers=1)
        adapted = get_peft_model(tiny.model("bert", layers=1), LoraConfig(r=2, target_modules=["query"]))
        adapted.save_pretrained(folder / "adapter")

    return {name: content for name, content in _files(make).items() if not name.endswith("README.md")}


@cache
def hdf5_file() -> bytes:
    """Activations of two layers as NeuroX keeps them."""
    from vestige.representations.activation_files import write_hdf5

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        write_hdf5(folder / "a.hdf5", [(s.words, rng.normal(size=(2, len(s.words), 4))) for s in SENTENCES])

    return _files(make)["a.hdf5"]


@cache
def json_file() -> bytes:
    """The same as JSON lines."""
    lines = []
    for number, sentence in enumerate(SENTENCES):
        features = [
            {"token": word, "layers": [{"index": layer, "values": [0.5, layer, -1.0]} for layer in range(2)]}
            for word in sentence.words
        ]
        lines.append(json.dumps({"linex_index": number, "features": features}))
    return ("\n".join(lines) + "\n").encode()


def write(folder: Path, files: Mapping[str, bytes], **changed: bytes) -> Path:
    """The files below a folder, some of them with other content."""
    for name, content in {**files, **changed}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def load(folder: Path) -> Any:
    """The model, once it has read a sentence."""
    encoder = load_model(folder)
    encoder.hidden_states(encoder.encode(SENTENCES))
    return encoder


def activations(path: Path) -> Any:
    """The activations that a file has for two sentences."""
    return import_activations(path, SENTENCES, cache=path.parent / "cache")
