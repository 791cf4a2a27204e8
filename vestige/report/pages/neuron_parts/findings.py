"""What the neuron analysis shows, in sentences: how few, where, what the ranking does, what fine-tuning moved.

Every number is one of the tables. Numbers of single models have no interval and are given as they
are; a change is claimed only where its comparison does, a move only where it exceeds what re-fits of
the same model show.
"""

from dataclasses import replace

import pandas as pd

from vestige.comparison.differences import Settings
from vestige.report import numbers
from vestige.report.changes import WEIGHTS, interval, with_numbers
from vestige.report.pages.neuron_parts.rows import ALL, Change, Measure, NeuronTask, Selection
from vestige.report.types import Finding
from vestige.report.wording import GLUE, capital, chance, count, layer, listing, number, signed

EXCHANGED = 0.05
"""Share of a selection that has to leave it beyond what re-fits exchange: re-fits are of the same rows, and a copy of a
model with 1 % noise on its hidden states exchanges a few neurons more than they do."""

_Rows = dict[Selection, pd.Series]
"""What a comparison says of each selection."""


def neuron_findings(task: NeuronTask, judging: Settings) -> list[Finding]:
    """All findings of one task under one setting but those on the stability of its rankings."""
    made = []
    for root in task.roots:
        texts = (few(task, root), where(task, root), ranking(task, root), selectivity(task, root))
        for text, weight in zip(texts, (0.7, 0.5, 0.4, 0.3), strict=True):
            made.append(Finding(task.lead, text, "note", weight, task.part.key))
    for pair in task.pairs:
        found = [compared(task, pair, judging), moved(task, pair, judging)]
        made += [Finding(task.lead, *one, (*task.part.key, pair[1])) for one in found if one is not None]
    return [finding for finding in made if finding.text]


def few(task: NeuronTask, root: str) -> str:
    """How few neurons are enough, in a model and in those tuned from it."""
    total = task.measure("neurons", root)
    if total is None or not task.deltas:
        return ""
    searched = {chosen: task.measure("minimal_neurons", root, chosen) for chosen in task.deltas}
    found = {chosen: size for chosen, size in searched.items() if size is not None}
    text = " ".join(
        f"In {root} no set smaller than all {total.count()} neurons comes{chosen.within} of all of them on dev."
        for chosen, size in searched.items()
        if size is None and task.missed(root, chosen)
    )
    if found:
        text = f"{_enough(task, root, found, total)} {text}".strip()
    after = [f"{listing(sizes)} in {model}" for model in task.tuned_from(root) if (sizes := _sizes(task, model))]
    return text + (f" Sizes of these sets: {listing(after)}." if after else "")


def _enough(task: NeuronTask, root: str, found: dict[Selection, Measure], total: Measure) -> str:
    """Of the sets that are smaller than all neurons: how large they are, and what they reach."""
    parts = [
        (f"{size.count()} ({number(100 * size.mean / total.mean, 1)}{GLUE}%)", chosen.within)
        for chosen, size in found.items()
    ]
    (first, within), *others = parts
    text = (
        f"{first} of the {total.count()} neurons of {root} are enough to come{within} of all of them on dev"
        f"{''.join(f', {part} to come{within}' for part, within in others)}."
    )
    reached = [task.measure("accuracy", root, chosen) for chosen in found]
    whole = task.measure("accuracy", root, ALL)
    if whole is not None:
        levels = listing([level.percent() for level in reached if level is not None])
        text += f" On {task.scored} they reach {levels}{GLUE}%, all neurons {whole.percent()}{GLUE}%."
    return text


def _sizes(task: NeuronTask, model: str) -> list[str]:
    """The sizes of a model's minimal sets, or that none is smaller than all neurons."""
    made = []
    for chosen in task.deltas:
        size, missed = task.measure("minimal_neurons", model, chosen), task.missed(model, chosen)
        if size is not None:
            made.append(f"{size.count()} (none in {missed} of {missed + size.runs} runs)" if missed else size.count())
        elif missed:
            made.append("none smaller than all neurons")
    return made[:1] if len(set(made)) == 1 and "none" in made[0] else made


