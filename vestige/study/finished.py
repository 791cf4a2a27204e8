"""`StudyRun`: a finished run, its tables and its report."""

from collections.abc import Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from vestige.errors import VestigeError
from vestige.study.tables import Tables, find_run

if TYPE_CHECKING:
    import altair as alt

    from vestige.report.findings import Findings
    from vestige.report.reading import Reading
    from vestige.report.types import Page


class StudyRun:
    """A finished run: its tables and its report."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def __repr__(self) -> str:
        """Study, models, analyses, what failed, and where it lies; of a folder that cannot be read, the folder."""
        try:
            lock = self.tables.lock
            spec, failed = lock["spec"], len(lock.get("failed", []))
            analyses = ", ".join(dict.fromkeys(analysis["name"] for analysis in spec["analyses"]))
            models = ", ".join(spec["models"])
            problems = f"; {failed} failed" if failed else ""
            read = f" on {', '.join(spec['corpora'])}" if spec["corpora"] else ""
            return f"StudyRun({spec['study']!r}: {analyses} of {models}{read}{problems}; in {self.tables.folder})"
        except (VestigeError, LookupError, TypeError):
            return f"StudyRun(nothing that can be read in {self.tables.folder})"

    def _repr_html_(self) -> str:
        """In a notebook: what was compared and the findings that open the report; no script, no style, no id."""
        from vestige.report.notebook import summary

        try:
            with self.tables.explaining_age():
                return summary(self.reading, self._pages, str(self.tables.folder), len(self.failed))
        except VestigeError:
            return f"<p>{escape(repr(self))}</p>"

    @classmethod
    def open(cls, folder: str | Path) -> "StudyRun":
        """The run that a folder holds; `runs/NAME` will do where a study of that name has left one run."""
        return cls(Tables(find_run(Path(folder))))

    @property
    def results(self) -> pd.DataFrame:
        """Every number, one a row."""
        return self.tables.results

    @property
    def comparisons(self) -> pd.DataFrame:
        """Every difference, one layer a row."""
        return self.tables.comparisons

    @property
    def failed(self) -> list[dict[str, Any]]:
        """What did not finish: analysis, corpus, task, model, run, problem and fix of each."""
        return self.tables.lock.get("failed", [])

    @cached_property
    def findings(self) -> "Findings":
        """What the run shows, in words, the heaviest first; its `frame` has the intervals."""
        from vestige.report.findings import Findings
        from vestige.report.front import all_findings

        with self.tables.explaining_age():
            return Findings(all_findings([page for _, page in self._pages]))

    @cached_property
    def _pages(self) -> list[tuple[str, "Page"]]:
        from vestige.report.front import read_pages

        return read_pages(self.reading)

    def table(
        self, analysis: str, metric: str = "", *, task: str = "", model: str = "", changes: bool = False
    ) -> pd.DataFrame:
        """A metric with its intervals: a row for every model and layer (or other place), means over seeds and runs.

        Without a metric, the first that the analysis reports. `changes`: differences from the reference, with
        interval, q and verdict, instead of values. `task` is a task or corpus/task.
        """
        from vestige.report.metric_tables import differences_table, values_table

        with self.tables.explaining_age():
            return (differences_table if changes else values_table)(self.reading, analysis, metric, task, model)

    def plot(
        self,
        analysis: str,
        metric: str = "",
        *,
        task: str = "",
        model: str = "",
        changes: bool = False,
        width: int = 420,
    ) -> "alt.LayerChart | alt.ConcatChart":
        """The same as an Altair chart, drawn as in the report; several tasks stand side by side."""
        from vestige.report.metric_tables import plots

        with self.tables.explaining_age():
            return plots(self.reading, analysis, metric, task, model, changes, width)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the report, one HTML file that needs no network."""
        from vestige.report.html import write_report

        target = Path(path) if path is not None else self.tables.folder / "report.html"
        with self.tables.explaining_age():
            write_report(target, self.reading)
        return target

    def markdown(self, path: str | Path | None = None, title: str = "") -> Path:
        """Write the findings and tables as a markdown page."""
        from vestige.report.markdown import write_markdown

        target = Path(path) if path is not None else self.tables.folder / "README.md"
        with self.tables.explaining_age():
            write_markdown(target, self.reading, title)
        return target

    def export(
        self,
        folder: str | Path | None = None,
        *,
        tables: Sequence[str] = ("csv",),
        figures: Sequence[str] = ("pdf",),
        width: int = 340,
    ) -> list[Path]:
        """Write every table (csv, latex, markdown, xlsx) and figure (pdf, svg, png) of the report; `index.md` first."""
        from vestige.report.export import export

        target = Path(folder) if folder is not None else self.tables.folder / "export"
        with self.tables.explaining_age():
            return export(self.reading, target, tables, figures, width)

    @cached_property
    def reading(self) -> "Reading":
        """Its tables as the report reads them."""
        from vestige.report.reading import Reading

        tables = self.tables
        return Reading(
            tables.results, tables.comparisons, tables.cells, tables.lock, tables.neuron_changes, tables.kept
        )

    def show(self) -> Path:
        """Write the report and open it: in the notebook this is called from, else in a browser."""
        from vestige.report.notebook import show_in_notebook

        target = self.report().resolve()
        if not show_in_notebook(target.read_text(encoding="utf-8")):
            import webbrowser

            webbrowser.open(target.as_uri())
        return target
