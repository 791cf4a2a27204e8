"""Parts of two models exchanged: what may be exchanged, and errors that say what to do where nothing can."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from vestige.errors import AnalysisError, ModelError
from vestige.models.encoders.huggingface import HuggingFaceEncoder

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Exchanging = TypeVar("Exchanging")


def exchange(
    kind: Callable[[PreTrainedModel, PreTrainedModel], Exchanging],
    encoder: HuggingFaceEncoder,
    other: HuggingFaceEncoder,
    instead: str,
) -> Exchanging:
    """A `Mixer` or `Patcher` of two encoders; `instead` is what else to do where there can be none."""
    if hasattr(encoder, "peft") or hasattr(other, "peft") or hasattr(encoder.model, "peft_config"):
        raise AnalysisError(
            f"layers of {encoder.name} cannot be replaced while an adapter is on them",
            fix=f"merge the adapter into the weights and save them, or {instead}",
        )
    if encoder.model.dtype != other.model.dtype:
        raise AnalysisError(
            f"{encoder.name} is loaded in {encoder.model.dtype}, {other.name} in {other.model.dtype}",
            fix=f"load both with one dtype, or {instead}",
        )
    try:
        return kind(encoder.model, other.model)
    except ModelError as error:
        raise AnalysisError(error.problem, fix=f"{error.fix}, or {instead}") from error
