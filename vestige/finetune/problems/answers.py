"""Questions answered by a stretch of a text: SQuAD.

A long context is read in windows that move on by `stride` tokens. In training a window without
the answer points at the tokenizer's CLS token; of all windows of a question, the stretch with the
largest sum of start and end scores is the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vestige.corpus.types import Sentence, Task
from vestige.errors import ModelError
from vestige.finetune import metrics
from vestige.finetune.examples import Example
from vestige.finetune.metrics import Statistic
from vestige.finetune.problems.base import Problem, limit_of
from vestige.finetune.recipe import Recipe
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.tokens.align import Encoded

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_NO_ANSWER = "no answer"
_CHUNK = 256


class Answers(Problem):
    """Answers in texts; where train has questions without one (SQuAD 2.0), the CLS token stands for "none"."""

    kind = "answers"
    native = "AutoModelForQuestionAnswering"
    fallback = True
    adapter = "QUESTION_ANS"
    primary = "f1"

    @classmethod
    def learn(cls, task: Task, recipe: Recipe) -> Answers:
        texts = [s.annotations["answer_texts"] for s in task.corpus["train"]]
        if not any(texts):
            raise ModelError(f"task {task.name!r} has no answer in train", fix="answers are needed to train")
        return cls(() if all(texts) else (_NO_ANSWER,), recipe)

    @property
    def outputs(self) -> int:
        return 2

    def examples(
        self, encoder: HuggingFaceEncoder, sentences: Sequence[Sentence], task: str, training: bool
    ) -> tuple[list[Example], list[str]]:
        limit = limit_of(encoder, self.recipe)
        made = []
        for item, encoded, offsets in self._windows(encoder.tokenizer, sentences, limit):
            cls = _cls(encoder.tokenizer, encoded)
            target = _target(sentences[item], offsets, cls) if training else None
            made.append(Example(item, encoded, target, 1, (offsets, cls)))
        made.sort(key=lambda example: example.item)
        windows = Counter(example.item for example in made)
        split = sum(count > 1 for count in windows.values())
        note = f"{split} of {len(sentences)} contexts are longer than {limit} tokens and are read in several windows"
        return made, [note] if split else []

    def _windows(
        self, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence], limit: int
    ) -> Iterator[tuple[int, Encoded, list[tuple[int, int] | None]]]:
        """Windows with, per token, the characters of the context it covers (None for all other tokens)."""
        specials = tokenizer.num_special_tokens_to_add(pair=True)
        longest = min(self.recipe.max_question, limit - specials - 1)
        if longest < 1:
            raise ModelError(f"a window of {limit} tokens holds no context", fix="raise max_tokens of the recipe")
        groups: dict[int, list[tuple[int, str]]] = {}
        for item, sentence in enumerate(sentences):
            question, length = _cut(tokenizer, sentence.annotations["question"], longest)
            groups.setdefault(length, []).append((item, question))
        for length, group in sorted(groups.items()):
            room = limit - specials - length
            for start in range(0, len(group), _CHUNK):
                chunk = group[start : start + _CHUNK]
                batch = tokenizer(
                    [question for _, question in chunk],
                    [sentences[item].annotations["context"] for item, _ in chunk],
                    truncation="only_second",
                    max_length=limit,
                    stride=max(0, room - self.recipe.stride),
                    return_overflowing_tokens=True,
                    return_offsets_mapping=True,
                    return_token_type_ids=True,
                    padding=False,
                )
                for row, source in enumerate(batch["overflow_to_sample_mapping"]):
                    second = [segment == 1 for segment in batch.sequence_ids(row)]
                    ids, types = tuple(batch["input_ids"][row]), tuple(batch["token_type_ids"][row])
                    pairs = zip(batch["offset_mapping"][row], second, strict=True)
                    offsets = [tuple(offset) if inside else None for offset, inside in pairs]
                    yield chunk[source][0], Encoded(ids, types, tuple(range(len(ids))), len(ids), len(ids)), offsets

    def targets(self, batch: Sequence[Example], encoder: HuggingFaceEncoder, training: bool) -> dict[str, Tensor]:
        if training:
            return {"target": torch.tensor([example.target for example in batch])}
        longest = max(len(example.encoded.ids) for example in batch)
        inside = [[offset is not None for offset in e.note[0]] for e in batch]
        context = torch.tensor([[*row, *[False] * (longest - len(row))] for row in inside])
        return {"context": context, "cls": torch.tensor([e.note[1] for e in batch])}

    def head(self, width: int) -> nn.Module:
        return nn.Linear(width, self.outputs)

    def loss(self, output: Any, given: dict[str, Tensor], head: nn.Module | None) -> Tensor:
        start, end = (
            cross_entropy(logits, given["target"][:, place]) for place, logits in enumerate(_ends(output, head))
        )
        return (start + end) / 2

    def read(self, output: Any, given: dict[str, Tensor], head: nn.Module | None, batch: Sequence[Example]) -> list:
        """Per window: score and characters of its best stretch, and the score of the CLS token."""
        start, end = _ends(output, head)
        context = given["context"]
        size = start.shape[1]
        near = torch.ones(size, size, dtype=torch.bool, device=start.device).triu().tril(self.recipe.max_answer - 1)
        allowed = near & context[:, :, None] & context[:, None, :]
        scores = (start[:, :, None] + end[:, None, :]).masked_fill(~allowed, -torch.inf)
        best, place = scores.flatten(1).max(1)
        none = (start.gather(1, given["cls"][:, None]) + end.gather(1, given["cls"][:, None]))[:, 0]
        found = []
        for value, at, empty, example in zip(best.tolist(), place.tolist(), none.tolist(), batch, strict=True):
            offsets = example.note[0]
            first, last = offsets[at // size], offsets[at % size]
            found.append((value, first[0] if first else 0, last[1] if last else 0, empty))
        return found

    def combine(self, examples: Sequence[Example], answers: Sequence[Any], sentences: Sequence[Sentence]) -> list:
        best: dict[int, tuple] = {}
        none: dict[int, float] = {}
        for example, (value, first, last, empty) in zip(examples, answers, strict=True):
            if example.item not in best or value > best[example.item][0]:
                best[example.item] = (value, first, last)
            none[example.item] = min(empty, none.get(example.item, empty))
        texts = []
        for item, sentence in enumerate(sentences):
            value, first, last = best[item]
            unanswered = bool(self.labels) and none[item] > value
            texts.append("" if unanswered else sentence.annotations["context"][first:last])
        return texts

    def gold(self, sentences: Sequence[Sentence], task: str) -> list:
        return [list(s.annotations["answer_texts"]) for s in sentences]

    def statistics(self, gold: Sequence[Any], answers: Sequence[str]) -> dict[str, Statistic]:
        pairs = list(zip(answers, gold, strict=True))
        return {
            "f1": metrics.share([metrics.answer_f1(*pair) for pair in pairs]),
            "exact_match": metrics.share([metrics.exact_match(*pair) for pair in pairs]),
        }

    def majority(self, task: Task, sentences: Sequence[Sentence]) -> list[str]:
        texts = Counter((s.annotations["answer_texts"] or ("",))[0] for s in task.corpus["train"])
        return [texts.most_common(1)[0][0]] * len(sentences)


def _ends(output: Any, head: nn.Module | None) -> tuple[Tensor, Tensor]:
    """(windows, tokens) each: how likely the answer starts, or ends, at a token."""
    if head is None:
        return output.start_logits.float(), output.end_logits.float()
    start, end = head(output.last_hidden_state).float().unbind(-1)
    return start, end


def _cut(tokenizer: PreTrainedTokenizerBase, question: str, longest: int) -> tuple[str, int]:
    """The question within so many tokens, and how many it has."""
    made = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)
    count = len(made["input_ids"])
    if count <= longest:
        return question, count
    return question[: made["offset_mapping"][longest - 1][1]], longest


def _cls(tokenizer: PreTrainedTokenizerBase, encoded: Encoded) -> int:
    """Where the tokenizer's CLS token is; the first token where it has none."""
    return encoded.ids.index(tokenizer.cls_token_id) if tokenizer.cls_token_id in encoded.ids else 0


def _target(sentence: Sentence, offsets: Sequence[tuple[int, int] | None], cls: int) -> tuple[int, int]:
    """First and last token of the first gold answer, or the CLS token's place twice."""
    if not sentence.annotations["answer_texts"]:
        return cls, cls
    first = sentence.annotations["answer_starts"][0]
    last = first + len(sentence.annotations["answer_texts"][0])
    covered = [at for at, span in enumerate(offsets) if span and span[0] < last and span[1] > first]
    seen = [span for span in offsets if span]
    whole = covered and seen[0][0] <= first and seen[-1][1] >= last
    return (covered[0], covered[-1]) if whole else (cls, cls)
