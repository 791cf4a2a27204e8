"""What the paper says of probes of sentences (sections 4.1 and 4.2), each statement a test over the tables of a run."""

from functools import partial

import numpy as np
import pandas as pd

from vestige.papers.mosbach2020.changes import POOLINGS, Changes, changes_of
from vestige.papers.mosbach2020.mechanisms import (
    attention_moves_by_cls,
    attention_moves_up,
    attention_widens,
    change_is_late,
    perplexity_rises,
    rises_more_on_sst2,
)
from vestige.papers.observed import Observed
from vestige.papers.paper import Statement
from vestige.papers.verdicts import Claim, Estimate, Part


def mean_beats_cls(side: Observed) -> Claim:
    """Section 4.1."""
    changes = changes_of(side)
    return Claim(
        "Probes of the mean of all tokens do better than probes of [CLS], on every task.",
        [
            Part(changes.title(*pair), Estimate.of_row(_judged(changes.poolings(*pair).iloc[0])), above=0)
            for pair in changes.pairs
        ],
        lead="Base model, mean minus [CLS] over layers 1 and up",
    )


def _judged(row: pd.Series) -> pd.Series:
    """A row of a table that was made here: described where it has no test."""
    return pd.concat([row, pd.Series({"verdict": "described" if pd.isna(row["p"]) else "compared"})])


def sizes_apart(upper: Estimate, lower: Estimate) -> Estimate:
    """How much larger the upper change is than the lower, signs aside.

    The size of an estimate grows with its noise, so that sizes are not compared: the interval goes from the smallest
    size that the interval of the upper change allows minus the largest of the lower, to the other way round.
    """
    sizes = [sorted((abs(one.low), abs(one.high))) for one in (upper, lower)]
    least = [0.0 if one.low <= 0 <= one.high else size[0] for one, size in zip((upper, lower), sizes, strict=True)]
    if not (upper.known and lower.known):
        return Estimate(abs(upper.value) - abs(lower.value))
    value = abs(upper.value) - abs(lower.value)
    return Estimate(value, least[0] - sizes[1][1], sizes[0][1] - least[1], min(upper.degrees, lower.degrees))


def mostly_upper_layers(side: Observed) -> Claim:
    """Section 4.2."""
    changes = changes_of(side)
    parts, told = [], []
    for pooling, title in POOLINGS.items():
        cases = [(pair, tuned) for pair in changes.pairs for tuned in changes.tuned]
        groups = [
            [Estimate.of_row(_judged(row)) for _, row in changes.groups(*pair, tuned, pooling).iterrows()]
            for pair, tuned in cases
        ]
        parts += [
            Part(f"{changes.title(*pair)}, {title}, {changes.tuned[tuned]}", sizes_apart(group[-1], group[0]), above=0)
            for (pair, tuned), group in zip(cases, groups, strict=True)
        ]
        sizes = [100 * float(np.mean([abs(group[half].value) for group in groups])) for half in (0, -1)]
        errors = [
            100 * float(np.mean([(group[half].high - group[half].low) / 2 for group in groups])) for half in (0, -1)
        ]
        told.append(
            f"{title} {sizes[0]:.2f} and {sizes[1]:.2f} points (half-widths of their intervals: {errors[0]:.2f} and "
            f"{errors[1]:.2f})"
        )
    return Claim(
        "Tuning changes mostly the higher layers, up and down.",
        parts,
        lead="Size of the change in the upper layers minus that in the lower ones",
        share=0.5,
        note=f"Mean size of the changes, lower and upper layers: {'; '.join(told)}. Noise alone makes the size of a "
        "change larger, and more so in the upper layers, whose intervals are wider: a case counts only where the "
        "intervals of both changes leave no doubt.",
    )


def _upper(changes: Changes, source: str, probed: str, tuned: str, pooling: str) -> Estimate:
    return Estimate.of_row(_judged(changes.groups(source, probed, tuned, pooling).iloc[-1]))


def cola_on_bigrams(side: Observed) -> Claim:
    """Section 4.2."""
    changes = changes_of(side)
    pairs = [pair for pair in changes.pairs if pair[1] == "bigram_shift"] if "cola" in changes.tuned else []
    gains = [Part(f"[CLS], {changes.title(*pair)}", _upper(changes, *pair, "cola", "cls"), above=0) for pair in pairs]
    ahead = [
        Part(f"[CLS] minus mean, {changes.title(*pair)}", Estimate.of_row(_judged(row)), above=0)
        for pair in pairs
        for row in [changes.pooling_gains(*pair, "cola").iloc[-1]]
    ]
    means = "; ".join(
        f"{changes.title(*pair)} {_upper(changes, *pair, 'cola', 'sentence_mean').times(100).text()}" for pair in pairs
    )
    return Claim(
        "Tuned on CoLA, upper layers tell shifted bigrams better with [CLS], and hardly so with the mean.",
        [*gains, *ahead],
        lead="Gain in the upper layers",
        note=f"With the mean alone: {means} points." if means else "",
    )


def not_beyond_mean(side: Observed) -> Claim:
    """Figure 4."""
    changes = changes_of(side)
    parts = [
        Part(f"{changes.title(*pair)}, {title}, layer {int(row['layer'])}", Estimate.of_row(_judged(row)), below=0)
        for pair in changes.pairs
        for tuned, title in changes.tuned.items()
        for _, row in changes.beyond_mean(*pair, tuned).iterrows()
    ]
    above = sum(part.estimate.low > 0 for part in parts)
    return Claim(
        "What [CLS] gains does not pass what the mean of the base model had, but in very few cases.",
        parts,
        lead="Tuned [CLS] minus the base model's mean, by layer, task and model",
        share=0.95,
        note=f"Without the correction {above} lie above zero. 'Very few' is taken as 5 %.",
    )


def losses(side: Observed, tuned: str, title: str) -> Claim:
    """Section 4.2."""
    changes = changes_of(side)
    pairs = [pair for pair in changes.pairs if pair[1] != "coordination_inversion"] if tuned in changes.tuned else []
    return Claim(
        f"Tuning on {title} costs accuracy on shifted bigrams and odd words, with both poolings.",
        [
            Part(f"{changes.title(*pair)}, {told}", _upper(changes, *pair, tuned, pooling), below=0)
            for pair in pairs
            for pooling, told in POOLINGS.items()
        ],
        lead="Upper layers",
        note="" if pairs else "There is no such model in this run.",
    )


PROBES, ATTENTION, PERPLEXITY = ("sentence_probe",), ("attention",), ("perplexity",)
STATEMENTS = (
    *(Statement(test.__name__, test, PROBES) for test in (mean_beats_cls, mostly_upper_layers, cola_on_bigrams,
                                                          not_beyond_mean)),
    Statement("losses_sst2", partial(losses, tuned="sst2", title="SST-2"), PROBES),
    Statement("losses_squad", partial(losses, tuned="squad", title="SQuAD"), PROBES),
    *(Statement(test.__name__, test, ATTENTION) for test in (attention_widens, attention_moves_up,
                                                             attention_moves_by_cls)),
    *(Statement(test.__name__, test, PERPLEXITY) for test in (perplexity_rises, rises_more_on_sst2, change_is_late)),
)  # fmt: skip
