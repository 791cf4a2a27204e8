"""Every error vestige raises on purpose: what was expected, what was found, what to do."""

from collections.abc import Iterator
from contextlib import contextmanager


class VestigeError(Exception):
    """A problem the user can solve; `fix` says how."""

    def __init__(self, problem: str, *, fix: str = "") -> None:
        self.problem = problem = _shortened(problem)
        self.fix = fix = _shortened(fix)
        super().__init__(f"{problem}\n  -> {fix}" if fix else problem)

    def __reduce__(self) -> tuple:
        return _rebuild, (type(self), self.problem, self.fix)


def _shortened(text: str, most: int = 1800) -> str:
    """A line of a hostile file may have millions of letters."""
    return text if len(text) <= most else f"{text[: most - 400]} ... {text[-400:]}"


def _rebuild(kind: type[VestigeError], problem: str, fix: str) -> VestigeError:
    return kind(problem, fix=fix)


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Errors of the block begin with where they arose."""
    try:
        yield
    except VestigeError as error:
        raise type(error)(f"{where}: {error.problem}", fix=error.fix) from error


class CorpusError(VestigeError):
    """A corpus file or its labels are not as announced."""


class ModelError(VestigeError):
    """A model cannot be loaded, or not as what it claims to be."""


class RepresentationError(VestigeError):
    """Hidden states that no analysis may use (not finite, or not where they should be)."""


class AnalysisError(VestigeError):
    """An analysis was asked for something its inputs do not allow."""


class SpecError(VestigeError):
    """A study file says something vestige does not understand."""


class StorageError(VestigeError):
    """The cache or the run folder cannot be written or read."""


class DamageError(StorageError):
    """An artefact of the cache is not as it was written, or gone; it is made again when the study is run again."""
