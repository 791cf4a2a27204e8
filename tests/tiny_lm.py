"""Tiny language models with their heads, and a little text to ask them about."""

import tiny
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from vestige.analyses.base import Inputs
from vestige.corpus.types import Corpus, Sentence, Task
from vestige.models.files.load import load_model

SENTENCES = tuple(Sentence(f"s{number}", tuple(text.split())) for number, text in enumerate(tiny.TEXT))

SHORT = tuple(Sentence(s.id, s.words[: 2 + number]) for number, s in enumerate(SENTENCES))
"""The beginnings of the same sentences, for tests that ask about one token at a time."""


def whole(family: str, seed: int = 0, layers: int = 3):
    """A random model with its language-model head, whose norms and biases are not the identity."""
    torch.manual_seed(seed)
    kind = AutoModelForCausalLM if family in (*tiny.DECODERS, "xlnet") else AutoModelForMaskedLM
    made = kind.from_config(tiny.config(family, layers)).eval()
    with torch.no_grad():
        for weight in made.parameters():
            if weight.ndim == 1:
                weight.add_(0.2 * torch.randn_like(weight))
    return made


def encoder(family: str, seed: int = 0, layers: int = 3):
    """The same as an Encoder."""
    return load_model(whole(family, seed, layers), tokenizer=tiny.tokenizer(family), head=True, name=f"{family} {seed}")


def task(sentences=SENTENCES) -> Task:
    return Task(Corpus("tiny", {"test": tuple(sentences)}, {}), "text", "text")


def inputs(model, reference=None, sentences=SENTENCES) -> Inputs:
    """What an analysis is given of a model and of the one it is compared with."""
    made = task(sentences)
    other = None if reference is None else Inputs(made, {}, reference.name, encoder=reference)
    return Inputs(made, {}, model.name, encoder=model, reference=other)
