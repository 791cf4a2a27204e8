"""The tables and figures of the page."""

from collections.abc import Callable
from functools import partial

import altair as alt
import pandas as pd

from vestige.papers.lookup import one, pick, stands_out
from vestige.papers.merchant2020.claims import CODED, EDGES, TITLES, by_layer, edge_changes, edge_places, f1, text_read
from vestige.papers.observed import Observed
from vestige.papers.page import Page, colours_of, layer_lines, tuned_models
from vestige.papers.paper import Paper, Sides
from vestige.papers.verdicts import Estimate

INPUTS = {"mix": "a learned mix of all layers", "top": "the last layer"}
DOMAINS = ("#888888", "#ccbb44", "#ee6677", "#4477aa")


def tuned(page: Page, paper: Paper, sides: Sides) -> None:
    """Scores of the tuned models."""
    for side in sides:
        tuned_models(page, side, side.tuned(TITLES))


def edges(page: Page, paper: Paper, sides: Sides) -> None:
    """Table 1."""
    keys = [(name,) for name in EDGES if any(name in edge_places(side) for side in sides)]
    roles = list(dict.fromkeys(role for side in sides for role in side.tuned(TITLES)))
    for given, title in INPUTS.items():
        columns: dict[str, Callable[[Observed, str], str]] = {
            "base": partial(_of_base, given=given),
            "lexical": partial(_baseline, given=given, model="base", read="lexical"),
            "randomised": partial(_baseline, given=given, model="random twin", read=given),
        }
        columns |= {TITLES[role]: _edge_change(role, given) for role in roles}
        table = "Table 1" if given == "mix" else ""
        paper.by_model(page, sides, ["task"], keys, columns, f"Table 1: probes read {title}", table)
    page.text(f"F1 (micro-averaged over all labels), in percent, and changes in points. {_covered(sides)}")
    places = "; ".join(f"{name} {'/'.join(place)}" for name, place in edge_places(sides[0]).items())
    page.text(f"Read from: {places}.")


def _of_base(side: Observed, name: str, given: str) -> str:
    return f"{100 * f1(side, name, 'base', given):.1f}" if name in edge_places(side) else ""


def _baseline(side: Observed, name: str, given: str, model: str, read: str) -> str:
    if name not in edge_places(side):
        return ""
    return f"{100 * (f1(side, name, model, read) - f1(side, name, 'base', given)):+.1f}"


def _edge_change(role: str, given: str) -> Callable[[Observed, str], str]:
    def text(side: Observed, name: str) -> str:
        there = name in edge_places(side) and role in side.tuned(TITLES)
        return _change(edge_changes(side, name, given).loc[role]) if there else ""

    return text


def _covered(sides: Sides) -> str:
    """What the intervals of edge probes cover."""
    changes = pd.concat([pick(side.comparisons, analysis="edge_probe") for side in sides])
    if (changes["verdict"] == "described").all():
        return (
            "Models were tuned once and probes trained once: chance in the training of the probes is not known, and "
            "none of these differences is tested."
        )
    return (
        f"95 % intervals over sentences and {changes['seeds'].min():.0f} seeds of the probes"
        + ("" if changes["runs"].max() > 1 else "; models were tuned once: these are findings on these checkpoints")
        + ". \\* significant after correction: q at most 0.05."
    )


def _change(row: pd.Series) -> str:
    """In points, with its interval where it has one; a star where it is significant after correction."""
    if row["verdict"] == "described":
        return f"{100 * row['difference']:+.1f}"
    return f"{Estimate.of_row(row).times(100).text()}{stands_out(row)}"


def _frame(side: Observed, analysis: str, metric: str, models: list[str], **where: str) -> pd.DataFrame:
    titles = side.tuned(TITLES)
    parts = [
        pd.DataFrame({"value": values, "layer": range(len(values)), "curve": titles.get(model, model)})
        for model in models
        if len(values := by_layer(side, analysis, metric, model, **where))
    ]
    return pd.concat(parts, ignore_index=True)


def trees(page: Page, paper: Paper, sides: Sides) -> None:
    """Figure 1."""
    page.each(sides, _trees)


def _trees(page: Page, side: Observed) -> None:
    titles, tuned = {"dspr": "distances (DSpr)", "nspr": "depths (NSpr)"}, side.tuned(TITLES)
    frame = pd.concat(
        _frame(side, "structural_probe", metric, ["base", *tuned]).assign(panel=title)
        for metric, title in titles.items()
    )
    chart = layer_lines(frame, "Spearman correlation", colours_of(tuned), "tuned on")
    page.figure(chart, "figure1", "Spearman correlation of distances and depths by layer")


def similarity(page: Page, paper: Paper, sides: Sides) -> None:
    """Figures 2 and 5."""
    page.each(sides, _similarity)


