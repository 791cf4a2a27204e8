"""Where finished work is kept, and that only finished work is found there."""

import os
import signal
from pathlib import Path

import pytest

from vestige import doctor
from vestige.cache import cache_folder, demand, read_checked, remove, whole, write_checked, write_file, writing
from vestige.checksums import CHECKSUMS
from vestige.errors import DamageError, StorageError


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


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="files are named by /proc, which only Linux has")
def test_everything_is_flushed_to_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    done = []
    rename = os.rename

    def renamed(source, target):
        done.append("renamed")
        rename(source, target)

    monkeypatch.setattr("os.fsync", lambda handle: done.append(os.readlink(f"/proc/self/fd/{handle}")))
    monkeypatch.setattr("os.rename", renamed)
    with writing(tmp_path / "x") as part:
        (part / "deep").mkdir()
        for name in ("a", "deep/b"):
            (part / name).write_text("one")
    names = ["a", "deep/b", "", "deep", CHECKSUMS, ""]
    assert done == [*(str(part / name) for name in names), "renamed", str(tmp_path)]


def put(folder: Path, **files: str) -> Path:
    with writing(folder) as part:
        for name, text in files.items():
            place = part / name.replace("__", "/")
            place.parent.mkdir(exist_ok=True)
            place.write_text(text)
    return folder


DAMAGE = {
    "shorter": lambda path: path.write_text("on"),
    "empty": lambda path: path.write_text(""),
    "other bytes": lambda path: path.write_text("eno"),
    "missing": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (path.rename(path.parent.parent / "one"), path.symlink_to(path.parent.parent / "one")),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "another's": lambda path: path.write_bytes((path.parent / "b").read_bytes()),
    "one more": lambda path: (path.parent / "c").write_text("three"),
}


