"""Real fine-tuning runs of MiniLM: scores beside their baselines, wall time and memory of every run.

    VESTIGE_DATA=... python benchmarks/finetuning.py                # all tasks; what is there is not run again
    python benchmarks/finetuning.py --write                         # docs/finetuning.md from the results

Every task is tuned as its recipe says (rate and epochs changed where `changes` says so: MiniLM is small and takes
a larger step than the papers' models), once with all weights learning and once with the whole encoder frozen under
the same head. Each run is a process of its own, so that its peak memory is its own.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "finetuning.json"
PAGE = Path(__file__).parents[1] / "docs" / "finetuning.md"
FAST = {"rate": 1e-4, "epochs": 2}

TASKS: dict[str, dict[str, Any]] = {
    "SST-2": {
        "name": "sst2",
        "task": "sst2",
        "recipe": "mosbach2020_sst2",
        "sample": 10_000,
        "changes": {**FAST, "epochs": 1},
    },
    "CoLA": {"name": "cola", "task": "cola", "recipe": "mosbach2020_cola", "changes": {**FAST, "epochs": 1}},
    "MRPC": {"name": "mrpc", "task": "mrpc", "recipe": "durrani2021_mrpc", "changes": FAST, "split": "test"},
    "RTE": {"name": "rte", "task": "rte", "recipe": "mosbach2020_rte", "changes": FAST},
    "STS-B": {"name": "stsb", "task": "stsb", "recipe": "durrani2021_stsb", "changes": {**FAST, "epochs": 1}},
    "SQuAD": {
        "files": {"train": "squad11/dev-v1.1.json", "dev": "squad11/test-v1.1.json"},
        "format": "squad",
        "task": "answer",
        "recipe": "mosbach2020_squad",
        "sample": {"train": 1000, "dev": 500},
        "changes": FAST,
    },
    "EWT parsing": {
        "name": "ud_ewt",
        "task": "head",
        "recipe": "merchant2020_parsing",
        "sample": {"train": 4000},
        "changes": FAST,
    },
}


def main() -> None:
    """Run what is missing, or write the page."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--only", nargs="*", choices=list(TASKS), default=list(TASKS))
    arguments.add_argument("--one", nargs=2, metavar=("TASK", "FREEZE"), help=argparse.SUPPRESS)
    arguments.add_argument("--write", action="store_true", help="write the page from the results")
    given = arguments.parse_args()
    if given.write:
        PAGE.write_text(page(json.loads(RESULTS.read_text())))
    elif given.one:
        print(json.dumps(run(given.one[0], given.one[1] == "frozen")))
    else:
        _run_all(given.only)


def _run_all(names: list[str]) -> None:
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names:
        for how in ("tuned", "frozen"):
            if how in done.get(name, {}):
                continue
            said = subprocess.run(
                [sys.executable, __file__, "--one", name, how], check=True, stdout=subprocess.PIPE, text=True
            ).stdout
            done.setdefault(name, {})[how] = json.loads(said.splitlines()[-1])
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(done, indent=1))
            print(name, how, done[name][how]["scores"], flush=True)


def run(name: str, frozen: bool) -> dict[str, Any]:
    """One run: its scores, its time and its peak memory."""
    import torch

    from vestige.corpus.load import load_corpus
    from vestige.finetune.recipe import load_recipe
    from vestige.finetune.score import score
    from vestige.finetune.train import finetune
    from vestige.models.files.load import load_model

    wanted = TASKS[name]
    root = Path(os.environ["VESTIGE_DATA"])
    files = {split: root / path for split, path in wanted.get("files", {}).items()}
    corpus = load_corpus(files or wanted["name"], format=wanted.get("format"))
    if "sample" in wanted:
        corpus = corpus.sample(wanted["sample"])
    depth = len(load_model("minilm").widths) - 1
    recipe = load_recipe(
        wanted["recipe"], **{**wanted["changes"], "save_epochs": False, "freeze": depth if frozen else None}
    )
    task, split = corpus.task(wanted["task"]), wanted.get("split", "dev")
    start, computed = time.perf_counter(), time.process_time()
    tuned = finetune("minilm", task, recipe, threads=torch.get_num_threads())
    seconds, computed = time.perf_counter() - start, time.process_time() - computed
    found = score(tuned, task, split)
    return {
        "split": split,
        "train": len(corpus["train"]),
        "held": len(corpus[split]),
        "recipe": wanted["recipe"],
        "rate": recipe.rate,
        "epochs": recipe.epochs,
        "steps": tuned.log["steps"],
        "learning": tuned.log["learning"],
        "threads": torch.get_num_threads(),
        "scores": found.summary(),
        "seconds": seconds,
        "cpu_seconds": computed,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def page(results: dict[str, Any]) -> str:
    """docs/finetuning.md."""
    lines = [
        "# Fine-tuning MiniLM",
        "*Written by `python benchmarks/finetuning.py --write` from benchmarks/results/finetuning.json. Do not edit.*",
        f"One run per line, {_threads(results)}, float32, other work beside it; scores with 95 % intervals over "
        "examples (a bootstrap). `frozen` is the same head on the encoder as it was loaded. The rate is MiniLM's, not "
        "the papers' (see the script), and so are the epochs. Training sets that are smaller "
        "than their corpus are draws; SQuAD is trained on one half of the official dev set and scored on the other.",
        "| task | measure | tuned | frozen encoder | majority | train / held out | epochs | "
        "wall time, tuned / frozen | CPU time, tuned / frozen | peak memory, tuned / frozen |",
        "| :-- | :-- | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    table = []
    for name, found in results.items():
        tuned, frozen = found["tuned"], found.get("frozen")
        for measure, value in tuned["scores"].items():
            other = frozen["scores"][measure] if frozen else None
            cells = [name, measure, _interval(value), _interval(other), _plain(value["majority"])]
            cells += [f"{tuned['train']} / {tuned['held']} ({tuned['split']})", str(tuned["epochs"])]
            cells += [
                " / ".join(f"{r['seconds']:.0f} s" for r in (tuned, frozen) if r),
                " / ".join(f"{r['cpu_seconds']:.0f} s" for r in (tuned, frozen) if r),
                " / ".join(f"{r['peak_mb']:.0f} MB" for r in (tuned, frozen) if r),
            ]
            table.append(f"| {' | '.join(cells)} |")
            name = ""
    return "\n\n".join(lines[:3]) + "\n\n" + "\n".join(lines[3:] + table) + "\n"


def _threads(results: dict[str, Any]) -> str:
    found = sorted({run["threads"] for task in results.values() for run in task.values()})
    return "one CPU thread" if found == [1] else f"{' or '.join(map(str, found))} CPU threads"


def _interval(value: dict[str, float] | None) -> str:
    if value is None:
        return "\u2013"
    return f"{100 * value['value']:.1f} ({100 * value['low']:.1f} to {100 * value['high']:.1f})"


def _plain(value: float | None) -> str:
    return "\u2013" if value is None else f"{100 * value:.1f}"


if __name__ == "__main__":
    main()
