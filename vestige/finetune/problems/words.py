"""A label for every word."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vestige.corpus.types import Sentence, Task
from vestige.errors import ModelError
from vestige.finetune import metrics
from vestige.finetune.examples import Example, encode
from vestige.finetune.metrics import Statistic
from vestige.finetune.problems.base import Problem, cut_note, limit_of, word_weights
from vestige.finetune.recipe import Recipe
from vestige.models.encoders.huggingface import HuggingFaceEncoder

_NONE = -100


class Words(Problem):
    """Labels of words; words past the limit have none and count as wrong.

    As heads are linear, the logits of a word's sub-words are chosen or averaged as its states would be. Families
    for which transformers has no such head (BART, T5) get one of ours, on the states of the encoder.
    """

    kind = "words"
    native = "AutoModelForTokenClassification"
    fallback = True
    adapter = "TOKEN_CLS"
    primary = "accuracy"

    @classmethod
    def learn(cls, task: Task, recipe: Recipe) -> "Words":
        labels = sorted(task.label_counts)
        if len(labels) < 2:
            raise ModelError(
                f"task {task.name!r} has only the label {labels[0]!r} in train", fix="two labels are needed to train"
            )
        return cls(labels, recipe)

    def examples(
        self, encoder: HuggingFaceEncoder, sentences: Sequence[Sentence], task: str, training: bool
    ) -> tuple[list[Example], list[str]]:
        limit = limit_of(encoder, self.recipe)
        encoded, cut = encode(encoder.tokenizer, sentences, limit)
        number = {label: index for index, label in enumerate(self.labels)}
        made = []
        for item, (e, sentence) in enumerate(zip(encoded, sentences, strict=True)):
            seen = {word for word in e.word_of if word >= 0}
            labels = sentence.annotations[task]
            target = tuple(number[x] if w in seen else _NONE for w, x in enumerate(labels)) if training else None
            made.append(Example(item, e, target, len(seen), frozenset(seen)))
        return made, cut_note(cut, len(made), limit)

    def targets(self, batch: Sequence[Example], encoder: HuggingFaceEncoder, training: bool) -> dict[str, Tensor]:
        given = {"weights": word_weights([e.encoded for e in batch], self.recipe.word)}
        if training:
            most = given["weights"].shape[1]
            given["target"] = torch.tensor([[*e.target, *[_NONE] * (most - len(e.target))] for e in batch])
        return given

    def head(self, width: int) -> nn.Module:
        return nn.Linear(width, self.outputs)

    def loss(self, output: Any, given: dict[str, Tensor], head: nn.Module | None) -> Tensor:
        logits = given["weights"] @ _logits(output, head)
        return cross_entropy(logits.flatten(0, 1), given["target"].flatten(), ignore_index=_NONE)

    def read(self, output: Any, given: dict[str, Tensor], head: nn.Module | None, batch: Sequence[Example]) -> list:
        best = (given["weights"] @ _logits(output, head)).argmax(-1).tolist()
        return [
            [self.labels[row[w]] if w in example.note else None for w in range(example.encoded.words)]
            for row, example in zip(best, batch, strict=True)
        ]

    def labels_in(self, gold: Sequence[Any]) -> list[str]:
        return [label for labels in gold for label in labels]

    def statistics(self, gold: Sequence[Any], answers: Sequence[Any]) -> dict[str, Statistic]:
        hits = [sum(a == b for a, b in zip(*pair, strict=True)) for pair in zip(gold, answers, strict=True)]
        return {"accuracy": metrics.share(hits, [len(labels) for labels in gold])}

    def majority(self, task: Task, sentences: Sequence[Sentence]) -> list:
        label = task.label_counts.most_common(1)[0][0]
        return [[label] * (len(s.words) + len(s.second)) for s in sentences]

    def unfit(self, task: Task, split: str) -> str | None:
        found = {label for labels in task.labels(split) for label in labels}
        return None if found & {*self.labels} else f"the labels are {', '.join(sorted(found)[:5])}"


def _logits(output: Any, head: nn.Module | None) -> Tensor:
    """(sentences, tokens, labels)."""
    return (output.logits if head is None else head(output.last_hidden_state)).float()
