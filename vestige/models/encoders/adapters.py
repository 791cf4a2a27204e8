"""PEFT adapters (LoRA and kin): base and tuned model from one load.

The adapter's weights are put onto the base's backbone; switched off, the very same object is the
base. An adapter trained under a task head names its modules as the head's model does and carries
the head with it: the backbone is put where that model had it, and the head left out.
"""

import json
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig, get_peft_model, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from vestige.digest import digest_chunks
from vestige.errors import ModelError
from vestige.files import check_file
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.encoders.reading import Reading
from vestige.models.files.adapter_patterns import check_patterns
from vestige.models.files.identity import hash_tensors

_OUTER = "base_model.model."


class AdapterEncoder(HuggingFaceEncoder):
    """A backbone with an adapter, read with it or, as `without_adapter()`, without it."""

    def __init__(
        self,
        peft: Any,
        backbone: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        name: str,
        device: str | torch.device | None,
        reading: Reading,
        active: bool = True,
    ) -> None:
        super().__init__(backbone, tokenizer, name, device, reading)
        self.peft, self.backbone, self.active = peft, backbone, active

    def without_adapter(self, name: str | None = None) -> "AdapterEncoder":
        """The base model, in the same memory."""
        name = name or f"{self.name} (base)"
        made = AdapterEncoder(self.peft, self.backbone, self.tokenizer, name, None, self.reading, active=False)
        made.alone = self.alone
        made.leaves_out_first = self.leaves_out_first
        return made

    def weights_digest(self) -> str:
        """With the adapter off, the hash of the plain base model: both share what the cache holds."""
        tensors = {}
        for name, tensor in self.model.state_dict().items():
            if _is_adapters(self.peft, name):
                if self.active:
                    tensors[name] = tensor
            else:
                tensors[name.replace(".base_layer.", ".").replace(".original_module.", ".")] = tensor
        settings = [_settings(self.peft.peft_config["default"])] if self.active else []
        return digest_chunks(chain(hash_tensors(tensors), settings))

    @property
    def in_threads(self) -> bool:
        """Not where the adapter is switched off for the time of a pass."""
        return self.active and super().in_threads

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
    from vestige.models.files.load import check_runs, find_tokenizer, load_backbone
    from vestige.models.files.sources import model_folder
    from vestige.models.files.weights import check_weight_files

    config = _config(folder)
    named = config.base_model_name_or_path
    base = base or named
    if not base:
        raise ModelError(f"{folder}: adapter_config.json names no base model", fix="load_model(adapter, base=...)")
    try:
        root = model_folder(base)
    except ModelError as error:
        raise ModelError(
            f"{folder}: the base of this adapter: {error.problem}", fix="load_model(adapter, base=...)"
        ) from error
    check_weight_files(root)
    backbone, _ = load_backbone(root, torch.float32, False, False, None, reading)
    stored = _stored(folder)
    trained = _as_trained(backbone, stored)
    tensors = _of_backbone(folder, stored, trained, type(backbone).__name__)
    with torch.random.fork_rng(devices=[]):
        embeddings, rows = _grow_vocabulary(backbone, trained, tensors)
        peft = _inject(trained, _without_head(config, trained), folder, base)
    _put(peft, _without_base(folder, tensors, peft, embeddings, rows), folder, base)
    if named and Path(str(named)).name != Path(str(base)).name:
        warnings.warn(f"{folder} was trained on {named!r} and is loaded onto {str(base)!r}", stacklevel=3)
    if tokenizer is None:
        tokenizer = folder if (folder / "tokenizer.json").exists() else root
    encoder = AdapterEncoder(peft, backbone, find_tokenizer(tokenizer), name, device, reading)
    check_runs(encoder)
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
    for name, kind in (("modules_to_save", list), ("rank_pattern", dict), ("alpha_pattern", dict)):
        if not isinstance(getattr(config, name, None) or kind(), kind):
            raise ModelError(
                f"{folder}: {name} in adapter_config.json is {getattr(config, name)!r:.80}",
                fix="save the adapter again",
            )
    if getattr(config, "megatron_config", None):
        raise ModelError(
            f"{folder}: adapter_config.json has a megatron_config, for which peft imports a module that it names",
            fix="remove megatron_config and megatron_core from it",
        )
    return config


def _stored(folder: Path) -> dict[str, Tensor]:
    check_file(folder / "adapter_model.safetensors", ModelError)
    try:
        return load_file(folder / "adapter_model.safetensors")
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{folder}/adapter_model.safetensors cannot be read ({error})", fix="copy the file again; it is not whole"
        ) from error


def _as_trained(backbone: PreTrainedModel, stored: Mapping[str, Tensor]) -> nn.Module:
    """The backbone in the place it had in training, so that the adapter's names and patterns of names hold."""
    prefix = backbone.base_model_prefix
    if not any(name.startswith(f"{_OUTER}{prefix}.") for name in stored):
        return backbone
    place = nn.Module()
    place.add_module(prefix, backbone)
    place.config = backbone.config
    return place


