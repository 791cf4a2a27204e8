"""A masked-language-model head of its own file, for encoders that come without one.

The standard head of BERT: dense, GELU, LayerNorm, scores by the input embeddings, and a bias. The
file has no embeddings (the head is tied to those of the encoder it was fitted on) and is small.
Heads that come with vestige are in the folder `heads`, each with a record of how it was fitted.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from vestige.corpus.types import Sentence
from vestige.digest import digest_chunks
from vestige.errors import AnalysisError, ModelError
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.files.identity import hash_tensors
from vestige.models.lm.language_model import Head, asked_states, check_head, cloze_inputs, head_of, kind_of
from vestige.models.tokens.align import Encoded
from vestige.models.tokens.masking import Cloze, mask_randomly, text_blocks
from vestige.progress import bar

SHIPPED = Path(str(files("vestige.models.lm") / "heads"))

HeadChoice = Literal["reference", "own", "tied"]
"""Whose head: the reference's as it is; the model's own; the reference's, its scores tied to the model's embeddings."""


class LMHead(nn.Module):
    """States (rows, width) to scores (rows, vocabulary)."""

    def __init__(self, embeddings: Tensor) -> None:
        super().__init__()
        vocabulary, width = embeddings.shape
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.register_buffer("embeddings", embeddings.detach(), persistent=False)

    def forward(self, states: Tensor) -> Tensor:
        hidden = self.norm(nn.functional.gelu(self.dense(states)))
        return nn.functional.linear(hidden, self.get_buffer("embeddings"), self.bias)

    def save(self, path: str | Path) -> None:
        """Write the weights in half precision; the embeddings stay with the encoder."""
        weights = {name: tensor.detach().half().contiguous() for name, tensor in self.state_dict().items()}
        save_file(weights, path, metadata={"vocabulary": str(len(self.bias))})

    @classmethod
    def load(cls, path: str | Path, embeddings: Tensor) -> "LMHead":
        """A saved head, tied to `embeddings` (vocabulary, width)."""
        try:
            with safe_open(path, "pt") as file:
                weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{path}: not a saved head ({error})", fix="name a file that LMHead.save wrote") from error
        made = cls(embeddings)
        expected = {name: tuple(tensor.shape) for name, tensor in made.state_dict().items()}
        found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        if found != expected:
            wrong = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))[0]
            raise ModelError(
                f"{path}: {wrong} is {found.get(wrong)}, the model needs {expected.get(wrong)}",
                fix="use the head that was fitted on this model",
            )
        made.load_state_dict(weights)
        return made.to(embeddings.device).eval().requires_grad_(False)


def choose_head(
    choice: HeadChoice, file: str | None, encoder: HuggingFaceEncoder, reference: HuggingFaceEncoder | None
) -> Head:
    """The head to put on an encoder, checked to fit; its own where there is no reference."""
    giver = encoder if reference is None or choice == "own" else reference
    mine = encoder.model.get_input_embeddings().weight
    head: Head
    path = head_path(file, giver)
    if path is not None:
        head = LMHead.load(path, mine if choice == "tied" else giver.model.get_input_embeddings().weight)
    else:
        head = head_of(giver, mine if choice == "tied" and giver is not encoder else None)
    check_head(head, encoder)
    return head


def head_path(file: str | None, encoder: HuggingFaceEncoder) -> Path | None:
    """The file of the head: the one named (a path, or a shipped head's name), or the one shipped for this encoder.

    None where the encoder brought a head of its own, or where there is none at all.
    """
    if file is not None:
        return SHIPPED / f"{file}.safetensors" if (SHIPPED / f"{file}.safetensors").exists() else Path(file)
    if encoder.head is not None:
        return None
    mine = embeddings_digest(encoder)
    records = {made: json.loads(made.read_text()) for made in SHIPPED.glob("*.json")}
    fitting = (made for made, record in records.items() if record["embeddings"] == mine)
    return next((made.with_suffix(".safetensors") for made in fitting), None)


def head_identity(file: str | None, encoder: HuggingFaceEncoder) -> str | None:
    """Hash of the head that `choose_head` takes from this encoder; None where it has none."""
    path = head_path(file, encoder)
    if path is not None:
        return digest_chunks([path.read_bytes()]) if path.exists() else None
    if encoder.head is None:
        return None
    backbone = {id(weight) for weight in encoder.head.base_model.state_dict(keep_vars=True).values()}
    own = encoder.head.state_dict(keep_vars=True)
    return digest_chunks(hash_tensors({name: weight for name, weight in own.items() if id(weight) not in backbone}))


def fitted_block(file: str | None, encoder: HuggingFaceEncoder) -> int | None:
    """Tokens of the texts on which the head was fitted that `choose_head` takes; None where no record says it."""
    path = head_path(file, encoder)
    record = None if path is None else path.with_suffix(".json")
    return json.loads(record.read_text())["recipe"]["block"] if record is not None and record.exists() else None


def embeddings_digest(encoder: HuggingFaceEncoder) -> str:
    """By what a shipped head knows the encoder it was fitted on."""
    return digest_chunks([encoder.model.get_input_embeddings().weight.detach().float().cpu().numpy().tobytes()])


@dataclass(frozen=True)
class HeadRecipe:
    """How a head is fitted."""

    steps: int = 1000
    batch: int = 16
    """Blocks a step."""
    block: int = 128
    rate: float = 0.15
    """Share of tokens that are masked."""
    learning_rate: float = 1e-3
    warmup: float = 0.05
    seed: int = 0


@dataclass(frozen=True)
class FittedHead:
    """A head, and what its loss was."""

    head: LMHead
    losses: list[float]
    """Nats per masked token, by step."""
    unigram: float
    """The same of always telling every token by how often it occurs in the text."""
    tokens: int
    """Tokens that went through the encoder."""


def fit_head(
    encoder: HuggingFaceEncoder, sentences: Sequence[Sentence], recipe: HeadRecipe | None = None
) -> FittedHead:
    """Train a masked-language-model head by Adam on an encoder whose weights do not move.

    The bias starts at the tokens' log-frequencies; the rate of learning rises over the first steps
    and then falls to zero along a line. Masks are drawn anew in every step.
    """
    recipe = recipe or HeadRecipe()
    if kind_of(encoder) != "masked" or encoder.tokenizer.mask_token_id is None:
        raise AnalysisError(f"{encoder.name} is no masked model", fix="fit heads on encoders with a mask token")
    embeddings = encoder.model.get_input_embeddings().weight
    if embeddings.shape[1] != encoder.widths[-1]:
        raise AnalysisError(
            f"{encoder.name} has embeddings {embeddings.shape[1]} wide and states {encoder.widths[-1]} wide, so scores "
            "cannot be tied to its embeddings",
            fix="fit heads on models whose embeddings are as wide as their states",
        )
    blocks = text_blocks(encoder, sentences, recipe.block)
    counts = np.bincount(_words(blocks), minlength=len(embeddings))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        head = LMHead(embeddings).to(encoder.device)
        nn.init.normal_(head.dense.weight, std=0.02)
    frequency = torch.tensor((counts + 0.1) / (counts + 0.1).sum())
    head.bias.data.copy_(frequency.log())
    optimiser = torch.optim.Adam(head.parameters(), lr=recipe.learning_rate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _slope(step, recipe))
    rng = np.random.default_rng(recipe.seed)
    losses, tokens = [], 0
    with bar(f"head of {encoder.name}", recipe.steps) as shown:
        for step in range(recipe.steps):
            chosen = [blocks[number] for number in rng.choice(len(blocks), min(recipe.batch, len(blocks)), False)]
            batch = list(
                mask_randomly(
                    chosen,
                    encoder.tokenizer.mask_token_id,
                    encoder.tokenizer.vocab_size,
                    recipe.rate,
                    int(rng.integers(2**31)),
                )
            )
            losses.append(_step(encoder, head, optimiser, batch))
            scheduler.step()
            tokens += sum(len(block.ids) for block in chosen)
            shown.advance(description=f"head of {encoder.name}, step {step + 1}, loss {losses[-1]:.2f}")
    present = counts[counts > 0] / counts.sum()
    return FittedHead(head.eval().requires_grad_(False), losses, float(-(present * np.log(present)).sum()), tokens)


def _words(blocks: Sequence[Encoded]) -> list[int]:
    """The tokens that may be asked for."""
    return [token for block in blocks for token, word in zip(block.ids, block.word_of, strict=True) if word >= 0]


def _step(encoder: HuggingFaceEncoder, head: LMHead, optimiser: torch.optim.Optimizer, batch: list[Cloze]) -> float:
    with torch.no_grad():
        states = encoder.model(**cloze_inputs(encoder, batch, "masked")).last_hidden_state
        asked = asked_states(states, batch, "masked")
    gold = torch.tensor([answer for cloze in batch for answer in cloze.answers], device=asked.device)
    loss = nn.functional.cross_entropy(head(asked), gold)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return float(loss.detach())


def _slope(step: int, recipe: HeadRecipe) -> float:
    rise = max(1, round(recipe.warmup * recipe.steps))
    return min(1.0, (step + 1) / rise) * max(0.0, (recipe.steps - step) / recipe.steps)
