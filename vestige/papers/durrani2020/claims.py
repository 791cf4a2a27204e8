"""What the paper says of neurons, each statement a test over the tables of a run.

Probes and rankings depend on a seed: what has an interval has it over several of them (`neurons: {seed: ...}`), or
over the two held-out sets.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from vestige.papers.lookup import SEEDS, one, over_seeds, percent, pick
from vestige.papers.observed import Observed
from vestige.papers.paper import Statement
from vestige.papers.verdicts import Claim, Estimate, Part
from vestige.report.wording import layer

PROPERTIES = {
    "POS": ("ptb/pos", "ewt/xpos", "treebank/xpos"),
    "SEM": ("pmb_semtags/semtag", "pmb/semtag"),
    "Chunking": ("conll2000/chunk", "chunks/chunk"),
    "CCG": ("ccgbank/ccg", "pmb/ccg"),
}
"""Where each property is read: at the full scale, from open corpora, from the built-in treebank."""
LEXICAL, SYNTACTIC = ("POS", "SEM"), ("Chunking", "CCG")
ALL: dict[str, Any] = {"subset": "all"}
TIGHT: dict[str, Any] = {"subset": "minimal", "x": 0.005}
LOOSE: dict[str, Any] = {"subset": "minimal", "x": 0.02}
"""Where rows of all neurons and of the minimal sets lie."""
SPLITS = ("", "dev_")
"""What begins the names of measures on test and on dev."""
KEPT = {"All": ALL, **{side.title(): {"subset": "ablated", "side": side} for side in ("top", "random", "bottom")}}
MOST = 0.35
"""'A third' of the neurons, as the paper rounds its shares."""

ONE_SEED = "Probes were trained once per task, and sets of neurons have no interval."
TWO_SETS = (
    "Intervals are Student's over the two held-out sets, dev and test: they cover other sentences, but not another "
    "training of the probe; penalties were chosen on dev."
)
OVER_SEEDS = "Intervals are Student's over trainings of the probes, by seed."


def by_property(side: Observed) -> dict[str, pd.DataFrame]:
    """The results on neurons of every property that the run has."""
    rows = pick(side.results, analysis="neurons")
    places = side.places(PROPERTIES, "neurons")
    return {name: pick(rows, corpus=corpus, task=task) for name, (corpus, task) in places.items()}


def seeds(rows: pd.DataFrame) -> int:
    """How often the analysis was run."""
    return len(rows[SEEDS].drop_duplicates())


def _trained(results: Mapping[str, pd.DataFrame]) -> str:
    """What intervals over trainings cover."""
    return ONE_SEED if max(map(seeds, results.values()), default=1) < 2 else OVER_SEEDS


def _each(results: Mapping[str, pd.DataFrame], measure: Callable[[pd.DataFrame], float], **bounds: float) -> list[Part]:
    """A measure of every property, over trainings."""
    return [Part(name, over_seeds(rows, measure), **bounds) for name, rows in results.items()]


def _held_out(rows: pd.DataFrame, metric: str, more: dict[str, Any], less: dict[str, Any]) -> Estimate:
    """A difference over trainings; of one training, over dev and test."""

    def differences(run: pd.DataFrame) -> list[float]:
        return [one(run, split + metric, **more) - one(run, split + metric, **less) for split in SPLITS]

    if seeds(rows) > 1:
        return over_seeds(rows, lambda run: float(np.mean(differences(run))))
    return Estimate.of_runs(differences(rows))


def _covered(results: Mapping[str, pd.DataFrame]) -> str:
    return TWO_SETS if max(map(seeds, results.values()), default=1) < 2 else OVER_SEEDS


def ablation(side: Observed) -> Claim:
    """Table 1."""
    results = by_property(side)
    return Claim(
        "Ablation shows that the ranking is right: models that keep the top neurons are above those that keep the "
        "bottom ones.",
        [
            Part(name, _held_out(rows, "accuracy", KEPT["Top"], KEPT["Bottom"]), above=0)
            for name, rows in results.items()
        ],
        lead="Top minus bottom, mean of test and dev",
        note=_covered(results),
    )


def random_between(side: Observed) -> Claim:
    """Table 1; every seed draws other neurons."""
    results = by_property(side)
    levels = [
        f"{name} " + ", ".join(percent(one(rows, "accuracy", **KEPT[which])) for which in list(KEPT)[1:])
        for name, rows in results.items()
    ]

    def gap(more: str, less: str) -> Callable[[pd.DataFrame], float]:
        return lambda run: one(run, "accuracy", **KEPT[more]) - one(run, "accuracy", **KEPT[less])

    parts = [
        Part(f"{name}, {more.lower()} minus {less.lower()}", over_seeds(rows, gap(more, less)), above=0)
        for name, rows in results.items()
        for more, less in (("Top", "Random"), ("Random", "Bottom"))
    ]
    drawn = max(map(seeds, results.values()), default=1)
    covers = "There is one random draw, and no interval over draws." if drawn < 2 else f"There are {drawn} draws."
    return Claim(
        "Random neurons lie between the two.", parts, note=f"Top, random and bottom: {'; '.join(levels)}. {covers}"
    )


def few_are_enough(side: Observed) -> Claim:
    """Tables 2 and 3."""
    results = by_property(side)
    loose = ", ".join(f"{name} {100 * one(rows, 'minimal_share', **LOOSE):.0f} %" for name, rows in results.items())
    neurons = int(one(next(iter(results.values())), "neurons"))
    return Claim(
        "A small part of the neurons is enough (4 to 15 % in BERT and XLNet, up to a third in the smaller models).",
        _each(results, lambda run: one(run, "minimal_share", **TIGHT), above=0, below=MOST),
        lead="Within 0.5 points",
        unit="% of the neurons",
        decimals=0,
        signed=False,
        note=f"Within 2 points: {loose}. Of {neurons} neurons. {_trained(results)}",
    )


def lexical_need_fewer(side: Observed) -> Claim:
    """Section 4.1: every lexical task beside every syntactic one."""
    results = by_property(side)
    pairs = [(few, many) for few in LEXICAL for many in SYNTACTIC if few in results and many in results]
    sizes = {name: over_seeds(rows, lambda run: one(run, "minimal_share", **TIGHT)) for name, rows in results.items()}
    return Claim(
        "Lexical tasks (POS, SEM) need fewer neurons than syntactic ones (chunking, CCG).",
        [Part(f"{few} minus {many}", sizes[few] - sizes[many], below=0) for few, many in pairs],
        lead="Within 0.5 points",
        unit="points of the share of neurons",
        decimals=0,
        note=_trained(results),
    )


def selectivity(side: Observed) -> Claim:
    """Table 2."""
    results = by_property(side)
    return Claim(
        "Selectivity is higher with the selected neurons than with all.",
        [Part(name, _held_out(rows, "selectivity", TIGHT, ALL), above=0) for name, rows in results.items()],
        lead="Selected minus all, mean of test and dev",
        note=_covered(results),
    )


def lexical_lie_lower(side: Observed) -> Claim:
    """Figure 1."""
    results = by_property(side)
    centres = {name: over_seeds(rows, _centre) for name, rows in results.items()}
    homes = {name: int(shares_of(rows).argmax()) for name, rows in results.items()}
    pairs = [(low, high) for low in LEXICAL for high in SYNTACTIC if low in results and high in results]
    return Claim(
        "Neurons for lexical tasks lie lower than those for syntax (all models but BERT, whose top neurons are in "
        "every layer).",
        [Part(f"{low} minus {high}", centres[low] - centres[high], below=0) for low, high in pairs],
        lead="Difference of the mean layer of the selected neurons",
        unit="layers",
        scale=1,
        decimals=2,
        note="Mean layer: "
        + ", ".join(f"{name} {centre.value:.2f}" for name, centre in centres.items())
        + "; most are in "
        + ", ".join(f"{layer(home)} ({name})" for name, home in homes.items())
        + f". {_trained(results)}",
    )


def _centre(rows: pd.DataFrame) -> float:
    shares = shares_of(rows)
    return float(shares @ np.arange(len(shares)))


def closed_class(side: Observed) -> Claim:
    """Figure 2: neurons per part of speech."""
    results = by_property(side)
    rows = results.get("POS", pd.DataFrame())
    sizes = _label_sizes(rows)
    said = ", ".join(
        f"{label} {sizes[label]:.0f}" for label in ("UH", "TO", "NNPS", "NN", "VB", "JJ") if label in sizes
    )
    fewest, most = sizes.sort_values().head(3), sizes.sort_values().tail(3)
    parts = [
        Part(
            f"{few} minus NNPS",
            over_seeds(rows, partial(_fewer, few=few)),
            below=0,
        )
        for few in ("UH", "TO")
        if {few, "NNPS"} <= _in_every_run(rows, "label_neurons")
    ]
    return Claim(
        "Closed-class and unambiguous words (UH, TO) take few neurons, others (NNPS) many.",
        parts,
        unit="neurons",
        scale=1,
        decimals=0,
        note=f"Neurons: {said} (median {sizes.median():.0f}). Fewest: {_named(fewest)}; most: {_named(most)}. "
        f"{_trained(results)}",
    )


def _fewer(run: pd.DataFrame, few: str) -> float:
    sizes = _label_sizes(run)
    return float(sizes[few] - sizes["NNPS"])


def _home(run: pd.DataFrame, label: str) -> float:
    return one(run, "dominant_layer", **TIGHT, label=label)


def _in_every_run(rows: pd.DataFrame, metric: str) -> set[str]:
    """The labels of which every run has the metric: of rare labels, some seeds select no neuron."""
    found = [] if rows.empty else [run for _, run in rows.groupby(SEEDS, dropna=False)]
    return set.intersection(*(set(pick(run, metric=metric, **TIGHT)["label"]) for run in found)) if found else set()


def _label_sizes(rows: pd.DataFrame) -> pd.Series:
    if rows.empty:
        return pd.Series(dtype=float)
    return pick(rows, metric="label_neurons", **TIGHT).groupby("label")["value"].mean().astype(float)


def homes_of_tags(side: Observed) -> Claim:
    """Section 4.2."""
    results = by_property(side)
    rows = results.get("POS", pd.DataFrame())
    top = side.layers - 1
    wanted = {"FW": {"above": top - top / 4}, "JJ": {"below": top / 4}}
    labels = _in_every_run(rows, "dominant_layer")
    parts = [
        Part(
            label,
            over_seeds(rows, partial(_home, label=label)),
            **bounds,
        )
        for label, bounds in wanted.items()
        if label in labels
    ]
    return Claim(
        "Neurons for foreign words (FW) are in the last layers, those for adjectives (JJ) in the lowest.",
        parts,
        lead="Layer that most of them are in",
        unit="",
        scale=1,
        decimals=0,
        signed=False,
        note=f"There are layers 0 to {top}; the last and the lowest are its quarters. {_trained(results)}",
    )


def _named(sizes: pd.Series) -> str:
    return ", ".join(f"{label} {size:.0f}" for label, size in sizes.items())


def shares_of(rows: pd.DataFrame) -> np.ndarray:
    """By layer, of the neurons of the minimal set within 0.5 points."""
    counts = pick(rows, metric="selected_neurons", **TIGHT).groupby("layer")["value"].mean().sort_index()
    return counts.to_numpy(float) / counts.astype(float).sum()


STATEMENTS = tuple(
    Statement(test.__name__, test, ("neurons",))
    for test in (
        ablation,
        random_between,
        few_are_enough,
        lexical_need_fewer,
        selectivity,
        lexical_lie_lower,
        closed_class,
        homes_of_tags,
    )
)
