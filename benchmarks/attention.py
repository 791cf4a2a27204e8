"""Attention of 10,000 sentences, every query of every head, base beside tuned: time and memory.

    python benchmarks/attention.py [--sentences 10000] [--out benchmarks/results]

The first training sentences of UD English EWT (VESTIGE_DATA must hold ud_ewt), MiniLM, and MiniLM tuned for an
epoch on the opinions that come with vestige. The model is tuned in a process of its own. Memory is the peak
of the process that analyses, libraries, models and corpus included. One thread.
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

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from vestige.analyses.attention import Attention
from vestige.analyses.base import Inputs
from vestige.corpus.load import load_corpus
from vestige.finetune.recipe import load_recipe
from vestige.finetune.train import finetune
from vestige.models.files.load import load_model

LIMIT_GB = 1.5


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def tune(cache: Path) -> Path:
    """The folder of a tuned model."""
    recipe = load_recipe("mosbach2020_sst2", rate=1e-4, batch=16, save_epochs=False)
    return finetune("minilm", load_corpus("opinions").task("opinion"), recipe, threads=1, cache=cache).folder


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sentences", type=int, default=10_000)
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments.add_argument("--tune", type=Path, metavar="CACHE", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    if given.tune:
        print(tune(given.tune))
        return
    corpus = load_corpus("ud_ewt")
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--tune", cache]
        tuned = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        models = [load_model(source) for source in ("minilm", tuned)]
    base = Inputs(corpus.task("upos"), {}, "base", encoder=models[0])
    inputs = Inputs(corpus.task("upos"), {}, "tuned", encoder=models[1], reference=base)
    before, start = peak_gb(), time.process_time()
    outcome = Attention(queries="all", sentences=given.sentences, split="train").run(inputs)
    spent = time.process_time() - start
    shape = {name: len({row[name] for row in outcome.rows if row.get(name) is not None}) for name in ("layer", "head")}
    result = {
        "data": "UD English EWT, train",
        "sentences": given.sentences,
        "words": sum(len(sentence.words) for sentence in corpus["train"][: given.sentences]),
        **shape,
        "seconds": spent,
        "peak_before_gb": before,
        "peak_gb": peak_gb(),
        "limit_gb": LIMIT_GB,
    }
    print(result)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "attention.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
