"""The interface of a problem: what it needs of a model, its loss, and how answers are read and scored."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from vestige.corpus.types import Sentence, Task
from vestige.finetune.examples import Example
from vestige.finetune.metrics import Statistic
from vestige.finetune.recipe import Recipe
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.tokens.align import Encoded


class Problem(ABC):
    """A task as fine-tuning sees it."""

    kind: ClassVar[str]
    native: ClassVar[str | None]
    """The transformers class whose heads solve it; None where the head is ours."""
    fallback: ClassVar[bool] = False
    """Whether a head of our own stands in where transformers has none for a family."""
    adapter: ClassVar[str | None] = None
    """What peft calls it."""

    def __init__(self, labels: Sequence[str], recipe: Recipe) -> None:
        self.labels = tuple(labels)
        self.recipe = recipe

    @classmethod
    @abstractmethod
    def learn(cls, task: Task, recipe: Recipe) -> "Problem":
        """The problem of a task, with the labels of its train split."""

    def describe(self) -> dict[str, Any]:
        """What `restore` needs, as JSON."""
        return {"labels": list(self.labels)}

    @classmethod
    def restore(cls, said: dict[str, Any]) -> "Problem":
        """The described problem; `recipe` in `said` is a Recipe."""
        return cls(said["labels"], said["recipe"])

    @property
    def outputs(self) -> int:
        """How many numbers the head gives."""
        return len(self.labels)

    def head(self, width: int) -> nn.Module | None:
        """A head of our own on the backbone's states; None: transformers' own."""
        return None

    @property
    @abstractmethod
    def primary(self) -> str:
        """The measure that early stopping watches."""

    @abstractmethod
    def examples(
        self, encoder: HuggingFaceEncoder, sentences: Sequence[Sentence], task: str, training: bool
    ) -> tuple[list[Example], list[str]]:
        """What the model is shown, and notes on what was cut or left out. Targets only in training."""

    @abstractmethod
    def targets(self, batch: Sequence[Example], encoder: HuggingFaceEncoder, training: bool) -> dict[str, Tensor]:
        """What loss and answers need beside the model's output."""

    @abstractmethod
    def loss(self, output: Any, given: dict[str, Tensor], head: nn.Module | None) -> Tensor:
        """Mean over labels."""

    @abstractmethod
    def read(self, output: Any, given: dict[str, Tensor], head: nn.Module | None, batch: Sequence[Example]) -> list:
        """An answer per example."""

    def combine(self, examples: Sequence[Example], answers: Sequence[Any], sentences: Sequence[Sentence]) -> list:
        """An answer per sentence, in their order."""
        by_item = {example.item: answer for example, answer in zip(examples, answers, strict=True)}
        return [by_item[item] for item in range(len(sentences))]

    def gold(self, sentences: Sequence[Sentence], task: str) -> list:
        """The right answers, in the form of `combine`'s."""
        return [sentence.annotations[task] for sentence in sentences]

    def labels_in(self, gold: Sequence[Any]) -> list[str]:
        """All labels of right answers, where answers are labels."""
        return []

    @abstractmethod
    def statistics(self, gold: Sequence[Any], answers: Sequence[Any]) -> dict[str, Statistic]:
        """The measures."""

    def item_scores(self, gold: Sequence[Any], answers: Sequence[Any]) -> list[float]:
        """The primary measure of every example by itself, or what comes nearest."""
        columns = self.statistics(gold, answers)[self.primary].columns
        return [float(hits / max(units, 1)) for hits, units in columns[:, :2]]

    @abstractmethod
    def majority(self, task: Task, sentences: Sequence[Sentence]) -> list:
        """What the most frequent answer of train would be for every sentence."""

    def unfit(self, task: Task, split: str) -> str | None:
        """Why the head cannot be scored on these labels."""
        return None


def limit_of(encoder: HuggingFaceEncoder, recipe: Recipe) -> int:
    """Most tokens of an input."""
    return min(recipe.max_tokens, encoder.limit or recipe.max_tokens)


def cut_note(cut: int, total: int, limit: int) -> list[str]:
    """Said where inputs were longer than the limit."""
    return [f"{cut} of {total} inputs have more than {limit} tokens and were cut"] if cut else []


def unseen_note(found: Sequence[str], known: Sequence[str]) -> list[str]:
    """Said where labels cannot be answered rightly, as train has none of them."""
    counts = Counter(found)
    unseen = sorted({*counts} - {*known})
    few = ", ".join(unseen[:5]) + (", ..." if len(unseen) > 5 else "")
    lost = sum(counts[label] for label in unseen)
    return [f"{lost} of {len(found)} labels never occur in train: {few}"] if unseen else []


def word_weights(batch: Sequence[Encoded], word: str) -> Tensor:
    """(sentences, words, tokens): how much of every token is in every word's vector; zeros for words without any."""
    longest, most = max(len(e.ids) for e in batch), max(e.words for e in batch)
    weights = torch.zeros(len(batch), most, longest)
    for row, encoded in enumerate(batch):
        places: dict[int, list[int]] = {}
        for position, number in enumerate(encoded.word_of):
            if number >= 0:
                places.setdefault(number, []).append(position)
        for number, positions in places.items():
            chosen = {"first": positions[:1], "last": positions[-1:], "mean": positions}[word]
            weights[row, number, chosen] = 1 / len(chosen)
    return weights
