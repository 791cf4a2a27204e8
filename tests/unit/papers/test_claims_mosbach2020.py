"""Every statement of Mosbach et al. 2020 on planted tables: true, false, and not to be told."""

from functools import cache

import numpy as np
import pandas as pd
import planted
import pytest

from vestige.comparison.differences import Settings
from vestige.papers.mosbach2020 import changes, tables
from vestige.papers.mosbach2020.claims import STATEMENTS, sizes_apart
from vestige.papers.verdicts import Estimate

TUNED = {role: f"{role}/{role}" for role in ("cola", "sst2", "squad")}
PROBED = ("bigram_shift", "odd_man_out")
LAYERS, RUNS = 5, 3


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(changes, "SETTINGS", Settings(resamples=199))


def accuracy(true: bool, model: str, probed: str, pooling: str, layer: int, strength: float) -> float:
    """What a probe of sentences gets right."""
    better = pooling == "sentence_mean" if true else pooling == "cls"
    level = 0.5 + strength * (0.2 if better else -0.1)
    upper = layer > (LAYERS - 1) / 2
    if model == "base" or (not upper and true):
        return level
    if model == "cola" and probed == "bigram_shift":
        move = (0.15 if pooling == "cls" else 0.0) if true else -0.15
    else:
        move = -0.15 if true else 0.1
    return level + strength * move * (1 if upper else 2.2)


def items_of(true: bool, model: str, probed: str, run: int, sentences: int, strength: float) -> pd.DataFrame:
    """A table of scored sentences; a sentence is as hard for every model, so that only what is planted differs."""
    hard = np.random.default_rng(len(probed)).random(sentences)
    noise = np.random.default_rng([len(model), run]).normal(0, 0.02, sentences) if model != "base" else 0
    parts = []
    for pooling in ("cls", "sentence_mean"):
        for layer in range(LAYERS):
            right = hard + noise < accuracy(true, model, probed, pooling, layer, strength)
            parts.append(pd.DataFrame({"sentence": [f"s{n}" for n in range(sentences)], "word": -1, "subset": "task",
                                       "layer": layer, "probe_seed": 0, "correct": right, "pooling": pooling}))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


@cache
def side(true: bool, sentences: int = 300, strength: float = 1.0, spread: float = 0.01):
    """Probes, attention and perplexity as the paper has them, or the other way round."""
    sign, records, cells = (1 if true else -1), [], {}
    for model in ("base", *TUNED):
        for run in range(1 if model == "base" else RUNS):
            for probed in PROBED:
                cell = f"{model}-{run}-{probed}"
                cells[cell] = (true, model, probed, run, sentences, strength)
                records.append({"analysis": "sentence_probe", "cell": cell, "corpus": f"ewt_{probed}", "task": probed,
                                "model": model, "metric": "accuracy", "value": 0.5, "tune_seed": run})  # fmt: skip
    for model in ("cola", "cola_mean"):
        by_mean = model == "cola_mean"
        for layer in range(1, 7):
            upper, last = layer > 3, layer == 6
            wider = (0.1 if by_mean else 0.4) * upper - (0.6 * last if by_mean else 0)
            moved = (1.0 if by_mean else 2.0) * upper + 0.5
            for metric, value in (("entropy_change", sign * wider), ("emd", moved if true else 4 - moved)):
                for run, found in enumerate(planted.around(value, spread)):
                    records.append({"analysis": "attention", "model": model, "metric": metric, "layer": layer,
                                    "corpus": "ewt_bigram_shift", "tune_seed": run, "value": found,
                                    "low": found - spread, "high": found + spread})  # fmt: skip
    for model, rise in (("cola", 0.5), ("sst2", 1.5)):
        rise = sign * rise
        for run in range(RUNS):
            where = {"analysis": "perplexity", "model": model, "tune_seed": run, "corpus": "wikitext2"}

            def add(metric, log, where=where, **place):
                value = float(np.exp(log + planted.around(0, spread)[0]))
                ends = {"low": value * np.exp(-spread), "high": value * np.exp(spread)}
                records.append({**where, "metric": metric, "value": value, **ends, **place})

            add("reference_perplexity", 3)
            add("perplexity", 3 + rise)
            for x in range(7):
                left = (1 - min(x / 2, 1)) if true else (1 - max((x - 4) / 2, 0))
                add("perplexity", 3 + rise * left, axis="last_replaced", subset="layers", x=x)
    tuned = {**TUNED, "cola_mean": "cola/cola"}
    return planted.observed(planted.rows(records), tuned=tuned, runs=RUNS, items=lambda cell: items_of(*cells[cell]))


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: one.name)
def test_a_statement_agrees_differs_or_cannot_be_told(statement):
    assert statement.test(side(True)).verdict == "agrees"
    assert statement.test(side(False)).verdict == "differs"
    assert statement.test(side(True, sentences=16, strength=0.05, spread=3.0)).verdict == "cannot be told"


def test_a_larger_change_that_noise_may_have_made_is_none():
    """The size of a noisy estimate is large: wide intervals do not tell sizes apart, however far apart they are."""
    noisy, sure = Estimate(0.05, -0.02, 0.12), Estimate(0.01, 0.005, 0.015)
    found = sizes_apart(noisy, sure)
    assert found.value > 0 and found.low < 0
    assert sizes_apart(Estimate(-0.1, -0.12, -0.08), sure).low == pytest.approx(0.065)
    assert not sizes_apart(Estimate(0.1), sure).known


def test_a_model_that_was_not_tuned_leaves_its_statement_open():
    whole = side(True)
    some = planted.observed(
        whole.results[whole.results["model"] == "base"], tuned={"rte": "rte/rte"}, items=whole.items
    )
    by_name = {statement.name: statement for statement in STATEMENTS}
    for name in ("losses_sst2", "losses_squad", "cola_on_bigrams"):
        assert by_name[name].test(some).verdict == "cannot be told"


def test_tables_name_what_a_model_was_tuned_on_and_the_probes_that_failed():
    """A stand-in corpus is not called CoLA; a model without failed probes is not named."""
    where = {"analysis": "sentence_probe", "corpus": "treebank_bigram_shift", "metric": "failed_probe"}
    rows = [{**where, "model": "base", "layer": at, "value": value} for at, value in enumerate((0.0, 0.08, 0.0))]
    side = planted.observed(planted.rows(rows), tuned={"cola": "acceptability/acceptable", "sst2": "sst2/sst2"})
    assert tables._titles([side]) == {"cola": "acceptability", "sst2": "SST-2"}
    assert tables._failed([side]) == "Probes that failed, and are part of these averages: 1 of 3 of MiniLM."
    assert tables._failed([planted.observed(planted.rows(rows[:1]))]) == ""
