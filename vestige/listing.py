"""What `vestige ls` shows, line by line."""

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from vestige.errors import CorpusError, StorageError, VestigeError
from vestige.files import load_json, read_file

if TYPE_CHECKING:
    from vestige.analyses.base import Analysis
    from vestige.analyses.metric import Metric
    from vestige.corpus.catalog import Entry
    from vestige.corpus.types import Corpus

SPLITS = ("train", "dev", "test")

WIDTH = 100
"""Columns of a terminal that every line fits into."""


def lines(what: str, name: str | None = None, under: Path = Path("runs")) -> Iterator[str]:
    """Everything of a kind, or what is known of the analysis or the corpus called `name`."""
    if what == "corpora":
        return _corpus(name) if name else _corpora()
    if what == "analyses" and name:
        return _analysis(name)
    if what not in KINDS or name:
        raise VestigeError(
            f"cannot list {what if what not in KINDS else f'{what} {name}'!r}",
            fix="say analyses, corpora or runs; or formats, derived, recipes; analyses and corpora also with a name",
        )
    return (line for found, text in KINDS[what](under) for line in _hanging(found, text))


def _analyses(_: Path) -> Iterator[tuple[str, str]]:
    from vestige.analyses import analysis_names, find_analysis

    for name in analysis_names():
        try:
            kind = find_analysis(name)
        except VestigeError as error:
            yield name, f"cannot be used: {error.problem}"
        else:
            takes = f"tasks at level {', '.join(kind.levels)}" if kind.levels else "reads no corpus"
            yield name, f"{kind.title}; {takes} ({kind.source})"


def _analysis(name: str) -> Iterator[str]:
    """All that an analysis says of itself, and a study file that runs it."""
    from vestige.analyses import find_analysis
    from vestige.analyses.guide import about, parameters, study_file

    kind = find_analysis(name)
    yield f"{kind.name}: {kind.title}"
    for paragraph in about(kind).split("\n\n"):
        yield from ("", *wrap(" ".join(paragraph.split()), WIDTH, break_on_hyphens=False))
    yield ""
    for title, text in (("paper", kind.source), ("needs", _needs(kind)), ("levels", _levels(kind))):
        yield from _hanging(title, text)
    yield from ("", "parameters")
    for given in parameters(kind):
        default = "required" if given.default is None else f"default {given.default}"
        meaning = " ".join((given.meaning or "").split()).replace("None:", "null:")
        yield from _hanging(f"  {given.name}", f"{given.kind}; {default}. {meaning}")
    yield from ("", "metrics")
    for metric in kind.metrics:
        yield from _hanging(f"  {metric.name}", _measured(metric))
    yield from ("", f"a study file: vestige run {name}.yaml")
    yield from (f"  {line}" for line in study_file(kind).splitlines())


def _levels(kind: "type[Analysis]") -> str:
    return ", ".join(kind.levels) or "none: it reads no corpus"


def _needs(kind: "type[Analysis]") -> str:
    reference = {1: "", 2: "; a model and its reference"}[kind.models] + "; or a model alone" * kind.alone
    labels = "labels of a task" if kind.uses_labels else "words, no labels" if kind.levels else "no words"
    return f"{', '.join(sorted(kind.needs))}; {labels}{reference}"


def _measured(metric: "Metric") -> str:
    """Title, unit, which way is better, what it lies along and how it is compared."""
    axes = [" by ".join(filter(None, (axis.name, axis.second))) for axis in metric.along]
    lies = [f"along {', '.join(filter(None, axes))}"] * any(axes) + ["of the whole model"] * ("" in axes)
    said = [metric.title, metric.unit if metric.unit != "none" else "no unit", " and ".join(lies)]
    said += [f"{metric.better} is better"] * (metric.better != "neither") + [metric.role] * (metric.role != "result")
    if metric.margin is not None:
        percent = metric.unit == "percent"
        said.append(f"margin {100 * metric.margin:g} points" if percent else f"margin {metric.margin:g}")
    said += [f"compared by {type(metric.compared).__name__}"] * (metric.compared is not None)
    said += [f"confirmed by {metric.confirmed_by}"] * bool(metric.confirmed_by)
    return f"{'; '.join(said)}. {metric.about}"


