"""Which cells of a run are compared with which, and the tables `comparisons` and `neuron_changes`.

How is declared by the analyses: each of their metrics names its estimator and its margin.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from vestige.analyses import find_analysis
from vestige.analyses.base import Analysis
from vestige.analyses.metric import Metric
from vestige.analyses.schema import PLACE, PLACES, typed
from vestige.comparison.differences import Settings, compare, confirmed, control_false_discoveries
from vestige.comparison.domains import compare_domains
from vestige.comparison.selections import compare_selections, same_shape
from vestige.errors import AnalysisError
from vestige.study.spec import CorpusSpec, StudySpec
from vestige.study.steps.analyse import Cell, params_hash, read_rows, read_table
from vestige.study.steps.compare import Compare


def compared_models(
    base: Cell, tuned: Sequence[Cell], settings: Mapping[str, Any], margins: Mapping[str, float]
) -> tuple[pd.DataFrame, list[str]]:
    """The runs of a tuned model against its reference; why it cannot be, where the two have nothing in common."""
    analysis = analysis_of(tuned[0])
    metrics = [metric for metric in analysis.given if all(_left(base, cell, metric) for cell in tuned)]
    read = _reader(base, tuned)
    try:
        found = compare_declared(metrics, read, Settings(**settings), margins, stochastic=analysis.stochastic)
    except AnalysisError as error:
        return pd.DataFrame(), [error.problem]
    if len(found):
        found = found.assign(failed=_failed(found, [_failures(cell) for cell in (base, *tuned)]))
    return found, []


def comparisons_frame(spec: StudySpec, steps: Sequence[Compare]) -> tuple[pd.DataFrame, list[str]]:
    """All differences of a study with the correction for their number; notes on what could not be compared."""
    tables, notes = [], []
    for step in sorted(steps, key=lambda step: bool(step.outside)):
        one, found = step.tuned[0], step.table("comparisons")
        notes += [f"{one.what}: {one.model} is not compared with {step.reference}: {why}" for why in step.notes()]
        if found.empty:
            continue
        if not step.outside:
            tables.append(_identified(found, one, step.reference))
        elif one.reference is not None:
            there = step.outside[0]
            other = {"other_corpus": there.corpus, "other_task": there.task, "other_params": params_hash(there)}
            tuned = spec.models[one.model].finetune
            tuned_on = "" if tuned is None else tuned.task
            tables.append(_identified(found, one, one.reference.origin.model, tuned_on=tuned_on, **other))
    if not tables:
        return pd.DataFrame(), notes
    settings = Settings(**settings_of(spec))
    return control_false_discoveries(pd.concat(tables, ignore_index=True), settings), notes


def neuron_changes_frame(steps: Sequence[Compare]) -> pd.DataFrame:
    """How the selections of units of every tuned model differ from those of its reference."""
    found = [(step, step.table("neuron_changes")) for step in steps if not step.outside]
    changes = [_identified(table, step.tuned[0], step.base.model) for step, table in found if len(table)]
    return pd.concat(changes, ignore_index=True) if changes else pd.DataFrame()


Tables = tuple[pd.DataFrame, list[pd.DataFrame]]
"""Of the base, and of the tuned runs."""


def compare_declared(
    metrics: Sequence[Metric],
    read: Callable[[str], Tables],
    settings: Settings | None = None,
    margins: Mapping[str, float] | None = None,
    *,
    stochastic: bool = False,
) -> pd.DataFrame:
    """Differences of all metrics by the estimators they declare; `read` gives the tables of a name.

    A metric of which the models have no items in common is left out; it is an error if all are.
    """
    found: dict[str, pd.DataFrame] = {}
    problems = []
    for metric in metrics:
        assert metric.compared is not None and metric.margin is not None
        margin = (margins or {}).get(metric.name, metric.margin)
        tables = read(metric.compared.table)
        try:
            found[metric.name] = compare(
                metric.compared, *tables, margin, settings, stochastic=stochastic, places=PLACES
            )
        except AnalysisError as error:
            problems.append(error)
    if problems and not found:
        raise problems[0]
    for metric in metrics:
        if metric.confirmed_by and metric.name in found:
            found[metric.name] = confirmed(found[metric.name], found.get(metric.confirmed_by), PLACES)
    named = [table.assign(metric=name) for name, table in found.items()]
    if not named:
        return pd.DataFrame()
    table = pd.concat(named, ignore_index=True)
    return pd.concat([typed(table, PLACE), table.drop(columns=[c for c in PLACES if c in table])], axis=1)


def analysis_of(cell: Cell) -> Analysis:
    """The analysis of a cell with its parameters."""
    return TypeAdapter(find_analysis(cell.analysis)).validate_python(cell.parameters)


def settings_of(spec: StudySpec) -> dict[str, Any]:
    """How differences are judged, but for margins."""
    return spec.compare.model_dump(exclude={"margins"})


def _left(base: Cell, tuned: Cell, metric: Metric) -> bool:
    """Whether the cells left the table that a metric is compared by; of a contrast within one cell, the tuned's."""
    if metric.compared is None:
        return False
    needed = [tuned] if metric.compared.within else [base, tuned] if base.key != tuned.key else []
    return bool(needed) and all(cell.has(metric.compared.table) for cell in needed)


