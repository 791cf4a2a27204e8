"""The command line: every command, and errors in words."""

import re
import subprocess
import sys

import pytest
import tiny


def vestige(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    import os

    return subprocess.run(
        [sys.executable, "-m", "vestige.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )


def test_listings():
    said = vestige("ls", "analyses")
    assert said.returncode == 0 and "truncation" in said.stdout, said.stderr
    said = vestige("ls", "moons")
    assert said.returncode == 1 and "say analyses, corpora or runs" in said.stderr


def test_doctor_checks_the_machine(minilm):
    said = vestige("doctor")
    assert said.returncode == 0, said.stdout
    assert "weights verified" in said.stdout and "bfloat16" in said.stdout
    assert re.search(r"matrix products: \d+ GFLOP/s", said.stdout), said.stdout
    estimate = r"100,000 words: about \d+ (s|min) for a model of MiniLM's size, about \d+ (s|min) .*an estimate"
    assert re.search(estimate, said.stdout), said.stdout


def test_a_mistake_in_a_study_file_is_one_line_and_no_traceback(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text("study: x\nmodels: {base: minilm}\ncorpora: {t: treebank}\nanalysis: []\n")
    said = vestige("run", str(file))
    assert said.returncode == 1
    assert "did you mean 'analyses'" in said.stderr and "Traceback" not in said.stderr


def test_compare_report_and_run_work_on_folders(tmp_path):
    tiny.save("bert", tmp_path / "base", layers=2)
    tiny.save("bert", tmp_path / "tuned", layers=2, seed=1, classes=2)
    out, cache = str(tmp_path / "out"), str(tmp_path / "cache")
    arguments = ["--limit", "30", "--task", "upos", "--out", out, "--cache", cache]
    said = vestige("compare", str(tmp_path / "base"), str(tmp_path / "tuned"), *arguments)
    assert said.returncode == 0, said.stderr
    assert (tmp_path / "out" / "report.html").exists()
    said = vestige("report", out, "--format", "markdown", "--out", str(tmp_path / "page.md"))
    assert said.returncode == 0, said.stderr
    assert "| layer" in (tmp_path / "page.md").read_text().lower()
    said = vestige("ls", "runs", "--under", str(tmp_path))
    assert "finished" in said.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are POSIX's")
def test_a_cache_that_cannot_be_written_is_explained(tmp_path):
    tiny.save("bert", tmp_path / "base", layers=2)
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    said = vestige("compare", str(tmp_path / "base"), str(tmp_path / "base"), "--limit", "30", "--cache", str(blocked))
    assert said.returncode == 1 and "VESTIGE_CACHE" in said.stderr, said.stderr
