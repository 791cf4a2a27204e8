"""A table as text: a pipe table of markdown, comma-separated values, LaTeX."""

import csv
import html
import io
import re

from vestige.report.types import Table
from vestige.report.wording import DASH, MINUS

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", MINUS: "$-$", DASH: "--", "\u00b1": r"$\pm$",
    "\u2192": r"$\to$", "\u00a0": "~", "\u202f": r"\,", "\u2009": r"\,", "\u2264": r"$\leq$", "\u2265": r"$\geq$",
    "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def plain(text: str) -> str:
    """Text that markdown and the HTML inside it leave as it is."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", html.escape(text.replace("\n", " "), quote=False))


def markdown_table(table: Table) -> str:
    """A pipe table: words to the left, numbers to the right."""
    rows = [[plain(cell) for cell in line] for line in (table.head, *table.rows)]
    rows.insert(1, [*[":--"] * table.words, *["--:"] * (len(table.head) - table.words)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def csv_table(table: Table) -> str:
    """Comma-separated, with plain minus signs, nothing but the table."""
    target = io.StringIO()
    csv.writer(target, lineterminator="\n").writerows(
        [plain_number(cell) for cell in row] for row in (table.head, *table.rows)
    )
    return target.getvalue()


def plain_number(cell: str) -> str:
    """A minus sign that programs read; no dash for what is missing."""
    return "" if cell == DASH else cell.replace(MINUS, "-")


def latex_table(table: Table, caption: str = "", source: str = "") -> str:
    """A table with booktabs' rules; `\\usepackage{booktabs}` is all that it needs."""
    columns = "l" * table.words + "r" * (len(table.head) - table.words)
    rows = [" & ".join(map(latex, row)) + r" \\" for row in (table.head, *table.rows)]
    lines = [
        f"% {source}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex(caption)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        rows[0],
        r"\midrule",
        *rows[1:],
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex(text: str) -> str:
    """Text that LaTeX prints as it is; other characters beyond ASCII are left to its engine."""
    return "".join(_LATEX.get(character, character) for character in text)
