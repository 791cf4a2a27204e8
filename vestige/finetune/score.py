"""Scores of a tuned model: values with intervals, beside the majority baseline, and every answer."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vestige.corpus.types import Sentence, Task
from vestige.errors import ModelError
from vestige.finetune.examples import Example, batches, out_of_memory
from vestige.finetune.metrics import Measure
from vestige.finetune.model import Tunable, load_tuned
from vestige.finetune.problems import kind_of
from vestige.finetune.problems.base import Problem, unseen_note

_BATCH = 64


@dataclass(frozen=True)
class Scores:
    """What a model reaches on a split."""

    task: str
    split: str
    metrics: dict[str, Measure]
    ids: tuple[str, ...]
    """Of the sentences, in order; `gold`, `answers` and `items` go with them."""
    gold: tuple[Any, ...]
    answers: tuple[Any, ...]
    items: tuple[float, ...]
    """How well each sentence was answered, so that runs can be compared pair by pair."""
    notes: tuple[str, ...] = ()

    def summary(self) -> dict[str, dict[str, float | None]]:
        """The measures as JSON."""
        return {name: measure._asdict() for name, measure in self.metrics.items()}

    def write(self, path: Path) -> None:
        """A line of JSON per sentence: id, gold, answer, score."""
        rows = zip(self.ids, self.gold, self.answers, self.items, strict=True)
        named = (dict(zip(("id", "gold", "answer", "score"), row, strict=True)) for row in rows)
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in named), encoding="utf-8")


def score(tuned: Any, task: Task, split: str = "dev", *, device: str = "cpu", majority: bool = True) -> Scores:
    """Score a tuned model (a folder, a `Tuned`, or what `load_tuned` gave) on a split of a task."""
    model = tuned if isinstance(tuned, Tunable) else load_tuned(getattr(tuned, "folder", tuned), device)
    problem = model.problem
    check_fit(problem, task, split)
    sentences = task.corpus[split]
    answers, notes = answer(model, sentences, task.name)
    gold = problem.gold(sentences, task.name)
    notes += unseen_note(problem.labels_in(gold), problem.labels)
    baseline = {}
    if majority and "train" in task.corpus.splits:
        always = problem.majority(task, sentences)
        baseline = {key: found.value for key, found in problem.statistics(gold, always).items()}
    statistics = problem.statistics(gold, answers)
    return Scores(
        task=f"{task.corpus.name}/{task.name}",
        split=split,
        metrics={key: found.measure(baseline.get(key)) for key, found in statistics.items()},
        ids=tuple(sentence.id for sentence in sentences),
        gold=tuple(gold),
        answers=tuple(answers),
        items=tuple(problem.item_scores(gold, answers)),
        notes=tuple(f"{split}: {note}" for note in notes),
    )


def check_fit(problem: Problem, task: Task, split: str) -> None:
    """A head is scored on a split of its own kind that has some of its labels."""
    kind = kind_of(task, split)
    unfit = f"the task is one of {kind.kind}" if kind is not type(problem) else problem.unfit(task, split)
    if unfit:
        labels = ", ".join(problem.labels[:5])
        raise ModelError(
            f"{task.corpus.name}/{task.name}, {split}, does not fit the head: it is tuned for {problem.kind} "
            f"({labels}), {unfit}",
            fix="score it on a task with the labels it is tuned on",
        )


def values(model: Tunable, task: Task, split: str) -> dict[str, float]:
    """The measures alone, for a curve."""
    problem = model.problem
    sentences = task.corpus[split]
    answers, _ = answer(model, sentences, task.name)
    found = problem.statistics(problem.gold(sentences, task.name), answers)
    return {f"{split}_{key}": statistic.value for key, statistic in found.items()}


def _answers(model: Tunable, batch: Sequence[Example]) -> list[Any]:
    """Of one batch, by halves where memory is short."""
    try:
        return model(*model.batch(batch, training=False), batch)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
    if len(batch) == 1:
        raise ModelError(
            f"out of memory while scoring one input of {len(batch[0].encoded.ids)} tokens",
            fix=f"lower max_tokens (now {model.problem.recipe.max_tokens})",
        )
    half = len(batch) // 2
    return [*_answers(model, batch[:half]), *_answers(model, batch[half:])]


@torch.inference_mode()
def answer(model: Tunable, sentences: Sequence[Sentence], task: str) -> tuple[list[Any], list[str]]:
    """The model's answer to every sentence, and notes on what was cut."""
    was_training = model.training
    model.eval()
    examples, notes = model.problem.examples(model.encoder, sentences, task, False)
    answers: list[Any] = [None] * len(examples)
    for which in batches([len(example.encoded.ids) for example in examples], _BATCH):
        for i, found in zip(which, _answers(model, [examples[i] for i in which]), strict=True):
            answers[i] = found
    model.train(was_training)
    return model.problem.combine(examples, answers, sentences), notes
