"""The best dependency tree under scores for every possible arc: Chu-Liu and Edmonds' algorithm on a dense matrix."""

from typing import NamedTuple

import numpy as np

from vestige.errors import AnalysisError


class _Contraction(NamedTuple):
    """A cycle that became one node: its nodes, the arcs within it, and in which node each word lay before."""

    cycle: np.ndarray
    within: np.ndarray
    owner: np.ndarray


def best_tree(scores: np.ndarray, single_root: bool = True) -> np.ndarray:
    """Heads (0 is the root, k the k-th word) of the tree whose arcs have the largest sum of scores.

    `scores[i, h]` is the score of head h for word i + 1, so there is a column more than there are
    rows; a word is never its own head. With `single_root` exactly one word hangs from the root, as
    Universal Dependencies demand.
    """
    count = len(scores)
    if scores.shape != (count, count + 1):
        raise AnalysisError(
            f"scores of shape {scores.shape}; for {count} words expected {(count, count + 1)}",
            fix="one row per word, one column per head with the root first",
        )
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    weights = np.full((count + 1, count + 1), -np.inf)
    weights[1:] = scores
    np.fill_diagonal(weights, 0)
    if bad := np.count_nonzero(~np.isfinite(weights[1:])):
        raise AnalysisError(
            f"{bad} of {count * count} scores of arcs are not finite", fix="check that training did not diverge"
        )
    np.fill_diagonal(weights, -np.inf)
    weights[1:] -= weights[1:].max(1, keepdims=True)
    if single_root:
        worst = weights.min(where=np.isfinite(weights), initial=0)
        weights[:, 0] += worst - 1  # a second word is now cheaper under the first than under the root
    return _edmonds(weights)[1:]


def _edmonds(weights: np.ndarray) -> np.ndarray:
    """Heads of the maximum arborescence from node 0; `weights[d, h]` is what head h gives to d, -inf for itself.

    While the best heads contain a cycle, it becomes one node (under the number of its first one),
    entered at the cost of the arc within it that must give way. In the end the cycles are opened
    again in reverse. `arcs` says for which arc (dependent * size + head) between words a weight stands.
    """
    size = len(weights)
    places = np.arange(size)
    arcs = np.arange(size * size).reshape(size, size)
    owner, best = places.copy(), weights.argmax(1)
    trail: list[_Contraction] = []
    while (cycle := _cycle(best.tolist(), owner.tolist())) is not None:
        node, within = cycle[0], best[cycle]
        trail.append(_Contraction(cycle, arcs[cycle, within], owner.copy()))
        entering = weights[cycle] - weights[cycle, within][:, None]
        leaving = weights[:, cycle]
        enter, leave = entering.argmax(0), leaving.argmax(1)
        arcs[node], arcs[:, node] = arcs[cycle[enter], places], arcs[places, cycle[leave]]
        weights[node], weights[:, node] = entering[enter, places], leaving[places, leave]
        weights[:, cycle[1:]] = -np.inf
        weights[node, node] = -np.inf
        merged = np.zeros(size, dtype=bool)
        merged[cycle] = True
        owner[merged[owner]] = node
        best[merged[best]] = node
        best[node] = weights[node].argmax()
    chosen = arcs[places, best]
    for cycle, within, owner in reversed(trail):
        entered = chosen[cycle[0]]
        chosen[cycle] = within
        chosen[owner[entered // size]] = entered
    return chosen % size


def _cycle(best: list[int], owner: list[int]) -> np.ndarray | None:
    """The nodes of one cycle among the best heads, if there is any."""
    seen = [-1] * len(best)
    seen[0] = 0
    for start in range(1, len(best)):
        node = owner[start]
        while seen[node] < 0:
            seen[node] = start
            node = best[node]
        if seen[node] == start:
            cycle = [node]
            while (node := best[node]) != cycle[0]:
                cycle.append(node)
            return np.array(cycle)
    return None
