"""From a spec to cells: models are made, hidden states extracted, and every cell gets its name."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from vestige.cache import cache_folder
from vestige.corpus.load import load_corpus
from vestige.corpus.store import save_task
from vestige.corpus.types import Corpus, words_digest
from vestige.digest import digest_json
from vestige.errors import SpecError
from vestige.finetune.train import finetune
from vestige.models.adapters import AdapterEncoder
from vestige.models.encoder import Encoder
from vestige.models.load import RANDOM_TWIN_SEED, load_model, random_twin
from vestige.models.sources import model_folder
from vestige.representations.extract import represent
from vestige.representations.store import Representations
from vestige.study.cells import Cell
from vestige.study.spec import AnalysisSpec, StudySpec


@dataclass
class Given:
    """Models and corpora handed over in memory, by the names the spec uses for them."""

    models: Mapping[str, Encoder] = field(default_factory=dict)
    corpora: Mapping[str, Corpus] = field(default_factory=dict)


@dataclass
class Plan:
    """Cells to run, and what is known of the models and corpora they come from."""

    cells: list[Cell] = field(default_factory=list)
    models: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By model name, a description per run."""
    corpora: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What a reader of the results must know: words lost, tokens that differ, depths that differ."""


def make_plan(spec: StudySpec, given: Given, cache: str | Path | None = None) -> Plan:
    """Make every model and its representations (or find them in the cache), then name the cells."""
    root = cache_folder(cache)
    corpora = {name: _corpus(spec, name, given) for name in spec.corpora}
    for analysis in spec.analyses:
        _check_levels(analysis, corpora)
    plan = Plan(corpora={name: _describe_corpus(corpus) for name, corpus in corpora.items()})
    tokens: dict[tuple[str, str], str] = {}
    for name, run, encoder, made in _models(spec, corpora, given, root):
        plan.models.setdefault(name, []).append({**encoder.describe(), **made})
        for corpus in _corpora_of(spec):
            found = _represent(spec, corpus, corpora[corpus], encoder, root)
            tokens[name, corpus] = digest_json(
                [r.manifest["tokens"] for r in found[_poolings(spec, corpus)[0]].values()]
            )
            plan.notes += _losses(name, corpus, found[_poolings(spec, corpus)[0]]) if run == 0 else []
            plan.cells += _cells(spec, name, run, encoder, corpus, corpora[corpus], found, root)
    plan.notes += _mismatches(spec, plan, tokens)
    return plan


def _corpus(spec: StudySpec, name: str, given: Given) -> Corpus:
    if name in given.corpora:
        corpus = given.corpora[name]
    else:
        wanted = spec.corpora[name]
        corpus = load_corpus(
            wanted.files or wanted.name or "",
            format=wanted.format,
            name=None if wanted.files is None else name,
            dev=wanted.dev,
            seed=wanted.seed,
            derive=wanted.derive,
            **wanted.options,
        )
    return corpus if spec.limit is None else corpus.limit(spec.limit)


def _check_levels(analysis: AnalysisSpec, corpora: Mapping[str, Corpus]) -> None:
    """Say before any work starts that a task does not exist or does not fit."""
    if not analysis.tasks:
        raise SpecError(f"{analysis.name} has no tasks", fix="add tasks: [corpus/task, ...]")
    for name in analysis.tasks:
        corpus, _, label = name.partition("/")
        task = corpora[corpus].task(label)
        if task.level not in analysis.parameters.levels:
            raise SpecError(
                f"{analysis.name} takes tasks at level {', '.join(analysis.parameters.levels)}; "
                f"{name} is at level {task.level}",
                fix="choose another task or analysis",
            )


def _models(
    spec: StudySpec, corpora: Mapping[str, Corpus], given: Given, root: Path
) -> Iterator[tuple[str, int, Encoder, dict[str, Any]]]:
    """(name, run, encoder, how it was made), one at a time so that only one is in memory."""
    torch.set_num_threads(spec.compute.model_threads)
    adapters: dict[str, AdapterEncoder] = {}
    for position, (name, model) in enumerate(spec.models.items()):
        rest = list(spec.models)[position + 1 :]
        if name in given.models:
            yield name, 0, given.models[name], {"source": "in memory"}
        elif model.load is not None:
            yield name, 0, _load_once(spec, name, given, adapters, rest), {"source": model.load}
        elif model.adapter_off is not None:
            tuned = _load_once(spec, model.adapter_off, given, adapters, rest)
            yield name, 0, _without_adapter(tuned, name), {"source": f"{model.adapter_off} without its adapter"}
        elif model.random_twin_of is not None:
            seed = RANDOM_TWIN_SEED + (model.pretrain_seed or 0)
            twin = random_twin(_load(spec, model.random_twin_of, given), seed)
            yield name, 0, twin, {"source": f"random twin of {model.random_twin_of}", "baseline": True}
        else:
            for run in range(model.runs):
                yield name, run, *_tuned(spec, name, run, corpora, root)


def _load(spec: StudySpec, name: str, given: Given) -> Encoder:
    if name in given.models:
        return given.models[name]
    model = spec.models[name]
    if model.adapter_off is not None:
        return _without_adapter(_load(spec, model.adapter_off, given), name)
    if model.load is None:
        raise SpecError(f"model {name!r} is made in this study", fix="refer to a model that is loaded")
    return load_model(
        model.load,
        tokenizer=model.tokenizer,
        name=name,
        revision=model.revision,
        device=spec.compute.device,
        base=model.base,
        stateful=model.stateful,
        device_map=model.device_map,
        **asdict(model.read),
    )


def _load_once(
    spec: StudySpec, name: str, given: Given, adapters: dict[str, AdapterEncoder], rest: list[str]
) -> Encoder:
    """A loaded model; one with an adapter is kept while the rest of the study reads it, with its adapter or without."""
    encoder = adapters.pop(name, None) or _load(spec, name, given)
    if isinstance(encoder, AdapterEncoder) and any(name in (other, spec.models[other].adapter_off) for other in rest):
        adapters[name] = encoder
    return encoder


def _without_adapter(encoder: Encoder, name: str) -> Encoder:
    if not isinstance(encoder, AdapterEncoder):
        raise SpecError(
            f"{encoder.name!r} has no adapter to switch off", fix=f"load the base of {encoder.name!r} instead"
        )
    return encoder.without_adapter(name)


def _tuned(
    spec: StudySpec, name: str, run: int, corpora: Mapping[str, Corpus], root: Path
) -> tuple[Encoder, dict[str, Any]]:
    """Fine-tune run number `run` of a model and load its backbone."""
    wanted = spec.models[name].finetune
    assert wanted is not None
    base = _tunable(spec, name, wanted.of)
    corpus, _, label = wanted.task.partition("/")
    tuned = finetune(
        base,
        corpora[corpus].task(label),
        wanted.recipe,
        seed=run,
        device=spec.compute.device,
        threads=spec.compute.model_threads,
        cache=root,
    )
    read = spec.models[wanted.of].read
    encoder = load_model(tuned.folder, name=name, device=spec.compute.device, **asdict(read))
    made = {"source": f"{wanted.of} fine-tuned on {wanted.task}", "tuned_on": wanted.task, "tune_seed": run}
    return encoder, {**made, "recipe": asdict(wanted.recipe), "curve": tuned.log["curve"]}


def _tunable(spec: StudySpec, name: str, of: str) -> str | Path:
    """The source of the model that `name` is tuned from."""
    model = spec.models[of]
    if model.load is None:
        raise SpecError(f"model {name!r} is tuned from {of!r}, which is not loaded", fix="tune a loaded model")
    folder = model_folder(model.load, model.revision)
    if model.tokenizer is not None or (folder / "adapter_config.json").exists():
        what = "an adapter" if model.tokenizer is None else "a tokenizer from elsewhere"
        raise SpecError(
            f"model {name!r} is tuned from {of!r}, which has {what}",
            fix="save it as one folder with its tokenizer (an adapter: merge_and_unload) and load that",
        )
    return model.load if model.revision is None else folder


def _corpora_of(spec: StudySpec) -> list[str]:
    """Corpora that some analysis reads, in the order of the spec."""
    read = {task.partition("/")[0] for analysis in spec.analyses for task in analysis.tasks}
    return [name for name in spec.corpora if name in read]


def _poolings(spec: StudySpec, corpus: str) -> list[str]:
    """Poolings that some analysis wants of the corpus: one pass makes them all."""
    wanted = [
        pooling
        for analysis in spec.analyses
        if any(task.partition("/")[0] == corpus for task in analysis.tasks)
        for pooling in analysis.parameters.poolings
    ]
    return list(dict.fromkeys(wanted))


def _represent(
    spec: StudySpec, name: str, corpus: Corpus, encoder: Encoder, root: Path
) -> dict[str, dict[str, Representations]]:
    """By pooling and split."""
    poolings = _poolings(spec, name)
    compute = spec.compute
    by_split = {
        split: represent(
            encoder,
            sentences,
            poolings,
            dtype=compute.dtype,
            on_overflow=compute.on_overflow,
            on_vanished=compute.on_vanished,
            cache=root,
        )
        for split, sentences in corpus.splits.items()
    }
    return {pooling: {split: found[pooling] for split, found in by_split.items()} for pooling in poolings}


def _cells(
    spec: StudySpec,
    name: str,
    run: int,
    encoder: Encoder,
    corpus_name: str,
    corpus: Corpus,
    found: dict[str, dict[str, Representations]],
    root: Path,
) -> Iterator[Cell]:
    for analysis in spec.analyses:
        for wanted in analysis.tasks:
            in_corpus, _, label = wanted.partition("/")
            if in_corpus != corpus_name:
                continue
            task = corpus.task(label)
            data = [
                {split: words_digest(sentences) for split, sentences in corpus.splits.items()},
                task.digest(corpus.splits),
                [spec.compute.dtype, spec.compute.on_overflow, spec.compute.on_vanished],
            ]
            yield Cell(
                model=name,
                run=run,
                fingerprint=encoder.fingerprint,
                corpus=corpus_name,
                task=label,
                task_file=str(save_task(task, root / "tasks")),
                representations={s: str(r.folder) for s, r in found[analysis.parameters.poolings[0]].items()},
                data=digest_json(data),
                analysis=analysis.name,
                version=analysis.parameters.version,
                parameters=analysis.parameters.parameters(),
                threads=spec.compute.threads,
                baseline=spec.models[name].random_twin_of is not None,
                cache=str(root),
            )


def _describe_corpus(corpus: Corpus) -> dict[str, Any]:
    return {
        "name": corpus.name,
        "notes": list(corpus.notes),
        "splits": {
            split: {"sentences": len(s), "words": sum(len(x.words) for x in s), "digest": words_digest(s)}
            for split, s in corpus.splits.items()
        },
    }


def _losses(model: str, corpus: str, splits: Mapping[str, Representations]) -> list[str]:
    """Words that the model could not be shown, or made nothing of."""
    notes = []
    for split, found in splits.items():
        lost = found.manifest
        if lost["truncated_words"]:
            notes.append(
                f"{model} on {corpus}/{split}: {lost['truncated_words']} of {lost['words']} words in "
                f"{lost['truncated_sentences']} sentences are past the model's limit and left out"
            )
        if lost["vanished_words"]:
            notes.append(
                f"{model} on {corpus}/{split}: the tokenizer makes nothing of {lost['vanished_words']} words "
                "(policy: see compute.on_vanished)"
            )
    return notes


def _mismatches(spec: StudySpec, plan: Plan, tokens: Mapping[tuple[str, str], str]) -> list[str]:
    """Pairs of models that do not see the same tokens or do not have the same depth."""
    notes = []
    for name in spec.models:
        reference = spec.reference_of(name)
        if reference is None:
            continue
        for corpus in _corpora_of(spec):
            if tokens[name, corpus] != tokens[reference, corpus]:
                notes.append(
                    f"{name} and {reference} cut {corpus} into different tokens: word-level probes still compare "
                    "(on the words both have), token-level measures would not"
                )
        deep, shallow = plan.models[name][0]["layers"] - 1, plan.models[reference][0]["layers"] - 1
        if deep != shallow:
            notes.append(
                f"{name} has {deep} blocks, {reference} has {shallow}: layers are compared by number, as far as "
                "both have them"
            )
    return notes
