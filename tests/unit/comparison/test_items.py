"""Items of lm-evaluation-harness: paired by document, refused where they are not the same, judged as all else is."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from vestige.cli import app
from vestige.comparison.differences import compare
from vestige.comparison.estimators import Mean
from vestige.comparison.items import COLUMNS, compare_items
from vestige.errors import AnalysisError

DATE = "2026-05-01T10-00-00.123456"


def line(number: int, *, document: str = "", prompt: str = "p", **metrics: object) -> dict:
    """As lm-eval 0.4.3 and later write it."""
    return {
        "doc_id": number, "doc": {"question": number}, "target": "x", "arguments": {}, "resps": [], "filtered_resps": [],
        "filter": "none", "metrics": list(metrics), "doc_hash": document or f"d{number}", "prompt_hash": prompt,
        "target_hash": "t", **metrics,
    }  # fmt: skip


def write(folder: Path, lines: list, task: str = "piqa", date: str = DATE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}_{date}.jsonl"
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    return path


def right(share: float, count: int = 120, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random(count) < share).astype(float)


def lines_of(values: np.ndarray, **more: object) -> list[dict]:
    return [line(number, acc=float(value), **more) for number, value in enumerate(values)]


@pytest.fixture
def sides(tmp_path) -> tuple[Path, Path]:
    """A tuned model that is better on one task, and the same as the base on another."""
    base, tuned = tmp_path / "base", tmp_path / "tuned"
    for task, shares in (("piqa", (0.5, 0.9)), ("arc_easy", (0.6, 0.6))):
        for folder, share in zip((base, tuned), shares, strict=True):
            write(folder, lines_of(right(share)), task)
    return base, tuned


def test_every_task_and_metric_is_judged(sides):
    table = compare_items(*sides)
    assert list(table.columns) == list(COLUMNS) and table.attrs["notes"] == []
    by_task = table.set_index("task")
    assert dict(by_task["verdict"]) == {"piqa": "higher", "arc_easy": "unchanged"}
    assert by_task.loc["piqa", "difference"] == pytest.approx(right(0.9).mean() - right(0.5).mean())
    assert by_task.loc["piqa", "low"] > 0 and by_task.loc["arc_easy", "difference"] == 0
    assert set(by_task["items"]) == {120} and set(by_task["margin"]) == {0.01}


def test_the_numbers_are_those_of_our_paired_comparison_and_q_is_corrected_over_tasks(sides):
    import pandas as pd
    import scipy

    table = compare_items(*sides).set_index("task")
    frames = [pd.DataFrame({"sentence": range(120), "value": right(share)}) for share in (0.5, 0.9)]
    (own,) = compare(Mean(), frames[0], [frames[1]], 0.01, places=()).itertuples()
    assert tuple(table.loc["piqa", ["low", "high", "p", "p_equivalence"]]) == (
        own.low,
        own.high,
        own.p,
        own.p_equivalence,
    )
    assert list(table["q"]) == list(scipy.stats.false_discovery_control(table["p"]))


def test_the_order_of_lines_does_not_matter(sides, tmp_path):
    shuffled = lines_of(right(0.9))
    np.random.default_rng(1).shuffle(shuffled)
    other = write(tmp_path / "other", shuffled)
    one = compare_items(sides[0] / other.name, other)
    assert one["difference"][0] == compare_items(sides[0] / other.name, sides[1] / other.name)["difference"][0]


def test_other_documents_are_refused(sides, tmp_path):
    changed = lines_of(right(0.9))
    changed[7]["doc_hash"] = "another"
    path = write(tmp_path / "other", changed)
    with pytest.raises(AnalysisError, match=r"piqa: document 7 is not the same on both sides .*:8.*:8"):
        compare_items(sides[0] / path.name, path)
    changed = lines_of(right(0.9))
    changed[3]["target_hash"] = "another"
    path = write(tmp_path / "gold", changed)
    with pytest.raises(AnalysisError, match="document 3 is not the same"):
        compare_items(sides[0] / path.name, path)


def test_documents_of_one_side_are_left_out_and_counted(sides, tmp_path):
    path = write(tmp_path / "fewer", lines_of(right(0.9))[:100])
    table = compare_items(sides[0] / path.name, path)
    assert (table["items"][0], table["dropped_items"][0]) == (100, 20)
    assert "20 documents that only one side has" in table.attrs["notes"][0]


def test_other_prompts_are_counted(sides, tmp_path):
    path = write(tmp_path / "shots", lines_of(right(0.9), prompt="with examples"))
    table = compare_items(sides[0] / path.name, path)
    assert table["other_prompts"][0] == 120 and "120 of 120 prompts differ" in table.attrs["notes"][0]


def test_files_of_before_there_were_hashes_are_matched_by_their_documents(tmp_path):
    old = [
        {"doc_id": n, "doc": {"q": n}, "target": "y", "arguments": [], "resps": [], "filtered_resps": [], "acc": n % 2}
        for n in range(40)
    ]
    paths = [write(tmp_path / name, old) for name in "ab"]
    assert compare_items(*paths)["verdict"][0] == "unchanged"
    paths[1].write_text(paths[1].read_text().replace('{"q": 5}', '{"q": 50}'))
    with pytest.raises(AnalysisError, match="document 5 is not the same"):
        compare_items(*paths)


def test_what_has_no_number_per_item_is_named_and_not_compared(tmp_path):
    paths = [write(tmp_path / name, lines_of(right(0.5), f1=[0, 1], bleu=["a", "b"])) for name in "ab"]
    table = compare_items(*paths)
    assert list(table["metric"]) == ["acc"]
    assert [note.split(" is ")[0] for note in table.attrs["notes"]] == ["piqa: f1", "piqa: bleu"]
    only = [write(tmp_path / f"only {name}", [line(0, f1=[0, 1])]) for name in "ab"]
    with pytest.raises(AnalysisError, match="no metric with a number per item"):
        compare_items(*only)


def test_a_metric_that_is_not_finite_is_named_with_its_place(tmp_path):
    paths = [write(tmp_path / name, lines_of(right(0.5), nll=1.0)) for name in "ab"]
    paths[1].write_text(paths[1].read_text().replace('"nll": 1.0', '"nll": NaN', 1))
    table = compare_items(*paths)
    assert list(table["metric"]) == ["acc"]
    assert table.attrs["notes"] == [f"piqa: nll is nan at {paths[1]}:1, and is not compared"]


def test_filters_are_compared_apart(tmp_path):
    both = [one | {"filter": name} for name in ("strict-match", "flexible-extract") for one in lines_of(right(0.5))]
    table = compare_items(*[write(tmp_path / name, both, "gsm8k") for name in "ab"])
    assert list(table["filter"]) == ["strict-match", "flexible-extract"]


def test_few_documents_are_described_only(tmp_path):
    paths = [write(tmp_path / f"{share}", lines_of(right(share, 20))) for share in (0.1, 0.9)]
    table = compare_items(*paths)
    assert table["verdict"][0] == "described" and table["difference"][0] > 0.5 and np.isnan(table["low"][0])


def test_a_metric_that_is_no_share_needs_a_margin_to_be_called_unchanged(tmp_path):
    paths = [write(tmp_path / name, [line(n, nll=3.0 + n % 2) for n in range(60)]) for name in "ab"]
    table = compare_items(*paths)
    assert np.isnan(table["margin"][0]) and table["verdict"][0] == "undecided"
    assert compare_items(*paths, margin={"nll": 0.1})["verdict"][0] == "unchanged"


def test_the_last_of_several_files_of_a_task_is_read(sides):
    write(sides[1], lines_of(right(0.1)), date="2025-01-01T00-00-00.1")
    table = compare_items(*sides)
    assert table.set_index("task").loc["piqa", "verdict"] == "higher"
    assert "samples_piqa_2026" in table.attrs["notes"][0]


def test_tasks_of_one_side_are_named(sides):
    write(sides[0], lines_of(right(0.5)), "boolq")
    assert compare_items(*sides).attrs["notes"] == ["boolq: only the base has it"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda lines: [*lines, lines[4]], r"document 4 of piqa for the second time \(first: .*:5"),
        (lambda lines: ['{"doc_id": 1, '], r":1: not JSON"),
        (lambda lines: ["[1, 2]"], r":1: expected an object with a whole number under 'doc_id'"),
        (lambda lines: [{**lines[0], "doc_id": "0"}], r":1: expected an object"),
        (lambda lines: [line(500, acc=1.0)], "piqa: no document that both sides have"),
        (lambda lines: [], "no metric with a number per item"),
    ],
)
def test_what_is_not_as_lm_eval_writes_it_is_named(sides, tmp_path, spoil, says):
    path = write(tmp_path / "spoilt", spoil(lines_of(right(0.5))))
    with pytest.raises(AnalysisError, match=says):
        compare_items(sides[0] / path.name, path)


def test_places_that_hold_something_else_are_named(sides, tmp_path):
    with pytest.raises(AnalysisError, match="no such file"):
        compare_items(sides[0], tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(AnalysisError, match=r"no samples_\*.jsonl in this folder"):
        compare_items(sides[0], tmp_path / "empty")
    with pytest.raises(AnalysisError, match="items of several models"):
        compare_items(sides[0], tmp_path)
    with pytest.raises(AnalysisError, match="no task with a metric per item that both sides have"):
        compare_items(sides[0], write(tmp_path / "x", lines_of(right(0.5)), "boolq"))
    with pytest.raises(AnalysisError, match=r"(?s)no metric 'f1'.*choose from acc"):
        compare_items(*sides, metrics=["f1"])


def test_the_command_prints_and_writes_the_table(sides, tmp_path):
    out = tmp_path / "items.csv"
    said = CliRunner().invoke(app, ["compare-items", *map(str, sides), "--metric", "acc", "--out", str(out)])
    assert said.exit_code == 0, said.output
    assert "higher" in said.output and "unchanged" in said.output
    assert out.read_text().splitlines()[0] == ",".join(COLUMNS)
