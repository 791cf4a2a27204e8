"""The page of this example: `python -m examples.merchant2020 RUN` keeps the tables of a run and writes it."""

import altair as alt
import pandas as pd

from examples.merchant2020 import claims, used
from examples.merchant2020.claims import CODED, EDGES, TUNED
from examples.page import Page, command, layer_lines, one, pick, stands_out, unlearnt
from examples.verdicts import Estimate
from vestige.report.wording import listing
from vestige.study.finished import StudyRun

PLACES = {"wikitext2": "WikiText-2", "mnli": "MNLI dev", "squad": "SQuAD dev"}
SAVING = {
    "part of speech": ("gum", "xpos"),
    "dependency relation": ("gum", "deprel"),
    "dependencies, by edge probes": ("gum_arcs", "dependency_arcs"),
    "entities, by edge probes": ("gum", "entity"),
}
COLOURS = {"base": "#222222", **dict(zip(TUNED.values(), ("#ccbb44", "#ee6677", "#228833"), strict=True))}


def build(page: Page) -> None:
    """The whole page."""
    run = page.run
    _head(page, run)
    page.claims([*claims.edges(run), *claims.trees(run), *claims.similarity(run), *claims.codes(run)])
    page.text("## Edge probes (Table 1)")
    for given, title in (("mix", "a learned mix of all layers"), ("top", "the last layer")):
        _edges(page, run, given, title)
    page.text(
        f"F1 (micro-averaged over all labels), in percent, and changes in points. {_covered(run)}",
        "## Structural probes (Figure 1)",
    )
    page.figure(_trees(run), "figure1", "Spearman correlation of distances and depths by layer")
    page.text("## Similarity to the base model (Figures 2 and 5)")
    page.figure(_on_text(run), "figure2", "RSA with the base model by layer, on WikiText-2")
    page.figure(_by_domain(run), "figure5", "RSA with the base model by layer, in and out of the domain")
    page.text(
        "## Description length (appendix B)",
        "A code sends the labels of the training part; it is GUM's, since the parser has seen the trees of EWT.",
    )
    _codes(page, run)
    used.write(page, TUNED)


def _head(page: Page, run: StudyRun) -> None:
    lock = run.tables.lock
    names = {"mnli": "MNLI", "squad": "SQuAD", "ewt": "parsing"}
    sizes = {title: lock["corpora"][name]["splits"]["train"]["sentences"] for name, title in names.items()}
    page.text(
        "# What fine-tuning does to syntax and semantics in MiniLM (after Merchant et al. 2020)",
        "MiniLM is tuned on MNLI, SQuAD 1.1 and dependency parsing, and looked at before and after with edge "
        "probes, structural probes, description lengths, representational similarity and erasure. The study file is "
        "[study.yaml](study.yaml); freezing and truncation (Figures 3 and 4) are in "
        "[merchant2020_depth](../merchant2020_depth/README.md).",
        "The paper tunes BERT on whole training sets. Here is one small model of six blocks, all-MiniLM-L6-v2, itself "
        "tuned for sentence similarity before, with training sets of "
        + listing([f"{size:,} ({title})" for title, size in sizes.items()])
        + " examples. Edges come from EWT, GUM, UDS and SemEval instead of OntoNotes. Nothing below is about BERT.",
    )
    lines = []
    for name, title in TUNED.items():
        last = lock["models"][name][0]["curve"][-1]
        scores = [f"{key.removeprefix('dev_')} {100 * value:.1f}" for key, value in last.items() if key[:4] == "dev_"]
        lines.append([title, "; ".join(scores)])
    page.table(["tuned on", "on dev"], lines, "The tuned models")
    page.text(*unlearnt(run, TUNED))


def _edges(page: Page, run: StudyRun, given: str, title: str) -> None:
    lines = []
    for name in EDGES:
        whole = claims.f1(run, name, "base", given)
        lexical, random = claims.f1(run, name, "base", "lexical"), claims.f1(run, name, "random twin", given)
        changes = claims.edge_changes(run, name, given)
        cells = [_change(row) for _, row in changes.loc[list(TUNED)].iterrows()]
        baselines = [f"{100 * (value - whole):+.1f}" for value in (lexical, random)]
        lines.append([name, f"{100 * whole:.1f}", *baselines, *cells])
    page.table(["task", "base", "lexical", "randomised", *TUNED.values()], lines, f"Probes read {title}")


def _covered(run: StudyRun) -> str:
    """What the intervals of edge probes cover."""
    changes = pick(run.comparisons, analysis="edge_probe")
    if (changes["verdict"] == "described").all():
        return (
            "Models were tuned once and probes trained once: chance in the training of the probes is not known, and "
            "none of these differences is tested."
        )
    return (
        f"95 % intervals over sentences and {changes['seeds'].min():.0f} seeds of the probes; models were tuned once: "
        "these are findings on these checkpoints. \\* significant after correction: q at most 0.05."
    )


