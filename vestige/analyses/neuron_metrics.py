"""What analyses of neurons measure, declared once; and the rows that all which rank by a probe have in common."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vestige.analyses.base import Outcome
from vestige.analyses.metric import WHOLE, Axis, Metric
from vestige.analyses.rows import NeuronRows
from vestige.comparison.estimators import Share
from vestige.neurons.ranking import rank, share_to_count
from vestige.neurons.refit import TOPS, Refit, refit
from vestige.probes.elastic_net.polish import Polished, polish

SHARE = Axis("share", "share of all neurons")
DELTA = Axis("delta", "accuracy that a minimal set may lose")
CORRELATION = Axis("correlation", "correlation from which neurons are one cluster")


def accuracy(*along: Axis) -> Metric:
    """The accuracy of probes on neurons, compared word by word."""
    return Metric("accuracy", "accuracy", "percent", "higher", 0.005, 1, along, compared=Share())


def detail(name: str, title: str, *along: Axis, about: str = "") -> Metric:
    """A number for those who ask."""
    return Metric(name, title, decimals=4, along=along or (WHOLE,), role="detail", about=about)


def counted(name: str, title: str, *along: Axis, about: str = "") -> Metric:
    """A number of neurons."""
    return Metric(name, title, "count", decimals=0, along=along, about=about)


FIT = (
    detail("objective", "objective of the probe"),
    detail("optimality_gap", "bound on the distance from the optimum", about="Of the probe's objective."),
    detail("refit_objective", "objective of the re-fit"),
    detail("refit_optimality_gap", "bound on the distance from the optimum, of the re-fit"),
)
OVERLAP = Metric(
    "ranking_overlap", "overlap of the ranking with that of a re-fit", "percent", decimals=0, along=(SHARE, DELTA),
    about="Of the top of the ranking (share), or of a minimal set (delta): how much of it a second fit selects too.",
)  # fmt: skip

MINIMAL = (
    counted("minimal_neurons", "neurons of the minimal set", DELTA),
    Metric("minimal_share", "share of neurons in the minimal set", "percent", decimals=1, along=(DELTA,)),
    counted("selected_neurons", "neurons of the minimal set in a layer", DELTA, about="By layer."),
    counted("label_neurons", "neurons that a label needs", DELTA, about="By label, of the minimal set."),
    Metric("dominant_layer", "layer with most neurons of a label", decimals=0, along=(DELTA,), about="By label."),
    counted("shared_neurons", "neurons of several labels", DELTA),
    counted("exclusive_neurons", "neurons of one label alone", DELTA),
)
"""Of minimal sets."""
_BY_SET: Mapping[str, Any] = {"unit": "percent", "better": "higher", "decimals": 1, "along": (WHOLE, DELTA)}
CONTROL = (
    Metric("selectivity", "selectivity", **_BY_SET),
    Metric("control_accuracy", "accuracy on the control task", **_BY_SET),
    Metric("dev_selectivity", "selectivity on dev", role="detail", **_BY_SET),
    Metric("dev_control_accuracy", "accuracy on the control task, on dev", role="detail", **_BY_SET),
)
"""Of probes on a control task: all neurons, or minimal sets."""
SEARCH = tuple(
    Metric(name, title, "percent", decimals=1, along=(Axis("l1", "L1 penalty", second="l2"),), role="detail")
    for name, title in (
        ("search_score", "score of the penalties on dev"),
        ("search_accuracy", "accuracy on dev with all neurons"),
        ("search_top", "accuracy on dev with all but the top ablated"),
        ("search_bottom", "accuracy on dev with all but the bottom ablated"),
    )
)
"""Of the search for penalties."""
DEV_ACCURACY = Metric(
    "dev_accuracy", "accuracy on dev", "percent", "higher", decimals=1, role="detail",
    along=(WHOLE, SHARE, DELTA, Axis("neurons", "neurons")),
)  # fmt: skip
NEURONS = (
    accuracy(WHOLE, SHARE, DELTA),
    Metric(
        "refit_accuracy", "accuracy of the re-fit", "percent", "higher", decimals=1, along=(WHOLE, SHARE), role="detail"
    ),
    DEV_ACCURACY,
    OVERLAP,
    *MINIMAL,
    *CONTROL,
    *SEARCH,
    *FIT,
    detail("l1", "L1 penalty"),
    detail("l2", "L2 penalty"),
    detail("zero_weights", "share of weights that are zero"),
    detail("passes", "passes over the training rows"),
    detail("neurons", "neurons"),
    detail("ranked_neurons", "neurons with some weight"),
)
"""Of the analysis `neurons`."""


def report_fits(
    probe: Polished, again: Refit, order: np.ndarray, outcome: Outcome, shares: Sequence[float] = TOPS
) -> None:
    """How far probe and re-fit are from their optimum, and what the tops of their rankings have in common."""
    for prefix, fit in (("", probe), ("refit_", again.probe)):
        outcome.add(f"{prefix}objective", fit.objective)
        if np.isfinite(fit.gap):
            outcome.add(f"{prefix}optimality_gap", fit.gap)
        else:
            outcome.absent[f"{prefix}optimality_gap"] = "no bound is known for this objective"
    counts = {share: share_to_count(share, len(order)) for share in shares}
    for share, count in counts.items():
        if count:
            outcome.add("ranking_overlap", again.overlap(order, count), axis="share", x=share)
    if not any(counts.values()):
        outcome.absent["ranking_overlap"] = "no share holds a neuron"


def ranked_by_probe(
    task: NeuronRows, l1: float, l2: float, seed: int, outcome: Outcome, shares: Sequence[float] = TOPS
) -> tuple[Polished, np.ndarray]:
    """The probe on all neurons and its ranking; how far it is from its optimum, and what a re-fit would rank."""
    probe = polish(task.train, task.gold, task.count, l1, l2, seed=seed)
    order = rank(probe.weights, seed=seed).order
    again = refit(task.train, task.gold, task.count, l1, l2, from_zero=False, seed=seed)
    report_fits(probe, again, order, outcome, shares)
    return probe, order
