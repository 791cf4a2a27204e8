"""From a spec to cells: models are made, hidden states extracted, and every cell gets its name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vestige.analyses.base import Analysis
from vestige.cache import cache_folder, give_up
from vestige.corpus.load import load_corpus
from vestige.corpus.store import save_task
from vestige.corpus.types import Corpus, Task, words_digest
from vestige.digest import digest_json
from vestige.errors import SpecError, naming
from vestige.models.encoders.encoder import Encoder, placed
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.lm.head import head_identity
from vestige.progress import bar
from vestige.representations.extract import represent
from vestige.representations.store import Representations
from vestige.study.cells import Cell, Side
from vestige.study.making import Given, Made, check_sources, make_models
from vestige.study.spec import AnalysisSpec, StudySpec
from vestige.study.tokens import check_unknown, token_facts


@dataclass
class Plan:
    """Cells to run, and what is known of the models and corpora they come from."""

    cells: list[Cell] = field(default_factory=list)
    in_memory: dict[str, Encoder] = field(default_factory=dict)
    """By name, models that no other process can load."""
    models: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By model name, a description per run."""
    corpora: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What a reader of the results must know: words lost, depths that differ."""
    unpaired: list[str] = field(default_factory=list)
    """Lines on models that are compared with nothing."""
    tokens: list[dict[str, Any]] = field(default_factory=list)
    """Of every model and corpus: unknown tokens, sinks left out, whether it is cut as by the model's reference."""


def make_plan(spec: StudySpec, given: Given, cache: str | Path | None = None) -> Plan:
    """Make every model and its representations (or find them in the cache), then name the cells.

    Representations that a cell is going to read are compared with their checksums first; damaged ones are made again.
    """
    plan = _plan(spec, given, cache)
    return _plan(spec, given, cache) if _damaged(plan) else plan


def _damaged(plan: Plan) -> list[str]:
    """What is wrong with representations that cells to be run would read."""
    waiting = [cell for cell in plan.cells if not cell.done]
    sides = [side for cell in waiting for side in cell.sides]
    folders = {folder for side in sides for found in side.representations.values() for folder in found.values()}
    return [found for folder in sorted(folders) if (found := give_up(Path(folder)))]


def _plan(spec: StudySpec, given: Given, cache: str | Path | None) -> Plan:
    root = cache_folder(cache)
    corpora = {name: _corpus(spec, name, given) for name in spec.corpora}
    for analysis in spec.analyses:
        _check_levels(analysis, corpora)
    check_sources(spec, given)
    plan = Plan(corpora={name: _describe_corpus(corpus) for name, corpus in corpora.items()})
    read: dict[tuple[str, int, str], _Read] = {}
    sinks: dict[str, bool] = {}
    with bar("models made and read", sum(model.runs for model in spec.models.values())) as shown:
        for made in make_models(spec, corpora, given, root, [name for name in spec.models if _asking(spec, name)]):
            made = _read_alike(spec, made, sinks)
            plan.models.setdefault(made.name, []).append({**made.encoder.describe(), **made.about})
            if made.source is None:
                plan.in_memory[made.name] = made.encoder
            heads = _heads(spec, made)
            for corpus in _corpora_of(spec, made.name):
                if spec.compute.on_unknown == "error":
                    check_unknown(made.encoder, made.name, corpus, corpora[corpus])
                with naming(f"model {made.name} on {corpus}"):
                    found = _represent(spec, corpus, corpora[corpus], made, root)
                read[made.name, made.run, corpus] = _Read(
                    made.source, made.encoder.fingerprint, found, heads, placed(made.encoder)
                )
                if made.run == 0:
                    plan.notes += _losses(made, corpus, found)
                    plan.tokens.append(token_facts(made.encoder, made.name, corpus, corpora[corpus], found))
            shown.advance()
    for (name, run, corpus), mine in read.items():
        reference = read.get((spec.reference_of(name) or "", 0, corpus))
        plan.cells += _cells(spec, name, run, corpus, corpora, mine, reference, root)
    plan.notes += [note for analysis in spec.analyses for note in _run_once(analysis)]
    plan.notes += _depths(spec, plan)
    for facts in plan.tokens:
        other = spec.reference_of(facts["model"])
        both = [read.get((name or "", 0, facts["corpus"])) for name in (facts["model"], other)]
        cut = {side.tokens for side in both if side is not None and side.tokens is not None}
        facts["cut_unlike"] = other if len(cut) > 1 else None
    return plan


