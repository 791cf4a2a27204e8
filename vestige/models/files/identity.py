"""What makes two models the same: hashes of weights, configuration and tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from vestige.digest import digest_chunks

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def weights_digest(model: torch.nn.Module) -> str:
    """Hash of every parameter and buffer, by name; the pooler shapes no layer and is left out."""
    return digest_chunks(hash_tensors(model.state_dict()))


def hash_tensors(tensors: Mapping[str, torch.Tensor]) -> Iterator[bytes]:
    """What a digest of named tensors is made of."""
    for name, tensor in sorted(tensors.items()):
        if not name.startswith("pooler."):
            yield f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode()
            yield tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()


def tokenizer_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """Hash of the tokenizer's rules and vocabulary."""
    return digest_chunks([tokenizer.backend_tokenizer.to_str().encode()])


_BOOKKEEPING = {
    "_name_or_path", "architectures", "transformers_version", "dtype", "torch_dtype", "id2label",
    "label2id", "problem_type", "finetuning_task", "task_specific_params",
}  # fmt: skip


def config_identity(config: Any) -> str:
    """The part of a configuration that shapes the backbone's numbers."""
    kept = {key: value for key, value in config.to_dict().items() if key not in _BOOKKEEPING}
    return json.dumps(kept, sort_keys=True, default=str)
