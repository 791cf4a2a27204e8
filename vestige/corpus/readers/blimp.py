"""BLiMP's minimal pairs: an archive or a folder of JSON lines, a file for each of 67 paradigms."""

from pathlib import Path

from vestige.corpus.readers.archive import unzipped
from vestige.corpus.readers.records import field, read_records
from vestige.corpus.readers.text import decode_lines, read_lines
from vestige.corpus.types import Sentence
from vestige.errors import CorpusError

_FIX = "name BLiMP.zip, or its folder data"


def read_blimp(path: str | Path) -> dict[str, list[Sentence]]:
    """Two sentences a pair, "acceptable" and "unacceptable", all of them in the split "test".

    "pair" is what the two sentences of a minimal pair share; "paradigm", "phenomenon" and "field"
    say where it belongs.
    """
    sentences = []
    for file, lines in _files(Path(path)):
        for source, record in read_records(lines, file):
            paradigm = field(source, record, "UID", str)
            pair = f"{paradigm}-{field(source, record, 'pairID', str, int)}"
            about = {
                "paradigm": paradigm,
                "phenomenon": field(source, record, "linguistics_term", str),
                "field": field(source, record, "field", str),
                "pair": pair,
            }
            for side, label in (("good", "acceptable"), ("bad", "unacceptable")):
                words = tuple(field(source, record, f"sentence_{side}", str).split())
                annotations = {"acceptability": label, **about}
                sentences.append(Sentence(f"{pair}-{side}", words, annotations=annotations, source=source))
    return {"test": sentences}


def _files(path: Path) -> list[tuple[str, list[str]]]:
    """Every paradigm's file by name, with its lines."""
    if path.is_dir():
        files = sorted(path.glob("*.jsonl")) or sorted(path.glob("data/*.jsonl"))
        found = [(str(file), read_lines(file)) for file in files]
    else:
        found = _archived(path)
    if not found:
        raise CorpusError(f"{path}: expected BLiMP's data/*.jsonl, found no such file", fix=_FIX)
    return found


def _archived(path: Path) -> list[tuple[str, list[str]]]:
    """Those of an archive, without the `._` companions that macOS adds."""
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder", fix="check the path")
    found = unzipped(path, lambda name: name.endswith(".jsonl") and "/._" not in name, "folder or zip archive")
    return [(f"{path}/{name}", decode_lines(content, path / name)) for name, content in found.items()]
