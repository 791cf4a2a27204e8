"""Probes of a base read from a tuned model: what a probe is given, and the maps in front of it.

A probe was trained on rows around the mean of its own model's training words and at unit scale (`standard`). Whatever
the base's probe reads is put into that frame of the base and into no other: also the tuned model's hidden states as
they are. A layer that was only moved or rescaled is then misread as it is, and read rightly after a map.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import Tensor

from vestige.measures.affine import Affine, AffineFitter
from vestige.probes.linear.converged import ConvergedProbe, chosen_ridge, converged_probe
from vestige.probes.problem import Features, standard
from vestige.probes.rows import LabelledRows

PENALTIES = (10.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Ridges of affine maps, in units of the mean variance of a unit, from strong to weak."""
GAIN = 0.001
"""A weaker one must gain this much accuracy on dev to be preferred (a tenth of a point)."""


@dataclass(frozen=True)
class Reader:
    """A probe and the frame in which it reads."""

    probe: ConvergedProbe
    frame: Features

    def right(self, array: np.ndarray, gold: Tensor) -> np.ndarray:
        """(rows,): which of the rows (rows, width) of hidden states get their label."""
        predicted = self.probe.log_probabilities(self.frame.like(array))[0].argmax(-1)
        return (predicted == gold).numpy()

    def accuracy(self, array: np.ndarray, gold: Tensor) -> float:
        """The share of them."""
        return float(self.right(array, gold).mean())


class Maps(NamedTuple):
    """From hidden states of the tuned model to those of the base."""

    rotated: Affine | None
    """Orthogonal Procrustes with a translation and one scale; None where widths differ."""
    affine: Affine


def layer_of(rows: LabelledRows, layer: int) -> dict[str, np.ndarray]:
    """The hidden states of a layer by split."""
    return {split: found.layer(layer) for split, found in rows.representations.items()}


def with_one_ridge(
    sides: tuple[LabelledRows, LabelledRows],
    layer: int,
    arrays: tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]],
    tolerance: float,
    l2: float | None,
) -> tuple[Reader, Reader]:
    """The converged probes of base and tuned model under one ridge.

    Without `l2` it is the geometric mean of what either would choose on dev. A ridge of its own for each would add a
    difference that no hidden state made; the base's for both would favour the base.
    """
    framed = []
    for rows, mine in zip(sides, arrays, strict=True):
        frame = standard(mine["train"], f"{rows.model}, layer {layer}", rows.scale)
        train, labels = frame.resident(), rows.labels
        given = (train, labels["train"], frame.like(mine["dev"]), labels["dev"], len(rows.classes))
        framed.append((frame.like(mine["train"][:0]), given))
    if l2 is None:
        chosen = [chosen_ridge(*given, tolerance=tolerance)[0] for _, given in framed]
        l2 = float(np.exp(np.mean(np.log(chosen))))
    ours, own = (Reader(converged_probe(*given, l2=l2, tolerance=tolerance), frame) for frame, given in framed)
    return ours, own


def fit_maps(
    tuned: Mapping[str, np.ndarray], base: Mapping[str, np.ndarray], reader: Reader, dev_labels: Tensor
) -> Maps:
    """Maps fitted on train; the ridge of the affine one is chosen by what the base's probe then reads on dev.

    The ridge pulls the affine map towards the Procrustes map, which is the first candidate, so that few words do not
    make it worse than that; where widths differ, towards no map at all. A weaker ridge must gain `GAIN` on dev.
    """
    fitter = AffineFitter(tuned["train"].shape[1], base["train"].shape[1])
    fitter.update_all(tuned["train"], base["train"])
    rotated = fitter.orthogonal() if tuned["train"].shape[1] == base["train"].shape[1] else None
    best, chosen = -1.0, rotated
    for tried in (*([] if rotated is None else [rotated]), *fitter.fits(PENALTIES, rotated)):
        accuracy = reader.accuracy(tried.of_array(tuned["dev"]), dev_labels)
        if chosen is None or accuracy >= best + GAIN:
            best, chosen = accuracy, tried
    assert chosen is not None
    return Maps(rotated, chosen)
