"""What every compared analysis claims of copies of one model, where nothing is to be found.

    python benchmarks/null.py            # runs what is not there yet and keeps benchmarks/results/null.json
    python benchmarks/null.py --write    # docs/null.md from the results

MiniLM on the built-in treebank. Copies: rotated (where a measure should not care for axes), 1 % noise on every
hidden state, and the same vectors under other seeds of the probes. Analyses that ask the model itself get copies with
1 % noise on every weight, of MiniLM or of SmolLM2-135M cut to its first blocks. Counted: comparisons significant
after correction (q <= .05), before it (p <= .05), called unchanged, called changed, and sentences of change on the
page. Similarities to the reference have no test; the smallest is kept.
"""

import argparse
import json
import sys
import tempfile
import time
from copy import deepcopy
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
from vestige.study.null import NOISE, claims, null_study, null_table
from vestige.study.run import Study

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))
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
    "V-information, mlp": ("v_information", "words/xpos", {"probe": "mlp", "context": False}),
    "geometry": ("geometry", "words/xpos", {"measures": ["cosine", "norm", "spectrum", "dimension"]}),
    "clusters": ("concepts", "words/upos", {}),
    "neurons": ("neurons", "words/upos", NEURONS),
    "neuron rankers": ("neuron_rankers", "words/upos", {}),
    "neuron redundancy": ("neuron_redundancy", "words/upos", {}),
}
PATCHED = {"measures": ["loss"], "sites": ["block"], "g": [0.5]}
ASKED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "patching": ("patching", "minilm", PATCHED),
    "patching, frozen probe": ("patched_probe", "minilm", {"sites": ["block", "block weights"], "g": [0.5]}),
    "lens": ("lens", "minilm", {}),
    "output drift, SmolLM2": ("output_drift", "smollm2", {}),
}
"""Analyses that ask the model itself, and which model they ask."""
SIMILARITY = "similarity"
"""Is a comparison itself, and tests nothing: kept is the smallest value of every measure."""
AXES_MATTER = ("probe transfer", "neurons", "neuron rankers", "neuron redundancy")
SEEDED = ("layer probe, durrani", "layer probe, mlp", "sentence probe, senteval", "structural probe", "edge probe",
          "description length, mlp", "V-information, mlp")  # fmt: skip
"""Analyses whose probes depend on a seed of their own."""


def corpora() -> dict[str, Corpus]:
    return {
        "words": load_corpus("treebank").sample(SIZES),
        "arcs": load_corpus("treebank", derive="dependency_arcs").sample(SIZES),
        "sentences": load_corpus("treebank", derive="bigram_shift").sample(SIZES),
    }


def measure(name: str, cache: Path) -> list[dict[str, Any]]:
    """Rows of one analysis: a kind of copy and a metric each."""
    started = time.process_time()
    how = _of_weights if name in ASKED else _similar if name == SIMILARITY else _of_states
    rows, said = how(name, cache)
    spent = time.process_time() - started
    return [{"name": name, **row, "claims": said, "cpu_seconds": round(spent)} for row in rows]


def _counted(run: Any) -> tuple[list[dict[str, Any]], list[str]]:
    return null_table(run).drop(columns=["analysis", "params"]).to_dict("records"), claims(run)


