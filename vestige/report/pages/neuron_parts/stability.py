"""How sure a ranking of neurons is: the gap of its probe, and what a re-fit has in common with it."""

from collections.abc import Sequence

from vestige.report.pages.neuron_parts.rows import TOP, NeuronTask, Selection, percent
from vestige.report.types import Block, Finding, Table
from vestige.report.wording import DASH, GLUE, listing, number

STABLE = 0.8
"""A ranking whose re-fit has less than this of its top in common is in part the solver's choice."""
_GAPS = {
    "objective": "objective",
    "optimality_gap": "gap at most",
    "refit_objective": "objective of the re-fit",
    "refit_optimality_gap": "its gap at most",
}
_CHANCE = "which neurons are chosen, and in which layers, is in part chance"
_TOP = f"the top {100 * TOP:g}{GLUE}%"


def stable(task: NeuronTask) -> list[Finding]:
    """How far rankings are the solver's doing: the gap of the probe, and what a re-fit has in common with it."""
    made = []
    for root in task.roots:
        models = [(model, common) for model in (root, *task.tuned_from(root)) if (common := task.stability(model))]
        if not models:
            continue
        levels = listing([f"{common.percent()}{GLUE}% in {model}" for model, common in models])
        text = f"A re-fit of the probe that ranks the neurons has {levels} of {_TOP} in common"
        gap, objective = (task.measure(name, root) for name in ("optimality_gap", "objective"))
        if gap is not None and objective is not None:
            above = f"{number(gap.mean, 3)} above the optimum"
            text += f"; in {root} its objective of {number(objective.mean, 3)} may be {above}"
        if min(common.low for _, common in models) < STABLE:
            text += f". Below {100 * STABLE:g}{GLUE}%, {_CHANCE}"
        made.append(Finding(task.lead, f"{text}.", "note", 0.6, task.part.key))
    return made


def in_common(task: NeuronTask, chosen: Selection) -> str:
    """' A re-fit has 81.0 % in base and 70.2 % in tuned of them in common.'"""
    found = [(model, common) for model in task.models if (common := task.stability(model, chosen))]
    levels = listing([f"{common.percent()}{GLUE}% in {model}" for model, common in found])
    return f" A re-fit has {levels} of them in common." if found else ""


def stability_block(task: NeuronTask) -> Block | None:
    """The gaps of all probes and of their re-fits, and the tops that they have in common."""
    tops = sorted({float(x) for x in task.select("ranking_overlap", axis="share")["x"]})
    if not tops:
        return None
    rows = []
    for model in task.with_twins:
        gaps = [task.measure(name, model) for name in _GAPS]
        common = [task.measure("ranking_overlap", model, axis="share", x=x) for x in tops]
        if any(common):
            rows.append([model, *(DASH if one is None else number(one.mean, 3) for one in gaps), *map(percent, common)])
    shaky = [model for model in task.with_twins if (found := task.stability(model)) and found.low < STABLE]
    low = f"less than {100 * STABLE:g}{GLUE}% of {_TOP}"
    warning = f" Of {listing(shaky)} a re-fit has {low} in common: {_CHANCE}." if shaky else ""
    return Block(
        "How sure is the ranking?",
        "Probes are trained until they are near their optimum: at most so far above it as the gap says. A re-fit has "
        "the same words and penalties, another order of mini-batches and another beginning; at the optimum it would "
        f"be the same probe. It says nothing of other training sentences{task.ranges}.{warning}",
        tables=[Table("", ["model", *_GAPS.values(), *(f"top {100 * x:g}{GLUE}% in common (%)" for x in tops)], rows)],
    )


def limits(tasks: Sequence[NeuronTask]) -> list[str]:
    """What minimal sets do not say; and the rankings of which a re-fit has too little in common."""
    lines = []
    if any(task.deltas or len(task.select("minimal_neurons")) for task in tasks):
        lines.append(
            "How few neurons are enough, and in which layers they are, has no interval: with other sentences other "
            "neurons may be chosen, for many of them tell much the same."
        )
    for task in tasks:
        rows = task.select("ranking_overlap", axis="share", x=TOP)
        rows = rows[rows["value"] < STABLE]
        if len(rows):
            lines.append(
                f"{task.part.name}: a re-fit of the probe that ranks neurons has as little as "
                f"{100 * rows['value'].min():.0f} % of the top {100 * TOP:g} % in common "
                f"({listing(list(rows['model'].unique()))}): single neurons, spreads and minimal sets are in part "
                "the solver's choice."
            )
    return lines


def explorer_note(tasks: Sequence[NeuronTask]) -> str:
    """How far the rankings of the explorer are the solver's doing; empty where that was not measured."""
    found = [common for task in tasks for name in task.models if (common := task.stability(name))]
    if not found:
        return ""
    low, high = min(one.low for one in found), max(one.high for one in found)
    levels = f"{100 * low:.0f}" if round(100 * low) == round(100 * high) else f"{100 * low:.0f} to {100 * high:.0f}"
    text = f"Re-fits of the probes have {levels}{GLUE}% of {_TOP} in common."
    return f"{text} A neuron of such a ranking may be here by chance." if low < STABLE else text
