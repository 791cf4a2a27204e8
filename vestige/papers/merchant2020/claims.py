"""What the paper says of edges, trees, similarity and codes, each statement a test over the tables of a run."""

import numpy as np
import pandas as pd

from vestige.papers.lookup import ENDS, one, pick
from vestige.papers.observed import Observed
from vestige.papers.paper import Statement
from vestige.papers.verdicts import Claim, Estimate, Part

TITLES = {"mnli": "MNLI", "squad": "SQuAD", "opinions": "opinions", "parsing": "Parsing"}
"""Tuned models by role; the third is in no table of the paper."""
EDGES = {
    "POS": ("pos/pos", "ewt_pos/pos_spans", "treebank_pos/pos_spans"),
    "Constituents": ("constituents/constituent", "gum/constituent", "treebank_phrases/noun_phrases"),
    "Dependencies": ("arcs/deprel", "ewt_arcs/dependency_arcs", "treebank_arcs/dependency_arcs"),
    "Entities": ("entities/entity", "gum/entity"),
    "SRL": ("roles/srl",),
    "Coreference": ("coref/coref", "gum/coref"),
    "SPR": ("roles1/protoroles", "roles/protoroles"),
    "Relations": ("relations/relation",),
}
"""Where each property is read: at the full scale, from open corpora, from the built-in treebank."""
TEXT = ("wikitext2/text", "acceptability/acceptable")
"""Text that no model was tuned on."""
SEMANTIC = ("Coreference", "SPR", "Relations")
HARDLY = 0.05
"""So small a share of a code's length is hardly a change."""
CODED = {"part of speech": ("xpos", "pos"), "dependency relation": ("deprel",)}
"""Labels of words whose codes are told apart by layer."""
LITTLE = 0.03
"""So small a change of a Spearman correlation is little."""


def checkpoints(side: Observed) -> str:
    """What a single run supports."""
    runs = max(len(side.lock["models"].get(role, [])) for role in ("base", *side.tuned(TITLES)))
    return (
        "Models were tuned once: this is about these checkpoints." if runs < 2 else f"Intervals are over {runs} runs."
    )


def f1(side: Observed, name: str, model: str, given: str) -> float:
    """Of an edge probe, the mean over its seeds."""
    corpus, task = edge_places(side)[name]
    rows = pick(side.results, analysis="edge_probe", corpus=corpus, task=task, model=model)
    return one(rows, "f1_micro", input=given)


def edge_places(side: Observed) -> dict[str, tuple[str, str]]:
    """Corpus and task of every property that edge probes were trained for."""
    return side.places(EDGES, "edge_probe")


def edge_changes(side: Observed, name: str, given: str) -> pd.DataFrame:
    """Changes of F1 on an edge task, by model."""
    corpus, task = edge_places(side)[name]
    found = pick(side.comparisons, analysis="edge_probe", corpus=corpus, task=task, metric="f1_micro", input=given)
    return found.set_index("model")


def by_layer(side: Observed, analysis: str, metric: str, model: str, column: str = "value", **where: str) -> np.ndarray:
    """A measure of a model by layer, or an end of its interval; the mean over seeds."""
    rows = pick(side.results, analysis=analysis, metric=metric, model=model, **where)
    return rows.groupby("layer")[column].mean().sort_index().to_numpy(float)


def edges_are_kept(side: Observed) -> Claim:
    """Table 1."""
    tuned, parts, sizes, nearest = side.tuned(TITLES), [], [], []
    for name in edge_places(side):
        whole = f1(side, name, "base", "mix")
        gap = min(abs(f1(side, name, *other) - whole) for other in (("base", "lexical"), ("random twin", "mix")))
        changes = edge_changes(side, name, "mix")
        rows = {model: Estimate.of_row(changes.loc[model]) for model in tuned}
        parts += [Part(f"{name}, {tuned[model]}", row, above=-gap / 2, below=gap / 2) for model, row in rows.items()]
        sizes += [abs(row.value) for row in rows.values()]
        nearest.append(gap)
    return Claim(
        "Fine-tuned models keep most of what edge probes find: changes are much smaller than the distance to the "
        "lexical and the randomised baseline.",
        parts,
        lead="Changes within half of the distance to the nearer baseline",
        share=0.9,
        note=f"Mean size of the changes {100 * np.mean(sizes):.1f} points, at most {100 * max(sizes):.1f}; the nearer "
        f"baseline is {100 * np.mean(nearest):.1f} points away on average. {checkpoints(side)}",
    )


