"""`vestige reproduce --plan`: the steps of a paper's study, and what it costs in the paper's own setting."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vestige.analyses.base import Analysis
from vestige.corpus.catalog import find_entry
from vestige.papers.cost import as_plain, cost_lines, count
from vestige.papers.reproduce import study_of
from vestige.study.estimate import estimate, plan_lines
from vestige.study.run import Study


def lines(
    names: Sequence[str],
    scale: str,
    models: Sequence[str],
    out: Path | None,
    how: Mapping[str, Any],
    as_json: bool,
    asked: Mapping[str, Any],
) -> Iterator[str]:
    """For every study of a paper: its cost at the full scale, and its steps, where its corpora are on this machine."""
    plain = {}
    for name in names:
        study = study_of(name, scale, models, out if out is None or len(names) == 1 else out / name, **asked)
        work = count(study.spec) if scale == "full" and study.spec.limit is None else None
        lacking = missing(study)
        if as_json:
            steps = None if lacking else estimate(study, study.settings(**how))
            plain[name] = {"cost": work and as_plain(work), "missing": lacking, "plan": steps}
            continue
        if work is not None:
            yield from cost_lines(work, study.spec)
        if lacking:
            many = f"{len(lacking)} corpora are not on this machine"
            yield f"{study.spec.study}: {many}, so that its steps have no names yet:"
            yield from (f"  {name}: {why}" for name, why in lacking.items())
        else:
            yield from plan_lines(study, study.settings(**how))
    if as_json:
        yield json.dumps(plain, indent=1)


def missing(study: Study) -> dict[str, str]:
    """Corpora of the catalog that are not here as far as the study reads them, with where they are to be looked up."""
    found = {}
    for name, corpus in study.spec.corpora.items():
        entry = find_entry(corpus.name) if corpus.name else None
        if entry is None or entry.builtin:
            continue
        root = entry.root()
        whole = isinstance(entry.files, str)
        if root is None or not (whole or _wanted(study, name) & {*entry.files} <= {*entry.present(root)}):
            found[name] = f"{entry.title}; `vestige ls corpora {entry.name}` says where it is had"
    return found


def _wanted(study: Study, corpus: str) -> set[str]:
    """The splits of a corpus that the study reads."""
    tuned = [model.finetune.task for model in study.spec.models.values() if model.finetune]
    found = {"train", "dev"} if any(task.partition("/")[0] == corpus for task in tuned) else set()
    for analysis in study.spec.analyses:
        if any(task.partition("/")[0] == corpus for task in analysis.tasks):
            found |= (
                {"train", "dev"} if _trains(analysis.parameters) else {getattr(analysis.parameters, "split", "test")}
            )
    return found


def _trains(analysis: Analysis) -> bool:
    """Whether a probe or a model is trained on the corpus."""
    probes = "hidden_states" in analysis.needs and analysis.splits is None
    return probes or "trainable_model" in analysis.needs
