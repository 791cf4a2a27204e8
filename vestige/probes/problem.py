"""What a solver is given and what it gives back."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.representations.store import row_blocks

BLOCK = 2048
"""Rows read from a (possibly memory-mapped) array at once."""

RESIDENT_BYTES = 1 << 30
"""A layer smaller than this is copied into memory before many passes over it."""


STILL = 1e-5
"""Rows whose spread is a smaller share of their size than this are all alike: what is left is rounding."""


OUTLIER = 30.0
"""A unit whose root mean square around its mean is more than so many times the median unit's is an outlier.

In MiniLM the largest is 4 times the median, in SmolLM2-135M 70 (layer 3), with its attention sink 450. One unit at
30 times the median doubles the size of a layer of 300 units, which no probe notices; units are the axes that a model
was trained on, and a rule that set in earlier would make probes of a layer and of its rotated copy differ."""

Scale = Literal["layer", "unit"]
"""One number for a layer, or one for each of its units."""


@dataclass(frozen=True)
class Features:
    """Rows of one layer, a common vector taken off and multiplied by one number (or one a unit) when read.

    The one number makes a probe indifferent to the scale of a layer: fine-tuning may blow a
    layer up or shrink it without changing what it tells.
    """

    array: np.ndarray
    """(rows, width), in memory or memory-mapped."""
    scale: float | np.ndarray = 1.0
    """Of all units, or (width,)."""
    centre: np.ndarray | None = None
    """(width,): what is taken off every row."""
    rotation: np.ndarray | None = None
    """(width, width): applied to what is left of a row."""

    def __len__(self) -> int:
        return self.array.shape[0]

    @property
    def width(self) -> int:
        return self.array.shape[1]

    def rows(self, which: slice | np.ndarray) -> Tensor:
        """Some rows, centred and scaled, as a float32 tensor."""
        block = self.array[which]
        same = isinstance(self.scale, float)
        plain = same and self.scale == 1.0 and self.centre is None and self.rotation is None
        if plain and block.dtype == np.float32 and block.flags.writeable:
            return torch.from_numpy(block)
        rows = torch.from_numpy(np.array(block)).float()  # torch converts float16 three times as fast as numpy
        if self.centre is not None:
            rows -= torch.from_numpy(self.centre)
        rows *= self.scale if same else torch.from_numpy(self.scale)
        return rows if self.rotation is None else rows @ torch.from_numpy(self.rotation)

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Tensor]]:
        """(slice, rows) over all rows, in order."""
        return ((span, self.rows(span)) for span in row_blocks(len(self), size))

    def scaled(self, scale: float | np.ndarray) -> "Features":
        """The same rows under another scale."""
        return replace(self, scale=scale)

    def rotated(self, rotation: np.ndarray) -> "Features":
        """The same rows on other axes (the columns of the rotation)."""
        return replace(self, rotation=rotation)

    def like(self, array: np.ndarray) -> "Features":
        """Other rows with the same centre, scale and axes."""
        return replace(self, array=array)

    def resident(self, budget: int = RESIDENT_BYTES) -> "Features":
        """The scaled rows copied into memory if they fit the budget, else as they are."""
        if self.array.size * 4 > budget:
            return self
        return Features(self.rows(slice(None)).numpy())


def root_mean_square(features: Features) -> float:
    """sqrt(mean of all squared values), accumulated in float64."""
    total = sum(float(rows.double().square().sum()) for _, rows in features.blocks())
    return float(np.sqrt(total / (len(features) * features.width)))


def unit_scale(features: Features, what: str) -> float:
    """The one number that brings the root mean square of a layer to 1."""
    size = root_mean_square(features)
    if not np.isfinite(size) or size == 0.0:
        raise AnalysisError(
            f"{what}: activations are {'all zero' if size == 0 else 'not finite'}",
            fix="check the model; no probe can be trained on this layer",
        )
    return 1.0 / size


def standard(array: np.ndarray, what: str, by: Scale = "layer") -> Features:
    """The rows around their mean, at root mean square 1.

    All rows of a layer may share a vector a thousand times as long as what tells them apart (the [CLS] of some
    encoders does). Biases are free of penalty, so taking it off leaves the problem as it is; but it must
    not set the scale against which weights are penalised.

    Nor must a few units. By `layer`, all units are multiplied by one number, after outliers (see OUTLIER) were shrunk
    to OUTLIER times the median unit: how much larger they are plays no role. A layer without outliers is
    multiplied by the one number alone. By `unit`, every unit is brought to root mean square 1.
    """
    features = Features(array)
    size = 1.0 / unit_scale(features, what)
    centre = _means(features).astype(np.float32)
    centred = Features(array, centre=centre)
    units = unit_sizes(centred)
    spread = float(np.sqrt(np.mean(units**2)))
    if spread <= STILL * size:
        return centred.scaled(1.0 / size)
    if by == "unit":
        alive = units > STILL * np.abs(centre)
        return centred.scaled((1.0 / np.where(alive, units, spread)).astype(np.float32))
    most = OUTLIER * _median(units)
    if units.max() <= most:
        return centred.scaled(1.0 / spread)
    shrunk = most / np.maximum(units, most)
    number = 1.0 / np.sqrt(np.mean((shrunk * units) ** 2))
    return centred.scaled((number * shrunk).astype(np.float32))


def outlier_units(units: np.ndarray) -> np.ndarray:
    """Which units (by their sizes around the mean) are outliers of their layer."""
    return units > OUTLIER * _median(units)


def unit_sizes(features: Features) -> np.ndarray:
    """(width,): root mean square of every unit, accumulated in float64."""
    total = sum(rows.double().square().sum(0).numpy() for _, rows in features.blocks())
    return np.sqrt(total / len(features))


def _median(units: np.ndarray) -> float:
    """The median of the units that differ at all from row to row."""
    return float(np.median(units[units > 0])) if units.any() else 0.0


def _means(features: Features) -> np.ndarray:
    return sum(rows.double().sum(0).numpy() for _, rows in features.blocks()) / len(features)


def check_labels(labels: Tensor, classes: int, rows: int) -> None:
    """Refuse labels (P, rows) that are not a class number per row; a class may have no example."""
    if labels.shape[-1] != rows or not rows:
        raise AnalysisError(f"{labels.shape[-1]} labels for {rows} training rows", fix="give one label per row")
    if labels.is_floating_point() or labels.min() < 0 or labels.max() >= classes:
        raise AnalysisError(
            f"labels are whole numbers from 0 to {classes - 1}, found {labels.dtype} from {labels.min().item()} to "
            f"{labels.max().item()}",
            fix="train on rows whose label is among the classes; only held-out rows may have the label -1",
        )


def log_shares(labels: Tensor, classes: int) -> Tensor:
    """(P, classes): the logarithm of every class' share, smoothed by half a row; labels (P, rows)."""
    check_labels(labels, classes, labels.shape[1])
    counts = torch.stack([torch.bincount(row, minlength=classes) for row in labels]).float()
    return ((counts + 0.5) / (labels.shape[1] + 0.5 * classes)).log()


@dataclass(frozen=True)
class Fit:
    """P probes trained on the same rows.

    weights (P, width + 1, classes), the last row of each being the biases; in the units of the
    features as read (that is, after scaling).
    """

    weights: Tensor
    objective: Tensor
    """(P,): mean cross-entropy plus penalties, in nats, over all training rows."""
    gap: Tensor
    """(P,): an upper bound on how far the objective is above its minimum; NaN where none is known."""
    passes: float
    """How often the training rows were read; reading a sample counts as its share of them."""

    def logits(self, rows: Tensor) -> Tensor:
        """(P, rows, classes)."""
        return torch.baddbmm(self.weights[:, -1:], rows.expand(len(self.weights), -1, -1), self.weights[:, :-1])


def log_probabilities(fit: Fit, features: Features) -> Tensor:
    """Log-probabilities of every class for every row, (P, rows, classes)."""
    return torch.cat([fit.logits(rows).log_softmax(-1) for _, rows in features.blocks()], dim=1)
