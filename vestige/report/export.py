"""The tables and figures of a report as files: for a paper, a spreadsheet, a slide.

Every file is listed in `index.md` with its caption, and with one line that says where its numbers come from: the
study, the version and the hash of the run.
"""

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vl_convert

from vestige.cache import write_file
from vestige.errors import VestigeError
from vestige.report.drawing.parts import PLACE_WIDTH
from vestige.report.front import read_pages
from vestige.report.names import citation, file_name
from vestige.report.reading import Reading
from vestige.report.table_text import csv_table, latex_table, markdown_table, plain_number
from vestige.report.types import Block, Figure, Page, Table

ENDINGS = {"csv": "csv", "latex": "tex", "markdown": "md", "xlsx": "xlsx"}
COLUMN = 340
"""Width of a figure in points, if it is not said: a column and a half of two, or a narrow page."""
SCALE = 3
"""Pixels of a PNG for every point."""
FONT = {"labelFontSize": 9, "titleFontSize": 10}
LOOK: dict[str, Any] = {
    "background": "white",
    "axis": {**FONT, "titleFontWeight": "normal"},
    "legend": {**FONT, "layout": {"top": {"direction": "vertical", "anchor": "start"}}},
    "title": {"fontSize": 11},
    "header": FONT,
}


@dataclass(frozen=True)
class Exported:
    """One table or figure, and what its files are called."""

    name: str
    """Without an ending, below the folder of the export."""
    thing: Table | Figure
    caption: str


def export(
    reading: Reading,
    target: Path,
    tables: Sequence[str] = ("csv",),
    figures: Sequence[str] = ("pdf",),
    width: int = COLUMN,
) -> list[Path]:
    """Write everything that the report shows; the files, `index.md` first."""
    _check("tables", tables, ENDINGS)
    _check("figures", figures, _DRAWN)
    found = list(shown(reading))
    source, made = citation(reading), list[Path]()
    listed = [f"# {reading.title}", source]
    for one in found:
        formats = tables if isinstance(one.thing, Table) else figures
        files = []
        for form in (form for form in formats if form != "xlsx"):
            path = target / f"{one.name}.{ENDINGS.get(form, form)}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, _written(one.thing, form, source, one.caption, width))
            files.append(path)
        made += files
        if files:
            links = ", ".join(f"[{path.name}]({path.relative_to(target).as_posix()})" for path in files)
            listed.append(f"- {one.caption}: {links}")
    if "xlsx" in tables:
        made.append(_workbook(target / "tables.xlsx", [one for one in found if isinstance(one.thing, Table)], source))
        listed.append("- all tables, a sheet each: [tables.xlsx](tables.xlsx)")
    index = target / "index.md"
    index.parent.mkdir(parents=True, exist_ok=True)
    write_file(index, ("\n\n".join(listed[:2]) + "\n\n" + "\n".join(listed[2:]) + "\n").encode())
    return [index, *made]


def shown(reading: Reading) -> Iterator[Exported]:
    """Every table and figure of the report, in its order, under names that tell and never collide."""
    taken: dict[str, int] = {}
    for analysis, page in read_pages(reading):
        for where, caption, thing in _of_page(page):
            stem = file_name("-".join(filter(None, (where, caption))))
            place = f"{analysis}/{'table' if isinstance(thing, Table) else 'figure'}-{stem}"
            taken[place] = taken.get(place, 0) + 1
            name = place if taken[place] == 1 else f"{place}-{taken[place]}"
            yield Exported(name, thing, ": ".join(filter(None, (page.title, where, caption))))


def _of_page(page: Page) -> Iterator[tuple[str, str, Table | Figure]]:
    for section in page.sections:
        where = section.name or section.title
        for block in section.blocks:
            for caption, thing in _of_block(block):
                yield where, caption, thing


def _of_block(block: Block) -> Iterator[tuple[str, Table | Figure]]:
    for figure in block.figures:
        several = len(block.figures) > 1 or not block.heading
        yield figure.description if several else block.heading, figure
    for table in block.tables:
        yield table.caption or block.heading, table
    for folded in block.folded:
        for figure in folded.figures:
            yield folded.title, figure
        for table in folded.tables:
            yield table.caption or folded.title, table


def _check(what: str, asked: Sequence[str], known: dict[str, Any]) -> None:
    for form in asked:
        if form not in known:
            raise VestigeError(f"{what} cannot be written as {form!r}", fix=f"choose from {', '.join(known)}")


def _written(thing: Table | Figure, form: str, source: str, caption: str, width: int) -> bytes:
    if isinstance(thing, Figure):
        return _DRAWN[form](sized(thing, width))
    if form == "latex":
        return latex_table(thing, caption, source).encode()
    text = csv_table(thing) if form == "csv" else f"{caption}\n\n{markdown_table(thing)}\n\n*{source}*\n"
    return text.encode()


def sized(figure: Figure, width: int) -> dict[str, Any]:
    """The specification at a width of its own, with fonts that can be read in a column."""
    own = max(width, figure.width or 0)
    spec = json.loads(json.dumps(figure.spec).replace(PLACE_WIDTH, str(own)))
    return {**spec, "width": own, "autosize": {"type": "fit-x", "contains": "padding"}, "config": LOOK}


_DRAWN: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "pdf": lambda spec: vl_convert.vegalite_to_pdf(spec),
    "svg": lambda spec: vl_convert.vegalite_to_svg(spec).encode(),
    "png": lambda spec: vl_convert.vegalite_to_png(spec, scale=SCALE),
}


def _workbook(path: Path, found: Sequence[Exported], source: str) -> Path:
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise VestigeError(
            "a workbook needs openpyxl, which is not installed", fix="pip install openpyxl, or take csv"
        ) from error
    book = Workbook()
    first = book.active
    first.title = "contents"
    first.append([source])
    for number, one in enumerate(found, start=1):
        assert isinstance(one.thing, Table)
        sheet = book.create_sheet(f"{number}")
        first.append([number, one.caption])
        for row in (one.thing.head, *one.thing.rows):
            sheet.append([_value(cell) for cell in row])
    content = io.BytesIO()
    book.save(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content.getvalue())
    return path


def _value(cell: str) -> float | str:
    """A number where the cell is one; what begins like a formula stays text."""
    text = plain_number(cell)
    if re.fullmatch(r"[+-]?\d+(\.\d+)?", text):
        return float(text)
    return f"'{text}" if text[:1] in "=+-@" and text[:1] else text