def parsing_trades(side: Observed) -> Claim:
    """Table 1, its last column."""
    there = edge_places(side) if "parsing" in side.tuned(TITLES) else {}
    parsed = {
        name: Estimate.of_row(edge_changes(side, name, "mix").loc["parsing"])
        for name in ("Constituents", *SEMANTIC)
        if name in there
    }
    return Claim(
        "Tuned on parsing, the model gains on constituents and loses on coreference, proto-roles and relations.",
        [
            Part(name, change, below=0) if name in SEMANTIC else Part(name, change, above=0)
            for name, change in parsed.items()
        ],
        note=checkpoints(side),
    )


def _dspr(side: Observed, model: str) -> list[Estimate]:
    """Its change by layer."""
    found = pick(side.comparisons, analysis="structural_probe", metric="dspr", model=model)
    return [Estimate.of_row(row) for _, row in found.sort_values("layer").iterrows()]


def parsing_finds_trees(side: Observed) -> Claim:
    """Figure 1."""
    parsing, base = _dspr(side, "parsing"), by_layer(side, "structural_probe", "dspr", "base")
    middle = len(parsing) // 2
    return Claim(
        "Tuned on parsing, structural probes find more of the tree from the middle layers on.",
        [Part(f"layer {middle + number}", change, above=0) for number, change in enumerate(parsing[middle:])],
        lead="Change of DSpr",
        unit="",
        scale=1,
        decimals=3,
        note=f"Base model: {', '.join(f'{value:.3f}' for value in base[middle:])}. {checkpoints(side)}",
    )


def others_keep_trees(side: Observed) -> Claim:
    """Figure 1."""
    tuned = side.tuned(TITLES)
    others = {model: _dspr(side, model) for model in tuned if model != "parsing"}
    inner = [
        Part(f"{tuned[model]}, layer {layer}", change, above=-LITTLE, below=LITTLE)
        for model, changes in others.items()
        for layer, change in enumerate(changes[:-1])
    ]
    last = [Part(f"{tuned[m]}, last layer", changes[-1], above=-0.1, below=0) for m, changes in others.items()]
    return Claim(
        "Tuned on the other tasks, little changes but for a small drop in the last layer.",
        [*inner, *last],
        lead=f"Changes of DSpr within {LITTLE:g} below the last layer, and between -0.1 and 0 there",
        unit="",
        scale=1,
        decimals=3,
        note="Layer 0 to the last: "
        + "; ".join(f"{tuned[m]} {', '.join(f'{c.value:+.3f}' for c in changes)}" for m, changes in others.items())
        + f". {checkpoints(side)}",
    )


def text_read(side: Observed) -> str:
    """The corpus that no model was tuned on, on which similarity was measured."""
    (corpus, _), *_ = side.places({"text": TEXT}, "similarity").values()
    return corpus


def _rsa(side: Observed, model: str) -> list[Estimate]:
    """With the base model, out of the domain, by layer; intervals over sentences."""
    ends = (by_layer(side, "similarity", "rsa", model, end, corpus=text_read(side)) for end in ENDS)
    return [Estimate(*values) for values in zip(*ends, strict=True)]


def changes_at_the_top(side: Observed) -> Claim:
    """Figure 2."""
    tuned = side.tuned(TITLES)
    found = {model: _rsa(side, model) for model in tuned}
    told = "; ".join(f"{tuned[m]} {', '.join(f'{v.value:.2f}' for v in values)}" for m, values in found.items())
    return Claim(
        "Changes arise in the top layers.",
        [
            *(
                Part(f"{tuned[model]}, last minus layer {layer}", values[-1] - other, below=0)
                for model, values in found.items()
                for layer, other in enumerate(values[:-1])
            ),
            *(Part(f"{tuned[model]}, embeddings", values[0], above=0.9) for model, values in found.items()),
        ],
        lead="RSA of the last layer minus that of every other below 0, and RSA of the embeddings above 0.9",
        note=f"RSA with the base model on {text_read(side)}, layer 0 to the last: {told}. {checkpoints(side)}",
    )


def _depth(side: Observed, says: str, role: str, bounds: dict[str, float]) -> Claim:
    """One model beside the others, by the mean RSA of the inner layers."""
    tuned = side.tuned(TITLES)
    inner = {model: Estimate.mean_of(_rsa(side, model)[1:-1]) for model in tuned}
    parts = [
        Part(f"{tuned[role]} minus {tuned[other]}", inner[role] - inner[other], **bounds)
        for other in inner
        if role in inner and other != role
    ]
    depths = ", ".join(f"{tuned[model]} {estimate.value:.2f}" for model, estimate in inner.items())
    return Claim(
        says,
        parts,
        lead="Difference of RSA with the base model",
        unit="",
        scale=1,
        decimals=3,
        note=f"Mean RSA of the inner layers: {depths}. {checkpoints(side)}",
    )


