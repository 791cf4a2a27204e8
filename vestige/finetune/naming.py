"""The name of a tuned model before it is tuned: a hash of all that its weights follow from."""

import os
from collections.abc import Sequence
from pathlib import Path

from vestige.corpus.types import Task
from vestige.digest import digest_json
from vestige.finetune.problems import find_problem
from vestige.finetune.problems.base import Problem
from vestige.finetune.recipe import Recipe
from vestige.models.files.naming import libraries, model_name

VERSION = 4
"""Raised when the same recipe would give other weights, or the folder other files."""
LOG = "finetune.json"
"""In the folder of a tuned model: how its making went."""


def making_name(
    base: str | Path,
    task: Task,
    recipe: Recipe,
    *,
    seed: int = 0,
    device: str = "cpu",
    threads: int = 2,
    keep: Sequence[int] | None = None,
    unrolled: bool | None = None,
    problem: Problem | None = None,
) -> str:
    """Hash of base, data, recipe, seed and of what computes; the folder of a tuned model is called by it."""
    problem = find_problem(task, recipe) if problem is None else problem
    start = [model_name(base), None if keep is None else list(keep), unrolled]
    together = int(os.environ.get("WORLD_SIZE", "1"))
    how = [problem.describe(), recipe.identity(), seed, threads, device, together, libraries()]
    return digest_json([VERSION, start, task.digests, *how])
