"""What the neuron analysis shows, in sentences: how few, where, how sure the ranking is, what fine-tuning moved.

Every number is one of the tables. Numbers of single models have no interval and are told as they
are; a change is claimed only where its comparison or its test does.
"""

import pandas as pd

from vestige.comparison.differences import Settings
from vestige.report.findings import Finding, with_numbers
from vestige.report.neuron_rows import Change, Measure, NeuronGroup, subset_title, within
from vestige.report.neuron_tables import KEPT, RETRAINED, subsets_of
from vestige.report.wording import (
    GLUE,
    capital,
    chance,
    count,
    layer,
    listing,
    number,
    percent,
    signed,
    size,
    threshold,
)


def neuron_findings(group: NeuronGroup, title: str, settings: Settings) -> list[Finding]:
    """All findings of one task under one setting; smaller ranks first on the page."""
    made: list[tuple[str, str, float]] = []
    for root in group.roots:
        made += [(few(group, root), "note", 0.0), (where(group, root), "note", 1.0)]
        made += [(ranking(group, root), "note", 2.0), (selectivity(group, root), "note", 3.0)]
    for pair in group.pairs:
        made += [(*compared(group, pair, settings), 0.5), (*moved(group, pair, settings), 0.6)]
    key = (group.corpus, group.task, group.setting.params)
    return [Finding(title, text, kind, rank, key) for text, kind, rank in made if text]


def few(group: NeuronGroup, root: str) -> str:
    """How few neurons are enough, in a model and in those tuned from it."""
    total = group.measure("neurons", root)
    sizes = [(name, group.measure("minimal_neurons", root, subset=name)) for _, name in group.deltas]
    found = [(name, size) for name, size in sizes if size is not None]
    if total is None or not found:
        return ""
    smaller = [(name, size) for name, size in found if size.mean < total.mean]
    if not smaller:
        return f"In {root} no set smaller than all {total.count()} neurons comes{within(found[0][0])} of all of them."
    parts = [f"{size.count()} ({percent(size.mean / total.mean)}{GLUE}%)" for _, size in smaller]
    ways = [f"{part} to come{within(name)}" for part, (name, _) in zip(parts[1:], smaller[1:], strict=True)]
    text = (
        f"{parts[0]} of the {total.count()} neurons of {root} are enough to come{within(smaller[0][0])} of all of them "
        f"on dev{', '.join(['', *ways])}."
    )
    reached = [group.measure("accuracy", root, subset=name) for name, _ in smaller]
    whole = group.measure("accuracy", root, subset="all")
    if whole is not None:
        levels = listing([level.percent() for level in reached if level is not None])
        text += f" On {group.scored} they reach {levels}{GLUE}%, all neurons {whole.percent()}{GLUE}%."
    after = []
    for model in group.tuned_from(root):
        own = [group.measure("minimal_neurons", model, subset=name) for name, _ in smaller]
        after.append(f"{listing([size.count() for size in own if size is not None])} in {model}")
    return text + (f" After fine-tuning: {listing(after)}." if after else "")


def where(group: NeuronGroup, root: str) -> str:
    """In which layers the neurons of the tightest minimal set are."""
    if not group.deltas:
        return ""
    subset = group.deltas[0][1]
    spread = layer_spread(group, root, subset)
    if spread is None or not spread.sum():
        return ""
    shares = spread / spread.sum()
    home = int(shares.idxmax())
    middle = int(shares.index[shares.cumsum() >= 0.5 - 1e-9][0])
    half = "are embeddings" if middle == 0 else f"lie at or below {layer(middle)}"
    text = (
        f"Of the {count(round(spread.sum()))} neurons of {root}'s {subset_title(subset)} the largest part lies in "
        f"{layer(home)} ({percent(shares[home])}{GLUE}%; an even spread would put {percent(1 / len(shares))}{GLUE}% "
        f"there); half of them {half}."
    )
    after = []
    for model in group.tuned_from(root):
        own = layer_spread(group, model, subset)
        if own is not None and own.sum():
            top = int(own.idxmax())
            after.append(f"{layer(top)} in {model} ({percent(own[top] / own.sum())}{GLUE}%)")
    return text + (f" After fine-tuning it is {listing(after)}." if after else "")


