"""What curves show, in sentences: their highest and lowest values, and where they leave their start.

Every number in a sentence is a number of the table, with its interval where the analysis gives one. One value is
called lower than another only where their intervals are apart; without intervals, numbers are given and no more.
"""

from collections.abc import Callable, Iterator

import pandas as pd

from vestige.report.curves import OWN_SCORE, SCORE, Curve, curve_frame, own_measure
from vestige.report.findings import Finding
from vestige.report.wording import GLUE, be, capital, layer, layers, listing

_HELD = Curve(SCORE, "score", "frozen blocks", unit="percent", decimals=1)
_KEPT = Curve(SCORE, "score", "kept blocks", unit="percent", decimals=1)
_DROPPED = Curve(SCORE, "score", "dropped blocks", unit="percent", decimals=1)
_LAST = Curve("perplexity", "perplexity", "last_replaced", decimals=1)
_OWN = Curve(OWN_SCORE, "score of its own task", unit="percent", decimals=1)
_ASKED = Curve("perplexity", "perplexity", decimals=1)


Rule = Callable[[pd.DataFrame], list[str]]
"""From the rows of a task to sentences."""


def chapter_findings(analysis: str, rows: pd.DataFrame, title: str) -> list[Finding]:
    """What is found of one task; nothing where the analysis has no rule."""
    rule = _RULES.get(analysis)
    return [] if rule is None else [Finding(title, text, "note", 2.0) for text in rule(rows)]


def _each(rule: Callable[[pd.DataFrame, str], list[str]]) -> Rule:
    """A rule for the rows of a model, applied to one model after the other."""
    return lambda rows: [text for model, mine in _models(rows) for text in rule(mine, model)]


def _most_first(rule: Callable[[pd.DataFrame, str], tuple[float, str]]) -> Rule:
    """A rule that also says how much happened to a model: models to which the most happened come first."""

    def sentences(rows: pd.DataFrame) -> list[str]:
        found = sorted((rule(mine, model) for model, mine in _models(rows)), key=lambda told: -told[0])
        return [text for _, text in found if text]

    return sentences


