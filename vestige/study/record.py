"""What happens in a run, written down while it happens: one line of JSON an event, a log file a step.

`log/events.jsonl` in the folder of a run is what `vestige status` reads, from whatever shell or machine. Beside it
`log/KEY.log` has what a step printed, and `log/KEY.json`, while it runs, how far it is; `log/driver.json` is written
again every two seconds as long as the driver lives.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vestige.cache import explaining_storage

EVENTS = "events.jsonl"
DRIVER = "driver"
"""In place of a step's key: the sign of life of the driver."""


@dataclass(frozen=True)
class Record:
    """The events of one run."""

    folder: Path
    """`log` in the folder of the run."""
    heard: list[Callable[[dict[str, Any]], None]] = field(default_factory=list)
    """Called with every event that is noted here."""

    def note(self, event: str, **about: Any) -> None:
        """Append an event; a line is written at once, so that several writers do not mix."""
        content = {"event": event, "at": time.time(), **about}
        for hear in self.heard:
            hear(content)
        line = json.dumps(content, ensure_ascii=False, default=str)
        with explaining_storage(self.folder / EVENTS):
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(self.folder / EVENTS, "ab") as stream:
                stream.write(f"{line}\n".encode("utf-8", "backslashreplace"))

    def events(self) -> Iterator[dict[str, Any]]:
        """All events so far; a line that is being written is left for the next time."""
        try:
            lines = (self.folder / EVENTS).read_bytes().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and "event" in event:
                yield event

    def log(self, key: str) -> Path:
        """What a step printed."""
        return self.folder / f"{key}.log"

    def sign(self, key: str = DRIVER) -> Path:
        """What the driver, or a step while it runs, writes again and again."""
        return self.folder / f"{key}.json"

    def touched(self, key: str) -> float:
        """When a running step, or the driver, last gave a sign of life, in seconds since 1970; 0 if it never did."""
        try:
            return self.sign(key).stat().st_mtime
        except OSError:
            return 0.0

    def progress(self, key: str) -> dict[str, Any] | None:
        """How far a running step is: description, done, total, seconds."""
        try:
            found = json.loads(self.sign(key).read_text())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None
