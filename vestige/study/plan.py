"""From a spec to a graph of steps with all their names; nothing is computed.

Models are named by their files or by their making, corpora by their words, so that every step knows what goes into
it, and thereby its own name, before any of it exists.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vestige.analyses.base import Analysis
from vestige.cache import cache_folder
from vestige.corpus.store import save_task, task_path
from vestige.corpus.types import Corpus, Task
from vestige.digest import digest_json
from vestige.models.encoders.encoder import placed
from vestige.models.files.naming import libraries
from vestige.representations.extract import kept_in
from vestige.representations.pool import SENTENCE_POOLINGS
from vestige.study.corpora import Given, describe_corpus, read_corpora
from vestige.study.differences import domains, pairs, settings_of
from vestige.study.heads import heads_digest
from vestige.study.naming import Named, name_models
from vestige.study.sources import check_sources
from vestige.study.spec import AnalysisSpec, StudySpec
from vestige.study.steps.analyse import Cell, Side, cell_key, needs_model
from vestige.study.steps.compare import Compare, compare_step
from vestige.study.steps.extract import Extract
from vestige.study.steps.load import Load
from vestige.study.steps.step import Step
from vestige.study.without_corpus import NOT_OF_TWINS, cells_without_corpus


@dataclass
class Plan:
    """The graph of a study, and what is known of its models and corpora before it runs."""

    named: Named = field(default_factory=Named)
    loads: dict[tuple[str, int], Load] = field(default_factory=dict)
    """By model and run; none where no analysis reads a corpus: these are content with weights as they lie in files."""
    extracts: dict[tuple[str, int, str], Extract] = field(default_factory=dict)
    """By model, run and corpus."""
    cells: list[Cell] = field(default_factory=list)
    compares: list[Compare] = field(default_factory=list)
    corpora: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    """Which steps read from files of the cache."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the results must know."""
    unpaired: list[str] = field(default_factory=list)
    """Lines on models that are compared with nothing."""

    @property
    def steps(self) -> dict[str, Step]:
        """Every step once, by key; a step comes after those it reads."""
        every: Iterable[Step] = (
            *self.named.tunes.values(),
            *self.loads.values(),
            *self.extracts.values(),
            *self.cells,
            *self.compares,
        )
        found: dict[str, Step] = {}
        for step in every:
            found.setdefault(step.key, step)
        return found

    def save_tasks(self, root: Path) -> None:
        """Write the files that steps read words and labels from."""
        for task in self.tasks:
            save_task(task, root / "tasks")


def make_plan(spec: StudySpec, given: Given, cache: str | Path | None = None) -> Plan:
    """Read the corpora, hash the files of the models, and name every step."""
    root = cache_folder(cache)
    corpora = read_corpora(spec, given)
    check_sources(spec, given)
    named = name_models(spec, corpora, given, root)
    plan = Plan(named, corpora={name: describe_corpus(corpus) for name, corpus in corpora.items()})
    maker = _Maker(spec, corpora, root, plan)
    for place in named.origins if any(analysis.parameters.levels for analysis in spec.analyses) else ():
        maker.load(place)
    for name, run in named.origins:
        for corpus in _corpora_of(spec, name):
            maker.extract(name, run, corpus)
    for name, run, corpus in plan.extracts:
        plan.cells += maker.cells(name, run, corpus)
    plan.cells += cells_without_corpus(spec, named, root)
    plan.compares += _compares(spec, plan.cells, str(root))
    plan.notes += [note for analysis in spec.analyses for note in _run_once(analysis)]
    used = {step.task_file for step in plan.steps.values() if hasattr(step, "task_file")}
    used |= {cell.own["task_file"] for cell in plan.cells if cell.own is not None}
    used.discard("")  # of cells that read no corpus
    every = {str(task_path(task, root / "tasks")): task for task in maker.tasks.values()}
    plan.tasks = [every[path] for path in sorted(used)]
    return plan


