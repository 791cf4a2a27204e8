"""ELMo (Peters et al. 2018): a character CNN under two stacks of LSTMs, one per direction.

Layer 0 is the token embedding beside itself, so that it is as wide as the others; layers 1 and up
are [forward; backward]. Read are the two files that AllenNLP and bilm-tf publish: options and HDF5
weights.

By default every sentence starts from zero states: its numbers depend on nothing but itself. With
`stateful=True` row k of a batch starts from the states that row k of the last call ended with, as
if each row were one stream of text (the backward LSTM, which ends at a sentence's first word, goes
on at the last word of the next). AllenNLP's own ELMo always does this, so its numbers for a
sentence depend on what was run before it, in which batches; to meet them exactly, run the same
sentences in the same order, from `reset()` on. The first words of a sentence (and, backwards, the
last) differ most between the two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vestige.errors import ModelError
from vestige.files import check_file, read_file
from vestige.models.encoders.characters import (
    CHARACTERS,
    MOST_LAYERS,
    CharacterCNN,
    CharacterEncoder,
    CnnSettings,
    Options,
)

State = tuple[Tensor, Tensor]
"""Hidden and memory states, (layers, directions, rows, width of the projection or of the cell)."""

_STEPS_AT_ONCE = 16


@dataclass(frozen=True)
class ElmoSettings:
    """The shape of a BiLM."""

    characters: CnnSettings
    layers: int
    cell: int
    """Width of an LSTM's memory; what it puts out is projected to the width of a word vector."""
    cell_clip: float | None
    projection_clip: float | None
    skip: bool
    """Whether every LSTM but the first adds its input to its output."""


class ProjectedLSTM(nn.Module):
    """One layer in one direction: an LSTM whose output is projected, with both states clipped.

    The gates are stacked as in the published weights: input, candidate, forget, output.
    """

    def __init__(self, width: int, cell: int, cell_clip: float | None, projection_clip: float | None) -> None:
        super().__init__()
        self.cell_clip, self.projection_clip = cell_clip or torch.inf, projection_clip or torch.inf
        self.input = nn.Linear(width, 4 * cell)
        self.recurrent = nn.Linear(width, 4 * cell, bias=False)
        self.projection = nn.Linear(cell, width, bias=False)
        for layer in (self.input, self.recurrent, self.projection):
            nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(self.input.bias)
        nn.init.ones_(self.input.bias[2 * cell : 3 * cell])

    def forward(self, inputs: Tensor, rows: Sequence[int], hidden: Tensor, memory: Tensor) -> Tensor:
        """Outputs, as `inputs` (sentences, steps, width); the states are changed in place.

        The sentences come longest first, `rows[step]` of them have that many steps.
        """
        outputs = torch.zeros_like(inputs)
        for start in range(0, inputs.shape[1], _STEPS_AT_ONCE):
            some = self.input(inputs[: rows[start], start : start + _STEPS_AT_ONCE].transpose(0, 1))
            for step, gates in enumerate(some, start):
                live = slice(rows[step])
                gates = torch.addmm(gates[live], hidden[live], self.recurrent.weight.t())
                enter, candidate, keep, leave = gates.chunk(4, -1)
                memory[live] = keep.sigmoid() * memory[live] + enter.sigmoid() * candidate.tanh()
                memory[live] = memory[live].clamp(-self.cell_clip, self.cell_clip)
                projected = self.projection(leave.sigmoid() * memory[live].tanh())
                hidden[live] = projected.clamp(-self.projection_clip, self.projection_clip)
                outputs[live, step] = hidden[live]
        return outputs


