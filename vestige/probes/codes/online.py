"""Description length: how many bits a probe needs to send the labels to someone who has the vectors.

Voita & Titov 2020, used by merchant2020 (appendix B). Online code: the first block of labels goes
by the uniform code, every later one at the cost -log2 p that a probe trained on all blocks before
it gives to the true labels. A property that is easy to learn is cheap to send: accuracy and the
effort to reach it in one number. Nothing but the last block's end has seen all labels, so the code
is also a measure of how a probe does with few examples.

What trains a probe is the caller's: `online_code` only keeps the books.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vestige.digest import digest_json
from vestige.errors import AnalysisError

FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Ends of the blocks, as shares of the sentences."""

FEWEST = 10
"""Labels that the first probe is trained on at least."""

Compat = Literal["none", "voita2020"]


@dataclass(frozen=True)
class Blocks:
    """Where the blocks of labels end."""

    ends: tuple[int, ...]
    """Labels sent when each block has been sent; the last is all of them."""
    dropped: int
    """Fractions too small to train a probe on, joined with the next block."""


@dataclass(frozen=True)
class OnlineCode:
    """What P probes pay for every label."""

    blocks: Blocks
    uniform: float
    """Bits per label of the uniform code."""
    nats: np.ndarray
    """(P, labels): cost of every label after the first block."""
    untrained: np.ndarray
    """(P, blocks - 1): blocks sent by the uniform code because nothing could be learned from those before."""

    @property
    def uniform_bits(self) -> float:
        """Length of the uniform code of all labels."""
        return self.blocks.ends[-1] * self.uniform

    def label_bits(self, compat: Compat = "none") -> np.ndarray:
        """(P, labels), in the order in which they are sent.

        `voita2020` repeats a slip of the authors' notebooks, which add costs in nats to the bits
        of the first block; their published lengths are short of bits by a factor of up to ln 2.
        """
        first = np.full((len(self.nats), self.blocks.ends[0]), self.uniform)
        later = self.nats if compat == "voita2020" else self.nats / log(2)
        uniform = np.repeat(self.untrained, np.diff(self.blocks.ends), axis=1)
        return np.concatenate([first, np.where(uniform, self.uniform, later)], axis=1)

    def block_bits(self, compat: Compat = "none") -> np.ndarray:
        """(P, blocks)."""
        return np.add.reduceat(self.label_bits(compat), [0, *self.blocks.ends[:-1]], axis=1)

    def bits(self, compat: Compat = "none") -> np.ndarray:
        """(P,): length of the whole code."""
        return self.block_bits(compat).sum(1)

    def compression(self, compat: Compat = "none") -> np.ndarray:
        """(P,): how many times shorter than the uniform code."""
        return self.uniform_bits / self.bits(compat)


def cut_blocks(
    sizes: Sequence[int] | np.ndarray, classes: int, fractions: Sequence[float] = FRACTIONS, fewest: int = FEWEST
) -> Blocks:
    """Cut sentences, in the order they are sent, into blocks; `sizes` says how many labels each has.

    A fraction with fewer labels than `fewest` or than there are classes is dropped.
    """
    if not len(sizes) or not fractions or list(fractions) != sorted(set(fractions)) or fractions[-1] != 1:
        raise AnalysisError(
            f"blocks of {len(sizes)} sentences at fractions {tuple(fractions)}",
            fix="give sentences, and fractions that grow to 1",
        )
    sent = np.concatenate([[0], np.cumsum(sizes)])
    ends = [int(sent[int(fraction * len(sizes))]) for fraction in fractions]
    kept = sorted({end for end in ends[:-1] if max(fewest, classes) <= end < ends[-1]})
    return Blocks((*kept, ends[-1]), len(ends) - 1 - len(kept))


def sending_order(ids: Sequence[str], seed: int) -> np.ndarray:
    """Numbers of the sentences in the order in which they are sent: by a seeded hash of their ids.

    Models that read different sentences, as some are too long for one of them, send those that both read in
    the same order.
    """
    drawn = [digest_json([seed, name, "sent"]) for name in ids]
    return np.array(sorted(range(len(drawn)), key=drawn.__getitem__), dtype=np.intp)


def online_code(
    fit_and_nll: Callable[[int, int], np.ndarray], blocks: Blocks, uniform: float, probes: int = 1
) -> OnlineCode:
    """The code of P label sequences; `uniform` is the uniform code's bits per label.

    `fit_and_nll(known, end)` trains fresh probes on the first `known` labels and returns, for each,
    -ln p of the labels from there to `end`, (P, end - known); NaN for a probe that cannot be trained
    (one class so far), whose block then goes by the uniform code.
    """
    first = blocks.ends[0]
    nats = np.zeros((probes, blocks.ends[-1] - first))
    untrained = np.zeros((probes, len(blocks.ends) - 1), dtype=bool)
    for block, (known, end) in enumerate(zip(blocks.ends, blocks.ends[1:], strict=False)):
        costs = np.asarray(fit_and_nll(known, end), dtype=np.float64)
        untrained[:, block] = np.isnan(costs).any(1)
        nats[:, known - first : end - first] = np.where(untrained[:, [block]], uniform * log(2), costs)
    return OnlineCode(blocks, uniform, nats, untrained)


def class_nats(log_p: Tensor, gold: Tensor, known: int | None = None) -> Tensor:
    """(..., rows): cost of every label; log_p (..., rows, classes), gold (..., rows).

    With `known`, the number of labels the probe has seen, its prediction is mixed with one uniform
    guess in known + 1: a class that never occurred so far then costs no more than
    ln((known + 1) classes), and the code remains one that can be decoded.
    """
    mine = log_p.gather(-1, gold.unsqueeze(-1)).squeeze(-1).double()
    return _cost(mine, log_p.shape[-1], known)


def bernoulli_nats(logits: Tensor, gold: Tensor, known: int | None = None) -> Tensor:
    """(..., rows): cost of every row's set of labels, each a yes or no; both (..., rows, labels).

    `known` as for `class_nats`, each label being of two classes.
    """
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits.double(), gold.double(), reduction="none")
    return _cost(-loss, 2, known).sum(-1)


def _cost(log_p: Tensor, classes: int, known: int | None) -> Tensor:
    """Of labels that have these probabilities, mixed with a uniform guess if `known` is given."""
    if known is None:
        return -log_p
    guess = -log((known + 1) * classes)
    return -torch.logaddexp(log_p + log(known / (known + 1)), torch.full_like(log_p, guess))


class Ordered:
    """Rows of an array in another order, read when asked for; `Features` takes it for an array."""

    def __init__(self, array: np.ndarray, order: np.ndarray) -> None:
        self.array, self.order = array, order
        self.shape = (len(order), array.shape[1])
        self.size = self.shape[0] * self.shape[1]

    def __getitem__(self, which: slice | np.ndarray) -> np.ndarray:
        return self.array[self.order[which]]

    def part(self, start: int, end: int) -> "Ordered":
        """Some neighbouring rows, still unread."""
        return Ordered(self.array, self.order[start:end])
