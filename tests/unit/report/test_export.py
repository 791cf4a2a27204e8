"""Tables and figures as files: each is what the page shows, and says where it comes from."""

import csv
import io
import shutil
import subprocess

import pytest
from report_frames import CONVERGED, small_frames
from typer.testing import CliRunner

from vestige.cli import app
from vestige.errors import VestigeError
from vestige.report.export import ENDINGS, export, shown
from vestige.report.names import citation
from vestige.report.table_text import csv_table, latex, latex_table
from vestige.report.types import Figure, Table

ODD = Table(
    "50 % of A & B_c", ["layer", "change \u2192", "q"], [["1", "\u22120.5 \u00b1 1", "< 0.05"], ["{2}", "\u2013", "~"]]
)


@pytest.fixture(scope="module")
def reading():
    return small_frames([("c", "upos"), ("c", "xpos")], parameters=(CONVERGED,), changes=[0.0, -0.03]).reading


def test_everything_that_is_shown_gets_a_name_of_its_own(reading):
    found = list(shown(reading))
    assert len({one.name for one in found}) == len(found) > 6
    assert {type(one.thing) for one in found} == {Table, Figure}
    assert all(one.caption for one in found)


def test_all_formats_are_written_and_listed(reading, tmp_path):
    pytest.importorskip("openpyxl")
    made = export(reading, tmp_path, tuple(ENDINGS), ("svg", "png", "pdf"))
    found = list(shown(reading))
    tables = [one for one in found if isinstance(one.thing, Table)]
    assert len(made) == 1 + 3 * len(tables) + 3 * (len(found) - len(tables)) + 1
    listed = made[0].read_text()
    assert citation(reading) in listed and all(path.name in listed for path in made[1:])
    starts = {".pdf": b"%PDF", ".png": b"\x89PNG", ".svg": b"<svg", ".xlsx": b"PK"}
    for path in made:
        assert path.read_bytes().startswith(starts.get(path.suffix, b""))


def test_csv_has_numbers_that_programs_read():
    rows = list(csv.reader(io.StringIO(csv_table(ODD))))
    assert rows == [["layer", "change \u2192", "q"], ["1", "-0.5 \u00b1 1", "< 0.05"], ["{2}", "", "~"]]


def test_a_workbook_has_numbers_and_no_formula(reading, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    export(reading, tmp_path, ("xlsx",), ())
    book = openpyxl.load_workbook(tmp_path / "tables.xlsx")
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert any(isinstance(cell.value, float | int) for cell in cells)
    assert not any(cell.data_type == "f" for cell in cells)


def test_what_latex_would_take_for_a_command_is_escaped():
    assert latex("50 % of A & B_c #1 {x} $") == r"50 \% of A \& B\_c \#1 \{x\} \$"
    assert r"\toprule" in latex_table(ODD, ODD.caption) and latex_table(ODD).count(r" \\") == 3


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_tables_compile(reading, tmp_path):
    tables = [one.thing for one in shown(reading) if isinstance(one.thing, Table)]
    body = "\n".join(latex_table(table, table.caption, "source") for table in (ODD, *tables[:5]))
    page = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n" + body + "\\end{document}\n"
    (tmp_path / "page.tex").write_text(page)
    done = subprocess.run(["pdflatex", "-halt-on-error", "page.tex"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


def test_unknown_formats_are_refused(reading, tmp_path):
    with pytest.raises(VestigeError, match=r"'docx'.*\n.*csv, latex"):
        export(reading, tmp_path, ("docx",))
    with pytest.raises(VestigeError, match=r"'gif'.*\n.*pdf, svg, png"):
        export(reading, tmp_path, (), ("gif",))
    assert not [*tmp_path.iterdir()]


def test_the_command_says_where_the_files_are(tmp_path):
    import shelf

    run = str(shelf.ROOT / "examples" / "merchant2020_depth" / "results")
    said = CliRunner().invoke(app, ["export", run, "--figures", "svg", "--out", str(tmp_path / "out")])
    assert said.exit_code == 0, said.output
    assert "index.md" in said.output and [*tmp_path.rglob("*.svg")] and [*tmp_path.rglob("*.csv")]
