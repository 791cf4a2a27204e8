"""The weights of a model, tensor by tensor: read from its files where it has any, so that it is never loaded whole."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import safe_open
from torch import Tensor

from vestige.errors import ModelError
from vestige.files import load_json, read_file
from vestige.models.encoders.encoder import Encoder
from vestige.models.files.sources import model_folder
from vestige.models.files.weights import INSTEAD, check_weight_files, stored_tensors

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_BUFFERS = re.compile(r"inv_freq$|masked_bias$|position_ids$|(?:^|\.)attn\.bias$|num_batches_tracked$")
"""Numbers that nobody learns: frequencies of rotary positions, masks that old files hold."""


class Weights(Protocol):
    """The learnt tensors of a model by name, in the precision they are kept in."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Of every tensor."""

    def dtype(self, name: str) -> torch.dtype:
        """The precision it is kept in."""

    def rows(self, name: str, start: int = 0, stop: int | None = None) -> Tensor:
        """The tensor, or some of its rows."""

    def change(self, name: str, other: "Weights") -> Tensor | None:
        """The change from `other` by an adapter on it, in float32, where that is all there is; None: not known so."""


class FolderWeights:
    """Of a folder with safetensors, in one file or in several."""

    def __init__(self, folder: Path) -> None:
        check_weight_files(folder)
        _check_plain(folder)
        self.folder = folder
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._files: dict[str, Path] = {}
        self._dtypes: dict[str, torch.dtype] = {}
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, framework="pt") as stored:
                for name in stored.keys():  # noqa: SIM118 (not a dictionary)
                    part = stored.get_slice(name)
                    shape, kind = tuple(part.get_shape()), str(part.get_dtype())
                    if _BUFFERS.search(name) and not (name.endswith("attn.bias") and len(shape) == 1):
                        continue
                    self._add(name, shape, kind, file)

    def _add(self, name: str, shape: tuple[int, ...], kind: str, file: Path) -> None:
        if kind in _DTYPES:
            self.shapes[name], self._files[name], self._dtypes[name] = shape, file, _DTYPES[kind]
        elif kind.startswith("F") or (len(shape) > 1 and name.endswith("weight")):
            raise ModelError(f"{file}: {name} is quantised ({kind})", fix=INSTEAD)

    def dtype(self, name: str) -> torch.dtype:
        return self._dtypes[name]

    def rows(self, name: str, start: int = 0, stop: int | None = None) -> Tensor:
        with safe_open(self._files[name], framework="pt") as stored:
            if not self.shapes[name]:
                return stored.get_tensor(name).reshape(1)
            return stored.get_slice(name)[start : self.shapes[name][0] if stop is None else stop]

    def change(self, name: str, other: Weights) -> Tensor | None:
        return None

    def same_files(self, other: Weights) -> bool:
        """Whether the other reads the same folder."""
        return isinstance(other, FolderWeights) and self.folder.resolve() == other.folder.resolve()


class MemoryWeights:
    """Of a model in memory: its parameters, each once, with its adapter or without it."""

    def __init__(self, encoder: Encoder) -> None:
        self.model: Any = getattr(encoder, "model", None)
        if not isinstance(self.model, torch.nn.Module):
            raise ModelError(
                f"{encoder.name} has no weights of its own that could be compared",
                fix="compare models of transformers, from a folder or in memory",
            )
        self._adapted = _adapted_modules(self.model, encoder.name) if getattr(encoder, "active", True) else {}
        merged = [name for name, module in _adapter_layers(self.model).items() if module.merged]
        if merged and not self._adapted:
            raise ModelError(
                f"{encoder.name}: the adapter is merged into {merged[0]}, so that the base is no longer there",
                fix="unmerge it (unmerge_adapter), or load the base by itself",
            )
        self._tensors = _parameters(self.model, encoder.name, bool(self._adapted))
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def dtype(self, name: str) -> torch.dtype:
        return self._tensors[name].dtype

    def rows(self, name: str, start: int = 0, stop: int | None = None) -> Tensor:
        tensor = self._tensors[name].detach().cpu()
        layer = self._adapted.get(name)
        if layer is not None and not layer.merged:
            tensor = tensor.float() + _delta(layer)
        return tensor.reshape(1) if not tensor.shape else tensor[start:stop]

    def change(self, name: str, other: Weights) -> Tensor | None:
        """Of the adapter alone, where the other is this very model without it."""
        if not (isinstance(other, MemoryWeights) and other.model is self.model and not other._adapted):
            return None
        layer = self._adapted.get(name)
        return _delta(layer) if layer is not None else None


