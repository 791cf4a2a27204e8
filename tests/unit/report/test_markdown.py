from pathlib import Path

import pandas as pd
from neuron_frames import neuron_frames
from report_frames import CONVERGED, DURRANI, Frames, lock_of, results_frame, small_frames

from vestige.report.markdown import plain, write_markdown


def written(frames: Frames, folder: Path, **options: str) -> str:
    write_markdown(folder / "README.md", frames.reading, **options)
    return (folder / "README.md").read_text().replace("\u00a0", " ")


def test_it_says_at_the_top_which_command_wrote_it(tmp_path: Path) -> None:
    text = written(small_frames(), tmp_path, title="A study")
    assert text.startswith("# A study\n\n*Written by `vestige report RUN --format markdown`")


def test_findings_and_tables(tmp_path: Path) -> None:
    text = written(small_frames(), tmp_path)
    assert "- Layer 3 of tuned loses 3.1 points of probe accuracy" in text
    assert "| layer | probe accuracy, base | probe accuracy, tuned | probe accuracy, random twin |" in text
    assert "| :-- | --: | --: | --: |" in text and "\n| embeddings | 80.1 |" in text
    assert "| \u22123.10 | \u22123.50 to \u22122.70 | &lt; 0.001 | 0.001 | lower |" in text
    assert "Selectivity" in text and "### Labels that differ most" not in text


def test_every_setting_has_its_table(tmp_path: Path) -> None:
    text = written(small_frames(parameters=(CONVERGED, DURRANI)), tmp_path)
    assert "#### Part of speech (linear probe, converged)" in text
    assert "#### Part of speech (linear probe, durrani)" in text


def test_a_study_that_compares_nothing_has_plain_tables(tmp_path: Path) -> None:
    results = results_frame(["base"], [("bank", "upos")], ["p0"], 4)
    text = written(Frames(results, pd.DataFrame(), small_frames().cells, lock_of((), twin=False)), tmp_path)
    assert "## Findings" not in text
    assert "| layer | probe accuracy, base |" in text


def test_names_are_not_markup() -> None:
    assert plain("a|b <i> _c_") == r"a\|b &lt;i&gt; \_c\_"


def test_a_study_of_neurons_has_its_findings_and_tables(tmp_path: Path) -> None:
    text = written(neuron_frames(), tmp_path)
    assert "**Neurons: Part of speech**" in text
    assert "- 100 (5.0 %) of the" in text
    assert "## Neurons\n" in text and "### Part of speech (bank/upos)" in text
    assert "| base | minimal set within 0.5 points | 100 | 5.0 | 92.5 | 50.0 | 42.5 |" in text
    assert "| bottom 5 %, retrained | 82.0 | 77.0 | \u22125.00 |" in text
    assert "| model | set | neurons |" in text
    assert "| :-- | :-- | --: |" in text
