"""Weight files: safetensors only, and what was loaded is what they hold."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open

from vestige.errors import ModelError
from vestige.files import check_file, load_json, read_file

if TYPE_CHECKING:
    from transformers import PreTrainedModel

INSTEAD = "take the weights as they were before they were quantised"
"""What to do about quantised weights."""
_SHARED_LAYERS = 200
"""ALBERT and its kin use one layer's weights many times, but no more often than this."""
_PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt")


def check_weight_files(folder: Path) -> None:
    """Refuse folders without safetensors, with damaged ones, or whose index leads elsewhere."""
    if any(folder.glob("*.safetensors")):
        _check_index(folder)
        for file in sorted(folder.glob("*.safetensors")):
            _check_whole(file)
        return
    pickles = sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern))
    if pickles:
        raise ModelError(
            f"{folder}: only pickled weights ({', '.join(pickles)}), which can run any code when loaded",
            fix=f"if you trust them, convert once: python -c {quote(_converting(folder))} and copy the tokenizer "
            "files beside them",
        )
    raise ModelError(
        f"{folder}: no weights (expected model.safetensors; found {sorted(os.listdir(folder))})",
        fix="copy the weights there, or name the folder that save_pretrained() wrote",
    )


def _converting(folder: Path) -> str:
    kept = f"{folder}-safetensors"
    return f"from transformers import AutoModel; AutoModel.from_pretrained({str(folder)!r}).save_pretrained({kept!r})"


def _check_index(folder: Path) -> None:
    """An index names the files of its own folder, and safetensors alone: transformers would follow it anywhere."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return
    fix = "save the model again with save_pretrained(), or get the whole folder"
    try:
        shards = load_json(read_file(index, ModelError))["weight_map"].values()
        names = {str(name) for name in shards}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"{index}: no map from weights to files ({error})", fix=fix) from None
    for name in sorted(names):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelError(f"{index}: names {name!r}, which is no safetensors file of this folder", fix=fix)
        if not (folder / name).is_file():
            raise ModelError(f"{index}: names {name!r}, which is not there", fix=fix)


def _check_whole(file: Path) -> None:
    check_file(file, ModelError)
    try:
        with safe_open(file, framework="pt"):
            pass
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{file}: not a whole safetensors file ({error})", fix="copy or download the file again, and compare sizes"
        ) from None


def check_config(config: Any, folder: Path) -> None:
    """Refuse a configuration that asks for attention by code from a hub, or for more layers than there are weights."""
    attention = getattr(config, "_attn_implementation", None)
    if "/" in str(attention):
        raise ModelError(
            f"{folder}: config.json asks for the attention kernel {attention!r}, code from a hub",
            fix="remove attn_implementation from config.json",
        )
    tensors = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="pt") as stored:
            tensors += len(stored.keys())
    for name in ("num_hidden_layers", "num_layers", "n_layer", "encoder_layers"):
        layers = getattr(config, name, None)
        if isinstance(layers, int) and not 1 <= layers <= max(tensors, _SHARED_LAYERS):
            raise ModelError(
                f"{folder}: config.json says {name} = {layers}, but the folder holds {tensors} weights in all",
                fix="get the config.json that belongs to the weights",
            )


def check_nothing_left(model: PreTrainedModel, unused: Iterable[str], folder: Path) -> None:
    """Refuse a configuration with fewer layers than the weights: the rest of the model would be cut off unseen."""
    names = {_without_numbers(name) for name in model.state_dict()}
    names |= {_without_numbers(f"{model.base_model_prefix}.{name}") for name in model.base_model.state_dict()}
    for key in sorted(unused):
        if re.search(r"\.\d+\.", key) and _without_numbers(key) in names:
            raise ModelError(
                f"{folder}: its files hold {key}, for which the model that config.json describes has no layer",
                fix="get the config.json that belongs to the weights (its number of layers is too small)",
            )


def _without_numbers(name: str) -> str:
    return re.sub(r"\.\d+\.", ".#.", name)


def compare_with_files(model: PreTrainedModel, folder: Path) -> None:
    """Every backbone tensor equals the file's (files of other precisions are cast first).

    Tensors that a device map left on disk are not in memory and cannot differ from their file.
    """
    loaded = model.state_dict()
    prefix = f"{model.base_model_prefix}."
    compared = sum(tensor.is_meta for tensor in loaded.values())
    trained = {name for name, _ in model.named_parameters()}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118 (not a dictionary)
                name = key.removeprefix(prefix)
                if name not in loaded or loaded[name].is_meta:
                    continue
                stored = tensors.get_tensor(key)
                compared += 1
                if name in trained and stored.element_size() == 1 != loaded[name].element_size():
                    raise ModelError(f"{folder}: {key} of {file.name} is quantised ({stored.dtype})", fix=INSTEAD)
                if name in trained and not torch.isfinite(stored).all():
                    raise ModelError(
                        f"{folder}: {key} of {file.name} holds NaN or infinite values",
                        fix="train the model again, or use another checkpoint",
                    )
                if stored.shape != loaded[name].shape or not torch.equal(
                    stored.to(loaded[name].dtype), loaded[name].cpu()
                ):
                    raise ModelError(
                        f"{folder}: {name} was loaded with other values than {file.name} holds",
                        fix="report this with the transformers version: the weights in memory are not the file's",
                    )
    if not compared:
        raise ModelError(
            f"{folder}: none of the loaded weights could be found in its files",
            fix="check that the safetensors files belong to this model",
        )


def stored_tensors(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Every parameter and buffer by name, sorted; those that a device map left on disk are read from there."""
    for name, tensor in sorted(model.state_dict().items()):
        if tensor.is_meta:
            path, _, leaf = name.rpartition(".")
            hook: Any = model.get_submodule(path)._hf_hook
            yield name, hook.weights_map[leaf]
        else:
            yield name, tensor
