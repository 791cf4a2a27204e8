"""How sure a ranking of neurons is: the gap of its probe, and what a re-fit has in common with it."""

from vestige.report.neuron_rows import STABLE, TOP, NeuronGroup
from vestige.report.tables import Table
from vestige.report.wording import DASH, GLUE, listing, number

_GAPS = {
    "objective": "objective",
    "optimality_gap": "gap at most",
    "refit_objective": "objective of the re-fit",
    "refit_optimality_gap": "its gap at most",
}
_CHANCE = "which neurons are chosen, and in which layers, is in part chance"


def stable(group: NeuronGroup, root: str) -> str:
    """How far the ranking is the solver's doing: the gap of its probe, and what a re-fit has in common with it."""
    models = [(model, common) for model in (root, *group.tuned_from(root)) if (common := group.stability(model))]
    if not models:
        return ""
    levels = listing([f"{common.percent()}{GLUE}% in {model}" for model, common in models])
    text = f"A re-fit of the probe that ranks the neurons has {levels} of the top {100 * TOP:g}{GLUE}% in common"
    gap, objective = (group.measure(name, root) for name in ("optimality_gap", "objective"))
    if gap is not None and objective is not None:
        text += (
            f"; in {root} its objective of {number(objective.mean, 3)} may be {number(gap.mean, 3)} above the optimum"
        )
    if min(common.low for _, common in models) >= STABLE:
        return f"{text}."
    return f"{text}. Below {100 * STABLE:g}{GLUE}%, {_CHANCE}."


def in_common(group: NeuronGroup, models: list[str], subset: str) -> str:
    """' A re-fit has 81.0 % in base and 70.2 % in tuned of them in common.'"""
    found = [(model, common) for model in models if (common := group.stability(model, subset))]
    levels = listing([f"{common.percent()}{GLUE}% in {model}" for model, common in found])
    return f" A re-fit has {levels} of them in common." if found else ""


def stability_table(group: NeuronGroup) -> Table | None:
    """The gaps of all probes and of their re-fits, and the tops that they have in common."""
    tops = sorted({float(x) for x in group.select("ranking_overlap", axis="share")["x"]})
    if not tops:
        return None
    rows = []
    for model in group.with_twins:
        gaps = [group.measure(name, model) for name in _GAPS]
        common = [group.measure("ranking_overlap", model, axis="share", x=x) for x in tops]
        if any(common):
            shares = [DASH if one is None else one.percent() for one in common]
            rows.append([model, *(DASH if one is None else number(one.mean, 3) for one in gaps), *shares])
    return Table("", ["model", *_GAPS.values(), *(f"top {100 * x:g}{GLUE}% in common (%)" for x in tops)], rows)


def warning(group: NeuronGroup) -> str:
    """Which rankings are in part chance; empty where none is."""
    shaky = [model for model in group.with_twins if (found := group.stability(model)) and found.low < STABLE]
    low = f"less than {100 * STABLE:g}{GLUE}% of the top {100 * TOP:g}{GLUE}%"
    return f" Of {listing(shaky)} a re-fit has {low} in common: {_CHANCE}." if shaky else ""