def _change(row: pd.Series) -> str:
    """In points, with its interval where it has one; a star where it is significant after correction."""
    if row["verdict"] == "described":
        return f"{100 * row['difference']:+.1f}"
    return f"{Estimate.of_row(row).times(100).text()}{stands_out(row)}"


def _frame(run: StudyRun, analysis: str, metric: str, models: list[str], **where: str) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"value": values, "layer": range(len(values)), "curve": TUNED.get(model, model)})
        for model in models
        if len(values := claims.by_layer(run, analysis, metric, model, **where))
    ]
    return pd.concat(parts, ignore_index=True)


def _trees(run: StudyRun) -> alt.FacetChart:
    titles = {"dspr": "distances (DSpr)", "nspr": "depths (NSpr)"}
    frame = pd.concat(
        _frame(run, "structural_probe", metric, ["base", *TUNED]).assign(panel=title)
        for metric, title in titles.items()
    )
    return layer_lines(frame, "Spearman correlation", COLOURS, "tuned on")


def _on_text(run: StudyRun) -> alt.FacetChart:
    frame = _frame(run, "similarity", "rsa", list(TUNED), corpus="wikitext2").assign(panel="WikiText-2")
    return layer_lines(frame, "RSA with the base model", COLOURS, "tuned on")


def _by_domain(run: StudyRun) -> alt.FacetChart:
    frame = pd.concat(
        _frame(run, "similarity", "rsa", [model], corpus=corpus).assign(curve=title, panel=TUNED[model])
        for model in ("mnli", "squad")
        for corpus, title in PLACES.items()
    )
    colours = dict(zip(PLACES.values(), ("#888888", "#ccbb44", "#ee6677"), strict=True))
    return layer_lines(frame, "RSA with the base model", colours, "read")


def _codes(page: Page, run: StudyRun) -> None:
    lines = []
    for name, task in CODED.items():
        for model in ("base", *TUNED):
            values = claims.by_layer(run, "description_length", "codelength", model, task=task) / 1000
            lines.append([name, TUNED.get(model, model), *(f"{value:.1f}" for value in values)])
    depth = len(lines[0]) - 2
    page.table(["labels", "tuned on", *map(str, range(depth))], lines, "Online code in kilobits, by layer (GUM)")
    page.text(
        "What is saved of the code that knows only how many labels there are, in percent, at the layer that saves most "
        "in the base model, or of a mix of all layers; changes in points with 95 % intervals over sentences, of one "
        "tuning run. Where a probe that chance trains (by edge probes) has one seed, there is no interval. "
        "\\* significant after correction: q at most 0.05."
    )
    lines = [_saving(run, name) for name in SAVING]
    page.table(["labels", "read from", "base", "randomised", *TUNED.values()], lines, "Saved of the uniform code")
    lines = [_both_codes(run, model) for model in ("base", "random twin", *TUNED)]
    head = ["tuned on", "online", "variational", "of it the probe", "of it the labels"]
    page.table(head, lines, "Entities by edge probes of a mix of all layers: both codes, in kilobits")


def _saving(run: StudyRun, name: str) -> list[str]:
    corpus, task = SAVING[name]
    levels, changes = (
        pick(table, analysis="description_length", corpus=corpus, task=task, metric="saved")
        for table in (run.results, run.comparisons)
    )
    levels = levels[levels["params"].isin(changes["params"])]
    base = pick(levels, model="base")
    best = base.loc[base["value"].astype(float).idxmax()]
    where = {"input": "mix"} if pd.isna(best["layer"]) else {"layer": int(best["layer"])}
    cells = [f"{100 * one(levels, 'saved', model=model, **where):.1f}" for model in ("base", "random twin")]
    cells += [_change(row) for _, row in pick(changes, **where).set_index("model").loc[list(TUNED)].iterrows()]
    return [name, str(next(iter(where.values()))), *cells]


def _both_codes(run: StudyRun, model: str) -> list[str]:
    rows = pick(run.results, analysis="description_length", corpus="gum", task="entity", model=model, input="mix")
    priced = set(rows[rows["metric"] == "probe_bits"]["params"])
    lengths = pick(rows, metric="codelength")
    mine = rows[rows["params"].isin(priced)]
    online = lengths[~lengths["params"].isin(priced)]["value"].mean()
    found = [online, *(one(mine, metric) for metric in ("codelength", "probe_bits", "data_bits"))]
    return [TUNED.get(model, model), *(f"{value / 1000:.1f}" for value in found)]


if __name__ == "__main__":
    command(__file__, build)
