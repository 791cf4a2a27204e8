"""Variational code: the cost of a probe's weights plus that of the labels given them.

Voita & Titov 2020 use Bayesian compression (Louizos, Ullrich & Welling 2017): every weight is
Gaussian with prior N(0, 1), and every input unit is multiplied by a Gaussian z whose prior, the
scale-free 1/|z|, makes it cheap to switch units off. The code is

    KL(z) + KL(w) + sum_i -ln p(y_i | x_i, weights at their posterior means).

All layers are trained together by Adam on noisy passes; activations are drawn instead of weights.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np
import torch
from torch import Tensor

from vestige.probes.problem import BLOCK, Features
from vestige.representations.store import row_blocks

K1, K2, K3 = 0.63576, 1.87320, 1.48695
"""Of the approximation to KL(z) by Molchanov, Ashukha & Vetrov 2017."""

EPSILON = 1e-8


@dataclass(frozen=True)
class VariationalRecipe:
    """Shape and training of the probe whose weights are sent."""

    hidden: tuple[int, ...] = (64,)
    """Units of the hidden layers; the authors have (1000, 1000)."""
    rate: float = 1e-3
    variance_rate: float = 1e-2
    """Of the logarithms of variances, which have far to go from -9: at the rate of the means, as the authors have it, a
    small corpus is long done before the probe has got as cheap as it can be."""
    batch: int = 256
    epochs: int = 200
    least_steps: int = 10_000
    """Where the epochs have fewer, there are more of them."""

    def epochs_of(self, steps: int) -> int:
        """How often data is read that takes so many steps."""
        return max(self.epochs, ceil(self.least_steps / steps))

    def adam(self, means: list[Tensor], log_variances: list[Tensor]) -> torch.optim.Adam:
        """What trains them."""
        quick = {"params": log_variances, "lr": self.variance_rate}
        return torch.optim.Adam([{"params": means}, quick], lr=self.rate, fused=True)


def kl_gaussian(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Elementwise KL(N(mean, variance) || N(0, 1)), in nats."""
    return 0.5 * (log_variance.exp() + mean.square() - 1 - log_variance)


def kl_scale(log_alpha: Tensor) -> Tensor:
    """Elementwise KL of N(z, alpha z^2) from the prior 1/|z|, in nats, with its constant such that it ends at 0."""
    return K1 - K1 * torch.sigmoid(K2 + K3 * log_alpha) + 0.5 * torch.nn.functional.softplus(-log_alpha)


