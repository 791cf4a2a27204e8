"""The chapter of an analysis that the report has no page for: all its numbers and comparisons, plainly."""

import pandas as pd

from vestige.analyses import find_analysis
from vestige.errors import SpecError
from vestige.report.change_findings import share_curve
from vestige.report.chapters import CHAPTERS, Chapter
from vestige.report.curves import BESIDE, Curve
from vestige.report.measures import LAYER_PROBES
from vestige.report.neuron_rows import ANALYSIS, FURTHER_ANALYSES
from vestige.report.reading import Reading
from vestige.report.wording import capital

KNOWN = {*LAYER_PROBES, ANALYSIS, *FURTHER_ANALYSES, *(chapter.name for chapter in CHAPTERS)}
"""Analyses that the report has a page for."""


def default_chapters(reading: Reading) -> list[Chapter]:
    """A chapter for every other analysis of the run, in the order of its table."""
    names = reading.results["analysis"].drop_duplicates() if "analysis" in reading.results else []
    return [_chapter(reading, str(name)) for name in names if name not in KNOWN]


def _chapter(reading: Reading, name: str) -> Chapter:
    """Compared measures come first; shares of right items are percent, what is not compared stays as it is."""
    rows = reading.results[reading.results["analysis"] == name]
    compared = []
    if len(reading.comparisons):
        mine = reading.comparisons[reading.comparisons["analysis"] == name]
        compared = list(mine["metric"].drop_duplicates())
    curves = [share_curve(metric) for metric in compared]
    plain = rows[~rows["metric"].str.endswith(BESIDE)]
    for metric, axis in plain[["metric", "axis"]].drop_duplicates().itertuples(index=False):
        along = "" if pd.isna(axis) else str(axis)
        if along or metric not in compared:
            curves.append(Curve(str(metric), _spoken(str(metric)), along, _spoken(along), decimals=3))
    return Chapter(name, _title(name), "", tuple(curves), plain=True)


def _title(name: str) -> str:
    """What the analysis calls itself; its name where the package that brings it is not installed."""
    try:
        return find_analysis(name).title
    except SpecError:
        return capital(_spoken(name))


def _spoken(name: str) -> str:
    return name.replace("_", " ")
