"""The one way in which library code tells how far it is.

A bar appears on a terminal's standard error when the work has lasted longer than two seconds;
in a log file or a notebook a line a minute says how far it is. `quiet()` switches both off. In a process that works
for another one, `report_to` writes into a file how far the outermost bar is.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

PATIENCE = 2.0
"""Seconds a piece of work may last before its bar is shown."""

LINE_EVERY = 60.0
"""Seconds between two lines where there is no terminal; all bars together keep to it."""

REPORT_EVERY = 1.0
"""Seconds between two reports into a file."""

_quiet = False
_report: Path | None = None
_last_report = 0.0
_last_line = 0.0
_open_bars: list["Bar"] = []
"""From the outermost to the innermost."""


def quiet(value: bool = True) -> None:
    """Show no bars from now on (or, with False, show them again)."""
    global _quiet
    _quiet = value


def is_quiet() -> bool:
    """Whether nothing is to be shown."""
    return _quiet


@contextmanager
def report_to(path: Path) -> Iterator[None]:
    """Write into a file, which is gone afterwards, how far the work of the block is; no bars are shown."""
    global _report, _quiet
    before = _report, _quiet
    _report, _quiet = path, True
    try:
        yield
    finally:
        _report, _quiet = before
        with suppress(OSError):
            path.unlink(missing_ok=True)


class Bar:
    """Counts finished units; draws itself only where somebody can see it."""

    def __init__(self, description: str, total: int | None) -> None:
        self.description = description
        self.total = total
        self.done = 0
        self._started = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._display: Any = None
        self._row: Any = None

    def advance(self, units: int = 1, description: str | None = None) -> None:
        """Report `units` more of work done, optionally under a new description."""
        global _last_line
        self.done += units
        if description is not None:
            self.description = description
        now = time.monotonic()
        if _report is not None:
            _write_report(now)
        elif self._display is not None:
            self._display.update(self._row, completed=self.done, description=self.description)
        elif not _quiet and self._terminal and now - self._started > PATIENCE:
            self._open()
        elif not _quiet and not self._terminal and now - max(_open_bars[0]._started, _last_line) > LINE_EVERY:
            _last_line = now
            print("; ".join(shown._position(now) for shown in _open_bars), file=sys.stderr, flush=True)

    def _position(self, now: float) -> str:
        """How far this bar is, in words."""
        taken = now - self._started
        said = f"{self.description}: {self.done}"
        if self.total is not None:
            said += f" of {self.total}"
        said += f" after {_clock(taken)}"
        if self.total is not None and 0 < self.done < self.total:
            said += f", about {_clock(taken / self.done * (self.total - self.done))} left"
        return said

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._display = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._display.start()
        self._row = self._display.add_task(self.description, total=self.total, completed=self.done)

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._display is not None:
            self._display.stop()
            self._display = None


@contextmanager
def bar(description: str, total: int | None = None) -> Iterator[Bar]:
    """A bar for the work inside the `with` block."""
    shown = Bar(description, total)
    _open_bars.append(shown)
    try:
        yield shown
    finally:
        _open_bars.remove(shown)
        shown.close()


def _write_report(now: float) -> None:
    global _last_report
    if now - _last_report < REPORT_EVERY or _report is None or not _open_bars:
        return
    _last_report, shown = now, _open_bars[-1]
    about = {
        "description": shown.description,
        "done": shown.done,
        "total": shown.total,
        "seconds": now - shown._started,
    }
    with suppress(OSError):
        temporary = _report.with_name(f".{_report.name}")
        temporary.write_text(json.dumps(about))
        os.replace(temporary, _report)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
