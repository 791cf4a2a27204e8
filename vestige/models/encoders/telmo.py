"""Transformer-ELMo: a character CNN under two transformers, one that looks back and one that looks ahead.

The bidirectional language model of Peters et al. 2018 ("Dissecting Contextual Word Embeddings"),
read from AllenNLP's model archive or from the folder it unpacks to. Layer 0 is the token embedding
beside itself (without positions); layers 1 and up are [forward; backward] after every block. The
last layer of each direction is normed once more, as AllenNLP does when all layers are asked for.

Of the archive are used config.json and weights.th. Spelling needs no vocabulary: the folder of that
name is not read. The tensors of the training loss (`_softmax_loss.*`, `_last_average_loss`) are
ignored; any other tensor without a place in the network is an error.
"""

import lzma
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vestige.errors import ModelError
from vestige.files import check_file, too_large, unpacked_limit
from vestige.models.encoders.characters import (
    CHARACTERS,
    MARKERS,
    MOST_LAYERS,
    PADDING,
    WORD_LENGTH,
    CharacterCNN,
    CharacterEncoder,
    CnnSettings,
    LayerNorm,
    Options,
)

HEADS = 8
"""AllenNLP's contextualizer has no option for it."""
POSITIONS = 5000

_ARCHIVES = (".tar.gz", ".tgz")
_EMBEDDERS = "model.text_field_embedder.token_embedders"
_LOSS = ("_softmax_loss.", "_last_average_loss")


@dataclass(frozen=True)
class TelmoSettings:
    """The shape of a BiTransformer."""

    characters: CnnSettings
    layers: int
    hidden: int
    """Width inside the feed-forward part of a block."""


class Block(nn.Module):
    """Self-attention and a feed-forward part, each normed before and added to its input after."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.attention = nn.ModuleList(nn.Linear(width, width) for _ in ("query", "key", "value", "output"))
        self.feed_forward = nn.ModuleList([nn.Linear(width, hidden), nn.Linear(hidden, width)])
        self.norms = nn.ModuleList(LayerNorm(width) for _ in ("attention", "feed_forward"))
        for layer in (*self.attention, *self.feed_forward):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value, output = self.attention
        normed = self.norms[0](x)
        q, k, v = (project(normed).unflatten(-1, (HEADS, -1)).transpose(1, 2) for project in (query, key, value))
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + output(seen.transpose(1, 2).flatten(2))
        widen, narrow = self.feed_forward
        return x + narrow(widen(self.norms[1](x)).relu())


class BiTransformer(nn.Module):
    """The character CNN and the blocks of both directions, which never see each other."""

    positions: Tensor

    def __init__(self, settings: TelmoSettings) -> None:
        super().__init__()
        self.settings, self.depth, self.width = settings, settings.layers, settings.characters.projection
        self.characters = CharacterCNN(settings.characters)
        self.directions = nn.ModuleList(
            nn.ModuleList(Block(self.width, settings.hidden) for _ in range(settings.layers))
            for _ in ("forward", "backward")
        )
        self.norms = nn.ModuleList(LayerNorm(self.width) for _ in ("forward", "backward"))
        self.register_buffer("positions", _sinusoids(POSITIONS, self.width).unsqueeze(0))

    def forward(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        """Every block's output, (sentences, tokens, 2 * width)."""
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        real = (steps < lengths.unsqueeze(1)).unsqueeze(1)
        itself = steps.unsqueeze(1) == steps
        placed = tokens + self.positions[:, : len(steps)]
        sides = []
        for blocks, norm, visible in zip(
            self.directions, self.norms, (steps <= steps.unsqueeze(1), steps >= steps.unsqueeze(1)), strict=True
        ):
            mask = ((visible & real) | itself).unsqueeze(1)
            states = [placed]
            for block in blocks:
                states.append(block(states[-1], mask))
            sides.append([*states[1:-1], norm(states[-1])])
        return [torch.cat(pair, -1) for pair in zip(*sides, strict=True)]


