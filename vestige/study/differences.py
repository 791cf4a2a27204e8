"""Which cells of a run are compared with which, and by what: the tables `comparisons` and `neuron_changes`."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from vestige.analyses import find_analysis
from vestige.comparison.codes import compare_codes
from vestige.comparison.differences import Settings, compare_items, compare_subsets, control_false_discoveries
from vestige.comparison.domains import compare_domains
from vestige.comparison.edges import compare_edges
from vestige.comparison.failed import FAILED, Failed, is_failed, without_tests
from vestige.comparison.neurons import compare_selections, same_shape
from vestige.comparison.trees import compare_trees
from vestige.errors import AnalysisError
from vestige.study.cells import Cell, params_hash, read_rows, read_table
from vestige.study.spec import CorpusSpec, StudySpec


def comparisons_frame(spec: StudySpec, cells: Sequence[Cell]) -> tuple[pd.DataFrame, list[str]]:
    """Every tuned model against its reference, for every analysis and task both were run on; notes on what cannot be.

    Two models that have nothing in common on one task do not cost the comparisons of the others.
    """
    settings = Settings(**spec.compare.model_dump())
    tables, notes = [], []
    for base, tuned in _pairs(spec, cells, "items", "codes"):
        try:
            table = _compared(base, tuned, settings)
        except AnalysisError as error:
            what = f"{base.analysis} of {base.corpus}/{base.task}"
            notes.append(f"{what}: {tuned[0].model} is not compared with {base.model}: {error.problem}")
            continue
        if table is not None and len(table):
            tables.append(_identified(table, tuned[0], base.model))
    tables += _domain_tables(spec, cells, settings)
    if not tables:
        return pd.DataFrame(), notes
    table = pd.concat(tables, ignore_index=True)
    failed = is_failed(table, _failed_probes(cells))
    judged = control_false_discoveries(without_tests(table, failed), settings)
    return judged.assign(verdict=judged["verdict"].where(~failed, FAILED)), notes


def _failed_probes(cells: Sequence[Cell]) -> Iterator[Failed]:
    """Of every cell the layers whose probe failed; with several poolings, those of the one that is compared."""
    for cell in cells:
        rows = read_rows(cell)
        for number in rows.loc[(rows["metric"] == "failed_probe") & rows["subset"].isna(), "layer"]:
            yield cell.model, cell.corpus, cell.task, params_hash(cell), int(number)


def _compared(base: Cell, tuned: Sequence[Cell], settings: Settings) -> pd.DataFrame | None:
    """The differences between a reference and the runs of a tuned model; None where items tell no right from wrong."""
    if base.has("codes"):
        return compare_codes(*_split([read_table("codes", cell) for cell in (base, *tuned)]), settings)
    kind = find_analysis(base.analysis)
    stochastic = TypeAdapter(kind).validate_python(base.parameters).stochastic
    if base.analysis == "edge_probe":
        return compare_edges(*_split([read_table("sentences", cell) for cell in (base, *tuned)]), settings)
    items = [read_table("items", cell) for cell in (base, *tuned)]
    if not all("correct" in table for table in items):
        return None
    if "layer" not in items[0]:
        return compare_subsets(*_split(items), settings, stochastic=stochastic)
    parts = []
    if all((table["subset"] == "task").any() for table in items):
        parts.append(compare_items(*_split(items), settings, kind.right, stochastic=stochastic))
    if base.analysis == "structural_probe":
        parts.append(compare_trees(*_split([read_table("sentences", cell) for cell in (base, *tuned)]), settings))
    found = [part for part in parts if len(part)]
    return pd.concat(found, ignore_index=True) if found else None


def _split(tables: list[pd.DataFrame]) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    return tables[0], tables[1:]


def _domain_tables(spec: StudySpec, cells: Sequence[Cell], settings: Settings) -> Iterator[pd.DataFrame]:
    """How similar tuned models are to their references on the corpus they were tuned on and on every other."""
    for tuned_on, inside, outside in _domains(spec, cells):
        ours, others = ([read_table("similarity", cell) for cell in side] for side in (inside, outside))
        table = compare_domains(ours, others, settings)
        reference = inside[0].reference
        if table.empty or reference is None:
            continue
        here, there = inside[0], outside[0]
        other = {"other_corpus": there.corpus, "other_task": there.task, "other_params": params_hash(there)}
        for prefix, cell in (("", here), ("other_", there)):
            sampled = read_table("sampled_words", cell)
            table = table.assign(
                **{f"{prefix}sentences": sampled["sentence"].nunique(), f"{prefix}words": len(sampled)}
            )
        yield _identified(table, here, reference.model, tuned_on=tuned_on, **other)


def _domains(spec: StudySpec, cells: Sequence[Cell]) -> Iterator[tuple[str, list[Cell], list[Cell]]]:
    """What a model was tuned on, and cells of its runs: on that corpus, and on another with the same parameters."""
    for name, model in spec.models.items():
        if model.finetune is None:
            continue
        runs: dict[tuple[str, str, str], list[Cell]] = {}
        for cell in cells:
            if cell.model == name and cell.has("similarity"):
                runs.setdefault(_key(cell), []).append(cell)
        home = model.finetune.task.partition("/")[0]
        near = {corpus for corpus, _, _ in runs if _in_domain(spec, corpus, home)}
        for one, other in product(runs.values(), repeat=2):
            if one[0].corpus in near and other[0].corpus not in near and _but_split(one[0]) == _but_split(other[0]):
                yield model.finetune.task, one, other


def _but_split(cell: Cell) -> list[Any]:
    """What makes two cells comparable: a corpus may have no split of the other's name."""
    return [cell.version, {name: value for name, value in cell.parameters.items() if name != "split"}]


def _in_domain(spec: StudySpec, corpus: str, home: str) -> bool:
    """Whether a corpus is the one that a model was tuned on, or is made from the same files."""
    return corpus == home or not _sources(spec.corpora[corpus]).isdisjoint(_sources(spec.corpora[home]))


def _sources(corpus: CorpusSpec) -> set[tuple[str, str]]:
    """Where its sentences come from: the catalog, files, or a dataset of the hub and its configuration."""
    given = corpus.files.values() if isinstance(corpus.files, dict) else [corpus.name or corpus.files or []]
    names = [name for several in given for name in ([several] if isinstance(several, str) else several)]
    return {(name, str(corpus.options.get("config", ""))) for name in names}


def neuron_changes_frame(spec: StudySpec, cells: Sequence[Cell]) -> pd.DataFrame:
    """How the selected neurons of every tuned model differ from those of its reference."""
    settings = Settings(**spec.compare.model_dump())
    tables = []
    for base, tuned in _pairs(spec, cells, "neurons"):
        neurons = [read_table("neurons", cell) for cell in (base, *tuned)]
        if all(same_shape(neurons[0], other) for other in neurons[1:]):
            tables.append(_identified(compare_selections(neurons[0], neurons[1:], settings), tuned[0], base.model))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _pairs(spec: StudySpec, cells: Sequence[Cell], *tables: str) -> Iterator[tuple[Cell, list[Cell]]]:
    """Cells of references that left one of the tables, each with the cells of one tuned model's runs."""
    for name in spec.models:
        reference = spec.reference_of(name)
        for base in [
            cell for cell in cells if cell.model == reference and cell.run == 0 and any(map(cell.has, tables))
        ]:
            tuned = [cell for cell in cells if cell.model == name and _key(cell) == _key(base)]
            if tuned:
                yield base, tuned


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
