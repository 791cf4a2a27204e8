"""`Study`: plan a spec, run it, resume it, write its tables."""

import logging
import platform
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vestige.cache import cache_folder, explaining_storage
from vestige.errors import DamageError, SpecError
from vestige.study.board import Board
from vestige.study.claims import claimed
from vestige.study.corpora import Given
from vestige.study.driver import REPAIRS, Driver
from vestige.study.engines.inline import Inline
from vestige.study.engines.settings import EngineSpec, make_engine
from vestige.study.estimate import costs, keep_timings
from vestige.study.facts import collect_facts
from vestige.study.failures import Failure
from vestige.study.finished import StudyRun
from vestige.study.folders import default_folder, refuse_others
from vestige.study.housekeeping import in_use
from vestige.study.plan import Plan, make_plan
from vestige.study.record import Record
from vestige.study.references import check_references
from vestige.study.results import write_tables
from vestige.study.screen import Screen
from vestige.study.space import Space
from vestige.study.spec import StudySpec, make_spec, read_spec
from vestige.study.status import KINDS, Status, owner
from vestige.version import __version__

_log = logging.getLogger(__name__)
_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "pandas", "pyarrow")


class Study:
    """A study: what is asked (`spec`), where its results are (`folder`)."""

    def __init__(
        self,
        spec: StudySpec,
        folder: str | Path | None = None,
        *,
        given: Given | None = None,
        cache: str | Path | None = None,
        overwrite: bool = False,
    ) -> None:
        self.spec = spec
        self.given = given or Given()
        self.folder = Path(folder) if folder is not None else default_folder(spec, self.given)
        self.cache = cache
        self.overwrite = overwrite

    def __repr__(self) -> str:
        """What is asked, and where the answer will be."""
        analyses = ", ".join(dict.fromkeys(analysis.name for analysis in self.spec.analyses))
        models, corpora = ", ".join(self.spec.models), ", ".join(self.spec.corpora)
        read = f" on {corpora}" if corpora else ""
        return f"Study({self.spec.study!r}: {analyses} of {models}{read}; in {self.folder})"

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        folder: str | Path | None = None,
        *,
        cache: str | Path | None = None,
        overwrite: bool = False,
        device: str | None = None,
        **changes: Any,
    ) -> "Study":
        """The study a YAML file describes; `device` and further keywords replace what the file says."""
        spec = read_spec(path, **changes)
        if device is not None:
            spec = spec.model_copy(update={"compute": spec.compute.model_copy(update={"device": device})})
        return cls(spec, folder, cache=cache, overwrite=overwrite)

    @classmethod
    def from_dict(cls, raw: dict[str, Any], folder: str | Path | None = None, **options: Any) -> "Study":
        """The study a dictionary describes, written like a study file."""
        return cls(make_spec(raw), folder, **options)

    def plan(self) -> Plan:
        """Every step with its name; nothing is computed."""
        unpaired = check_references(self.spec)
        plan = make_plan(self.spec, self.given, self.cache)
        plan.unpaired += unpaired
        return plan

    def run(self, jobs: int | None = None, **engine: Any) -> "StudyRun":
        """Compute what is not there yet and write the tables; killing it loses only running steps.

        Keywords are settings of the engine (`engine:` in a study file), such as `name="ray"`. A step that fails costs
        only what depends on it: the tables and the report are made from what finished, and `failed` of the run names
        the rest. Only where every analysis fails, the first error is raised. A folder that holds the results of
        another study, or of other weights or words, is left alone unless `overwrite` is set.
        """
        self._refuse_others({"spec": self.spec.as_json()})
        plan = self.plan()
        identity = {name: [{"key": plan.named.origins[name, run].key} for run in runs] for name, runs in _runs(plan)}
        self._refuse_others({"models": identity, "corpora": plan.corpora})
        settings = self.settings(jobs=jobs, **engine)
        for _ in range(REPAIRS):
            with suppress(DamageError):  # met by `write`: it is logged, and made again now
                return self.write(plan, self.drive(plan, settings))
        return self.write(plan, self.drive(plan, settings))

    def settings(self, **asked: Any) -> EngineSpec:
        """Settings of the engine: those of the study file, and what was asked for beside it."""
        asked = {key: value for key, value in asked.items() if value is not None}
        try:
            return EngineSpec.model_validate({**self.spec.engine.model_dump(exclude_unset=True), **asked})
        except ValueError as error:
            raise SpecError(f"settings of the engine: {error}", fix="see engine: in the documentation") from None

    def drive(self, plan: Plan, settings: EngineSpec, wanted: Collection[str] | None = None) -> dict[str, Failure]:
        """Run the steps of a plan (those `wanted`, and what they read); by key, why some have no result."""
        root = cache_folder(self.cache)
        board = Board(plan.steps, wanted)
        if not board.left:
            return {}
        if settings.runs_here:  # elsewhere the machines that run the steps say so
            from vestige.models.files.load import check_device

            check_device(self.spec.compute.device)
        with explaining_storage(root / "tasks"):
            root.mkdir(parents=True, exist_ok=True)
            plan.save_tasks(root)
        status = Status()
        record = Record(self.folder / "log", [status.add])
        counts = board.counts()
        total = {kind: states.total() for kind, states in counts.items()}
        cached = {kind: states["done"] for kind, states in counts.items()}
        about = {"study": self.spec.study, "owner": owner(), "jobs": settings.jobs or 1}
        record.note("planned", total=total, cached=cached, **about)
        memory = plan.named.memory
        needs = {key: cost.memory for key, cost in costs(plan).items()}
        engine = make_engine(settings, record, memory, needs)
        space = Space.of(board.steps, settings.disk)
        driver = Driver(
            board,
            engine,
            Inline(memory),
            record,
            space,
            Screen(record, status, shown=engine.name != "inline"),
            restore=lambda: plan.save_tasks(root),
        )
        outcome = "stopped"
        try:
            with in_use(root, self.folder.name, plan), claimed(record.sign()):
                failures = driver.run()
            outcome = f"{len({f.step.key for f in failures.values()})} steps failed" if failures else "all done"
        finally:
            record.note("ended", outcome=outcome)
            keep_timings(plan, driver.took, root)
        return failures

    def write(self, plan: Plan, failures: Mapping[str, Failure] | None = None) -> "StudyRun":
        """Write the tables of a plan whose steps are done, but for those that failed."""
        failures = failures or {}
        lost = [(cell, failures[cell.key]) for cell in plan.cells if cell.key in failures]
        compares = [step for step in plan.compares if step.key in failures]
        unmade = [(step.tuned[0], failures[step.key]) for step in compares if failures[step.key].step.key == step.key]
        finished = replace(
            plan,
            cells=[cell for cell in plan.cells if cell.key not in failures],
            compares=[step for step in plan.compares if step.key not in failures],
        )
        if lost and not finished.cells:
            raise lost[0][1].error
        for failure in {id(failure): failure for failure in failures.values()}.values():
            _log.warning("%s", failure.error)
        return StudyRun(write_tables(self.folder, self.spec, finished, self._lock(plan, [*lost, *unmade], failures)))

    def _refuse_others(self, lock: dict[str, Any]) -> None:
        if not self.overwrite:
            refuse_others(self.folder, lock)

    def _lock(self, plan: Plan, lost: list[Any], failed: Collection[str]) -> dict[str, Any]:
        facts = collect_facts(self.spec, plan, failed)
        return {
            "vestige": __version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "libraries": {name: _version(name) for name in _LIBRARIES},
            "spec": self.spec.as_json(),
            "models": facts.models,
            "corpora": plan.corpora,
            "notes": [*plan.notes, *facts.notes],
            "unpaired": plan.unpaired,
            "tokens": facts.tokens,
            "failed": [failure.lost(cell) for cell, failure in lost],
        }


