"""A study file: models, corpora and analyses, checked before anything is computed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from vestige.analyses import find_analysis
from vestige.analyses.base import Analysis
from vestige.errors import SpecError
from vestige.finetune.recipe import Count, Number, Recipe, Whole, load_recipe
from vestige.models.encoders.reading import AS_IS, Reading
from vestige.study.engines.settings import EngineSpec
from vestige.study.families import expand_models, family_of
from vestige.study.shorthands import names_of, plain_corpus, plain_mapping, plain_model, write_out
from vestige.study.spec_checks import check_analyses, check_names, check_origins
from vestige.study.yaml_file import read_yaml

Seed = Annotated[Whole, Field(ge=0, lt=2**32)]
Step = Annotated[Whole, Field(ge=0, lt=2**53)]
Name = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class FinetuneSpec(_Strict):
    """Make a tuned model: `of` a model of the study, on `task` (corpus/task), by a recipe."""

    of: str
    """The model of the study that is tuned."""
    task: str
    """corpus/task that it is tuned on."""
    recipe: Recipe = Recipe()
    """Also the name of a recipe, or values with `like: name` for those that are not given."""
    keep: Annotated[tuple[Step, ...], Field(min_length=1)] | None = None
    """Cut the model to these blocks (from 0) before it is tuned."""

    @field_validator("recipe", mode="before")
    @classmethod
    def _named_recipe(cls, value: Any) -> Any:
        if isinstance(value, str):
            return load_recipe(value)
        if isinstance(value, Mapping) and "like" in value:
            return load_recipe(value["like"], **{str(key): said for key, said in value.items() if key != "like"})
        return value


SOURCES = ("load", "finetune", "random_twin_of", "adapter_off")
_ONLY_WITH = {
    "load": ("tokenizer", "revision", "base", "read", "stateful", "device_map"),
    "finetune": ("runs",),
}


class ModelSpec(_Strict):
    """A model: loaded, fine-tuned here, the random twin of another, or another without its adapter.

    Exactly one of the four. A file may also say `load: [a, b]` (pre-training replicates) or
    `checkpoints: folder` (a step axis); each becomes a model of its own, see vestige.study.families.
    """

    load: Name | None = None
    """A hub id, a folder, or `minilm`."""
    tokenizer: Name | None = None
    """A folder, a hub id, or the name of a loaded model of the study, if not the one that lies with the weights."""
    revision: Name | None = None
    """Of a model on the hub: a branch, tag or commit."""
    base: Name | None = None
    """What an adapter is put onto, if not the base it names."""
    read: Reading = AS_IS
    """How its hidden states are read."""
    stateful: bool = False
    """ELMo only: carry the state from sentence to sentence."""
    device_map: str | dict[str, str | int] | None = None
    """Where parts of a large model lie, as transformers' own option: `auto`, or devices by module."""
    finetune: FinetuneSpec | None = None
    """Tune a model of the study."""
    random_twin_of: str | None = None
    """The architecture of this model with weights drawn anew: a baseline."""
    adapter_off: str | None = None
    """The base under this adapter model, from the same load."""
    reference: str | None = None
    """The model it is compared with; a fine-tuned model's own base unless said otherwise."""
    runs: Count = 1
    """How many fine-tuning runs, by seed."""
    pretrain_seed: Seed | None = None
    """Which pre-training replicate it is, or was tuned from."""
    step: Step | None = None
    """Which step of a series of checkpoints it is, or which checkpoint of the fine-tuning is taken."""

    @model_validator(mode="after")
    def _one_source(self) -> "ModelSpec":
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a model needs exactly one of {', '.join(SOURCES)}; found {given or 'none'}")
        fields = type(self).model_fields
        for source, keys in _ONLY_WITH.items():
            stray = [key for key in keys if getattr(self, key) != fields[key].default]
            if stray and getattr(self, source) is None:
                raise ValueError(f"{stray[0]} belongs to a model with {source}, found with {given[0]}")
        if self.step is not None and self.load is None and self.finetune is None:
            raise ValueError(f"step belongs to a model with load or finetune, found with {given[0]}")
        return self


class CorpusSpec(_Strict):
    """A corpus of the catalog by name, or files: by split, or one that holds every split."""

    name: str | None = None
    """Of the catalog: `vestige ls corpora`."""
    files: dict[str, str | list[str]] | str | None = None
    """Files by split, or one file, folder or archive that holds every split."""
    format: str | None = None
    """Of the files, where their names and contents do not tell: `vestige ls formats`."""
    dev: Annotated[Number, Field(gt=0, lt=1)] | None = None
    """Share of train to cut off as dev, where a corpus has none."""
    test: Annotated[Number, Field(gt=0, lt=1)] | None = None
    """Share of train to cut off as test, where a corpus has none."""
    derive: Name | Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)] | None = None
    """A task to make from its trees or text, by name or as {name: options}; see `vestige ls derived`."""
    sample: Count | dict[str, Count] | None = None
    """At most so many sentences, of train or by split, drawn with the seed after dev is cut off."""
    seed: Seed = 0
    """Of what is drawn: cuts, samples, derived tasks."""
    options: dict[str, Any] = {}
    """Of the reader of its format."""

    @model_validator(mode="after")
    def _one_source(self) -> "CorpusSpec":
        if (self.name is None) == (self.files is None):
            raise ValueError("a corpus needs either name or files")
        stray = [key for key in self.options if key in ("source", *type(self).model_fields)]
        if stray:
            raise ValueError(f"{stray[0]!r} is no option of a reader; write it beside options")
        return self


