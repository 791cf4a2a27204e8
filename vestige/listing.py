"""What `vestige ls` shows."""

from collections.abc import Iterator
from pathlib import Path

from vestige.errors import VestigeError


def rows(what: str, under: Path = Path("runs")) -> Iterator[tuple[str, str]]:
    """(name, description) of everything of a kind."""
    if what == "analyses":
        from vestige.analyses import analysis_names, find_analysis

        for name in analysis_names():
            kind = find_analysis(name)
            yield name, f"{kind.title}; tasks at level {', '.join(kind.levels)} ({kind.source})"
    elif what == "corpora":
        from vestige.corpus.load import BUILTIN, load_corpus

        for name in BUILTIN:
            corpus = load_corpus(name)
            sizes = ", ".join(f"{split} {len(sentences)}" for split, sentences in corpus.splits.items())
            yield name, f"{sizes} sentences; tasks {', '.join(corpus.levels)}"
    elif what == "runs":
        for lock in sorted(under.glob("*/study.lock.json")):
            whole = (lock.parent / "results.parquet").exists()
            yield lock.parent.name, f"{lock.parent} ({'finished' if whole else 'not finished'})"
    else:
        raise VestigeError(f"cannot list {what!r}", fix="say analyses, corpora or runs")
