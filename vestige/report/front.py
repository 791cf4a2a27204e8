"""The pages of a run, what opens them, and what was done, in a line."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import get_args

from vestige.report.pages import ORDER, page_of
from vestige.report.reading import Reading
from vestige.report.types import Answer, Finding, Page, Topic
from vestige.report.wording import VERDICTS, count, listing

MOST = 8
"""So many findings open the report, at most; the others stand with their task. Paragraphs of more models are folded."""
QUIET = 3
"""Of these, so many of one page that claim no change."""
LIGHTEST = 0.25
"""What weighs less than this never opens the report."""


def read_pages(reading: Reading) -> list[tuple[str, Page]]:
    """The pages of all analyses that have something to show, by name."""
    names = sorted(reading.analyses, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    made = [(name, page_of(name)(reading, name)) for name in names]
    return [(name, page) for name, page in made if page.sections]


def take_opening(pages: Sequence[Page]) -> list[Finding]:
    """What opens the report; it is taken out of its sections."""
    found = opening(pages)
    chosen = {id(one) for one in found}
    for page in pages:
        for own in _lists(page):
            own[:] = [one for one in own if id(one) not in chosen]
    return found


def opening(pages: Sequence[Page]) -> list[Finding]:
    """The heaviest findings of all pages, in their order.

    Of what claims no change (weight below 1), `QUIET` findings of a page come before further ones, so that many
    undecided tasks of one analysis do not hide what the others measured.
    """
    lists = [(number, own) for number, page in enumerate(pages) for own in _lists(page)]
    ranked = sorted(((number, one) for number, own in lists for one in own), key=lambda pair: -pair[1].weight)
    first, later, quiet = list[int](), list[int](), Counter[int]()
    for number, one in ranked:
        quiet[number] += one.weight < 1
        if one.weight >= LIGHTEST:
            (first if one.weight >= 1 or quiet[number] <= QUIET else later).append(id(one))
    chosen = {*[*first, *later][:MOST]}
    return [one for _, own in lists for one in own if id(one) in chosen]


def all_findings(pages: Sequence[Page]) -> list[Finding]:
    """Every finding of every page, the heaviest first."""
    return sorted((one for page in pages for own in _lists(page) for one in own), key=lambda one: -one.weight)


def _lists(page: Page) -> Iterator[list[Finding]]:
    """The findings of every section and block."""
    for section in page.sections:
        yield section.findings
        yield from (block.findings for block in section.blocks)


def paragraphs(pages: Sequence[tuple[str, Page]]) -> list[tuple[str, list[tuple[Answer, str]]]]:
    """What opens the report: for every tuned model its sentences by topic, each with the page that has its evidence."""
    topics = get_args(Topic)
    found: dict[str, list[tuple[Answer, str]]] = {}
    for name, page in pages:
        for answer in page.answers:
            found.setdefault(answer.model, []).append((answer, name))
    return [(model, sorted(said, key=lambda one: topics.index(one[0].topic))) for model, said in found.items()]


def overview(reading: Reading, pages: Sequence[Page], opening: Sequence[Finding]) -> str:
    """One sentence over everything; or that nothing is compared, or nothing claimed."""
    texts = [page.overview for page in pages if page.overview]
    if texts:
        return " ".join(texts)
    if not reading.compares:
        return "No model of this study is compared with another: what was measured follows."
    tested = reading.comparisons
    claimed = len(tested) > 0 and tested["verdict"].isin(VERDICTS[:4]).any()
    if claimed or (opening and tested.empty):
        return ""
    return "Models of this study are compared, and nothing is claimed of their differences: what was measured follows."


def statement(reading: Reading) -> str:
    """What was compared and measured, in a line."""
    against: dict[str, dict[str, None]] = {}
    pairs = [table[["reference", "model"]].dropna() for table in (reading.comparisons, reading.results) if len(table)]
    for reference, model in dict.fromkeys(pair for one in pairs for pair in one.itertuples(index=False, name=None)):
        against.setdefault(reference, {})[model] = None
    if against:
        sides = [f"{_named(reading, base)} against {_listed(reading, names)}" for base, names in against.items()]
        subject = listing(sides)
    else:
        subject = _listed(reading, [name for name in reading.results["model"].unique() if name not in reading.twins])
    return f"{subject}, measured by {'; '.join(_measured(reading))}{_scored(reading)}."


def _listed(reading: Reading, models: Sequence[str] | dict[str, None]) -> str:
    """Models by name; of more than `MOST` the first, and how many there are."""
    named = [_named(reading, name) for name in [*models][: 3 if len(models) > MOST else None]]
    return listing([*named, f"{count(len(models) - len(named))} more"] if len(models) > MOST else named)


def _named(reading: Reading, name: str) -> str:
    """A model with where it comes from: 'tuned (fine-tuned on sst/label)'."""
    run = (reading.lock.get("models", {}).get(name) or [{}])[0]
    origin = f"fine-tuned on {run['tuned_on']}" if run.get("tuned_on") else run.get("source")
    return f"{name} ({origin})" if origin and origin not in (name, "(given)") else name


def _measured(reading: Reading) -> list[str]:
    """Analyses with their tasks: 'layer probe and neurons (upos and deprel of treebank)'."""
    found: dict[str, list[str]] = {}
    for name in reading.analyses:
        rows = reading.results[reading.results["analysis"] == name]
        tasks: dict[str, list[str]] = {}
        for corpus, task, params in rows[["corpus", "task", "params"]].drop_duplicates().itertuples(index=False):
            own = tasks.setdefault(corpus, [])
            own += [task] if task not in own and reading.declared[params].uses_labels else []
        where = listing([f"{listing(own)} of {corpus}" if own else corpus for corpus, own in tasks.items()])
        found.setdefault(where, []).append(name.replace("_", " "))
    return [f"{listing(names)} ({where})" if where else listing(names) for where, names in found.items()]


def _scored(reading: Reading) -> str:
    """How much was compared, where it is the same throughout but for labels and groups of words."""
    table = reading.comparisons
    table = table[table["label"].isna()] if "label" in table else table
    sizes = {name: set(table[name].dropna().astype(int)) if name in table else set() for name in ("items", "sentences")}
    if any(len(own) != 1 for own in sizes.values()):
        return ""
    return ", on " + " in ".join(f"{count(own.pop())} {name}" for name, own in sizes.items())