class ComputeSpec(_Strict):
    """What is part of a number's identity: precision and threads are chosen here, not by the hardware."""

    threads: Count = 1
    """Of an analysis cell."""
    model_threads: Count = 2
    """Of forward passes and fine-tuning."""
    device: str = "cpu"
    """Of models: cpu, cuda, cuda:1, mps."""
    dtype: Literal["float32", "float16"] = "float32"
    """Of stored representations."""
    on_overflow: Literal["truncate", "error"] = "truncate"
    """Of sentences longer than a model can read: words beyond its limit are left out and counted, or an error."""
    on_vanished: Literal["zero", "error", "skip"] = "zero"
    """Of words that a tokenizer turns into nothing: a vector of zeros, an error, or no row."""
    on_unknown: Literal["error", "allow"] = "error"
    """Of a corpus of which more than a fifth of the tokens are unknown to a model's tokenizer."""


class CompareSpec(_Strict):
    """How differences are judged; see vestige.comparison.differences.Settings."""

    resamples: Annotated[Whole, Field(ge=19, le=10**6)] = 4999
    """Of the bootstrap and of the sign-flip test."""
    confidence: Annotated[Number, Field(ge=0.5, lt=1)] = 0.95
    """Of intervals."""
    margins: dict[str, Annotated[Number, Field(gt=0, lt=inf)]] = {}
    """By metric, in its own unit: what lies within is 'unchanged'. In place of those that the analyses declare."""
    alpha: Annotated[Number, Field(gt=0, le=0.5)] = 0.05
    """False-discovery rate: a difference is significant where q is at most this."""
    seed: Seed = 0
    """Of the resamples."""


class AnalysisSpec(_Strict):
    """An analysis, its parameters, and the tasks (corpus/task) and models it is run on."""

    name: str
    tasks: list[str]
    """None where it reads no corpus."""
    models: list[str] | None = None
    """None: all of them. The name of a family (replicates, checkpoints) stands for all its members."""
    parameters: Analysis

    def reads(self, model: str) -> bool:
        """Whether it is run on a model."""
        return self.models is None or bool({model, family_of(model)} & set(self.models))


class StudySpec(_Strict):
    """The whole file."""

    study: str
    """Its name: letters, digits, `-`, `_` and `.`."""
    about: str = ""
    """The question, for the report."""
    models: dict[str, ModelSpec]
    """By name."""
    corpora: dict[str, CorpusSpec]
    """By name; none where no analysis reads one and no model is tuned."""
    analyses: Annotated[list[AnalysisSpec], Field(min_length=1)]
    """Each a name with its tasks, models and parameters."""
    compute: ComputeSpec = ComputeSpec()
    """Threads, device and precision."""
    compare: CompareSpec = CompareSpec()
    """How differences are judged."""
    limit: Count | None = None
    """Only the first so many sentences of every split: a smoke run."""
    engine: EngineSpec = EngineSpec()
    """Where it runs; no part of the study's identity."""

    @field_validator("study")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not re.fullmatch(r"\w[\w.-]{0,99}", value):  # it is the name of a folder
            raise ValueError(
                "a study's name is made of at most 100 letters, digits, '-', '_' and '.', and begins with a letter or "
                f"digit; found {value!r:.120}"
            )
        return value

    @model_validator(mode="after")
    def _names_exist(self) -> "StudySpec":
        for name, model in self.models.items():
            tuned_from = model.finetune.of if model.finetune else None
            for other in (model.reference, model.random_twin_of, model.adapter_off, tuned_from):
                if other is not None and (other not in self.models or other == name):
                    raise ValueError(f"model {name!r} refers to {other!r}, {_suggest(other, self.models)}")
        wanted = [task for analysis in self.analyses for task in analysis.tasks]
        wanted += [model.finetune.task for model in self.models.values() if model.finetune]
        for task in wanted:
            corpus, _, label = task.partition("/")
            if not label or corpus not in self.corpora:
                raise ValueError(f"task {task!r} should be corpus/task; {_suggest(corpus, self.corpora)}")
        for analysis in self.analyses:
            for name in analysis.models or ():
                if not any(analysis.model_copy(update={"models": [name]}).reads(model) for model in self.models):
                    raise ValueError(f"{analysis.name} is to read {name!r}; {_suggest(name, self.models)}")
        known = {metric.name for analysis in self.analyses for metric in analysis.parameters.given if metric.margin}
        for name in self.compare.margins:
            if name not in known:
                raise ValueError(f"compare.margins names {name!r}, which no analysis compares; {_suggest(name, known)}")
        check_origins(self.models)
        check_analyses(self.analyses)
        return self

    def reference_of(self, name: str) -> str | None:
        """The model that `name` is compared with, if any."""
        model = self.models[name]
        return model.reference or (model.finetune.of if model.finetune else None)

    def as_json(self) -> dict[str, Any]:
        """The spec with every default filled in, as kept in study.lock.json."""
        plain = self.model_dump(mode="json", exclude={"analyses", "engine"})
        plain["analyses"] = [
            {"name": a.name, "tasks": a.tasks, "models": a.models, "parameters": a.parameters.parameters()}
            for a in self.analyses
        ]
        return plain


