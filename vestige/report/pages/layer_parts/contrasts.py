"""Findings that need two settings: does an effect shrink under `converged`, does an mlp still see it?

Two settings are set side by side only where they differ in the named parameter and in nothing else. 'Smaller' means
that the two intervals do not overlap, or that the first lies beyond the margin and the second setting shows
equivalence within it; a difference of two estimates alone is not reported.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vestige.report import numbers
from vestige.report.pages.layer_parts.group import Group
from vestige.report.types import Finding
from vestige.report.wording import layer, layers, listing

_NOTHING = 0.7
"""Weight of a contrast that shows nothing."""

Pair = tuple[Group, Group]
Shrunk = list[tuple[Group, pd.DataFrame]]


def contrast_findings(groups: Sequence[Group]) -> list[Finding]:
    """One finding per kind of contrast that the study allows."""
    made = (*(_protocols(groups, name) for name in ("durrani", "senteval")), _probes(groups))
    return [finding for finding in made if finding is not None]


def _protocols(groups: Sequence[Group], protocol: str) -> Finding | None:
    """Where a change under the papers' protocol shrinks once the probe is trained to convergence."""
    found = _pairs(groups, "protocol", (protocol, "converged"), "tolerance", "l2", "seeds")
    if not found:
        return None
    shrunk = _shrunk(found, "lower", "higher")
    if not shrunk:
        text = (
            f"No change seen under the papers' protocol ({protocol}) is shown to be smaller "
            "when the probe is trained to convergence."
        )
        return Finding("Protocol", text, "note", _NOTHING)
    group, top, first, second = _most(shrunk)
    text = (
        f"Effects shrink when the probe is trained to convergence: {_places(shrunk, len(found))}. The most at "
        f"{layer(int(top['layer']))} of {group.title}, from {first} under {protocol} to {second} under converged: "
        "that part is owed to how the probe was trained, not shown to be knowledge lost or gained."
    )
    return Finding("Protocol", text, "note", _weight(top))


def _probes(groups: Sequence[Group]) -> Finding | None:
    """Where an mlp still finds what a linear probe lost."""
    found = _pairs(groups, "probe", ("linear", "mlp"), "hidden", "seeds", "l2")
    if not any(len(linear.accuracy.verdict("lower")) for linear, _ in found):
        return None
    lead, kept = "Linear and mlp probe", _shrunk(found, "lower")
    if not kept:
        return Finding(lead, "What the linear probe lost, the mlp is not shown to keep.", "note", _NOTHING)
    group, top, first, second = _most(kept)
    levels = numbers.moved(group.accuracy.metric, top["base_other"], top["tuned_other"])
    text = (
        f"The mlp still finds all or part of what the linear probe lost: {_places(kept, len(found))}. At "
        f"{layer(int(top['layer']))} of {group.title} the linear probe changes by {first}, the mlp by "
        f"{second.removesuffix(')')}; {levels}): it is still there, but less easily read by a linear probe."
    )
    return Finding(lead, text, "note", _weight(top))


def _pairs(groups: Sequence[Group], name: str, values: tuple[str, str], *free: str) -> list[Pair]:
    """Groups of one task and model whose settings differ in one parameter, and in what depends on it."""
    return [
        (a, b)
        for a in groups
        for b in groups
        if a.place == b.place
        and (a.part.setting.parameters.get(name), b.part.setting.parameters.get(name)) == values
        and a.part.setting.same_but(b.part.setting, name, *free)
    ]


def _shrunk(found: Sequence[Pair], *verdicts: str) -> Shrunk:
    """Groups with the layers where a change is smaller under the other setting beyond doubt."""
    made = []
    for first, second in found:
        both = first.accuracy.changes.join(second.accuracy.changes, rsuffix="_other", how="inner")
        both["gain"] = np.sign(both["difference"]) * (both["difference"] - both["difference_other"])
        apart = (both["low_other"] > both["high"]) | (both["high_other"] < both["low"])
        beyond = (both["low"] > both["margin"]) | (both["high"] < -both["margin"])
        gone = beyond & (both["verdict_other"] == "unchanged")
        chosen = both[both["verdict"].isin(verdicts) & (both["gain"] > 0) & (apart | gone)]
        if len(chosen):
            made.append((first, chosen))
    return made


def _most(shrunk: Shrunk) -> tuple[Group, pd.Series, str, str]:
    """Where the two settings differ most: the group, the row, and both changes in words."""
    group, rows = max(shrunk, key=lambda item: item[1]["gain"].max())
    top, metric = rows.loc[rows["gain"].idxmax()], group.accuracy.metric
    changes = [numbers.change(metric, top[f"difference{end}"]) for end in ("", "_other")]
    spans = [numbers.span(metric, top[f"low{end}"], top[f"high{end}"]) for end in ("", "_other")]
    return group, top, f"{changes[0]} points ({spans[0]})", f"{changes[1]} ({spans[1]})"


def _weight(top: pd.Series) -> float:
    return max(1.0, float(top["gain"] / top["margin"]))


def _places(found: Shrunk, compared: int) -> str:
    """Where something was found: by name, or by number where the names would fill a paragraph."""
    if len(found) <= 2:
        return listing([f"{group.title} at {layers(rows['layer'])}" for group, rows in found])
    total = sum(len(rows) for _, rows in found)
    return f"in {len(found)} of {compared} comparisons, at {total} layers in all"
