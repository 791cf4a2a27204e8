"""One screen for the whole study: on a terminal it is drawn anew, in a log file a line a minute says how far it is."""

import sys
import time
from typing import Any

from vestige.progress import LINE_EVERY, PATIENCE, is_quiet
from vestige.study.board import Board
from vestige.study.record import Record
from vestige.study.status import Status, clock, lines


class Screen:
    """Shows the state of a run while it lasts; nothing where nobody looks or for work of two seconds."""

    def __init__(self, record: Record, status: Status, shown: bool = True) -> None:
        """`shown` is False where steps run in this process and show bars of their own."""
        self.record, self.status, self.shown = record, status, shown
        self._began = self._last = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._live: Any = None

    @property
    def patience(self) -> float:
        """Seconds between two looks."""
        return 0.5 if self._terminal else 5.0

    def show(self, board: Board) -> None:
        """Draw, if it is time to."""
        now = time.monotonic()
        if not self.shown or is_quiet() or now - self._began < PATIENCE:
            return
        if self._terminal:
            self._draw()
        elif now - self._last >= LINE_EVERY:
            self._last = now
            print(self._line(), file=sys.stderr, flush=True)

    def _line(self) -> str:
        done, total = sum(self.status.done.values()), sum(self.status.total.values())
        left = self.status.time_left()
        said = f"{done} of {total} steps after {clock(time.time() - self.status.began)}"
        said += f", about {clock(left)} left" if left is not None else ""
        running = [event["title"] for event in self.status.running.values()]
        return f"{said}; running: {'; '.join(running[:4])}" if running else said

    def _draw(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            self._live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(Text("\n".join(lines(self.status, self.record))), refresh=True)

    def close(self) -> None:
        """Take it off the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None
