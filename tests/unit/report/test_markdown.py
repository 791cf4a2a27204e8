from pathlib import Path

import pandas as pd
from neuron_frames import neuron_frames
from report_frames import CONVERGED, DURRANI, Frames, lock_of, results_frame, small_frames

from vestige.report.markdown import plain, write_markdown


def written(frames: Frames, folder: Path, **options: str) -> str:
    write_markdown(folder / "README.md", *frames.all, **options, changes=frames.changes)
    return (folder / "README.md").read_text().replace("\u00a0", " ")


def test_it_says_at_the_top_which_command_wrote_it(tmp_path: Path) -> None:
    text = written(small_frames(), tmp_path, title="A study", intro="Why *this*.")
    assert text.startswith("# A study\n\n*Written by `vestige report RUN --format markdown`")
    assert "Why *this*." in text


def test_findings_and_tables(tmp_path: Path) -> None:
    text = written(small_frames(), tmp_path)
    assert "- Layer 3 of tuned loses 3.1 points of probe accuracy" in text
    assert "| layer | base | tuned | random twin |\n| :-- | --: | --: | --: |\n| embeddings | 80.1 |" in text
    assert "word-type majority 70.0, majority label 20.0" in text
    assert "| 3 | \u22123.1 (\u22123.5 to \u22122.7, q = 0.001) lower |" in text
    assert "Selectivity" in text


def test_every_setting_has_its_column(tmp_path: Path) -> None:
    text = written(small_frames(parameters=(CONVERGED, DURRANI)), tmp_path)
    assert "| base, linear probe, converged | tuned, linear probe, converged |" in text
    assert "| layer | tuned, linear probe, converged | tuned, linear probe, durrani |" in text


def test_a_study_that_compares_nothing_has_plain_tables(tmp_path: Path) -> None:
    results = results_frame(["base"], [("bank", "upos")], ["p0"], 4)
    text = written(Frames(results, pd.DataFrame(), small_frames().cells, lock_of((), twin=False)), tmp_path)
    assert "## Findings" not in text
    assert "| layer | base |" in text


def test_names_are_not_markup() -> None:
    assert plain("a|b <i> _c_") == r"a\|b &lt;i&gt; \_c\_"


def test_a_study_of_neurons_has_its_findings_and_tables(tmp_path: Path) -> None:
    text = written(neuron_frames(), tmp_path)
    assert "**Neurons: Part of speech**" in text
    assert "- 100 (5.0 %) of the" in text
    assert "## Neurons: Part of speech (bank/upos)" in text
    assert "| base | minimal set within 0.5 points | 100 | 5.0 | 92.5 | 50.0 | 42.5 |" in text
    assert "| bottom 5 %, retrained | 82.0 | 77.0 | \u22125.00 |" in text
    assert "| model | set | neurons |" in text
    assert "| :-- | :-- | --: |" in text
