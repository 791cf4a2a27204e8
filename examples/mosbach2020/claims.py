"""What the paper says of probes, attention and perplexity, and the numbers of the run that speak to it."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from examples.mosbach2020 import figures
from examples.mosbach2020.changes import CORPORA, POOLINGS, PROBED, TUNED, Changes
from examples.page import ENDS, one, pick
from examples.verdicts import Claim, Estimate, Part
from vestige.study.finished import StudyRun

Z = 1.96
"""Half of a 95 % interval in standard errors."""


def probing(changes: Changes) -> Iterator[Claim]:
    """Sections 4.1 and 4.2."""
    yield Claim(
        "Probes of the mean of all tokens do better than probes of [CLS], on every task.",
        [
            Part(f"{name} ({title})", Estimate.of_row(_judged(changes.poolings(source, probed).iloc[0])), above=0)
            for source, title in CORPORA.items()
            for probed, name in PROBED.items()
        ],
        lead="Base model, mean minus [CLS] over layers 1 and up",
    )
    yield _upper_layers(changes)
    yield _cola_on_bigrams(changes)
    yield _not_beyond_mean(changes)
    yield _losses(changes, "sst2")
    yield _losses(changes, "squad")


def _judged(row: pd.Series) -> pd.Series:
    """A row of a table that was made here: described where it has no test."""
    return pd.concat([row, pd.Series({"verdict": "described" if pd.isna(row["p"]) else "compared"})])


def _upper_layers(changes: Changes) -> Claim:
    told = []
    for pooling, title in POOLINGS.items():
        rows = [changes.groups(s, p, t, pooling) for s in CORPORA for p in PROBED for t in TUNED]
        sizes = np.mean([row["difference"].abs().to_numpy() for row in rows], axis=0)
        errors = np.mean([((row["high"] - row["low"]) / 2).to_numpy() for row in rows], axis=0)
        told.append(
            f"{title} {100 * sizes[0]:.2f} and {100 * sizes[1]:.2f} points (half-widths of their intervals: "
            f"{100 * errors[0]:.2f} and {100 * errors[1]:.2f})"
        )
    return Claim(
        "Tuning changes mostly the higher layers, up and down.",
        [],
        note=f"Mean size of the changes, lower and upper layers: {'; '.join(told)}. Noise alone makes the size of a "
        "change larger, and more so in the upper layers, whose intervals are wider: there is no interval for the "
        "difference of the two.",
    )


def _upper(changes: Changes, source: str, probed: str, tuned: str, pooling: str) -> Estimate:
    return Estimate.of_row(_judged(changes.groups(source, probed, tuned, pooling).iloc[-1]))


def _cola_on_bigrams(changes: Changes) -> Claim:
    gains = [
        Part(f"[CLS] ({title})", _upper(changes, source, "bigram_shift", "cola", "cls"), above=0)
        for source, title in CORPORA.items()
    ]
    ahead = [
        Part(f"[CLS] minus mean ({title})", Estimate.of_row(_judged(row)), above=0)
        for source, title in CORPORA.items()
        for row in [changes.pooling_gains(source, "bigram_shift", "cola").iloc[-1]]
    ]
    means = "; ".join(
        f"{title} {_upper(changes, source, 'bigram_shift', 'cola', 'sentence_mean').times(100).text()}"
        for source, title in CORPORA.items()
    )
    return Claim(
        "Tuned on CoLA, upper layers tell shifted bigrams better with [CLS], and hardly so with the mean.",
        [*gains, *ahead],
        lead="Gain in the upper layers",
        note=f"With the mean alone: {means} points.",
    )


def _not_beyond_mean(changes: Changes) -> Claim:
    parts = [
        Part("", Estimate.of_row(_judged(row)), below=0)
        for source in CORPORA
        for probed in PROBED
        for tuned in TUNED
        for _, row in changes.beyond_mean(source, probed, tuned).iterrows()
    ]
    above = sum(part.estimate.low > 0 for part in parts)
    return Claim(
        "What [CLS] gains does not pass what the mean of the base model had, but in very few cases.",
        parts,
        lead="Tuned [CLS] minus the base model's mean, by layer, task and model",
        share=0.95,
        note=f"Without the correction {above} lie above zero. 'Very few' is taken as 5 %.",
    )


def _losses(changes: Changes, tuned: str) -> Claim:
    return Claim(
        f"Tuning on {TUNED[tuned]} costs accuracy on shifted bigrams and odd words, with both poolings.",
        [
            Part(f"{PROBED[probed]} ({title}), {told}", _upper(changes, source, probed, tuned, pooling), below=0)
            for source, title in CORPORA.items()
            for probed in ("bigram_shift", "odd_man_out")
            for pooling, told in POOLINGS.items()
        ],
        lead="Upper layers",
    )


def attention(run: StudyRun) -> Iterator[Claim]:
    """Section 5.1; intervals over three runs and sentences."""
    found = pick(run.results, analysis="attention", head=None)
    depth = int(found["layer"].max())
    lower, upper = range(1, depth // 2 + 1), range(depth // 2 + 1, depth + 1)
    rise = {model: _over_runs(found, model, "entropy_change", upper) for model in ("cola", "cola_mean")}
    last = {model: _over_runs(found, model, "entropy_change", [depth]) for model in ("cola", "cola_mean")}
    yield Claim(
        "Tuned on CoLA by [CLS], the attention of [CLS] becomes wider in the last layers; tuned by the mean it "
        "changes less, and narrows in the last layer.",
        [
            Part("upper half, tuned by [CLS]", rise["cola"], above=0),
            Part("more than by the mean", rise["cola"] - rise["cola_mean"], above=0),
            Part("last layer, tuned by the mean", last["cola_mean"], below=0),
        ],
        lead="Change of entropy",
        unit="nats",
        scale=1,
        decimals=3,
        note=f"Last layer, tuned by [CLS]: {last['cola'].text(3)}.",
    )
    by_layer = [one(found, "emd", model="cola", layer=layer) for layer in range(1, depth + 1)]
    halves = [_over_runs(found, "cola", "emd", layers, minus=other) for layers, other in ((upper, lower),)]
    yield Claim(
        "Attention moves more in the higher layers.",
        [Part("upper minus lower half", halves[0], above=0)],
        lead="Earth mover's distance, tuned by [CLS]",
        unit="tokens",
        scale=1,
        decimals=2,
        note=f"By layer: {', '.join(f'{value:.2f}' for value in by_layer)}.",
    )
    moved = {model: _over_runs(found, model, "emd", upper) for model in ("cola", "cola_mean")}
    yield Claim(
        "It moves more when tuned by [CLS] than by the mean.",
        [Part("[CLS] minus mean", moved["cola"] - moved["cola_mean"], above=0)],
        lead="Earth mover's distance in the upper half",
        unit="tokens",
        scale=1,
        decimals=2,
        note=f"{moved['cola'].value:.2f} by [CLS], {moved['cola_mean'].value:.2f} by the mean.",
    )


def _over_runs(
    found: pd.DataFrame, model: str, metric: str, layers: "range | list[int]", minus: range | None = None
) -> Estimate:
    """The mean of some layers (minus that of others) over runs; the errors of layers over sentences may be one."""
    by_run, errors = [], []
    for _, run in pick(found, model=model).groupby("tune_seed"):
        value, error = _mean(run, metric, layers)
        if minus is not None:
            other, more = _mean(run, metric, minus)
            value, error = value - other, error + more
        by_run.append(value)
        errors.append(error)
    sentences = int(pick(found, model=model, metric=metric)["n"].min())
    return Estimate.of_runs(by_run, float(np.mean(errors)), sentences)


def _mean(run: pd.DataFrame, metric: str, layers: "range | list[int]") -> tuple[float, float]:
    """Of layers, with the standard error it has at most."""
    value, low, high = (np.mean([one(run, metric, end, layer=layer) for layer in layers]) for end in ENDS)
    return float(value), float(high - low) / 2 / Z


def perplexity(run: StudyRun) -> Iterator[Claim]:
    """Section 5.2; intervals over three runs, and over blocks of text."""
    found = pick(run.results, analysis="perplexity")
    table = figures.perplexities(run)
    rises = {TUNED[name]: _rise(found, name) for name in ("cola", "sst2")}
    base = one(pick(found, model="cola"), "reference_perplexity")
    ends = table[(table["part"] == "replaced") & (table["x"] == 0)].groupby("model")["value"].mean()
    yield Claim(
        "Perplexity rises with fine-tuning.",
        [Part(model, rise, above=0) for model, rise in rises.items()],
        lead="Rise of its logarithm",
        unit="nats",
        scale=1,
        decimals=2,
        note=f"Base {base:.0f}; after tuning {', '.join(f'{ends[model]:.0f} ({model})' for model in rises)}, means.",
    )
    yield Claim(
        "It rises more on SST-2 than on CoLA.",
        [Part("SST-2 minus CoLA", rises["SST-2"] - rises["CoLA"], above=0)],
        lead="Rise of its logarithm",
        unit="nats",
        scale=1,
        decimals=2,
        note="Training sets and numbers of steps differ: CoLA is seen three times, SST-2 once.",
    )
    yield Claim(
        "The change is in the last layers.",
        [Part(model, _undone(found, name), above=0.5) for name, model in TUNED.items() if model in rises],
        lead="Share of the rise (in nats) that replacing the upper half of the layers undoes, of what replacing all "
        "of them undoes",
        unit="%",
        decimals=0,
        note="More than half is on the paper's side.",
    )


def _rise(found: pd.DataFrame, name: str) -> Estimate:
    mine = pick(found, model=name)
    whole = pick(mine, metric="perplexity", x=None)
    before = {end: one(mine, "reference_perplexity", end) for end in ENDS}
    values = np.log(whole["value"].to_numpy(float)) - np.log(before["value"])
    errors = [np.log(ends["high"] / ends["low"]) / 2 / Z for ends in (whole[["low", "high"]].mean(), before)]
    return Estimate.of_runs(list(values), float(np.hypot(*errors)), int(pick(mine, metric="perplexity")["n"].min()))


def _undone(found: pd.DataFrame, name: str) -> Estimate:
    rows = pick(found, model=name, metric="perplexity", axis="last_replaced", subset="layers")
    shares = []
    for _, run in rows.groupby("tune_seed"):
        values = np.log(run.sort_values("x")["value"].to_numpy(float))
        shares.append((values[0] - values[len(values) // 2]) / (values[0] - values[-1]))
    return Estimate.of_runs(shares)