class BayesianLinear:
    """One layer of the probes on L layers of a model, all at once."""

    def __init__(self, layers: int, inputs: int, outputs: int, generator: torch.Generator) -> None:
        def normal(shape: tuple[int, ...], mean: float, spread: float) -> Tensor:
            return torch.empty(layers, *shape).normal_(mean, spread, generator=generator).requires_grad_()

        self.z_mean, self.z_log_variance = normal((1, inputs), 1.0, 0.01), normal((1, inputs), -9.0, 0.01)
        self.mean = normal((inputs, outputs), 0.0, inputs**-0.5)
        self.log_variance = normal((inputs, outputs), -9.0, 0.01)
        self.bias = torch.zeros(layers, 1, outputs, requires_grad=True)
        self.bias_log_variance = normal((1, outputs), -9.0, 0.01)

    @property
    def means(self) -> list[Tensor]:
        return [self.z_mean, self.mean, self.bias]

    @property
    def log_variances(self) -> list[Tensor]:
        return [self.z_log_variance, self.log_variance, self.bias_log_variance]

    def noisy(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Outputs for rows (layers, rows, inputs), each with a draw of the weights of its own."""
        drawn = torch.empty(rows.shape).normal_(generator=generator)
        scaled = rows * (self.z_mean + drawn * (0.5 * self.z_log_variance).exp())
        mean = torch.baddbmm(self.bias, scaled, self.mean)
        variance = torch.baddbmm(self.bias_log_variance.exp(), scaled.square(), self.log_variance.exp())
        return mean + (variance + EPSILON).sqrt() * torch.empty(mean.shape).normal_(generator=generator)

    def drawn(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Outputs for rows that share one draw of the weights: those of one example, such as a span's words."""

        def draw(mean: Tensor, log_variance: Tensor) -> Tensor:
            noise = torch.empty(mean.shape).normal_(generator=generator)
            return mean + noise * (0.5 * log_variance).exp()

        scaled = rows * draw(self.z_mean, self.z_log_variance)
        return torch.baddbmm(draw(self.bias, self.bias_log_variance), scaled, draw(self.mean, self.log_variance))

    def mean_output(self, rows: Tensor) -> Tensor:
        """With everything at its posterior mean."""
        return torch.baddbmm(self.bias, rows * self.z_mean, self.mean)

    def kl(self) -> Tensor:
        """(layers,), in nats."""
        log_alpha = self.z_log_variance - (self.z_mean.square() + EPSILON).log()
        parts = (
            kl_scale(log_alpha),
            kl_gaussian(self.mean, self.log_variance),
            kl_gaussian(self.bias, self.bias_log_variance),
        )
        return torch.stack([part.flatten(1).sum(1) for part in parts]).sum(0)


@dataclass(frozen=True)
class VariationalFit:
    """What the code costs on every layer, and the probes."""

    kl: np.ndarray
    """(layers,): nats for the weights."""
    data: np.ndarray
    """(layers,): nats for the labels, given the weights' posterior means."""
    falling: np.ndarray
    """(layers,): share of its length by which the code fell in the last tenth of the epochs."""
    network: Sequence[BayesianLinear]

    def log_probabilities(self, layers: Sequence[Features]) -> Tensor:
        """(layers, rows, classes)."""
        with torch.no_grad():
            found = [_forward(self.network, rows).log_softmax(-1) for _, rows in _blocks(layers)]
        return torch.cat(found, dim=1)


def train_variational(
    layers: Sequence[Features],
    labels: Tensor,
    classes: int,
    recipe: VariationalRecipe,
    seed: int = 0,
    tick: Callable[[], None] = lambda: None,
) -> VariationalFit:
    """Train probes on all layers for a fixed number of epochs; labels (rows,)."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [layers[0].width, *recipe.hidden, classes]
    network = [BayesianLinear(len(layers), a, b, generator) for a, b in pairwise(sizes)]
    adam = recipe.adam([p for part in network for p in part.means], [p for part in network for p in part.log_variances])
    rows = len(labels)
    order = np.random.default_rng([seed, rows])
    epochs = recipe.epochs_of(ceil(rows / recipe.batch))
    late = 0.0
    for epoch in range(epochs):
        if epoch == late_epoch(epochs):
            late = _length(network, layers, labels).sum(0)
        shuffled = order.permutation(rows)
        for start in range(0, rows, recipe.batch):
            which = np.sort(shuffled[start : start + recipe.batch])
            batch = torch.stack([features.rows(which) for features in layers])
            logits = _forward(network, batch, generator)
            loss = _cost(logits, labels[which]).sum() + _kl(network).sum() * (len(which) / rows)
            adam.zero_grad()
            (loss / len(which)).backward()
            adam.step()
        tick()
    kl, data = _length(network, layers, labels)
    return VariationalFit(kl, data, late / (kl + data) - 1, network)


def late_epoch(epochs: int) -> int:
    """The epoch that begins the last tenth."""
    return epochs - ceil(epochs / 10)


def _length(network: Sequence[BayesianLinear], layers: Sequence[Features], labels: Tensor) -> np.ndarray:
    """(2, layers): nats of the weights and of the labels."""
    with torch.no_grad():
        data = torch.zeros(len(layers), dtype=torch.float64)
        for span, batch in _blocks(layers):
            data += _cost(_forward(network, batch), labels[span]).double()
        return np.stack([_kl(network).double().numpy(), data.numpy()])


def _forward(network: Sequence[BayesianLinear], rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Logits (layers, rows, classes), drawn, or without a generator at the posterior means."""
    for depth, part in enumerate(network):
        rows = rows.relu() if depth else rows
        rows = part.mean_output(rows) if generator is None else part.noisy(rows, generator)
    return rows


def _kl(network: Sequence[BayesianLinear]) -> Tensor:
    return torch.stack([part.kl() for part in network]).sum(0)


def _cost(logits: Tensor, labels: Tensor) -> Tensor:
    """(layers,): nats of the labels."""
    gold = labels.view(1, -1, 1).expand(len(logits), -1, -1)
    return -logits.log_softmax(-1).gather(-1, gold).sum((1, 2))


def _blocks(layers: Sequence[Features]) -> Iterator[tuple[slice, Tensor]]:
    """Rows of all layers, some at a time."""
    for span in row_blocks(len(layers[0]), BLOCK):
        yield span, torch.stack([features.rows(span) for features in layers])