def _sinusoids(positions: int, width: int) -> Tensor:
    """Sines in even, cosines in odd columns, with wavelengths from 2 pi to 20000 pi."""
    rates = 10000 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(positions).unsqueeze(1) * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class TelmoEncoder(CharacterEncoder):
    """Transformer-ELMo as an Encoder."""

    kind = "telmo"
    limit = POSITIONS

    def contextualize(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        return self.network(tokens, lengths)


def is_telmo(path: str | Path) -> bool:
    """Whether it is a model archive, or a folder with one or with what one unpacks to."""
    path = Path(path)
    if path.is_dir():
        other = "vocabulary" if (path / "config.json").exists() else "model.tar.gz"
        return (path / "weights.th").exists() or (path / other).exists()
    return path.is_file() and path.name.endswith(_ARCHIVES)


def load_telmo(path: str | Path, name: str | None = None, device: str | torch.device = "cpu") -> TelmoEncoder:
    """The Encoder of an AllenNLP model archive (model.tar.gz) or of the folder it unpacks to."""
    place = Path(path)
    if (place / "model.tar.gz").is_file() and not (place / "config.json").exists():
        place = place / "model.tar.gz"
    with _opened(place, "config.json") as stream:
        options = Options.read(stream.read(), f"{place}: config.json")
    embedder = _embedder(options)
    with _opened(place, "weights.th") as stream:
        tensors = _tensors(stream, f"{place}: weights.th")
    settings = _settings(options, embedder)
    with torch.device("meta"):
        network = BiTransformer(settings)
    names = _names(settings, embedder)
    own = {_published(name, names): name for name in network.state_dict()}
    shapes = {stored: network.state_dict()[name].shape for stored, name in own.items()}
    options.check(f"{place}: weights.th", tensors, shapes, partial(_sources, embedder))
    network.load_state_dict({own[stored]: tensor for stored, tensor in tensors.items()}, assign=True)
    return TelmoEncoder(network, name or str(path), device, *_spelling(options, embedder))


@contextmanager
def _opened(place: Path, name: str) -> Iterator[IO[bytes]]:
    """A file of the folder or archive; nothing of an archive is written where its names say."""
    fix = "name the model.tar.gz that AllenNLP's training wrote, or the folder it unpacks to"
    if place.is_dir():
        if not (place / name).is_file():
            raise ModelError(f"{place}: no {name}", fix=fix)
        with open(place / name, "rb") as stream:
            yield stream
        return
    if not place.exists():
        raise ModelError(f"{place}: no such file or folder", fix="check the path")
    check_file(place, ModelError)
    with tempfile.TemporaryFile() as copy:
        try:
            with tarfile.open(place) as archive:
                member = next((m for m in archive if m.isfile() and m.name.removeprefix("./") == name), None)
                found = archive.extractfile(member) if member else None
                if member and member.size > unpacked_limit(place):
                    raise too_large(place, ModelError)
                if found:
                    shutil.copyfileobj(found, copy)
        except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, zlib.error, lzma.LZMAError) as error:
            raise ModelError(
                f"{place}: not a whole .tar.gz archive ({type(error).__name__}: {error})",
                fix="fetch the file again; the download may have been cut short",
            ) from error
        if not found:
            raise ModelError(f"{place}: no {name} in the archive", fix=fix)
        copy.seek(0)
        yield copy


def _tensors(stream: IO[bytes], file: str) -> dict[str, Tensor]:
    """The tensors that shape representations; unpickled as tensors and nothing else."""
    try:
        stored = torch.load(stream, map_location="cpu", weights_only=True)
        return {name: tensor.float() for name, tensor in stored.items() if not name.startswith(_LOSS)}
    except Exception as error:
        raise ModelError(
            f"{file}: not a dictionary of tensors ({type(error).__name__}: {error})",
            fix="fetch the archive again; one that needs code to unpickle is not loaded",
        ) from error


def _embedder(options: Options) -> str:
    """The name of the token embedder: configuration and weights call it so."""
    options.one_of("model.type", ("language_model", "bidirectional_language_model", "bidirectional-language-model"))
    options.one_of("model.bidirectional", (True,), default=options("model.type", str) != "language_model")
    options.one_of("model.contextualizer.type", ("bidirectional_language_model_transformer",))
    names = list(options(_EMBEDDERS, dict))
    if len(names) != 1:
        raise ModelError(
            f"{options.file}: expected one embedder in {_EMBEDDERS}, found {names}",
            fix="use a language model that reads characters only",
        )
    return names[0]


def _settings(options: Options, embedder: str) -> TelmoSettings:
    characters = f"{_EMBEDDERS}.{embedder}"
    options.one_of(f"{characters}.type", ("character_encoding",))
    options.one_of(f"{characters}.encoder.type", ("cnn-highway",))
    options.one_of(f"{characters}.embedding.num_embeddings", (CHARACTERS,), default=CHARACTERS)
    width = options.size("model.contextualizer.input_dim")
    for one, other in (
        (f"{characters}.encoder.projection_dim", "model.contextualizer.input_dim"),
        (f"{characters}.encoder.embedding_dim", f"{characters}.embedding.embedding_dim"),
    ):
        if options.size(one) != options.size(other):
            raise ModelError(
                f"{options.file}: {one} is {options.size(one)}, but {other} is {options.size(other)}",
                fix="use the file published with the weights: the two are one width",
            )
    if width % HEADS:
        raise ModelError(
            f"{options.file}: model.contextualizer.input_dim is {width}, not a multiple of the {HEADS} heads",
            fix="use the file published with the weights",
        )
    places = ("after_highway", "after_cnn")
    cnn = CnnSettings(
        dim=options.size(f"{characters}.embedding.embedding_dim"),
        filters=options.filters(f"{characters}.encoder.filters", WORD_LENGTH),
        highways=options.size(f"{characters}.encoder.num_highway", most=MOST_LAYERS),
        projection=width,
        activation=options.one_of(f"{characters}.encoder.activation", ("relu", "tanh"), default="relu"),
        project_first=options.one_of(f"{characters}.encoder.projection_location", places, places[0]) == places[1],
        norm=options(f"{characters}.encoder.do_layer_norm", bool, default=False),
    )
    return TelmoSettings(
        cnn,
        options.size("model.contextualizer.num_layers", most=MOST_LAYERS),
        options.size("model.contextualizer.hidden_dim"),
    )


