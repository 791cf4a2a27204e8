"""What the paper says of edges, trees, similarity and codes, and the numbers of the run that speak to it.

Models were tuned once each: what is supported is supported of these checkpoints.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from examples.page import ENDS, one, pick
from examples.verdicts import Claim, Estimate, Part
from vestige.study.finished import StudyRun

TUNED = {"mnli": "MNLI", "squad": "SQuAD", "parsing": "Parsing"}
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
HARDLY = 0.05
"""So small a share of a code's length is hardly a change."""
CODED = {"part of speech": "xpos", "dependency relation": "deprel"}
LITTLE = 0.03
"""So small a change of a Spearman correlation is little."""
CHECKPOINTS = "Models were tuned once: this is about these checkpoints."


def f1(run: StudyRun, name: str, model: str, given: str) -> float:
    """Of an edge probe, the mean over its seeds."""
    corpus, task = EDGES[name]
    rows = pick(run.results, analysis="edge_probe", corpus=corpus, task=task, model=model)
    return one(rows, "f1_micro", input=given)


def edge_changes(run: StudyRun, name: str, given: str) -> pd.DataFrame:
    """Changes of F1 on an edge task, by model."""
    corpus, task = EDGES[name]
    found = pick(run.comparisons, analysis="edge_probe", corpus=corpus, task=task, metric="f1_micro", input=given)
    return found.set_index("model")


def by_layer(run: StudyRun, analysis: str, metric: str, model: str, column: str = "value", **where: str) -> np.ndarray:
    """A measure of a model by layer, or an end of its interval; the mean over seeds."""
    rows = pick(run.results, analysis=analysis, metric=metric, model=model, **where)
    return rows.groupby("layer")[column].mean().sort_index().to_numpy(float)


def edges(run: StudyRun) -> Iterator[Claim]:
    """Table 1."""
    parts, sizes, nearest = [], [], []
    for name in EDGES:
        whole = f1(run, name, "base", "mix")
        gap = min(abs(f1(run, name, *other) - whole) for other in (("base", "lexical"), ("random twin", "mix")))
        changes = edge_changes(run, name, "mix")
        rows = [Estimate.of_row(changes.loc[model]) for model in TUNED]
        parts += [Part(name, row, above=-gap / 2, below=gap / 2) for row in rows]
        sizes += [abs(row.value) for row in rows]
        nearest.append(gap)
    yield Claim(
        "Fine-tuned models keep most of what edge probes find: changes are much smaller than the distance to the "
        "lexical and the randomised baseline.",
        parts,
        lead="Changes within half of the distance to the nearer baseline",
        share=0.9,
        note=f"Mean size of the changes {100 * np.mean(sizes):.1f} points, at most {100 * max(sizes):.1f}; the nearer "
        f"baseline is {100 * np.mean(nearest):.1f} points away on average. {CHECKPOINTS}",
    )
    parsed = {
        name: Estimate.of_row(edge_changes(run, name, "mix").loc["parsing"])
        for name in ("Constituents (GUM)", *SEMANTIC)
    }
    yield Claim(
        "Tuned on parsing, the model gains on constituents and loses on coreference, proto-roles and relations.",
        [
            Part(name, change, below=0) if name in SEMANTIC else Part(name, change, above=0)
            for name, change in parsed.items()
        ],
        note=CHECKPOINTS,
    )


def _dspr(run: StudyRun, model: str) -> list[Estimate]:
    """Its change by layer."""
    found = pick(run.comparisons, analysis="structural_probe", metric="dspr", model=model)
    return [Estimate.of_row(row) for _, row in found.sort_values("layer").iterrows()]


def trees(run: StudyRun) -> Iterator[Claim]:
    """Figure 1."""
    parsing, base = _dspr(run, "parsing"), by_layer(run, "structural_probe", "dspr", "base")
    middle = len(parsing) // 2
    yield Claim(
        "Tuned on parsing, structural probes find more of the tree from the middle layers on.",
        [Part(f"layer {middle + number}", change, above=0) for number, change in enumerate(parsing[middle:])],
        lead="Change of DSpr",
        unit="",
        scale=1,
        decimals=3,
        note=f"Base model: {', '.join(f'{value:.3f}' for value in base[middle:])}. {CHECKPOINTS}",
    )
    others = {model: _dspr(run, model) for model in TUNED if model != "parsing"}
    inner = [Part("", change, above=-LITTLE, below=LITTLE) for changes in others.values() for change in changes[:-1]]
    last = [Part("", changes[-1], above=-0.1, below=0) for changes in others.values()]
    yield Claim(
        "Tuned on the other tasks, little changes but for a small drop in the last layer.",
        [*inner, *last],
        lead=f"Changes of DSpr within {LITTLE:g} below the last layer, and between -0.1 and 0 there",
        note="Layer 0 to the last: "
        + "; ".join(f"{TUNED[m]} {', '.join(f'{c.value:+.3f}' for c in changes)}" for m, changes in others.items())
        + f". {CHECKPOINTS}",
    )


