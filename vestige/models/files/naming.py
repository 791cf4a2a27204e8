"""The name of a model before it is loaded: a hash of the files that it is made of.

A study names everything that it is going to make before it makes any of it, so a model on disk is named by the bytes
of its files and not by its tensors. A file that changes nothing (a licence) may change the name; a file that changes
a number always does.
"""

import os
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vestige.checksums import CHECKSUMS, checksum
from vestige.digest import digest_json
from vestige.errors import ModelError
from vestige.files import load_json, read_file
from vestige.models.files.sources import is_folder, model_folder

_UNREAD = (
    ".md", ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".h5", ".msgpack", ".ot", ".gguf", ".png", ".jsonl",
)  # fmt: skip
"""Of files that are never loaded: pages, pickles, other frameworks' weights."""
_UNREAD_NAMES = {CHECKSUMS, "finetune.json", "trainer_state.json", "generation_config.json"}


def model_name(
    source: str | Path,
    revision: str | None = None,
    *,
    base: str | Path | None = None,
    tokenizer: str | Path | None = None,
) -> str:
    """Hash of the files of a model: of an adapter also those of its base, and of a tokenizer from elsewhere."""
    path = Path(source)
    if path.is_file():  # an archive
        return digest_json([_content(path)])
    allennlp = is_folder(path) and not any((path / name).exists() for name in ("config.json", "adapter_config.json"))
    folder = path if allennlp else model_folder(source, revision)
    parts: list[Any] = [_files(folder)]
    if (folder / "adapter_config.json").exists():
        under = base or _base_of(folder)
        parts += [model_name(under)] if under else []
    if tokenizer is not None and not allennlp:
        parts.append(_files(model_folder(tokenizer)))
    return digest_json(parts)


@lru_cache
def libraries() -> list[str]:
    """What computes hidden states and gradients: other versions may give other numbers."""
    return [f"{name} {_version(name)}" for name in ("torch", "transformers", "tokenizers", "peft")]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _base_of(folder: Path) -> str | None:
    """The base that an adapter names."""
    path = folder / "adapter_config.json"
    try:
        return load_json(read_file(path, ModelError)).get("base_model_name_or_path")
    except (ValueError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path}: not an adapter's configuration ({error})", fix="save the adapter again") from None


def _files(folder: Path) -> list[list[str]]:
    """Name and checksum of every file that loading may read."""
    found = [path for pattern in ("*", "*/*") for path in folder.glob(pattern)]
    kept = [path for path in found if _read(path.relative_to(folder)) and path.is_file()]
    return sorted([path.relative_to(folder).as_posix(), _content(path)] for path in kept)


def _read(path: Path) -> bool:
    hidden = any(part.startswith((".", "checkpoint-")) for part in path.parts)
    return not hidden and path.name not in _UNREAD_NAMES and path.suffix.lower() not in _UNREAD


def _content(path: Path) -> str:
    found = path.stat()
    return _checksum(os.path.realpath(path), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


@lru_cache(maxsize=4096)
def _checksum(path: str, *state: int) -> str:
    """Of a file in this state: what has not changed is read once."""
    return checksum(Path(path))
