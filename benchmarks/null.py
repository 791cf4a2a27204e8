"""What every compared analysis claims of copies of one model, where nothing is to be found.

    python benchmarks/null.py            # runs what is not there yet and keeps benchmarks/results/null.json
    python benchmarks/null.py --write    # docs/null.md from the results

MiniLM on the built-in treebank. Copies: rotated (where a measure should not care for axes), 1 % noise on every
hidden state, and the same vectors under other seeds of the probes. Counted: comparisons significant after
correction (q <= .05), before it (p <= .05), called unchanged, called changed, and sentences of change on the page.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from vestige.analyses import find_analysis
from vestige.analyses.base import Inputs
from vestige.comparison.differences import Settings, control_false_discoveries
from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus
from vestige.models.files.load import load_model
from vestige.representations.extract import represent
from vestige.study.differences import compare_declared
from vestige.study.null import claims, null_study, null_table

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results" / "null.json", HERE.parent / "docs" / "null.md"
SIZES = {"train": 120, "dev": 50, "test": 150}
COPIES, SEEDS = 2, 3
EDGES = {"rate": 3e-3, "validate_every": 20, "max_validations": 6, "inputs": ["top", "mix"]}
SENTEVAL = {"control": "none", "protocol": "senteval"}
NEURONS = {"l1": 1e-3, "l2": 1e-3, "explored": 0, "control": False}
ANALYSES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "layer probe, converged": ("layer_probe", "words/xpos", {}),
    "layer probe, durrani": ("layer_probe", "words/xpos", {"protocol": "durrani"}),
    "layer probe, mlp": ("layer_probe", "words/xpos", {"probe": "mlp", "control": False}),
    "sentence probe, converged": ("sentence_probe", "sentences/bigram_shift", {"control": "none"}),
    "sentence probe, senteval": ("sentence_probe", "sentences/bigram_shift", SENTEVAL),
    "structural probe": ("structural_probe", "words/head", {"rank": 64}),
    "edge probe": ("edge_probe", "arcs/dependency_arcs", EDGES),
    "description length, linear": ("description_length", "words/xpos", {"control": False}),
    "description length, mlp": ("description_length", "words/xpos", {"control": False, "probe": "mlp"}),
    "probe transfer": ("probe_transfer", "words/xpos", {}),
    "V-information": ("v_information", "words/xpos", {}),
    "geometry": ("geometry", "words/xpos", {"measures": ["cosine", "norm", "spectrum", "dimension"]}),
    "clusters": ("concepts", "words/upos", {}),
    "neurons": ("neurons", "words/upos", NEURONS),
    "neuron rankers": ("neuron_rankers", "words/upos", {}),
    "neuron redundancy": ("neuron_redundancy", "words/upos", {}),
}
AXES_MATTER = ("probe transfer", "neurons", "neuron rankers", "neuron redundancy")
SEEDED = ("layer probe, durrani", "layer probe, mlp", "sentence probe, senteval", "structural probe", "edge probe",
          "description length, mlp")  # fmt: skip
"""Analyses whose probes depend on a seed of their own."""


def corpora() -> dict[str, Corpus]:
    return {
        "words": load_corpus("treebank").sample(SIZES),
        "arcs": load_corpus("treebank", derive="dependency_arcs").sample(SIZES),
        "sentences": load_corpus("treebank", derive="bigram_shift").sample(SIZES),
    }


def measure(name: str, cache: Path) -> list[dict[str, Any]]:
    """Rows of one analysis: a kind of copy and a metric each."""
    analysis, task, settings = ANALYSES[name]
    encoder, known = load_model("minilm"), corpora()
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        asked = [{analysis: {"tasks": [task], **settings}}]
        rotated = name not in AXES_MATTER
        run = null_study(encoder, known, asked, Path(folder), copies=COPIES, rotated=rotated, cache=cache)
        rows = null_table(run).drop(columns=["analysis", "params"]).to_dict("records")
        said = claims(run)
    if name in SEEDED:
        rows += _other_seeds(analysis, task, settings, known, encoder, cache)
    spent = time.process_time() - started
    return [{"name": name, **row, "claims": said, "cpu_seconds": round(spent)} for row in rows]


def _other_seeds(
    analysis: str, task: str, settings: dict[str, Any], known: dict[str, Corpus], encoder: Any, cache: Path
) -> list[dict[str, Any]]:
    """The same vectors, three seeds of the probes against three others."""
    corpus, label = task.split("/")
    made = find_analysis(analysis)(**{**settings, "seeds": 2 * SEEDS})
    found: dict[str, dict[str, Any]] = {pooling: {} for pooling in made.poolings}
    for split, sentences in known[corpus].splits.items():
        for pooling, representations in represent(encoder, sentences, made.poolings, cache=cache).items():
            found[pooling][split] = representations
    outcome = made.run(Inputs(known[corpus].task(label), found, "minilm"))
    tables = {"items": outcome.items, **outcome.tables}
    metrics = [metric for metric in made.given if metric.compared is not None and tables.get(metric.compared.table)]
    judged = control_false_discoveries(compare_declared(metrics, lambda name: _halves(tables[name]), stochastic=True))
    return [
        {
            "metric": metric,
            "copy": "seeds",
            "comparisons": len(mine),
            "described": int(mine["p"].isna().sum()),
            "significant": int((mine["q"] <= Settings().alpha).sum()),
            "uncorrected": int((mine["p"] <= Settings().alpha).sum()),
            "unchanged": int((mine["verdict"] == "unchanged").sum()),
            "changed": int(mine["verdict"].isin(["lower", "higher"]).sum()),
            "largest": float(mine["difference"].abs().max()),
        }
        for metric, mine in judged.groupby("metric", sort=False)
    ]


def _halves(table: Any) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    frame = pd.DataFrame(table)
    other = frame[frame["probe_seed"] >= SEEDS]
    return frame[frame["probe_seed"] < SEEDS], [other.assign(probe_seed=other["probe_seed"] - SEEDS)]


def page(rows: list[dict[str, Any]]) -> str:
    table = pd.DataFrame(rows)
    table["changed"] = table["changed"].fillna(0) if "changed" in table else 0  # none is where none is significant
    counts = ["comparisons", "described", "uncorrected", "significant", "unchanged", "changed"]
    grouped = table.groupby(["name", "copy"], sort=False)
    total, largest = grouped[counts].sum(), 100 * grouped["largest"].max()
    tested = table["comparisons"].sum() - table["described"].sum()
    sentences = sum(len(said) for said in table.drop_duplicates("name")["claims"])
    worst = (total["changed"] / (total["comparisons"] - total["described"]).clip(lower=1)).max()
    lines = [
        f"| {name} | {copy} | {' | '.join(str(int(total.loc[(name, copy), column])) for column in counts)} | "
        f"{largest[name, copy]:.2f} |"
        for name, copy in total.index
    ]
    return f"""# Copies of one model: what every analysis claims where nothing is to be found

