"""Claims: one maker at a time; the dead are noticed by their silence, whatever clocks say."""

import json
import os
import subprocess
import sys
import time

import pytest

from vestige.study import claims
from vestige.study.claims import claimed, held


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(claims, "BEAT", 0.05)
    monkeypatch.setattr(claims, "PATIENCE", 0.5)
    monkeypatch.setattr(claims, "_seen", {})


def test_a_claim_keeps_others_out_while_it_lasts(tmp_path):
    path = tmp_path / "step"
    with claimed(path) as mine:
        assert mine
        time.sleep(0.8)
        with claimed(path) as also:
            assert not also
    assert not path.exists()
    with claimed(path) as mine:
        assert mine


def test_a_killed_process_of_this_machine_is_noticed_at_once(tmp_path):
    path = tmp_path / "step"
    code = f"import os; from pathlib import Path; from vestige.study.claims import claimed\nwith claimed(Path({str(path)!r})): os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert path.exists() and not held(path)
    with claimed(path) as mine:
        assert mine


def elsewhere(path, beat: int) -> None:
    path.write_text(json.dumps({"host": "another", "pid": 1, "born": "1", "id": "x", "beat": beat}))


def test_an_owner_elsewhere_lives_as_long_as_it_beats(tmp_path):
    path = tmp_path / "step"
    for beat in range(8):
        elsewhere(path, beat)
        assert held(path)
        time.sleep(0.1)


@pytest.mark.parametrize("stamp", [0, 4_000_000_000], ids=["1970", "2096"])
def test_an_owner_elsewhere_that_falls_silent_is_dead_whatever_the_file_is_dated(tmp_path, stamp):
    path = tmp_path / "step"
    elsewhere(path, 7)
    os.utime(path, (stamp, stamp))
    assert held(path)
    time.sleep(0.6)
    assert not held(path)
    with claimed(path) as mine:
        assert mine


@pytest.mark.parametrize("content", ["", "{", "[]", "\0" * 9])
def test_a_claim_that_cannot_be_read_is_given_time_and_then_taken(tmp_path, content):
    path = tmp_path / "step"
    path.write_text(content)
    assert held(path)
    time.sleep(0.6)
    assert not held(path)


def test_who_was_taken_for_dead_does_not_remove_the_claim_of_another(tmp_path):
    path = tmp_path / "step"
    with claimed(path):
        elsewhere(path, 0)
        time.sleep(0.2)
    assert json.loads(path.read_text())["host"] == "another"