def _spelling(options: Options, embedder: str) -> tuple[dict[str, int], tuple[str, str]]:
    """Words with a character id of their own, and the two words that mark a sentence."""
    reader = "dataset_reader"
    if options(f"{reader}.base_reader", dict, default=None):
        reader = f"{reader}.base_reader"
    indexer = f"{reader}.token_indexers.{embedder}"
    options.one_of(f"{indexer}.type", ("elmo_characters",))
    added = options(f"{indexer}.tokens_to_add", dict, default={})
    begin, end = (
        options(f"{reader}.{side}_tokens", list, default=[mark])
        for side, mark in zip(("start", "end"), MARKERS, strict=True)
    )
    if not all(type(number) is int and 0 <= number < PADDING for number in added.values()):
        raise ModelError(
            f"{options.file}: {indexer}.tokens_to_add should give ids below {PADDING}, found {added}",
            fix="use the file published with the weights",
        )
    if len(begin) != 1 or len(end) != 1:
        raise ModelError(
            f"{options.file}: expected one start and one end token in {reader}, found {begin} and {end}",
            fix="use a language model trained with one marker at each end",
        )
    return MARKERS | {word: number + 1 for word, number in added.items()}, (begin[0], end[0])


def _published(name: str, names: Mapping[str, str]) -> str:
    """AllenNLP's name of a tensor."""
    module, _, kind = name.rpartition(".")
    return f"{names[module]}.{kind}" if module else names[name]


def _names(settings: TelmoSettings, embedder: str) -> dict[str, str]:
    """The name AllenNLP gives a module, by the name it has here."""
    word = f"_text_field_embedder.token_embedder_{embedder}"
    names = {
        "positions": "_contextualizer._position.positional_encoding",
        "characters.embedding": f"{word}._embedding._module",
        "characters.projection": f"{word}._encoder._module._projection",
        "characters.norm": f"{word}._encoder._module._layer_norm",
    }
    for kind, theirs, count in (
        ("convolutions", "char_conv_", len(settings.characters.filters)),
        ("highways", "_highways._layers.", settings.characters.highways),
    ):
        names |= {f"characters.{kind}.{i}": f"{word}._encoder._module.{theirs}{i}" for i in range(count)}
    for way, side in enumerate(("forward", "backward")):
        stack = f"_contextualizer._{side}_transformer"
        names[f"norms.{way}"] = f"{stack}.norm"
        for layer in range(settings.layers):
            ours, theirs = f"directions.{way}.{layer}", f"{stack}.layers.{layer}"
            names |= {f"{ours}.attention.{part}": f"{theirs}.self_attn.linears.{part}" for part in range(4)}
            names |= {f"{ours}.feed_forward.{part}": f"{theirs}.feed_forward.w_{part + 1}" for part in range(2)}
            names |= {f"{ours}.norms.{part}": f"{theirs}.sublayer.{part}.norm" for part in range(2)}
    return names


def _sources(embedder: str, tensor: str) -> Sequence[str]:
    """The options that decide a tensor's presence and shape."""
    characters, transformer = f"{_EMBEDDERS}.{embedder}", "model.contextualizer"
    for part, names in {
        "._embedding.": (f"{characters}.embedding.num_embeddings", f"{characters}.embedding.embedding_dim"),
        ".char_conv_": (f"{characters}.encoder.filters", f"{characters}.embedding.embedding_dim"),
        "._highways.": (f"{characters}.encoder.num_highway", f"{characters}.encoder.projection_location"),
        "._projection.": (f"{characters}.encoder.filters", f"{characters}.encoder.projection_dim"),
        "._layer_norm.": (f"{characters}.encoder.do_layer_norm", f"{characters}.encoder.projection_dim"),
        ".feed_forward.": tuple(f"{transformer}.{name}" for name in ("num_layers", "input_dim", "hidden_dim")),
        "_contextualizer.": (f"{transformer}.num_layers", f"{transformer}.input_dim"),
    }.items():
        if part in tensor:
            return names
    return ()
