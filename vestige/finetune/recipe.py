"""Fine-tuning settings as data: a dataclass, and the recipes of the papers as YAML files beside it."""

from dataclasses import asdict, dataclass
from difflib import get_close_matches
from importlib.resources import files
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml

from vestige.errors import ModelError

_RECIPES = files("vestige.finetune") / "recipes"


@dataclass(frozen=True)
class Lora:
    """A low-rank adapter (Hu et al. 2021) is trained instead of the model's own weights."""

    r: int = 8
    alpha: float = 16
    dropout: float = 0.0
    targets: str | tuple[str, ...] | None = None
    """Names of the linear layers that get one ("all-linear": every one); None: peft's choice for the family."""
    merge: bool = False
    """Add the adapter to the weights at the end and save an ordinary model; else an adapter folder is saved."""


@dataclass(frozen=True)
class Recipe:
    """How a model is fine-tuned; the defaults are mosbach2020's, Table 3."""

    rate: float = 2e-5
    epochs: int = 3
    batch: int = 32
    """Examples per step of the optimiser."""
    warmup: float = 0.1
    """Share of the steps over which the rate rises linearly."""
    decay: float = 0.01
    """Weight decay; biases and norms are spared."""
    betas: tuple[float, float] = (0.9, 0.99)
    epsilon: float = 1e-8
    clip: float = 1.0
    """Largest norm of the gradient."""
    max_tokens: int = 128
    """Longer sentences are cut; of questions with a context, it is the size of a window."""
    schedule: Literal["constant", "linear"] = "constant"
    """The rate after the warm-up: as it is, or falling to zero at the last step."""
    accumulate: int = 1
    """A batch is computed in so many parts: less memory, the same step."""
    precision: Literal["float32", "bf16", "fp16"] = "float32"
    """Other than float32: mixed precision."""
    early_stopping: int | None = None
    """Stop when dev has not improved for so many epochs, and take the best epoch's weights."""
    dropout: float | None = None
    """Of every part of the model; None: as its configuration says."""
    pooling: Literal["cls", "mean"] = "cls"
    """What a sentence's classifier reads: the token the family's own head reads, or the mean of all."""
    pooler: Literal["fresh", "pretrained"] = "fresh"
    """A pooler that came with the model (BERT's, ALBERT's) is drawn anew, or kept as a start."""
    word: Literal["first", "last", "mean"] = "first"
    """Which sub-words stand for a word, in tasks that label words."""
    stride: int = 128
    """By how many tokens the window over a long context moves on."""
    max_question: int = 64
    """Longer questions are cut to so many tokens."""
    max_answer: int = 30
    """Longest answer, in tokens, that is looked for."""
    freeze: int | None = None
    """None: nothing; 0: the embeddings; k: the embeddings and the first k blocks."""
    freeze_eval: bool = False
    """Switch dropout off in what is frozen; otherwise it stays as active as elsewhere."""
    lora: Lora | bool | None = None
    save_epochs: bool = True
    """Keep a checkpoint of every epoch."""
    save_steps: int | None = None
    """Keep a checkpoint every so many steps as well."""
    levels: tuple[str, ...] = ()
    """Levels of the tasks it is meant for; any where none is named."""
    name: str = ""

    def __post_init__(self) -> None:
        given = self.lora
        lora = Lora() if given is True else Lora(**given) if isinstance(given, dict) else given or None
        object.__setattr__(self, "lora", lora)
        for name in ("betas", "levels"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if get_origin(kind) is Literal and value not in get_args(kind):
                raise ModelError(f"recipe: {name} is {value!r}", fix=f"choose from {', '.join(get_args(kind))}")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise ModelError(f"recipe: {name} is {value!r}", fix=f"it should be at least {least}")
        if self.lora and self.freeze is not None:
            raise ModelError("recipe: freeze and lora at once", fix="an adapter holds all weights fixed: drop freeze")
        if not (self.rate > 0 and 0 <= self.warmup <= 1):
            raise ModelError(
                f"recipe: rate is {self.rate!r} and warmup {self.warmup!r}",
                fix="a rate is above 0, a warm-up a share from 0 to 1",
            )

    def identity(self) -> dict[str, Any]:
        """What of it shapes a model or what is kept of it."""
        return {key: value for key, value in asdict(self).items() if key not in ("name", "levels")}


_LEAST = {
    "epochs": 1, "batch": 1, "accumulate": 1, "max_tokens": 4, "stride": 1, "max_question": 1, "max_answer": 1,
    "early_stopping": 1, "save_steps": 1, "freeze": 0, "decay": 0, "dropout": 0,
}  # fmt: skip


def recipes() -> list[str]:
    """Names of the recipes that come with vestige: paper_task."""
    return sorted(file.name.removesuffix(".yaml") for file in _RECIPES.iterdir() if file.name.endswith(".yaml"))


def load_recipe(name: str, **changes: Any) -> Recipe:
    """The recipe called `name`, with single values changed.

    >>> load_recipe("mosbach2020_cola")
    >>> load_recipe("merchant2020_mnli", freeze=6)
    """
    if name not in recipes():
        near = get_close_matches(name, recipes(), n=1)
        raise ModelError(
            f"no recipe is called {name!r}; there are {', '.join(recipes())}",
            fix=f"did you mean {near[0]!r}?" if near else "name one of them",
        )
    said = yaml.safe_load((_RECIPES / f"{name}.yaml").read_text(encoding="utf-8"))
    return make_recipe({**said, "name": name, **changes}, f"recipe {name!r}")


def make_recipe(said: dict[str, Any], where: str = "recipe") -> Recipe:
    """A recipe from plain values, as YAML and JSON hold them."""
    known = set(get_type_hints(Recipe))
    for key in said:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            raise ModelError(
                f"{where}: unknown key {key!r}", fix=f"did you mean {near[0]!r}?" if near else f"known: {sorted(known)}"
            )
    return Recipe(**said)
