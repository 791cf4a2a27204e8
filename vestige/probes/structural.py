"""Structural probes: a linear map under which squared distances are tree distances, or squared lengths depths.

Hewitt & Manning 2019: d(i, j) = |B(h_i - h_j)|^2 stands for the arcs between two words, |B h_i|^2
for those between a word and the root. The loss is the mean absolute error of a sentence's word
pairs (or words), averaged over sentences.

All layers are trained in one pass over the sentences. With z = B h, less that of the
sentence's first word, distances come from inner products, |z_i|^2 + |z_j|^2 - 2 z_i z_j, and the
gradient from the Laplacian of the signs: nothing of size words x words x rank is ever made. The
rows of a batch are multiplied by B without padding; only the inner products are padded, among
sentences of like length.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.probes.problem import Features

Kind = Literal["distance", "depth"]

EVALUATED_WORDS = 4096
"""Words of sentences that are read at once where no gradient is wanted."""

LIKE = 1.3
"""Sentences at most this much longer than the shortest of a group are padded together."""


@dataclass(frozen=True)
class StructuralRecipe:
    """Shape and training of a structural probe; the defaults are those of Hewitt & Manning's program."""

    rank: int | None = None
    """Rows of B; None: the width of the layer."""
    rate: float = 1e-3
    batch: int = 20
    max_epochs: int = 40
    patience: int = 5
    """A probe stops when its best epoch on dev is this old."""
    gain: float = 1e-4
    """A better epoch has a dev loss lower by more than this."""
    decay: float = 0.1
    """Factor on the rate after every epoch whose dev loss is no lower, by one part in 10,000, than the best."""
    reset_moments: bool = False
    """Forget Adam's moments when the rate falls: the paper's text does, its program does not."""


@dataclass(frozen=True)
class Sentences:
    """Vectors of whole sentences at every layer, and what their trees say.

    Sentence s has the rows `starts[s]` to `starts[s] + lengths[s]` of every layer.
    """

    layers: Sequence[Features]
    starts: np.ndarray
    lengths: np.ndarray
    gold: Sequence[np.ndarray]
    """Per sentence (words, words) distances or (words,) depths."""

    def __len__(self) -> int:
        return len(self.lengths)


class Batch(NamedTuple):
    """Some sentences' rows, one after the other, and the groups of like length among them."""

    rows: Tensor
    """(layers, words, width)."""
    groups: list["Group"]


class Group(NamedTuple):
    """Sentences of like length: where their words are, and their padded gold distances."""

    sentences: np.ndarray
    """Their numbers."""
    place: Tensor
    """(sentences, longest): row in the batch; one past the last row for padding."""
    lengths: Tensor
    gold: Tensor
    """(sentences, longest, longest); (sentences, longest) for depths."""
    inside: Tensor
    """(sentences, longest): 1 for words, 0 for padding."""


@dataclass(frozen=True)
class StructuralFit:
    """A map per (layer, seed), as they were at each one's best epoch on dev."""

    weights: Tensor
    """(layers, seeds, width, rank)."""
    dev_loss: np.ndarray
    """(layers, seeds)."""
    epochs: np.ndarray
    """(layers, seeds): how many epochs each was trained."""


def train_structural(
    kind: Kind,
    train: Sentences,
    dev: Sentences,
    recipe: StructuralRecipe,
    seeds: Sequence[int],
    tick: Callable[[], None] = lambda: None,
) -> StructuralFit:
    """A probe per layer and seed. A seed decides where probes start and in which order they read sentences."""
    width = train.layers[0].width
    rank = width if recipe.rank is None else recipe.rank
    if not 1 <= rank <= width:
        raise AnalysisError(f"a rank of {rank}, of vectors of width {width}", fix=f"take 1 to {width}")
    fits = [_train_seed(kind, train, dev, replace(recipe, rank=rank), seed, tick) for seed in seeds]
    weights, losses, epochs = zip(*fits, strict=True)
    return StructuralFit(torch.stack(weights, dim=1), np.stack(losses, axis=1), np.stack(epochs, axis=1))