class BiLM(nn.Module):
    """The character CNN and the LSTMs of both directions, which never see each other."""

    def __init__(self, settings: ElmoSettings) -> None:
        super().__init__()
        self.settings, self.depth, self.width = settings, settings.layers, settings.characters.projection
        self.characters = CharacterCNN(settings.characters)
        self.directions = nn.ModuleList(
            nn.ModuleList(
                ProjectedLSTM(self.width, settings.cell, settings.cell_clip, settings.projection_clip)
                for _ in range(settings.layers)
            )
            for _ in ("forward", "backward")
        )

    def zero_state(self, rows: int) -> State:
        """The states before anything was read."""
        weight = self.characters.embedding.weight
        size = (self.settings.layers, 2, rows)
        return weight.new_zeros(*size, self.width), weight.new_zeros(*size, self.settings.cell)

    def forward(self, tokens: Tensor, lengths: Tensor, state: State) -> tuple[list[Tensor], State]:
        """Every LSTM layer, (sentences, tokens, 2 * width), and the states at the sentences' ends."""
        order = lengths.argsort(descending=True, stable=True)
        back = order.argsort()
        lengths = lengths[order]
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        rows = (lengths.unsqueeze(1) > steps).sum(0).tolist()
        mirror = (lengths.unsqueeze(1) - 1 - steps).where(lengths.unsqueeze(1) > steps, steps)
        hidden, memory = (part[:, :, order] for part in state)
        layers = []
        inputs = [tokens[order], _reorder(tokens[order], mirror)]
        for layer in range(self.depth):
            for way, lstms in enumerate(self.directions):
                outputs = lstms[layer](inputs[way], rows, hidden[layer, way], memory[layer, way])
                inputs[way] = outputs + inputs[way] if self.settings.skip and layer else outputs
            layers.append(torch.cat([inputs[0], _reorder(inputs[1], mirror)], -1)[back])
        return layers, (hidden[:, :, back], memory[:, :, back])


def _reorder(x: Tensor, places: Tensor) -> Tensor:
    return x.gather(1, places.unsqueeze(2).expand_as(x))