def _read_alike(spec: StudySpec, made: Made, sinks: dict[str, bool]) -> Made:
    """A model leaves its attention sink out where its reference does: both have the same words to be compared on."""
    reference = spec.reference_of(made.name)
    if reference in sinks and isinstance(made.encoder, HuggingFaceEncoder):
        made = replace(made, encoder=made.encoder.sink_like(sinks[reference]))
    sinks.setdefault(made.name, made.encoder.leaves_out_first)
    return made


@dataclass(frozen=True)
class _Read:
    """What is kept of a model once it has read a corpus."""

    source: dict[str, Any] | None
    fingerprint: str
    representations: dict[str, dict[str, Representations]]
    """By pooling and split."""
    heads: dict[str | None, str | None]
    """By the file that an analysis names, or None: hash of the language-model head."""
    placed: list[str]
    """What its device adds to the name of a cell."""

    @property
    def tokens(self) -> str | None:
        """Hash of the tokens the model saw; None where no hidden states were asked for."""
        for found in self.representations.values():
            return digest_json([r.manifest["tokens"] for r in found.values()])
        return None

    def side(self, name: str, analysis: Analysis) -> Side:
        """As a cell of this analysis needs it."""
        folders = {
            pooling: {split: str(found.folder) for split, found in self.representations[pooling].items()}
            for pooling in (analysis.poolings if "hidden_states" in analysis.needs else ())
        }
        head = self.heads[_head_file(analysis)] if "logits" in analysis.needs else None
        return Side(name, self.fingerprint, folders, self.source, head)


def _head_file(analysis: Analysis) -> str | None:
    return getattr(analysis, "head_file", None)


def _asking(spec: StudySpec, model: str) -> list[Analysis]:
    """Analyses that ask a model for words."""
    return [a.parameters for a in _analyses_of(spec, model) if "logits" in a.parameters.needs]


def _heads(spec: StudySpec, made: Made) -> dict[str | None, str | None]:
    """The heads that analyses of a model may put on it."""
    wanted = {_head_file(analysis) for analysis in _asking(spec, made.name)}
    if not wanted or not isinstance(made.encoder, HuggingFaceEncoder):
        return dict.fromkeys(wanted)
    return {file: head_identity(file, made.encoder) for file in wanted}


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
            test=wanted.test,
            seed=wanted.seed,
            derive=wanted.derive,
            **wanted.options,
        )
        if wanted.sample is not None:
            corpus = corpus.sample(wanted.sample, wanted.seed)
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


def _run_once(analysis: AnalysisSpec) -> Iterator[str]:
    """Tasks that an analysis without use for labels is not run on, as it is run on another of the same corpus."""
    tasks: dict[str, list[str]] = {}
    for name in () if analysis.parameters.uses_labels else analysis.tasks:
        tasks.setdefault(name.partition("/")[0], []).append(name)
    for first, *others in tasks.values():
        if others:
            yield f"{analysis.name} uses no labels: it is run once, on {first}, and not on {', '.join(others)}"


def _corpora_of(spec: StudySpec, model: str) -> list[str]:
    """Corpora that some analysis of a model reads, in the order of the spec."""
    read = {task.partition("/")[0] for analysis in _analyses_of(spec, model) for task in analysis.tasks}
    return [name for name in spec.corpora if name in read]


def _analyses_of(spec: StudySpec, model: str) -> list[AnalysisSpec]:
    """Analyses that read a model, for its own sake or as the reference of another."""
    compared = [name for name in spec.models if spec.reference_of(name) == model]
    return [
        analysis
        for analysis in spec.analyses
        if analysis.reads(model) or (analysis.parameters.models == 2 and any(map(analysis.reads, compared)))
    ]


def _poolings(spec: StudySpec, corpus: str, model: str) -> list[str]:
    """Poolings that some analysis wants of the corpus: one pass makes them all."""
    wanted = [
        pooling
        for analysis in _analyses_of(spec, model)
        if "hidden_states" in analysis.parameters.needs
        and any(task.partition("/")[0] == corpus for task in analysis.tasks)
        for pooling in analysis.parameters.poolings
    ]
    return list(dict.fromkeys(wanted))


def _splits(spec: StudySpec, name: str, corpus: Corpus) -> list[str]:
    """Splits of a corpus whose hidden states some analysis reads, of whatever model."""
    asked = [
        analysis.parameters.splits
        for analysis in spec.analyses
        if "hidden_states" in analysis.parameters.needs
        and any(task.partition("/")[0] == name for task in analysis.tasks)
    ]
    return [split for split in corpus.splits if any(splits is None or split in splits for splits in asked)]


