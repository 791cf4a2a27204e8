"""Fine-tune a model on a sentence-classification task and keep it as an ordinary Hugging Face folder."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from vestige.cache import cache_folder, writing
from vestige.corpus.types import Task, words_digest
from vestige.digest import digest_json
from vestige.errors import ModelError
from vestige.finetune.recipe import Recipe
from vestige.models.align import Encoded, align, encode_words
from vestige.models.huggingface import HuggingFaceEncoder
from vestige.models.identity import tokenizer_digest, weights_digest
from vestige.models.load import load_tokenizer, quiet_transformers
from vestige.models.sources import model_folder
from vestige.models.weights import check_weight_files
from vestige.progress import bar

VERSION = 1
"""Raised when the same recipe would give other weights."""


@dataclass(frozen=True)
class Tuned:
    """A fine-tuned model on disk and how its training went."""

    folder: Path
    log: dict


def finetune(
    base: str | Path,
    task: Task,
    recipe: Recipe,
    *,
    seed: int = 0,
    device: str = "cpu",
    threads: int = 2,
    cache: Path | None = None,
) -> Tuned:
    """Fine-tune the model `base` (a name or folder) on a sentence-level task; cached by content."""
    if task.level != "sentence":
        raise ModelError(
            f"task {task.name!r} is at level {task.level!r}; only sentence classification can be trained",
            fix="choose a task at level 'sentence'",
        )
    folder = model_folder(base)
    check_weight_files(folder)
    torch.set_num_threads(threads)
    model, encoder = _with_fresh_head(folder, task, seed, device)
    data = [words_digest(task.corpus["train"]), task.digest(["train"])]
    start = weights_digest(model)
    tokens = tokenizer_digest(encoder.tokenizer)
    key = digest_json([VERSION, start, tokens, data, asdict(recipe), seed, threads, device])
    place = cache_folder(cache) / "models" / key
    if not place.exists():
        with writing(place) as temporary:
            log = _train(model, encoder, task, recipe, seed)
            with quiet_transformers():
                model.save_pretrained(temporary)
                load_tokenizer(folder).save_pretrained(temporary)
            card = {
                "base": str(base),
                "task": f"{task.corpus.name}/{task.name}",
                "recipe": asdict(recipe),
                "seed": seed,
            }
            (temporary / "finetune.json").write_text(json.dumps({**card, **log}, indent=1))
    return Tuned(place, json.loads((place / "finetune.json").read_text()))


def _with_fresh_head(folder: Path, task: Task, seed: int, device: str) -> tuple[PreTrainedModel, HuggingFaceEncoder]:
    """The model with a new classifier (for BERT: pooler and classifier), drawn from the seed."""
    labels = sorted(task.label_counts)
    if len(labels) < 2:
        raise ModelError(
            f"task {task.name!r} has only the label {labels[0]!r} in train", fix="two labels are needed to train"
        )
    names = dict(enumerate(labels))
    tokenizer = load_tokenizer(folder)
    torch.manual_seed(seed)
    with quiet_transformers():
        model = AutoModelForSequenceClassification.from_pretrained(
            folder,
            num_labels=len(labels),
            id2label=names,
            label2id={label: index for index, label in names.items()},
            dtype=torch.float32,
            use_safetensors=True,
        )
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id or tokenizer.eos_token_id
    pooler = getattr(model.base_model, "pooler", None)
    for module in pooler.modules() if isinstance(pooler, torch.nn.Module) else ():
        if isinstance(module, torch.nn.Linear):
            module.weight.data.normal_(0.0, model.config.initializer_range)
            module.bias.data.zero_()
    return model.to(device), HuggingFaceEncoder(model.base_model, tokenizer, str(folder), device)


def _train(model: PreTrainedModel, encoder: HuggingFaceEncoder, task: Task, recipe: Recipe, seed: int) -> dict:
    number = {label: index for index, label in enumerate(sorted(task.label_counts))}
    encoded = _encode(encoder, task, "train", recipe)
    labels = torch.tensor([number[label] for label in task.labels("train")])
    steps = recipe.epochs * -(-len(encoded) // recipe.batch)
    optimiser = _optimiser(model, recipe)
    warmup = max(1, round(recipe.warmup * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, (step + 1) / warmup))
    rng = np.random.default_rng([seed, len(encoded)])
    curve = [{"epoch": 0, **_score(model, encoder, task, number, recipe)}]
    with bar(f"fine-tuning on {task.corpus.name}/{task.name}", steps) as shown:
        for epoch in range(1, recipe.epochs + 1):
            model.train()
            total = 0.0
            for which in _batches([len(e.ids) for e in encoded], recipe.batch, rng):
                loss = _loss(model, encoder, [encoded[i] for i in which], labels[which])
                if not torch.isfinite(loss.detach()):
                    raise ModelError(
                        f"fine-tuning diverged: the loss of epoch {epoch} is {float(loss.detach())}",
                        fix="lower the learning rate",
                    )
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
                optimiser.step()
                schedule.step()
                total += float(loss.detach()) * len(which)
                shown.advance()
            curve.append({"epoch": epoch, "loss": total / len(encoded), **_score(model, encoder, task, number, recipe)})
    model.eval()
    return {"curve": curve, "steps": steps}


def _encode(encoder: HuggingFaceEncoder, task: Task, split: str, recipe: Recipe) -> list[Encoded]:
    limit = min(recipe.max_tokens, encoder.limit or recipe.max_tokens)
    return list(align(partial(encode_words, encoder.tokenizer), task.corpus[split], limit, "truncate"))


def _loss(model: PreTrainedModel, encoder: HuggingFaceEncoder, batch: Sequence[Encoded], labels: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(_logits(model, encoder, batch), labels.to(encoder.device))


def _logits(model: PreTrainedModel, encoder: HuggingFaceEncoder, batch: Sequence[Encoded]) -> Tensor:
    """Heads that read the last position (XLNet's) need the padding on the left."""
    last = getattr(model.config, "summary_type", "") == "last"
    return model(**encoder.inputs(batch, "left" if last else "right")).logits


@torch.inference_mode()
def _score(
    model: PreTrainedModel, encoder: HuggingFaceEncoder, task: Task, number: dict[str, int], recipe: Recipe
) -> dict[str, float]:
    """Accuracy on every held-out split there is; labels unseen in train count as wrong."""
    model.eval()
    scores = {}
    for split in ("dev", "test"):
        if split not in task.corpus.splits:
            continue
        encoded = _encode(encoder, task, split, recipe)
        gold = torch.tensor([number.get(label, -1) for label in task.labels(split)])
        predicted = torch.empty_like(gold)
        for which in _batches([len(e.ids) for e in encoded], 64, None):
            predicted[which] = _logits(model, encoder, [encoded[i] for i in which]).argmax(-1).cpu()
        scores[f"{split}_accuracy"] = float((predicted == gold).float().mean())
    return scores


def _optimiser(model: PreTrainedModel, recipe: Recipe) -> torch.optim.Optimizer:
    decayed = [p for p in model.parameters() if p.ndim > 1]
    spared = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": recipe.decay}, {"params": spared, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.rate, betas=recipe.betas, eps=recipe.epsilon, fused=True)


def _batches(lengths: Sequence[int], size: int, rng: np.random.Generator | None) -> Iterator[list[int]]:
    """Batches of similar lengths: shuffled, sorted within pools of sixteen batches, shuffled again."""
    order = np.arange(len(lengths)) if rng is None else rng.permutation(len(lengths))
    pool = 16 * size
    batches = []
    for start in range(0, len(order), pool):
        part = sorted(order[start : start + pool], key=lambda number: lengths[number])
        batches += [[int(i) for i in part[at : at + size]] for at in range(0, len(part), size)]
    for index in range(len(batches)) if rng is None else rng.permutation(len(batches)):
        yield batches[index]
