"""Training beside transformers' Trainer: tokens a second on the same data and model, in one process.

    VESTIGE_DATA=... python benchmarks/training.py [--steps 8] [--repeats 3] [--out benchmarks/results]

MiniLM with a classification head on MNLI pairs, batches of 32, float32, fused AdamW, clipping, no dropout of any
kind switched off, nothing saved, scored or logged while the clock runs. Two data sets: `padded`, pairs that all fill
the same 64 tokens, so that neither side can gain by the order of its batches, and `real`, pairs of every length,
where Trainer pads each random batch to its longest pair, groups by length where told to, and vestige puts pairs of
like length together. Tokens are those that are no padding. CPU seconds of this process, one thread; the sides take
turns, and a ratio is the median over the turns of the two rates of one turn.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding, Trainer, TrainingArguments

from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus
from vestige.finetune.loop import Run
from vestige.finetune.model import build
from vestige.finetune.problems import find_problem
from vestige.finetune.recipe import load_recipe
from vestige.models.encoders.reading import AS_IS
from vestige.models.files.load import load_backbone, load_tokenizer
from vestige.models.files.sources import model_folder

BATCH, FILLED, RATE = 32, 64, 1e-4


def main() -> None:
    """Time both sides and keep the rows."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--steps", type=int, default=8)
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    folder = model_folder("minilm")
    corpus = load_corpus(
        {"train": Path(os.environ["VESTIGE_DATA"]) / "mnli" / "dev_matched.tsv"}, format="glue", task="mnli"
    )
    rows = []
    for name, chosen in _data(corpus, load_tokenizer(folder), given.steps * BATCH).items():
        sides: dict[str, Callable[[], tuple[float, int]]] = {
            "vestige": lambda chosen=chosen: time_vestige(folder, chosen),
            "Trainer": lambda chosen=chosen: time_trainer(folder, chosen, "random"),
            "Trainer, grouped by length": lambda chosen=chosen: time_trainer(folder, chosen, "group_by_length"),
        }
        taken: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(given.repeats):
            for side, timed in sides.items():
                seconds, tokens = timed()
                taken[side].append(tokens / seconds)
                print(name, side, round(tokens / seconds), flush=True)
        rows.append({"data": name, "steps": given.steps, "repeats": given.repeats, "tokens_per_second": taken})
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "training.json").write_text(json.dumps({"rows": rows, "batch": BATCH, "filled": FILLED}, indent=1))


def _data(corpus: Corpus, tokenizer: Any, count: int) -> dict[str, Corpus]:
    """`count` pairs of every length, and as many that fill `FILLED` tokens and more."""

    def length(sentence: Any) -> int:
        return len(tokenizer(" ".join(sentence.words), " ".join(sentence.second))["input_ids"])

    pairs = corpus["train"]
    long = [pair for pair in pairs if length(pair) >= FILLED][:count]
    drawn = corpus.sample(count)["train"]
    return {name: replace(corpus, splits={"train": tuple(some)}) for name, some in (("padded", long), ("real", drawn))}


def time_vestige(folder: Path, corpus: Corpus) -> tuple[float, int]:
    """CPU seconds and tokens of one epoch of vestige's loop."""
    recipe = load_recipe("durrani2021_sst2", levels=(), rate=RATE, epochs=1, save_epochs=False, max_tokens=FILLED)
    task = corpus.task("mnli")
    problem = find_problem(task, recipe)
    backbone, _ = load_backbone(folder, torch.float32, False, False, None, AS_IS)
    model = build(backbone, load_tokenizer(folder), problem, recipe, name="minilm", seed=0, device="cpu")
    examples, _ = problem.examples(model.encoder, corpus["train"], task.name, True)
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(
            model, examples, recipe, seed=0, folder=Path(scratch), score=dict, save=lambda place: None,
            watched="", state_seconds=1e9,
        )  # fmt: skip
        start = time.process_time()
        run.train("mnli")
        return time.process_time() - start, sum(len(example.encoded.ids) for example in examples)


def time_trainer(folder: Path, corpus: Corpus, sampling: str) -> tuple[float, int]:
    """The same of Trainer."""
    tokenizer = load_tokenizer(folder)
    labels = sorted({sentence.annotations["mnli"] for sentence in corpus["train"]})
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=len(labels))
    data = _encoded(tokenizer, corpus, labels)
    with tempfile.TemporaryDirectory() as scratch:
        settings = TrainingArguments(
            output_dir=scratch, per_device_train_batch_size=BATCH, num_train_epochs=1, learning_rate=RATE,
            weight_decay=0.01, warmup_steps=1, max_grad_norm=1.0, optim="adamw_torch_fused", use_cpu=True, seed=0,
            report_to=[], save_strategy="no", logging_strategy="no", eval_strategy="no", disable_tqdm=True,
            train_sampling_strategy=sampling,
        )  # fmt: skip
        trainer = Trainer(model, settings, train_dataset=data, data_collator=DataCollatorWithPadding(tokenizer))
        start = time.process_time()
        trainer.train()
        return time.process_time() - start, sum(len(item["input_ids"]) for item in data)


def _encoded(tokenizer: Any, corpus: Corpus, labels: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            **tokenizer(" ".join(pair.words), " ".join(pair.second), truncation=True, max_length=FILLED),
            "labels": labels.index(pair.annotations["mnli"]),
        }
        for pair in corpus["train"]
    ]


if __name__ == "__main__":
    main()
