"""The page of this example: `python -m examples.merchant2020 RUN` keeps the tables of a run and writes it."""

from collections.abc import Iterator

import altair as alt
import numpy as np
import pandas as pd

from examples.merchant2020 import used
from examples.page import Claim, Page, command, layer_lines, one, pick, unlearnt
from vestige.report.wording import listing
from vestige.study.run import StudyRun

TUNED = {"mnli": "MNLI", "rte": "RTE", "squad": "SQuAD", "parsing": "Parsing"}
EDGES = {
    "POS (EWT)": ("ewt_pos", "pos_spans"),
    "Dependencies (EWT)": ("ewt_arcs", "dependency_arcs"),
    "Constituents (GUM)": ("gum", "constituent"),
    "Entities (GUM)": ("gum", "entity"),
    "Coreference (GUM)": ("gum", "coref"),
    "Proto-roles (UDS)": ("roles", "protoroles"),
    "Relations (SemEval)": ("relations", "relation"),
}
SEMANTIC = ("Coreference (GUM)", "Proto-roles (UDS)", "Relations (SemEval)")
PLACES = {"wikitext2": "WikiText-2", "mnli": "MNLI dev", "squad": "SQuAD dev"}
HARDLY = 0.05
"""So small a share of a code's length is hardly a change."""
CODED = {"part of speech": "xpos", "dependency relation": "deprel"}
SAVING = {
    "part of speech": ("gum", "xpos"),
    "dependency relation": ("gum", "deprel"),
    "dependencies, by edge probes": ("gum_arcs", "dependency_arcs"),
    "entities, by edge probes": ("gum", "entity"),
}
COLOURS = {"base": "#222222", **dict(zip(TUNED.values(), ("#ccbb44", "#4477aa", "#ee6677", "#228833"), strict=True))}