def _formats(__: Path) -> Iterator[tuple[str, str]]:
    from vestige.corpus.formats import FORMATS

    for name, format in FORMATS.items():
        module, _, function = format.reader.partition(":")
        reader = getattr(import_module(f"vestige.corpus.readers.{module}"), function)
        options = ", ".join(list(signature(reader).parameters)[1:])
        about = (reader.__doc__ or "").strip().splitlines()[0]
        files = "one file, folder or archive" if format.whole else "a file per split"
        yield name, f"{about} From {files}{f'; options {options}' if options else ''}."


def _recipes(_: Path) -> Iterator[tuple[str, str]]:
    from vestige.finetune.recipe import load_recipe, recipes

    for name in recipes():
        found = load_recipe(name)
        values = f"rate {found.rate:g}, {found.epochs} epochs of batches of {found.batch}, {found.schedule} rate"
        yield name, f"{values}, for tasks at level {', '.join(found.levels)}"


def _runs(under: Path) -> Iterator[tuple[str, str]]:
    for lock in sorted(under.glob("*/study.lock.json")):
        state = "finished" if (lock.parent / "results.parquet").exists() else "not finished"
        yield lock.parent.name, f"{_asked(lock)} ({state}, {lock.parent})"


def _asked(lock: Path) -> str:
    """What a run was asked, in words."""
    try:
        said = load_json(read_file(lock, StorageError), nan=True)
        spec, failed = said["spec"], len(said.get("failed", []))
        analyses = ", ".join(dict.fromkeys(analysis["name"] for analysis in spec["analyses"]))
        limit = f", limit {spec['limit']}" if spec.get("limit") else ""
        problems = f", {failed} failed" if failed else ""
        read = f" on {', '.join(spec['corpora'])}" if spec["corpora"] else ""
        return f"{analyses} of {', '.join(spec['models'])}{read}{limit}{problems}"
    except (StorageError, ValueError, LookupError, TypeError, AttributeError):
        return "cannot be read"


def _derived(_: Path) -> Iterator[tuple[str, str]]:
    from vestige.corpus.derive import DERIVED

    for name, derived in DERIVED.items():
        needs = "; or ".join(", ".join(names) for names in derived.needs) or "words"
        labels = "no labels" if derived.level == "text" else f"labels per {derived.level}"
        yield name, f"{derived.description}; {labels}; from {needs}"


KINDS: dict[str, Callable[[Path], Iterable[tuple[str, str]]]] = {
    "analyses": _analyses,
    "formats": _formats,
    "derived": _derived,
    "recipes": _recipes,
    "runs": _runs,
}

GROUPS = {
    "built in": "built in",
    "here": "here",
    "hub": "to get: load_corpus fetches it from the Hugging Face hub",
    "by hand": "to get by hand: `vestige ls corpora NAME` says how",
    "licence": "to get under a licence: `vestige ls corpora NAME` says where",
}
"""Where a corpus is -> the heading of all that are there, in this order."""


def _place(entry: "Entry") -> str:
    if entry.builtin:
        return "built in"
    if entry.root():
        return "here"
    return "licence" if entry.restricted else "hub" if entry.hub else "by hand"


def _corpora() -> Iterator[str]:
    from vestige.corpus.catalog import entries

    found: dict[str, list[Entry]] = {place: [] for place in GROUPS}
    for entry in entries():
        found[_place(entry)].append(entry)
    yield _row("corpus", "train / dev / test", "labels per", "licence")
    for place, group in found.items():
        if group:
            yield ""
            yield GROUPS[place]
            for entry in group:
                yield _row(
                    f"  {entry.name}", _sizes(entry), ", ".join(dict.fromkeys(entry.tasks.values())), entry.licence
                )
    yield ""
    yield "Sizes are those published, in sentences or pairs."


