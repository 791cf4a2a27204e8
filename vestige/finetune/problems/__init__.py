"""What a model can be tuned to do, by the level of the task's labels."""

from typing import Any

from vestige.corpus.types import Task
from vestige.errors import ModelError
from vestige.finetune.problems.answers import Answers
from vestige.finetune.problems.base import Problem
from vestige.finetune.problems.sentences import Classes, Numbers
from vestige.finetune.problems.trees import Trees
from vestige.finetune.problems.words import Words
from vestige.finetune.recipe import Recipe

PROBLEMS: dict[str, type[Problem]] = {kind.kind: kind for kind in (Classes, Numbers, Words, Answers, Trees)}


def find_problem(task: Task, recipe: Recipe) -> Problem:
    """The problem that a task poses, learned from its train split."""
    if recipe.levels and task.level not in recipe.levels:
        raise ModelError(
            f"the recipe {recipe.name!r} is for tasks at level {' or '.join(recipe.levels)}; {task.corpus.name}/"
            f"{task.name} is at level {task.level}",
            fix="choose a recipe for this level, or set `levels` of this one to ()",
        )
    return kind_of(task, "train").learn(task, recipe)


def kind_of(task: Task, split: str) -> type[Problem]:
    """Which kind of problem a task is."""
    match task.level:
        case "sentence" | "sentence_pair":
            labels = task.labels(split)
            return Classes if not labels or isinstance(labels[0], str) else Numbers
        case "token":
            return Words
        case "tree":
            return Trees
        case "span" if all("context" in sentence.annotations for sentence in task.corpus[split]):
            return Answers
    raise ModelError(
        f"{task.corpus.name}/{task.name} is at level {task.level!r}; models are tuned on tasks at level sentence, "
        "sentence_pair, token, tree, and span where spans answer a question (SQuAD)",
        fix="choose another task",
    )


def restore_problem(kind: str, said: dict[str, Any]) -> Problem:
    """The problem that `Problem.describe` described."""
    return PROBLEMS[kind].restore(said)
