"""What the pages of geometry and similarity say, and that they say nothing that no interval or verdict supports."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import synthetic
from report_frames import cells_frame, comparison, declared, lock_of, run_frame

from vestige.analyses.similarity import SimilarityAnalysis
from vestige.report.pages.geometry import page as geometry
from vestige.report.pages.similarity import page as similarity
from vestige.report.reading import Reading
from vestige.report.types import Page


def cloud(**by_metric: tuple[list[float], list[str]]) -> Page:
    """The page of two models whose metrics changed by so much at every layer, under these verdicts."""
    tables, rows = [], []
    for metric, (changes, verdicts) in by_metric.items():
        margin = {"mean_cosine": 0.02, "participation_ratio": 2.0}[metric]
        table = comparison(changes, metric, verdicts=verdicts, analysis="geometry").assign(margin=margin)
        tables.append(table)
        rows += [
            {"metric": metric, "layer": layer, "model": model, "value": 0.4 + change * (model == "tuned"),
             "params": "p0", "analysis": "geometry", "corpus": "bank", "task": "upos", "cell": model}
            for model in ("base", "tuned")
            for layer, change in enumerate(changes)
        ]  # fmt: skip
    lock = {**lock_of(), "declared": declared({}, analysis="geometry")}
    cells = cells_frame({}, analysis="geometry")
    return geometry(Reading(run_frame(rows), pd.concat(tables, ignore_index=True), cells, lock), "geometry")


def test_the_opening_tells_where_vectors_crowd_and_spread_with_the_largest_change():
    same = (["unchanged"] * 3, [0.0, 0.0, 0.0])[::-1]
    (said,) = cloud(mean_cosine=([0.0, 0.1, 0.3], ["unchanged", "higher", "higher"]), participation_ratio=same).answers
    assert said.text.replace("\u00a0", " ") == (
        "Word vectors point more in one direction (more anisotropic) at layers 1 and 2 (mean cosine of two words "
        "0.400 \u2192 0.700 at layer 2)."
    )
    assert (said.topic, said.model, said.kind) == ("representations", "tuned", "higher")
    both = {
        "mean_cosine": ([0.0, -0.1], ["unchanged", "lower"]),
        "participation_ratio": ([9.0, -5.0], ["higher", "lower"]),
    }
    (said,) = cloud(**both).answers
    assert "less anisotropic) at layer 1" in said.text and "more dimensions at the embeddings" in said.text
    assert "fewer dimensions at layer 1" in said.text


def test_the_opening_says_nothing_of_what_is_undecided_and_unchanged_only_where_all_is():
    undecided = ([0.0, 0.01], ["unchanged", "undecided"])
    assert cloud(mean_cosine=undecided, participation_ratio=undecided).answers == []
    same = ([0.0, 0.001], ["unchanged", "unchanged"])
    (said,) = cloud(mean_cosine=same, participation_ratio=same).answers
    assert (
        said.kind == "unchanged"
        and "mean cosine of two words (within \u00b10.02)" in said.text
        and "are unchanged" in said.text
    )
    assert cloud(mean_cosine=same, participation_ratio=undecided).answers == []


def test_many_numbers_of_one_cloud_do_not_outweigh_all_else():
    found = cloud(participation_ratio=([0.0, -100.0], ["unchanged", "lower"]))
    assert max(finding.weight for finding in found.findings) == 1.0
    assert any(finding.kind == "lower" for finding in found.findings)


def alike(half: float = 0.002, rows: dict[str, list[dict]] | None = None, **by_metric: list[float]) -> list[str]:
    """What is said of a model whose measures are these, by layer, each with an interval of so much on both sides."""
    where = {"model": "m", "params": "p0", "analysis": "similarity", "corpus": "bank", "task": "upos", "cell": "c0"}
    made = [
        {"metric": metric, "layer": layer, "value": value, "low": value - half, "high": value + half}
        for metric, values in by_metric.items()
        for layer, value in enumerate(values)
    ]
    made += [row for mine in (rows or {}).values() for row in mine]
    lock = {**lock_of(), "declared": declared({}, analysis="similarity")}
    reading = Reading(
        run_frame([{**row, **where} for row in made]), pd.DataFrame(), cells_frame({}, analysis="similarity"), lock
    )
    return [finding.text.replace("\u00a0", " ") for finding in similarity(reading, "similarity").findings]


@pytest.mark.parametrize(
    ("metric", "few", "without"),
    [
        ("cka_without_extremes", "a few words", "without extreme words"),
        ("cka_without_outliers", "a few units", "without outlier dimensions"),
    ],
)
def test_a_fall_of_cka_that_is_that_of_a_few_is_named_and_so_is_one_that_they_hide(metric, few, without):
    _, said = sorted(alike(cka=[0.99, 0.9, 0.4], **{metric: [0.99, 0.98, 0.97]}), key=lambda text: "due to" in text)
    assert said == (
        f"Most of the fall of CKA of m at layers 1 and 2 is due to {few}: 0.400 (0.398 to 0.402) with all, 0.970 "
        f"(0.968 to 0.972) {without}, at layer 2."
    )
    (said,) = [text for text in alike(cka=[0.99, 0.99], **{metric: [0.99, 0.5]}) if "CKA of m at layer 1 stays" in text]
    assert said.startswith(f"CKA of m at layer 1 stays high because of {few}: 0.990 (0.988 to 0.992) with all, 0.500")


def test_the_page_of_one_word_in_a_hundred_that_moved_far_away_names_them(tmp_path):
    """From vectors to the sentence; of a copy whose words all stayed, nothing is said."""
    corpus = synthetic.corpus(np.random.default_rng(0), sizes=(("test", 60),))

    def moved(rows: np.ndarray) -> np.ndarray:
        far = np.random.default_rng(1).choice(len(rows), len(rows) // 100, replace=False)
        return rows + 60 * np.isin(np.arange(len(rows)), far)[:, None]

    base = synthetic.represent(tmp_path / "base", corpus, synthetic.label_vector)
    for name, mapped, expected in (("moved", moved, 1), ("stayed", lambda rows: -rows, 0)):
        tuned = synthetic.represent(tmp_path / name, corpus, synthetic.label_vector, mapped=mapped)
        asked = SimilarityAnalysis(measures=("cka", "cka_without_extremes"))
        outcome = asked.run(replace(tuned, reference=base))
        values = {
            metric: [row for row in outcome.rows if row["metric"] == metric]
            for metric in ("cka", "cka_without_extremes")
        }
        said = [text for text in alike(rows=values) if "due to a few words" in text]
        assert len(said) == expected, values
        assert not expected or "at the embeddings and layers 1 and 2" in said[0]


@pytest.mark.parametrize(
    ("plain", "rest", "half"),
    [
        (0.6, 0.7, 0.002),  # they matter, but most of the fall is that of all
        (0.6, 0.95, 0.2),  # the intervals touch
        (0.996, 0.9999, 0.00001),  # hardly a fall
        (0.95, 0.9, 0.002),  # somewhat lower without them
    ],
)
def test_nothing_is_said_where_it_is_not_shown(plain, rest, half):
    said = alike(half, cka=[1.0, plain], cka_without_extremes=[1.0, rest], cka_without_outliers=[1.0, rest])
    assert len(said) == 1 and "due to" not in said[0] and "because" not in said[0]
