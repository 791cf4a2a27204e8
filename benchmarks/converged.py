"""The converged linear probe beside scikit-learn (lbfgs) and cyanure (its own choice of solver), at an equal objective.

    python benchmarks/converged.py [--layers 2 6] [--words 0] [--ridges 200 20 2]

MiniLM on the train sentences of UD English EWT with their XPOS tags (VESTIGE_DATA must hold ud_ewt); rows as probes
read them, around their mean at unit size. Ours: every ridge to a certified gap of 1e-2 nats, each from the weights of
the one before. The peers: the same objectives from zero at the loosest of a ladder of tolerances whose objective is
not above ours; only that fit is counted. Times are CPU seconds of this process, one thread, ours the median of three
runs. Writes benchmarks/results/converged.json, which `benchmarks/write.py` shows.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from cyanure.estimators import Classifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from vestige.corpus.load import load_corpus
from vestige.models.files.load import load_model
from vestige.probes.linear.quasi_newton import principal_axes
from vestige.probes.linear.solver import solve
from vestige.probes.problem import Features
from vestige.probes.rows import LabelledRows
from vestige.representations.extract import represent

RESULTS = Path(__file__).parent / "results" / "converged.json"
GAP, REPEATS = 1e-2, 3
LADDER = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
"""Tolerances of the peers that are tried, from loose to strict."""
Weights = tuple[np.ndarray, np.ndarray]
"""(units, classes) and (classes,)."""


def objective(x: np.ndarray, y: np.ndarray, weights: np.ndarray, biases: np.ndarray, l2: float) -> float:
    """In float64: mean cross-entropy plus l2 times the squared weights."""
    total = 0.0
    for start in range(0, len(x), 8192):
        logits = x[start : start + 8192].astype(np.float64) @ weights + biases
        gold = logits[np.arange(len(logits)), y[start : start + 8192]]
        most = logits.max(1)
        total += float((np.log(np.exp(logits - most[:, None]).sum(1)) + most - gold).sum())
    return total / len(x) + l2 * float((weights.astype(np.float64) ** 2).sum())


def scikit_learn(x: np.ndarray, y: np.ndarray, l2: float, tolerance: float) -> Weights:
    fit = LogisticRegression(C=1 / (2 * l2 * len(x)), tol=tolerance, max_iter=2000).fit(x, y)
    return fit.coef_.T, fit.intercept_


def cyanure(x: np.ndarray, y: np.ndarray, l2: float, tolerance: float) -> Weights:
    """It minimises the mean loss plus lambda_1 / 2 times the squared weights."""
    fit = Classifier(loss="multiclass-logistic", penalty="l2", lambda_1=2 * l2, solver="auto", tol=tolerance,
                     max_iter=500, fit_intercept=True, verbose=False, n_threads=1).fit(x, y)  # fmt: skip
    return fit.coef_, fit.intercept_.ravel()


PEERS = {"scikit-learn": scikit_learn, "cyanure": cyanure}


def theirs(name: str, x: np.ndarray, y: np.ndarray, l2: float, aim: float) -> dict[str, Any]:
    """The loosest fit of the ladder that is not above the aim; else the strictest."""
    for tolerance in LADDER:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weights, biases = PEERS[name](x, y, l2, tolerance)
        spent = time.process_time() - start
        reached = objective(x, y, weights, biases, l2)
        if reached <= aim + 1e-6:
            break
    return {"seconds": spent, "objective": reached, "tolerance": tolerance}


def measure(layers: list[int], words: int, ridges: list[float]) -> dict[str, Any]:
    data = Path(os.environ["VESTIGE_DATA"]) / "ud_ewt"
    corpus = load_corpus({split: data / f"en_ewt-ud-{split}.conllu" for split in ("train", "dev")})
    encoder = load_model("minilm")
    found = {split: represent(encoder, corpus[split], ("last",))["last"] for split in ("train", "dev")}
    rows = LabelledRows.of(corpus.task("xpos"), found, "minilm")
    labels, classes = rows.labels["train"], len(rows.classes)
    count = min(words, len(labels)) if words else len(labels)
    labels, table = labels[:count], []
    for layer in layers:
        x = np.ascontiguousarray(rows.features("train", layer).rows(slice(0, count)).numpy())
        runs = [path(x, labels, classes, ridges) for _ in range(REPEATS)]
        for ridge, *fits in zip(ridges, *runs, strict=True):
            spent, weights = sorted(seconds for seconds, _ in fits), fits[0][1].weights[0].double().numpy()
            reached = objective(x, labels.numpy(), weights[:-1], weights[-1], ridge / count)
            gap, passes = float(fits[0][1].gap[0]), fits[0][1].passes
            ours = {"seconds": spent[REPEATS // 2], "least": spent[0], "most": spent[-1], "objective": reached}
            row = {"layer": layer, "ridge": ridge, "ours": {**ours, "gap": gap, "passes": passes}}
            row |= {name: theirs(name, x, labels.numpy(), ridge / count, reached) for name in PEERS}
            table.append(row)
            print(json.dumps(row), flush=True)
    return {"gap": GAP, "words": count, "classes": classes, "width": x.shape[1], "rows": table}


def path(x: np.ndarray, labels: torch.Tensor, classes: int, ridges: list[float]) -> list[tuple[float, Any]]:
    """Ours: seconds and fit of every ridge, the principal axes in the first."""
    features, start, axes, found = Features(x), None, None, []
    for ridge in ridges:
        began = time.process_time()
        axes = principal_axes(features) if axes is None else axes
        fit = solve(features, labels[None], classes, [0.0], [ridge / len(x)], tolerance=GAP, start=start, axes=axes)
        found.append((time.process_time() - began, fit))
        start = fit.weights
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, nargs="+", default=[0, 2, 4, 6])
    parser.add_argument("--words", type=int, default=0, help="the first so many words; 0: all")
    parser.add_argument("--ridges", type=float, nargs="+", default=[200.0, 20.0, 2.0])
    given = parser.parse_args()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        found = measure(given.layers, given.words, given.ridges)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