def _of_backbone(folder: Path, stored: Mapping[str, Tensor], trained: nn.Module, kind: str) -> dict[str, Tensor]:
    """The adapter's tensors without those of its head."""
    parts = tuple(f"{_OUTER}{name}." for name, _ in trained.named_children())
    found = {name: tensor for name, tensor in stored.items() if name.startswith(parts)}
    if not found:
        raise ModelError(
            f"{folder}: none of the adapter's {len(stored)} tensors belongs to {kind}, for example "
            f"{next(iter(stored), 'none')}",
            fix="the adapter is for another base; name the one it was trained on: load_model(adapter, base=...)",
        )
    return found


def _without_head(config: PeftConfig, trained: nn.Module) -> PeftConfig:
    """The adapter's configuration without the head it was trained under."""
    config.task_type = None
    config.inference_mode = True
    saved = getattr(config, "modules_to_save", None)
    if saved:
        paths = [f".{name}" for name, _ in trained.named_modules()]
        config.modules_to_save = [name for name in saved if any(path.endswith(f".{name}") for path in paths)] or None
    return config


def _grow_vocabulary(backbone: PreTrainedModel, trained: nn.Module, tensors: Mapping[str, Tensor]) -> tuple[str, int]:
    """Tokens that tuning added: the base gets rows for them, the mean of its own (the adapter holds their values).

    Gives what the names of the embeddings begin with, and the number of the base's own rows.
    """
    embeddings = backbone.get_input_embeddings()
    rows = embeddings.num_embeddings
    path = f"{_OUTER}{next(name for name, module in trained.named_modules() if module is embeddings)}."
    for name, tensor in tensors.items():
        whole = name.startswith(path) and name.endswith("weight") and "lora" not in name
        if whole and tensor.shape[0] > rows:
            backbone.resize_token_embeddings(tensor.shape[0], mean_resizing=False)
            grown = backbone.get_input_embeddings().weight.data
            grown[rows:] = grown[:rows].mean(0)
    return path, rows


def _inject(trained: nn.Module, config: PeftConfig, folder: Path, base: str | Path) -> Any:
    check_patterns(folder, vars(config), (name for name, _ in trained.named_modules()))
    config.base_model_name_or_path = trained.__dict__.get("name_or_path")  # else peft warns of what we check
    try:
        return get_peft_model(trained, config)
    except Exception as error:
        raise ModelError(
            f"{folder}: peft cannot put the adapter onto {base} ({error})",
            fix="load_model(adapter, base=the base it was trained on)",
        ) from error


def _without_base(
    folder: Path, tensors: Mapping[str, Tensor], peft: Any, embeddings: str, rows: int
) -> dict[str, Tensor]:
    """Where the base's embeddings were saved along with the adapter, what the base has stays; only new rows count."""
    own = peft.state_dict()
    found = {}
    for name, tensor in tensors.items():
        if ".original_module." in name or name.replace(".modules_to_save.", ".") in tensors.keys() - {name}:
            continue
        if name in own and not name.startswith(embeddings):
            raise ModelError(
                f"{folder}: the adapter changes {name.removeprefix(_OUTER)} of its base itself, so switching it off "
                "would not give the base",
                fix="merge it (merge_and_unload), save the result and load that, and the base by itself",
            )
        if name in own and tensor.shape == own[name].shape:
            tensor = torch.cat([own[name][:rows], tensor[rows:].to(own[name].dtype)])
        found[name] = tensor
    return found


def _put(peft: Any, tensors: dict[str, Tensor], folder: Path, base: str | Path) -> None:
    wrong = f"the adapter is for another base than {base}"
    try:
        outcome = set_peft_model_state_dict(peft, tensors)
    except RuntimeError as error:
        detail = str(error).strip().splitlines()[-1].strip()
        raise ModelError(
            f"{folder}: {wrong}: {detail}", fix="load_model(adapter, base=the base it was trained on)"
        ) from error
    missing = [name for name in outcome.missing_keys if _is_adapters(peft, name) and ".pooler." not in name]
    if missing or outcome.unexpected_keys:
        example = (missing or outcome.unexpected_keys)[0]
        raise ModelError(
            f"{folder}: {wrong}: {len(missing)} of its tensors are missing and {len(outcome.unexpected_keys)} too "
            f"many, for example {example}",
            fix="load_model(adapter, base=the base it was trained on)",
        )


def _is_adapters(peft: Any, name: str) -> bool:
    return any(mark in name for mark in (f".{peft.base_model.prefix}", ".modules_to_save."))


_BOOKKEEPING = ("base_model_name_or_path", "revision", "peft_version")


def _settings(config: PeftConfig) -> bytes:
    """What of an adapter's configuration shapes its numbers: the scale above all."""
    kept = {key: value for key, value in config.to_dict().items() if key not in _BOOKKEEPING}
    return json.dumps(kept, sort_keys=True, default=sorted).encode()
