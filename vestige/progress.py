"""The one way in which library code tells how far it is.

A bar appears on a terminal's standard error when the work has lasted longer than two seconds;
anywhere else nothing is shown. `quiet()` switches bars off altogether.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 2.0
"""Seconds a piece of work may last before its bar is shown."""

_quiet = False


def quiet(value: bool = True) -> None:
    """Show no bars from now on (or, with False, show them again)."""
    global _quiet
    _quiet = value


class Bar:
    """Counts finished units; draws itself only where somebody can see it."""

    def __init__(self, description: str, total: int | None) -> None:
        self.description = description
        self.total = total
        self.done = 0
        self._started = time.monotonic()
        self._visible = not _quiet and sys.stderr.isatty()
        self._display: Any = None
        self._row: Any = None

    def advance(self, units: int = 1, description: str | None = None) -> None:
        """Report `units` more of work done, optionally under a new description."""
        self.done += units
        if description is not None:
            self.description = description
        if self._display is None and self._visible and time.monotonic() - self._started > PATIENCE:
            self._open()
        if self._display is not None:
            self._display.update(self._row, completed=self.done, description=self.description)

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
    try:
        yield shown
    finally:
        shown.close()
