"""Models that come in several: pre-training replicates and checkpoints, each a model with its place on an axis.

`base: {load: [a, b]}` becomes base#0 and base#1 with `pretrain_seed` 0 and 1; what was tuned from
base, or is compared with it, follows: tuned#0 from base#0. `during: {checkpoints: folder}` becomes
during@500, during@1000, ... with `step`, and so does `tuned: {finetune: ..., steps: [500, 1000]}`, the
checkpoints that a fine-tuning of the study keeps. Replicates are never mixed with tuning runs (`runs`).
"""

import re
from collections.abc import Mapping
from typing import Any

from vestige.errors import SpecError

_MADE_FROM = ("random_twin_of", "adapter_off")
_LINKS = ("reference", *_MADE_FROM)


def family_of(name: str) -> str:
    """base of base#0 and of base@500."""
    return re.split("[#@]", name)[0]


def expand_models(models: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The models of a study file with every family spelt out."""
    stepped: dict[str, Any] = {}
    for name, model in models.items():
        if "checkpoints" in model:
            stepped |= _steps(name, model, where)
        elif "steps" in model:
            stepped |= _kept_steps(name, model, where)
        else:
            stepped[name] = model
    sizes = {name: _replicates(name, stepped, where) for name in stepped}
    expanded: dict[str, Any] = {}
    for name, model in stepped.items():
        size = sizes[name]
        if size is None:
            expanded[name] = model
        else:
            expanded |= {f"{name}#{seed}": _replicate(model, seed, sizes) for seed in range(size)}
    return expanded


def _steps(name: str, model: Mapping[str, Any], where: str) -> dict[str, Any]:
    from vestige.models.files.series import find_checkpoints

    if "load" in model:
        raise SpecError(f"{where}: model {name!r} has both load and checkpoints", fix="keep one of them")
    if not isinstance(model["checkpoints"], str):
        raise SpecError(
            f"{where}: model {name!r} should name the folder or hub id of one run, found {model['checkpoints']!r}",
            fix="name one training run; another one is another model",
        )
    rest = {key: value for key, value in model.items() if key not in ("checkpoints", "revisions")}
    found = find_checkpoints(model["checkpoints"], model.get("revisions"))
    return {
        f"{name}@{step}": {**rest, "load": found.places[step][0], "revision": found.places[step][1], "step": step}
        for step in found.steps
    }


def _kept_steps(name: str, model: Mapping[str, Any], where: str) -> dict[str, Any]:
    steps = model["steps"]
    whole = isinstance(steps, list) and all(type(step) is int and step >= 0 for step in steps)
    if "finetune" not in model or not whole or not steps or len({*steps}) != len(steps):
        raise SpecError(
            f"{where}: model {name!r} has steps {steps!r}",
            fix="name steps of a finetune, each once, such as steps: [500, 1000], or checkpoints: FOLDER of a training "
            "elsewhere",
        )
    rest = {key: value for key, value in model.items() if key != "steps"}
    return {f"{name}@{step}": {**rest, "step": step} for step in steps}


def _replicates(name: str, models: Mapping[str, Any], where: str, asked: tuple[str, ...] = ()) -> int | None:
    """How many replicates a model has, its own or those of the models it is made from; None without any."""
    model = models[name]
    own = len(model["load"]) if isinstance(model.get("load"), list) else None
    if own is not None and "pretrain_seed" in model:
        raise SpecError(
            f"{where}: model {name!r} is a list to load, whose members are numbered, and has a pretrain_seed",
            fix="leave pretrain_seed out",
        )
    if own == 0:
        raise SpecError(f"{where}: model {name!r} has an empty list to load", fix="name at least one model")
    if name in asked:
        return own
    sizes = {
        other: size
        for other in _linked(model)
        if other in models and (size := _replicates(other, models, where, (*asked, name))) is not None
    }
    if not sizes:
        return own
    if own is not None:
        sizes = {name: own, **sizes}
    elif not any(other in sizes for other in _made_from(model)):
        other = next(iter(sizes))
        raise SpecError(
            f"{where}: model {name!r} is one model but {other!r} has {sizes[other]} replicates",
            fix=f"give {name!r} one per replicate, or refer to one of them: {other}#0",
        )
    if len(set(sizes.values())) > 1:
        raise SpecError(f"{where}: model {name!r} refers to models with {sizes} replicates", fix="make them as many")
    return next(iter(sizes.values()))


def _linked(model: Mapping[str, Any]) -> list[str]:
    return [*_made_from(model), *([model["reference"]] if isinstance(model.get("reference"), str) else [])]


def _made_from(model: Mapping[str, Any]) -> list[str]:
    tuned = model.get("finetune")
    origins = [model.get(key) for key in _MADE_FROM] + [tuned.get("of") if isinstance(tuned, Mapping) else None]
    return [origin for origin in origins if isinstance(origin, str)]


def _replicate(model: Mapping[str, Any], seed: int, sizes: Mapping[str, int | None]) -> dict[str, Any]:
    def follow(name: str | None) -> str | None:
        return f"{name}#{seed}" if name is not None and sizes.get(name) else name

    made = {**model, "pretrain_seed": seed}
    if isinstance(model.get("load"), list):
        made["load"] = model["load"][seed]
    made |= {key: follow(model[key]) for key in _LINKS if key in model}
    if isinstance(model.get("finetune"), Mapping):
        made["finetune"] = {**model["finetune"], "of": follow(model["finetune"].get("of"))}
    return made