def read_spec(path: str | Path, **changes: Any) -> StudySpec:
    """A study file; paths in it are relative to it, and ${NAME} is taken from the environment."""
    path = Path(path)
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise SpecError(f"{path}: a study file is a mapping with study, models, corpora, analyses", fix="see examples/")
    return make_spec({**raw, **changes}, base=path.parent, where=str(path))


def make_spec(raw: Mapping[str, Any], base: Path | None = None, where: str = "study") -> StudySpec:
    """A checked spec from plain values, with the shorthands of study files resolved."""
    plain = write_out(dict(raw), where)
    listed = plain.get("analyses") or []
    if not isinstance(listed, list | tuple):
        raise SpecError(f"{where}: analyses should be a list, found {listed!r:.80}", fix="write `- name: {...}` lines")
    analyses = [_analysis(item, where) for item in listed]
    models = names_of(plain, "models", where)
    check_names(models, where)
    corpora = names_of(plain, "corpora", where) if _reads_corpora(models, analyses) or plain.get("corpora") else {}
    plain["models"] = expand_models(
        {name: plain_model(value, base, f"{where}: model {name!r}") for name, value in models.items()}, where
    )
    plain["corpora"] = {name: plain_corpus(value, base, f"{where}: corpus {name!r}") for name, value in corpora.items()}
    plain["analyses"] = analyses
    try:
        return StudySpec.model_validate(plain)
    except ValidationError as error:
        raise _explain(error, where) from None


def _reads_corpora(models: Mapping[str, Any], analyses: Sequence[AnalysisSpec]) -> bool:
    """Whether a study needs any: an analysis reads one, or a model is tuned; one without analyses is to be told so."""
    tuned = any(isinstance(model, Mapping) and "finetune" in model for model in models.values())
    return tuned or not analyses or any(analysis.parameters.levels for analysis in analyses)


def _analysis(item: Any, where: str) -> AnalysisSpec:
    """`- name: {tasks: [...], parameter: value, ...}`."""
    if not isinstance(item, Mapping) or len(item) != 1 or not all(isinstance(name, str) for name in item):
        raise SpecError(
            f"{where}: an analysis is written `- name: {{tasks: [corpus/task], ...}}`, found {item!r:.80}",
            fix="see examples/",
        )
    name, given = next(iter(item.items()))
    kind = find_analysis(name)
    parameters = plain_mapping(given, f"{where}: {name}")
    tasks, models = parameters.pop("tasks", []), parameters.pop("models", None)
    known = {field.name for field in dataclass_fields(kind)}
    for key in parameters:
        if key not in known:
            raise SpecError(
                f"{where}: {name} has no parameter {key!r}; {_suggest(key, known | {'tasks', 'models'})}",
                fix="correct it",
            )
    try:
        made = TypeAdapter(kind).validate_python(parameters)
    except ValidationError as error:
        raise _explain(error, f"{where}: {name}") from None
    chosen = [models] if isinstance(models, str) else models
    asked = [tasks] if isinstance(tasks, str) else tasks
    try:
        return AnalysisSpec(name=name, tasks=asked, models=chosen, parameters=made)
    except ValidationError as error:
        raise _explain(error, f"{where}: {name}") from None


def _suggest(name: Any, known: Any) -> str:
    names = sorted(map(str, known))
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"


_SECTIONS: dict[str, type[BaseModel]] = {
    "models": ModelSpec,
    "corpora": CorpusSpec,
    "compute": ComputeSpec,
    "compare": CompareSpec,
    "finetune": FinetuneSpec,
    "engine": EngineSpec,
}


def _explain(error: ValidationError, where: str) -> SpecError:
    """One of pydantic's complaints, in our words; a misspelt key explains a missing one, so it goes first."""
    unknown = ("extra_forbidden", "unexpected_keyword_argument")
    first = min(error.errors(), key=lambda complaint: complaint["type"] not in unknown)
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] in unknown:
        parents = [str(part) for part in first["loc"][:-1]]
        section = next((_SECTIONS[part] for part in reversed(parents) if part in _SECTIONS), StudySpec)
        known = set(section.model_fields)
        if parents and parents[-1] in ("recipe", "read"):
            known = {field.name for field in dataclass_fields(Recipe if parents[-1] == "recipe" else Reading)}
        key = str(first["loc"][-1])
        return SpecError(f"{where}: unknown key {place!r}; {_suggest(key, known)}", fix="correct or remove it")
    message = first["msg"].removeprefix("Value error, ")
    found = "" if first["type"] in ("value_error", "missing") else f" (found {first['input']!r:.80})"
    return SpecError(f"{where}: {place + ': ' if place else ''}{message}{found}", fix="correct it and run again")
