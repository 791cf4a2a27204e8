"""The report as a README in GitHub markdown: the same findings and tables; what needs a chart is left to the page."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from vestige.cache import write_file
from vestige.report.front import overview, paragraphs, read_pages, statement, take_opening
from vestige.report.limits import limits
from vestige.report.reading import Reading
from vestige.report.table_text import markdown_table, plain
from vestige.report.types import Answer, Block, Finding, Page
from vestige.report.warnings import warnings

COMMAND = "vestige report RUN --format markdown"


def write_markdown(target: Path, reading: Reading, title: str = "") -> None:
    """Write the README of a run."""
    write_file(Path(target), render(reading, title).encode(errors="backslashreplace"))


def render(reading: Reading, title: str = "") -> str:
    """The whole README."""
    named = read_pages(reading)
    pages = [page for _, page in named]
    opening = take_opening(pages)
    limiting = _bullets(limits(reading, pages))
    parts = [
        f"# {plain(title or reading.title)}",
        f"*Written by `{COMMAND}`; every number below comes from the tables of the run. Do not edit: run it again.*",
        plain(statement(reading)),
        _bullets(warnings(reading)),
        *(["## Findings"] if opening or any(page.answers for page in pages) else []),
        *(_paragraph(model, said) for model, said in paragraphs(named)),
        *([plain(overview(reading, pages, opening)), *_by_lead(opening)] if opening else []),
        *(["## What this does not say", limiting] if limiting else []),
        *(part for page in pages for part in _page(page)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _paragraph(model: str, said: Sequence[tuple[Answer, str]]) -> str:
    sentences = [f"{plain(answer.text)} ({plain(page.replace('_', ' '))})" for answer, page in said]
    return f"**{plain(model)}.** {' '.join(sentences)}"


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {plain(line)}" for line in lines)


def _by_lead(findings: Sequence[Finding]) -> Iterator[str]:
    for lead, several in groupby(findings, key=lambda finding: finding.lead):
        yield f"**{plain(lead)}**"
        yield _bullets([finding.text for finding in several])


def _page(page: Page) -> Iterator[str]:
    yield f"## {plain(page.title)}"
    yield plain(page.lede)
    for section in page.sections:
        shown = [_bullets([finding.text for finding in section.findings])]
        shown += [part for block in section.blocks for part in _block(block)]
        if section.title and any(shown):
            yield f"### {plain(section.title)}" + (f" ({plain(section.name)})" if section.name else "")
        yield from shown


def _block(block: Block) -> Iterator[str]:
    """What can be read without a chart."""
    if not (block.tables or block.findings):
        return
    if block.heading:
        yield f"#### {plain(block.heading)}"
    yield plain(block.lede)
    yield _bullets([finding.text for finding in block.findings])
    for table in block.tables:
        yield plain(table.caption)
        yield markdown_table(table)
