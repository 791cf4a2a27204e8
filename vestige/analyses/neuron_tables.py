"""Where the neurons of minimal sets are, and the tables that are left of an analysis: the ranking, the explorer."""

import json
from collections.abc import Mapping

import numpy as np

from vestige.analyses.base import Outcome
from vestige.analyses.rows import NeuronRows
from vestige.neurons.explore import explorer_data
from vestige.neurons.matrix import Neurons
from vestige.neurons.minimal import Subset
from vestige.neurons.ranking import Ranking, per_label, top
from vestige.neurons.refit import Refit
from vestige.neurons.spread import by_layer, dominant_layer, overlap
from vestige.probes.rows import Place
from vestige.representations.store import Representations


def minimal_place(delta: float) -> Place:
    """Where numbers of the minimal set of a delta lie."""
    return Place("minimal", axis="delta", x=delta)


def report_spread(
    task: NeuronRows, ranking: Ranking, again: Refit, minimal: Mapping[float, Subset], outcome: Outcome
) -> None:
    """Where the neurons of the minimal sets are, by layer and by label, and how many a re-fit has in common."""
    for delta, found in minimal.items():
        where = minimal_place(delta).where
        outcome.add("ranking_overlap", again.overlap(ranking.order, len(found.neurons)), **where)
        for layer, count in enumerate(by_layer(found.neurons, task.train.offsets)):
            outcome.add("selected_neurons", count, layer=layer, **where)
        lists = dict(zip(task.rows.classes, per_label(ranking, len(found.neurons)), strict=True))
        for label, ids in lists.items():
            outcome.add("label_neurons", len(ids), label=label, **where)
            home = dominant_layer(ids, task.train.offsets)
            if home is not None:
                outcome.add("dominant_layer", home, label=label, **where)
        shared = overlap(lists)
        outcome.add("shared_neurons", len(shared.shared), **where)
        outcome.add("exclusive_neurons", sum(map(len, shared.exclusive.values())), **where)


def ranking_table(
    neurons: Neurons, ranking: Ranking, again: Refit, minimal: Mapping[float, Subset]
) -> dict[str, np.ndarray]:
    """Every neuron, best first, with its place in the ranking of the re-fit.

    `delta` is the largest whose minimal set has the neuron: as sets are tops of the ranking, the set of a delta is all
    neurons of at least that.
    """
    order = ranking.order
    largest = np.full(len(order), np.nan)
    for delta, found in sorted(minimal.items()):
        largest[: len(found.neurons)] = delta
    return {
        "neuron": order.astype(np.int32),
        "layer": neurons.layer_of(order).astype(np.int16),
        "unit": neurons.unit_of(order).astype(np.int32),
        "key": ranking.key[order],
        "refit": again.places(order),
        "delta": largest,
    }


def explorer_table(
    task: NeuronRows, representations: Representations, ranking: Ranking, explored: int
) -> dict[str, np.ndarray]:
    """The words and sentences of the scored split that the best neurons respond to."""
    best = top(ranking, min(explored, ranking.ranked))
    names = np.array([*task.rows.classes, "(not in train)"])[task.labels(task.split)].tolist()
    lists = per_label(ranking, len(best))
    found = explorer_data(
        representations,
        task.rows.task.corpus[task.split],
        best,
        labels=names,
        selected_for={label: ids for label, ids in zip(task.rows.classes, lists, strict=True) if len(ids)},
    )["neurons"]
    return {
        "neuron": best.astype(np.int32),
        "layer": task.train.layer_of(best).astype(np.int16),
        "unit": task.train.unit_of(best).astype(np.int32),
        "rank": np.arange(1, len(best) + 1, dtype=np.int32),
        "data": np.array([json.dumps(one, ensure_ascii=False) for one in found], dtype=object),
    }
