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
        from vestige.corpus.catalog import entries

        for entry in entries():
            sizes = ", ".join(f"{split} {count}" for split, count in entry.counts.items())
            here = "built in" if entry.builtin else "here" if entry.root() else "to get"
            yield entry.name, f"{here}; {sizes} sentences; tasks {', '.join(entry.tasks)}"
    elif what == "runs":
        for lock in sorted(under.glob("*/study.lock.json")):
            whole = (lock.parent / "results.parquet").exists()
            yield lock.parent.name, f"{lock.parent} ({'finished' if whole else 'not finished'})"
    else:
        raise VestigeError(f"cannot list {what!r}", fix="say analyses, corpora or runs")
