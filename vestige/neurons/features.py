"""Selected neurons as features for other models, from as little of the network as they need.

Durrani et al. 2020 (4.2 and 7): a handful of neurons does for a task, so that a classifier has
few inputs and the forward pass may end at the highest layer that any of them lies in.
"""

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from timeit import repeat
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin

from vestige.cache import write_file
from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError, ModelError, RepresentationError, StorageError
from vestige.models.encoders.encoder import Encoder
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.files.load import load_model
from vestige.models.surgery.blocks import keep_blocks
from vestige.models.tokens.align import Encoded, Overflow
from vestige.neurons.spread import checked_ids
from vestige.representations.extract import batches_for
from vestige.representations.pool import REDUCE, SENTENCE_POOLINGS, WORD_POOLINGS, groups_for

FORMAT = 1
FILE = "neurons.json"


class NeuronFeatures(TransformerMixin, BaseEstimator):
    """A scikit-learn transformer from sentences to the values of selected neurons.

    Parameters
    ----------
    encoder : the model the neurons were selected in.
    ids : neuron ids, counted through its layers; the columns come in this order.
    pooling : a word pooling gives a row per word, a sentence pooling one per sentence.
    on_overflow : what to do with a sentence longer than the model's limit.

    The numbers are those of the whole model, bit for bit. The blocks above the highest layer
    needed are left out of a copy of the model; where that cannot be done (ELMo), where a neuron
    lies in the top layer, or where the copy would not give the same numbers, the whole model runs.
    There is nothing to fit.
    """

    def __init__(
        self, encoder: Encoder, ids: ArrayLike, pooling: str = "last", on_overflow: Overflow = "truncate"
    ) -> None:
        self.encoder = encoder
        self.ids = ids
        self.pooling = pooling
        self.on_overflow = on_overflow
        _check_pooling(pooling)
        self._offsets = np.cumsum([0, *encoder.widths])
        self._ids = checked_ids(ids, int(self._offsets[-1]))
        if not len(self._ids):
            raise AnalysisError("no neurons to take as features", fix="select at least one neuron")
        self._layers = np.searchsorted(self._offsets, self._ids, side="right") - 1
        self._units = self._ids - self._offsets[self._layers]
        self._cut = _up_to(encoder, int(self._layers.max()))

    def __sklearn_clone__(self) -> "NeuronFeatures":
        return copy(self)

    def set_params(self, **params: Any) -> "NeuronFeatures":
        """As scikit-learn has it; the model is cut anew."""
        super().set_params(**params)
        self.__init__(**self.get_params(deep=False))  # type: ignore[misc]
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, sentences: Any = None, y: Any = None) -> "NeuronFeatures":
        """Nothing is learned."""
        return self

    def transform(self, sentences: Sequence[Sentence], pooling: str | None = None) -> np.ndarray:
        """(rows, ids) float32; `pooling` overrules that of the constructor."""
        return self._run(self._cut, sentences, pooling or self.pooling)

    def index(self, sentences: Sequence[Sentence], pooling: str | None = None) -> np.ndarray:
        """(rows, 2): sentence and word number of the rows of `transform`; the word number is -1 of sentences."""
        encoded = self._encode(sentences)
        if (pooling or self.pooling) in WORD_POOLINGS:
            found = [(number, word) for number, one in enumerate(encoded) for word in range(one.kept)]
        else:
            found = [(number, -1) for number in range(len(encoded))]
        return np.array(found, dtype=np.int32).reshape(-1, 2)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """A name per column: "layer3_unit17"."""
        pairs = zip(self._layers, self._units, strict=True)
        return np.array([f"layer{layer}_unit{unit}" for layer, unit in pairs], dtype=object)

    def saved(self, sentences: Sequence[Sentence] = (), repeats: int = 3) -> dict[str, int | float]:
        """Blocks run and parameters kept, of how many; with sentences, the least seconds of `repeats` passes."""
        found: dict[str, int | float] = {
            "blocks": len(self._cut.widths) - 1,
            "all_blocks": len(self.encoder.widths) - 1,
            "parameters": _parameters(self._cut),
            "all_parameters": _parameters(self.encoder),
            "neurons": len(self._ids),
            "all_neurons": int(self._offsets[-1]),
        }
        if sentences:
            for name, each in (("seconds", self._cut), ("all_seconds", self.encoder)):
                found[name] = min(repeat(partial(self._run, each, sentences, self.pooling), number=1, repeat=repeats))
        return found

    def save(self, folder: str | Path) -> None:
        """Which neurons of which model, as JSON; the weights stay where they are."""
        reading = self.encoder.reading.changes() if isinstance(self.encoder, HuggingFaceEncoder) else {}
        content = {
            "format": FORMAT,
            "model": self.encoder.name,
            "fingerprint": self.encoder.fingerprint,
            "reading": reading,
            "stateful": self.encoder.sequential,
            "widths": list(self.encoder.widths),
            "pooling": self.pooling,
            "on_overflow": self.on_overflow,
            "neurons": self._ids.tolist(),
            "layers": self._layers.tolist(),
            "units": self._units.tolist(),
        }
        write_file(Path(folder) / FILE, json.dumps(content, indent=1).encode())

    @classmethod
    def load(cls, folder: str | Path, encoder: Encoder | None = None) -> "NeuronFeatures":
        """What `save` wrote, with the model loaded by its name, or the `encoder` given: it must be the same one."""
        path = Path(folder) / FILE
        try:
            content = json.loads(path.read_text())
            ids, pooling, overflow = content["neurons"], content["pooling"], content["on_overflow"]
            name, fingerprint = content["model"], content["fingerprint"]
            options = {"stateful": content["stateful"], **content["reading"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"{path}: not a file of selected neurons ({type(error).__name__}: {error})",
                fix="name the folder that NeuronFeatures.save wrote",
            ) from error
        if encoder is None:
            encoder = load_model(name, **options)
        if encoder.fingerprint != fingerprint:
            raise ModelError(
                f"{path}: neurons of {name!r} with fingerprint {fingerprint}, but {encoder.name!r} has "
                f"{encoder.fingerprint}",
                fix="give the model they were selected in, read in the same way: its neurons are not those of another",
            )
        return cls(encoder, ids, pooling, overflow)

    def _encode(self, sentences: Sequence[Sentence]) -> list[Encoded]:
        for number, sentence in enumerate(sentences):
            if not isinstance(sentence, Sentence):
                raise RepresentationError(
                    f"expected vestige's Sentences, found {type(sentence).__name__} at {number}",
                    fix='wrap the words: Sentence("1", ("some", "words"))',
                )
        return self.encoder.encode(sentences, self.on_overflow)

    def _run(self, encoder: Encoder, sentences: Sequence[Sentence], pooling: str) -> np.ndarray:
        _check_pooling(pooling)
        encoded = self._encode(sentences)
        sizes = [one.kept if pooling in WORD_POOLINGS else 1 for one in encoded]
        starts = np.cumsum([0, *sizes])
        out = np.empty((starts[-1], len(self._ids)), dtype=np.float32)
        for numbers in batches_for(encoder, encoded):
            batch = [encoded[number] for number in numbers]
            rows = np.concatenate([np.arange(starts[number], starts[number + 1]) for number in numbers])
            states = encoder.hidden_states(batch)
            groups = groups_for(pooling, batch, encoder, states[0].device)
            for layer in np.unique(self._layers):
                columns = np.flatnonzero(self._layers == layer)
                pooled = REDUCE[pooling](states[layer], groups)[:, torch.from_numpy(self._units[columns])]
                out[np.ix_(rows, columns)] = pooled.to("cpu", torch.float32).numpy()
            if not np.isfinite(out[rows]).all():
                raise RepresentationError(
                    f"{encoder.name}: NaN or infinite activations in the batch that holds "
                    f"{sentences[numbers[0]].source or sentences[numbers[0]].id!r}",
                    fix="check the weights; a model tuned to divergence or loaded in half precision gives such values",
                )
        return out


def _up_to(encoder: Encoder, layer: int) -> Encoder:
    """The encoder without the blocks above `layer` (at least one stays), or as it is if it must be whole.

    Only the top layer of a model is normed once more, if any is: of a cut model it must not be.
    """
    if not isinstance(encoder, HuggingFaceEncoder) or max(1, layer) >= encoder.depth:
        return encoder
    try:
        cut = keep_blocks(encoder, range(max(1, layer)))
    except ModelError:
        return encoder
    cut.reading = replace(cut.reading, final_norm="pre")
    probe = [Encoded((0, 1), (0, 0), (0, 1), 2, 2)]
    whole, found = encoder.hidden_states(probe), cut.hidden_states(probe)
    same = len(found) == max(1, layer) + 1 and all(map(torch.equal, found[: layer + 1], whole))
    return cut if same else encoder


def _parameters(encoder: Any) -> int:
    network = encoder.model if isinstance(encoder, HuggingFaceEncoder) else encoder.network
    return sum(parameter.numel() for parameter in network.parameters())


def _check_pooling(pooling: str) -> None:
    known = (*WORD_POOLINGS, *SENTENCE_POOLINGS)
    if pooling not in known:
        raise RepresentationError(f"unknown pooling {pooling!r}", fix=f"choose from {', '.join(known)}")