def open_weights(source: Mapping[str, Any], name: str) -> Weights:
    """The weights of the model that `load_model` would make of a source (the keywords that it would be given)."""
    from vestige.models.encoders.elmo import is_elmo
    from vestige.models.encoders.telmo import is_telmo
    from vestige.models.files.lora import AdapterWeights, base_folder

    if "twin_of" in source:
        raise ModelError(
            f"{name} is a random twin, which has nothing of the weights of another model", fix="leave it out"
        )
    inner = source.get("without_adapter", source)
    place = inner["source"]
    if is_elmo(place) or is_telmo(place):
        raise ModelError(
            f"{name} is an ELMo, whose weights are no safetensors", fix="compare the weights of models of transformers"
        )
    folder = model_folder(place, inner.get("revision"))
    if not (folder / "adapter_config.json").exists():
        return FolderWeights(folder)
    base = FolderWeights(base_folder(folder, inner.get("base")))
    return base if "without_adapter" in source else AdapterWeights(folder, base)


def _check_plain(folder: Path) -> None:
    """Refuse a folder whose configuration says that its weights are quantised."""
    path = folder / "config.json"
    try:
        config = load_json(read_file(path, ModelError)) if path.exists() else {}
    except ValueError as error:
        raise ModelError(f"{path}: not a model's configuration ({error})", fix="get the whole folder again") from None
    quantised = config.get("quantization_config") if isinstance(config, dict) else None
    if quantised:
        how = quantised.get("quant_method", "somehow") if isinstance(quantised, dict) else quantised
        raise ModelError(f"{folder}: its weights are quantised ({how})", fix=INSTEAD)


def _parameters(model: Any, name: str, adapted: bool) -> dict[str, Tensor]:
    """Parameters without those of adapters, under the names they have without one."""
    tensors, layers = dict(stored_tensors(model)), _adapter_layers(model)
    found: dict[str, Tensor] = {}
    for key, parameter in model.named_parameters():
        inside = next((path for path in layers if key.startswith(f"{path}.")), None)
        if inside is not None and not key.startswith(f"{inside}.base_layer."):
            continue
        if (".modules_to_save." in key and not adapted) or (".original_module." in key and adapted):
            continue
        plain = re.sub(r"\.(?:base_layer|original_module|modules_to_save\.\w+)\.", ".", f".{key}")[1:]
        tensor = tensors.get(key, parameter)
        if tensor.dtype in _DTYPES.values():
            found[plain] = tensor
        elif tensor.dim() > 1:
            raise ModelError(f"{name}: {key} is quantised ({tensor.dtype})", fix=INSTEAD)
    return found


def _adapter_layers(model: Any) -> dict[str, Any]:
    """By path, the modules that an adapter has wrapped."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return {path: module for path, module in model.named_modules() if isinstance(module, BaseTunerLayer)}


def _adapted_modules(model: Any, name: str) -> dict[str, Any]:
    """By the name of the weight that it changes, every wrapped module; an error for what is not LoRA."""
    from peft.tuners.lora import LoraLayer

    found = {}
    for path, module in _adapter_layers(model).items():
        if module.disable_adapters or not module.active_adapters:
            continue
        if not isinstance(module, LoraLayer) or any(module.use_dora.get(one) for one in module.active_adapters):
            raise ModelError(
                f"{name}: the adapter on {path} ({type(module).__name__}) is not plain LoRA",
                fix="merge it into the weights (merge_and_unload), save them and compare that folder",
            )
        found[f"{path}.weight"] = module
    return found


def _delta(layer: Any) -> Tensor:
    """What the active adapters of a module add to its weight."""
    active = [one for one in layer.active_adapters if one in layer.scaling]
    return sum((layer.get_delta_weight(one).detach().cpu().float() for one in active), torch.zeros(()))
