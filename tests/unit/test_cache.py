"""Where finished work is kept, and that only finished work is found there."""

import os
import signal
from pathlib import Path

import pytest

from vestige.cache import cache_folder, write_file, writing


def test_the_given_folder_comes_before_the_environment_and_that_before_home(monkeypatch, tmp_path):
    monkeypatch.setenv("VESTIGE_CACHE", str(tmp_path / "environment"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder(tmp_path / "given") == tmp_path / "given"
    assert cache_folder() == tmp_path / "environment"
    monkeypatch.delenv("VESTIGE_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "vestige"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "vestige"
    assert cache_folder("~/mine") == tmp_path / "home" / "mine"


class TestWriting:
    def test_a_folder_has_its_name_only_when_it_is_whole(self, tmp_path):
        with writing(tmp_path / "deep" / "result") as part:
            (part / "a").write_text("1")
            assert not (tmp_path / "deep" / "result").exists()
        assert [path.name for path in (tmp_path / "deep").iterdir()] == ["result"]
        assert (tmp_path / "deep" / "result" / "a").read_text() == "1"

    def test_an_exception_leaves_nothing_behind(self, tmp_path):
        with pytest.raises(KeyboardInterrupt), writing(tmp_path / "result") as part:
            (part / "a").write_text("1")
            raise KeyboardInterrupt
        assert list(tmp_path.iterdir()) == []

    def test_a_killed_writer_leaves_nothing_that_is_read_and_the_next_one_succeeds(self, tmp_path):
        child = os.fork()
        if child == 0:
            with writing(tmp_path / "result") as part:
                (part / "a").write_text("half")
                os.kill(os.getpid(), signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        assert not (tmp_path / "result").exists()
        with writing(tmp_path / "result") as part:
            (part / "a").write_text("whole")
        assert (tmp_path / "result" / "a").read_text() == "whole"

    def test_of_two_writers_the_first_to_finish_is_kept_and_both_succeed(self, tmp_path):
        with writing(tmp_path / "result") as slow:
            (slow / "a").write_text("slow")
            with writing(tmp_path / "result") as fast:
                (fast / "a").write_text("fast")
        assert (tmp_path / "result" / "a").read_text() == "fast"
        assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "folder" / "file"
    write_file(path, b"one")
    write_file(path, b"two")
    assert path.read_bytes() == b"two"

    def fails(self: Path, target: Path) -> Path:
        raise RuntimeError("killed")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(RuntimeError):
        write_file(path, b"three")
    assert path.read_bytes() == b"two"
    assert [file.name for file in path.parent.iterdir()] == ["file"]
