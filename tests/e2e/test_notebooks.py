"""The notebooks run from the first cell to the last, on tiny models under the names that they use."""

import os
from pathlib import Path

import pytest
import shelf

NOTEBOOKS = sorted((shelf.ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return shelf.fill(tmp_path_factory.mktemp("shelf"))


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["first_comparison", "watching_a_tuning"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(place, notebook, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("VESTIGE_CACHE", str(place / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(shelf.ROOT), os.environ.get("PYTHONPATH", "")]))
    book = nbformat.read(notebook, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "notebooks are kept without outputs"
    client = nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(place)}})
    client.execute()
    shown = [
        output.data.get("text/html", "")
        for cell in book.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    assert sum("opens the report" in one for one in shown) == 1, "the summary of the run"
    assert sum("<table" in one for one in shown) >= 1 and sum("vegaEmbed" in one for one in shown) >= 1
