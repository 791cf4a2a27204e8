"""Weight files: safetensors only, and what was loaded is what they hold."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import PreTrainedModel

from vestige.errors import ModelError

_PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt")


def check_weight_files(folder: Path) -> None:
    """Refuse folders without safetensors, and say how to convert pickled weights."""
    if any(folder.glob("*.safetensors")):
        return
    pickles = sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern))
    if pickles:
        raise ModelError(
            f"{folder}: only pickled weights ({', '.join(pickles)}), which can run any code when loaded",
            fix="if you trust them, convert once: "
            f"python -c \"from transformers import AutoModel; AutoModel.from_pretrained('{folder}')"
            f".save_pretrained('{folder}-safetensors')\" and copy the tokenizer files beside them",
        )
    raise ModelError(
        f"{folder}: no weights (expected model.safetensors; found {sorted(os.listdir(folder))})",
        fix="copy the weights there, or name the folder that save_pretrained() wrote",
    )


def compare_with_files(model: PreTrainedModel, folder: Path) -> None:
    """Every backbone tensor equals the file's (files of other precisions are cast first).

    Tensors that a device map left on disk are not in memory and cannot differ from their file.
    """
    loaded = model.state_dict()
    prefix = f"{model.base_model_prefix}."
    compared = sum(tensor.is_meta for tensor in loaded.values())
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118 (not a dictionary)
                name = key.removeprefix(prefix)
                if name not in loaded or loaded[name].is_meta:
                    continue
                stored = tensors.get_tensor(key)
                compared += 1
                if stored.shape != loaded[name].shape or not torch.equal(
                    stored.to(loaded[name].dtype), loaded[name].cpu()
                ):
                    if not torch.isfinite(stored).all():
                        raise ModelError(
                            f"{folder}: {key} of {file.name} holds NaN or infinite values",
                            fix="train the model again, or use another checkpoint",
                        )
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