def _compares(spec: StudySpec, cells: list[Cell], cache: str) -> Iterator[Compare]:
    settings, margins = settings_of(spec), spec.compare.margins
    for base, tuned in pairs(spec, cells):
        yield compare_step(cache, base, tuned, (), settings, margins)
    for inside, outside in domains(spec, cells):
        yield compare_step(cache, inside[0], inside, outside, settings, margins)


@dataclass
class _Maker:
    """Makes the steps of models and analyses."""

    spec: StudySpec
    corpora: Mapping[str, Corpus]
    root: Path
    plan: Plan
    tasks: dict[str, Task] = field(default_factory=dict)
    rows: dict[tuple[str, ...], int] = field(default_factory=dict)
    """By corpus, splits and pooling, how many vectors there are at most."""

    def __post_init__(self) -> None:
        wanted = [task for analysis in self.spec.analyses for task in analysis.tasks]
        wanted += [model.finetune.task for model in self.spec.models.values() if model.finetune]
        for name in wanted:
            corpus, _, label = name.partition("/")
            self.tasks.setdefault(name, self.corpora[corpus].task(label))

    def load(self, place: tuple[str, int]) -> None:
        origin = self.plan.named.origins[place]
        inputs = [step.key for step in self._made_by(place)]
        self.plan.loads[place] = Load(
            key=origin.key,
            cache=str(self.root),
            inputs=tuple([*inputs, origin.follows] if origin.follows else inputs),
            threads=self.spec.compute.model_threads,
            device=self.spec.compute.device,
            stays_here=origin.source is None,
            origin=origin,
        )

    def _made_by(self, place: tuple[str, int]) -> list[Step]:
        """The step that tunes a model, where the study makes it."""
        return [self.plan.named.tunes[place]] if place in self.plan.named.tunes else []

    def extract(self, name: str, run: int, corpus: str) -> None:
        compute, origin = self.spec.compute, self.plan.named.origins[name, run]
        how: dict[str, str] = {
            "dtype": compute.dtype,
            "on_overflow": compute.on_overflow,
            "on_vanished": compute.on_vanished,
        }
        read, poolings = self.corpora[corpus], _poolings(self.spec, corpus, name)
        splits = _splits(self.spec, corpus, read) if poolings else []
        placed_how = [*how.values(), *self._placed(name)]
        folders = {
            pooling: {
                split: str(kept_in(origin.key, read.words_digests[split], placed_how, self.root) / pooling)
                for split in splits
            }
            for pooling in poolings
        }
        load = self.plan.loads[name, run]
        task = next(task for task in self.tasks.values() if task.corpus is read)
        content = [origin.key, read.words_digests, sorted(folders), sorted(splits), placed_how, compute.on_unknown]
        self.plan.extracts[name, run, corpus] = Extract(
            key=digest_json(["extract", *content, libraries()]),
            cache=str(self.root),
            inputs=(load.key, *load.inputs),
            threads=compute.model_threads,
            device=compute.device,
            stays_here=origin.source is None,
            origin=origin,
            corpus=corpus,
            task_file=str(task_path(task, self.root / "tasks")),
            representations=folders,
            how=how,
            on_unknown=compute.on_unknown,
            rows={pooling: self._most_rows(corpus, splits, pooling) for pooling in poolings},
        )

    def _most_rows(self, corpus: str, splits: list[str], pooling: str) -> int:
        """As the function of that name; counted once for all models."""
        place = (corpus, *splits, pooling)
        if place not in self.rows:
            self.rows[place] = _most_rows(self.corpora[corpus], splits, pooling)
        return self.rows[place]

    def _placed(self, name: str) -> list[str]:
        """What the kind of device adds to the name of a result: nothing on a CPU; numbers of others differ slightly."""
        if name in self.plan.named.memory:
            return placed(self.plan.named.memory[name])
        kind = self.spec.compute.device.partition(":")[0]
        return [] if kind == "cpu" else [kind]

    def cells(self, name: str, run: int, corpus: str) -> Iterator[Cell]:
        spec, mine = self.spec, self.plan.extracts[name, run, corpus]
        reference = self.plan.extracts.get((spec.reference_of(name) or "", 0, corpus))
        for analysis in spec.analyses:
            parameters = analysis.parameters
            two, baseline = parameters.models == 2, spec.models[name].random_twin_of is not None
            if not analysis.reads(name) or (two and reference is None and not parameters.alone):
                continue
            if baseline and parameters.needs & NOT_OF_TWINS:
                continue
            named = (wanted.partition("/") for wanted in analysis.tasks)
            labels = [label for in_corpus, _, label in named if in_corpus == corpus]
            for label in labels if parameters.uses_labels else labels[:1]:
                yield self._cell(analysis, label, mine, reference if two else None, baseline)

    def _cell(
        self, analysis: AnalysisSpec, label: str, mine: Extract, reference: Extract | None, baseline: bool
    ) -> Cell:
        spec, parameters, corpus = self.spec, analysis.parameters, self.corpora[mine.corpus]
        task, place = corpus.task(label), (mine.origin.model, mine.origin.run)
        trains = "trainable_model" in parameters.needs
        threads = spec.compute.model_threads if trains else spec.compute.threads
        own = self._own(place) if parameters.wants_own_task else None
        side = _side(mine, parameters)
        other = None if reference is None else _side(reference, parameters)
        refusing = (
            [] if mine.on_unknown == "error" else [mine.on_unknown]
        )  # who refuses takes no results of who did not
        encoded = [*mine.how.values(), *self._placed(mine.origin.model), *refusing]
        data = digest_json([task.digests if parameters.uses_labels else corpus.words_digests, encoded])
        asked = parameters.parameters()
        content = [data, analysis.name, parameters.version, asked, threads, baseline]
        reads = [each for each in (mine, reference) if each is not None]
        loads = needs_model(type(parameters)) or trains or own is not None
        return Cell(
            key=cell_key(side, other, own, *content, libraries()),
            cache=str(self.root),
            inputs=tuple(dict.fromkeys(key for each in reads for key in (each.key, *(each.inputs if loads else ())))),
            threads=threads,
            device=spec.compute.device if loads else "cpu",
            stays_here=needs_model(type(parameters)) and any(each.origin.source is None for each in reads),
            side=side,
            corpus=mine.corpus,
            task=label,
            task_file=str(task_path(task, self.root / "tasks")),
            data=data,
            analysis=analysis.name,
            version=parameters.version,
            parameters=asked,
            baseline=baseline,
            reference=other,
            own=own,
        )

    def _own(self, place: tuple[str, int]) -> dict[str, str] | None:
        """What a cell is told of the task that its model was tuned on."""
        tune = self.plan.named.tunes.get(place)
        if tune is None:
            return None
        task, step = self.tasks[tune.task], self.spec.models[place[0]].step
        folder = tune.folder if step is None else tune.folder / f"checkpoint-{step}"
        return {
            "task_file": str(task_path(task, self.root / "tasks")),
            "folder": str(folder),
            "data": digest_json([task.digests, tune.key, step]),
        }


_MOST_PIECES = 3
"""Tokens of a word, on average, at most: what is kept of pieces is estimated by it before they are counted."""


def _most_rows(corpus: Corpus, splits: Iterable[str], pooling: str) -> int:
    """How many vectors a pooling may make of splits."""
    if pooling in SENTENCE_POOLINGS:
        return sum(len(corpus[split]) for split in splits)
    words = sum(len(sentence.all_words) for split in splits for sentence in corpus[split])
    return words * (_MOST_PIECES if pooling == "pieces" else 1)


def _side(read: Extract, analysis: Analysis) -> Side:
    """A model as a cell of this analysis needs it."""
    poolings = analysis.poolings if "hidden_states" in analysis.needs else ()
    head = heads_digest(getattr(analysis, "head_file", None)) if "logits" in analysis.needs else None
    return Side(read.origin, {pooling: read.representations[pooling] for pooling in poolings}, head)


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
