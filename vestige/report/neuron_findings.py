"""What the neuron analysis shows, in sentences: how few, where, how sure the ranking is, what fine-tuning moved.

Every number is one of the tables. Numbers of single models have no interval and are given as they
are; a change is claimed only where its comparison does, a move only where it exceeds what re-fits of
the same model show.
"""

import pandas as pd

from vestige.comparison.differences import Settings
from vestige.report.findings import Finding, with_numbers
from vestige.report.neuron_rows import Change, Measure, NeuronGroup, subset_title, within
from vestige.report.neuron_stability import stable
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
        made += [(few(group, root), "note", 0.0), (stable(group, root), "note", 0.1)]
        made += [(where(group, root), "note", 1.0), (ranking(group, root), "note", 2.0)]
        made += [(selectivity(group, root), "note", 3.0)]
    for pair in group.pairs:
        made += [(*compared(group, pair, settings), 0.5), (*moved(group, pair, settings), 0.6)]
    key = (group.corpus, group.task, group.setting.params)
    return [Finding(title, text, kind, rank, key) for text, kind, rank in made if text]


def few(group: NeuronGroup, root: str) -> str:
    """How few neurons are enough, in a model and in those tuned from it."""
    total = group.measure("neurons", root)
    if total is None or not group.deltas:
        return ""
    searched = [(name, group.measure("minimal_neurons", root, subset=name)) for _, name in group.deltas]
    found = [(name, size) for name, size in searched if size is not None]
    text = " ".join(
        f"In {root} no set smaller than all {total.count()} neurons comes{within(name)} of all of them on dev."
        for name, size in searched
        if size is None and group.missed(root, name)
    )
    if found:
        text = f"{_enough(group, root, found, total)} {text}".strip()
    after = [f"{listing(sizes)} in {model}" for model in group.tuned_from(root) if (sizes := _sizes(group, model))]
    return text + (f" Sizes of these sets: {listing(after)}." if after else "")


def _enough(group: NeuronGroup, root: str, found: list[tuple[str, Measure]], total: Measure) -> str:
    """Of the sets that are smaller than all neurons: how large they are, and what they reach."""
    parts = [f"{size.count()} ({percent(size.mean / total.mean)}{GLUE}%)" for _, size in found]
    ways = [f"{part} to come{within(name)}" for part, (name, _) in zip(parts[1:], found[1:], strict=True)]
    text = (
        f"{parts[0]} of the {total.count()} neurons of {root} are enough to come{within(found[0][0])} of all of them "
        f"on dev{', '.join(['', *ways])}."
    )
    reached = [group.measure("accuracy", root, subset=name) for name, _ in found]
    whole = group.measure("accuracy", root, subset="all")
    if whole is not None:
        levels = listing([level.percent() for level in reached if level is not None])
        text += f" On {group.scored} they reach {levels}{GLUE}%, all neurons {whole.percent()}{GLUE}%."
    return text


def _sizes(group: NeuronGroup, model: str) -> list[str]:
    """The sizes of a model's minimal sets, or that none is smaller than all neurons."""
    told = []
    for _, subset in group.deltas:
        size, missed = group.measure("minimal_neurons", model, subset=subset), group.missed(model, subset)
        if size is not None:
            told.append(f"{size.count()} (none in {missed} of {missed + size.runs} runs)" if missed else size.count())
        elif missed:
            told.append("none smaller than all neurons")
    return list(dict.fromkeys(told)) if len(set(told)) == 1 and "none" in told[0] else told


def where(group: NeuronGroup, root: str) -> str:
    """In which layers the neurons of the tightest minimal set are."""
    subset = next((name for _, name in group.deltas if layer_spread(group, root, name) is not None), None)
    spread = None if subset is None else layer_spread(group, root, subset)
    if subset is None or spread is None or not spread.sum():
        return ""
    shares = spread / spread.sum()
    home = int(shares.idxmax())
    middle = int(shares.index[shares.cumsum() >= 0.5 - 1e-9][0])
    half = "are embeddings" if middle == 0 else f"lie at or below {layer(middle)}"
    common = group.stability(root, subset)
    again = f"; a re-fit has {common.percent()}{GLUE}% of them in common" if common else ""
    return (
        f"Of the {count(round(spread.sum()))} neurons of {root}'s {subset_title(subset)} the largest part lies in "
        f"{layer(home)} ({percent(shares[home])}{GLUE}%; an even spread would put {percent(1 / len(shares))}{GLUE}% "
        f"there); half of them {half}{again}."
    )


def layer_spread(group: NeuronGroup, model: str, subset: str) -> pd.Series | None:
    """Neurons of a selection by layer, the mean over runs."""
    rows = group.select("selected_neurons", model, subset=subset)
    return None if rows.empty else rows.groupby("layer")["value"].mean()


def ranking(group: NeuronGroup, root: str) -> str:
    """What the probe reaches with all but the top, random or bottom neurons ablated."""
    whole, levels = group.measure("accuracy", root, subset="all"), _kept(group, root)
    if whole is None or not levels:
        return ""
    top, drawn, bottom = levels
    share = subsets_of(group, KEPT)[0].split()[1].replace("%", f"{GLUE}%")
    text = (
        f"With all other neurons ablated, the top {share} of {root} reach {top.percent()}{GLUE}%, a random {share} "
        f"{drawn.percent()}{GLUE}%, the bottom {share} {bottom.percent()}{GLUE}%; all neurons "
        f"{whole.percent()}{GLUE}% ({group.scored})."
    )
    after = [
        f"{', '.join(level.percent() for level in own)} in {model}"
        for model in group.tuned_from(root)
        if (own := _kept(group, model))
    ]
    return text + (f" The first three: {listing(after)}." if after else "")