def _train_seed(
    kind: Kind, train: Sentences, dev: Sentences, recipe: StructuralRecipe, seed: int, tick: Callable[[], None]
) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """The maps (layers, width, rank) of one seed, their losses on dev and epochs (layers,); all layers in one pass."""
    layers = len(train.layers)
    started = initial_maps(layers, train.layers[0].width, recipe.rank or 0, seed)
    maps = [torch.nn.Parameter(started[layer].clone(), requires_grad=False) for layer in range(layers)]
    schedule = _Schedule(maps, recipe)
    order = np.random.default_rng([seed, len(train)])
    best = [m.detach().clone() for m in maps]
    while schedule.active and schedule.epoch < recipe.max_epochs:
        active = list(schedule.active)
        mine = [maps[layer] for layer in active]
        shuffled = order.permutation(len(train))
        for start in range(0, len(train), recipe.batch):
            batch = read_batch(train, shuffled[start : start + recipe.batch], np.array(active))
            schedule.step(loss_and_gradients(kind, list(batch.rows), mine, batch)[1])
        loss = np.full(layers, np.nan)
        loss[active] = mean_loss(kind, dev, mine, active)
        if diverged := [layer for layer in active if not np.isfinite(loss[layer])]:
            raise AnalysisError(
                f"the {kind} probe of layer {diverged[0]} diverged: its loss on dev is not finite after epoch "
                f"{schedule.epoch + 1}",
                fix=f"lower the rate (now {recipe.rate:g}), or rescale the layers",
            )
        for layer in schedule.end_epoch(loss):
            best[layer].copy_(maps[layer])
        tick()
    return torch.stack(best), schedule.best, schedule.epochs


def initial_maps(layers: int, width: int, rank: int, seed: int) -> Tensor:
    """(layers, width, rank), uniform within 0.05."""
    generator = torch.Generator().manual_seed(seed)
    return torch.empty(layers, width, rank).uniform_(-0.05, 0.05, generator=generator)


class _Schedule:
    """Adam with a rate, a best epoch and an end of its own for every probe."""

    def __init__(self, maps: Sequence[torch.nn.Parameter], recipe: StructuralRecipe) -> None:
        self.maps, self.recipe = maps, recipe
        self.adam = torch.optim.Adam([{"params": [m]} for m in maps], lr=recipe.rate, fused=True)
        self.active = list(range(len(maps)))
        self.epoch = 0
        self.best = np.full(len(maps), np.inf)
        self.best_epoch = np.zeros(len(maps), dtype=int)
        self.plateau = np.full(len(maps), np.inf)
        self.epochs = np.zeros(len(maps), dtype=int)

    def step(self, gradients: Sequence[Tensor]) -> None:
        for probe, gradient in zip(self.active, gradients, strict=True):
            self.maps[probe].grad = gradient
        self.adam.step()
        self.adam.zero_grad()

    def end_epoch(self, loss: np.ndarray) -> list[int]:
        """Take the dev losses; the probes that are better than ever before."""
        self.epoch += 1
        better = []
        for probe in list(self.active):
            self.epochs[probe] = self.epoch
            if loss[probe] < self.best[probe] - self.recipe.gain:
                self.best[probe], self.best_epoch[probe] = loss[probe], self.epoch
                better.append(probe)
            elif self.epoch - self.best_epoch[probe] >= self.recipe.patience:
                self.active.remove(probe)
            if loss[probe] < self.plateau[probe] * (1 - 1e-4):
                self.plateau[probe] = loss[probe]
            else:
                self.adam.param_groups[probe]["lr"] *= self.recipe.decay
                if self.recipe.reset_moments:
                    self.adam.state.pop(self.maps[probe], None)
        return better


def read_batch(sentences: Sentences, which: np.ndarray, layers: np.ndarray | None = None) -> Batch:
    """The rows of some sentences at some layers (None: all), without padding, in groups of like length."""
    which = which[np.argsort(sentences.lengths[which], kind="stable")]
    lengths = sentences.lengths[which]
    numbers = np.concatenate(
        [np.arange(s, s + n) for s, n in zip(sentences.starts[which].tolist(), lengths.tolist(), strict=True)]
    )
    chosen = range(len(sentences.layers)) if layers is None else layers
    rows = torch.stack([sentences.layers[layer].rows(numbers) for layer in chosen])
    return Batch(rows, list(_groups(sentences, which, lengths)))


def _groups(sentences: Sentences, which: np.ndarray, lengths: np.ndarray) -> Iterator[Group]:
    """`which` in order of length, cut where sentences become longer than `LIKE` times a group's shortest."""
    firsts = np.concatenate([[0], np.cumsum(lengths)])
    start = 0
    while start < len(which):
        end = int(np.searchsorted(lengths, max(lengths[start] * LIKE, lengths[start] + 1), side="right"))
        longest = int(lengths[end - 1])
        count = end - start
        inside = np.arange(longest) < lengths[start:end, None]
        place = np.where(inside, firsts[start:end, None] + np.arange(longest), firsts[-1])
        gold = np.zeros((count, *[longest] * np.ndim(sentences.gold[which[start]])), dtype=np.float32)
        for row, sentence in enumerate(which[start:end].tolist()):
            mine = sentences.gold[sentence]
            gold[row][tuple([slice(len(mine))] * mine.ndim)] = mine
        yield Group(
            which[start:end],
            torch.from_numpy(place),
            torch.from_numpy(lengths[start:end]).float(),
            torch.from_numpy(gold),
            torch.from_numpy(inside).float(),
        )
        start = end