class ElmoEncoder(CharacterEncoder):
    """ELMo as an Encoder; see the module for what `stateful` means."""

    kind = "elmo"

    def __init__(self, network: BiLM, name: str, device: str | torch.device = "cpu", stateful: bool = False) -> None:
        super().__init__(network, name, device)
        self.sequential = stateful
        self.reset()

    def reset(self) -> None:
        """Forget what was read: the next call starts from zero states."""
        self._state: State = self.network.zero_state(0)

    def contextualize(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        rows = len(tokens)
        if not self.sequential:
            return self.network(tokens, lengths, self.network.zero_state(rows))[0]
        fresh = self.network.zero_state(max(0, rows - self._state[0].shape[2]))
        known = [torch.cat(parts, 2) for parts in zip(self._state, fresh, strict=True)]
        layers, ends = self.network(tokens, lengths, tuple(part[:, :, :rows] for part in known))
        self._state = tuple(torch.cat([end, part[:, :, rows:]], 2) for end, part in zip(ends, known, strict=True))
        return layers


def is_elmo(path: str | Path) -> bool:
    """Whether the folder holds a published ELMo, or one of its two files."""
    folder = Path(path)
    return folder.is_dir() and any(any(folder.glob(pattern)) for pattern in ("*options.json", "*weights*.hdf5"))


def load_elmo(
    path: str | Path, name: str | None = None, device: str | torch.device = "cpu", stateful: bool = False
) -> ElmoEncoder:
    """The Encoder of a folder with an options.json and HDF5 weights."""
    folder = Path(path)
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such folder", fix="check the path")
    file = _only(folder, "*options.json", "options file (options.json)")
    weights = _only(folder, "*weights*.hdf5" if any(folder.glob("*weights*.hdf5")) else "*.hdf5", "weights (*.hdf5)")
    check_file(weights, ModelError)
    options = Options.read(read_file(file, ModelError), str(file))
    settings = _settings(options)
    tensors = _read(weights)
    options.check(str(weights), tensors, _layout(settings), _sources)
    with torch.device("meta"):
        network = BiLM(settings)
    network.load_state_dict(_state_dict(tensors, settings), assign=True)
    return ElmoEncoder(network, name or str(path), device, stateful)


def _only(folder: Path, pattern: str, what: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) == 1:
        return found[0]
    raise ModelError(
        f"{folder}: expected one {what}, found {', '.join(file.name for file in found) or 'none'}",
        fix="put the options and the weights of one ELMo, as published, into a folder of their own",
    )


def _settings(options: Options) -> ElmoSettings:
    options.one_of("char_cnn.n_characters", (CHARACTERS, CHARACTERS - 1), default=CHARACTERS)
    length = options.size("char_cnn.max_characters_per_token")
    characters = CnnSettings(
        dim=options.size("char_cnn.embedding.dim"),
        filters=options.filters("char_cnn.filters", length),
        highways=options.size("char_cnn.n_highway", default=0, most=MOST_LAYERS),
        projection=options.size("lstm.projection_dim"),
        activation=options.one_of("char_cnn.activation", ("relu", "tanh")),
        length=length,
    )
    return ElmoSettings(
        characters,
        layers=options.size("lstm.n_layers", most=MOST_LAYERS),
        cell=options.size("lstm.dim"),
        cell_clip=options.clip("lstm.cell_clip"),
        projection_clip=options.clip("lstm.proj_clip"),
        skip=options("lstm.use_skip_connections", bool, default=False),
    )


def _read(file: Path) -> dict[str, Tensor]:
    import h5py  # not where a model is only asked whether it is an ELMo

    tensors: dict[str, Tensor] = {}

    def keep(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            tensors[name] = torch.from_numpy(item[()].astype("float32"))

    try:
        with h5py.File(file, "r") as stored:
            stored.visititems(keep)
    except Exception as error:
        raise ModelError(
            f"{file}: not a whole HDF5 file of weights ({type(error).__name__}: {error})",
            fix="fetch the file again; the download may have been cut short",
        ) from error
    return tensors


def _layout(settings: ElmoSettings) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor in the weights file."""
    cnn = settings.characters
    filters = sum(number for _, number in cnn.filters)
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (CHARACTERS - 1, cnn.dim)}
    for index, (size, number) in enumerate(cnn.filters):
        shapes |= {f"CNN/W_cnn_{index}": (1, size, cnn.dim, number), f"CNN/b_cnn_{index}": (number,)}
    for index in range(cnn.highways):
        for part in ("carry", "transform"):
            shapes |= {f"CNN_high_{index}/W_{part}": (filters, filters), f"CNN_high_{index}/b_{part}": (filters,)}
    shapes |= {"CNN_proj/W_proj": (filters, cnn.projection), "CNN_proj/b_proj": (cnn.projection,)}
    for way in range(2):
        for layer in range(settings.layers):
            cell = _CELL.format(way, layer)
            shapes |= {f"{cell}/W_0": (2 * cnn.projection, 4 * settings.cell), f"{cell}/B": (4 * settings.cell,)}
            shapes[f"{cell}/W_P_0"] = (settings.cell, cnn.projection)
    return shapes


_CELL = "RNN_{}/RNN/MultiRNNCell/Cell{}/LSTMCell"


def _sources(tensor: str) -> Sequence[str]:
    """The options that decide a tensor's presence and shape."""
    for start, names in {
        "char_embed": ("char_cnn.n_characters", "char_cnn.embedding.dim"),
        "CNN/": ("char_cnn.filters", "char_cnn.embedding.dim"),
        "CNN_high": ("char_cnn.n_highway", "char_cnn.filters"),
        "CNN_proj": ("char_cnn.filters", "lstm.projection_dim"),
        "RNN": ("lstm.n_layers", "lstm.projection_dim", "lstm.dim"),
    }.items():
        if tensor.startswith(start):
            return names
    return ()


def _state_dict(tensors: Mapping[str, Tensor], settings: ElmoSettings) -> dict[str, Tensor]:
    """The published tensors as those of BiLM.

    TensorFlow multiplies from the right, opens a highway's gate for the change rather than for the
    carried input, and adds 1 to the forget gate when it runs.
    """
    cnn, embedding = settings.characters, tensors["char_embed"]
    state = {
        "characters.embedding.weight": F.pad(embedding, (0, 0, 1, 0)),
        "characters.projection.weight": tensors["CNN_proj/W_proj"].t(),
        "characters.projection.bias": tensors["CNN_proj/b_proj"],
    }
    for index in range(len(cnn.filters)):
        place = f"characters.convolutions.{index}"
        state[f"{place}.weight"] = tensors[f"CNN/W_cnn_{index}"].squeeze(0).permute(2, 1, 0)
        state[f"{place}.bias"] = tensors[f"CNN/b_cnn_{index}"]
    for index in range(cnn.highways):
        place, stored = f"characters.highways.{index}", f"CNN_high_{index}"
        state[f"{place}.weight"] = torch.cat([tensors[f"{stored}/W_transform"], -tensors[f"{stored}/W_carry"]], 1).t()
        state[f"{place}.bias"] = torch.cat([tensors[f"{stored}/b_transform"], -tensors[f"{stored}/b_carry"]])
    for way in range(2):
        for layer in range(settings.layers):
            place, stored = f"directions.{way}.{layer}", _CELL.format(way, layer)
            entering, recurrent = tensors[f"{stored}/W_0"].t().split(cnn.projection, 1)
            state |= {f"{place}.input.weight": entering, f"{place}.recurrent.weight": recurrent}
            forget = torch.tensor([0.0, 0.0, 1.0, 0.0]).repeat_interleave(settings.cell)
            state[f"{place}.input.bias"] = tensors[f"{stored}/B"] + forget
            state[f"{place}.projection.weight"] = tensors[f"{stored}/W_P_0"].t()
    return {name: tensor.contiguous() for name, tensor in state.items()}
