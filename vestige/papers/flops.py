"""Floating-point operations of a pass through a model, counted on its architecture without any weights.

The model is built from its configuration as tensors that have a shape and no values; PyTorch's counter adds up what
each of its products would take, forwards, and backwards through what is trained.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from vestige.files import load_json
from vestige.models.files.sources import model_folder


@lru_cache
def _published() -> Mapping[str, Mapping[str, Any]]:
    known = yaml.safe_load((files("vestige.papers") / "architectures.yaml").read_text(encoding="utf-8"))
    return {**known, **{name.partition("/")[2]: said for name, said in known.items()}}


def architecture(source: str) -> dict[str, Any]:
    """The configuration of a model: as published of those that the papers study, else as its folder has it."""
    known = _published().get(source)
    if known is not None:
        return dict(known)
    return dict(load_json((model_folder(source) / "config.json").read_bytes()))


def is_published(source: str) -> bool:
    """Whether a model is counted by what its authors published, whatever lies here."""
    return source in _published()


@lru_cache(maxsize=4096)
def _counted(source: str, tokens: int, training: bool, frozen: int | None, blocks: int | None) -> int:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoModel

    from vestige.models.surgery.anatomy import block_list

    config = _config(source, blocks)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = AutoModel.from_config(config)
        if frozen is not None:
            path = block_list(model, config.num_hidden_layers) or ""
            for name, parameter in model.named_parameters():
                number = name.removeprefix(f"{path}.").partition(".")[0] if name.startswith(f"{path}.") else ""
                above = number.isdigit() and int(number) >= frozen
                parameter.requires_grad_(above or "pooler" in name)
        with FlopCounterMode(display=False) as counter:
            states = model(input_ids=torch.zeros((1, tokens), dtype=torch.long)).last_hidden_state
            if training and states.requires_grad:
                states.sum().backward()
    return int(counter.get_total_flops())


def _config(source: str, blocks: int | None) -> Any:
    from transformers import AutoConfig

    said = architecture(source)
    kind = said.pop("model_type")
    config = AutoConfig.for_model(kind, **said)
    if blocks is not None:
        setattr(config, config.attribute_map.get("num_hidden_layers", "num_hidden_layers"), blocks)
    config._attn_implementation = "eager"
    return config


def forward(source: str, tokens: int) -> int:
    """Of one example of so many tokens."""
    return _counted(source, tokens, False, None, None)


def training(source: str, tokens: int, frozen: int | None = None, blocks: int | None = None) -> int:
    """Of one example, there and back; `frozen`: embeddings and so many blocks are not trained; `blocks` are kept."""
    return _counted(source, tokens, True, frozen, blocks)


def depth_of(source: str) -> int:
    """How many blocks a model has."""
    return int(_config(source, None).num_hidden_layers)