def loss_and_gradients(
    kind: Kind, rows: Sequence[Tensor], maps: Sequence[Tensor], batch: Batch
) -> tuple[Tensor, list[Tensor]]:
    """(probes,) the batch's mean loss, and its gradient by every probe's map; rows are each probe's own."""
    mapped = _mapped(rows, maps)
    sentences = sum(len(group.sentences) for group in batch.groups)
    slopes = torch.empty_like(mapped)
    loss = torch.zeros(len(maps))
    for group in batch.groups:
        z, predicted = _predict(kind, mapped, group)
        error = (predicted - group.gold).mul_(_pairs_inside(kind, group))
        share = (group.lengths.pow(-2 if kind == "distance" else -1) / sentences).view(1, -1, *[1] * (error.dim() - 2))
        loss += error.abs().mul_(share).flatten(1).sum(1)
        signs = error.sign_().mul_(share)
        slopes[:, group.place] = _slope(kind, z, signs)
    gradients = [mine.T @ slope for mine, slope in zip(rows, slopes[:, :-1], strict=True)]
    return loss, gradients


def _mapped(rows: Sequence[Tensor], maps: Sequence[Tensor]) -> Tensor:
    """(probes, words + 1, rank): the rows under every probe's map; the last one is zero, for padding."""
    found = torch.zeros(len(maps), len(rows[0]) + 1, maps[0].shape[1])
    for at, (mine, m) in enumerate(zip(rows, maps, strict=True)):
        torch.mm(mine, m, out=found[at, :-1])
    return found


def _predict(kind: Kind, mapped: Tensor, group: Group) -> tuple[Tensor, Tensor]:
    """z (probes, sentences, longest, rank) and the distances (or depths) it predicts."""
    z = mapped[:, group.place]
    if kind == "depth":
        return z, torch.linalg.vecdot(z, z)
    z = (z - z[:, :, :1]).mul_(group.inside.unsqueeze(-1))
    inner = z @ z.transpose(-1, -2)
    own = torch.diagonal(inner, dim1=-2, dim2=-1)
    predicted = (own.unsqueeze(-1) + own.unsqueeze(-2)).sub_(inner, alpha=2).clamp_(min=0.0)
    torch.diagonal(predicted, dim1=-2, dim2=-1).zero_()
    return z, predicted


def _pairs_inside(kind: Kind, group: Group) -> Tensor:
    return group.inside if kind == "depth" else group.inside.unsqueeze(-1) * group.inside.unsqueeze(-2)


def _slope(kind: Kind, z: Tensor, signs: Tensor) -> Tensor:
    """Of the loss by z; the signs carry each sentence's share of the loss."""
    if kind == "depth":
        return 2 * signs.unsqueeze(-1) * z
    return (signs.sum(-1, keepdim=True) * z).sub_(signs @ z).mul_(4)


def predictions(
    kind: Kind, sentences: Sentences, maps: Sequence[Tensor], layer_of: Sequence[int] | np.ndarray
) -> Iterator[tuple[Group, Tensor]]:
    """Groups of sentences with their predicted distances (probes, sentences, longest, longest), or depths."""
    order = np.argsort(sentences.lengths, kind="stable")
    cuts = np.flatnonzero(np.diff(np.cumsum(sentences.lengths[order]) // EVALUATED_WORDS)) + 1
    for which in np.split(order, cuts):
        batch = read_batch(sentences, which)
        mapped = _mapped([batch.rows[int(at)] for at in layer_of], maps)
        for group in batch.groups:
            yield group, _predict(kind, mapped, group)[1]


def mean_loss(
    kind: Kind, sentences: Sentences, maps: Sequence[Tensor], layer_of: Sequence[int] | np.ndarray
) -> np.ndarray:
    """(probes,): the mean over sentences of the loss."""
    total = np.zeros(len(maps))
    for group, predicted in predictions(kind, sentences, maps, layer_of):
        total += sentence_losses(kind, group, predicted).double().sum(1).numpy()
    return total / len(sentences)


def sentence_losses(kind: Kind, group: Group, predicted: Tensor) -> Tensor:
    """(probes, sentences)."""
    error = (predicted - group.gold).abs() * _pairs_inside(kind, group)
    return error.flatten(2).sum(-1) / group.lengths.pow(2 if kind == "distance" else 1)