def build(page: Page) -> None:
    """The whole page."""
    run = page.run
    _head(page, run)
    page.text("## What the paper says, and what is seen here")
    page.claims([*_edge_claims(run), *_tree_claims(run), *_similarity_claims(run), *_code_claims(run)])
    page.text("## Edge probes (Table 1)")
    for given, title in (("mix", "a learned mix of all layers"), ("top", "the last layer")):
        _edges(page, run, given, title)
    page.text(
        "F1 (micro-averaged over all labels), in percent; changes in points with 95 % intervals over sentences, one "
        "tuning run and one probe each, so neither another seed nor another draw of the training sets is covered. "
        "\\* shown to differ: q at most 0.05.",
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
    names = {"mnli": "MNLI", "rte": "RTE", "squad": "SQuAD", "ewt": "parsing"}
    sizes = {title: lock["corpora"][name]["splits"]["train"]["sentences"] for name, title in names.items()}
    page.text(
        "# What fine-tuning does to syntax and semantics in MiniLM (after Merchant et al. 2020)",
        "MiniLM is tuned on MNLI, RTE, SQuAD 1.1 and dependency parsing, and looked at before and after with edge "
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


def _f1(run: StudyRun, name: str, model: str, given: str) -> float:
    corpus, task = EDGES[name]
    rows = pick(run.results, analysis="edge_probe", corpus=corpus, task=task, model=model)
    return one(rows, "f1_micro", subset=given)


def _changes(run: StudyRun, name: str, given: str) -> pd.DataFrame:
    corpus, task = EDGES[name]
    found = pick(run.comparisons, analysis="edge_probe", corpus=corpus, task=task, metric="f1_micro", subset=given)
    return found.set_index("model")


def _edge_claims(run: StudyRun) -> Iterator[Claim]:
    changes = {name: _changes(run, name, "mix")["difference"].astype(float) for name in EDGES}
    gaps = {}
    for name in EDGES:
        whole = _f1(run, name, "base", "mix")
        gaps[name] = [_f1(run, name, "base", "lexical") - whole, _f1(run, name, "random twin", "mix") - whole]
    sizes = np.array([[abs(changes[name][model]) for model in TUNED] for name in EDGES])
    lowest = np.array([min(abs(gap) for gap in gaps[name]) for name in EDGES])
    small = float((sizes < lowest[:, None]).mean())
    yield Claim(
        "Fine-tuned models keep most of what edge probes find: changes are much smaller than the distance to the "
        "lexical and the randomised baseline.",
        True if small >= 0.9 else None if small > 0.5 else False,
        f"Mean size of the changes {100 * sizes.mean():.1f} points, at most {100 * sizes.max():.1f}; the nearer "
        f"baseline is {100 * lowest.mean():.1f} points away on average. In {100 * small:.0f} % of the cases the change "
        "is smaller than that distance.",
    )
    expected = {"Constituents (GUM)": "higher", **dict.fromkeys(SEMANTIC, "lower")}
    parsed = {name: _changes(run, name, "mix").loc["parsing"] for name in expected}
    against = [name for name, row in parsed.items() if row["verdict"] in {"higher", "lower"} - {expected[name]}]
    shown = all(row["verdict"] == expected[name] for name, row in parsed.items())
    yield Claim(
        "Tuned on parsing, the model gains on constituents and loses on coreference, proto-roles and relations.",
        False if against else True if shown else None,
        ", ".join(f"{name} {100 * row['difference']:+.1f}" for name, row in parsed.items())
        + " points"
        + (f"; shown to go the other way: {listing(against)}." if against else "."),
    )


def _by_layer(run: StudyRun, analysis: str, metric: str, model: str, **where: str) -> np.ndarray:
    rows = pick(run.results, analysis=analysis, metric=metric, model=model, **where)
    return rows.groupby("layer")["value"].mean().sort_index().to_numpy(float)


def _tree_claims(run: StudyRun) -> Iterator[Claim]:
    found = {model: _by_layer(run, "structural_probe", "dspr", model) for model in ("base", *TUNED)}
    change = {model: found[model] - found["base"] for model in TUNED}
    middle, parsing = len(found["base"]) // 2, change.pop("parsing")
    yield Claim(
        "Tuned on parsing, structural probes find more of the tree from the middle layers on.",
        bool((parsing[middle:] > 0.01).all()),
        f"DSpr in the middle layer {found['base'][middle]:.3f} {parsing[middle]:+.3f}, in the last "
        f"{found['base'][-1]:.3f} {parsing[-1]:+.3f}.",
    )
    yield Claim(
        "Tuned on the other tasks, little changes but for a small drop in the last layer.",
        all(abs(values[:-1]).max() < 0.03 and -0.1 < values[-1] <= 0 for values in change.values()),
        "DSpr, change of layer 0 to the last: "
        + "; ".join(f"{TUNED[m]} {', '.join(f'{value:+.3f}' for value in values)}" for m, values in change.items())
        + ".",
    )


def _similarity_claims(run: StudyRun) -> Iterator[Claim]:
    found = {model: _by_layer(run, "similarity", "rsa", model, corpus="wikitext2") for model in TUNED}
    told = "; ".join(f"{TUNED[m]} {', '.join(f'{v:.2f}' for v in values)}" for m, values in found.items())
    yield Claim(
        "Changes arise in the top layers.",
        all(values[-1] == values.min() and values[0] > 0.9 for values in found.values()),
        f"RSA with the base model on WikiText-2, layer 0 to the last: {told}.",
    )
    inner = {model: float(found[model][1:-1].mean()) for model in ("mnli", "squad", "parsing")}
    depths = "Mean RSA of the inner layers: " + ", ".join(f"{TUNED[m]} {value:.2f}" for m, value in inner.items()) + "."
    yield Claim("Parsing changes the model most deeply.", min(inner, key=inner.__getitem__) == "parsing", depths)
    yield Claim("Inference (MNLI) changes it least.", max(inner, key=inner.__getitem__) == "mnli", depths)
    yield _domain_claim(run)


def _domain_claim(run: StudyRun) -> Claim:
    told, verdicts = [], []
    for model in ("mnli", "squad"):
        rows = pick(run.comparisons, analysis="similarity", metric="rsa", model=model, other_corpus="wikitext2")
        row = rows.loc[rows["layer"].astype(int).idxmax()]
        verdicts.append(True if row["high"] < 0 else False if row["low"] > 0 else None)
        told.append(
            f"{TUNED[model]} {row['in_domain']:.2f} on its own data, {row['out_of_domain']:.2f} on WikiText-2 "
            f"(difference {row['difference']:+.2f}, {row['low']:+.2f} to {row['high']:+.2f})"
        )
    return Claim(
        "Representations of in-domain examples change far more than those of others.",
        verdicts[0] if len(set(verdicts)) == 1 else None,
        f"RSA of the last layer: {'; '.join(told)}.",
    )


def _code_claims(run: StudyRun) -> Iterator[Claim]:
    best = {
        (name, model): _by_layer(run, "description_length", "codelength", model, task=task).min() / 1000
        for name, task in CODED.items()
        for model in ("base", *TUNED)
    }
    change = {(name, m): best[name, m] / best[name, "base"] - 1 for name in CODED for m in TUNED}
    relations = {m: change["dependency relation", m] for m in TUNED}
    others = [abs(value) for (_, model), value in change.items() if model != "parsing"]
    yield Claim(
        "Tuning on parsing makes dependencies easier to learn, by their description length.",
        bool(relations["parsing"] < 0 and relations["parsing"] == min(relations.values())),
        "Shortest code over layers, in kilobits: "
        + "; ".join(
            f"{name}: base {best[name, 'base']:.1f}, " + ", ".join(f"{TUNED[m]} {best[name, m]:.1f}" for m in TUNED)
            for name in CODED
        )
        + ".",
    )
    yield Claim(
        "Tuning on the other tasks hardly changes description lengths.",
        max(others) < HARDLY,
        f"Not every one of the shortest codes above stays within {100 * HARDLY:g} % of the base model's."
        if max(others) >= HARDLY
        else f"All of the shortest codes above stay within {100 * HARDLY:g} % of the base model's.",
    )


def _edges(page: Page, run: StudyRun, given: str, title: str) -> None:
    lines = []
    for name in EDGES:
        whole = _f1(run, name, "base", given)
        lexical, random = _f1(run, name, "base", "lexical"), _f1(run, name, "random twin", given)
        changes = _changes(run, name, given)
        cells = [_change(row) for _, row in changes.loc[list(TUNED)].iterrows()]
        baselines = [f"{100 * (value - whole):+.1f}" for value in (lexical, random)]
        lines.append([name, f"{100 * whole:.1f}", *baselines, *cells])
    page.table(["task", "base", "lexical", "randomised", *TUNED.values()], lines, f"Probes read {title}")


def _change(row: pd.Series) -> str:
    """In points, with its interval; a star where it is shown."""
    shown = "*" if row["verdict"] in ("lower", "higher") else ""
    return f"{100 * row['difference']:+.1f} ({100 * row['low']:+.1f} to {100 * row['high']:+.1f}){shown}"


def _frame(run: StudyRun, analysis: str, metric: str, models: list[str], **where: str) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"value": values, "layer": range(len(values)), "curve": TUNED.get(model, model)})
        for model in models
        if len(values := _by_layer(run, analysis, metric, model, **where))
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
            values = _by_layer(run, "description_length", "codelength", model, task=task) / 1000
            lines.append([name, TUNED.get(model, model), *(f"{value:.1f}" for value in values)])
    depth = len(lines[0]) - 2
    page.table(["labels", "tuned on", *map(str, range(depth))], lines, "Online code in kilobits, by layer (GUM)")
    page.text(
        "What is saved of the code that knows only how many labels there are, in percent, at the layer that saves most "
        "in the base model, or of a mix of all layers; changes in points with 95 % intervals over sentences, of one "
        "tuning run and one order in which labels are sent. \\* shown to differ: q at most 0.05."
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
    where = {"subset": "mix"} if pd.isna(best["layer"]) else {"layer": int(best["layer"])}
    cells = [f"{100 * one(levels, 'saved', model=model, **where):.1f}" for model in ("base", "random twin")]
    cells += [_change(row) for _, row in pick(changes, **where).set_index("model").loc[list(TUNED)].iterrows()]
    return [name, str(next(iter(where.values()))), *cells]


def _both_codes(run: StudyRun, model: str) -> list[str]:
    rows = pick(run.results, analysis="description_length", corpus="gum", task="entity", model=model, subset="mix")
    priced = set(rows[rows["metric"] == "probe_bits"]["params"])
    lengths = pick(rows, metric="codelength")
    mine = rows[rows["params"].isin(priced)]
    online = lengths[~lengths["params"].isin(priced)]["value"].mean()
    found = [online, *(one(mine, metric) for metric in ("codelength", "probe_bits", "data_bits"))]
    return [TUNED.get(model, model), *(f"{value / 1000:.1f}" for value in found)]


if __name__ == "__main__":
    command(__file__, build)