def parsing_changes_most(side: Observed) -> Claim:
    """Figure 2."""
    return _depth(side, "Parsing changes the model most deeply.", "parsing", {"below": 0})


def inference_changes_least(side: Observed) -> Claim:
    """Figure 2."""
    return _depth(side, "Inference (MNLI) changes it least.", "mnli", {"above": 0})


def domain(side: Observed) -> Claim:
    """Figure 5."""
    tuned, text = side.tuned(TITLES), text_read(side)
    parts, told = [], []
    for model in tuned:
        rows = pick(side.comparisons, analysis="similarity", metric="rsa", model=model)
        rows = pick(rows, other_corpus=text) if "other_corpus" in rows else rows.iloc[:0]
        if len(rows):
            row = rows.loc[rows["layer"].astype(int).idxmax()]
            parts.append(Part(tuned[model], Estimate.of_row(row.fillna({"runs": 1})), below=0))
            told.append(f"{tuned[model]} {row['in_domain']:.2f} and {row['out_of_domain']:.2f}")
    return Claim(
        "Representations of in-domain examples change more than those of others.",
        parts,
        lead=f"RSA of the last layer, own data minus {text}",
        unit="",
        scale=1,
        decimals=2,
        note=f"Own data and {text}: {'; '.join(told) or 'not measured'}. {checkpoints(side)}",
    )


def _relative(row: pd.Series) -> Estimate:
    """The change of a code's length as a share of the base model's; `saved` is of the uniform code."""
    return Estimate.of_row(row).times(-1 / (1 - float(row["base"])))


def _coded(side: Observed) -> pd.DataFrame:
    """Changes of the codes of words' labels, by layer."""
    found = pick(side.comparisons, analysis="description_length", metric="saved")
    return found[found["task"].isin(sum(CODED.values(), ())) & found["layer"].notna()]


def parsing_shortens_codes(side: Observed) -> Claim:
    """Appendix B: online codes of the labels of words."""
    found = _coded(side)
    mine = pick(found[found["task"].isin(CODED["dependency relation"])], model="parsing").sort_values("layer")
    return Claim(
        "Tuning on parsing makes dependencies easier to learn, by their description length.",
        [Part(f"layer {int(row['layer'])}", _relative(row), below=0) for _, row in mine.iterrows() if row["layer"] > 0],
        lead="Change of the length of the code for dependency relations",
        unit="%",
        note=checkpoints(side),
    )


def others_keep_codes(side: Observed) -> Claim:
    """Appendix B."""
    found, tuned = _coded(side), side.tuned(TITLES)
    others = found[found["model"] != "parsing"]
    changes = {index: _relative(row) for index, row in others.iterrows()}
    names = {index: _coded_as(row, tuned) for index, row in others.iterrows()}
    note = ""
    if changes:
        largest = max(changes, key=lambda index: abs(changes[index].value))
        note = f"Largest: {changes[largest].times(100).text()} % ({names[largest]}). "
    return Claim(
        "Tuning on the other tasks hardly changes description lengths.",
        [Part(names[index], change, above=-HARDLY, below=HARDLY) for index, change in changes.items()],
        lead=f"Changes within {100 * HARDLY:g} % of the base model's code, over layers, labels and models",
        note=f"{note}{checkpoints(side)}",
    )


def _coded_as(row: pd.Series, tuned: dict[str, str]) -> str:
    """'dependency relation, layer 6, tuned on MNLI'."""
    name = next(title for title, tasks in CODED.items() if row["task"] in tasks)
    return f"{name}, layer {int(row['layer'])}, tuned on {tuned[row['model']]}"


EDGE, TREES, SIMILARITY, CODES = ("edge_probe",), ("structural_probe",), ("similarity",), ("description_length",)
STATEMENTS = tuple(
    Statement(test.__name__, test, needs)
    for needs, tests in (
        (EDGE, (edges_are_kept, parsing_trades)),
        (TREES, (parsing_finds_trees, others_keep_trees)),
        (SIMILARITY, (changes_at_the_top, parsing_changes_most, inference_changes_least, domain)),
        (CODES, (parsing_shortens_codes, others_keep_codes)),
    )
    for test in tests
)
