"""Which language-model head a model may be given, as far as that can be known before it is loaded."""

from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from vestige.digest import digest_chunks
from vestige.models.encoders.encoder import Encoder


def heads_digest(file: str | None) -> str:
    """Hash of the head file that an analysis names, or of all that come with vestige.

    A model's own head is among its files, and so in its name.
    """
    if file is not None and Path(file).is_file():
        return digest_chunks([Path(file).read_bytes()])
    return _shipped()


@lru_cache
def _shipped() -> str:
    found = sorted(files("vestige.models.lm").joinpath("heads").iterdir(), key=lambda file: file.name)
    return digest_chunks(file.read_bytes() for file in found if file.is_file())


def head_digest(encoder: Encoder) -> str | None:
    """Hash of the head that a model in memory brings along; its fingerprint is of the backbone alone."""
    from vestige.models.encoders.huggingface import HuggingFaceEncoder
    from vestige.models.lm.head import head_identity

    brings = isinstance(encoder, HuggingFaceEncoder) and encoder.head is not None
    return head_identity(None, encoder) if brings else None  # type: ignore[arg-type]