def layer_spread(group: NeuronGroup, model: str, subset: str) -> pd.Series | None:
    """Neurons of a selection by layer, the mean over runs."""
    rows = group.select("selected_neurons", model, subset=subset)
    return None if rows.empty else rows.groupby("layer")["value"].mean()


def ranking(group: NeuronGroup, root: str) -> str:
    """Whether silencing all but the top, random or bottom neurons bears the ranking out."""
    whole, levels = group.measure("accuracy", root, subset="all"), _silenced(group, root)
    if whole is None or not levels:
        return ""
    top, drawn, bottom = levels
    share = subsets_of(group, KEPT)[0].split()[1].replace("%", f"{GLUE}%")
    holds = top.mean > drawn.mean > bottom.mean
    verdict = "holds" if holds else "holds in part" if top.mean > bottom.mean else "does not hold"
    text = (
        f"The ranking {verdict} in {root}: with all other neurons silenced the top {share} reach {top.percent()}"
        f"{GLUE}%, a random {share} {drawn.percent()}{GLUE}%, the bottom {share} {bottom.percent()}{GLUE}%; "
        f"all neurons {whole.percent()}{GLUE}% ({group.scored})."
    )
    after = [
        f"{', '.join(level.percent() for level in own)} in {model}"
        for model in group.tuned_from(root)
        if (own := _silenced(group, model))
    ]
    return text + (f" After fine-tuning: {listing(after)}." if after else "")


def _silenced(group: NeuronGroup, model: str) -> list[Measure]:
    """Accuracy with the top, a random and the bottom share kept; empty unless all three are there."""
    names = {name.split()[0]: name for name in subsets_of(group, KEPT)}
    found = [
        group.measure("accuracy", model, subset=names[side]) for side in ("top", "random", "bottom") if side in names
    ]
    levels = [level for level in found if level is not None]
    return levels if len(levels) == 3 else []


def selectivity(group: NeuronGroup, root: str) -> str:
    """Whether the small set leaves the probe less room to memorise words."""
    if not group.deltas:
        return ""
    subset = group.deltas[0][1]
    whole = group.measure("selectivity", root, subset="all")
    small = group.measure("selectivity", root, subset=subset)
    neurons = group.measure("minimal_neurons", root, subset=subset)
    if whole is None or small is None or neurons is None:
        return ""
    higher = small.mean > whole.mean
    reading = (
        "the small set leaves the probe less room to memorise words"
        if higher
        else "the small set does not leave the probe less room to memorise words"
    )
    return (
        f"Selectivity of {root} is {whole.percent()} points with all neurons and {small.percent()} with the "
        f"{neurons.count()} of the minimal set: {reading}."
    )


def compared(group: NeuronGroup, pair: tuple[str, str], settings: Settings) -> tuple[str, str]:
    """What fine-tuning does to the probe on all neurons and to new ones on the top and the bottom; and the kind."""
    rows = of_pair(group.compared, pair)
    if len(rows):
        rows = rows[(rows["subset"] == "all") | rows["subset"].str.endswith(RETRAINED)]
    if rows.empty:
        return "", ""
    rows = rows.set_index("subset", drop=False).rename_axis(None)
    said = [_one_probe(row, settings) for _, row in rows[rows["subset"] == "all"].iterrows()]
    anew = [_one_probe(row, settings) for _, row in rows[rows["subset"] != "all"].iterrows()]
    said += [f"trained anew, {listing(anew)}"] if anew else []
    text = " ".join([f"{pair[1]} against {pair[0]}: {'; '.join(said)}.", *_redundancy(rows)])
    found = rows[rows["verdict"].isin(["lower", "higher"])]
    largest = found if len(found) else rows
    return text, str(largest.loc[largest["difference"].abs().idxmax(), "verdict"])


def _one_probe(row: pd.Series, settings: Settings) -> str:
    """'the bottom 5 % lose 2.8 points (...)'."""
    all_of_them = row["subset"] == "all"
    title = subset_title(row["subset"].removesuffix(RETRAINED))
    subject = "the probe on all neurons" if all_of_them else f"the {title}"
    if row["verdict"] in ("lower", "higher"):
        one, several = ("loses", "lose") if row["verdict"] == "lower" else ("gains", "gain")
        return f"{subject} {one if all_of_them else several} {size(row['difference'])} {with_numbers(row, settings)}"
    verb = "is" if all_of_them else "are"
    limit = f" within {threshold(settings.margin)}" if row["verdict"] == "unchanged" else ""
    return f"{subject} {verb} {row['verdict']}{limit} {with_numbers(row, settings, q=False)}"


