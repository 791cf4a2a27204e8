"""`vestige compare BASE TUNED --corpus FOLDER` as a user types it, from an empty cache to the written report.

    python benchmarks/compare.py TUNED            # MiniLM beside a fine-tune of it, all of UD English EWT
    python benchmarks/compare.py --large          # two models of 12 x 768 made from a configuration, the same corpus

VESTIGE_DATA must hold ud_ewt. Two worker processes with one thread each. Seconds are by the clock; processor seconds
are those of all processes; memory is the most anonymous resident memory of any one process, sampled ten times a second.
Of the large pair the tuned model is the base with noise of 1 % of its spread on every weight; as their weights are
random, they show time and memory and nothing else. Writes benchmarks/results/compare.json, which `benchmarks/write.py`
shows.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import psutil

RESULTS = Path(__file__).parent / "results" / "compare.json"
CORPUS = "ud_ewt"


def large_pair(folder: Path) -> tuple[str, str]:
    """Two BERTs of the base size, with MiniLM's tokenizer."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    from vestige.models.files.sources import minilm_folder

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(minilm_folder())
    model = BertModel(BertConfig(vocab_size=len(tokenizer), initializer_range=0.05))
    names = str(folder / "base"), str(folder / "tuned")
    for name in names:
        model.save_pretrained(name)
        tokenizer.save_pretrained(name)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.numel() > 1:
                    weight += 0.01 * torch.nan_to_num(weight.std()) * torch.randn_like(weight)
    return names


def anonymous(process: psutil.Process) -> float:
    """GB; 0 of a process that has gone."""
    try:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024 / 1e9
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0.0


def timed(base: str, tuned: str, place: Path, jobs: int) -> dict[str, Any]:
    """The command, watched while it runs."""
    command = [sys.executable, "-m", "vestige.cli", "compare", base, tuned, "--corpus", CORPUS]
    command += ["--engine", "local", "--jobs", str(jobs), "--cache", str(place / "cache"), "--out", str(place / "run")]
    used, start, most = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), 0.0
    with (place / "log").open("w") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log)
        root = psutil.Process(running.pid)
        while running.poll() is None:
            most = max([most, *map(anonymous, [root, *children(root)])])
            time.sleep(0.1)
    if running.returncode:
        raise SystemExit((place / "log").read_text()[-2000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return {"wall": time.perf_counter() - start, "cpu": cpu, "anonymous_gb": most, **steps(place)}


def children(root: psutil.Process) -> list[psutil.Process]:
    try:
        return root.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def steps(place: Path) -> dict[str, Any]:
    """What was computed."""
    import pandas

    cells = pandas.read_parquet(place / "run" / "cells.parquet")
    results = pandas.read_parquet(place / "run" / "results.parquet")
    gaps = results.loc[results["metric"] == "optimality_gap", "value"]
    return {"cells": len(cells), "largest_gap": float(gaps.max()) if len(gaps) else None}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("tuned", nargs="?", help="a fine-tune of MiniLM: a folder")
    arguments.add_argument("--large", action="store_true")
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--scratch", type=Path)
    given = arguments.parse_args()
    if not given.large and not given.tuned:
        arguments.error("name a fine-tune of MiniLM, or --large")
    with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
        place = Path(scratch)
        base, tuned = large_pair(place) if given.large else ("minilm", given.tuned)
        row = {
            "what": "12 x 768" if given.large else "MiniLM",
            "jobs": given.jobs,
            **timed(base, tuned, place, given.jobs),
        }
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": []}
    kept["rows"] = [*(old for old in kept["rows"] if old["what"] != row["what"]), row]
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(row))


if __name__ == "__main__":
    main()
