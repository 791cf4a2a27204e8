"""What is said of a drop that was taken apart. Amounts are claimed only where their verdict is."""

from collections.abc import Iterator, Sequence

import pandas as pd

from vestige.comparison.differences import Settings
from vestige.report import changes, numbers
from vestige.report.pages.transfer_parts.split import AFFINE, DROP, ROTATION, Split, parts_named, places, task_name
from vestige.report.types import Answer, Finding
from vestige.report.wording import ARROW, GLUE, capital, chance, layer, listing

_MEANT = {
    "lost": ("lost", "gained"),
    "re_encoded": ("re-encoded", "re-encoded below 0"),
    "moved": ("moved", "moved below 0"),
}
"""Where a part is shown to be above 0, and below."""


def findings(split: Split, judging: Settings, lead: str) -> Iterator[Finding]:
    """The layer that matters most, taken apart; then where every part is shown, and where it is ruled out."""
    key = (*split.part.key, split.model)
    chosen = split.chosen()
    if not split.there:
        return
    if chosen is None:
        text, kind = _quiet(split)
        yield Finding(lead, text, kind, changes.WEIGHTS[kind], key)
        return
    kind = _kind(split, "lost")
    weight = max(1.0, _size(split)) if kind in ("lower", "higher") else 1.0
    yield Finding(lead, f"{_apart(split, chosen, judging)}{_affine(split, chosen)}.", kind, weight, key)
    for name in ROTATION:
        if name in split.frames and (text := _where(split, name)):
            yield Finding(lead, text, _kind(split, name), 0.1, key)


def answers(found: Sequence[Split]) -> list[Answer]:
    """Of every tuned model a sentence over all tasks: of what the base's probes read less, what became of it."""
    by_model: dict[str, list[Split]] = {}
    for split in found:
        if split.there:
            by_model.setdefault(split.model, []).append(split)
    return [_answer(model, mine) for model, mine in by_model.items()]


def _answer(model: str, mine: Sequence[Split]) -> Answer:
    told = [(split, at) for split in mine if (at := split.chosen()) is not None]
    if told:
        kinds = [_kind(split, "lost") for split, _ in told]
        kind = next((name for name in ("lower", "higher") if name in kinds), "note")
        return Answer("kind", model, f"{capital('; '.join(_clause(*one) for one in told))}.", kind)
    if all(split.nothing for split in mine):
        said = parts_named([ROTATION[name] for name in mine[0].there if name in ROTATION])
        text = f"The base's probes read it as they read the base: nothing {said} within {_within(mine[0])}."
        return Answer("kind", model, text, "unchanged")
    return Answer("kind", model, "That the base's probes read it less than the base is not shown.", "undecided")


def _clause(split: Split, at: int) -> str:
    """'of the 12.3 points of part of speech that the base's probe misses at layer 6, 3.1 are lost and 8.2 moved'.

    Parts that are more than the whole, because others are below 0, are not said to be of it.
    """
    parts = {name: row for name in ROTATION if (row := split.at(name, at)) is not None}
    whole, metric = split.at(DROP, at), split.metric(split.there[0])
    shown = {name: row for name, row in parts.items() if row["verdict"] in ("higher", "lower")}
    amounts = [f"{_bare(split, name, row)} {_called(name, row)}" for name, row in shown.items()]
    values = [float(row["value"]) for row in shown.values()]
    if whole is None or whole["verdict"] != "higher":
        text = f"at {layer(at)}, of {task_name(split.part)}, "
    elif min(values, default=0.0) < 0 or sum(values) > whole["value"]:
        text = f"the base's probe misses {numbers.amount(metric, whole['value'])} of {task_name(split.part)} at "
        text += f"{layer(at)}, where "
        rest = numbers.change(metric, whole["value"] - sum(values))
        amounts += [f"{rest} the other parts in sum"] if len(shown) < len(parts) else []
    else:
        text = f"of the {numbers.amount(metric, whole['value'])} of {task_name(split.part)} that the base's probe "
        text += f"misses at {layer(at)}, "
    if amounts:
        first, _, called = amounts[0].partition(" ")
        amounts[0] = f"{first} {'' if text.startswith('of') else 'points '}are {called}"
    text += f"{listing(amounts)}{_out_of_reach(split, at)}" if amounts else "no part is shown"
    same, open_ = (
        [ROTATION[name] for name, row in parts.items() if row["verdict"] == verdict]
        for verdict in ("unchanged", "undecided")
    )
    text += f", nothing is {parts_named(same)} within {_within(split)}" if same else ""
    text += f", {listing(open_)} {'are' if len(open_) > 1 else 'is'} undecided" if open_ else ""
    return text