def moved(group: NeuronGroup, pair: tuple[str, str], settings: Settings) -> tuple[str, str]:
    """Where the selected neurons went, and how many were exchanged."""
    model = pair[1]
    for selection in group.selections(model):
        distance, mean = (group.change(model, selection, name) for name in ("earth_mover", "mean_layer"))
        if distance is None or mean is None:
            continue
        text, sure = _shift(distance, mean, settings)
        exchange = [group.change(model, selection, name) for name in ("stayed", "left", "entered")]
        if all(found is not None for found in exchange):
            stayed, left, entered = (number(found.value, 0) for found in exchange if found is not None)
            text += f" {stayed} neurons stay in the selection, {left} leave it and {entered} enter it"
            text += f" (means over {distance.runs} runs)." if distance.runs > 1 else "."
        return (
            f"{capital(subset_title(selection))} of {model} against {pair[0]}: {text}",
            "note" if sure else "undecided",
        )
    return "", ""


def _shift(distance: Change, mean: Change, settings: Settings) -> tuple[str, bool]:
    """The move of the mean layer and the distance beside what chance alone gives; whether a move is shown.

    A smaller set is another spread even where nothing moved, so that a move is measured from what
    chance gives, not from zero; intervals over few runs are narrow, so that the tests of most runs
    have to agree with them.
    """
    hits = sum(p <= settings.alpha for p in mean.p)
    sure = bool(mean.p) and 2 * hits > len(mean.p)
    numbers = [f"mean layer {signed(mean.value, 2)}, by chance {signed(mean.expected, 2)}"]
    if not pd.isna(mean.low):
        sure = sure and (mean.low > max(0, mean.expected) or mean.high < min(0, mean.expected))
        level = f"{100 * settings.confidence:g}{GLUE}% interval over {mean.runs} runs"
        numbers.append(f"{level} {signed(mean.low, 2)} to {signed(mean.high, 2)}")
    numbers.append(_tests(mean.p, settings))
    way = "lower" if mean.value < 0 else "higher"
    claim = f"the neurons move to {way} layers" if sure else "no move to lower or higher layers is shown"
    apart = f"earth mover's distance {number(distance.value, 2)} layers, by chance {number(distance.expected, 2)}"
    return f"{claim} ({'; '.join(numbers)}); {apart} ({_tests(distance.p, settings)}).", sure


def _tests(values: tuple[float, ...], settings: Settings) -> str:
    """'p = 0.012' of one run, 'p at most 0.05 in 2 of 3 runs' of several."""
    if len(values) < 2:
        return chance("p", values[0]) if values else "no test"
    return f"p at most {settings.alpha:g} in {sum(p <= settings.alpha for p in values)} of {len(values)} runs"


def _redundancy(rows: pd.DataFrame) -> list[str]:
    """What a change of the bottom neurons that is unlike that of the top says (durrani2021, section 4.2)."""
    for name in rows.index:
        top = str(name).replace("bottom ", "top ")
        if not str(name).startswith("bottom ") or not str(name).endswith(RETRAINED) or top not in rows.index:
            continue
        low, high = rows.loc[name], rows.loc[top]
        share = str(name).split()[1].replace("%", f"{GLUE}%")
        if low["verdict"] == "lower" and low["high"] < high["low"]:
            return [
                f"The bottom {share} lose more than the top {share}, which speaks for a property held less redundantly."
            ]
        if low["verdict"] == "higher" and low["low"] > high["high"]:
            return [
                f"The bottom {share} gain more than the top {share}, which speaks for a property held more redundantly."
            ]
    return []


def of_pair(frame: pd.DataFrame, pair: tuple[str, str]) -> pd.DataFrame:
    """The rows of a tuned model against its reference."""
    if frame.empty:
        return frame
    return frame[(frame["reference"] == pair[0]) & (frame["model"] == pair[1]) & (frame["metric"] == "accuracy")]