Written by `python benchmarks/null.py --write` from `benchmarks/results/null.json`. MiniLM on {SIZES["train"]} training,
{SIZES["dev"]} development and {SIZES["test"]} test sentences of the built-in treebank, default settings except where
`benchmarks/null.py` says otherwise. A copy is the same model with its hidden states *rotated* (one rotation for all
layers), with *noise* of 1 % of their root mean square, or the same vectors read by probes of other *seeds*; two copies
of the first two kinds, one split of six seeds into three and three.

Of {tested} comparisons with a test, {int(table["changed"].sum())} are called a change; the largest share in one row is
{100 * worst:.1f} %. After correction (q <= .05) {int(table["significant"].sum())} are significant, most of them far
within the margin of their metric, and called *unchanged*: noise truly adds a little, and single words are read alike to
a hundredth of a bit. The pages carry {sentences} sentences of change.
*Described* comparisons have no test and claim nothing (a search that is made once). The largest difference is in points
(percent, or hundredths of a correlation).

| analysis | copy | comparisons | described | p <= .05 | q <= .05 | unchanged | changed | largest difference |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(lines)}
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", action="store_true", help="write docs/null.md from the results")
    arguments.add_argument("--cache", default=".cache/null", help="where finished cells are kept")
    arguments.add_argument("names", nargs="*", help="analyses to measure; all that have no results if none is named")
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    kept: dict[str, list[dict[str, Any]]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not asked.write:
        for name in asked.names or [name for name in ANALYSES if name not in kept]:
            kept[name] = measure(name, Path(asked.cache))
            RESULTS.write_text(json.dumps(kept, indent=1))
            print(pd.DataFrame(kept[name]).drop(columns="claims").to_string(), kept[name][0]["claims"], flush=True)
    PAGE.write_text(page([row for name in ANALYSES for row in kept.get(name, [])]))


if __name__ == "__main__":
    main()