def _apart(split: Split, at: int, judging: Settings) -> str:
    """The drop at a layer and its parts, each with its interval."""
    whole, model = split.at(DROP, at), split.model
    text = f"At {layer(at)}"
    if whole is not None:
        amount = numbers.amount(split.metric(DROP), whole["value"])
        levels = (numbers.text(split.metric(DROP), whole[side]) for side in ("after", "before"))
        moved = f"{GLUE}{ARROW}{GLUE}".join(levels)
        reads = {
            "higher": f"reads {amount} less from {model} as it is",
            "lower": f"reads {amount} more from {model} as it is",
            "unchanged": f"reads as much from {model} as it is, within {_within(split)}",
        }.get(whole["verdict"], f"is not shown to read less from {model} as it is")
        text += f" the base's probe {reads} ({moved})"
    else:
        text += f", of {model}"
    said = [_part(split, name, row, judging) for name in ROTATION if (row := split.at(name, at)) is not None]
    return f"{text}: {listing(said)}" if said else text


def _part(split: Split, name: str, row: pd.Series, judging: Settings) -> str:
    metric = split.metric(name)
    if row["verdict"] == "unchanged":
        return f"nothing is {ROTATION[name]}, within {_within(split)}"
    shown = row["verdict"] in ("lower", "higher")
    ends = (-row["high"], -row["low"]) if shown and _called(name, row) == "gained" else (row["low"], row["high"])
    interval = f"{changes.interval(judging)} {numbers.span(metric, *ends)}"
    if not shown:
        return f"{ROTATION[name]} {numbers.change(metric, row['value'])} ({interval}) is not shown"
    return f"{_number(split, name, row)} {_called(name, row)} ({interval}, {chance('q', row['q'])})"


def _affine(split: Split, at: int) -> str:
    """The same under any affine map, where it is measured; what it says about the loss."""
    parts = {name: row for name in list(AFFINE)[1:] if (row := split.at(name, at)) is not None}
    said = [
        f"{_number(split, name, row)} {_called(name.removesuffix('_affine'), row)}"
        for name, row in parts.items()
        if row["verdict"] in ("higher", "lower")
    ]
    text = f"; by any affine map in place of a rotation, {listing(said)}" if said else ""
    return text + _out_of_reach(split, at)


def _out_of_reach(split: Split, at: int) -> str:
    """Of a loss, what the base's probe still reads after an affine map: that is a linear probe of the tuned model."""
    lost, beyond = split.at("lost", at), split.at("re_encoded_affine", at)
    if lost is None or beyond is None or (lost["verdict"], beyond["verdict"]) != ("higher", "lower"):
        return ""
    still = numbers.amount(split.metric("lost"), min(-beyond["value"], lost["value"]))
    return f" (of what is lost, the base's probe reads {still} after an affine map: out of reach rather than gone)"


def _where(split: Split, name: str) -> str:
    """Where a part is shown, where it is below 0, and where it is ruled out."""
    said = []
    for verdict, words in zip(("higher", "lower"), _MEANT[name], strict=True):
        rows = split.rows(name, verdict)
        if len(rows):
            top = rows.loc[rows["value"].abs().idxmax()]
            size = numbers.amount(split.metric(name), top["value"])
            most = size if len(rows) == 1 else f"up to {size}, at {layer(int(top.name))}"
            said.append(f"{words} at {places(rows)} ({most})")
    same, open_ = split.rows(name, "unchanged"), split.rows(name, "undecided")
    if len(same):
        said.append(f"nothing {ROTATION[name]} within {_within(split)} at {places(same)}")
    if len(open_):
        said.append(f"undecided at {places(open_)}")
    return f"{capital(task_name(split.part))} in {split.model}: {'; '.join(said)}." if said else ""


