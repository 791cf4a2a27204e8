"""What the paper says of neurons, and the numbers of the run that speak to it."""

from typing import Any

import numpy as np
import pandas as pd

from examples.page import one, percent, pick
from examples.verdicts import Claim, Estimate, Part
from vestige.report.wording import layer

TASKS = {"POS": ("ewt", "xpos"), "SEM": ("pmb", "semtag"), "Chunking": ("conll2000", "chunk"), "CCG": ("pmb", "ccg")}
LEXICAL, SYNTACTIC = ("POS", "SEM"), ("Chunking", "CCG")
ALL: dict[str, Any] = {"subset": "all"}
TIGHT: dict[str, Any] = {"subset": "minimal", "x": 0.005}
LOOSE: dict[str, Any] = {"subset": "minimal", "x": 0.02}
"""Where rows of all neurons and of the minimal sets lie."""
SPLITS = ("", "dev_")
"""What begins the names of measures on test and on dev."""
KEPT = {"All": ALL, **{side.title(): {"subset": "ablated", "side": side} for side in ("top", "random", "bottom")}}


NO_INTERVAL = "Probes were trained once per task, and sets of neurons have no interval."


def claims(results: dict[str, pd.DataFrame]) -> list[Claim]:
    """All of them, from the results by task."""
    sizes, loose = (
        {name: one(rows, "minimal_share", **where) for name, rows in results.items()} for where in (TIGHT, LOOSE)
    )
    spreads = {name: shares_of(rows) for name, rows in results.items()}
    centres = {name: float(shares @ np.arange(len(shares))) for name, shares in spreads.items()}
    homes = {name: int(shares.argmax()) for name, shares in spreads.items()}
    return [
        _ablated(results),
        _random(results),
        Claim(
            "A small part of the neurons is enough (4 to 15 % in BERT and XLNet, up to a third in the smaller models).",
            [],
            note="Within 0.5 points: " + ", ".join(f"{name} {100 * size:.0f} %" for name, size in sizes.items())
            + "; within 2 points: " + ", ".join(f"{name} {100 * size:.0f} %" for name, size in loose.items())
            + f". Of {int(one(results['POS'], 'neurons'))} neurons, less than in any model of the paper. {NO_INTERVAL}",
        ),
        Claim(
            "Lexical tasks (POS, SEM) need fewer neurons than syntactic ones (chunking, CCG).",
            [],
            note=f"The numbers are those above: within 0.5 points the lexical task that needs most takes "
            f"{100 * max(sizes[n] for n in LEXICAL):.0f} %, the syntactic one that needs least "
            f"{100 * min(sizes[n] for n in SYNTACTIC):.0f} %. {NO_INTERVAL}",
        ),
        _selectivity(results),
        Claim(
            "Neurons for lexical tasks lie lower than those for syntax (all models but BERT, whose top neurons are in "
            "every layer).",
            [],
            note="Mean layer of the selected neurons: " + ", ".join(f"{n} {c:.2f}" for n, c in centres.items())
            + "; most are in " + ", ".join(f"{layer(home)} ({name})" for name, home in homes.items())
            + f". {NO_INTERVAL}",
        ),
        _closed_class(results["POS"]),
        _homes(results),
    ]  # fmt: skip


TWO_SETS = (
    "Intervals are Student's over the two held-out sets, dev and test: they cover other sentences, but not another "
    "training of the probe; penalties were chosen on dev."
)


def _held_out(rows: pd.DataFrame, metric: str, more: dict[str, Any], less: dict[str, Any]) -> Estimate:
    """A difference on dev and on test."""
    return Estimate.of_runs([one(rows, split + metric, **more) - one(rows, split + metric, **less) for split in SPLITS])


def _ablated(results: dict[str, pd.DataFrame]) -> Claim:
    return Claim(
        "Ablation shows that the ranking is right: models that keep the top neurons are above those that keep the "
        "bottom ones.",
        [
            Part(name, _held_out(rows, "accuracy", KEPT["Top"], KEPT["Bottom"]), above=0)
            for name, rows in results.items()
        ],
        lead="Top minus bottom",
        note=TWO_SETS,
    )


def _random(results: dict[str, pd.DataFrame]) -> Claim:
    kept = list(KEPT)[1:]
    levels = [
        f"{name} " + ", ".join(percent(one(rows, "accuracy", **KEPT[which])) for which in kept)
        for name, rows in results.items()
    ]
    return Claim(
        "Random neurons lie between the two.",
        [],
        note=f"Top, random and bottom: {'; '.join(levels)}. There is one random draw, and no interval over draws.",
    )


def _selectivity(results: dict[str, pd.DataFrame]) -> Claim:
    return Claim(
        "Selectivity is higher with the selected neurons than with all.",
        [Part(name, _held_out(rows, "selectivity", TIGHT, ALL), above=0) for name, rows in results.items()],
        lead="Selected minus all",
        note=TWO_SETS,
    )


def _closed_class(rows: pd.DataFrame) -> Claim:
    sizes = pick(rows, metric="label_neurons", **TIGHT).set_index("label")["value"].astype(float)
    said = ", ".join(
        f"{label} {sizes[label]:.0f}" for label in ("UH", "TO", "NNPS", "NN", "VB", "JJ") if label in sizes
    )
    fewest, most = sizes.sort_values().head(3), sizes.sort_values().tail(3)
    return Claim(
        "Closed-class and unambiguous words (UH, TO) take few neurons, others (NNPS) many.",
        [],
        note=f"Neurons: {said} (median {sizes.median():.0f}). Fewest: {_named(fewest)}; most: {_named(most)}. "
        f"{NO_INTERVAL}",
    )


def _homes(results: dict[str, pd.DataFrame]) -> Claim:
    foreign, adjectives = (int(one(results["POS"], "dominant_layer", **TIGHT, label=label)) for label in ("FW", "JJ"))
    top = len(shares_of(results["POS"])) - 1
    return Claim(
        "Neurons for foreign words (FW) are in the last layers, those for adjectives (JJ) in the lowest.",
        [],
        note=f"Of layers 0 to {top}, most neurons are in {layer(foreign)} for FW and in {layer(adjectives)} for JJ. "
        f"{NO_INTERVAL}",
    )


def _named(sizes: pd.Series) -> str:
    return ", ".join(f"{label} {size:.0f}" for label, size in sizes.items())


def shares_of(rows: pd.DataFrame) -> np.ndarray:
    """By layer, of the neurons of the minimal set within 0.5 points."""
    counts = pick(rows, metric="selected_neurons", **TIGHT).sort_values("layer")["value"].to_numpy(float)
    return counts / counts.sum()
