"""Kept runs: the tables that a page is written from, small enough to lie in a repository."""

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from vestige.study.finished import StudyRun
from vestige.study.tables import LOCK

RESULTS = "results"
PLACES = ("VESTIGE_DATA", "VESTIGE_CACHE", "VESTIGE_SRE")
"""Environment variables whose values are folders of this machine."""


def keep(run: StudyRun, folder: Path, items_of: Sequence[str] = ()) -> None:
    """Copy the tables of a whole run, and the items of some analyses, into `results` of a folder."""
    target, cells = folder / RESULTS, run.tables.cells
    names = ["results", "comparisons", "cells", "neuron_changes"]
    names += [f"items/{cell}" for cell in cells[cells["analysis"].isin(items_of)]["cell"].unique()]
    if (target / "items").is_dir():
        for old in (target / "items").glob("*.parquet"):
            old.unlink()
    for name in names:
        place = target / f"{name}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pq.read_table(run.tables.folder / place.relative_to(target)), place, compression="zstd")
    lock = (run.tables.folder / LOCK).read_text(encoding="utf-8")
    for name in PLACES:
        lock = lock.replace(os.environ.get(name) or f"${{{name}}}", f"${{{name}}}")
    (target / LOCK).write_text(lock, encoding="utf-8")


def open_run(folder: Path) -> StudyRun:
    """The run that a folder holds, or that was kept in its `results`."""
    return StudyRun.open(folder / RESULTS if (folder / RESULTS / LOCK).is_file() else folder)
