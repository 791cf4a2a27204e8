"""`Study`: run a spec, resume it, write its tables."""

import logging
import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vestige.study.engines import local
from vestige.study.failures import Failure
from vestige.study.finished import StudyRun
from vestige.study.folders import default_folder, refuse_others
from vestige.study.making import Given
from vestige.study.plan import Plan, make_plan
from vestige.study.references import check_references
from vestige.study.results import write_tables
from vestige.study.spec import StudySpec, make_spec, read_spec
from vestige.version import __version__

if TYPE_CHECKING:
    pass

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
        return f"Study({self.spec.study!r}: {analyses} of {models} on {corpora}; in {self.folder})"

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

    def run(self, jobs: int = 1) -> "StudyRun":
        """Compute what is not there yet and write the tables; killing it loses only running cells.

        A cell that fails costs no other: the tables and the report are made from what finished, and `failed` of the
        run names the rest. Only where every cell fails, the first error is raised. A folder that holds the results
        of another study, or of other weights or words, is left alone unless `overwrite` is set.
        """
        self._refuse_others({"spec": self.spec.as_json()})
        unpaired = check_references(self.spec)
        plan = make_plan(self.spec, self.given, self.cache)
        plan.unpaired += unpaired
        self._refuse_others({"models": plan.models, "corpora": plan.corpora})
        return self.write(plan, local.run(plan.cells, jobs, plan.in_memory))

    def write(self, plan: Plan, failures: Sequence[Failure] = ()) -> "StudyRun":
        """Write the tables of a plan whose cells are done, but for those that failed."""
        by_key = {failure.cell.key: failure for failure in failures}
        failed = [replace(by_key[cell.key], cell=cell) for cell in plan.cells if cell.key in by_key]
        finished = replace(plan, cells=[cell for cell in plan.cells if cell.key not in by_key])
        if failed and not finished.cells:
            raise failed[0].error
        for failure in failed:
            _log.warning("%s", failure.error)
        return StudyRun(write_tables(self.folder, self.spec, finished, self._lock(plan, failed)))

    def _refuse_others(self, lock: dict[str, Any]) -> None:
        if not self.overwrite:
            refuse_others(self.folder, lock)

    def _lock(self, plan: Plan, failed: Sequence[Failure]) -> dict[str, Any]:
        return {
            "vestige": __version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "libraries": {name: _version(name) for name in _LIBRARIES},
            "spec": self.spec.as_json(),
            "models": plan.models,
            "corpora": plan.corpora,
            "notes": plan.notes,
            "unpaired": plan.unpaired,
            "tokens": plan.tokens,
            "failed": [failure.as_json() for failure in failed],
        }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
