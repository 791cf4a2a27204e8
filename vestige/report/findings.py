"""What the comparisons show, in sentences: rules from the table of differences to English.

Pure functions of the table; every number in a sentence is a number of the table, and every claim
of change carries its interval and its q. The wording claims no more than the verdict does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from vestige.comparison.differences import Settings
from vestige.comparison.failed import FAILED
from vestige.report.groups import Group, Titles, primary
from vestige.report.wording import (
    GLUE,
    VERDICTS,
    be,
    capital,
    chance,
    layer,
    layers,
    listing,
    move,
    percent,
    points,
    size,
    span,
    threshold,
)

MOST = 8
"""So many findings open the page; the others stand with their task."""

DROP = 0.01
"""'The first layer shown to drop': by more than one point, the whole interval."""


@dataclass(frozen=True)
class Finding:
    """One statement: what it is about, what it says, and how much it matters."""

    lead: str
    text: str
    kind: str
    """A verdict, or note: the colour of its mark."""
    rank: float
    """Smaller ranks open the page."""
    key: tuple[str, ...] = ()
    """The group it is of; empty where it is of several."""

    def __str__(self) -> str:
        return f"{self.lead}: {self.text}"


def group_findings(group: Group, titles: Titles, settings: Settings) -> list[Finding]:
    """All findings of one tuned model on one task under one setting."""
    changes, steady = _changes(group, settings), _steady(group, settings)
    made = [
        (changes, 0.0),
        (steady, 1.0 if changes[0] else 0.0),
        (_selectivity(group, settings), 2.0),
        (_shape(group, settings), 3.0),
    ]
    lead = titles.group(group)
    return [Finding(lead, text, kind, rank, group.key) for (text, kind), rank in made if text]


def headlines(groups: Sequence[Group], across: Sequence[Finding], titles: Titles, settings: Settings) -> list[Finding]:
    """The findings that open the page, at most `MOST`, in the order of the tasks; `across` come last.

    Where there are more groups than places, the largest changes are chosen and nothing else of a
    group is said.
    """
    chosen = primary(groups)
    places = MOST - len(across)
    made = [finding for group in chosen for finding in group_findings(group, titles, settings)]
    largest: dict[tuple[str, ...], float] = {group.key: group.accuracy["difference"].abs().max() for group in chosen}
    ranked = sorted(made, key=lambda f: (f.rank, -largest[f.key]))
    if len(chosen) > places:
        ranked = [finding for finding in ranked if finding.rank < 1]
    kept = {id(finding) for finding in ranked[:places]}
    return [*(finding for finding in made if id(finding) in kept), *across]


def overview(groups: Sequence[Group]) -> str:
    """How many layers of how many tasks went which way: one sentence over everything."""
    chosen = primary(groups)
    verdicts = pd.concat([group.accuracy["verdict"] for group in chosen])
    depth = max(len(group.accuracy) for group in chosen)
    tasks = len({(group.corpus, group.task) for group in chosen})
    models = len({group.model for group in chosen})
    sizes = [(models, "tuned model"), (tasks, "task"), (depth, "layer")]
    over = listing([f"{n} {word}{'s' * (n > 1)}" for n, word in sizes if n > 1]) or "1 layer"
    counts = [(name, int((verdicts == name).sum())) for name in VERDICTS]
    parts = [f"{name} in {number}" for name, number in counts if number]
    return f"Probe accuracy after fine-tuning, over {over}: {listing(parts)} of {len(verdicts)} comparisons."


def with_numbers(row: pd.Series, settings: Settings, q: bool = True) -> str:
    """'(82.6 -> 79.5, 95 % interval -3.9 to -2.3, q = 0.001)'; interval and q where there are any."""
    parts = [move(row["base"], row["tuned"])]
    if not pd.isna(row["low"]):
        parts.append(f"{100 * settings.confidence:g}{GLUE}% interval {span(row['low'], row['high'])}")
    if q and not pd.isna(row["q"]):
        parts.append(chance("q", row["q"]))
    return f"({', '.join(parts)})"


def _changes(group: Group, settings: Settings) -> tuple[str, str]:
    rows = group.accuracy
    sides = [(rows[rows["verdict"] == verdict], verdict) for verdict in ("lower", "higher")]
    sides = [(side, verdict) for side, verdict in sides if len(side)]
    if not sides:
        unchanged = (rows["verdict"] == "unchanged").all()
        return ("", "") if unchanged else (_nothing_found(group, settings), "undecided")
    sides.sort(key=lambda side: -side[0]["difference"].abs().max())
    text = " ".join(_one_direction(side, verdict, group, settings) for side, verdict in sides)
    return text, sides[0][1]


def _one_direction(side: pd.DataFrame, verdict: str, group: Group, settings: Settings) -> str:
    """The largest change of one direction with its numbers, the others by their range."""
    one, several = ("loses", "lose") if verdict == "lower" else ("gains", "gain")
    top = side.loc[side["difference"].abs().idxmax()]
    where = int(top["layer"])
    subject = f"{capital(layer(where))} of {group.model} {several if where == 0 else one}"
    text = f"{subject} {size(top['difference'])} of probe accuracy {with_numbers(top, settings)}"
    rest = side.drop(index=where)
    if len(rest):
        sizes = rest["difference"].abs()
        low, high = percent(sizes.min()), size(sizes.max())
        amount = high if high.startswith(f"{low} ") else f"{low} to {high}"
        single = len(rest) == 1 and rest["layer"].iloc[0] != 0
        text += f"; {layers(rest['layer'])} {one if single else several} {amount}"
    small = side[side[["low", "high"]].abs().max(axis=1) < settings.margin]["layer"]
    if len(small):
        text += f"; {layers(small)}: a detectable change, but one within {threshold(settings.margin)}"
    return text + "."


def _nothing_found(group: Group, settings: Settings) -> str:
    sound = group.accuracy[group.accuracy["verdict"] != FAILED]
    if sound.empty:
        return f"All probes of {group.model} or {group.reference} failed: nothing is shown of their layers."
    top = sound.loc[sound["difference"].abs().idxmax()]
    tested = sound["q"].notna().any()
    nothing = (
        f"No layer of {group.model} shows a change of probe accuracy that survives the correction for many tests"
        if tested
        else f"No layer of {group.model} has a verdict: differences are described, not tested"
    )
    return (
        f"{nothing}; the largest difference is {points(top['difference'])} points at {layer(int(top['layer']))} "
        f"{with_numbers(top, settings)}."
    )


def _steady(group: Group, settings: Settings) -> tuple[str, str]:
    rows = group.accuracy
    margin, unchanged = threshold(settings.margin), rows[rows["verdict"] == "unchanged"]["layer"]
    undecided = rows[rows["verdict"] == "undecided"]
    parts = []
    if len(unchanged) == len(rows):
        parts.append(f"All layers of {group.model} are unchanged within {margin}.")
    elif len(unchanged):
        parts.append(f"{capital(layers(unchanged))} {be(list(unchanged))} unchanged within {margin}.")
    if len(undecided):
        reach = max(undecided["low"].abs().max(), undecided["high"].abs().max())
        parts.append(
            f"{capital(layers(undecided['layer']))} {be(list(undecided['layer']))} undecided: "
            f"intervals reach as far as {size(reach)} from zero, which shows neither a change nor its absence."
        )
    return " ".join(parts), "unchanged" if len(unchanged) else "undecided"


def _shape(group: Group, settings: Settings) -> tuple[str, str]:
    """What verdicts and intervals show of the two curves; where they show nothing, nothing is said."""
    return " ".join(text for text in (_first_drop(group, settings), _best_layers(group)) if text), "note"


def _first_drop(group: Group, settings: Settings) -> str:
    """The lowest of several layers that are significantly lower, by more than `DROP` in all of the interval."""
    rows = group.accuracy
    drops = rows[(rows["verdict"] == "lower") & (rows["high"] < -DROP)]
    if len(drops) < 2:
        return ""
    first = drops.iloc[0]
    at = layer(int(first["layer"]))
    return f"The lowest layer shown to drop by more than {threshold(DROP)}: {at} {with_numbers(first, settings)}."


def _best_layers(group: Group) -> str:
    """Whether the best layers of base and tuned change places: one has changed, and intervals are apart in both."""
    rows = group.accuracy[group.accuracy["verdict"] != FAILED]
    if rows.empty:
        return ""
    old, new = rows.loc[rows["base"].idxmax()], rows.loc[rows["tuned"].idxmax()]
    changed = old["verdict"] in ("lower", "higher") or new["verdict"] in ("lower", "higher")
    if not (changed and old["base_low"] > new["base_high"] and new["tuned_low"] > old["tuned_high"]):
        return ""
    before, after = layer(int(old["layer"])), layer(int(new["layer"]))
    numbers = [
        f"{percent(one[side])} ({percent(one[f'{side}_low'])} to {percent(one[f'{side}_high'])})"
        for side in ("base", "tuned")
        for one in (old, new)
    ]
    return (
        f"{capital(before)} and {after} change places: {numbers[0]} and {numbers[1]} in {group.reference}, "
        f"{numbers[2]} and {numbers[3]} in {group.model}."
    )


def _selectivity(group: Group, settings: Settings) -> tuple[str, str]:
    """Whether a loss of accuracy is one of the property or one of the capacity to memorise words."""
    control, selectivity = group.metric("control_accuracy"), group.metric("selectivity")
    lost = group.accuracy[group.accuracy["verdict"] == "lower"]["layer"]
    lost = [int(number) for number in lost if number in selectivity.index]
    if not lost:
        return "", ""
    property_lost = [n for n in lost if selectivity.loc[n, "verdict"] == "lower"]
    capacity_lost = [n for n in lost if n not in property_lost and control.loc[n, "verdict"] == "lower"]
    open_ones = [n for n in lost if n not in property_lost + capacity_lost]
    parts = []
    if property_lost:
        worst = selectivity.loc[property_lost].sort_values("difference").iloc[0]
        at = f", most at {layer(int(worst['layer']))}" if len(property_lost) > 1 else ""
        parts.append(
            f"At {layers(property_lost)} selectivity falls with accuracy{at} {with_numbers(worst, settings)}: "
            "more is lost than the probe's capacity to memorise words."
        )
    if capacity_lost:
        worst = control.loc[capacity_lost].sort_values("difference").iloc[0]
        at = f", most at {layer(int(worst['layer']))}" if len(capacity_lost) > 1 else ""
        parts.append(
            f"At {layers(capacity_lost)} the control task loses as well{at} {with_numbers(worst, settings)}, and "
            "selectivity is not shown to fall: there the probe may have lost capacity to memorise words "
            "rather than the property."
        )
    if open_ones:
        parts.append(f"At {layers(open_ones)} neither the control task nor selectivity is shown to fall.")
    return " ".join(parts), "lower" if property_lost else "note"
