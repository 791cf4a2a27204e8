"""Fine-tuning settings as data: a dataclass, and the recipes of the papers as YAML files beside it."""

from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, get_type_hints

import yaml
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from vestige.errors import ModelError

_RECIPES = files("vestige.finetune") / "recipes"


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"Input should be a number, not {value}")
    return value


Whole = Annotated[int, BeforeValidator(_no_flag)]
Count = Annotated[Whole, Field(ge=1)]
Number = Annotated[float, BeforeValidator(_no_flag), Field(allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]
Share = Annotated[Number, Field(ge=0, le=1)]
Chance = Annotated[Number, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class Lora:
    """A low-rank adapter (Hu et al. 2021) is trained instead of the model's own weights."""

    r: Count = 8
    """Rank."""
    alpha: Number = 16
    """Scale: the adapter's product is multiplied by alpha / r."""
    dropout: Chance = 0.0
    """Of the adapter's input."""
    targets: str | tuple[str, ...] | None = None
    """Names of the linear layers that get one ("all-linear": every one); None: peft's choice for the family."""
    merge: bool = False
    """Add the adapter to the weights at the end and save an ordinary model; else an adapter folder is saved."""

    def __post_init__(self) -> None:
        _check(self, "recipe: lora.")


@dataclass(frozen=True)
class Recipe:
    """How a model is fine-tuned; the defaults are mosbach2020's, Table 3."""

    rate: Positive = 2e-5
    """Learning rate of AdamW."""
    epochs: Count = 3
    """Passes over the training set."""
    batch: Count = 32
    """Examples per step of the optimiser."""
    warmup: Share = 0.1
    """Share of the steps over which the rate rises linearly."""
    decay: NotNegative = 0.01
    """Weight decay; biases and norms are spared."""
    betas: tuple[Chance, Chance] = (0.9, 0.99)
    """Of AdamW."""
    epsilon: Positive = 1e-8
    """Of AdamW."""
    clip: NotNegative = 1.0
    """Largest norm of the gradient; 0: any."""
    max_tokens: Annotated[Whole, Field(ge=4)] = 128
    """Longer sentences are cut; of questions with a context, it is the size of a window."""
    schedule: Literal["constant", "linear"] = "constant"
    """The rate after the warm-up: as it is, or falling to zero at the last step."""
    accumulate: Count = 1
    """A batch is computed in so many parts: less memory, the same step."""
    precision: Literal["float32", "bf16", "fp16"] = "float32"
    """Other than float32: mixed precision."""
    early_stopping: Count | None = None
    """Stop when dev has not improved for so many epochs, and take the best epoch's weights."""
    dropout: Chance | None = None
    """Of every part of the model; None: as its configuration says."""
    pooling: Literal["cls", "mean"] = "cls"
    """What a sentence's classifier reads: the token the family's own head reads, or the mean of all."""
    pooler: Literal["fresh", "pretrained"] = "fresh"
    """A pooler that came with the model (BERT's, ALBERT's) is drawn anew, or kept as a start."""
    word: Literal["first", "last", "mean"] = "first"
    """Which sub-words stand for a word, in tasks that label words."""
    stride: Count = 128
    """By how many tokens the window over a long context moves on."""
    max_question: Count = 64
    """Longer questions are cut to so many tokens."""
    max_answer: Count = 30
    """Longest answer, in tokens, that is looked for."""
    freeze: Annotated[Whole, Field(ge=0)] | None = None
    """None: nothing; 0: the embeddings; k: the embeddings and the first k blocks."""
    freeze_eval: bool = False
    """Switch dropout off in what is frozen; otherwise it stays as active as elsewhere."""
    lora: Lora | bool | None = None
    """Train an adapter instead of the weights: true, or its settings."""
    save_epochs: bool = True
    """Keep a checkpoint of every epoch."""
    save_steps: Count | None = None
    """Keep a checkpoint every so many steps as well."""
    levels: tuple[str, ...] = ()
    """Levels of the tasks it is meant for; any where none is named."""
    name: str = ""
    """Of a recipe that comes with the package."""

    def __post_init__(self) -> None:
        if isinstance(self.lora, dict):
            _check_keys(self.lora, Lora, "recipe: lora")
            object.__setattr__(self, "lora", Lora(**self.lora))
        _check(self, "recipe: ")
        if isinstance(self.lora, bool):
            object.__setattr__(self, "lora", Lora() if self.lora else None)
        if self.lora and self.freeze is not None:
            raise ModelError("recipe: freeze and lora at once", fix="an adapter holds all weights fixed: drop freeze")

    def identity(self) -> dict[str, Any]:
        """What of it shapes a model or what is kept of it."""
        return {key: value for key, value in asdict(self).items() if key not in ("name", "levels")}


_EXPECTED = {
    "betas": "it should be two numbers, each at least 0 and below 1",
    "levels": "it should be a list of levels, such as [sentence]",
    "lora": "it should be true, false or settings such as {r: 8, alpha: 16}",
    "targets": "it should be a list of names, or all-linear",
}
"""Where pydantic's words do not say it."""

_adapter = cache(TypeAdapter)


def _check(made: Lora | Recipe, where: str) -> None:
    """Every value is of its kind; numbers may be written as text (YAML takes 5e-5 for one).

    A whole number stays one where any number will do: it is part of a model's identity.
    """
    for name, kind in get_type_hints(type(made), include_extras=True).items():
        found = getattr(made, name)
        given = tuple(found) if isinstance(found, list) else found
        try:
            value = _adapter(kind).validate_python(given)
        except ValidationError as error:
            said = error.errors()[0]["msg"].removeprefix("Value error, ").replace("Input should", "it should")
            raise ModelError(f"{where}{name} is {found!r}", fix=_EXPECTED.get(name, said)) from None
        object.__setattr__(made, name, value if isinstance(value, int) or value != given else given)


def _check_keys(said: dict[str, Any], kind: type[Lora | Recipe], where: str) -> None:
    known = set(get_type_hints(kind))
    for key in said:
        if key not in known:
            near = get_close_matches(str(key), known, n=1)
            raise ModelError(
                f"{where}: unknown key {key!r}", fix=f"did you mean {near[0]!r}?" if near else f"known: {sorted(known)}"
            )


def recipes() -> list[str]:
    """Names of the recipes that come with vestige: paper_task."""
    return sorted(file.name.removesuffix(".yaml") for file in _RECIPES.iterdir() if file.name.endswith(".yaml"))


def default_recipe(level: str) -> str | None:
    """Name of the recipe for tasks that the defaults of `Recipe` do not fit."""
    return {"span": "mosbach2020_squad", "tree": "merchant2020_parsing"}.get(level)


def load_recipe(name: str, **changes: Any) -> Recipe:
    """The recipe called `name`, with single values changed.

    >>> load_recipe("mosbach2020_cola")
    >>> load_recipe("merchant2020_mnli", freeze=6)
    """
    if name not in recipes():
        near = get_close_matches(str(name), recipes(), n=1)
        raise ModelError(
            f"no recipe is called {name!r}; there are {', '.join(recipes())}",
            fix=f"did you mean {near[0]!r}?" if near else "name one of them",
        )
    said = yaml.safe_load((_RECIPES / f"{name}.yaml").read_text(encoding="utf-8"))
    return make_recipe({**said, "name": name, **changes}, f"recipe {name!r}")


def make_recipe(said: dict[str, Any], where: str = "recipe") -> Recipe:
    """A recipe from plain values, as YAML and JSON hold them."""
    _check_keys(said, Recipe, where)
    return Recipe(**said)