def _reader(base: Cell, tuned: Sequence[Cell]) -> Callable[[str], Tables]:
    """Reads every table once; a base that has no reference lacks those of contrasts, which are read from the others."""
    known: dict[str, Tables] = {}

    def read(name: str) -> Tables:
        if name not in known:
            runs = [read_table(name, cell) for cell in tuned]
            known[name] = read_table(name, base) if base.has(name) else runs[0], runs
        return known[name]

    return read


def _failures(cell: Cell) -> set[tuple[Any, ...]]:
    """Layer and pooling of every probe of a cell that failed."""
    names = [metric.name for metric in analysis_of(cell).given if metric.role == "failure"]
    rows = read_rows(cell)
    rows = rows[rows["metric"].isin(names) & (rows["value"] > 0)]
    return {_spot(row) for row in rows[["layer", "pooling"]].itertuples(index=False)}


def _failed(table: pd.DataFrame, failures: Sequence[set[tuple[Any, ...]]]) -> list[bool]:
    """Which differences rest on a probe that failed in one of the models."""
    known = set().union(*failures)
    return [_spot(row) in known for row in table[["layer", "pooling"]].itertuples(index=False)]


def _spot(row: Any) -> tuple[Any, ...]:
    return tuple(None if pd.isna(value) else value for value in row)


def compared_domains(
    inside: Sequence[Cell], outside: Sequence[Cell], settings: Mapping[str, Any], margins: Mapping[str, float]
) -> pd.DataFrame:
    """How similar a tuned model is to its reference on the corpus it was tuned on and on another."""
    analysis = analysis_of(inside[0])
    ours, others = ([read_table(analysis.in_domain, cell) for cell in side] for side in (inside, outside))
    given = {metric.name: metric.margin for metric in analysis.given if metric.margin} | dict(margins)
    table = compare_domains(ours, others, given, Settings(**settings))
    if table.empty:
        return table
    for prefix, cell in (("", inside[0]), ("other_", outside[0])):
        sampled = read_table("sampled_words", cell)
        counts = {f"{prefix}sentences": sampled["sentence"].nunique(), f"{prefix}items": len(sampled)}
        table = table.assign(**counts)
    return pd.concat([typed(table, PLACE), table.drop(columns=[c for c in PLACES if c in table])], axis=1)


