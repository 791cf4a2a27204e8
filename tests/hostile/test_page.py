"""The hostile table in docs is the one that its results give, and nothing in it went wrong."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))


def test_the_page_is_written_from_its_results_and_nothing_failed(tmp_path, monkeypatch):
    from benchmarks import hostile

    found = json.loads(hostile.RESULTS.read_text())
    monkeypatch.setattr(hostile, "PAGE", tmp_path / "hostile.md")
    hostile.write(found)
    assert (tmp_path / "hostile.md").read_text() == (ROOT / "docs" / "hostile.md").read_text()
    rows = [*found["cases"], *found["mutants"]]
    assert all(row[verdict] == 0 for row in rows for verdict in ("raw", "hang", "silently wrong"))
    assert all(row["tried"] == row["clear"] + row["right"] for row in rows)
