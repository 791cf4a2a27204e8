"""Where a model of a study comes from, and its name before anybody has loaded it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vestige.cache import demand, reading
from vestige.errors import ModelError, SpecError
from vestige.models.encoders.encoder import Encoder
from vestige.models.files.sources import model_folder

if TYPE_CHECKING:
    from vestige.models.files.tensors import Weights
    from vestige.study.steps.step import Memory

FACTS = "model.json"


@dataclass(frozen=True)
class Origin:
    """A model as any process can load it."""

    model: str
    """Its name in the study."""
    run: int
    """Number of the fine-tuning run; 0 for models that were loaded."""
    key: str
    """Hash of what makes it: files, options, and for a tuned model its making."""
    source: dict[str, Any] | None
    """What `load_source` makes it from; None if the model exists only in memory."""
    follows: str | None = None
    """The key of its reference, which it follows in leaving an attention sink out: both have the same words then."""

    def load(self, cache: Path, memory: "Memory", head: bool = False) -> Encoder:
        """The model; with its language-model head where it has one and `head` is set."""
        from vestige.models.encoders.huggingface import HuggingFaceEncoder

        encoder = memory[self.model] if self.source is None else load_source(self.source, self.model, head, cache)
        if self.follows is not None and isinstance(encoder, HuggingFaceEncoder):
            return encoder.sink_like(read_facts(cache, self.follows)["leaves_out_first"])
        return encoder

    def weights(self, cache: Path, memory: "Memory") -> "Weights":
        """Its weights, tensor by tensor; nothing is loaded."""
        from vestige.models.files.tensors import MemoryWeights, open_weights

        if self.source is None:
            return MemoryWeights(memory[self.model])
        if "source" in self.source:
            _check_tuned(Path(self.source["source"]), self.model, cache)
        return open_weights(self.source, self.model)

    def folders(self, cache: Path) -> list[Path]:
        """Folders of models made in a study that it is loaded from."""
        source = self.source or {}
        while (inner := source.get("twin_of") or source.get("without_adapter")) is not None:
            source = inner
        place = Path(source.get("source", ""))
        return [place] if cache / "models" in place.parents else []


def facts_folder(cache: Path, key: str) -> Path:
    """Where the facts of a model are kept."""
    return cache / "described" / key


def read_facts(cache: Path, key: str) -> dict[str, Any]:
    """What was found when a model was loaded: shape, fingerprint, whether a sink is left out."""
    folder = facts_folder(cache, key)
    with reading(folder):
        return json.loads((folder / FACTS).read_text(encoding="utf-8"))


def load_source(source: Mapping[str, Any], name: str, head: bool = False, cache: Path | None = None) -> Encoder:
    """The model that the source of an `Origin` stands for."""
    from vestige.models.files.load import load_model, random_twin

    if "twin_of" in source:
        return random_twin(load_source(source["twin_of"], name, cache=cache), source["seed"])
    if "without_adapter" in source:
        return without_adapter(load_source(source["without_adapter"], name, cache=cache), name)
    if cache is not None:
        _check_tuned(Path(source["source"]), name, cache)
    if head:
        try:
            return load_model(**source, name=name, head=True)
        except ModelError:
            pass
    return load_model(**source, name=name)


def without_adapter(encoder: Encoder, name: str) -> Encoder:
    """The base under an adapter, from the same memory."""
    from vestige.models.encoders.adapters import AdapterEncoder

    if not isinstance(encoder, AdapterEncoder):
        raise SpecError(
            f"{encoder.name!r} has no adapter to switch off", fix=f"load the base of {encoder.name!r} instead"
        )
    return encoder.without_adapter(name)


def _check_tuned(folder: Path, name: str, cache: Path) -> None:
    """A model that was tuned in a study is whole; a checkpoint of it is one that was kept."""
    if cache / "models" not in folder.parents:
        return
    if folder.name.startswith("checkpoint-") and folder.parent.is_dir() and not folder.exists():
        log = json.loads((folder.parent / "finetune.json").read_text(encoding="utf-8"))
        kept = [f"{point['step']}" for point in log["checkpoints"]]
        raise SpecError(
            f"model {name!r} is to be step {folder.name.removeprefix('checkpoint-')}, but checkpoints are kept of "
            f"{', '.join(kept) or 'no step'} ({log['steps']} steps in all)",
            fix="name one of them, or set save_steps in the recipe",
        )
    demand(folder)


def tunable(source: Mapping[str, Any], which: str) -> str | Path:
    """What `finetune` takes of the model that `load_source` makes of this; `which` begins a complaint about it."""
    folder = model_folder(source["source"], source.get("revision"))
    if source.get("tokenizer") is not None or (folder / "adapter_config.json").exists():
        what = "an adapter" if source.get("tokenizer") is None else "a tokenizer from elsewhere"
        raise SpecError(
            f"{which} has {what}",
            fix="save it as one folder with its tokenizer (an adapter: merge_and_unload) and load that",
        )
    return source["source"] if source.get("revision") is None else folder
