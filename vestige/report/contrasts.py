"""Findings that need two settings: does an effect shrink under `converged`, does an mlp still see it?

Two settings are set side by side only where they differ in the named parameter and in nothing
else. 'Smaller' means that the two intervals do not overlap, or that the first lies beyond the margin
and the second setting shows equivalence within it; a difference of two estimates alone is not reported.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vestige.comparison.differences import Settings
from vestige.report.findings import Finding
from vestige.report.groups import Group, Titles
from vestige.report.wording import layer, layers, listing, move, points, span

_RANK = 0.5


def contrast_findings(groups: Sequence[Group], titles: Titles, settings: Settings) -> list[Finding]:
    """One finding per kind of contrast that the study allows."""
    made = (protocol_contrast(groups, titles, settings), probe_contrast(groups, titles, settings))
    return [finding for finding in made if finding is not None]


def pairs(groups: Sequence[Group], name: str, first: str, second: str) -> list[tuple[Group, Group]]:
    """Groups of one task and model whose settings differ in one parameter: (first, second)."""
    free = {"protocol": ("protocol", "tolerance", "l2", "seeds"), "probe": ("probe", "hidden", "seeds", "l2")}[name]
    return [
        (a, b)
        for a in groups
        for b in groups
        if (a.corpus, a.task, a.model) == (b.corpus, b.task, b.model)
        and (a.setting.parameters.get(name), b.setting.parameters.get(name)) == (first, second)
        and a.setting.same_but(b.setting, *free)
    ]


def protocol_contrast(groups: Sequence[Group], titles: Titles, settings: Settings) -> Finding | None:
    """Where a change under the papers' protocol shrinks once the probe is trained to convergence."""
    found = pairs(groups, "protocol", "durrani", "converged")
    if not found:
        return None
    shrunk = [
        (durrani, layer_rows)
        for durrani, converged in found
        if (layer_rows := _shrinking(durrani, converged, ("lower", "higher"), settings)) is not None
    ]
    lead = "Protocol"
    if not shrunk:
        text = (
            "No change seen under the papers' protocol (durrani) is shown to be smaller "
            "when the probe is trained to convergence."
        )
        return Finding(lead, text, "note", _RANK)
    group, rows = max(shrunk, key=lambda item: item[1]["gain"].max())
    top = rows.loc[rows["gain"].idxmax()]
    places = _places(shrunk, len(found), titles)
    text = (
        f"Effects shrink when the probe is trained to convergence: {places}. The most at "
        f"{layer(int(top['layer']))} of {titles.group(group)}, from {points(top['difference'])} points "
        f"({span(top['low'], top['high'])}) under durrani to {points(top['difference_other'])} "
        f"({span(top['low_other'], top['high_other'])}) under converged: that part "
        "is owed to how the probe was trained, not shown to be knowledge lost or gained."
    )
    return Finding(lead, text, "note", _RANK)


def probe_contrast(groups: Sequence[Group], titles: Titles, settings: Settings) -> Finding | None:
    """Where an mlp still finds what a linear probe lost."""
    found = pairs(groups, "probe", "linear", "mlp")
    if not found or not any((linear.accuracy["verdict"] == "lower").any() for linear, _ in found):
        return None
    kept = [
        (linear, rows) for linear, mlp in found if (rows := _shrinking(linear, mlp, ("lower",), settings)) is not None
    ]
    lead = "Linear and mlp probe"
    if not kept:
        return Finding(lead, "What the linear probe lost, the mlp is not shown to keep.", "note", _RANK)
    group, rows = max(kept, key=lambda item: item[1]["gain"].max())
    top = rows.loc[rows["gain"].idxmax()]
    places = _places(kept, len(found), titles)
    text = (
        f"The mlp still finds all or part of what the linear probe lost: {places}. At {layer(int(top['layer']))} of "
        f"{titles.group(group)} the linear probe changes by {points(top['difference'])} points "
        f"({span(top['low'], top['high'])}), the mlp by {points(top['difference_other'])} "
        f"({span(top['low_other'], top['high_other'])}; {move(top['base_other'], top['tuned_other'])}"
        "): it is still there, but less easily read by a linear probe."
    )
    return Finding(lead, text, "note", _RANK)


def _places(found: Sequence[tuple[Group, pd.DataFrame]], compared: int, titles: Titles) -> str:
    """Where something was found: by name, or by number where the names would fill a paragraph."""
    if len(found) <= 2:
        return listing([f"{titles.group(group)} at {layers(rows['layer'])}" for group, rows in found])
    total = sum(len(rows) for _, rows in found)
    return f"in {len(found)} of {compared} comparisons, at {total} layers in all"


def _shrinking(first: Group, second: Group, verdicts: Sequence[str], settings: Settings) -> pd.DataFrame | None:
    """Layers where a change of `first` is smaller in `second` beyond doubt; None where there is none."""
    both = first.accuracy.join(second.accuracy, rsuffix="_other", how="inner")
    both["gain"] = np.sign(both["difference"]) * (both["difference"] - both["difference_other"])
    apart = (both["low_other"] > both["high"]) | (both["high_other"] < both["low"])
    beyond = (both["low"] > settings.margin) | (both["high"] < -settings.margin)
    gone = beyond & (both["verdict_other"] == "unchanged")
    chosen = both[both["verdict"].isin(verdicts) & (both["gain"] > 0) & (apart | gone)]
    return chosen if len(chosen) else None
