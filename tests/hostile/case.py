"""What a hostile case is, and how its outcome is called: the words of the hostile table."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vestige.errors import VestigeError

SECONDS = 10
"""Of the processor, of one case."""
PATIENCE = 60
"""Seconds on the clock, after which a case that only waits is stopped; other work may share the machine."""
Verdict = Literal["clear", "right", "raw", "hang", "silently wrong"]
VERDICTS: tuple[Verdict, ...] = ("clear", "right", "raw", "hang", "silently wrong")


@dataclass(frozen=True)
class Case:
    """Something to try in an empty folder.

    `act` either has to end in one of our errors (`says` is a part of it), or, if there is nothing that it says,
    to return whether the result is right.
    """

    kind: str
    name: str
    act: Callable[[Path], Any]
    says: str | None = ""

    @property
    def expected(self) -> Verdict:
        return "right" if self.says is None else "clear"


class TooLongError(BaseException):
    """No `except Exception` holds it up."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Stop what takes longer."""

    def stop(*_: Any) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(act: Callable[[], Any], says: str | None = "", either: bool = False) -> tuple[Verdict, str]:
    """What came of it, and what was said; with `either`, any of our errors will do, and any result."""
    start = time.process_time()
    verdict, said = _outcome(act, says, either)
    spent = time.process_time() - start
    return (verdict, said) if spent <= SECONDS else ("hang", f"{spent:.0f} s of the processor: {said}")


def _outcome(act: Callable[[], Any], says: str | None, either: bool) -> tuple[Verdict, str]:
    try:
        with at_most(PATIENCE):
            found = act()
    except TooLongError:
        return "hang", f"more than {PATIENCE} s"
    except VestigeError as error:
        whole = bool(error.problem.strip()) and bool(error.fix.strip()) and len(str(error)) < 4000
        fits = either or (says is not None and says in str(error))
        return ("clear" if whole and fits else "silently wrong"), str(error)
    except BaseException as error:
        return "raw", f"{type(error).__name__}: {error}"[:300]
    return ("right" if either or (says is None and found) else "silently wrong"), repr(found)[:200]
