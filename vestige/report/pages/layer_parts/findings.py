"""What the comparisons of layer probes show, in sentences: rules from the table of differences to English.

Every number in a sentence is a number of the table, and every claim of change carries its interval and its q. The
wording claims no more than the verdict does.
"""

from collections.abc import Sequence

import pandas as pd

from vestige.comparison.differences import FAILED, Settings
from vestige.report import numbers
from vestige.report.changes import WEIGHTS, beyond, evidence, weight, with_numbers
from vestige.report.pages.layer_parts.group import Group, Measure
from vestige.report.types import Finding
from vestige.report.wording import VERDICTS, be, capital, layer, layers, listing

DROP = 0.01
"""'The lowest layer shown to drop': by more than one point, the whole interval."""
_PROPERTY, _NOTE = 1.0, 0.6
"""Weights of what explains a change: below the change itself, and below 1 where nothing is tested."""


def group_findings(group: Group, judging: Settings) -> list[Finding]:
    """All findings of one tuned model on one task under one setting."""
    made = (_changes(group, judging), _steady(group), _selectivity(group, judging), _shape(group, judging))
    key = (*group.part.key, group.model)
    rests_on = (evidence(group.accuracy.changes), None, None, None)
    return [
        Finding(group.title, text, kind, matters, key, row)
        for (text, kind, matters), row in zip(made, rests_on, strict=True)
        if text
    ]


def overview(groups: Sequence[Group]) -> str:
    """How many layers of how many tasks went which way: one sentence over everything."""
    verdicts = pd.concat([group.accuracy.changes["verdict"] for group in groups])
    sizes = {
        "tuned model": len({group.model for group in groups}),
        "task": len({group.part.name for group in groups}),
        "pooling": len({group.pooling for group in groups}),
        "layer": max(len(group.accuracy.changes) for group in groups),
    }
    over = listing([f"{n} {word}s" for word, n in sizes.items() if n > 1]) or "1 layer"
    parts = [f"{name} in {n}" for name in VERDICTS if (n := int((verdicts == name).sum()))]
    subject = capital(groups[0].accuracy.metric.title)
    return f"{subject} after fine-tuning, over {over}: {listing(parts)} of {len(verdicts)} comparisons."


def _changes(group: Group, judging: Settings) -> tuple[str, str, float]:
    accuracy = group.accuracy
    sides = [(accuracy.verdict(verdict), verdict) for verdict in ("lower", "higher")]
    sides = [(side, verdict) for side, verdict in sides if len(side)]
    if not sides:
        unchanged = (accuracy.changes["verdict"] == "unchanged").all()
        return ("", "", 0.0) if unchanged else _nothing_found(group, judging)
    sides.sort(key=lambda side: -side[0]["difference"].abs().max())
    text = " ".join(_one_direction(side, verdict, group, judging) for side, verdict in sides)
    return text, sides[0][1], weight(accuracy.changes, sides[0][1])


def _one_direction(side: pd.DataFrame, verdict: str, group: Group, judging: Settings) -> str:
    """The largest change of one direction with its numbers, the others by their range."""
    one, several = ("loses", "lose") if verdict == "lower" else ("gains", "gain")
    metric, margin = group.accuracy.metric, group.accuracy.margin
    top = side.loc[side["difference"].abs().idxmax()]
    where = int(top["layer"])
    subject = f"{capital(layer(where))} of {group.model} {several if where == 0 else one}"
    text = f"{subject} {numbers.amount(metric, top['difference'])} of {metric.title} "
    text += with_numbers(metric, top, judging)
    rest = side.drop(index=where)
    if len(rest):
        sizes = rest["difference"].abs()
        low, high = numbers.text(metric, sizes.min()), numbers.amount(metric, sizes.max())
        amount = high if high.startswith(f"{low} ") else f"{low} to {high}"
        single = len(rest) == 1 and rest["layer"].iloc[0] != 0
        text += f"; {layers(rest['layer'])} {one if single else several} {amount}"
    small = side[side[["low", "high"]].abs().max(axis=1) < margin]["layer"]
    if len(small):
        text += f"; {layers(small)}: a detectable change, but one within {numbers.margin(metric, margin)}"
    return text + "."


def _nothing_found(group: Group, judging: Settings) -> tuple[str, str, float]:
    metric, rows = group.accuracy.metric, group.accuracy.changes
    sound = rows[rows["verdict"] != FAILED]
    if sound.empty:
        text = f"All probes of {group.model} or {group.reference} failed: nothing is shown of their layers."
        return text, "described", WEIGHTS["described"]
    top, kind = sound.loc[sound["difference"].abs().idxmax()], "undecided" if sound["q"].notna().any() else "described"
    nothing = (
        f"No layer of {group.model} shows a change of {metric.title}{beyond(metric, sound, judging.alpha)} that "
        "survives the correction for many tests"
        if kind == "undecided"
        else f"No layer of {group.model} has a verdict: differences are described, not tested"
    )
    largest = f"{numbers.change(metric, top['difference'])} points at {layer(int(top['layer']))}"
    text = f"{nothing}; the largest difference is {largest} {with_numbers(metric, top, judging)}."
    return text, kind, WEIGHTS[kind]


