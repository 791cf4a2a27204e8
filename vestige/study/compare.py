"""`vestige.compare(base, tuned, corpus)`: the three-line start."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from transformers import PreTrainedModel

from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus
from vestige.digest import digest_json
from vestige.errors import SpecError
from vestige.models.encoder import Encoder
from vestige.models.load import load_model
from vestige.study.making import Given
from vestige.study.run import Study, StudyRun
from vestige.study.spec import make_spec

ModelLike: TypeAlias = str | Path | PreTrainedModel | Encoder
PREFERRED_TASKS = ("xpos", "upos", "deprel", "chunk", "semtag", "pos")


def compare(
    base: ModelLike,
    tuned: ModelLike | Sequence[ModelLike],
    corpus: str | Path | Corpus,
    *,
    analyses: Sequence[str | dict[str, Any]] = ("layer_probe",),
    tasks: Sequence[str] | None = None,
    tokenizer: Any = None,
    random_twin: bool = True,
    limit: int | None = None,
    jobs: int = 1,
    folder: str | Path | None = None,
    cache: str | Path | None = None,
) -> StudyRun:
    """Compare a model before and after fine-tuning on a corpus; `.show()` opens the report.

    `tuned` may be several models, each compared with `base`. `tasks` names labellings of the
    corpus; by default the first two of xpos, upos, deprel, chunk, semtag, pos that it has.
    """
    loaded = corpus if isinstance(corpus, Corpus) else load_corpus(corpus)
    several = list(tuned) if isinstance(tuned, list | tuple) else [tuned]
    names = ["tuned"] if len(several) == 1 else [f"tuned-{i + 1}" for i in range(len(several))]
    encoders = {"base": _encoder(base, "base", tokenizer)}
    encoders |= {name: _encoder(model, name, tokenizer) for name, model in zip(names, several, strict=True)}
    models: dict[str, Any] = {"base": {"load": "(given)"}}
    models |= {name: {"load": "(given)", "reference": "base"} for name in names}
    if random_twin:
        models["random twin"] = {"random_twin_of": "base"}
    raw: dict[str, Any] = {
        "study": f"compare-{digest_json([e.fingerprint for e in encoders.values()], length=8)}",
        "models": models,
        "corpora": {"corpus": {"files": {}}},
        "analyses": [_analysis(item, _tasks(loaded, tasks)) for item in analyses],
        "limit": limit,
    }
    study = Study(make_spec(raw), folder, given=Given(encoders, {"corpus": loaded}), cache=cache)
    return study.run(jobs)


def _encoder(model: ModelLike, name: str, tokenizer: Any) -> Encoder:
    if isinstance(model, str | Path | PreTrainedModel):
        return load_model(model, tokenizer=tokenizer if isinstance(model, PreTrainedModel) else None, name=name)
    return model


def _tasks(corpus: Corpus, wanted: Sequence[str] | None) -> list[str]:
    if wanted is None:
        wanted = [task for task in PREFERRED_TASKS if task in corpus.levels][:2]
        wanted = wanted or [task for task, level in corpus.levels.items() if level == "token"][:1]
    if not wanted:
        raise SpecError(f"corpus {corpus.name!r} has no word-level task", fix=f"its tasks: {', '.join(corpus.levels)}")
    return [f"corpus/{task}" for task in wanted]


def _analysis(item: str | dict[str, Any], tasks: list[str]) -> dict[str, Any]:
    if isinstance(item, str):
        return {item: {"tasks": tasks}}
    name, parameters = next(iter(item.items()))
    return {name: {"tasks": tasks, **parameters}}
