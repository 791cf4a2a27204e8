"""The training loop: steps, epochs, checkpoints, and a state from which a killed run goes on bit for bit.

What happens in a step depends on the seed and the number of the step alone: the order of an epoch
is drawn from (seed, epoch), dropout from (seed, step). So weights, optimiser and the log so far
are all a run needs to go on.
"""

import io
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vestige.cache import read_checked, remove, whole, write_checked
from vestige.errors import ModelError
from vestige.finetune.examples import Example, batches, out_of_memory
from vestige.finetune.model import Tunable
from vestige.finetune.recipe import Recipe
from vestige.finetune.workplace import STATE
from vestige.progress import Bar, bar


@dataclass
class Progress:
    """How far a run is; goes into its log when it ends."""

    step: int = 0
    epoch: int = 0
    """Epochs that are done."""
    losses: list[float] = field(default_factory=list)
    """By step."""
    curve: list[dict[str, Any]] = field(default_factory=list)
    """By epoch, 0 being the model before training."""
    checkpoints: list[dict[str, int]] = field(default_factory=list)
    best: int = 0
    """The epoch whose dev score is the best so far."""


class Run:
    """One training run in a folder that keeps its checkpoints and, while it lasts, its state."""

    def __init__(
        self,
        model: Tunable,
        examples: Sequence[Example],
        recipe: Recipe,
        *,
        seed: int,
        folder: Path,
        score: Callable[[], dict[str, float]],
        save: Callable[[Path], None],
        watched: str,
        state_seconds: float,
    ) -> None:
        self.model, self.examples, self.recipe = model, examples, recipe
        self.seed, self.folder, self.score, self.save, self.watched = seed, folder, score, save, watched
        self.state_seconds = state_seconds
        self.accelerator = _accelerator(model.encoder.device, recipe)
        model.encoder.device = self.accelerator.device
        self.optimiser = optimiser(model, recipe)
        self.module, self.stepper = self.accelerator.prepare(model, self.optimiser)
        self.per_epoch = -(-len(examples) // recipe.batch)
        self.steps = recipe.epochs * self.per_epoch
        self.progress = Progress()
        self.best_weights: dict[str, Any] | None = None
        self._saved = time.monotonic()
        self._unchecked: list[torch.Tensor] = []

    def train(self, what: str) -> Progress:
        """Train to the end, from the state in the folder if there is one."""
        self._resume()
        progress = self.progress
        if not progress.curve:
            progress.curve.append({"epoch": 0, **self.score()})
        with bar(f"fine-tuning on {what}", self.steps) as shown:
            shown.advance(progress.step)
            while progress.epoch < self.recipe.epochs and not self._stopped():
                self._epoch(shown, what)
        if self.best_weights is not None:
            self.model.load_state_dict(self.best_weights)
        self.accelerator.unwrap_model(self.module, keep_fp32_wrapper=False)
        self.model.eval()
        return progress

    def _epoch(self, shown: Bar, what: str) -> None:
        progress, recipe = self.progress, self.recipe
        number = progress.epoch + 1
        rng = np.random.default_rng([self.seed, len(self.examples), number])
        order = list(batches([len(e.encoded.ids) for e in self.examples], recipe.batch, rng))
        done = progress.step - progress.epoch * self.per_epoch
        self.model.train()
        for which in order[done:]:
            self._unchecked.append(self._step([self.examples[i] for i in which]))
            progress.step += 1
            if len(self._unchecked) >= (1 if self.model.encoder.device.type == "cpu" else 16):
                self._check()
            recent_loss = f", loss {progress.losses[-1]:.3f}" if progress.losses else ""
            shown.advance(description=f"fine-tuning on {what}{recent_loss}")
            if recipe.save_steps and progress.step % recipe.save_steps == 0:
                self._checkpoint()
            self._keep_state()
        self._check_weights()
        sizes = [sum(self.examples[i].units for i in which) for which in order]
        recent = progress.losses[-len(order) :]
        loss = sum(a * b for a, b in zip(recent, sizes, strict=True)) / sum(sizes)
        progress.epoch = number
        progress.curve.append({"epoch": number, "loss": loss, **self.score()})
        self._watch()
        if recipe.save_epochs:
            self._checkpoint()
        self._keep_state()

    def _step(self, batch: list[Example]) -> torch.Tensor:
        """One step of the optimiser; the batch's mean loss."""
        accelerator, recipe = self.accelerator, self.recipe
        index, count = accelerator.process_index, accelerator.num_processes
        seeds = np.random.SeedSequence([self.seed, self.progress.step, index])
        torch.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))
        parts = _parts(batch[index::count] or batch[:1], recipe.accumulate)
        units = sum(example.units for example in batch)
        total = torch.zeros((), device=accelerator.device)
        with _explaining_memory(recipe, batch):
            for number, part in enumerate(parts):
                last = number == len(parts) - 1
                mine = sum(example.units for example in part) if batch[index::count] else 0
                with nullcontext() if last else accelerator.no_sync(self.module):
                    loss = self.module(*self.model.batch(part, training=True)) * (mine / units)
                    accelerator.backward(loss * count)
                total += loss.detach()
            if recipe.clip:
                accelerator.clip_grad_norm_(self.module.parameters(), recipe.clip)
            for group in self.optimiser.param_groups:
                group["lr"] = recipe.rate * factor(self.progress.step, self.steps, recipe)
            self.stepper.step()
            self.stepper.zero_grad()
        return accelerator.reduce(total) if count > 1 else total

    def _check(self) -> None:
        """No loss may be infinite or not a number; looked at together, so that a GPU is not kept waiting."""
        for value in torch.stack(self._unchecked).tolist() if self._unchecked else ():
            step = len(self.progress.losses) + 1
            if not math.isfinite(value):
                raise self._diverged(f"the loss of step {step} (epoch {self.progress.epoch + 1}) is {value}")
            self.progress.losses.append(value)
        self._unchecked = []

    def _check_weights(self) -> None:
        """What is kept must be of use: a finite loss can have a gradient that is not."""
        self._check()
        learning = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        finite = torch.stack([torch.isfinite(p).all() for p in learning.values()]).tolist() if learning else []
        for name, fine in zip(learning, finite, strict=True):
            if not fine:
                raise self._diverged(f"{name} is not finite after step {self.progress.step}")

    def _diverged(self, how: str) -> ModelError:
        kept = self.progress.checkpoints
        place = self.folder / f"checkpoint-{kept[-1]['step']}" if kept else None
        remove(self.folder / STATE)
        return ModelError(
            f"fine-tuning diverged: {how}",
            fix="lower the rate, or raise the warm-up" + (f"; the last good checkpoint is {place}" if place else ""),
        )

    def _watch(self) -> None:
        """Remember the best epoch."""
        if self.recipe.early_stopping is None:
            return
        scores = [point.get(self.watched, -math.inf) for point in self.progress.curve]
        best = max(range(1, len(scores)), key=lambda epoch: scores[epoch])
        if best == self.progress.epoch:
            self.progress.best = best
            self.best_weights = {name: t.detach().clone() for name, t in self.model.state_dict().items()}

    def _stopped(self) -> bool:
        patience = self.recipe.early_stopping
        return patience is not None and self.progress.epoch - self.progress.best >= patience

    def _checkpoint(self) -> None:
        self._check_weights()
        progress = self.progress
        if any(kept["step"] == progress.step for kept in progress.checkpoints):
            return
        progress.checkpoints.append({"step": progress.step, "epoch": progress.epoch})
        if self.accelerator.is_main_process:
            self.save(self.folder / f"checkpoint-{progress.step}")

    def _keep_state(self) -> None:
        if time.monotonic() - self._saved < self.state_seconds:
            return
        self._check_weights()
        state = {
            "progress": vars(self.progress),
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "best": self.best_weights,
            "scaler": None if self.accelerator.scaler is None else self.accelerator.scaler.state_dict(),
        }
        if self.accelerator.is_main_process:
            content = io.BytesIO()
            torch.save(state, content)
            write_checked(self.folder / STATE, content.getvalue())
        self._saved = time.monotonic()

    def _resume(self) -> None:
        content = read_checked(self.folder / STATE)
        if content is None:
            return
        state = torch.load(io.BytesIO(content), map_location=self.model.encoder.device, weights_only=True)
        progress = Progress(**state["progress"])
        if not all(whole(self.folder / f"checkpoint-{kept['step']}") for kept in progress.checkpoints):
            return  # every checkpoint is written again on the way
        self.progress = progress
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.best_weights = state["best"]
        if state["scaler"] is not None:
            self.accelerator.scaler.load_state_dict(state["scaler"])


def optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW over what learns: frozen parameters stay out of it, or weight decay would move them."""
    learning = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    spared = [p.ndim <= 1 or name.endswith("bias") for name, p in learning]
    groups = [
        {
            "params": [p for (_, p), left in zip(learning, spared, strict=True) if not left],
            "weight_decay": recipe.decay,
        },
        {"params": [p for (_, p), left in zip(learning, spared, strict=True) if left], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=recipe.rate, betas=recipe.betas, eps=recipe.epsilon, fused=True)


def factor(step: int, steps: int, recipe: Recipe) -> float:
    """By what the rate is multiplied in a step, counted from 0."""
    warmup = max(1, round(recipe.warmup * steps)) if recipe.warmup else 0
    if step < warmup:
        return (step + 1) / warmup
    return 1.0 if recipe.schedule == "constant" else (steps - step) / max(1, steps - warmup)


def _parts(batch: list[Example], count: int) -> list[list[Example]]:
    """The batch in so many parts, of similar lengths each."""
    if count == 1:
        return [batch]
    ordered = sorted(batch, key=lambda example: len(example.encoded.ids))
    size = -(-len(ordered) // count)
    return [ordered[at : at + size] for at in range(0, len(ordered), size)]


def _accelerator(device: torch.device, recipe: Recipe) -> Any:
    """Of the device the model is on; several processes where `accelerate launch` or torchrun started them."""
    from accelerate import Accelerator, DistributedDataParallelKwargs
    from accelerate.state import AcceleratorState, GradientState
    from accelerate.utils import patch_environment

    AcceleratorState._reset_state(reset_partial_state=not torch.distributed.is_initialized())
    GradientState._reset_state()
    precision = "no" if recipe.precision == "float32" else recipe.precision
    unused = DistributedDataParallelKwargs(find_unused_parameters=True)
    alone = "LOCAL_RANK" not in os.environ
    try:
        with patch_environment(**({"ACCELERATE_TORCH_DEVICE": str(device)} if alone else {})):
            return Accelerator(mixed_precision=precision, cpu=device.type == "cpu", kwargs_handlers=[unused])
    except ValueError as error:
        raise ModelError(
            f"precision {recipe.precision} is not to be had on {device} ({error})", fix="use float32 or bf16"
        ) from error


@contextmanager
def _explaining_memory(recipe: Recipe, batch: Sequence[Example]) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        longest = max(len(example.encoded.ids) for example in batch)
        raise ModelError(
            f"out of memory in a batch of {len(batch)} inputs of up to {longest} tokens",
            fix=f"raise accumulate (now {recipe.accumulate}; the result stays the same), or lower max_tokens (now "
            f"{recipe.max_tokens}) or batch (now {recipe.batch})",
        ) from error
