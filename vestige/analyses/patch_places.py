"""Where models are patched, and what is reported of a score there; the same for every score.

R = (patched - base) / (tuned - base) with Fieller's interval over sentences (`vestige.measures.recovery`), and what the
base at one layer of the tuned model does to the score, which is compared.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from vestige.analyses.base import Outcome
from vestige.analyses.metric import LAYER, WHOLE, Axis, Metric
from vestige.analyses.patched_scores import Replicated
from vestige.analyses.remarks import remark
from vestige.comparison.estimators import Replicates
from vestige.errors import AnalysisError
from vestige.measures.recovery import nothing_to_recover, recovered
from vestige.models.surgery.branches import Branch
from vestige.models.surgery.patching import Change, Interpolation, Patch, Patcher, Site

UP_TO = Axis("up_to", "all layers up to (1 = first block)")
G = Axis("g", "share of the tuned weights (0 = base, 1 = tuned)")
DIRECTIONS = {"kept": "base into tuned", "recovered": "tuned into base"}
_PLACES = (LAYER, UP_TO)
LEFT_OUT = remark(
    "sites_left_out",
    "sites left out",
    "{subset} of {model} cannot be patched: they are no module's output in its blocks",
)


def patch_metrics(measure: str, what: str, unit: Literal["percent", "nats"], margin: float) -> tuple[Metric, ...]:
    """All that is reported of one score: shares kept and recovered, the change, and levels."""
    better: Literal["lower", "higher"] = "lower" if unit == "nats" else "higher"
    decimals = 3 if unit == "nats" else 1
    return (
        Metric(
            f"{measure}_kept", f"kept share of the change of {what}", "percent", decimals=0, along=_PLACES,
            about="Of the base put into the tuned model: 100 % as tuned, 0 % as the base.",
        ),
        Metric(
            f"{measure}_recovered", f"recovered share of the change of {what}", "percent", decimals=0,
            along=(*_PLACES, G), about="Of the tuned model put into the base: 100 % as tuned, 0 % as the base.",
        ),
        Metric(
            f"{measure}_change", f"change of {what} by the base at one place", unit, better, margin, decimals,
            compared=Replicates(table=f"{measure}_replicates", column="patched", before="tuned"),
            sides=("tuned", "with the base's"),
        ),
        Metric(f"{measure}_patched", f"{what} when patched", unit, better, None, decimals, (*_PLACES, G), "detail"),
        Metric(f"{measure}_base", f"{what} of the base", unit, better, None, decimals, (WHOLE,), "baseline"),
        Metric(f"{measure}_tuned", f"{what} of the tuned model", unit, better, None, decimals, (WHOLE,), "baseline"),
    )  # fmt: skip


class Place(NamedTuple):
    """Where a changed model lies."""

    change: Change
    metric: str
    """`kept` or `recovered`."""
    where: dict[str, Any]


def find_places(
    patcher: Patcher, model: str, outcome: Outcome, sites: Sequence[Site] | None, cumulative: bool, g: Sequence[float]
) -> list[Place]:
    """Everything that is patched; sites that cannot be are counted or, where they were asked for, an error."""
    asked: Sequence[Site] = get_args(Site) if sites is None else sites
    missing = [site for site in asked if site in get_args(Branch) and site not in patcher.branches]
    if missing and sites is not None:
        raise AnalysisError(
            f"the {missing[0]} output of {model} is no module's output in its blocks, so it cannot be patched",
            fix="patch blocks: sites: [block, block weights]",
        )
    named = " and ".join(missing)
    outcome.add(LEFT_OUT.name, len(missing), **({"subset": f"{named} outputs"} if missing else {}))
    places = list(_patches(patcher.depth, [site for site in asked if site not in missing], cumulative))
    return places + [Place(Interpolation(share), "recovered", {"axis": G.name, "x": share}) for share in g]


def _patches(depth: int, sites: Sequence[Site], cumulative: bool) -> Iterator[Place]:
    for host, metric in ((0, "kept"), (1, "recovered")):
        for site in sites:
            variant = {"subset": site}
            branch = site in get_args(Branch)
            for layer in range(int(branch), depth + 1):
                yield Place(Patch(host, site, (layer,)), metric, {"layer": layer, **variant})
            if branch and cumulative and depth > 1:
                for layer in range(1, depth + 1):
                    below = tuple(range(1, layer + 1))
                    yield Place(Patch(host, site, below), metric, {"axis": UP_TO.name, "x": layer, **variant})


def changes_of(places: Sequence[Place]) -> list[Change]:
    """What `report` is to be given scores of: the base, the tuned model, and every place."""
    return [Patch(host=1), Patch(host=0), *(place.change for place in places)]


def report(
    metrics: Sequence[Metric], found: Replicated, places: Sequence[Place], outcome: Outcome, **levels: Any
) -> None:
    """The rows of one score (`patch_metrics`), and its table; `levels` is said of the levels of both models.

    These are levels of the patched score: beside shares of its change, in percent too, they would mean nothing.
    """
    base, tuned, *patched = found.values
    measure, margin = metrics[0].name.removesuffix("_kept"), metrics[2].margin
    assert margin is not None
    levels = {"subset": f"{measure}_patched", **levels}
    count = {"n": found.sentences}
    for name, values in (("base", base), ("tuned", tuned)):
        outcome.add(f"{measure}_{name}", values[0], **count, **levels)
    why = nothing_to_recover(base, tuned, margin)
    outcome.absent |= dict.fromkeys((metric.name for metric in metrics[:2]), why) if why else {}
    for place, values in zip(places, patched, strict=True):
        direction = DIRECTIONS[place.metric] if "subset" in place.where else None
        outcome.add(f"{measure}_patched", values[0], **place.where, subset2=direction, **count)
        if not why:
            share = recovered(values, base, tuned)._asdict()
            outcome.add(f"{measure}_{place.metric}", **share, **place.where, **count)
    asked = [(p, values) for p, values in zip(places, patched, strict=True) if _is_undoing(p)]
    for place, values in asked:
        outcome.add(f"{measure}_change", values[0] - tuned[0], **place.where, **count)
    if asked:
        outcome.tables[f"{measure}_replicates"] = _replicates(asked, tuned, found.sentences)
    else:
        outcome.absent[f"{measure}_change"] = "nothing is put into the tuned model at one layer"


def _is_undoing(place: Place) -> bool:
    """Is the base put into the tuned model, at one layer?"""
    return place.metric == "kept" and "layer" in place.where


def _replicates(asked: Sequence[tuple[Place, np.ndarray]], tuned: np.ndarray, sentences: int) -> dict[str, np.ndarray]:
    """A row for every place and group of sentences that is left out."""
    size = len(tuned)
    columns = {
        name: np.repeat(np.array([place.where[name] for place, _ in asked], dtype=kind), size)
        for name, kind in (("layer", np.int16), ("subset", object))
    }
    return {
        **columns,
        "left_out": np.tile(np.arange(-1, size - 1), len(asked)),
        "sentences": np.full(size * len(asked), sentences),
        "tuned": np.tile(tuned, len(asked)),
        "patched": np.concatenate([values for _, values in asked]),
    }
