"""Differences averaged over groups of layers, and between poolings (mosbach2020, Table 2 and Figure 4).

The layers of a group are scored on the same sentences, so their differences are no independent
measurements. A sentence's results are averaged over the layers of a group first; intervals and tests
then take sentences (and fine-tuning runs) as the units, as they do for a single layer.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from vestige.comparison.differences import Settings, compare
from vestige.comparison.estimators import Estimator, Share
from vestige.errors import AnalysisError

TASK = Share(where=(("subset", "task"),))
"""Accuracy on the task itself, not on its control."""

MARGIN = 0.005
"""Of accuracies: half a point."""


def group_differences(
    base: pd.DataFrame,
    tuned: Sequence[pd.DataFrame],
    groups: Mapping[str, Sequence[int]] | None = None,
    settings: Settings | None = None,
    *,
    estimator: Estimator = TASK,
    margin: float = MARGIN,
    stochastic: bool = False,
) -> pd.DataFrame:
    """Differences tuned - base per group of layers, from item tables of a probe (one base, one or more tuned runs).

    The columns of `compare`, with `group` and `layers` (how many it has) in place of `layer`: `difference` is the mean
    over layers, sentences and runs, `sd_tuning_run` its deviation over runs. Without `groups`, the lower and the upper
    half of the layers that all have.
    """
    shared = sorted(set.intersection(*({*frame["layer"].unique().tolist()} for frame in (base, *tuned))))
    groups = halves(shared) if groups is None else groups
    for name, layers in groups.items():
        lacking = [layer for layer in layers if layer not in shared]
        if lacking or not layers:
            raise AnalysisError(
                f"group {name!r} names layer {lacking[0]}, which not all models have"
                if lacking
                else f"group {name!r} names no layer",
                fix=f"name layers from {', '.join(map(str, shared)) or '(none)'}",
            )
    first, *others = (_averaged(frame, groups) for frame in (base, *tuned))
    table = compare(estimator, first, others, margin, settings, stochastic=stochastic, places=["group"])
    table = table.set_index("group").loc[list(groups)].reset_index()
    table.insert(1, "layers", [len(set(groups[name])) for name in table["group"]])
    return table


def halves(layers: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Layers up to half of the depth, and those above: 0-6 and 7-12 of a model with twelve blocks."""
    middle = max(layers) / 2
    parts = [tuple(layer for layer in layers if (layer > middle) == upper) for upper in (False, True)]
    return {f"{min(part)}-{max(part)}": part for part in parts if part}


def cross_pooling(
    base: pd.DataFrame,
    tuned: Sequence[pd.DataFrame],
    base_pooling: str = "sentence_mean",
    tuned_pooling: str = "cls",
    settings: Settings | None = None,
    *,
    estimator: Estimator = TASK,
    margin: float = MARGIN,
    stochastic: bool = False,
) -> pd.DataFrame:
    """Tuned with one pooling against base with another, per layer, as `compare` has it.

    A gain of [CLS] that does not reach what the base model's mean had all along is no new knowledge.
    The item tables may be of one pooling or of several; `group_differences` takes what `of_pooling` gives.
    """
    after = [of_pooling(frame, tuned_pooling) for frame in tuned]
    return compare(estimator, of_pooling(base, base_pooling), after, margin, settings, stochastic=stochastic)


def of_pooling(items: pd.DataFrame, pooling: str) -> pd.DataFrame:
    """The items of one pooling of a sentence probe."""
    known = list(items["pooling"].unique()) if "pooling" in items else []
    if pooling not in known:
        raise AnalysisError(
            f"the items are of pooling {' and '.join(known) or '(not said)'}, not of {pooling!r}",
            fix=f"run sentence_probe with pooling {pooling!r}, alone or among others",
        )
    return items[items["pooling"] == pooling]


def _averaged(items: pd.DataFrame, groups: Mapping[str, Sequence[int]]) -> pd.DataFrame:
    """Items of a group in place of a layer, whose `correct` is the mean over its layers."""
    keys = ["sentence", "word", "subset", "probe_seed"]
    parts = []
    for name, layers in groups.items():
        mine = items[items["layer"].isin(list(layers))]
        mean = mine.groupby(keys, sort=False, observed=True)["correct"].mean()
        parts.append(mean.reset_index().assign(group=name))
    return pd.concat(parts, ignore_index=True)