def where(task: NeuronTask, root: str) -> str:
    """In which layers the neurons of the tightest minimal set are."""
    for chosen in task.deltas:
        spread = task.select("selected_neurons", root, chosen).groupby("layer")["value"].mean()
        if len(spread):
            break
    else:
        return ""
    if not spread.sum():
        return ""
    shares = 100 * spread / spread.sum()
    home = int(shares.idxmax())
    middle = int(shares.index[shares.cumsum() >= 50 - 1e-7][0])
    half = "are embeddings" if middle == 0 else f"lie at or below {layer(middle)}"
    common = task.stability(root, chosen)
    again = f"; a re-fit has {common.percent()}{GLUE}% of them in common" if common else ""
    return (
        f"Of the {count(round(spread.sum()))} neurons of {root}'s {chosen.title} the largest part lies in "
        f"{layer(home)} ({number(shares[home], 1)}{GLUE}%; an even spread would put "
        f"{number(100 / len(shares), 1)}{GLUE}% there); half of them {half}{again}."
    )


def ranking(task: NeuronTask, root: str) -> str:
    """What the probe reaches with all but the top, random or bottom neurons ablated."""
    whole, levels = task.measure("accuracy", root, ALL), _ablated(task, root)
    if whole is None or not levels:
        return ""
    top, drawn, bottom = levels
    share = task.probes("ablated")[0].share
    text = (
        f"With all other neurons ablated, the top {share} of {root} reach {top.percent()}{GLUE}%, a random {share} "
        f"{drawn.percent()}{GLUE}%, the bottom {share} {bottom.percent()}{GLUE}%; all neurons "
        f"{whole.percent()}{GLUE}% ({task.scored})."
    )
    after = [
        f"{', '.join(level.percent() for level in own)} in {model}"
        for model in task.tuned_from(root)
        if (own := _ablated(task, model))
    ]
    return text + (f" The first three: {listing(after)}." if after else "")


def _ablated(task: NeuronTask, model: str) -> list[Measure]:
    """Accuracy with the top, a random and the bottom share left; empty unless all three are there."""
    sides = {chosen.side: chosen for chosen in task.probes("ablated")}
    found = [task.measure("accuracy", model, sides[side]) for side in ("top", "random", "bottom") if side in sides]
    levels = [level for level in found if level is not None]
    return levels if len(levels) == 3 else []


def selectivity(task: NeuronTask, root: str) -> str:
    """Selectivity of the probe on all neurons beside that on the tightest minimal set."""
    whole = task.measure("selectivity", root, ALL)
    for chosen in task.deltas:
        small, neurons = (task.measure(name, root, chosen) for name in ("selectivity", "minimal_neurons"))
        if whole is not None and small is not None and neurons is not None:
            return (
                f"Selectivity of {root} is {whole.percent()} points with all neurons and {small.percent()} with the "
                f"{neurons.count()} of the {chosen.title}."
            )
    return ""


def compared(task: NeuronTask, pair: tuple[str, str], judging: Settings) -> tuple[str, str, float] | None:
    """What fine-tuning does to probes on all, top and bottom neurons: text, kind and weight."""
    rows = {chosen: row for chosen, row in task.of_pair(pair) if chosen == ALL or chosen.subset == "retrained"}
    if not rows:
        return None
    said = [_one_probe(task, chosen, row, judging) for chosen, row in rows.items() if chosen == ALL]
    anew = [_one_probe(task, chosen, row, judging) for chosen, row in rows.items() if chosen != ALL]
    said += [f"trained anew, {listing(anew)}"] if anew else []
    text = f"{pair[1]} against {pair[0]}: {'; '.join(said)}.{_redundancy(rows)}"
    shown = [row for row in rows.values() if row["verdict"] in ("lower", "higher")]
    largest = max(shown or rows.values(), key=lambda row: abs(row["difference"]))
    kind = str(largest["verdict"])
    margins = abs(largest["difference"]) / largest["margin"] if shown else WEIGHTS.get(kind, 0.0)
    return text, kind, float(margins)


def _one_probe(task: NeuronTask, chosen: Selection, row: pd.Series, judging: Settings) -> str:
    """'the bottom 5 % lose 2.8 points (...)'."""
    metric, verdict = task.part.declared.metrics["accuracy"], str(row["verdict"])
    subject = "the probe on all neurons" if chosen == ALL else f"the {chosen.part}"
    if verdict in ("lower", "higher"):
        verb = ("lose" if verdict == "lower" else "gain") + "s" * (chosen == ALL)
        return f"{subject} {verb} {numbers.amount(metric, row['difference'])} {with_numbers(metric, row, judging)}"
    limit = f" within {numbers.margin(metric, row['margin'])}" if verdict == "unchanged" else ""
    verdict = "without a verdict" if verdict == "described" else verdict
    levels = with_numbers(metric, row, judging, tested=False)
    return f"{subject} {'is' if chosen == ALL else 'are'} {verdict}{limit} {levels}"