def _row(name: str, sizes: str, levels: str, licence: str) -> str:
    return f"{name:33} {sizes:22} {_shorter(levels, 17):17} {_shorter(licence, 25)}".rstrip()


def _shorter(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _sizes(entry: "Entry") -> str:
    """Published sizes; of a corpus that is partly here, those of the splits that are."""
    root = entry.root()
    lacking = entry.absent(root) if root else {}
    return " / ".join("–" if split in lacking else str(entry.counts.get(split, "–")) for split in SPLITS)


def _corpus(name: str) -> Iterator[str]:
    from difflib import get_close_matches

    from vestige.corpus.catalog import entries, find_entry

    entry = find_entry(name)
    if entry is None:
        near = get_close_matches(name, [entry.name for entry in entries()], n=1)
        raise CorpusError(
            f"the catalog has no corpus {name!r}",
            fix=f"did you mean {near[0]!r}?" if near else "see `vestige ls corpora`",
        )
    yield f"{entry.name}: {entry.title}"
    root = entry.root()
    yield from _hanging("  where", _where(entry, root))
    yield from _read(entry) if root else _published(entry)
    for title, text in (("licence", entry.licence), ("citation", entry.citation), ("used by", ", ".join(entry.papers))):
        yield from _hanging(f"  {title}", text)
    if not entry.builtin:
        yield from _hanging("  to get", entry.get.strip())
        yield from _hanging("  folder", str(entry.roots()[0]))


def _where(entry: "Entry", root: Path | None) -> str:
    if entry.builtin:
        return "built in"
    if root:
        return str(root)
    if entry.hub and not entry.restricted:
        return f"not here; load_corpus({entry.name!r}) fetches {entry.hub['id']} from the Hugging Face hub"
    return "not here; it needs a licence" if entry.restricted else "not here"


def _published(entry: "Entry") -> Iterator[str]:
    sizes = ", ".join(f"{split} {count}" for split, count in entry.counts.items())
    yield from _hanging("  sizes", f"{sizes} (as published)" if sizes else "")
    for task, level in entry.tasks.items():
        yield from _hanging(f"  task {task}", level)


def _read(entry: "Entry") -> Iterator[str]:
    """What is in the files: sizes, labels, and what was left out."""
    from vestige.corpus.load import load_corpus

    corpus = load_corpus(entry.name)
    for split, sentences in corpus.splits.items():
        words = sum(len(sentence.words) + len(sentence.second) for sentence in sentences)
        unit = "pairs" if any(sentence.second for sentence in sentences) else "sentences"
        yield from _hanging(f"  {split}", f"{len(sentences)} {unit}, {words} words")
    for task in corpus.levels:
        yield from _hanging(f"  task {task}", _labels(corpus, task))
    for note in corpus.notes:
        yield from _hanging("  note", note)


def _labels(corpus: "Corpus", name: str) -> str:
    level = corpus.levels[name]
    if level in ("text", "tree"):
        return level
    found = {label for sentences in corpus.splits.values() for s in sentences for label in _each(s.annotations[name])}
    if all(isinstance(label, float | int) for label in found):
        return f"{level}, numbers from {min(found):g} to {max(found):g}"
    some = ", ".join(sorted(found)[:8])
    return f"{level}, {len(found)} labels: {some}{', ...' if len(found) > 8 else ''}"


def _each(annotation: Any) -> Iterator[Any]:
    """The single labels of an annotation of any level."""
    for item in annotation if isinstance(annotation, tuple) else (annotation,):
        yield from getattr(item, "labels", (item,))


def _hanging(name: str, text: str) -> list[str]:
    """The text beside the name, over as many lines as it needs."""
    indent = f"{name:24}" if len(name) < 24 else f"{name} "
    return wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=" " * 24,
        break_on_hyphens=False,
        break_long_words=False,
    )