def domains(spec: StudySpec, cells: Sequence[Cell]) -> Iterator[tuple[list[Cell], list[Cell]]]:
    """Cells of a tuned model's runs: on the corpus it was tuned on, and on another with the same parameters."""
    known = {name: find_analysis(name).in_domain for name in {cell.analysis for cell in cells}}
    for name, model in spec.models.items():
        if model.finetune is None:
            continue
        runs: dict[tuple[str, str, str], list[Cell]] = {}
        for cell in cells:
            if cell.model == name and known[cell.analysis]:
                runs.setdefault(_key(cell), []).append(cell)
        home = model.finetune.task.partition("/")[0]
        near = {corpus for corpus, _, _ in runs if _in_domain(spec, corpus, home)}
        for one, other in product(runs.values(), repeat=2):
            if one[0].corpus in near and other[0].corpus not in near and _but_split(one[0]) == _but_split(other[0]):
                yield one, other


def _but_split(cell: Cell) -> list[Any]:
    """What makes two cells comparable: a corpus may have no split of the other's name."""
    parameters = {name: value for name, value in cell.parameters.items() if name != "split"}
    return [cell.analysis, cell.version, parameters]


def _in_domain(spec: StudySpec, corpus: str, home: str) -> bool:
    """Whether a corpus is the one that a model was tuned on, or is made from the same files."""
    return corpus == home or not _sources(spec.corpora[corpus]).isdisjoint(_sources(spec.corpora[home]))


def _sources(corpus: CorpusSpec) -> set[tuple[str, str]]:
    """Where its sentences come from: the catalog, files, or a dataset of the hub and its configuration."""
    given = corpus.files.values() if isinstance(corpus.files, dict) else [corpus.name or corpus.files or []]
    names = [name for several in given for name in ([several] if isinstance(several, str) else several)]
    return {(name, str(corpus.options.get("config", ""))) for name in names}


def compared_selections(base: Cell, tuned: Sequence[Cell], settings: Mapping[str, Any]) -> pd.DataFrame:
    """How the selections of units of a tuned model differ from those of its reference; empty without any."""
    ranked = find_analysis(base.analysis).selection
    if not ranked:
        return pd.DataFrame()
    tables = [read_table(ranked, cell) for cell in (base, *tuned)]
    if not all(same_shape(tables[0], other) for other in tables[1:]):
        return pd.DataFrame()
    return compare_selections(tables[0], tables[1:], Settings(**settings))


def pairs(spec: StudySpec, cells: Sequence[Cell]) -> Iterator[tuple[Cell, list[Cell]]]:
    """Cells of references, each with the cells of one tuned model's runs; or, of an analysis that measured both models
    in these, the first of them.
    """
    for name in spec.models:
        reference = spec.reference_of(name)
        runs: dict[tuple[str, ...], list[Cell]] = {}
        for cell in cells:
            if cell.model == name and reference is not None:
                runs.setdefault((cell.analysis, *_key(cell)), []).append(cell)
        bases = {(cell.analysis, *_key(cell)): cell for cell in cells if cell.model == reference and cell.run == 0}
        for key, tuned in runs.items():
            if key in bases:
                yield bases[key], tuned
            elif _contrasts(tuned[0]):
                yield tuned[0], tuned


@lru_cache
def _has_contrasts(analysis: str, parameters: str) -> bool:
    given = TypeAdapter(find_analysis(analysis)).validate_python(json.loads(parameters)).given
    return any(metric.compared is not None and metric.compared.within for metric in given)


def _contrasts(cell: Cell) -> bool:
    """Whether the cell itself has both scores of some metric."""
    return _has_contrasts(cell.analysis, json.dumps(cell.parameters))


def _key(cell: Cell) -> tuple[str, str, str]:
    return cell.corpus, cell.task, params_hash(cell)


def _identified(table: pd.DataFrame, cell: Cell, reference: str, **more: object) -> pd.DataFrame:
    """The table with the columns that say what was compared in front."""
    identity = {
        "model": cell.model,
        "reference": reference,
        "analysis": cell.analysis,
        "params": params_hash(cell),
        "corpus": cell.corpus,
        "task": cell.task,
        **more,
    }
    for position, (name, value) in enumerate(identity.items()):
        table.insert(position, name, value)
    return table
