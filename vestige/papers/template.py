"""The study of a paper: a study file with one base model, into which other models are put."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from vestige.errors import SpecError
from vestige.report.wording import listing
from vestige.study.families import family_of
from vestige.study.yaml_file import parse_yaml

BASE = "base"
DEFAULT = "minilm"
"""The base model of the templates."""
SCALES = ("full", "small", "demo")


def template_text(study: str, scale: str) -> str:
    """The study file of a paper at a scale, as it is written."""
    return (files("vestige.papers") / study / f"{scale}.yaml").read_text(encoding="utf-8")


def fill(study: str, scale: str, models: Sequence[str]) -> dict[str, Any]:
    """The study of these models, as plain values that `make_spec` takes.

    Of one model the names are those of the template: base, sst2, ... Of several, every model has its own name, and
    what is made from it that name before its own: `roberta-base`, `roberta-base sst2`, ...
    """
    raw = parse_yaml(template_text(study, scale), f"{study}.{scale}")
    labels = [label_of(model) for model in models]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise SpecError(f"two models are called {twice!r}", fix="name folders that end in different names")
    base = next(name for name, model in raw["models"].items() if isinstance(model, str))
    mine = [_names(raw["models"], base, label, alone=len(models) == 1) for label in labels]
    filled: dict[str, Any] = {}
    for model, names in zip(models, mine, strict=True):
        for name, made in raw["models"].items():
            filled[names[name]] = model if name == base else _made(made, names)
    about = raw["about"].replace("MiniLM", listing(["MiniLM" if one == DEFAULT else one for one in labels]))
    return {**raw, "about": about, "models": filled, "analyses": [_read(one, mine) for one in raw["analyses"]]}


def label_of(source: str) -> str:
    """What a model is called: the last part of its id or of its folder, without the marks of families."""
    return Path(source).name.replace("#", "-").replace("@", "-") or "model"


def _names(models: Mapping[str, Any], base: str, label: str, alone: bool) -> dict[str, str]:
    """By name in the template, the name in the study; a base that is called like its model keeps to that."""
    if alone:
        return {name: label if name == base == models[base] else name for name in models}
    return {name: label if name == base else f"{label} {name}" for name in models}


def _made(model: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A model that is made from others, with their names in the study."""
    made = {**model}
    for key in ("random_twin_of", "reference"):
        if key in made:
            made[key] = names[made[key]]
    if "finetune" in made:
        made["finetune"] = {**made["finetune"], "of": names[made["finetune"]["of"]]}
    return made


def _read(analysis: Mapping[str, Any], mine: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """An analysis, with the names that models have in the study."""
    ((name, given),) = analysis.items()
    if "models" not in given:
        return {name: given}
    read = [names[family_of(one)] + one.removeprefix(family_of(one)) for names in mine for one in given["models"]]
    return {name: {**given, "models": read}}
