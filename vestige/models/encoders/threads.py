"""May several threads run one model at once?

Two threads that run a batch each use two cores better than one batch that is spread over them, and its numbers do not
depend on how many there are. That needs a model that nothing is written into while it runs.
"""

from typing import Any

import torch

CHANGING_ROPE = ("dynamic", "longrope")
"""Rotary embeddings that are made anew by the longest sequence that was seen."""


def runs_in_threads(model: Any) -> bool:
    """A model of transformers itself, wholly on the CPU, without hooks and without state that its passes change."""
    own_code = type(model).__module__.startswith("transformers.")
    hooked = any(_hooked(module) for module in model.modules())
    on_cpu = all(weight.device == torch.device("cpu") for weight in model.parameters())
    switches = hasattr(model, "set_attention_type")  # BigBird rebuilds its attention where sentences are short
    return own_code and on_cpu and not hooked and not switches and not _changing_rope(model.config)


def _hooked(module: Any) -> bool:
    """By anybody but transformers, which collects hidden states thread by thread."""
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    return hasattr(module, "_hf_hook") or any(not _name(hook).startswith("transformers.") for hook in hooks)


def _name(hook: Any) -> str:
    return str(getattr(hook, "__module__", ""))


def _changing_rope(config: Any) -> bool:
    for given in (config, getattr(config, "text_config", None)):
        for name in ("rope_parameters", "rope_scaling"):
            rope = getattr(given, name, None) or {}
            if any(kind in str(rope) for kind in CHANGING_ROPE):
                return True
    return False
