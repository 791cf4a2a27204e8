"""PEFT adapters (LoRA and kin): base and tuned model from one load.

The adapter's weights are put onto the base's backbone; switched off, the very same object is the
base. An adapter trained under a task head names its tensors with the head model's prefix and
carries the head with it: the prefix is taken off and the head left out.
"""

import warnings
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from vestige.digest import digest_chunks
from vestige.errors import ModelError
from vestige.models.huggingface import HuggingFaceEncoder
from vestige.models.identity import hash_tensors
from vestige.models.reading import Reading

_OUTER = "base_model.model."


class AdapterEncoder(HuggingFaceEncoder):
    """A backbone with an adapter, read with it or, as `without_adapter()`, without it."""

    def __init__(
        self,
        peft: Any,
        tokenizer: PreTrainedTokenizerBase,
        name: str,
        device: str | torch.device | None,
        reading: Reading,
        active: bool = True,
    ) -> None:
        super().__init__(peft.get_base_model(), tokenizer, name, device, reading)
        self.peft, self.active = peft, active

    def without_adapter(self, name: str | None = None) -> "AdapterEncoder":
        """The base model, in the same memory."""
        return AdapterEncoder(
            self.peft, self.tokenizer, name or f"{self.name} (base)", None, self.reading, active=False
        )

    def weights_digest(self) -> str:
        """With the adapter off, the hash of the plain base model: both share what the cache holds."""
        tensors = {}
        for name, tensor in self.model.state_dict().items():
            if _is_adapters(name):
                if self.active:
                    tensors[name] = tensor
            else:
                tensors[name.replace(".base_layer.", ".").replace(".original_module.", ".")] = tensor
        return digest_chunks(hash_tensors(tensors))

    def _active(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.active else self.peft.disable_adapter()


def load_adapter(
    folder: Path,
    base: str | Path | None,
    *,
    tokenizer: PreTrainedTokenizerBase | str | Path | None,
    name: str,
    device: str,
    reading: Reading,
) -> AdapterEncoder:
    """The adapter in `folder` on its base."""
    from vestige.models.load import load_backbone, load_tokenizer
    from vestige.models.sources import model_folder
    from vestige.models.weights import check_weight_files

    config = _config(folder)
    named = config.base_model_name_or_path
    base = base or named
    if not base:
        raise ModelError(f"{folder}: adapter_config.json names no base model", fix="load_model(adapter, base=...)")
    root = model_folder(base)
    check_weight_files(root)
    backbone, _ = load_backbone(root, torch.float32, False, False, None, reading)
    tensors, prefix = _backbone_tensors(folder, backbone)
    _grow_vocabulary(backbone, tensors)
    peft = get_peft_model(backbone, _for_backbone(config, backbone, prefix))
    _put(peft, tensors, folder, base)
    if named and Path(str(named)).name != Path(str(base)).name:
        warnings.warn(f"{folder} was trained on {named!r} and is loaded onto {str(base)!r}", stacklevel=3)
    if tokenizer is None:
        tokenizer = load_tokenizer(folder if (folder / "tokenizer.json").exists() else root)
    elif not isinstance(tokenizer, PreTrainedTokenizerBase):
        tokenizer = load_tokenizer(model_folder(tokenizer))
    encoder = AdapterEncoder(peft, tokenizer, name, device, reading)
    encoder.verify()
    return encoder


def _config(folder: Path) -> PeftConfig:
    if not (folder / "adapter_model.safetensors").exists():
        raise ModelError(
            f"{folder}: an adapter without adapter_model.safetensors",
            fix="save it with save_pretrained(..., safe_serialization=True)",
        )
    try:
        config = PeftConfig.from_pretrained(str(folder))
    except Exception as error:
        raise ModelError(
            f"{folder}: peft cannot read its adapter_config.json ({error})", fix="check peft's version"
        ) from error
    if config.is_prompt_learning:
        raise ModelError(
            f"{folder}: {config.peft_type} adds tokens to the input and leaves the layers as they are",
            fix="compare models tuned by LoRA, IA3 or another method that changes layers",
        )
    return config


def _backbone_tensors(folder: Path, backbone: PreTrainedModel) -> tuple[dict[str, Tensor], str]:
    """The adapter's tensors under the backbone's own names, and the prefix they were saved with."""
    stored = load_file(folder / "adapter_model.safetensors")
    paths = {name for name, _ in backbone.named_modules()} - {""}
    prefix = f"{backbone.base_model_prefix}."
    if not any(name.startswith(_OUTER + prefix) for name in stored):
        prefix = ""
    found = {}
    for name, tensor in stored.items():
        inner = name.removeprefix(_OUTER)
        if not inner.startswith(prefix):
            continue
        inner = inner.removeprefix(prefix)
        if any(inner.startswith(f"{path}.") for path in paths):
            found[_OUTER + inner] = tensor
    if not found:
        raise ModelError(
            f"{folder}: none of the adapter's {len(stored)} tensors belongs to {type(backbone).__name__}, for "
            f"example {next(iter(stored), 'none')}",
            fix="the adapter is for another base; name the one it was trained on: load_model(adapter, base=...)",
        )
    return found, prefix


def _for_backbone(config: PeftConfig, backbone: PreTrainedModel, prefix: str) -> PeftConfig:
    """The adapter's configuration without the head it was trained under."""
    config.task_type = None
    config.inference_mode = True
    for key in ("target_modules", "modules_to_save"):
        value = getattr(config, key, None)
        if isinstance(value, str) or not value:
            continue
        inner = {str(item).removeprefix(prefix) for item in value}
        paths = [name for name, _ in backbone.named_modules()]
        setattr(config, key, {i for i in inner if any(p == i or p.endswith(f".{i}") for p in paths)} or None)
    return config


def _grow_vocabulary(backbone: PreTrainedModel, tensors: dict[str, Tensor]) -> None:
    """Tokens that tuning added: the base gets rows for them (the adapter holds their values)."""
    embeddings = backbone.get_input_embeddings()
    path = next(name for name, module in backbone.named_modules() if module is embeddings)
    for name, tensor in tensors.items():
        whole = name.startswith(f"{_OUTER}{path}.") and name.endswith("weight") and "lora" not in name
        if whole and tensor.shape[0] > embeddings.num_embeddings:
            backbone.resize_token_embeddings(tensor.shape[0])


def _put(peft: Any, tensors: dict[str, Tensor], folder: Path, base: str | Path) -> None:
    wrong = f"the adapter is for another base than {base}"
    try:
        outcome = set_peft_model_state_dict(peft, tensors)
    except RuntimeError as error:
        detail = str(error).strip().splitlines()[-1].strip()
        raise ModelError(
            f"{folder}: {wrong}: {detail}", fix="load_model(adapter, base=the base it was trained on)"
        ) from error
    missing = [name for name in outcome.missing_keys if _is_adapters(name) and ".pooler." not in name]
    if missing or outcome.unexpected_keys:
        example = (missing or outcome.unexpected_keys)[0]
        raise ModelError(
            f"{folder}: {wrong}: {len(missing)} of its tensors are missing and {len(outcome.unexpected_keys)} too "
            f"many, for example {example}",
            fix="load_model(adapter, base=the base it was trained on)",
        )


def _is_adapters(name: str) -> bool:
    return any(mark in name for mark in ("lora_", "ia3_", "vera_", "hada_", "lokr_", "oft_", "modules_to_save."))
