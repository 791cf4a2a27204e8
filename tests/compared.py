"""Comparisons of item tables by hand: the metrics of a layer-wise probe, without a study."""

from collections.abc import Sequence

import pandas as pd

from vestige.analyses.metric import Metric
from vestige.comparison.differences import Settings
from vestige.comparison.estimators import Difference, Share
from vestige.study.differences import compare_declared

TASK, CONTROL, STANDARDISED = (Share(where=(("subset", name),)) for name in ("task", "control", "standardised"))


def probe_metrics(names: Sequence[str]) -> list[Metric]:
    """Those whose items are there; accuracy is confirmed by standardised vectors where these are."""
    unfinished = "standardised" in names
    metrics = [_metric("accuracy", TASK, "accuracy_standardised" if unfinished else "")]
    metrics += [_metric("accuracy_standardised", STANDARDISED)] if unfinished else []
    if "control" in names:
        confirmed = "control_accuracy_standardised" if unfinished else ""
        metrics += [_metric("control_accuracy", CONTROL, confirmed)]
        metrics += [_metric("selectivity", Difference(first=TASK, second=CONTROL), confirmed)]
    return metrics


def _metric(name, estimator, confirmed_by=""):
    return Metric(name, name, "percent", margin=0.005, compared=estimator, confirmed_by=confirmed_by)


def compare_items(
    base: pd.DataFrame, tuned: Sequence[pd.DataFrame], settings: Settings | None = None, *, stochastic: bool = False
) -> pd.DataFrame:
    """Differences per layer of all that the items allow."""
    metrics = probe_metrics(list(base["subset"].unique()))
    return compare_declared(metrics, lambda _: (base, list(tuned)), settings, stochastic=stochastic)
