"""Progress where there is no terminal: a line now and then, the work around it named, none when quiet."""

import pytest

from vestige import progress


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock that the test sets, and no line written yet."""
    now = {"now": 1000.0}
    monkeypatch.setattr(progress.time, "monotonic", lambda: now["now"])
    monkeypatch.setattr(progress, "_last_line", 0.0)
    monkeypatch.setattr(progress, "_quiet", False)
    return now


def test_a_line_a_minute_says_what_is_done_and_what_is_left(clock, capsys):
    with progress.bar("probing", 10) as shown:
        for _ in range(4):
            clock["now"] += 40
            shown.advance()
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "probing: 2 of 10 after 0:01:20, about 0:05:20 left",
        "probing: 4 of 10 after 0:02:40, about 0:04:00 left",
    ]


def test_short_work_says_nothing(clock, capsys):
    with progress.bar("probing", 10) as shown:
        for _ in range(10):
            clock["now"] += 5
            shown.advance()
    assert capsys.readouterr().err == ""


def test_a_line_names_the_work_around_the_work(clock, capsys):
    with progress.bar("study", 3) as outer:
        for _ in range(3):
            with progress.bar("reading") as inner:
                clock["now"] += 61
                inner.advance(7)
            outer.advance()
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "study: 0 of 3 after 0:01:01; reading: 7 after 0:01:01",
        "study: 1 of 3 after 0:02:02, about 0:04:04 left; reading: 7 after 0:01:01",
        "study: 2 of 3 after 0:03:03, about 0:01:32 left; reading: 7 after 0:01:01",
    ]


def test_short_pieces_of_long_work_are_told_too(clock, capsys):
    with progress.bar("study", 3) as outer:
        for _ in range(3):
            with progress.bar("reading", 1) as inner:
                clock["now"] += 35
                inner.advance()
            outer.advance()
    said = capsys.readouterr().err.splitlines()
    assert said == ["study: 1 of 3 after 0:01:10, about 0:02:20 left; reading: 1 of 1 after 0:00:35"]


def test_quiet_is_quiet(clock, capsys):
    progress.quiet()
    with progress.bar("probing", 10) as shown:
        clock["now"] += 1000
        shown.advance()
    assert capsys.readouterr().err == ""