def _of_weights(name: str, cache: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The model itself beside copies with noise on every weight."""
    analysis, of, settings = ASKED[name]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        model, tokenizer = _loaded(of)
        models: dict[str, Any] = {"base": str(folder / "base")}
        for seed in range(COPIES):
            models[f"weights {seed}"] = {"load": str(folder / f"copy{seed}"), "reference": "base"}
        for seed, place in enumerate(["base", *(f"copy{seed}" for seed in range(COPIES))]):
            (_noisy(model, seed) if seed else model).save_pretrained(folder / place)
            tokenizer.save_pretrained(folder / place)
        raw = {
            "study": "null",
            "models": models,
            "corpora": {"words": {"name": "treebank", "sample": SIZES}},
            "analyses": [{analysis: {"tasks": ["words/xpos"], **settings}}],
        }
        return _counted(Study.from_dict(raw, folder / "run", cache=cache).run(name="inline"))


def _loaded(name: str) -> tuple[Any, Any]:
    if name == "smollm2":
        import smollm2

        return smollm2.load()
    encoder: Any = load_model(name)
    return encoder.model, encoder.tokenizer


def _noisy(model: Any, seed: int) -> Any:
    copy, drawn = deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in copy.parameters():
            spread = weight.std(correction=0)
            weight.add_(NOISE * spread * torch.randn(weight.shape, generator=drawn))
    return copy


def _of_states(name: str, cache: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Copies of hidden states, and other seeds."""
    analysis, task, settings = ANALYSES[name]
    encoder, known = load_model("minilm"), corpora()
    with tempfile.TemporaryDirectory() as folder:
        asked = [{analysis: {"tasks": [task], **settings}}]
        rotated = name not in AXES_MATTER
        run = null_study(encoder, known, asked, Path(folder), copies=COPIES, rotated=rotated, cache=cache)
        rows, said = _counted(run)
    if name in SEEDED:
        rows += _other_seeds(analysis, task, settings, known, encoder, cache)
    return rows, said


def _similar(name: str, cache: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The smallest value that a measure of similarity takes, over layers and copies."""
    measures = ["rsa", "rsa_centred", "cka", "cka_without_extremes", "cka_without_outliers"]
    asked = [{name: {"tasks": ["words/xpos"], "measures": measures}}]
    with tempfile.TemporaryDirectory() as folder:
        run = null_study(load_model("minilm"), corpora(), asked, Path(folder), copies=COPIES, cache=cache)
        found = run.results[run.results["metric"].isin(measures)]
        found = found.assign(copy=found["model"].str.split(" ").str[0], value=found["value"].astype(float))
        least = found.groupby(["metric", "copy"], sort=False)["value"].min()
        return [{"metric": metric, "copy": copy, "least": value} for (metric, copy), value in least.items()], claims(
            run
        )


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


def page(kept: dict[str, list[dict[str, Any]]]) -> str:
    table = pd.DataFrame([row for name in [*ANALYSES, *ASKED] for row in kept.get(name, [])])
    table["changed"] = table["changed"].fillna(0) if "changed" in table else 0  # none is where none is significant
    counts = ["comparisons", "described", "uncorrected", "significant", "unchanged", "changed"]
    grouped = table.groupby(["name", "copy"], sort=False)
    total, largest = grouped[counts].sum(), 100 * grouped["largest"].max()
    tested = table["comparisons"].sum() - table["described"].sum()
    sentences = sum(len(said) for said in table.drop_duplicates("name")["claims"])
    worst = (total["changed"] / (total["comparisons"] - total["described"]).clip(lower=1)).max()
    least = {(row["metric"], row["copy"]): row["least"] for row in kept.get(SIMILARITY, [])}
    measures = dict.fromkeys(metric for metric, _ in least)
    alike = [f"| {one} | {least[one, 'rotated']:.5f} | {least[one, 'noise']:.5f} |" for one in measures]
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
of the first two kinds, one split of six seeds into three and three. Analyses that ask the model itself get two copies
with noise of 1 % of their spread on all *weights*, of MiniLM or, where it says so, of the first 13 blocks of
SmolLM2-135M, a trained decoder.

Of {tested} comparisons with a test, {int(table["changed"].sum())} are called a change; the largest share in one row is
{100 * worst:.1f} %. After correction (q <= .05) {int(table["significant"].sum())} are significant, most of them far
within the margin of their metric, and called *unchanged*: noise truly adds a little, and single words are read alike to
a hundredth of a bit. The pages carry {sentences} sentences of change.
*Described* comparisons have no test and claim nothing (a search that is made once). The largest difference is in
hundredths: points of percent, hundredths of a bit, of a nat or of a correlation.

| analysis | copy | comparisons | described | p <= .05 | q <= .05 | unchanged | changed | largest difference |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(lines)}

Similarities to the reference are comparisons themselves, and no test is made of them. The smallest over layers and
copies:

| measure | rotated | noise |
|---|---|---|
{chr(10).join(alike)}
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
        for name in asked.names or [name for name in [*ANALYSES, *ASKED, SIMILARITY] if name not in kept]:
            kept[name] = measure(name, Path(asked.cache))
            RESULTS.write_text(json.dumps(kept, indent=1))
            print(pd.DataFrame(kept[name]).drop(columns="claims").to_string(), kept[name][0]["claims"], flush=True)
    PAGE.write_text(page(kept))


if __name__ == "__main__":
    main()
