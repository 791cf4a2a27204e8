"""The demo as a user runs it, undisturbed and killed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "vestige.cli", "demo", "--limit", "24", "--jobs", "2"]


def start(folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [*COMMAND, "--out", str(folder / "run"), "--cache", str(folder / "cache")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(folder: Path) -> str:
    process = start(folder)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


@pytest.fixture(scope="module")
def undisturbed(minilm, tmp_path_factory) -> tuple[Path, float, str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    began = time.monotonic()
    said = finish(folder)
    return folder, time.monotonic() - began, said


def test_demo_writes_a_report_and_says_where_it_is(undisturbed):
    folder, _, said = undisturbed
    report = folder / "run" / "report.html"
    assert f"report: {report}" in said
    assert report.stat().st_size > 100_000
    assert "\x1b" not in said and "%|" not in said, "quiet when not a terminal"


def test_killed_at_random_moments_it_ends_with_the_same_bytes(undisturbed, tmp_path):
    reference, took, _ = undisturbed
    rng = random.Random(0)
    for everything in (True, False, True):
        process = start(tmp_path)
        try:
            process.wait(timeout=rng.uniform(0.15, 0.9) * took)
        except subprocess.TimeoutExpired:
            if everything:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.send_signal(signal.SIGKILL)
        process.communicate()
    finish(tmp_path)
    for table in ("results.parquet", "comparisons.parquet"):
        assert (tmp_path / "run" / table).read_bytes() == (reference / "run" / table).read_bytes(), table
    assert not list((tmp_path / "run").rglob("*.part"))
