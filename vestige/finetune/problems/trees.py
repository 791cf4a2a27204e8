"""A head and a relation for every word: dependency parsing (merchant2020, after Dozat and Manning 2017)."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vestige.corpus.types import Sentence, Task
from vestige.errors import ModelError
from vestige.finetune import metrics
from vestige.finetune.examples import Example, encode
from vestige.finetune.metrics import Statistic
from vestige.finetune.problems.base import Problem, limit_of, word_weights
from vestige.finetune.recipe import Recipe
from vestige.models.encoders.huggingface import HuggingFaceEncoder

RELATION = "deprel"
"""The annotation with the words' relations; without it all relations are one."""


class Trees(Problem):
    """Trees of words; a sentence past the limit is not trained on, and its words past the limit count as wrong."""

    kind = "trees"
    native = None
    primary = "las"

    @classmethod
    def learn(cls, task: Task, recipe: Recipe) -> "Trees":
        for sentence in task.corpus["train"]:
            if min(sentence.annotations[task.name]) < 0:
                raise ModelError(
                    f"{sentence.source or sentence.id}: a word has no head", fix="leave the sentence out of train"
                )
        counts = Counter(label for s in task.corpus["train"] for label in _relations(s))
        return cls(sorted(counts), recipe)

    def head(self, width: int) -> nn.Module:
        from vestige.finetune.parser import ParserHead

        return ParserHead(width, len(self.labels))

    def examples(
        self, encoder: HuggingFaceEncoder, sentences: Sequence[Sentence], task: str, training: bool
    ) -> tuple[list[Example], list[str]]:
        limit = limit_of(encoder, self.recipe)
        encoded, cut = encode(encoder.tokenizer, sentences, limit)
        number = {label: index for index, label in enumerate(self.labels)}
        made = []
        for item, (e, sentence) in enumerate(zip(encoded, sentences, strict=True)):
            target = None
            if training:
                if e.kept < e.words:
                    continue
                target = sentence.annotations[task], [number[label] for label in _relations(sentence)]
            made.append(Example(item, e, target, e.kept))
        what = "left out" if training else "cut: words past the limit count as wrong"
        note = f"{cut} of {len(sentences)} sentences have more than {limit} tokens and were {what}"
        return made, [note] if cut else []

    def targets(self, batch: Sequence[Example], encoder: HuggingFaceEncoder, training: bool) -> dict[str, Tensor]:
        most = max(e.encoded.kept for e in batch)
        weights = word_weights([e.encoded for e in batch], self.recipe.word)[:, :most]
        kept = torch.tensor([e.encoded.kept for e in batch])
        given = {"weights": weights, "words": torch.arange(most)[None] < kept[:, None]}
        if training:
            for place, name, empty in ((0, "heads", -1), (1, "labels", 0)):
                rows = [[*e.target[place], *[empty] * (most - e.encoded.kept)] for e in batch]
                given[name] = torch.tensor(rows)
        return given

    def loss(self, output: Any, given: dict[str, Tensor], head: nn.Module | None) -> Tensor:
        assert head is not None
        words = given["weights"] @ output.last_hidden_state.float()
        return head.loss(words, given["words"], given["heads"], given["labels"])

    def read(self, output: Any, given: dict[str, Tensor], head: nn.Module | None, batch: Sequence[Example]) -> list:
        assert head is not None
        words = given["weights"] @ output.last_hidden_state.float()
        trees = head.decode(words, given["words"])
        found = []
        for (heads, labels), example in zip(trees, batch, strict=True):
            lost = example.encoded.words - example.encoded.kept
            named = [self.labels[int(label)] for label in labels]
            found.append(([*map(int, heads), *[-1] * lost], [*named, *[""] * lost]))
        return found

    def gold(self, sentences: Sequence[Sentence], task: str) -> list:
        return [(list(s.annotations[task]), list(_relations(s))) for s in sentences]

    def labels_in(self, gold: Sequence[Any]) -> list[str]:
        return [label for _, labels in gold for label in labels]

    def statistics(self, gold: Sequence[Any], answers: Sequence[Any]) -> dict[str, Statistic]:
        return {
            "las": metrics.attachments(gold, answers, labels=True),
            "las_universal": metrics.attachments(gold, answers, labels=True, subtypes=False),
            "uas": metrics.attachments(gold, answers, labels=False),
        }

    def majority(self, task: Task, sentences: Sequence[Sentence]) -> list:
        """Every word at the most frequent distance from its head, with the most frequent relation of that distance."""
        seen: Counter[tuple[int, str]] = Counter()
        for s in task.corpus["train"]:
            pairs = zip(s.annotations[task.name], _relations(s), strict=True)
            seen.update((head - at, label) for at, (head, label) in enumerate(pairs, start=1) if head)
        (away, label), _ = seen.most_common(1)[0] if seen else ((0, self.labels[0]), 0)
        return [([at + away for at in range(1, 1 + len(s.words))], [label] * len(s.words)) for s in sentences]


def _relations(sentence: Sentence) -> Sequence[str]:
    return sentence.annotations.get(RELATION) or ("dep",) * len(sentence.all_words)