_ORDER = ("tune", "load", "extract", "analyse", "compare")


def steps_until(plan: Plan, kind: str) -> list[str]:
    """Keys of all steps up to a kind, in the order models are tuned, loaded, read, analysed and compared."""
    if kind not in KINDS:
        raise SpecError(f"no kind of step is called {kind!r}", fix=f"choose from {', '.join(_ORDER)}")
    return [key for key, step in plan.steps.items() if _ORDER.index(step.kind) <= _ORDER.index(kind)]


def steps_of(plan: Plan, names: Collection[str]) -> list[str]:
    """Keys of all steps that have to do with one of these models, corpora or analyses."""
    known = {name: {key for key, step in plan.steps.items() if name in step.about} for name in names}
    for name, found in known.items():
        if not found:
            every = sorted({word for step in plan.steps.values() for word in step.about})
            raise SpecError(f"no step has to do with {name!r}", fix=f"choose from {', '.join(every)}")
    return [key for key in plan.steps if any(key in found for found in known.values())]


def some_steps(
    study: Study, until: str | None, only: Collection[str], settings: EngineSpec
) -> tuple[str, dict[str, Failure]]:
    """Run a part of a study, whose tables are not written; what was done in words, and what failed."""
    plan = study.plan()
    wanted = set(steps_until(plan, until) if until else plan.steps)
    wanted &= set(steps_of(plan, only)) if only else wanted
    failures = study.drive(plan, settings, wanted)
    for failure in {id(failure): failure for failure in failures.values()}.values():
        _log.warning("%s", failure.error)
    left = len(plan.steps) - sum(step.done for step in plan.steps.values())
    return f"done; {left} of {len(plan.steps)} steps of the study are left", failures


def _runs(plan: Plan) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for name, run in plan.named.origins:
        found.setdefault(name, []).append(run)
    return list(found.items())


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