def _quiet(split: Split) -> tuple[str, str]:
    """What is said where no part is shown at any layer."""
    said = parts_named([ROTATION[name] for name in split.there if name in ROTATION] or ["missed"])
    if split.nothing:
        text = f"The base's probes read {split.model} as they read the base, at every layer within {_within(split)}"
        return f"{text}: nothing is {said}.", "unchanged"
    kind = "undecided" if any(len(split.rows(name, "undecided")) for name in split.there) else "described"
    return f"That anything of {task_name(split.part)} is {said} in {split.model} is not shown at any layer.", kind


def elsewhere(split: Split, judging: Settings, lead: str) -> Iterator[Finding]:
    """Whether what a layer lost is found in another layer of the tuned model."""
    if "elsewhere" not in split.frames:
        return
    metric, lost = split.metric("elsewhere"), split.rows("lost", "higher")
    for at, row in split.frames["elsewhere"].iterrows():
        if at not in lost.index or pd.isna(row["before"]):
            continue
        there, before = _best_layer(split, int(at)), _in_base(split, int(at))
        reads = (
            f"the base's probe of {layer(int(at))} reads {numbers.text(metric, row['after'])} from {there} after an "
        )
        reads += f"affine map, the tuned model's own probe {numbers.text(metric, row['before'])} from {layer(int(at))}"
        interval = f"{changes.interval(judging)} {numbers.span(metric, row['low'], row['high'])}"
        tested = f"difference {numbers.change(metric, row['value'])}, {interval}, {chance('q', row['q'])}"
        start = {
            "higher": f"What {layer(int(at))} of {split.model} lost is found in another layer, at least in part",
            "lower": f"What {layer(int(at))} of {split.model} lost is not found in another layer",
            "unchanged": f"What {layer(int(at))} of {split.model} lost is not found in another layer",
        }.get(row["verdict"], f"That another layer has what {layer(int(at))} of {split.model} lost is not shown")
        tested = f" ({tested})" if pd.notna(row["q"]) else ""
        yield Finding(lead, f"{start}: {reads}{tested}{before}.", "note", 0.2, (*split.part.key, split.model))


def _best_layer(split: Split, at: int) -> str:
    rows = _own_rows(split, "elsewhere_layer", at)
    return " or ".join(layer(int(one)) for one in sorted(set(rows)))


def _in_base(split: Split, at: int) -> str:
    rows = _own_rows(split, "elsewhere_in_base", at)
    if rows.empty:
        return ""
    return f"; in the base it reads {numbers.text(split.metric('elsewhere'), float(rows.mean()))} from there"


def _own_rows(split: Split, name: str, at: int) -> pd.Series:
    rows = split.part.rows
    return rows[(rows["model"] == split.model) & (rows["metric"] == name) & (rows["layer"] == at)]["value"]


def _number(split: Split, name: str, row: pd.Series) -> str:
    return f"{_bare(split, name, row)} points"


def _bare(split: Split, name: str, row: pd.Series) -> str:
    """In points, with a sign where it is below 0; a loss below 0 is called a gain."""
    value = abs(row["value"]) if name == "lost" else row["value"]
    return numbers.text(split.metric(name), value)


def _called(name: str, row: pd.Series) -> str:
    return "gained" if name == "lost" and row["value"] < 0 else ROTATION[name]


def _kind(split: Split, name: str) -> str:
    """The colour of a finding: lower where something is lost; what only moved has no direction."""
    up, down = len(split.rows(name, "higher")), len(split.rows(name, "lower"))
    if name == "lost" and up + down:
        return "lower" if up else "higher"
    if up + down:
        return "note"
    frame = split.frames.get(name)
    return "unchanged" if frame is not None and (frame["verdict"] == "unchanged").all() else "note"


def _size(split: Split) -> float:
    """The largest shown loss or gain, in margins of equivalence."""
    metric = split.metric("lost")
    return float(split.rows("lost", "lower", "higher")["value"].abs().max() / (metric.margin or 1.0))


def _within(split: Split) -> str:
    metric = split.metric(split.there[0])
    compared = changes.of(split.part, metric)
    margin = float(compared["margin"].max()) if len(compared) else metric.margin or 0.0
    return f"\u00b1{numbers.margin(metric, margin)}"
