"""One label, or one number, for a sentence or a pair of them."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from vestige.corpus.types import Sentence, Task
from vestige.errors import ModelError
from vestige.finetune import metrics
from vestige.finetune.examples import Example, encode
from vestige.finetune.metrics import Statistic
from vestige.finetune.problems.base import Problem, cut_note, limit_of
from vestige.finetune.recipe import Recipe
from vestige.models.encoders.huggingface import HuggingFaceEncoder


class MeanHead(nn.Module):
    """tanh(W h + b), then a linear map, on the mean h of a sentence's states (mosbach2020, 5.1)."""

    def __init__(self, width: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.out = nn.Linear(width, outputs)
        self.dropout = nn.Dropout(dropout)
        for layer in (self.dense, self.out):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """`states` (sentences, tokens, width), `mask` (sentences, tokens): 0 for padding."""
        weights = mask.to(states.dtype)[..., None]
        mean = (states * weights).sum(1) / weights.sum(1)
        return self.out(self.dropout(torch.tanh(self.dense(self.dropout(mean)))))


class _OfSentences(Problem):
    native = "AutoModelForSequenceClassification"
    adapter = "SEQ_CLS"

    def head(self, width: int) -> nn.Module | None:
        dropout = 0.1 if self.recipe.dropout is None else self.recipe.dropout
        return MeanHead(width, self.outputs, dropout) if self.recipe.pooling == "mean" else None

    def _target(self, label: Any) -> Any:
        raise NotImplementedError

    def examples(
        self, encoder: HuggingFaceEncoder, sentences: Sequence[Sentence], task: str, training: bool
    ) -> tuple[list[Example], list[str]]:
        limit = limit_of(encoder, self.recipe)
        encoded, cut = encode(encoder.tokenizer, sentences, limit)
        made = [
            Example(item, e, self._target(s.annotations[task]) if training else None)
            for item, (e, s) in enumerate(zip(encoded, sentences, strict=True))
        ]
        return made, cut_note(cut, len(made), limit)

    def targets(self, batch: Sequence[Example], encoder: HuggingFaceEncoder, training: bool) -> dict[str, Tensor]:
        return {"target": torch.tensor([example.target for example in batch])} if training else {}

    def _logits(self, output: Any, given: dict[str, Tensor], head: nn.Module | None) -> Tensor:
        return output.logits if head is None else head(output.last_hidden_state, given["attention_mask"])


class Classes(_OfSentences):
    """A label."""

    kind = "classes"

    @classmethod
    def learn(cls, task: Task, recipe: Recipe) -> "Classes":
        labels = sorted(task.label_counts)
        if len(labels) < 2:
            raise ModelError(
                f"task {task.name!r} has only the label {labels[0]!r} in train", fix="two labels are needed to train"
            )
        made = cls(labels, recipe)
        made._watched = _PRIMARY.get(task.name, "accuracy")
        return made

    _watched = "accuracy"

    @property
    def primary(self) -> str:
        return self._watched

    @property
    def positive(self) -> str:
        """Of two labels, the one whose F1 is reported: the one that GLUE numbers 1, by its number or its name."""
        return next((label for label in self.labels if label in _POSITIVE), self.labels[1])

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "primary": self.primary}

    @classmethod
    def restore(cls, said: dict[str, Any]) -> "Classes":
        made = cls(said["labels"], said["recipe"])
        made._watched = said["primary"]
        return made

    def _target(self, label: Any) -> int:
        return self.labels.index(label)

    def loss(self, output: Any, given: dict[str, Tensor], head: nn.Module | None) -> Tensor:
        return cross_entropy(self._logits(output, given, head).float(), given["target"])

    def read(self, output: Any, given: dict[str, Tensor], head: nn.Module | None, batch: Sequence[Example]) -> list:
        return [self.labels[index] for index in self._logits(output, given, head).argmax(-1).tolist()]

    def labels_in(self, gold: Sequence[str]) -> list[str]:
        return list(gold)

    def statistics(self, gold: Sequence[str], answers: Sequence[str]) -> dict[str, Statistic]:
        found = {
            "accuracy": metrics.share([a == b for a, b in zip(gold, answers, strict=True)]),
            "matthews": metrics.matthews(gold, answers),
        }
        if len(self.labels) == 2:
            found["f1"] = metrics.f1(gold, answers, self.positive)
        return found

    def item_scores(self, gold: Sequence[str], answers: Sequence[str]) -> list[float]:
        return [float(a == b) for a, b in zip(gold, answers, strict=True)]

    def majority(self, task: Task, sentences: Sequence[Sentence]) -> list[str]:
        return [task.label_counts.most_common(1)[0][0]] * len(sentences)

    def unfit(self, task: Task, split: str) -> str | None:
        found = Counter(task.labels(split))
        return None if {*found} & {*self.labels} else f"the labels are {', '.join(sorted(found)[:5])}"


_PRIMARY = {"cola": "matthews"}
_POSITIVE = frozenset({"equivalent", "duplicate", "acceptable"})
"""Names that come before those of their opposites; all others of GLUE's come second, as 1 does."""


class Numbers(_OfSentences):
    """A number, such as STS-B's similarity; the loss is the mean squared error."""

    kind = "numbers"
    primary = "pearson"

    @classmethod
    def learn(cls, task: Task, recipe: Recipe) -> "Numbers":
        values = task.labels("train")
        if len(set(values)) < 2 or not all(math.isfinite(value) for value in values):
            raise ModelError(
                f"task {task.name!r} has {'only the number ' + str(values[0]) if len(set(values)) < 2 else 'numbers'}"
                f"{'' if len(set(values)) < 2 else ' that are not finite'} in train",
                fix="two different finite numbers are needed to train",
            )
        return cls((), recipe)

    @property
    def outputs(self) -> int:
        return 1

    def _target(self, label: Any) -> float:
        return float(label)

    def loss(self, output: Any, given: dict[str, Tensor], head: nn.Module | None) -> Tensor:
        return mse_loss(self._logits(output, given, head)[:, 0].float(), given["target"])

    def read(self, output: Any, given: dict[str, Tensor], head: nn.Module | None, batch: Sequence[Example]) -> list:
        return self._logits(output, given, head)[:, 0].float().tolist()

    def statistics(self, gold: Sequence[float], answers: Sequence[float]) -> dict[str, Statistic]:
        return {"pearson": metrics.pearson(gold, answers), "spearman": metrics.spearman(gold, answers)}

    def item_scores(self, gold: Sequence[float], answers: Sequence[float]) -> list[float]:
        return [-((float(a) - float(b)) ** 2) for a, b in zip(gold, answers, strict=True)]

    def majority(self, task: Task, sentences: Sequence[Sentence]) -> list[float]:
        values = [float(value) for value in task.labels("train")]
        return [sum(values) / len(values)] * len(sentences)