def _steady(group: Group) -> tuple[str, str, float]:
    accuracy = group.accuracy
    margin, unchanged = numbers.margin(accuracy.metric, accuracy.margin), accuracy.verdict("unchanged")["layer"]
    undecided = accuracy.verdict("undecided")
    parts = []
    if len(unchanged) == len(accuracy.changes):
        parts.append(f"All layers of {group.model} are unchanged within {margin}.")
    elif len(unchanged):
        parts.append(f"{capital(layers(unchanged))} {be(list(unchanged))} unchanged within {margin}.")
    if len(undecided):
        reach = undecided[["low", "high"]].abs().max(axis=None)
        parts.append(
            f"{capital(layers(undecided['layer']))} {be(list(undecided['layer']))} undecided: intervals reach as far "
            f"as {numbers.amount(accuracy.metric, reach)} from zero, which shows neither a change nor its absence."
        )
    kind = "unchanged" if len(unchanged) else "undecided"
    return " ".join(parts), kind, WEIGHTS[kind]


def _shape(group: Group, judging: Settings) -> tuple[str, str, float]:
    """What verdicts and intervals show of the two curves; where they show nothing, nothing is said."""
    return " ".join(text for text in (_first_drop(group, judging), _best_layers(group)) if text), "note", _NOTE


def _first_drop(group: Group, judging: Settings) -> str:
    """The lowest of several layers that are significantly lower, by more than `DROP` in all of the interval."""
    metric, lower = group.accuracy.metric, group.accuracy.verdict("lower")
    drops = lower[lower["high"] < -DROP]
    if len(drops) < 2:
        return ""
    first = drops.iloc[0]
    at = f"{layer(int(first['layer']))} {with_numbers(metric, first, judging)}"
    return f"The lowest layer shown to drop by more than {numbers.margin(metric, DROP)}: {at}."


def _best_layers(group: Group) -> str:
    """Whether the best layers of base and tuned change places: one has changed, and intervals are apart in both."""
    metric, rows = group.accuracy.metric, group.accuracy.changes
    rows = rows[rows["verdict"] != FAILED]
    if rows.empty:
        return ""
    old, new = rows.loc[rows["base"].idxmax()], rows.loc[rows["tuned"].idxmax()]
    changed = {old["verdict"], new["verdict"]} & {"lower", "higher"}
    if not (changed and old["base_low"] > new["base_high"] and new["tuned_low"] > old["tuned_high"]):
        return ""
    before, after = layer(int(old["layer"])), layer(int(new["layer"]))
    levels = [
        numbers.level(metric, *(one[f"{side}{end}"] for end in ("", "_low", "_high")))
        for side in ("base", "tuned")
        for one in (old, new)
    ]
    return (
        f"{capital(before)} and {after} change places: {levels[0]} and {levels[1]} in {group.reference}, "
        f"{levels[2]} and {levels[3]} in {group.model}."
    )


def _selectivity(group: Group, judging: Settings) -> tuple[str, str, float]:
    """Whether a loss of accuracy is one of the property or one of the capacity to memorise words."""
    control, selectivity = group.control, group.selectivity
    if control is None or selectivity is None:
        return "", "", 0.0
    lost = [int(n) for n in group.accuracy.verdict("lower")["layer"] if n in selectivity.changes.index]
    falls, fails = (set(one.verdict("lower")["layer"]) for one in (selectivity, control))
    of_property = [n for n in lost if n in falls]
    of_capacity = [n for n in lost if n in fails - falls]
    unclear = [n for n in lost if n not in falls | fails]
    parts = []
    if of_property:
        parts.append(
            f"At {layers(of_property)} selectivity falls with accuracy{_worst(selectivity, of_property, judging)}: "
            "more is lost than the probe's capacity to memorise words."
        )
    if of_capacity:
        parts.append(
            f"At {layers(of_capacity)} the control task loses as well{_worst(control, of_capacity, judging)}, and "
            "selectivity is not shown to fall: there the probe may have lost capacity to memorise words "
            "rather than the property."
        )
    if unclear:
        parts.append(f"At {layers(unclear)} neither the control task nor selectivity is shown to fall.")
    return " ".join(parts), *(("lower", _PROPERTY) if of_property else ("note", _NOTE))


def _worst(measure: Measure, among: list[int], judging: Settings) -> str:
    """', most at layer 6 (40.0 -> 37.9, ...)'."""
    worst = measure.changes.loc[among].sort_values("difference").iloc[0]
    at = f", most at {layer(int(worst['layer']))}" if len(among) > 1 else ""
    return f"{at} {with_numbers(measure.metric, worst, judging)}"