def _similarity(page: Page, side: Observed) -> None:
    tuned, text = side.tuned(TITLES), text_read(side)
    frame = _frame(side, "similarity", "rsa", list(tuned), corpus=text).assign(panel=text)
    chart = layer_lines(frame, "RSA with the base model", colours_of(tuned), "tuned on")
    page.figure(chart, "figure2", f"RSA with the base model by layer, on {text}")
    chart_of_domains = _by_domain(side)
    if chart_of_domains is not None:
        page.figure(chart_of_domains, "figure5", "RSA with the base model by layer, in and out of the domain")


def _by_domain(side: Observed) -> alt.FacetChart | None:
    """Models that were measured on the corpus that they were tuned on."""
    tuned, spec = side.tuned(TITLES), side.lock["spec"]["models"]
    own = {role: spec[role]["finetune"]["task"].partition("/")[0] for role in tuned}
    corpora = list(pick(side.results, analysis="similarity")["corpus"].unique())
    parts = [
        _frame(side, "similarity", "rsa", [role], corpus=corpus).assign(curve=corpus, panel=tuned[role])
        for role in tuned
        if own[role] in corpora
        for corpus in corpora
    ]
    if not parts:
        return None
    colours = dict(zip([text_read(side), *(c for c in corpora if c != text_read(side))], DOMAINS, strict=False))
    return layer_lines(pd.concat(parts), "RSA with the base model", colours, "read")


def codes(page: Page, paper: Paper, sides: Sides) -> None:
    """Appendix B."""
    page.text(
        "A code sends the labels of the training part; where it can be, that of a corpus that the parser was not tuned "
        "on."
    )
    page.each(sides, _codes)


def _codes(page: Page, side: Observed) -> None:
    tuned, lines, depth = side.tuned(TITLES), [], side.layers
    for name, tasks in CODED.items():
        for model in ("base", *tuned):
            rows = pick(side.results, analysis="description_length", metric="codelength", model=model)
            rows = rows[rows["task"].isin(tasks) & rows["layer"].notna()]
            values = rows.groupby("layer")["value"].mean().sort_index().to_numpy(float) / 1000
            lines += [[name, tuned.get(model, model), *(f"{value:.1f}" for value in values)]] if len(values) else []
    if lines:
        head = ["labels", "tuned on", *map(str, range(depth))]
        page.table(head, lines, "Online code in kilobits, by layer", words=2)
    page.text(
        "What is saved of the code that knows only how many labels there are, in percent, at the layer that saves most "
        "in the base model, or of a mix of all layers; changes in points with 95 % intervals over sentences, of one "
        "tuning run. Where a probe that chance trains (by edge probes) has one seed, there is no interval. "
        "\\* significant after correction: q at most 0.05."
    )
    found = pick(side.comparisons, analysis="description_length", metric="saved")[["corpus", "task"]]
    lines = [_saving(side, corpus, task) for corpus, task in found.drop_duplicates().itertuples(index=False)]
    twin = ["randomised"] if "random twin" in side.lock["spec"]["models"] else []
    page.table(["labels", "read from", "base", *twin, *tuned.values()], lines, "Saved of the uniform code", words=2)
    _both_codes(page, side)


def _saving(side: Observed, corpus: str, task: str) -> list[str]:
    levels, changes = (
        pick(table, analysis="description_length", corpus=corpus, task=task, metric="saved")
        for table in (side.results, side.comparisons)
    )
    levels = levels[levels["params"].isin(changes["params"])]
    base = pick(levels, model="base")
    best = base.loc[base["value"].astype(float).idxmax()]
    where = {"input": "mix"} if pd.isna(best["layer"]) else {"layer": int(best["layer"])}
    models = [model for model in ("base", "random twin") if model in set(levels["model"])]
    cells = [f"{100 * one(levels, 'saved', model=model, **where):.1f}" for model in models]
    there = list(side.tuned(TITLES))
    cells += [_change(row) for _, row in pick(changes, **where).set_index("model").loc[there].iterrows()]
    return [f"{task} ({corpus})", str(next(iter(where.values()))), *cells]


def _both_codes(page: Page, side: Observed) -> None:
    """Online and variational codes, of the tasks that have both."""
    rows = pick(side.results, analysis="description_length", input="mix")
    variational = rows[rows["params"].isin(set(pick(rows, metric="probe_bits")["params"]))]
    for corpus, task in variational[["corpus", "task"]].drop_duplicates().itertuples(index=False):
        lines = []
        for model in ("base", "random twin", *side.tuned(TITLES)):
            mine = pick(rows, corpus=corpus, task=task, model=model)
            both = mine[mine["params"].isin(set(variational["params"]))]
            if len(both):
                online = pick(mine[~mine["params"].isin(set(both["params"]))], metric="codelength")["value"].mean()
                found = [online, *(one(both, metric) for metric in ("codelength", "probe_bits", "data_bits"))]
                name = side.tuned(TITLES).get(model, model)
                lines.append([name, *(f"{value / 1000:.1f}" for value in found)])
        head = ["tuned on", "online", "variational", "of it the probe", "of it the labels"]
        caption = f"{task} ({corpus}) by edge probes of a mix of all layers: both codes, in kilobits"
        page.table(head, lines, caption)
