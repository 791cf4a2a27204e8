"""What curves show, in sentences: where they are highest and lowest, and where they leave their start.

Every number in a sentence is a number of the table, with its interval where the analysis gives one.
"""

from collections.abc import Callable, Iterator

import pandas as pd

from vestige.report.curves import OWN_SCORE, SCORE, Curve, curve_frame, own_measure
from vestige.report.findings import Finding
from vestige.report.wording import GLUE, capital, layer, listing

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
    deep = [x for x in points.index if x >= 0 and _overlap(points.loc[x], whole)]
    if deep:
        reach = "the embeddings alone" if deep[-1] == 0 else f"the embeddings and {_blocks(deep[-1])}"
        text = f"With {reach} of {model} held fixed the score {_told(points.loc[deep[-1]], _HELD)} is not shown to fall"
        text += f" below that of the whole tuned model {_told(whole, _HELD)}"
    else:
        text = f"Whatever is held fixed in {model}, the score falls below that of the whole tuned model"
        text += f" {_told(whole, _HELD)}"
    return [f"{text}; with the head alone learning it is {_told(head, _HELD)}."]


def _cut(rows: pd.DataFrame, model: str) -> list[str]:
    points = _points(rows, _KEPT, model)
    if len(points) < 2:
        return []
    whole = points.iloc[-1]
    enough = next((x for x in points.index if _overlap(points.loc[x], whole)), points.index[-1])
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
    text = f"Perplexity goes from {_LAST.text(float(reference.mean()))} to {_told(start, _LAST)} in {model}"
    if len(points) > 1:
        best = points["value"].idxmin()
        text += f"; it is lowest, {_told(points.loc[best], _LAST)}, with the last {_blocks(best)} put back"
    return [f"{text}."]


def _least_alike(rows: pd.DataFrame, model: str) -> tuple[float, str]:
    for metric, name in (("rsa", "RSA"), ("cka", "CKA")):
        curve = Curve(metric, name)
        points = _points(rows, curve, model)
        if len(points) > 1:
            low, high = points["value"].idxmin(), points["value"].idxmax()
            if low == high:
                level = _told(points.loc[low], curve)
                text = f"{model} and its reference are equally alike at all layers ({name} {level})."
            else:
                text = (
                    f"{model} and its reference are least alike at {layer(low)} ({name} "
                    f"{_told(points.loc[low], curve)}) and most at {layer(high)} ({_told(points.loc[high], curve)})."
                )
            return -float(points.loc[low, "value"]), text
    return 0.0, ""


def _moved_attention(rows: pd.DataFrame, model: str) -> tuple[float, str]:
    curve = Curve("emd", "earth mover's distance", decimals=3)
    points = _points(rows, curve, model)
    if len(points) < 2:
        return 0.0, ""
    most, least = points["value"].idxmax(), points["value"].idxmin()
    text = (
        f"Attention of {model} moved most at {layer(most)} (earth mover's distance {_told(points.loc[most], curve)}), "
        f"least at {layer(least)} ({_told(points.loc[least], curve)})."
    )
    return float(points.loc[most, "value"]), text


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
    moved = [at for at in erased.index if not _alike(erased.loc[at], none.loc[at])]
    if not moved:
        where = layer(erased.index[0]) if len(erased) == 1 else "any one layer"
        return 0.0, f"{capital(what)} is {level}; erasing the property from {where} does not move it beyond that."
    changes = (erased["value"] - none["value"]).loc[moved].abs()
    most = changes.idxmax()
    text = f"{capital(what)} is {level}; with the property erased from {layer(most)}"
    text += ", where that does the most," if len(erased) > 1 else ""
    text += f" {_told(erased.loc[most], curve)}, with random directions instead {_told(random.loc[most], curve)}."
    return float(changes[most]), text


def _alike(one: pd.Series, other: pd.Series) -> bool:
    """Whether each of two values lies within the interval of the other; without intervals, whether they are equal."""
    if pd.isna(one["low"]) or pd.isna(other["low"]):
        return bool(one["value"] == other["value"])
    return all(a["low"] <= b["value"] <= a["high"] for a, b in ((one, other), (other, one)))


def _best(curve: Curve, lowest: bool = False) -> Rule:
    """The layer at which a measure is best."""

    def rule(rows: pd.DataFrame, model: str) -> list[str]:
        points = _points(rows, curve, model)
        if len(points) < 2:
            return []
        at = points["value"].idxmin() if lowest else points["value"].idxmax()
        side = "lowest" if lowest else "highest"
        return [f"{capital(curve.title)} of {model} is {side} at {layer(int(at))} ({_told(points.loc[at], curve)})."]

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


def _overlap(one: pd.Series, other: pd.Series) -> bool:
    """Whether one is not shown to be below the other: neither lies under the other's interval."""
    if pd.isna(one["low"]) or pd.isna(other["low"]):
        return bool(one["value"] >= other["value"])
    return bool(one["high"] >= other["value"] and other["low"] <= one["value"])


def _blocks(count: int) -> str:
    return f"{int(count)} block" + "s" * (int(count) != 1)
