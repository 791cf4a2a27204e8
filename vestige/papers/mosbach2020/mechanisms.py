"""What the paper says of attention and perplexity (section 5), each statement a test over the tables of a run."""

from collections.abc import Sequence
from math import ceil

import numpy as np
import pandas as pd

from vestige.papers.lookup import ENDS, one, pick
from vestige.papers.mosbach2020.changes import TITLES
from vestige.papers.observed import Observed
from vestige.papers.verdicts import Claim, Estimate, Part

Z = 1.96
"""Half of a 95 % interval in standard errors."""
BY_CLS, BY_MEAN = "cola", "cola_mean"
"""The models tuned on CoLA, reading [CLS] and the mean of all tokens."""


def _attention(side: Observed) -> tuple[pd.DataFrame, int]:
    """The rows over all heads, and the number of the last layer."""
    found = pick(side.results, analysis="attention", head=None)
    return found, int(found["layer"].max())


def _halves(depth: int) -> tuple[range, range]:
    """The lower and the upper half of the blocks."""
    return range(1, depth // 2 + 1), range(depth // 2 + 1, depth + 1)


def attention_widens(side: Observed) -> Claim:
    """Figure 2, entropy; intervals over runs and sentences."""
    found, depth = _attention(side)
    _, upper = _halves(depth)
    there = {BY_CLS, BY_MEAN} <= set(found["model"])
    models = (BY_CLS, BY_MEAN) if there else ()
    rise = {model: _over_runs(found, model, "entropy_change", upper) for model in models}
    last = {model: _over_runs(found, model, "entropy_change", [depth]) for model in models}
    parts = [
        Part("upper half, tuned by [CLS]", rise[BY_CLS], above=0),
        Part("more than by the mean", rise[BY_CLS] - rise[BY_MEAN], above=0),
        Part("last layer, tuned by the mean", last[BY_MEAN], below=0),
    ] if there else []  # fmt: skip
    return Claim(
        "Tuned on CoLA by [CLS], the attention of [CLS] becomes wider in the last layers; tuned by the mean it "
        "changes less, and narrows in the last layer.",
        parts,
        lead="Change of entropy",
        unit="nats",
        scale=1,
        decimals=3,
        note=f"Last layer, tuned by [CLS]: {last[BY_CLS].text(3)}." if there else "",
    )


def attention_moves_up(side: Observed) -> Claim:
    """Figure 2, earth mover's distance."""
    found, depth = _attention(side)
    lower, upper = _halves(depth)
    by_layer = [one(found, "emd", model=BY_CLS, layer=layer) for layer in range(1, depth + 1)]
    apart = _over_runs(found, BY_CLS, "emd", upper, minus=lower)
    return Claim(
        "Attention moves more in the higher layers.",
        [Part("upper minus lower half", apart, above=0)],
        lead="Earth mover's distance, tuned by [CLS]",
        unit="tokens",
        scale=1,
        decimals=2,
        note=f"By layer: {', '.join(f'{value:.2f}' for value in by_layer)}.",
    )


def attention_moves_by_cls(side: Observed) -> Claim:
    """Figure 2, earth mover's distance."""
    found, depth = _attention(side)
    _, upper = _halves(depth)
    models = [model for model in (BY_CLS, BY_MEAN) if model in set(found["model"])]
    moved = {model: _over_runs(found, model, "emd", upper) for model in models}
    there = len(moved) == 2
    return Claim(
        "It moves more when tuned by [CLS] than by the mean.",
        [Part("[CLS] minus mean", moved[BY_CLS] - moved[BY_MEAN], above=0)] if there else [],
        lead="Earth mover's distance in the upper half",
        unit="tokens",
        scale=1,
        decimals=2,
        note=f"{moved[BY_CLS].value:.2f} by [CLS], {moved[BY_MEAN].value:.2f} by the mean." if there else "",
    )


def _over_runs(
    found: pd.DataFrame, model: str, metric: str, layers: Sequence[int], minus: Sequence[int] = ()
) -> Estimate:
    """The mean of some layers (minus that of others) over runs; the errors of layers over sentences may be one."""
    by_run, errors = [], []
    for _, run in pick(found, model=model).groupby("tune_seed"):
        value, error = _mean(run, metric, layers)
        if minus:
            other, more = _mean(run, metric, minus)
            value, error = value - other, error + more
        by_run.append(value)
        errors.append(error)
    sentences = int(pick(found, model=model, metric=metric)["n"].min())
    return Estimate.of_runs(by_run, float(np.mean(errors)), sentences)


def _mean(run: pd.DataFrame, metric: str, layers: Sequence[int]) -> tuple[float, float]:
    """Of layers, with the standard error it has at most."""
    value, low, high = (np.mean([one(run, metric, end, layer=layer) for layer in layers]) for end in ENDS)
    return float(value), float(high - low) / 2 / Z


def _found(side: Observed) -> tuple[pd.DataFrame, dict[str, str]]:
    """The rows on perplexity, and the tuned models among them that were tried with layers replaced."""
    found = pick(side.results, analysis="perplexity")
    tried = set(pick(found, metric="perplexity", axis="last_replaced")["model"])
    return found, {role: title for role, title in side.tuned(TITLES).items() if role in tried}


def perplexity_rises(side: Observed) -> Claim:
    """Figure 3; intervals over runs, and over blocks of text."""
    found, tuned = _found(side)
    table = perplexities(side)
    base = one(pick(found, model=next(iter(tuned))), "reference_perplexity")
    ends = table[(table["part"] == "replaced") & (table["x"] == 0)].groupby("model")["value"].mean()
    return Claim(
        "Perplexity rises with fine-tuning.",
        [Part(title, _rise(found, role), above=0) for role, title in tuned.items()],
        lead="Rise of its logarithm",
        unit="nats",
        scale=1,
        decimals=2,
        note=f"Base {base:.0f}; after tuning {', '.join(f'{ends[t]:.0f} ({t})' for t in tuned.values())}, means.",
    )


def rises_more_on_sst2(side: Observed) -> Claim:
    """Figure 3."""
    found, tuned = _found(side)
    there = {"sst2", "cola"} <= set(tuned)
    parts = [
        Part(f"{tuned['sst2']} minus {tuned['cola']}", _rise(found, "sst2") - _rise(found, "cola"), above=0)
    ] if there else []  # fmt: skip
    steps = ", ".join(f"{title} {steps_of(side, role)}" for role, title in tuned.items())
    return Claim(
        "It rises more on SST-2 than on CoLA.",
        parts,
        lead="Rise of its logarithm",
        unit="nats",
        scale=1,
        decimals=2,
        note=f"Training sets and numbers of steps differ: {steps} steps.",
    )


def change_is_late(side: Observed) -> Claim:
    """Figure 3, with layers replaced."""
    found, tuned = _found(side)
    return Claim(
        "The change is in the last layers.",
        [Part(title, _undone(found, role), above=0.5) for role, title in tuned.items()],
        lead="Share of the rise (in nats) that replacing the upper half of the layers undoes, of what replacing all "
        "of them undoes",
        unit="%",
        decimals=0,
        signed=False,
        note="More than half is on the paper's side.",
    )


def _rise(found: pd.DataFrame, role: str) -> Estimate:
    mine = pick(found, model=role)
    whole = pick(mine, metric="perplexity", x=None)
    before = {end: one(mine, "reference_perplexity", end) for end in ENDS}
    values = np.log(whole["value"].to_numpy(float)) - np.log(before["value"])
    errors = [np.log(ends["high"] / ends["low"]) / 2 / Z for ends in (whole[["low", "high"]].mean(), before)]
    return Estimate.of_runs(list(values), float(np.hypot(*errors)), int(pick(mine, metric="perplexity")["n"].min()))


def _undone(found: pd.DataFrame, role: str) -> Estimate:
    rows = pick(found, model=role, metric="perplexity", axis="last_replaced", subset="layers")
    shares = []
    for _, run in rows.groupby("tune_seed"):
        values = np.log(run.sort_values("x")["value"].to_numpy(float))
        shares.append((values[0] - values[len(values) // 2]) / (values[0] - values[-1]))
    return Estimate.of_runs(shares)


def perplexities(side: Observed) -> pd.DataFrame:
    """Columns part (during, replaced), model, x (step, or layers replaced), value; a row per run."""
    found, tuned = _found(side)
    records: list[dict[str, object]] = []
    for role, title in tuned.items():
        mine = pick(found, model=role)
        base = float(pick(mine, metric="reference_perplexity")["value"].iloc[0])
        records.append({"part": "during", "model": title, "x": 0, "value": base})
        for during in sorted({model for model in found["model"] if model.startswith(f"{role}_during@")}):
            rows = pick(found, model=during, metric="perplexity", x=None)
            records += [_record("during", title, int(during.split("@")[1]), value) for value in rows["value"]]
        whole = pick(mine, metric="perplexity", x=None)
        records += [_record("during", title, steps_of(side, role), value) for value in whole["value"]]
        for row in pick(mine, metric="perplexity", axis="last_replaced", subset="layers").itertuples():
            records.append(_record("replaced", title, int(row.x), row.value))
    return pd.DataFrame(records)


def steps_of(side: Observed, role: str) -> int:
    """How many steps a model was tuned."""
    recipe = side.lock["models"][role][0]["recipe"]
    corpus = side.lock["spec"]["models"][role]["finetune"]["task"].partition("/")[0]
    return ceil(side.sizes(corpus)["train"] / recipe["batch"]) * int(recipe["epochs"])


def _record(part: str, title: str, x: int, value: float) -> dict[str, object]:
    return {"part": part, "model": title, "x": x, "value": float(value)}
