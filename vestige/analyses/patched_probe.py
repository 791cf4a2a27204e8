"""A frozen probe on a patched model: where does the base's probe lose what it could read?

A probe of the last layer is trained once, on the base's vectors, and then frozen. On the tuned model's it may be right
less often: what it read is lost, or is written elsewhere. Then activations of the base are put into the tuned
model, and the other way round, as `patching` does, and the probe is asked again: where the base's activations restore
its accuracy, there the change sits that it cannot read. A probe is of one task with labels, and `patching` reads none,
so this is an analysis of its own; places, plans and shares are the same code.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Le

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.exchange import exchange
from vestige.analyses.metric import WHOLE, Metric
from vestige.analyses.patch_places import LEFT_OUT, changes_of, find_places, patch_metrics, report
from vestige.analyses.patched_scores import WordReader
from vestige.analyses.rows import labelled_rows
from vestige.analyses.settings import Count, Positive, Some
from vestige.corpus.control import baseline_accuracies
from vestige.errors import AnalysisError
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.lm.language_model import same_tokens
from vestige.models.surgery.patching import Patcher, Site
from vestige.probes.linear.converged import converged_probe
from vestige.probes.problem import standard
from vestige.probes.rows import LabelledRows

_METRICS = patch_metrics("probe", "the frozen probe's accuracy", "percent", 0.01)


@dataclass(frozen=True)
class PatchedProbe(Analysis):
    """How often a frozen probe of the last layer is right when activations or blocks are exchanged below it.

    The probe is the converged linear one of `layer_probe`, trained on words of the base (or of the tuned model) and
    then frozen. R = (patched - base) / (tuned - base): 100 % as in the tuned model, 0 % as in the base, with Fieller's
    interval over sentences. Where the probe is not shown to be more often right on one model than on the other, there
    is nothing to recover.
    """

    name: ClassVar[str] = "patched_probe"
    title: ClassVar[str] = "Patching under a frozen probe"
    source: ClassVar[str] = "activation patching, Vig et al. 2020; probes after durrani2021, section 4.1"
    needs = frozenset({"hidden_states", "logits"})
    levels = ("token",)
    version = 3
    models = 2
    metrics = (
        *_METRICS,
        Metric("majority", "always the most frequent label", "percent", decimals=1, along=(WHOLE,), role="baseline"),
        LEFT_OUT,
    )

    trained_on: Literal["base", "tuned"] = "base"
    """Whose vectors the probe is trained on. The base's asks where what it reads is restored; the tuned model's, where
    what that one reads comes from."""
    sites: Annotated[tuple[Site, ...], Some] | None = None
    """What is exchanged: the output of a block, the block itself (block weights), the output of its attention, of its
    mlp; None: all that the model shows."""
    cumulative: bool = True
    """Also patch attention and MLP outputs of all blocks up to each. (The output of a block holds all below it.)"""
    g: tuple[Annotated[float, Ge(0), Le(1)], ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """Shares of the tuned weights in g tuned + (1 - g) base."""
    pooling: Literal["first", "last", "mean", "max"] = "last"
    """How the hidden states of a word's tokens become one vector."""
    tolerance: Positive = 1e-2
    """Of the probe: largest certified distance from the optimum, in nats per word."""
    sentences: Count | None = None
    """Scored are the first so many of the split; None: all."""
    split: str = "test"
    """The split that is scored."""

    def run(self, inputs: Inputs) -> Outcome:
        outcome = Outcome()
        if inputs.reference is None:
            raise AnalysisError(f"{inputs.model} has no reference to be patched with", fix="name its reference")
        encoder, other = _model(inputs), _model(inputs.reference)
        sentences = inputs.task.corpus[self.split][: self.sentences]
        same_tokens(sentences, encoder.encode(sentences), other.encode(sentences), inputs.model, inputs.reference.model)
        patcher = exchange(Patcher, encoder, other, "leave patched_probe out for this model")
        reader = WordReader(patcher, encoder, self.pooling)
        reader.check(next(sentence for sentence in sentences if sentence.words))
        data = labelled_rows(inputs.reference if self.trained_on == "base" else inputs, self.split)
        index = data.representations[self.split].index
        scored = index[:, 0] < len(sentences)
        majority = baseline_accuracies(inputs.task, self.split)["majority"]
        outcome.add("majority", majority, subset="probe_patched", n=len(index))
        places = find_places(patcher, inputs.model, outcome, self.sites, self.cumulative, self.g)
        gold = data.labels[self.split].numpy()[scored]
        found = reader.right(sentences, index[scored], gold, self._probe(data), changes_of(places))
        report(_METRICS, found, places, outcome)
        return outcome

    def _probe(self, data: LabelledRows) -> Callable[[np.ndarray], np.ndarray]:
        """From vectors (words, units) of the last layer to class numbers."""
        top = data.layers - 1
        rows = {split: data.representations[split].layer(top) for split in ("train", "dev")}
        frame = standard(rows["train"], f"{data.model}, layer {top}")
        probe = converged_probe(
            frame.resident(),
            data.labels["train"],
            frame.like(rows["dev"]),
            data.labels["dev"],
            len(data.classes),
            tolerance=self.tolerance,
        )
        return lambda vectors: probe.log_probabilities(frame.like(vectors))[0].argmax(-1).numpy()


def _model(inputs: Inputs) -> HuggingFaceEncoder:
    """The model itself, if it can be patched."""
    encoder = inputs.encoder
    if not isinstance(encoder, HuggingFaceEncoder) or encoder.config.is_encoder_decoder:
        what = "it is missing" if encoder is None else "it is no Hugging Face encoder or decoder"
        raise AnalysisError(f"{inputs.model} cannot be patched: {what}", fix="leave patched_probe out for this model")
    return encoder
