"""One pass of a model over a corpus: hidden states of every pooling that some analysis reads."""

import json
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from vestige.cache import reading, remove, writing
from vestige.corpus.store import read_task
from vestige.errors import naming
from vestige.study.steps.origin import Origin, read_facts
from vestige.study.steps.step import Memory, Step
from vestige.study.tokens import check_unknown, token_facts

FACTS = "corpus.json"


@dataclass(frozen=True, kw_only=True)
class Extract(Step):
    """Tokens are counted and hidden states kept; what was counted stays when hidden states are dropped."""

    kind: ClassVar[str] = "extract"
    origin: Origin
    corpus: str
    """Its name in the study."""
    task_file: str
    """A task of the corpus: its words are read, its labels are not."""
    representations: dict[str, dict[str, str]]
    """By pooling and split: the folder."""
    how: dict[str, str]
    """`dtype`, `on_overflow` and `on_vanished` of `represent`."""
    on_unknown: str
    rows: dict[str, int]
    """By pooling, how many vectors a layer has at most."""

    @property
    def title(self) -> str:
        run = f", run {self.origin.run}" if self.origin.run else ""
        return f"hidden states of {self.corpus}, model {self.origin.model}{run}"

    @property
    def about(self) -> set[str]:
        return {self.origin.model, self.corpus}

    @property
    def folder(self) -> Path:
        return self.root / "read" / self.key

    @property
    def vectors(self) -> list[Path]:
        """Folders of hidden states."""
        return [Path(folder) for by_split in self.representations.values() for folder in by_split.values()]

    @property
    def there(self) -> bool:
        from vestige.representations.store import stored

        return self.done and all(map(stored, self.vectors))

    @property
    def leaves(self) -> list[Path]:
        return [self.folder, *self.vectors]

    def make(self, memory: Memory) -> None:
        import torch

        from vestige.representations.extract import represent

        torch.set_num_threads(self.threads)
        encoder = self.origin.load(self.root, memory)
        corpus = read_task(Path(self.task_file)).corpus
        if self.on_unknown == "error":
            check_unknown(encoder, self.origin.model, self.corpus, corpus)
        with naming(f"model {self.origin.model} on {self.corpus}"):
            splits = next(iter(self.representations.values()), {})
            found = {
                split: represent(
                    encoder,
                    corpus[split],
                    list(self.representations),
                    cache=self.root,
                    name=self.origin.key,
                    **self.how,  # type: ignore[arg-type]
                )
                for split in splits
            }
        manifests = {split: next(iter(poolings.values())).manifest for split, poolings in found.items()}
        self._keep(token_facts(encoder, corpus, manifests), manifests)

    def _keep(self, tokens: dict[str, Any], manifests: Mapping[str, Mapping[str, Any]]) -> None:
        counted = ("words", "truncated_words", "truncated_sentences", "vanished_words", "tokens")
        facts = {
            "tokens": tokens,
            "splits": {split: {key: found[key] for key in counted} for split, found in manifests.items()},
        }
        with writing(self.folder) as folder:
            (folder / FACTS).write_text(json.dumps(facts, indent=1), encoding="utf-8")

    def size(self) -> int:
        """Bytes of hidden states: on disk, or, before they are made, at most."""
        found = sum(folder_size(folder) for folder in self.vectors)
        if found:
            return found
        widths = read_facts(self.root, self.origin.key)["widths"]
        return sum(self.rows.values()) * sum(widths) * (2 if self.how["dtype"] == "float16" else 4)

    def drop(self, shared: Set[Path] = frozenset()) -> bool:
        """Take the hidden states off the disk, but those that are also another step's; whether there were any.

        They are made again when a step needs them.
        """
        found = [folder for folder in self.vectors if folder not in shared and folder.exists()]
        for folder in found:
            remove(folder)
            with suppress(OSError):
                folder.parent.rmdir()
        return bool(found)

    def facts(self) -> dict[str, Any]:
        """What was counted: `tokens` of the corpus, and losses of every split."""
        with reading(self.folder):
            return json.loads((self.folder / FACTS).read_text(encoding="utf-8"))


def folder_size(folder: Path) -> int:
    """Bytes of the files of a folder; 0 where there is none."""
    return sum(file.stat().st_size for file in folder.glob("*")) if folder.is_dir() else 0
