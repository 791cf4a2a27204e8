"""How widely attention is spread, and how far it moved: measures of distributions over tokens.

All take weights over the last axis and use natural logarithms. mosbach2020 (section 5.1) prints the
entropy without its minus sign and leaves the ground distance of its earth mover's distance open;
here it is the distance between positions unless a cost is given.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from vestige.measures.precision import in_float64

LN2 = math.log(2)


def over_keys(weights: Tensor, allowed: Tensor) -> Tensor:
    """The weights of allowed keys alone, summing to one again; NaN where none of them has any weight."""
    kept = torch.where(allowed, in_float64(weights), 0.0)
    return kept / kept.sum(-1, keepdim=True)


def entropy(weights: Tensor) -> Tensor:
    """-sum w log w in nats, with 0 log 0 = 0."""
    return torch.special.entr(weights).sum(-1)


def normalised_entropy(weights: Tensor, keys: Tensor) -> Tensor:
    """Entropy as a share of its maximum, log of the number of keys; NaN below two keys."""
    return torch.where(keys > 1, entropy(weights) / keys.clamp(min=2).double().log(), torch.nan)


def earth_movers(first: Tensor, second: Tensor) -> Tensor:
    """The least work that turns one into the other when moving by one position costs one: sum |CDF difference|."""
    return (first - second).cumsum(-1).abs().sum(-1)


def total_variation(first: Tensor, second: Tensor) -> Tensor:
    """Earth mover's distance where all moves cost one: half of sum |difference|."""
    return (first - second).abs().sum(-1) / 2


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """Jensen-Shannon divergence in nats, between 0 and log 2."""
    middle = entropy((first + second) / 2)
    return (middle - (entropy(first) + entropy(second)) / 2).clamp(0, LN2)


def transport(first: np.ndarray, second: np.ndarray, cost: np.ndarray) -> float:
    """Earth mover's distance under any metric `cost` (keys, keys), solved exactly as a linear programme.

    Weight that both have at a key stays there (by the triangle inequality that is optimal), so that
    only what one has more than the other is moved.
    """
    excess = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    givers, takers = np.flatnonzero(excess > 0), np.flatnonzero(excess < 0)
    if not len(givers) or not len(takers):
        return 0.0
    given, taken = excess[givers], -excess[takers]
    moved = given.sum()
    eye_array, kron, vstack = scipy.sparse.eye_array, scipy.sparse.kron, scipy.sparse.vstack
    by_giver = kron(eye_array(len(givers)), np.ones((1, len(takers))))
    by_taker = kron(np.ones((1, len(givers))), eye_array(len(takers)))
    shares = np.concatenate([given / moved, taken / taken.sum()])
    costs = cost[np.ix_(givers, takers)].ravel()
    flows = vstack([by_giver, by_taker], format="csr")
    found = scipy.optimize.linprog(costs, A_eq=flows[:-1], b_eq=shares[:-1], method="highs")
    return float(found.fun * moved)


@dataclass(frozen=True)
class Rows:
    """Which queries of a batch are measured, and over which keys."""

    queries: Tensor
    """(sentences, queries): positions; 0 where a sentence has fewer. Where the model is; all else, where float64 is."""
    allowed: Tensor
    """(sentences, queries, keys)."""
    valid: Tensor
    """(sentences, queries): is there such a query, and has it two keys to choose from?"""

    @classmethod
    def of(
        cls, chosen: Sequence[Sequence[int]], sizes: Sequence[int], causal: bool, drop_sink: bool, device: torch.device
    ) -> "Rows":
        """Of sentences of these sizes the chosen positions; causal queries have no later keys, a sink is key 0."""
        queries = pad_sequence([torch.tensor(places, dtype=torch.long) for places in chosen], True, -1)
        lengths = torch.tensor(sizes)
        key = torch.arange(max(sizes))
        allowed = (key < lengths[:, None])[:, None, :] & (key >= int(drop_sink))
        allowed = allowed & (key <= queries[:, :, None]) if causal else allowed.expand(-1, queries.shape[1], -1)
        valid = (queries >= 0) & (allowed.sum(-1) > 1)
        measured = in_float64(torch.empty(0, device=device)).device
        return cls(queries.clamp(min=0).to(device), allowed.to(measured), valid.to(measured))

    @property
    def keys(self) -> Tensor:
        """(sentences, 1, queries): how many keys a query has."""
        return self.allowed.sum(-1).unsqueeze(1)

    def of_layer(self, weights: Tensor) -> Tensor:
        """(sentences, heads, queries, keys) out of a layer's (sentences, heads, tokens, tokens)."""
        index = self.queries[:, None, :, None].expand(-1, weights.shape[1], -1, weights.shape[3])
        return over_keys(weights.gather(2, index), self.allowed.unsqueeze(1))

    def mean(self, values: Tensor) -> Tensor:
        """Over valid queries: (sentences, heads)."""
        valid = self.valid.unsqueeze(1)
        return torch.where(valid, values, 0.0).sum(-1) / valid.sum(-1)
