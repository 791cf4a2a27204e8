"""LoRA adapters as weights: what B A adds to every matrix of the base, from the adapter's file alone."""

import math
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from vestige.errors import ModelError
from vestige.files import check_file, load_json, read_file
from vestige.models.files.adapter_patterns import check_patterns
from vestige.models.files.sources import model_folder
from vestige.models.files.tensors import FolderWeights, Weights

_OUTER = "base_model.model."
_MERGE = "merge it into the weights (merge_and_unload), save them and compare that folder"
_BEYOND = (
    "use_dora", "layer_replication", "target_parameters", "alora_invocation_tokens", "use_qalora", "lora_bias",
    "trainable_token_indices", "megatron_config", "arrow_config", "use_bdlora", "kasa_config", "velora_config",
    "monteclora_config",
)  # fmt: skip
"""Settings under which the change of a matrix is not B A."""
_FACTORS = {
    ".lora_A.weight": "A",
    ".lora_B.weight": "B",
    ".lora_embedding_A": "embedding A",
    ".lora_embedding_B": "embedding B",
}


def base_folder(folder: Path, base: str | Path | None) -> Path:
    """The folder of the base under an adapter: the one that is given, else the one that the adapter names."""
    base = base or _config(folder).get("base_model_name_or_path")
    if not base:
        raise ModelError(f"{folder}: adapter_config.json names no base model", fix="name it: base: of the model")
    try:
        return model_folder(base)
    except ModelError as error:
        raise ModelError(
            f"{folder}: the base of this adapter: {error.problem}", fix="name it: base: of the model"
        ) from error


class AdapterWeights:
    """A base with a LoRA adapter on it: tensors are the base's plus B A, with the adapter's scale."""

    def __init__(self, folder: Path, base: FolderWeights) -> None:
        self.folder, self.base, self.config = folder, base, _config(folder)
        self._check()
        self._file = folder / "adapter_model.safetensors"
        if not self._file.exists():
            raise ModelError(
                f"{folder}: an adapter without adapter_model.safetensors",
                fix="save it with save_pretrained(..., safe_serialization=True)",
            )
        check_file(self._file, ModelError)
        self._factors: dict[str, dict[str, str]] = {}
        self._saved: dict[str, str] = {}
        self._module: dict[str, str] = {}
        self.shapes = dict(base.shapes)
        with safe_open(self._file, framework="pt") as stored:
            for key in sorted(stored.keys()):
                self._place(key, tuple(stored.get_slice(key).get_shape()))
        check_patterns(folder, self.config, self._module.values())

    def _check(self) -> None:
        kind = self.config.get("peft_type")
        if kind != "LORA":
            raise ModelError(f"{self.folder}: an adapter of kind {kind}, of which no weights are compared", fix=_MERGE)
        beyond = [name for name in _BEYOND if self.config.get(name)]
        begun = str(self.config.get("init_lora_weights"))
        if begun.lower().startswith(("pissa", "olora", "corda", "loftq", "lora_ga")):
            beyond.append(f"init_lora_weights: {begun}")
        if beyond:
            raise ModelError(
                f"{self.folder}: the adapter has {beyond[0]}, so that more changes than B A says", fix=_MERGE
            )

    def _place(self, key: str, shape: tuple[int, ...]) -> None:
        """Which weight of the base a tensor of the adapter belongs to."""
        path = key.removeprefix(_OUTER)
        suffix = next((one for one in _FACTORS if path.endswith(one)), None)
        if suffix is not None:
            module = path.removesuffix(suffix)
            if (name := self._of_base(f"{module}.weight")) is None:
                raise ModelError(
                    f"{self.folder}: the adapter changes {module}, which {self.base.folder} does not have",
                    fix="name the base that it was trained on: base: of the model",
                )
            self._factors.setdefault(name, {})[_FACTORS[suffix]] = key
            self._module[name] = module
        elif ".lora_" in path or ".token_adapter." in path:
            raise ModelError(f"{self.folder}: no rule knows what {key} does to a weight", fix=_MERGE)
        else:
            path = path.replace(".modules_to_save.", ".").replace(".base_layer.", ".")
            name = self._of_base(path) or path
            self._saved[name], self.shapes[name] = key, shape

    def _of_base(self, path: str) -> str | None:
        """The name that the base has for it: adapters are trained under heads, and name their modules so."""
        if path in self.base.shapes:
            return path
        found = [name for name in self.base.shapes if name.endswith(f".{path}") or path.endswith(f".{name}")]
        return max(found, key=len) if found else None

    def dtype(self, name: str) -> torch.dtype:
        return torch.float32 if name in self._factors else self._stored(name).dtype

    def _stored(self, name: str) -> Tensor:
        return self._read(self._saved[name]) if name in self._saved else self.base.rows(name, 0, 1)

    def _read(self, key: str) -> Tensor:
        with safe_open(self._file, framework="pt") as stored:
            return stored.get_tensor(key)

    def rows(self, name: str, start: int = 0, stop: int | None = None) -> Tensor:
        if name in self._saved:
            return self._read(self._saved[name])[start:stop]
        own = self.base.rows(name, start, stop)
        return own.float() + self._delta(name)[start:stop] if name in self._factors else own

    def change(self, name: str, other: Weights) -> Tensor | None:
        """B A with its scale, where the other is the base that the adapter is on."""
        return self._delta(name) if name in self._factors and self.base.same_files(other) else None

    def _delta(self, name: str) -> Tensor:
        keys, scale = self._factors[name], self._scale(self._module[name])
        embedding = "embedding A" in keys
        first, second = ("embedding B", "embedding A") if embedding else ("B", "A")
        if first not in keys or second not in keys:
            raise ModelError(f"{self.folder}: of {name} only one factor is there", fix="copy the adapter's file again")
        product = self._read(keys[first]).float() @ self._read(keys[second]).float()
        if product.dim() != 2:
            raise ModelError(f"{self.folder}: LoRA of a convolution ({name}) is not compared", fix=_MERGE)
        flipped = embedding or bool(self.config.get("fan_in_fan_out"))
        product = scale * (product.T if flipped else product)
        if tuple(product.shape) != self.base.shapes[name]:
            raise ModelError(
                f"{self.folder}: B A of {name} is {tuple(product.shape)}, the base's {self.base.shapes[name]}",
                fix="name the base that it was trained on: base: of the model",
            )
        return product

    def _scale(self, module: str) -> float:
        """Alpha over rank, or over its root; both may be set by patterns of names."""
        from peft.utils.other import get_pattern_key

        def of(pattern: str, default: str) -> float:
            patterns = self.config.get(pattern) or {}
            return float(patterns.get(get_pattern_key(list(patterns), module), self.config[default]))

        rank, alpha = of("rank_pattern", "r"), of("alpha_pattern", "lora_alpha")
        return alpha / (math.sqrt(rank) if self.config.get("use_rslora") else rank)


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "adapter_config.json"
    try:
        found = load_json(read_file(path, ModelError))
        if not isinstance(found, dict):
            raise ValueError("no mapping")
        if found.get("peft_type") == "LORA" and not (found.get("r") and found.get("lora_alpha")):
            raise ValueError("no rank r, or no lora_alpha")
    except ValueError as error:
        raise ModelError(f"{path}: not an adapter's configuration ({error})", fix="save the adapter again") from None
    return found
