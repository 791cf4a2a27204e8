"""Load a model once, check it, and keep what a page and other steps ask of it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from vestige.cache import writing
from vestige.study.steps.origin import FACTS, Origin, facts_folder
from vestige.study.steps.step import Memory, Step


@dataclass(frozen=True, kw_only=True)
class Load(Step):
    """A model is loaded, compared with its files and run on two sentences; its shape and fingerprint are kept."""

    kind: ClassVar[str] = "load"
    origin: Origin

    @property
    def title(self) -> str:
        run = f", run {self.origin.run}" if self.origin.run else ""
        return f"model {self.origin.model}{run}"

    @property
    def about(self) -> set[str]:
        return {self.origin.model}

    @property
    def folder(self) -> Path:
        return facts_folder(self.root, self.key)

    def make(self, memory: Memory) -> None:
        encoder = self.origin.load(self.root, memory)
        facts = {**encoder.describe(), "leaves_out_first": encoder.leaves_out_first}
        with writing(self.folder) as folder:
            (folder / FACTS).write_text(json.dumps(facts, indent=1, ensure_ascii=False), encoding="utf-8")
