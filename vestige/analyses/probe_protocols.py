"""Protocols by which layers are probed, each from training to scores: one function a protocol."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vestige.analyses.probe_scores import Scores
from vestige.probes.linear.adam import AdamRecipe, solve_by_adam
from vestige.probes.linear.converged import converged_probe
from vestige.probes.linear.mlp import MlpRecipe, solve_mlp
from vestige.probes.linear.quasi_newton import principal_axes
from vestige.probes.linear.senteval import SEED, SentEvalRecipe, solve_senteval
from vestige.probes.problem import log_probabilities
from vestige.probes.rows import Frame


def fit_converged(scores: Scores, layer: int, *, l1: float, l2: float | None, tolerance: float) -> None:
    """A linear probe at its optimum, which has one answer; control tasks have the ridge of the task."""
    rows, labels = scores.rows, scores.rows.labels
    train, dev, held = (rows.features(split, layer) for split in ("train", "dev", scores.split))
    train, classes = train.resident(), len(rows.classes)
    axes = principal_axes(train)
    same: dict[str, Any] = {"l1": l1, "tolerance": tolerance, "axes": axes}
    best = converged_probe(train, labels["train"], dev, labels["dev"], classes, l2=l2, **same)
    scores.fitted(layer, best.fit, best.ridge)
    scores.task(layer, best.log_probabilities(held))
    scores.trained(layer, best.log_probabilities(train), best.log_probabilities(dev))
    if (controls := scores.controls) is not None:
        control = converged_probe(train, controls["train"], dev, controls["dev"], classes, l2=best.ridge, **same)
        scores.control(layer, control.log_probabilities(held))


def fit_by_adam(scores: Scores, group: range, seeds: int, recipe: AdamRecipe) -> None:
    """The papers' training, on rows as they are; and again, of the task alone, on standardised rows."""
    rows, controls, numbers = scores.rows, scores.controls, list(range(seeds))
    labels = same = rows.labels["train"].expand(seeds, -1)
    if controls is not None:
        labels = torch.cat([labels, controls["train"]])
    repeated = numbers * (len(labels) // seeds)
    fits = solve_by_adam(rows.layer_features("train", group, "raw"), labels, len(rows.classes), recipe, repeated)
    for layer, fit in zip(group, fits, strict=True):
        seen, dev, held = (
            log_probabilities(fit, rows.features(split, layer, "raw")) for split in ("train", "dev", scores.split)
        )
        scores.fitted(layer, replace(fit, gap=fit.gap[:1], objective=fit.objective[:1]), recipe.l2)
        scores.task(layer, held[:seeds])
        scores.trained(layer, seen[:seeds], dev[:seeds], converged=False)
        if controls is not None:
            scores.control(layer, held[seeds:])
    fits = solve_by_adam(rows.layer_features("train", group, "principal"), same, len(rows.classes), recipe, numbers)
    for layer, fit in zip(group, fits, strict=True):
        scores.standardised(layer, log_probabilities(fit, rows.features(scores.split, layer, "principal")))


def fit_mlp(scores: Scores, group: range, seeds: int, recipe: MlpRecipe, *, raw: bool) -> None:
    """Networks with a hidden layer, on standardised rows; `raw`: on rows as they are, and then standardised."""
    rows, controls = scores.rows, scores.controls

    def fit(labels: Tensor, dev_labels: Tensor, frame: Frame, watched: bool = False) -> Tensor:
        train, dev, held = (rows.layer_features(split, group, frame) for split in ("train", "dev", scores.split))
        train = train if frame == "raw" else [features.resident() for features in train]
        found = solve_mlp(train, labels, dev, dev_labels, len(rows.classes), recipe, range(seeds))
        if watched:
            seen = zip(*map(found.log_probabilities, (train, dev)), strict=True)
            for layer, (on_train, on_dev) in zip(group, seen, strict=True):
                scores.trained(layer, on_train, on_dev, converged=False)
        return found.log_probabilities(held)

    labels, dev_labels = (rows.labels[split].expand(seeds, -1) for split in ("train", "dev"))
    frame: Frame = "raw" if raw else "principal"
    for layer, log_p in zip(group, fit(labels, dev_labels, frame, watched=True), strict=True):
        scores.task(layer, log_p)
    if controls is not None:
        for layer, log_p in zip(group, fit(controls["train"], controls["dev"], frame), strict=True):
            scores.control(layer, log_p)
    if raw:
        for layer, log_p in zip(group, fit(labels, dev_labels, "principal"), strict=True):
            scores.standardised(layer, log_p)


def fit_senteval(scores: Scores, layer: int, seeds: int, recipe: SentEvalRecipe, order: np.ndarray) -> None:
    """SentEval's training, on rows as they are; and again, of the task alone, on standardised rows."""
    log_p = _senteval(scores, layer, seeds, recipe, order, "raw")
    scores.task(layer, log_p[:, 0])
    if scores.controls is not None:
        scores.control(layer, log_p[:, 1])
    scores.standardised(layer, _senteval(scores, layer, seeds, recipe, order, "principal")[:, 0])


def _senteval(
    scores: Scores, layer: int, seeds: int, recipe: SentEvalRecipe, order: np.ndarray, frame: Frame
) -> Tensor:
    """(seeds, 1 or 2, rows, classes): log-probabilities of the task and, on rows as they are, of the control task."""
    rows, raw = scores.rows, frame == "raw"
    controls = scores.controls if raw else None
    train, dev, held = (rows.features(split, layer, frame) for split in ("train", "dev", scores.split))
    train, found, seen = train.resident(), [], []
    for seed in range(seeds):
        labels, dev_labels = (
            torch.stack([rows.labels[split], *([] if controls is None else [controls[split][seed]])])
            for split in ("train", "dev")
        )
        fit = solve_senteval(train, labels, dev, dev_labels, len(rows.classes), recipe, SEED + seed, order)
        found.append(fit.log_probabilities(held))
        if raw:
            for metric in ("l2", "epochs", "dev_accuracy"):
                scores.outcome.add(metric, float(getattr(fit, metric)[0]), layer=layer, probe_seed=seed)
            seen.append([fit.log_probabilities(features)[0] for features in (train, dev)])
    if raw:
        on_train, on_dev = map(torch.stack, zip(*seen, strict=True))
        scores.trained(layer, on_train, on_dev, converged=False)
    return torch.stack(found)
