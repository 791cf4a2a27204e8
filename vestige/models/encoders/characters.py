"""Words as characters: what ELMo and Transformer-ELMo share.

A word is the bytes of its UTF-8 form between a begin and an end mark, padded to a fixed number of
characters; a character-level CNN with highway layers makes a vector of it that knows no context.
There is no vocabulary, so no word is unknown. Two things follow AllenNLP, whose models these are:
a word longer than the character limit keeps its first bytes (48 of the usual 50, less the two
marks), and the words "<S>" and "</S>" are read as the sentence markers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor, nn

from vestige.corpus.types import Sentence
from vestige.digest import digest_json
from vestige.errors import CorpusError, ModelError
from vestige.files import load_json
from vestige.models.encoders.encoder import one_line
from vestige.models.files.identity import weights_digest
from vestige.models.tokens.align import Encoded, Overflow

Spelling = tuple[int, ...]
"""One word as character ids, without padding."""

SENTENCE_BEGIN, SENTENCE_END, WORD_BEGIN, WORD_END, PADDING = range(257, 262)
"""Ids are 1 higher than the byte or mark they stand for: 0 is kept for positions that are no word."""
CHARACTERS = PADDING + 1
MARKERS = {"<S>": SENTENCE_BEGIN, "</S>": SENTENCE_END}
WORD_LENGTH = 50
MOST_LAYERS = 1000
"""Of any kind; a configuration that asks for more was not published."""

_WORDS_AT_ONCE = 256
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')
_PUBLISHED = "use the file published with the weights"


def spell(word: str, length: int = WORD_LENGTH, special: Mapping[str, int] = MARKERS) -> Spelling:
    """The ids of a word's begin, bytes and end; `special` words have one id of their own instead of bytes."""
    if word in special:
        return (WORD_BEGIN, special[word], WORD_END)
    return (WORD_BEGIN, *(byte + 1 for byte in word.encode("utf-8", "ignore")[: length - 2]), WORD_END)


class LayerNorm(nn.Module):
    """AllenNLP's layer norm: the small constant is added to the standard deviation, not to the variance."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        deviation = x.std(-1, unbiased=False, keepdim=True)
        return self.gamma * (x - x.mean(-1, keepdim=True)) / (deviation + 1e-6) + self.beta


@dataclass(frozen=True)
class CnnSettings:
    """The shape of a CharacterCNN."""

    dim: int
    """Width of a character's vector."""
    filters: tuple[tuple[int, int], ...]
    """Pairs of a filter's width in characters and the number of such filters."""
    highways: int
    projection: int
    """Width of the vector of a word."""
    activation: str = "relu"
    project_first: bool = False
    """Whether the projection comes before the highway layers."""
    norm: bool = False
    length: int = WORD_LENGTH
    """Characters per word, marks and padding included."""


class CharacterCNN(nn.Module):
    """Character ids to word vectors: embedding, convolutions, maximum over the word, highway layers, projection."""

    def __init__(self, settings: CnnSettings) -> None:
        super().__init__()
        self.settings = settings
        filters = sum(number for _, number in settings.filters)
        width = settings.projection if settings.project_first else filters
        self.embedding = nn.Embedding(CHARACTERS, settings.dim)
        self.convolutions = nn.ModuleList(nn.Conv1d(settings.dim, number, size) for size, number in settings.filters)
        self.highways = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(settings.highways))
        self.projection = nn.Linear(filters, settings.projection)
        self.norm = LayerNorm(settings.projection) if settings.norm else nn.Identity()
        self._draw()

    def _draw(self) -> None:
        """Starting values as published models had them: highway layers at first mostly carry their input."""
        nn.init.uniform_(self.embedding.weight, -1, 1)
        for convolution in self.convolutions:
            nn.init.uniform_(convolution.weight, -0.05, 0.05)
            nn.init.zeros_(convolution.bias)
        for layer in (*self.highways, self.projection):
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
            nn.init.zeros_(layer.bias)
        for layer in self.highways:
            nn.init.constant_(layer.bias[layer.in_features :], 2)

    def forward(self, ids: Tensor) -> Tensor:
        """(words, characters) to (words, projection); words do not see each other."""
        return torch.cat([self._embed(some) for some in ids.split(_WORDS_AT_ONCE)])

    def _embed(self, ids: Tensor) -> Tensor:
        characters = self.embedding(ids).transpose(1, 2)
        activation = getattr(torch, self.settings.activation)
        words = torch.cat([activation(convolve(characters).amax(-1)) for convolve in self.convolutions], -1)
        if self.settings.project_first:
            words = self.projection(words)
        for layer in self.highways:
            change, gate = layer(words).chunk(2, -1)
            gate = gate.sigmoid()
            words = gate * words + (1 - gate) * change.relu()
        return self.norm(words if self.settings.project_first else self.projection(words))

    def embed_sentences(self, sentences: Sequence[Sequence[Spelling]]) -> Tensor:
        """(sentences, longest, projection); every distinct word is computed once."""
        numbers = {word: 0 for sentence in sentences for word in sentence}
        ids = torch.full((len(numbers), self.settings.length), PADDING)
        for number, word in enumerate(numbers):
            numbers[word] = number
            ids[number, : len(word)] = torch.tensor(word)
        places = [torch.tensor([numbers[word] for word in sentence]) for sentence in sentences]
        device = self.embedding.weight.device
        return self(ids.to(device))[nn.utils.rnn.pad_sequence(places, batch_first=True).to(device)]