def _represent(
    spec: StudySpec, name: str, corpus: Corpus, made: Made, root: Path
) -> dict[str, dict[str, Representations]]:
    """By pooling and split."""
    poolings = _poolings(spec, name, made.name)
    if not poolings:
        return {}
    compute = spec.compute
    by_split = {
        split: represent(
            made.encoder,
            corpus[split],
            poolings,
            dtype=compute.dtype,
            on_overflow=compute.on_overflow,
            on_vanished=compute.on_vanished,
            cache=root,
        )
        for split in _splits(spec, name, corpus)
    }
    return {pooling: {split: found[pooling] for split, found in by_split.items()} for pooling in poolings}


def _cells(
    spec: StudySpec,
    name: str,
    run: int,
    corpus_name: str,
    corpora: Mapping[str, Corpus],
    mine: _Read,
    reference: _Read | None,
    root: Path,
) -> Iterator[Cell]:
    corpus, tuned = corpora[corpus_name], spec.models[name].finetune
    for analysis in spec.analyses:
        parameters = analysis.parameters
        two, baseline = parameters.models == 2, spec.models[name].random_twin_of is not None
        if not analysis.reads(name) or (two and reference is None and not parameters.alone):
            continue
        trains = "trainable_model" in parameters.needs
        if baseline and parameters.needs & {"trainable_model", "logits"}:
            continue
        base = spec.reference_of(name) if two else None
        named = (wanted.partition("/") for wanted in analysis.tasks)
        labels = [label for in_corpus, _, label in named if in_corpus == corpus_name]
        labels = labels if parameters.uses_labels else labels[:1]
        own = None
        if labels and parameters.wants_own_task and tuned is not None and mine.source is not None:
            own = _own(tuned.task, corpora, mine.source["source"], root)
        for label in labels:
            task = corpus.task(label)
            encoded = [spec.compute.dtype, spec.compute.on_overflow, spec.compute.on_vanished, *mine.placed]
            data = [*_digests(task, parameters.uses_labels), encoded]
            yield Cell(
                side=mine.side(name, parameters),
                run=run,
                corpus=corpus_name,
                task=label,
                task_file=str(save_task(task, root / "tasks")),
                data=digest_json(data),
                analysis=analysis.name,
                version=parameters.version,
                parameters=parameters.parameters(),
                threads=spec.compute.model_threads if trains else spec.compute.threads,
                baseline=baseline,
                cache=str(root),
                reference=reference.side(base, parameters) if base is not None and reference is not None else None,
                own=own,
            )


def _own(name: str, corpora: Mapping[str, Corpus], folder: str, root: Path) -> dict[str, str]:
    """What a cell is told of the task that its model was tuned on; folders of tuned models are named by content."""
    corpus, _, label = name.partition("/")
    task, kept = corpora[corpus].task(label), Path(folder).relative_to(root / "models")
    return {
        "task_file": str(save_task(task, root / "tasks")),
        "folder": folder,
        "data": digest_json([*_digests(task), kept.as_posix()]),
    }


def _digests(task: Task, labels: bool = True) -> list[Any]:
    """Of words of every split, and of their labels where they are read."""
    splits = task.corpus.splits
    words = {split: words_digest(sentences) for split, sentences in splits.items()}
    return [words, task.digest(splits)] if labels else [words]


def _describe_corpus(corpus: Corpus) -> dict[str, Any]:
    return {
        "name": corpus.name,
        "notes": list(corpus.notes),
        "splits": {
            split: {
                "sentences": len(s),
                "words": sum(len(x.words) for x in s),
                "digest": words_digest(s),
                "in_train": corpus.shared_with_train(split),
            }
            for split, s in corpus.splits.items()
        },
    }


def _losses(made: Made, corpus: str, representations: Mapping[str, Mapping[str, Representations]]) -> list[str]:
    """Words that the model could not be shown, or made nothing of."""
    notes = []
    model = made.name
    for split, found in next(iter(representations.values()), {}).items():
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


def _depths(spec: StudySpec, plan: Plan) -> list[str]:
    """Pairs of models that do not have the same depth."""
    notes = []
    for name in spec.models:
        reference = spec.reference_of(name)
        if reference is None:
            continue
        deep, shallow = plan.models[name][0]["layers"] - 1, plan.models[reference][0]["layers"] - 1
        if deep != shallow:
            notes.append(
                f"{name} has {deep} blocks, {reference} has {shallow}: layers are compared by number, as far as "
                "both have them"
            )
    return notes
