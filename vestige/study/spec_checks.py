"""What a study's parts may not say together: names that clash, models made from each other, work asked for twice."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vestige.errors import SpecError
from vestige.study.families import family_of


def check_names(models: Mapping[Any, Any], where: str) -> None:
    """Models are called by texts without the marks of families: base#0 and base@500 are names that we give."""
    for name in models:
        if not isinstance(name, str) or not name.strip() or {*name} & {"#", "@"}:
            raise SpecError(
                f"{where}: a model is called {name!r:.80}",
                fix="call it by letters and digits, without # and @, which mark replicates and checkpoints",
            )


def check_origins(models: Mapping[str, Any]) -> None:
    """No model is made from itself, however indirectly."""
    for name in models:
        chain = [name]
        while (origin := _origin(models[chain[-1]])) is not None:
            if origin in chain:
                raise ValueError(f"models are made from each other: {' from '.join([*chain, origin])}")
            chain.append(origin)


def _origin(model: Any) -> str | None:
    return model.random_twin_of or model.adapter_off or (model.finetune.of if model.finetune else None)


def check_analyses(analyses: Sequence[Any]) -> None:
    """No cell is asked for twice: it would be counted twice in every correction for many comparisons."""
    for number, analysis in enumerate(analyses):
        _check_once(analysis.tasks, f"{analysis.name}: the task")
        _check_once(analysis.models or (), f"{analysis.name}: the model")
        for name in analysis.models or ():
            if family_of(name) != name and family_of(name) in analysis.models:
                raise ValueError(
                    f"{analysis.name}: models has {family_of(name)!r}, which stands for all its members, and {name!r}"
                )
        for other in analyses[:number]:
            if other.parameters != analysis.parameters or not _meet(analysis.models, other.models):
                continue
            shared = [task for task in analysis.tasks if task in other.tasks]
            if shared or not analysis.parameters.levels:
                what = f" of {shared[0]!r}" if shared else ""
                raise ValueError(f"{analysis.name}{what} is asked for twice with the same parameters")


def _check_once(names: Iterable[str], what: str) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} {name!r} is named twice")
        seen.add(name)


def _meet(some: Sequence[str] | None, others: Sequence[str] | None) -> bool:
    if some is None or others is None:
        return True
    return any(one == other or family_of(one) == other or one == family_of(other) for one in some for other in others)