def _redundancy(rows: _Rows) -> str:
    """What a change of the bottom neurons that is unlike that of the top says (durrani2021, section 4.2)."""
    for chosen, low in rows.items():
        high = rows.get(replace(chosen, side="top")) if chosen.side == "bottom" else None
        if high is None:
            continue
        sides = f"the top {chosen.share}, which speaks for a property held"
        if low["verdict"] == "lower" and low["high"] < high["low"]:
            return f" The bottom {chosen.share} lose more than {sides} less redundantly."
        if low["verdict"] == "higher" and low["low"] > high["high"]:
            return f" The bottom {chosen.share} gain more than {sides} more redundantly."
    return ""


def moved(task: NeuronTask, pair: tuple[str, str], judging: Settings) -> tuple[str, str, float] | None:
    """Whether a selection changes by more than re-fits change it and, if so, whether it moves over the layers."""
    model = pair[1]
    names = ("left_beyond_refit", "earth_mover", "mean_layer", "stayed", "left", "entered")
    for chosen in task.changed(model):
        found = [change for name in names if (change := task.change(model, chosen, name))]
        if len(found) < len(names):
            continue
        beyond, distance, mean, *exchange = found
        over = f"{interval(judging)} {signed(beyond.low, 1)} to {signed(beyond.high, 1)}"
        beyond_refits = f"beyond re-fits, over both fits of each model, {signed(beyond.value, 1)}, {over}"
        counts = f"{_exchanged(exchange, pair)}; {beyond_refits}"
        title = f"{capital(chosen.title)} of {model} against {pair[0]}"
        if not beyond.low > EXCHANGED * (exchange[0].value + exchange[1].value):
            claim = (
                "no more neurons are shown to leave the selection than re-fits of one model exchange, "
                f"and {100 * EXCHANGED:g} % of it"
            )
            return f"{title}: {claim} ({counts}).", "undecided", WEIGHTS["undecided"]
        claim = "far more neurons leave the selection than re-fits of one model exchange"
        text, sure = _shift(distance, mean, judging)
        kind, weight = ("note", 1.0) if sure else ("undecided", WEIGHTS["undecided"])
        return f"{title}: {claim} ({counts}); {text}", kind, weight
    return None


def _exchanged(exchange: list[Change], pair: tuple[str, str]) -> str:
    """'80 stay, 20 leave and 30 enter; re-fits exchange 12 in base and 15 in tuned'."""
    stayed, left, entered = exchange
    runs = f", means over {left.runs} runs" if left.runs > 1 else ""
    counts = f"{_neurons(stayed.value)} stay, {_neurons(left.value)} leave and {_neurons(entered.value)} enter{runs}"
    refits = f"{_neurons(left.refit_base)} in {pair[0]} and {_neurons(left.refit_tuned)} in {pair[1]}"
    return f"{counts}; re-fits exchange {refits}"


def _neurons(value: float) -> str:
    return number(value, 0 if value == round(value) else 1)


def _shift(distance: Change, mean: Change, judging: Settings) -> tuple[str, bool]:
    """The move of the mean layer and the distance beside what chance alone gives; whether a move is shown.

    A smaller set is another spread even where nothing moved, so that a move is measured from what
    chance gives, not from zero; the tests of most runs have to agree with the interval.
    """
    hits = sum(p <= judging.alpha for p in mean.p)
    sure = bool(mean.p) and 2 * hits > len(mean.p)
    sure = sure and (mean.low > max(0, mean.expected) or mean.high < min(0, mean.expected))
    runs = f"{mean.runs} runs and " if mean.runs > 1 else ""
    counts = [
        f"mean layer {signed(mean.value, 2)}, by chance {signed(mean.expected, 2)}",
        f"{interval(judging)} over {runs}re-fits {signed(mean.low, 2)} to {signed(mean.high, 2)}",
        _tests(mean.p, judging),
    ]
    way = "lower" if mean.value < 0 else "higher"
    claim = f"they move to {way} layers" if sure else "no move to lower or higher layers is shown"
    apart = f"earth mover's distance {number(distance.value, 2)} layers, by chance {number(distance.expected, 2)}"
    refits = f"re-fits {number(distance.refit_base, 2)} and {number(distance.refit_tuned, 2)}"
    return f"{claim} ({'; '.join(counts)}); {apart}, {refits} ({_tests(distance.p, judging)}).", bool(sure)


def _tests(values: tuple[float, ...], judging: Settings) -> str:
    """'p = 0.012' of one run, 'p at most 0.05 in 2 of 3 runs' of several."""
    if len(values) < 2:
        return chance("p", values[0]) if values else "no test"
    return f"p at most {judging.alpha:g} in {sum(p <= judging.alpha for p in values)} of {len(values)} runs"