class TestDamage:
    @pytest.mark.parametrize("file", ["a", "deep/a"])
    @pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
    def test_any_change_is_found_reported_in_one_line_and_the_folder_replaced(self, tmp_path, caplog, file, damage):
        folder = tmp_path / "cells" / "x"
        files = {"a": "one", "b": "two", "deep__a": "one", "deep__b": "two"}
        put(folder, **files)
        assert whole(folder) and not caplog.records
        damage(folder / file)
        assert not whole(folder)
        with pytest.raises(DamageError, match="is damaged"):
            demand(folder)
        assert not whole(put(folder, **files).with_name("y")) and whole(folder)
        assert len(caplog.records) == 1 and "it is made again" in caplog.text
        assert {path.name for path in folder.parent.iterdir()} - {"one"} == {"x"}
        assert (folder / "deep" / "a").read_text() == "one"

    def test_what_has_no_checksums_or_those_of_another_folder_is_not_whole(self, tmp_path):
        put(tmp_path / "x", a="one")
        put(tmp_path / "y", a="one")
        os.rename(tmp_path / "x", tmp_path / "z")
        assert not whole(tmp_path / "z")
        (tmp_path / "y" / CHECKSUMS).unlink()
        assert not whole(tmp_path / "y")

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "{}", "null", '{"format": 1, "of": "x", "files": 3}', "\xff", "[" * 100000]
    )
    def test_checksums_that_cannot_be_read_are_damage(self, tmp_path, text):
        put(tmp_path / "x", a="one")
        (tmp_path / "x" / CHECKSUMS).write_text(text, encoding="latin-1")
        assert not whole(tmp_path / "x")
        assert whole(put(tmp_path / "x", a="one"))

    def test_content_is_compared_where_it_is_read(self, tmp_path):
        folder = put(tmp_path / "x", a="one", b="two")
        (folder / "b").write_text("owt")
        assert whole(folder, lambda name: name == "a") and not whole(folder)
        demand(folder, "a")
        with pytest.raises(DamageError, match="b has changed"):
            demand(folder, "b")
        assert not whole(folder, lambda name: name == "a"), "found out once, it is made again"

    def test_a_change_that_keeps_size_and_time_is_found(self, tmp_path):
        folder = put(tmp_path / "x", a="one")
        assert whole(folder)
        before = (folder / "a").stat()
        (folder / "a").write_text("eno")
        os.utime(folder / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert not whole(folder)

    def test_a_folder_inside_with_checksums_of_its_own_is_compared_where_it_is_read(self, tmp_path):
        with writing(tmp_path / "models" / "key") as part:
            put(part / "checkpoint-1", a="one")
        nested = tmp_path / "models" / "key" / "checkpoint-1"
        assert whole(nested)
        (nested / "a").write_text("eno")
        assert whole(nested.parent) and not whole(nested)
        (nested / "a").write_text("longer")
        assert not whole(nested.parent)

    def test_a_link_in_the_place_of_a_folder_is_replaced_and_its_target_untouched(self, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis").write_text("all of it")
        (tmp_path / "cells").mkdir()
        (tmp_path / "cells" / "x").symlink_to(tmp_path / "mine")
        assert not whole(tmp_path / "cells" / "x")
        with pytest.raises(DamageError):
            demand(tmp_path / "cells" / "x")
        put(tmp_path / "cells" / "x", a="one")
        assert whole(tmp_path / "cells" / "x") and not (tmp_path / "cells" / "x").is_symlink()
        assert (tmp_path / "mine" / "thesis").read_text() == "all of it"

    def test_of_two_that_replace_a_damaged_folder_both_succeed(self, tmp_path):
        folder = put(tmp_path / "x", a="one")
        (folder / "a").write_text("eno")
        with writing(folder) as slow:
            (slow / "a").write_text("one")
            put(folder, a="one")
            first = folder.stat().st_ino
        assert whole(folder) and folder.stat().st_ino == first

    def test_links_are_removed_and_not_what_they_point_to(self, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis").write_text("all of it")
        (tmp_path / "link").symlink_to(tmp_path / "mine")
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "link").symlink_to(tmp_path / "mine")
        for name in ("link", "folder", "nothing"):
            remove(tmp_path / name)
        assert [path.name for path in tmp_path.iterdir()] == ["mine"] and list((tmp_path / "mine").iterdir())

    @pytest.mark.parametrize("damage", [d for name, d in DAMAGE.items() if name != "one more"])
    def test_a_file_that_stands_alone_is_as_it_was_written_or_not_there(self, tmp_path, damage):
        path = tmp_path / "tasks" / "a"
        assert read_checked(path) is None
        for name in ("a", "b"):
            write_checked(path.with_name(name), b"one")
        assert read_checked(path) == b"one"
        damage(path)
        assert read_checked(path) is None
        write_checked(path, b"one")
        assert read_checked(path) == b"one"


class TestPlacesThatDoNotWork:
    def test_without_a_home_the_user_is_asked_for_a_folder(self, monkeypatch):
        for name in ("HOME", "VESTIGE_CACHE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr("pwd.getpwuid", lambda uid: (_ for _ in ()).throw(KeyError(uid)))
        with pytest.raises(StorageError, match="no home folder") as raised:
            cache_folder()
        assert "VESTIGE_CACHE" in raised.value.fix
        with pytest.raises(StorageError, match="no home folder"):
            cache_folder("~nobody-of-this-name/cache")

    def test_a_name_that_no_folder_can_have_is_refused(self):
        with pytest.raises(StorageError, match="no name of a folder"):
            cache_folder("a\0b")

    @pytest.mark.parametrize("kind", ["file", "dangling link", "link to itself"])
    @pytest.mark.parametrize("write", [lambda p: write_file(p, b""), lambda p: put(p, a="one")], ids=["file", "folder"])
    def test_a_root_that_is_no_folder_is_named(self, tmp_path, kind, write):
        root = tmp_path / "root"
        if kind == "file":
            root.write_text("")
        else:
            root.symlink_to(tmp_path / "nothing" if kind == "dangling link" else root)
        with pytest.raises(StorageError, match=f"cannot write into {root}"):
            write(root / "x")
        assert not whole(root / "x")

    def test_the_doctor_names_a_cache_that_is_no_folder(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        (tmp_path / "link").symlink_to(tmp_path / "nothing")
        for place in ("file", "file/cache", "link"):
            monkeypatch.setenv("VESTIGE_CACHE", str(tmp_path / place))
            check = doctor._cache()
            assert not check.ok and "is no folder" in check.found
        monkeypatch.setenv("VESTIGE_CACHE", "~nobody-of-this-name")
        assert not doctor._cache().ok

    def test_a_folder_removed_while_it_is_written_is_told(self, tmp_path):
        with pytest.raises(DamageError, match="removed while it was written"), writing(tmp_path / "x") as part:
            part.rmdir()
            (part / "a").write_text("one")
