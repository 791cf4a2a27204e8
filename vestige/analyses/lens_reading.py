"""What a language model would say if it stopped at a layer: the head put on every layer's states.

The logit lens (nostalgebraist 2020) hands the states of a layer to the model's final norm, where it has one, and to the
head. They were made for the last layer's states, so the lens may misread lower ones. The tuned lens (Belrose et al.
2023) maps a layer's states to the last layer's first. Here that map is the ridge solution of least squares between
states, in closed form; theirs is trained by gradient descent on the KL divergence of the outputs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.measures.affine import Affine, AffineFitter
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.lm.language_model import Head
from vestige.models.lm.questions import Asked


@dataclass(frozen=True)
class Lens:
    """Reads the layers of one model."""

    encoder: HuggingFaceEncoder
    head: Head
    maps: tuple[Affine, ...] = ()
    """From every layer but the last to the last; none for the logit lens."""

    def states(self, asked: Asked) -> list[Tensor]:
        """By layer (rows, width): the states of the asked tokens, all but the last before the final norm."""
        with self.encoder._active():
            output = self.encoder.model(**asked.inputs, output_hidden_states=True)
        return [asked.pick(states) for states in (*output.hidden_states[:-1], output.last_hidden_state)]

    def scores(self, layer: int, states: Tensor) -> Tensor:
        """(rows, vocabulary): what the head says of the states of a layer."""
        last = layer == self.encoder.depth
        if self.maps and not last:
            return self.head(self.maps[layer](states))
        norm = self.encoder._final_norm
        if norm is not None and not last:
            states = self.encoder.stack.get_submodule(norm)(states)
        return self.head(states)

    def tuned(self, batches: Iterable[Asked], penalty: float) -> "Lens":
        """The same with maps to the last layer's states, after its norm, fitted on what these batches ask for."""
        width, depth = self.encoder.widths[-1], self.encoder.depth
        fitters = [AffineFitter(width, width) for _ in range(depth)]
        with torch.inference_mode():
            for asked in batches:
                *lower, last = self.states(asked)
                for fitter, rows in zip(fitters, lower, strict=True):
                    fitter.update(rows, last)
        return replace(self, maps=tuple(fitter.fit(penalty) for fitter in fitters))


def check_lens(encoder: HuggingFaceEncoder, kind: str) -> None:
    """A lens reads one stream of states, all as wide as what the head takes."""
    widths: Sequence[int] = encoder.widths
    if kind == "permutation":
        raise AnalysisError(
            f"{encoder.name} is a permutation model, whose layers show another stream than its head reads",
            fix="leave lens out for this model",
        )
    if len(set(widths)) > 1:
        raise AnalysisError(
            f"layers of {encoder.name} are {min(widths)} to {max(widths)} wide, but its head reads the last alone",
            fix="leave lens out for this model",
        )
