"""How work is stopped: Ctrl-C, a driver that is killed, and names and links that lead out of a folder."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from small_study import study

from vestige.errors import SpecError
from vestige.finetune.workplace import working
from vestige.study.engines.execute import packed
from vestige.study.engines.settings import EngineSpec
from vestige.study.spec import make_spec
from vestige.study.steps.load import Load
from vestige.study.steps.origin import Origin


def test_a_worker_ends_with_its_driver_in_the_middle_of_a_step(tmp_path):
    step = Load(key="k", cache=str(tmp_path), origin=Origin("m", 0, "k", {"source": "x"}))
    script = [sys.executable, str(Path(__file__).with_name("slow_worker.py"))]
    worker = subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    worker.stdin.write(packed(step, tmp_path) + "\n")
    worker.stdin.flush()
    assert worker.stderr.readline() == "busy\n"
    worker.send_signal(signal.SIGINT)  # Ctrl-C reaches the whole group; the driver decides
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(timeout=0.5)
    said, problems = worker.communicate(timeout=60)
    assert (worker.returncode, said, problems) == (0, "", "")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are looked up in /proc")
def test_after_ctrl_c_the_user_knows_that_finished_work_is_kept(place, tmp_path):
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study(place)))
    command = [sys.executable, "-m", "vestige.cli", "run", "study.yaml", "--jobs", "2", "--cache", "cache"]
    driver = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=_heeds_ctrl_c
    )
    while not _has_workers(driver) and driver.poll() is None:
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGINT)
    _, said = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert said == "stopped; finished work is kept, run the same command to go on\n"


def test_sigterm_ends_a_run_as_ctrl_c_does(place, tmp_path):
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study(place)))
    command = [
        sys.executable,
        "-m",
        "vestige.cli",
        "run",
        "study.yaml",
        "--jobs",
        "2",
        "--cache",
        "cache",
        "--out",
        "run",
    ]
    driver = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    events = tmp_path / "run/log/events.jsonl"
    while not (events.exists() and "started" in events.read_text()) and driver.poll() is None:
        time.sleep(0.02)
    driver.terminate()
    _, said = driver.communicate(timeout=60)
    assert driver.returncode == 143
    assert said == "stopped; finished work is kept, run the same command to go on\n"
    assert '"outcome": "stopped"' in events.read_text().splitlines()[-1]


@pytest.mark.parametrize("detached", [False, True])
def test_jobs_of_slurm_are_cancelled_with_their_driver_unless_it_is_detached(tmp_path, monkeypatch, detached):
    slurm = pytest.importorskip("vestige.study.engines.slurm", reason="the engine slurm needs the extra `slurm`")
    asked: list[list[str]] = []
    monkeypatch.setattr(slurm.subprocess, "run", lambda command, **_: asked.append(command))
    monkeypatch.setenv("VESTIGE_DETACHED", "1") if detached else monkeypatch.delenv("VESTIGE_DETACHED", raising=False)
    engine = slurm.Slurm(EngineSpec(name="slurm"), tmp_path)
    engine._jobs = [slurm._Job("7_0"), slurm._Job("7_1")]
    engine.close()
    assert asked == ([] if detached else [["scancel", "7_0", "7_1"]])


def _heeds_ctrl_c():
    """A shell that runs the tests in the background has them ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _has_workers(driver):
    """Children belong to the thread that started them."""
    found = ""
    for task in Path(f"/proc/{driver.pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended
            found += task.read_text().strip()
    return bool(found)


@pytest.mark.parametrize(
    "name", [".", "..", "../x", "/tmp/x", "a/b", "a\\b", "a\0b", "", ".hidden", "-x", "x" * 101, 7]
)
def test_a_study_cannot_be_named_like_a_way_out_of_its_folder(place, name):
    with pytest.raises(SpecError, match="study"):
        make_spec(study(place, study=name))


def test_a_link_in_the_place_of_a_training_folder_is_not_followed(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis").write_text("all of it")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / ".x.training").symlink_to(mine)
    with pytest.raises(KeyboardInterrupt), working(tmp_path / "models" / "x") as folder:
        assert folder.resolve() == tmp_path / "models" / ".x.training"
        (folder / "checkpoint-1").symlink_to(mine)
        raise KeyboardInterrupt
    with working(tmp_path / "models" / "x") as again:
        assert again == folder and not list(again.iterdir()), "there is no state to go on from"
    assert (mine / "thesis").read_text() == "all of it" and list(mine.iterdir()) == [mine / "thesis"]
