"""A study on a disk that is full, in a cache that is no folder or goes away, and run folders that others left."""

import json
import os
import resource
import shutil
from contextlib import contextmanager

import pandas as pd
import pytest
from small_study import study

from unit.finetune.made import opinions
from vestige.cache import whole
from vestige.checksums import CHECKSUMS
from vestige.errors import DamageError, StorageError
from vestige.finetune.recipe import Recipe
from vestige.finetune.train import finetune
from vestige.study.corpora import Given
from vestige.study.driver import Driver
from vestige.study.finished import StudyRun
from vestige.study.plan import make_plan
from vestige.study.run import Study
from vestige.study.spec import make_spec


@contextmanager
def files_of_at_most(size: int):
    """The system refuses to write more into a file: as on a full disk, writing fails half-way."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class TestFullDisk:
    @pytest.mark.parametrize("size", [10, 2_000, 40_000])
    def test_a_tuned_model_that_does_not_fit_is_reported_and_made_when_there_is_space(self, place, cache, size):
        given = place / "base", opinions(), Recipe(epochs=1, rate=1e-3, save_steps=2)
        with files_of_at_most(size), pytest.raises(StorageError, match="is full") as raised:
            finetune(*given, cache=cache, threads=1)
        assert "run again" in raised.value.fix
        assert not [path for path in (cache / "models").iterdir() if not path.name.startswith(".")]
        made = finetune(*given, cache=cache, threads=1)
        assert whole(made.folder)
        assert [path.name for path in (cache / "models").iterdir()] == [made.folder.name]

    @pytest.mark.parametrize("size", [100, 1_000, 3_000, 6_000, 9_000])
    def test_a_study_stops_at_any_file_and_goes_on_to_the_same_bytes(self, place, run, tmp_path, cache, size):
        again = Study.from_dict(study(place), tmp_path / "run", cache=cache)
        with files_of_at_most(size), pytest.raises(StorageError, match="is full"):
            again.run()
        again.run()
        for name in ("results.parquet", "comparisons.parquet"):
            assert (tmp_path / "run" / name).read_bytes() == (run / name).read_bytes()


class TestCacheThatGoesAway:
    @pytest.mark.parametrize("part", ["representations", "tasks", "."])
    def test_what_a_cell_reads_was_removed(self, place, cache, part):
        raw = study(place)
        plan = make_plan(make_spec(raw), Given(), cache)
        Study.from_dict(raw, cache / "run", cache=cache).run()
        shutil.rmtree(cache / part)
        with pytest.raises(DamageError, match="run again"):
            plan.cells[0].make({})

    def test_a_cell_that_was_removed_is_not_one_without_items(self, place, cache):
        raw = study(place)
        plan = make_plan(make_spec(raw), Given(), cache)
        Study.from_dict(raw, cache / "run", cache=cache).run()
        shutil.rmtree(plan.compares[0].folder)
        shutil.rmtree(plan.compares[0].base.folder)
        with pytest.raises(DamageError, match="run again"):
            plan.compares[0].make({})
        assert not plan.compares[0].folder.exists()

    @pytest.mark.parametrize(
        ("part", "times"), [("cells", 1), ("described", 1), ("read", 1), ("compared", 1), ("cells", 99)]
    )
    def test_results_were_removed_before_they_were_gathered(
        self, place, run, tmp_path, cache, monkeypatch, part, times
    ):
        lost: list[Driver] = []

        def lose(driver):
            failures = drive(driver)
            if len(lost) < times:
                shutil.rmtree(cache / part)
            lost.append(driver)
            return failures

        drive = Driver.run
        monkeypatch.setattr(Driver, "run", lose)
        asked = Study.from_dict(study(place), tmp_path / "run", cache=cache)
        if times > 1:
            with pytest.raises(DamageError, match="run again"):
                asked.run()
            return
        asked.run()
        assert len(lost) == 2, "they are made again at once"
        for name in ("results.parquet", "comparisons.parquet", "cells.parquet"):
            assert (tmp_path / "run" / name).read_bytes() == (run / name).read_bytes()

    @pytest.mark.parametrize("kind", ["file", "dangling link"])
    def test_a_cache_that_is_no_folder_is_named(self, place, tmp_path, cache, kind):
        cache.write_text("") if kind == "file" else cache.symlink_to(tmp_path / "nothing")
        with pytest.raises(StorageError, match=f"cannot write into {cache}"):
            Study.from_dict(study(place), tmp_path / "run", cache=cache).run()


@pytest.fixture(scope="module")
def run(place, tmp_path_factory):
    folder = tmp_path_factory.mktemp("storage")
    Study.from_dict(study(place), folder / "run", cache=folder / "cache").run()
    return folder / "run"


def older(folder) -> None:
    """As a version without checksums, and with fewer columns, left it."""
    (folder / CHECKSUMS).unlink()
    frame = pd.read_parquet(folder / "comparisons.parquet")
    frame[["model", "reference", "analysis", "params", "corpus", "task", "layer"]].to_parquet(
        folder / "comparisons.parquet"
    )


def without(column: str):
    def damage(folder) -> None:
        (folder / CHECKSUMS).unlink()
        pd.read_parquet(folder / "results.parquet").drop(columns=column).to_parquet(folder / "results.parquet")

    return damage


@pytest.mark.parametrize(
    "lock", ["pipe", "folder", "[" * 100_000, "", "[]"], ids=["pipe", "folder", "deep", "", "list"]
)
def test_results_that_nobody_can_tell_whose_they_are_are_not_overwritten(place, run, tmp_path, lock):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "study.lock.json").unlink()
    make = {"pipe": os.mkfifo, "folder": os.mkdir}.get(lock, lambda path: path.write_text(lock))
    make(tmp_path / "run" / "study.lock.json")
    with pytest.raises(StorageError, match="nobody can tell whose") as raised:
        Study.from_dict(study(place), tmp_path / "run", cache=run.parent / "cache").run()
    assert "--overwrite" in raised.value.fix


RUNS = {
    "results cut": lambda f: (f / "results.parquet").write_bytes((f / "results.parquet").read_bytes()[:-9]),
    "results of no table": lambda f: (f / "results.parquet").write_bytes(b"PAR1" * 9),
    "no checksums and no table": lambda f: ((f / CHECKSUMS).unlink(), (f / "results.parquet").write_bytes(b"PAR1" * 9)),
    "no value": without("value"),
    "no model": without("model"),
    "older comparisons": older,
    "comparisons a folder": lambda f: ((f / "comparisons.parquet").unlink(), (f / "comparisons.parquet").mkdir()),
    "lock of lists": lambda f: ((f / CHECKSUMS).unlink(), (f / "study.lock.json").write_text("[]")),
    "lock empty": lambda f: ((f / CHECKSUMS).unlink(), (f / "study.lock.json").write_text("")),
    "lock deep": lambda f: ((f / CHECKSUMS).unlink(), (f / "study.lock.json").write_text("[" * 100_000)),
    "lock of another": lambda f: (f / "study.lock.json").write_text(json.dumps({"spec": {}})),
    "checksums empty": lambda f: (f / CHECKSUMS).write_text(""),
    "checksums of none": lambda f: (f / CHECKSUMS).write_text('{"files": 3}'),
    "nothing": lambda f: (shutil.rmtree(f), f.mkdir()),
    "a file": lambda f: (shutil.rmtree(f), f.write_text("")),
    "not there": shutil.rmtree,
}


@pytest.mark.parametrize("damage", RUNS.values(), ids=list(RUNS))
def test_a_run_folder_that_is_not_as_it_was_written_is_named(run, tmp_path, damage):
    shutil.copytree(run, tmp_path / "run")
    damage(tmp_path / "run")
    for write in (StudyRun.report, StudyRun.markdown):
        with pytest.raises(StorageError, match=str(tmp_path / "run")) as raised:
            write(StudyRun.open(tmp_path / "run"))
        assert "run the study again" in raised.value.fix