def _models(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for model, mine in rows.groupby("model", sort=False):
        yield str(model), mine


def _frozen(rows: pd.DataFrame, model: str) -> list[str]:
    points = _points(rows, _HELD, model)
    if -1 not in points.index or len(points) < 3:
        return []
    whole, head = points.loc[-1], points.iloc[-1]
    deep = [x for x in points.index if x >= 0 and not _below(points.loc[x], whole)]
    if deep:
        reach = "the embeddings alone" if deep[-1] == 0 else f"the embeddings and {_blocks(deep[-1])}"
        text = f"With {reach} of {model} frozen the score {_told(points.loc[deep[-1]], _HELD)} is not shown to fall"
        text += f" below that of the whole tuned model {_told(whole, _HELD)}"
    else:
        text = f"Whatever is frozen in {model}, the score is below that of the whole tuned model {_told(whole, _HELD)}"
    return [f"{text}; with the head alone learning it is {_told(head, _HELD)}."]


def _cut(rows: pd.DataFrame, model: str) -> list[str]:
    points = _points(rows, _KEPT, model)
    if len(points) < 2:
        return []
    whole = points.iloc[-1]
    enough = next((x for x in points.index if not _below(points.loc[x], whole)), points.index[-1])
    first = points.iloc[0]
    text = f"Cut to {_blocks(points.index[0])}, {model} scores {_told(first, _KEPT)}, whole {_told(whole, _KEPT)}"
    if enough != points.index[-1]:
        text += f"; with {_blocks(enough)}, {_told(points.loc[enough], _KEPT)}, it is not shown to fall below that"
    return [f"{text}."]


def _pruned(rows: pd.DataFrame, model: str) -> list[str]:
    frame = curve_frame(rows, _DROPPED, [model])
    whole = frame[frame["subset"] == "all"]
    if whole.empty:
        return []
    said = [
        f"without its {subset} {_blocks(int(row.x))} {_told(row, _DROPPED)}"
        for subset in ("top", "bottom")
        for _, row in frame[frame["subset"] == subset].iterrows()
    ]
    return [f"Whole, {model} scores {_told(whole.iloc[0], _DROPPED)}; {listing(said)}."] if said else []


def _restored(rows: pd.DataFrame, model: str) -> list[str]:
    points = _points(rows, _LAST, model, "layers")
    reference = rows.loc[rows["metric"] == "reference_perplexity", "value"].astype(float)
    if points.empty or reference.empty:
        return []
    start = points.iloc[0]
    text = f"Perplexity is {_LAST.text(float(reference.mean()))} in the reference and {_told(start, _LAST)} in {model}"
    if len(points) > 1:
        best = points["value"].idxmin()
        lowest = f"with the last {_blocks(best)} replaced by the reference's"
        text += (
            f"; {lowest} it falls to {_told(points.loc[best], _LAST)}"
            if _below(points.loc[best], start)
            else "; it is not shown to fall with any number of last blocks replaced by the reference's"
        )
    return [f"{text}."]


def _least_alike(rows: pd.DataFrame, model: str) -> tuple[float, str]:
    for metric, name in (("rsa", "RSA"), ("cka", "CKA")):
        curve = Curve(metric, name)
        points = _points(rows, curve, model)
        if len(points) > 1:
            return -float(points["value"].min()), f"{name} of {model} and its reference is {_range(points, curve)}."
    return 0.0, ""


def _moved_attention(rows: pd.DataFrame, model: str) -> tuple[float, str]:
    curve = Curve("emd", "earth mover's distance", decimals=3)
    points = _points(rows, curve, model)
    if len(points) < 2:
        return 0.0, ""
    text = f"The earth mover's distance between the attention of {model} and of its reference is"
    return float(points["value"].max()), f"{text} {_range(points, curve)}."


def _range(points: pd.DataFrame, curve: Curve) -> str:
    """'0.90 (0.88 to 0.92) at layer 3 and 0.99 at layer 1, lowest and highest'; whether the two are shown to differ."""
    low, high = points.loc[points["value"].idxmin()], points.loc[points["value"].idxmax()]
    if _told(low, curve) == _told(high, curve):
        return f"{_told(low, curve)} at all layers"
    text = f"lowest at {layer(int(low.name))}, {_told(low, curve)}, and highest at {layer(int(high.name))}, "
    text += _told(high, curve)
    if not (_has_interval(low) and _has_interval(high)):
        return text
    return text if _below(low, high) else f"{text}: no layer is shown to differ from another"


def _erased(rows: pd.DataFrame) -> list[str]:
    """Of every model's own task, the largest effect first, and then of its perplexity."""
    own, asked = [], []
    for model, mine in _models(rows):
        measure = own_measure(mine)
        named = (measure or "").removeprefix("task_")
        named = named.upper() if len(named) <= 3 else named.replace("_", " ")
        own.append(_one_erased(mine, model, _OWN, f"the {named} of {model} on its own task", measure))
        asked.append(_one_erased(mine, model, _ASKED, f"the perplexity of {model}", "perplexity"))
    own.sort(key=lambda found: -found[0])
    return [text for _, text in (*own, *asked) if text]


def _one_erased(rows: pd.DataFrame, model: str, curve: Curve, what: str, metric: str | None) -> tuple[float, str]:
    """The layer at which erasing does the most, beside what random directions do there; and how much it does."""
    none, erased, random = (_points(rows, curve, model, subset) for subset in ("none", "erased", "random"))
    if erased.empty:
        return 0.0, ""
    level = _told(none.iloc[0], curve)
    always = rows.loc[rows["metric"] == f"{metric}_majority", "value"].astype(float)
    level += f" (always the same answer: {curve.text(float(always.mean()))})" if len(always) else ""
    if not all(_has_interval(point) for _, point in erased.iterrows()):
        return 0.0, f"{capital(what)} is {level}; with the property erased it is {_range(erased, curve)}."
    moved = [at for at in erased.index if _below(erased.loc[at], none.loc[at]) or _below(none.loc[at], erased.loc[at])]
    if not moved:
        where = layer(erased.index[0]) if len(erased) == 1 else "any one layer"
        return 0.0, f"{capital(what)} is {level}; erasing the property from {where} is not shown to change it."
    changes = (erased["value"] - none["value"]).loc[moved].abs()
    most = changes.idxmax()
    text = f"{capital(what)} is {level}; with the property erased from {layer(most)}"
    text += ", where the difference is largest," if len(erased) > 1 else ""
    text += f" {_told(erased.loc[most], curve)}, with random directions instead {_told(random.loc[most], curve)}."
    return float(changes[most]), text


def _best(curve: Curve, lowest: bool = False) -> Rule:
    """The layer at which a measure is best, and the layers that are not shown to be worse."""

    def rule(rows: pd.DataFrame, model: str) -> list[str]:
        points = _points(rows, curve, model)
        if len(points) < 2:
            return []
        at = points["value"].idxmin() if lowest else points["value"].idxmax()
        best, worse = points.loc[at], "higher" if lowest else "lower"
        text = f"{capital(curve.title)} of {model} is {'lowest' if lowest else 'highest'} at {layer(int(at))} "
        text += f"({_told(best, curve)})"
        if not _has_interval(best):
            return [f"{text}."]
        apart = [_below(best, other) if lowest else _below(other, best) for _, other in points.iterrows()]
        alike = [int(x) for x, far in zip(points.index, apart, strict=True) if not far and x != at]
        return [f"{text}; {layers(alike)} {be(alike)} not shown to be {worse}." if alike else f"{text}."]

    return _each(rule)


_RULES: dict[str, Rule] = {
    "freezing": _each(_frozen),
    "truncation": _each(_cut),
    "pruning": _each(_pruned),
    "perplexity": _each(_restored),
    "similarity": _most_first(_least_alike),
    "attention": _most_first(_moved_attention),
    "erasure": _erased,
    "structural_probe": _best(Curve("uuas", "the share of edges recovered", unit="percent", decimals=1)),
    "description_length": _best(Curve("bits_per_label", "the code of a label, in bits,", decimals=3), lowest=True),
    "edge_probe": _best(Curve("f1_micro", "F1", unit="percent", decimals=1)),
}


def _points(rows: pd.DataFrame, curve: Curve, model: str, subset: str | None = None) -> pd.DataFrame:
    """The points of a curve by their place."""
    frame = curve_frame(rows, curve, [model])
    if subset is not None:
        frame = frame[frame["subset"] == subset]
    return frame.drop_duplicates("x").astype({"x": int}).set_index("x").sort_index()


def _told(point: pd.Series, curve: Curve) -> str:
    """'82.1 (80.0 to 84.2)'."""
    text = curve.text(float(point["value"]))
    if pd.isna(point["low"]):
        return text
    return f"{text} ({curve.text(float(point['low']))} to {curve.text(float(point['high']))})".replace(" ", GLUE)


def _below(one: pd.Series, other: pd.Series) -> bool:
    """Whether one value is shown to be below another: their intervals are apart. Without intervals nothing is."""
    return _has_interval(one) and _has_interval(other) and bool(one["high"] < other["low"])


def _has_interval(point: pd.Series) -> bool:
    """Whether the analysis gives an interval of every run: the range of a few runs is none."""
    return bool(point["intervals"] == point["runs"] and not pd.isna(point["low"]))


def _blocks(count: int) -> str:
    return f"{int(count)} block" + "s" * (int(count) != 1)
