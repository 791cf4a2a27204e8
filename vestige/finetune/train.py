"""Fine-tune a model on a task and keep it as an ordinary Hugging Face folder.

A folder holds weights, tokenizer and configuration as transformers writes them, checkpoint-<step>
folders of the same kind, the log (finetune.json), every held-out answer and a model card.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from vestige.cache import cache_folder, remove, whole, writing
from vestige.corpus.types import Task
from vestige.errors import ModelError
from vestige.finetune.card import model_card
from vestige.finetune.loop import Run
from vestige.finetune.model import Tunable, build
from vestige.finetune.naming import LOG, making_name
from vestige.finetune.problems import find_problem
from vestige.finetune.recipe import Lora, Recipe, load_recipe
from vestige.finetune.score import check_fit, score, values
from vestige.finetune.workplace import STATE, working
from vestige.models.encoders.reading import AS_IS
from vestige.models.files.load import check_device, load_backbone, load_tokenizer
from vestige.models.files.sources import MINILM, model_folder
from vestige.models.files.weights import check_weight_files
from vestige.models.surgery.blocks import keep as keep_only
from vestige.models.surgery.unroll import find_parts, unroll
from vestige.version import __version__


@dataclass(frozen=True)
class Tuned:
    """A fine-tuned model on disk and how its training went."""

    folder: Path
    log: dict = field(repr=False)


def finetune(
    base: str | Path,
    task: Task,
    recipe: Recipe | str,
    *,
    seed: int = 0,
    device: str = "cpu",
    threads: int = 2,
    cache: Path | None = None,
    keep: Sequence[int] | None = None,
    unrolled: bool | None = None,
    state_seconds: float = 300.0,
) -> Tuned:
    """Fine-tune the model `base` (a name or folder) on a task; cached by content.

    `recipe` is a Recipe or the name of one (`recipes()`). `keep` cuts the model to these blocks
    (counted from 0) first. `unrolled` gives every layer a block of its own where layers share one
    (ALBERT); by default that is done where some blocks are frozen or dropped. A run that was killed
    goes on where it was at most `state_seconds` before, with the same result to the bit. With
    `recipe.lora` the folder holds an adapter, or the merged model where the recipe says so.
    """
    recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
    problem = find_problem(task, recipe)
    _check(task, recipe, keep, threads, seed)
    check_device(device)
    for split in task.corpus.splits:
        if split != "train":
            check_fit(problem, task, split)
    folder = model_folder(base)
    check_weight_files(folder)
    key = making_name(
        base, task, recipe, seed=seed, device=device, threads=threads, keep=keep, unrolled=unrolled, problem=problem
    )
    place = cache_folder(cache) / "models" / key
    if whole(place):
        remove(place / STATE)
        return Tuned(place, json.loads((place / LOG).read_text()))
    torch.set_num_threads(threads)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a pooler that is not in the files is drawn
        backbone, _ = load_backbone(folder, torch.float32, False, False, None, AS_IS)
    parted = bool(recipe.freeze) or (keep is not None and list(keep) != list(range(len(keep))))
    unrolled = (parted if unrolled is None else unrolled) and find_parts(backbone).shared
    if unrolled:
        backbone = unroll(backbone)
    if keep is not None:
        backbone = keep_only(backbone, list(keep))
    tokenizer = load_tokenizer(folder)
    with torch.random.fork_rng(devices=_indices(device)), working(place) as temporary:
        model = build(backbone, tokenizer, problem, recipe, name=_name(base, folder), seed=seed, device=device)
        del backbone
        said = {
            "vestige": __version__,
            "base": str(base if str(base) == MINILM else _name(base, folder)),
            "task": f"{task.corpus.name}/{task.name}",
            "level": task.level,
            "kind": problem.kind,
            "problem": problem.describe(),
            "recipe": asdict(recipe),
            "seed": seed,
            "keep": None if keep is None else list(keep),
            "unrolled": unrolled,
            "adapter": isinstance(recipe.lora, Lora) and not recipe.lora.merge,
            "data": task.digests,
        }
        _train(model, task, recipe, seed, temporary, said, state_seconds)
    remove(place / STATE)
    return Tuned(place, json.loads((place / LOG).read_text()))


def _train(
    model: Tunable,
    task: Task,
    recipe: Recipe,
    seed: int,
    folder: Path,
    said: dict[str, Any],
    state_seconds: float,
) -> None:
    """Train the model and fill the folder."""
    problem = model.problem
    every, notes = problem.examples(model.encoder, task.corpus["train"], task.name, True)
    examples = [example for example in every if example.units]
    if len(examples) < len(every):
        notes = [*notes, f"{len(every) - len(examples)} examples of which the tokenizer makes nothing are left out"]
    if said["unrolled"]:
        notes = [*notes, "layers that share a block got one of their own each"]
    if not examples:
        raise ModelError(f"{said['task']}: no sentence of train can be trained on", fix="; ".join(notes))
    held = [split for split in ("dev", "test") if split in task.corpus.splits][:1]
    learning = sum(p.numel() for p in model.parameters() if p.requires_grad)
    sizes = {"parameters": sum(p.numel() for p in model.parameters()), "learning": learning}

    def save(place: Path) -> None:
        with writing(place) as temporary:
            model.save(temporary)
            model.encoder.tokenizer.save_pretrained(temporary)
            (temporary / LOG).write_text(json.dumps(said, indent=1, ensure_ascii=False))

    run = Run(
        model,
        examples,
        recipe,
        seed=seed,
        folder=folder,
        score=lambda: {key: value for split in held for key, value in values(model, task, split).items()},
        save=save,
        watched=f"dev_{problem.primary}",
        state_seconds=state_seconds,
    )
    progress = run.train(said["task"])
    found = {split: score(model, task, split) for split in task.corpus.splits if split != "train"}
    if not run.accelerator.is_main_process:
        return
    model.save(folder)
    model.encoder.tokenizer.save_pretrained(folder)
    if not recipe.early_stopping:
        _share(folder, folder / f"checkpoint-{progress.step}")
    for split, scores in found.items():
        scores.write(folder / f"answers-{split}.jsonl")
    log = {
        **said,
        **sizes,
        "examples": len(examples),
        "steps": progress.step,
        "epoch": progress.best or progress.epoch,
        "primary": problem.primary,
        "scores": {split: scores.summary() for split, scores in found.items()},
        "notes": [*(f"train: {note}" for note in notes), *(note for scores in found.values() for note in scores.notes)],
        "checkpoints": progress.checkpoints,
        "curve": progress.curve,
        "losses": progress.losses,
    }
    (folder / "README.md").write_text(model_card(log), encoding="utf-8")
    (folder / LOG).write_text(json.dumps(log, indent=1, ensure_ascii=False), encoding="utf-8")


def _check(task: Task, recipe: Recipe, keep: Sequence[int] | None, threads: int, seed: int) -> None:
    if threads < 1:
        raise ModelError(f"{threads} threads", fix="ask for at least 1")
    if seed < 0:
        raise ModelError(f"the seed is {seed}", fix="use 0 or more")
    if recipe.early_stopping is not None and "dev" not in task.corpus.splits:
        raise ModelError(
            f"early stopping needs a dev split; {task.corpus.name} has {', '.join(task.corpus.splits)}",
            fix="cut one from train with hold_out(), or drop early_stopping",
        )
    if keep is not None and isinstance(recipe.lora, Lora) and not recipe.lora.merge:
        raise ModelError(
            "an adapter on a model whose blocks were cut has no base on disk to be loaded onto",
            fix="lora: {merge: true}, or save the cut model and tune that",
        )


def _name(base: str | Path, folder: Path) -> str:
    """What an adapter calls its base: the hub's name, or the folder."""
    return str(folder.resolve()) if Path(base).is_dir() or str(base) == MINILM else str(base)


def _indices(device: str) -> list[int]:
    return [] if device == "cpu" else list(range(torch.cuda.device_count()))


def _share(folder: Path, last: Path) -> None:
    """The last checkpoint is the model itself: its weights need no second place on the disk."""
    for file in last.glob("*.safetensors") if last.is_dir() else ():
        linked = file.with_name(f".{file.name}.part")
        try:
            os.link(folder / file.name, linked)
        except OSError:
            return
        linked.replace(file)