def _kept(group: NeuronGroup, model: str) -> list[Measure]:
    """Accuracy with the top, a random and the bottom share kept; empty unless all three are there."""
    names = {name.split()[0]: name for name in subsets_of(group, KEPT)}
    found = [
        group.measure("accuracy", model, subset=names[side]) for side in ("top", "random", "bottom") if side in names
    ]
    levels = [level for level in found if level is not None]
    return levels if len(levels) == 3 else []


def selectivity(group: NeuronGroup, root: str) -> str:
    """Selectivity of the probe on all neurons beside that on the tightest minimal set."""
    whole = group.measure("selectivity", root, subset="all")
    for _, subset in group.deltas:
        small, neurons = (group.measure(name, root, subset=subset) for name in ("selectivity", "minimal_neurons"))
        if whole is not None and small is not None and neurons is not None:
            return (
                f"Selectivity of {root} is {whole.percent()} points with all neurons and {small.percent()} with the "
                f"{neurons.count()} of the {subset_title(subset)}."
            )
    return ""


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
    verdict = "without a verdict" if row["verdict"] == "described" else row["verdict"]
    return f"{subject} {verb} {verdict}{limit} {with_numbers(row, settings, q=False)}"


def moved(group: NeuronGroup, pair: tuple[str, str], settings: Settings) -> tuple[str, str]:
    """Whether a selection changes by more than re-fits change it and, if so, whether it moves over the layers."""
    model = pair[1]
    for selection in group.selections(model):
        names = ("left_beyond_refit", "earth_mover", "mean_layer", "stayed", "left", "entered")
        found = [change for name in names if (change := group.change(model, selection, name))]
        if len(found) < len(names):
            continue
        beyond, distance, mean, *exchange = found
        numbers = f"{_exchanged(exchange, pair)}; {_beyond(beyond, settings)}"
        title = f"{capital(subset_title(selection))} of {model} against {pair[0]}"
        if not beyond.low > 0:
            claim = "no more neurons are shown to leave the selection than re-fits of one model exchange"
            return f"{title}: {claim} ({numbers}).", "undecided"
        claim = "more neurons leave the selection than re-fits of one model exchange"
        text, sure = _shift(distance, mean, settings)
        return f"{title}: {claim} ({numbers}); {text}", "note" if sure else "undecided"
    return "", ""


def _exchanged(exchange: list[Change], pair: tuple[str, str]) -> str:
    """'80 stay, 20 leave and 30 enter; re-fits exchange 12 in base and 15 in tuned'."""
    stayed, left, entered = exchange
    runs = f", means over {left.runs} runs" if left.runs > 1 else ""
    counts = f"{_neurons(stayed.value)} stay, {_neurons(left.value)} leave and {_neurons(entered.value)} enter{runs}"
    refits = f"{_neurons(left.refit_base)} in {pair[0]} and {_neurons(left.refit_tuned)} in {pair[1]}"
    return f"{counts}; re-fits exchange {refits}"


def _beyond(found: Change, settings: Settings) -> str:
    level = f"{100 * settings.confidence:g}{GLUE}% interval"
    return f"beyond re-fits {signed(found.value, 1)}, {level} {signed(found.low, 1)} to {signed(found.high, 1)}"


def _neurons(value: float) -> str:
    return number(value, 0 if value == round(value) else 1)


def _shift(distance: Change, mean: Change, settings: Settings) -> tuple[str, bool]:
    """The move of the mean layer and the distance beside what chance alone gives; whether a move is shown.

    A smaller set is another spread even where nothing moved, so that a move is measured from what
    chance gives, not from zero; the tests of most runs have to agree with the interval.
    """
    hits = sum(p <= settings.alpha for p in mean.p)
    sure = bool(mean.p) and 2 * hits > len(mean.p)
    sure = sure and (mean.low > max(0, mean.expected) or mean.high < min(0, mean.expected))
    runs = f"{mean.runs} runs and " if mean.runs > 1 else ""
    level = f"{100 * settings.confidence:g}{GLUE}% interval over {runs}re-fits"
    numbers = [
        f"mean layer {signed(mean.value, 2)}, by chance {signed(mean.expected, 2)}",
        f"{level} {signed(mean.low, 2)} to {signed(mean.high, 2)}",
        _tests(mean.p, settings),
    ]
    way = "lower" if mean.value < 0 else "higher"
    claim = f"they move to {way} layers" if sure else "no move to lower or higher layers is shown"
    apart = f"earth mover's distance {number(distance.value, 2)} layers, by chance {number(distance.expected, 2)}"
    refits = f"re-fits {number(distance.refit_base, 2)} and {number(distance.refit_tuned, 2)}"
    return f"{claim} ({'; '.join(numbers)}); {apart}, {refits} ({_tests(distance.p, settings)}).", bool(sure)


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
