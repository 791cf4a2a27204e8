"""One base model of a run and what was made from it, under the names that the template of the study has for them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from vestige.papers.lookup import pick
from vestige.papers.template import BASE, label_of
from vestige.study.families import family_of
from vestige.study.finished import StudyRun

STAND_INS = ("opinions", "acceptability", "treebank")
"""Built-in corpora: what is tuned on one of them is called by it and not by the paper's task."""
TITLES = {"minilm": "MiniLM"}


@dataclass(frozen=True, eq=False)
class Observed:
    """The tables of a run as far as they are about one base model: `base` and the roles of the template."""

    title: str
    source: str
    """What was loaded: a hub id, a folder, or `minilm`."""
    results: pd.DataFrame
    comparisons: pd.DataFrame
    cells: pd.DataFrame
    lock: Mapping[str, Any]
    """Of the run; `models` and `spec.models` have this base model's only, by role."""
    items: Callable[[str], pd.DataFrame]
    """The scored words or sentences of a cell."""

    def has(self, *analyses: str) -> bool:
        """Whether each of them left results."""
        return set(analyses) <= set(self.results["analysis"])

    def tuned(self, titles: Mapping[str, str]) -> dict[str, str]:
        """The tuned models of the run by role, with the title of the task; a built-in corpus is called by its name."""
        found = {}
        for role, title in titles.items():
            model = self.lock["spec"]["models"].get(role)
            if model is not None:
                corpus = model["finetune"]["task"].partition("/")[0]
                found[role] = corpus if corpus in STAND_INS[:2] else title
        return found

    def places(self, candidates: Mapping[str, Sequence[str]], analysis: str) -> dict[str, tuple[str, str]]:
        """By property, the first of its candidates (corpus/task) that an analysis was run on; none: left out."""
        rows = pick(self.results, analysis=analysis)[["corpus", "task"]].drop_duplicates()
        there = {f"{row.corpus}/{row.task}": (str(row.corpus), str(row.task)) for row in rows.itertuples()}
        found = {name: next((there[one] for one in some if one in there), None) for name, some in candidates.items()}
        return {name: place for name, place in found.items() if place is not None}

    def settings(self, analysis: str, **values: object) -> list[str]:
        """The hashes of the parameters of an analysis that have these values."""
        cells = pick(self.cells, analysis=analysis)
        fits = [all(json.loads(said)[name] == value for name, value in values.items()) for said in cells["parameters"]]
        return list(dict.fromkeys(cells["params"][fits]))

    def sizes(self, corpus: str) -> dict[str, int]:
        """Sentences of every split of a corpus."""
        return {split: about["sentences"] for split, about in self.lock["corpora"][corpus]["splits"].items()}

    @property
    def layers(self) -> int:
        """How many layers it has, the embeddings included."""
        return int(self.lock["models"][BASE][0]["layers"])


def observe(run: StudyRun) -> list[Observed]:
    """The base models of a run, in the order of the study."""
    spec = run.tables.lock["spec"]["models"]
    origin = {name: _origin(name, spec) for name in spec}
    bases = list(dict.fromkeys(origin.values()))
    return [_of(run, base, {name: _role(name, base) for name in spec if origin[name] == base}) for base in bases]


def _of(run: StudyRun, base: str, roles: Mapping[str, str]) -> Observed:
    lock = run.tables.lock
    spec = {**lock["spec"], "models": {role: lock["spec"]["models"][name] for name, role in roles.items()}}
    source = str(lock["spec"]["models"][base]["load"])
    return Observed(
        title=TITLES.get(source, label_of(source)),
        source=source,
        results=_renamed(run.results, roles),
        comparisons=_renamed(run.comparisons, roles),
        cells=_renamed(run.tables.cells, roles),
        lock={
            **lock,
            "spec": spec,
            "models": {role: lock["models"][name] for name, role in roles.items() if name in lock["models"]},
        },
        items=run.tables.items,
    )


def _renamed(table: pd.DataFrame, roles: Mapping[str, str]) -> pd.DataFrame:
    """The rows of some models, under other names."""
    if "model" not in table:
        return table
    mine = table[table["model"].isin(roles)].copy()
    for column in ("model", "reference"):
        if column in mine:
            mine[column] = mine[column].map(lambda name: roles.get(name, name))
    return mine


def _origin(name: str, spec: Mapping[str, Any]) -> str:
    """The loaded model that a model is made from, however indirectly."""
    model = spec[name]
    made_from = model["random_twin_of"] or model["adapter_off"] or (model["finetune"] or {}).get("of")
    return _origin(made_from or model["reference"], spec) if made_from or model["reference"] else name


def _role(name: str, base: str) -> str:
    """What the template calls it: `sst2` of both `sst2` and `bert-base-cased sst2`."""
    if name == base:
        return BASE
    own = f"{family_of(base)} "
    return name.removeprefix(own)