def _rsa(run: StudyRun, model: str) -> list[Estimate]:
    """With the base model on WikiText-2, by layer; intervals over sentences."""
    ends = (by_layer(run, "similarity", "rsa", model, end, corpus="wikitext2") for end in ENDS)
    return [Estimate(*values) for values in zip(*ends, strict=True)]


def similarity(run: StudyRun) -> Iterator[Claim]:
    """Figures 2 and 5."""
    found = {model: _rsa(run, model) for model in TUNED}
    told = "; ".join(f"{TUNED[m]} {', '.join(f'{v.value:.2f}' for v in values)}" for m, values in found.items())
    yield Claim(
        "Changes arise in the top layers.",
        [
            *(Part("", values[-1] - other, below=0) for values in found.values() for other in values[:-1]),
            *(Part("", values[0], above=0.9) for values in found.values()),
        ],
        lead="RSA of the last layer minus that of every other below 0, and RSA of the embeddings above 0.9",
        note=f"RSA with the base model on WikiText-2, layer 0 to the last: {told}. {CHECKPOINTS}",
    )
    inner = {model: Estimate.mean_of(found[model][1:-1]) for model in ("mnli", "squad", "parsing")}
    depths = "Mean RSA of the inner layers: " + ", ".join(f"{TUNED[m]} {e.value:.2f}" for m, e in inner.items()) + "."
    for paper, least, side in (
        ("Parsing changes the model most deeply.", "parsing", -1),
        ("Inference (MNLI) changes it least.", "mnli", 1),
    ):
        yield Claim(
            paper,
            [
                Part(f"{TUNED[least]} minus {TUNED[other]}", inner[least] - inner[other],
                     **({"above": 0} if side > 0 else {"below": 0}))
                for other in inner
                if other != least
            ],
            lead="Difference of RSA with the base model",
            unit="",
            scale=1,
            decimals=3,
            note=f"{depths} {CHECKPOINTS}",
        )  # fmt: skip
    yield _domain(run)


def _domain(run: StudyRun) -> Claim:
    parts, told = [], []
    for model in ("mnli", "squad"):
        rows = pick(run.comparisons, analysis="similarity", metric="rsa", model=model, other_corpus="wikitext2")
        row = rows.loc[rows["layer"].astype(int).idxmax()]
        parts.append(Part(TUNED[model], Estimate.of_row(row.fillna({"runs": 1})), below=0))
        told.append(f"{TUNED[model]} {row['in_domain']:.2f} and {row['out_of_domain']:.2f}")
    return Claim(
        "Representations of in-domain examples change more than those of others.",
        parts,
        lead="RSA of the last layer, own data minus WikiText-2",
        unit="",
        scale=1,
        decimals=2,
        note=f"Own data and WikiText-2: {'; '.join(told)}. {CHECKPOINTS}",
    )


def _relative(row: pd.Series) -> Estimate:
    """The change of a code's length as a share of the base model's; `saved` is of the uniform code."""
    return Estimate.of_row(row).times(-1 / (1 - float(row["base"])))


def codes(run: StudyRun) -> Iterator[Claim]:
    """Appendix B: online codes of the labels of words."""
    found = pick(run.comparisons, analysis="description_length", corpus="gum", metric="saved")
    found = found[found["task"].isin(CODED.values()) & found["layer"].notna()]
    relations = pick(found, task=CODED["dependency relation"], model="parsing").sort_values("layer")
    yield Claim(
        "Tuning on parsing makes dependencies easier to learn, by their description length.",
        [
            Part(f"layer {int(row['layer'])}", _relative(row), below=0)
            for _, row in relations.iterrows()
            if row["layer"] > 0
        ],
        lead="Change of the length of the code for dependency relations",
        unit="%",
        note=CHECKPOINTS,
    )
    others = found[found["model"] != "parsing"]
    changes = {index: _relative(row) for index, row in others.iterrows()}
    largest = max(changes, key=lambda index: abs(changes[index].value))
    row = others.loc[largest]
    name = next(title for title, task in CODED.items() if task == row["task"])
    yield Claim(
        "Tuning on the other tasks hardly changes description lengths.",
        [Part("", change, above=-HARDLY, below=HARDLY) for change in changes.values()],
        lead=f"Changes within {100 * HARDLY:g} % of the base model's code, over layers, labels and models",
        note=f"Largest: {changes[largest].times(100).text()} % ({name}, layer {int(row['layer'])}, tuned on "
        f"{TUNED[row['model']]}). {CHECKPOINTS}",
    )
