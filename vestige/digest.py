"""Content hashes: the names of everything in the cache."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def digest_json(value: Any, length: int = 20) -> str:
    """Hash of a JSON-able value, the same for equal values whatever the order of keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()[:length]


def digest_chunks(chunks: Iterable[bytes], length: int = 20) -> str:
    """Hash of a sequence of byte strings; where one ends and the next begins matters."""
    state = hashlib.blake2b(digest_size=32)
    for chunk in chunks:
        state.update(len(chunk).to_bytes(8, "little"))
        state.update(chunk)
    return state.hexdigest()[:length]


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file's bytes, as `sha256sum` prints it."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
