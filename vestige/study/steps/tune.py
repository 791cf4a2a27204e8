"""Fine-tune one run of a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter

from vestige.corpus.store import read_task
from vestige.errors import VestigeError
from vestige.finetune.recipe import Recipe
from vestige.study.steps.step import Memory, Step


@dataclass(frozen=True, kw_only=True)
class Tune(Step):
    """One fine-tuning run; its folder is an ordinary Hugging Face model with its checkpoints and its log."""

    kind: ClassVar[str] = "tune"
    base: str
    """Name or folder of the model that is tuned."""
    model: str
    """What the tuned model is called in the study."""
    task: str
    """corpus/task."""
    task_file: str
    recipe: dict[str, Any]
    seed: int
    keep: list[int] | None = None

    @property
    def title(self) -> str:
        return f"fine-tuning {self.model} on {self.task}, run {self.seed}"

    @property
    def about(self) -> set[str]:
        return {self.model, self.task.partition("/")[0], self.task}

    @property
    def folder(self) -> Path:
        return self.root / "models" / self.key

    def make(self, memory: Memory) -> None:
        from vestige.finetune.train import finetune

        made = finetune(
            self.base,
            read_task(Path(self.task_file)),
            TypeAdapter(Recipe).validate_python(self.recipe),
            seed=self.seed,
            device=self.device,
            threads=self.threads,
            cache=self.root,
            keep=self.keep,
        )
        if made.folder.name != self.key:
            raise VestigeError(
                f"{self.base} or the libraries here are not those that the study was planned with",
                fix="use the same files and the same versions on every machine, and leave them alone during a run",
            )