class CharacterEncoder:
    """The Encoder over a network that reads characters; `kind` and `contextualize` are its heirs'.

    The begin and end of the sentence are marked for the network, and taken away from its states:
    the tokens of an Encoded are the words. Two segments are read as one sentence.
    """

    kind = ""
    leaves_out_first = False
    in_threads = False
    sequential = False
    """Whether states depend on what was run before, so that sentences must be run in order, one by one."""
    limit: int | None = None
    """The most tokens, markers included."""

    def __init__(
        self,
        network: nn.Module,
        name: str,
        device: str | torch.device = "cpu",
        special: Mapping[str, int] = MARKERS,
        markers: tuple[str, str] = ("<S>", "</S>"),
    ) -> None:
        self.name = name
        self.device = torch.device(device)
        self.network: Any = network.to(self.device).eval()
        self.special = dict(special)
        self.markers = markers

    def __repr__(self) -> str:
        """Name, kind, size and device."""
        size = sum(weights.numel() for weights in self.network.parameters())
        return one_line(self, self.kind, size, self.limit, self.device)

    def random_twin(self, seed: int = 1234) -> Self:
        """The same architecture with freshly drawn weights."""
        made = copy(self)
        made.__dict__.pop("fingerprint", None)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made.network = type(self.network)(self.network.settings).to(self.device).eval()
        made.name = f"{self.name} (random twin)"
        made.reset()
        return made

    def contextualize(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        """Layers 1 and up, (sentences, tokens, width), from the embedded tokens of padded sentences."""
        raise NotImplementedError

    def unknown_tokens(self, encoded: Encoded) -> int:
        """Characters are never unknown."""
        return 0

    def reset(self) -> None:
        """Forget what was run before; a network that reads every sentence by itself has nothing to forget."""

    @property
    def widths(self) -> tuple[int, ...]:
        return (2 * self.network.width,) * (self.network.depth + 1)

    @property
    def depth(self) -> int:
        """Number of contextual layers: layers are 0 (token embeddings, doubled) to `depth`."""
        return self.network.depth

    @cached_property
    def fingerprint(self) -> str:
        how = [repr(self.network.settings), self.special, self.markers, self.sequential]
        return digest_json([self.kind, weights_digest(self.network), how])

    def encode(self, sentences: Sequence[Sentence], on_overflow: Overflow = "truncate") -> list[Encoded]:
        spelled: dict[str, Spelling] = {}
        return [self._encode(sentence, spelled, on_overflow) for sentence in sentences]

    def _encode(self, sentence: Sentence, spelled: dict[str, Spelling], on_overflow: Overflow) -> Encoded:
        where = sentence.source or f"sentence {sentence.id}"
        words = sentence.all_words
        if not words:
            raise CorpusError(f"{where}: a sentence without words", fix="remove the sentence")
        kept = len(words) if self.limit is None else min(len(words), self.limit - len(self.markers))
        if kept < len(words) and on_overflow == "error":
            raise CorpusError(
                f"{where}: {len(words)} words and {len(self.markers)} markers, but the model takes {self.limit} tokens",
                fix='shorten it, or set on_overflow="truncate" (dropped words are counted)',
            )
        for number, word in enumerate(words[:kept], 1):
            if word not in spelled:
                spelled[word] = spell(word, self.network.characters.settings.length, self.special)
            if len(spelled[word]) == 2:
                raise ModelError(
                    f"{where}: word {number}, {word!r}, has no characters, and {self.name} reads nothing else",
                    fix="remove the word, or write a placeholder for it",
                )
        return Encoded(tuple(spelled[word] for word in words[:kept]), (0,) * kept, tuple(range(kept)), len(words), kept)

    @torch.inference_mode()
    def hidden_states(self, batch: Sequence[Encoded]) -> tuple[Tensor, ...]:
        begin, end = (spell(marker, special=self.special) for marker in self.markers)
        sentences: list[Any] = [(begin, *encoded.ids, end) for encoded in batch]
        lengths = torch.tensor([len(sentence) for sentence in sentences], device=self.device)
        tokens = self.network.characters.embed_sentences(sentences)
        padding = (torch.arange(1, tokens.shape[1] - 1, device=self.device) >= lengths.unsqueeze(1) - 1).unsqueeze(2)
        layers = [torch.cat([tokens, tokens], -1), *self.contextualize(tokens, lengths)]
        return tuple(layer[:, 1:-1].masked_fill(padding, 0) for layer in layers)

    def summary_position(self, encoded: Encoded) -> int:
        return len(encoded.ids) - 1

    def describe(self) -> dict[str, Any]:
        """What study.lock.json keeps of a model."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "type": self.kind,
            "layers": len(self.widths),
            "widths": list(self.widths),
            "limit": self.limit,
            "commit": None,
            "stateful": self.sequential,
        }


class Options:
    """A configuration file, read by dotted names; what is missing or of another kind is named in the error."""

    def __init__(self, values: Any, file: str) -> None:
        self.values, self.file = values, file

    @classmethod
    def read(cls, text: bytes, file: str) -> "Options":
        """From JSON, with the commas before closing brackets that AllenNLP's own files have."""
        try:
            return cls(load_json(_TRAILING_COMMA.sub(r"\1", text.decode())), file)
        except ValueError as error:
            raise ModelError(f"{file}: not JSON ({error})", fix=_PUBLISHED) from error

    def __call__(self, name: str, *kinds: type, default: Any = ...) -> Any:
        value = self.values
        for part in name.split("."):
            value = value.get(part, ...) if isinstance(value, Mapping) else ...
        if value is ... or value is None:
            value = default
        if value is ...:
            raise ModelError(f"{self.file}: no option {name}", fix=_PUBLISHED)
        if value is not default and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise ModelError(
                f"{self.file}: option {name} should be of type {expected}, found {value!r}",
                fix=_PUBLISHED,
            )
        return value

    def size(self, name: str, default: Any = ..., most: int = 100_000) -> int:
        """An option that counts something; 0 only where that is its default."""
        value = self(name, int, default=default)
        if value != default and not 1 <= value <= most:
            bound = "positive" if value < 1 else f"at most {most}"
            raise ModelError(f"{self.file}: option {name} should be {bound}, found {value}", fix=_PUBLISHED)
        return value

    def clip(self, name: str) -> float | None:
        """An option that bounds values, if there is one."""
        value = self(name, int, float, default=None)
        if value is not None and value <= 0:
            raise ModelError(f"{self.file}: option {name} should be positive, found {value}", fix=_PUBLISHED)
        return value

    def filters(self, name: str, length: int) -> tuple[tuple[int, int], ...]:
        """An option that holds pairs of filter width, at most `length` characters, and number of filters."""
        pairs = self(name, list)
        for pair in pairs or [None]:
            if not isinstance(pair, list) or len(pair) != 2 or not all(type(n) is int and n > 0 for n in pair):
                raise ModelError(
                    f"{self.file}: option {name} should hold pairs [width, number], found {pair!r}", fix=_PUBLISHED
                )
            if pair[0] > length:
                raise ModelError(
                    f"{self.file}: option {name} has filters of width {pair[0]}, but words have {length} characters",
                    fix=_PUBLISHED,
                )
        return tuple((width, number) for width, number in pairs)

    def one_of(self, name: str, allowed: Sequence[Any], default: Any = ...) -> Any:
        """An option with few possible values."""
        value = self(name, *{type(each) for each in allowed}, default=default)
        if value not in allowed:
            raise ModelError(
                f"{self.file}: option {name} is {value!r}, but vestige reads only "
                f"{' or '.join(repr(each) for each in allowed)}",
                fix="use a model of that kind",
            )
        return value

    def check(
        self,
        weights: str,
        found: Mapping[str, Tensor],
        expected: Mapping[str, Sequence[int]],
        sources: Callable[[str], Sequence[str]],
    ) -> None:
        """Raise unless the tensors are exactly those the options ask for; `sources` names a tensor's options."""

        def why(tensor: str) -> str:
            return ", ".join(f"{name} = {self(name, object, default='(none)')}" for name in sources(tensor))

        fix = f"use the {self.file} and {weights} that were published together"
        for tensor, shape in expected.items():
            if tensor not in found:
                raise ModelError(f"{weights}: no {tensor}, which {self.file} asks for ({why(tensor)})", fix=fix)
            if tuple(found[tensor].shape) != tuple(shape):
                raise ModelError(
                    f"{weights}: {tensor} has shape {tuple(found[tensor].shape)}, but {self.file} asks for "
                    f"{tuple(shape)} ({why(tensor)})",
                    fix=fix,
                )
            if not torch.isfinite(found[tensor]).all():
                raise ModelError(f"{weights}: {tensor} holds NaN or infinite values", fix="fetch the file again")
        unknown = sorted(set(found) - set(expected))
        if unknown:
            raise ModelError(
                f"{weights}: holds {unknown[0]}, which {self.file} does not ask for ({why(unknown[0])})", fix=fix
            )
