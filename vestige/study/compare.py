"""`vestige.compare(base, tuned, corpus)`: the three-line start.

What is compared becomes an ordinary study: models and corpora keep the names and folders they were
given by, so that each is loaded when it is read, in whatever process reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from vestige.analyses import analysis_names, find_analysis
from vestige.analyses.base import Analysis
from vestige.analyses.profiles import MOST_TASKS, WITHOUT_TWIN, profile_analyses
from vestige.analyses.registry import BY_DEFAULT
from vestige.corpus.catalog import find_entry
from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus
from vestige.errors import SpecError
from vestige.models.encoders.encoder import Encoder
from vestige.models.files.load import load_model
from vestige.study.corpora import Given
from vestige.study.finished import StudyRun
from vestige.study.run import Study
from vestige.study.spec import make_spec

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ModelLike: TypeAlias = "str | Path | PreTrainedModel | Encoder"
PREFERRED_TASKS = ("xpos", "upos", "deprel", "chunk", "semtag", "pos")
TWIN = "random twin"
CUT = {"test": 0.2, "dev": 0.1}
"""Shares of train that stand in for splits which a corpus lacks."""


def compare(
    base: ModelLike,
    tuned: ModelLike | Sequence[ModelLike],
    corpus: str | Path | Corpus | None = None,
    *,
    analyses: Sequence[str | dict[str, Any]] | None = None,
    profile: str | None = None,
    tasks: Sequence[str] | None = None,
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
    tokenizer: Any = None,
    sink: str = "auto",
    on_unknown: str = "error",
    random_twin: bool | None = None,
    limit: int | None = None,
    device: str = "cpu",
    jobs: int | None = None,
    engine: Mapping[str, Any] | None = None,
    folder: str | Path | None = None,
    overwrite: bool = False,
    cache: str | Path | None = None,
) -> StudyRun:
    """Compare a model before and after fine-tuning on a corpus; `.show()` opens the report.

    `tuned` may be several models, each compared with `base`. `analyses` are names, or names with parameters; `profile`
    (quick, standard or full) stands for a choice of them, to which further ones may be added. Where none of them reads
    a corpus, none is needed. `tasks` names labellings
    of the corpus, each for the analyses that take it; by default an analysis gets the first two it can take, xpos,
    upos, deprel, chunk, semtag and pos before others, and one that uses no labels is run once. `format` and `options`
    say how files of your own are read; a test or dev set that they lack is cut from train, and the report says so.
    `tokenizer` is that of models in memory, or names one for tuned folders that lack theirs: a folder, or "base".
    `sink` says what becomes of an attention sink (see vestige.models.encoders.reading); `on_unknown="allow"` goes on
    where a tokenizer does not know a fifth of the tokens. `engine` has settings of the engine, as `{"name": "ray"}`.
    """
    study = comparison(
        base, tuned, corpus, analyses=analyses, profile=profile, tasks=tasks, format=format, options=options,
        tokenizer=tokenizer, sink=sink, on_unknown=on_unknown, random_twin=random_twin,
        limit=limit, device=device, folder=folder, overwrite=overwrite, cache=cache,
    )  # fmt: skip
    return study.run(**{"jobs": jobs, **(engine or {})})


def comparison(
    base: ModelLike,
    tuned: ModelLike | Sequence[ModelLike],
    corpus: str | Path | Corpus | None = None,
    *,
    analyses: Sequence[str | dict[str, Any]] | None = None,
    profile: str | None = None,
    tasks: Sequence[str] | None = None,
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
    tokenizer: Any = None,
    sink: str = "auto",
    on_unknown: str = "error",
    random_twin: bool | None = None,
    limit: int | None = None,
    device: str = "cpu",
    **where: Any,
) -> Study:
    """The study that `compare` runs; further keywords are those of `Study`."""
    chosen = analyses if analyses is not None else () if profile else BY_DEFAULT
    reading = [one for one in (*profile_analyses(profile), *chosen) if _kind(one).levels]
    name, source, loaded = _corpus(corpus, format, dict(options or {}), reading)
    named = {"base": base, **_named(list(tuned) if isinstance(tuned, list | tuple) else [tuned])}
    given = {
        role: _encoder(model, role, tokenizer, device)
        for role, model in named.items()
        if not isinstance(model, str | Path)
    }
    models: dict[str, Any] = {
        role: {"load": _source(model), **({} if role in given else {"read": {"sink": sink}})}
        for role, model in named.items()
    }
    for role in [*named][1:]:
        models[role]["reference"] = "base"
        if role not in given and isinstance(tokenizer, str | Path):
            models[role]["tokenizer"] = str(tokenizer)
    twin = bool(reading) and profile not in WITHOUT_TWIN if random_twin is None else random_twin
    if twin:
        models[TWIN] = {"random_twin_of": "base"}
    asked = [_analysis(item, name, loaded, tasks) for item in chosen]
    raw: dict[str, Any] = {
        "study": _study_name(named, name),
        "models": models,
        "corpora": {} if loaded is None else {name: source},
        "analyses": [*_of_profile(profile, name, loaded, tasks), *asked],
        "compute": {"device": device, "on_unknown": on_unknown},
        "limit": limit,
    }
    return Study(make_spec(raw), given=Given(given, {} if loaded is None else {name: loaded}), **where)


def _source(model: ModelLike) -> str:
    return str(model) if isinstance(model, str | Path) else "(given)"


def _encoder(model: Any, name: str, tokenizer: Any, device: str) -> Encoder:
    from transformers import PreTrainedModel  # modelling code takes seconds to import; folders are left to workers

    if isinstance(model, PreTrainedModel):
        return load_model(model, tokenizer=tokenizer, name=name, device=device)
    return model


def _named(tuned: Sequence[ModelLike]) -> dict[str, ModelLike]:
    """Tuned models by name: `tuned`, or of several the last part of their paths, if these tell them apart."""
    if len(tuned) == 1:
        return {"tuned": tuned[0]}
    names = [Path(_source(model)).name for model in tuned]
    telling = len({*names, "base", TWIN}) == len(names) + 2 and all(re.fullmatch(r"[\w. -]+", name) for name in names)
    return dict(zip(names if telling else [f"tuned-{i + 1}" for i in range(len(tuned))], tuned, strict=True))


def _study_name(models: Mapping[str, ModelLike], corpus: str) -> str:
    """What is compared, fit for the name of a folder."""
    parts = [Path(model).name if isinstance(model, str | Path) else role for role, model in models.items()]
    parts = [*parts[:2], *([f"and-{len(parts) - 2}-more"] if len(parts) > 2 else []), *([corpus] if corpus else [])]
    return "-".join(["compare", *(re.sub(r"[^\w.-]+", "-", part)[:32].strip("-.") or "model" for part in parts)])


def _kind(item: str | Mapping[str, Any]) -> type[Analysis]:
    return find_analysis(item if isinstance(item, str) else next(iter(item)))


def _corpus(
    given: str | Path | Corpus | None, format: str | None, options: dict[str, Any], read_by: Sequence[Any]
) -> tuple[str, dict[str, Any], Corpus | None]:
    """The corpus by its name in the study, as a study file would write it, and itself; None where nobody reads it."""
    if not read_by:
        return "", {}, None
    if given is None:
        raise SpecError(f"{_kind(read_by[0]).name} reads a corpus, and none is named", fix="name it, as in 'treebank'")
    if isinstance(given, Corpus):
        if format is not None or options:
            raise SpecError("a corpus in memory has no format and no options", fix="give them to load_corpus")
        return _plain(given.name), {"files": {}}, given
    source: dict[str, Any] = {"format": format, "options": options}
    in_catalog = format is None and isinstance(given, str) and find_entry(given) is not None
    source["name" if in_catalog else "files"] = str(given)
    loaded = load_corpus(str(given), format=format, **options)
    cut = {split: share for split, share in CUT.items() if "train" in loaded.splits and split not in loaded.splits}
    for split, share in cut.items():
        loaded = loaded.hold_out(split, share)
    name = Path(given).stem if not in_catalog and Path(given).is_file() else loaded.name
    return _plain(name), {**source, **cut}, loaded


def _plain(name: str) -> str:
    return name.replace("/", "-") or "corpus"


def _analysis(
    item: str | Mapping[str, Any], name: str, corpus: Corpus | None, wanted: Sequence[str] | None
) -> dict[str, Any]:
    """As a study file would write it, with tasks that the analysis takes, if it takes any."""
    analysis, parameters = (item, {}) if isinstance(item, str) else next(iter(item.items()))
    if corpus is None or not find_analysis(analysis).levels:
        return {analysis: dict(parameters or {})}
    own = (parameters or {}).get("tasks", wanted)
    tasks = _tasks(find_analysis(analysis), corpus, [own] if isinstance(own, str) else own)
    return {analysis: {**(parameters or {}), "tasks": [f"{name}/{task}" for task in tasks]}}


def _of_profile(
    profile: str | None, name: str, corpus: Corpus | None, wanted: Sequence[str] | None
) -> Iterator[dict[str, Any]]:
    """The analyses of a profile that find a task in the corpus."""
    for item in profile_analyses(profile):
        ((analysis, parameters),) = item.items()
        most = parameters.get(MOST_TASKS)
        own = {key: value for key, value in parameters.items() if key != MOST_TASKS}
        kind = find_analysis(analysis)
        if kind.levels and corpus is not None and not _fitting(kind, corpus, wanted):
            continue
        made = _analysis({analysis: own}, name, corpus, wanted)
        if most is not None and "tasks" in made[analysis]:
            made[analysis]["tasks"] = made[analysis]["tasks"][:most]
        yield made


def _fitting(kind: type[Analysis], corpus: Corpus, wanted: Sequence[str] | None) -> list[str]:
    """Tasks of the corpus, of those asked for, that an analysis takes."""
    levels = corpus.levels if wanted is None else {task: corpus.task(task).level for task in wanted}
    return [task for task, level in levels.items() if level in kind.levels]


def _tasks(kind: type[Analysis], corpus: Corpus, wanted: Sequence[str] | None) -> list[str]:
    """Those asked for, or by default the first two, of the tasks that the analysis takes."""
    if wanted is None:
        fitting = _fitting(kind, corpus, None)
        chosen = ([task for task in PREFERRED_TASKS if task in fitting] or fitting)[:2]
    else:
        chosen = _fitting(kind, corpus, wanted)
    if not chosen:
        has = ", ".join(f"{task} ({level})" for task, level in corpus.levels.items())
        given = f"not {', '.join(wanted)}" if wanted else f"and {corpus.name!r} has none"
        raise SpecError(
            f"{kind.name} takes tasks at level {', '.join(kind.levels)}, {given}; tasks of {corpus.name!r}: {has}",
            fix=f"name another corpus or task, or an analysis that takes them: {', '.join(_taking(corpus))}",
        )
    return chosen if kind.uses_labels else chosen[:1]


def _taking(corpus: Corpus) -> list[str]:
    """Analyses that take a task of the corpus."""
    return [name for name in analysis_names() if {*find_analysis(name).levels} & {*corpus.levels.values()}]
