"""Edge-probing JSON lines."""

import json
from pathlib import Path

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.readers.edges import read_edges
from vestige.corpus.types import Span, SpanPair
from vestige.errors import CorpusError


@pytest.fixture
def write(tmp_path: Path):
    def write(*records: dict | str) -> Path:
        lines = (record if isinstance(record, str) else json.dumps(record) for record in records)
        (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return tmp_path / "a.jsonl"

    return write


def record(*targets: dict, text: str = "Dogs bark at night", **more) -> dict:
    return {"text": text, "targets": list(targets), "info": {"document_id": "x"}, **more}


def one(start: int = 0, end: int = 1, label="A", **more) -> dict:
    return {"span1": [start, end], "label": label, "info": {"height": 1}, **more}


def two(label="A") -> dict:
    return one(0, 1, label, span2=[2, 4])


def test_one_span_a_target_makes_spans(write):
    corpus = load_corpus({"train": write(record(one(0, 1), one(2, 4, "B")))}, format="edges", task="pos")
    (sentence,) = corpus["train"]
    assert sentence.words == ("Dogs", "bark", "at", "night")
    assert sentence.annotations == {"pos": (Span(0, 1, ("A",)), Span(2, 4, ("B",)))}
    assert corpus.levels == {"pos": "span"}


def test_two_spans_a_target_make_pairs(write):
    corpus = load_corpus({"train": write(record(two()))}, format="edges")
    assert corpus["train"][0].annotations == {"edge": (SpanPair((0, 1), (2, 4), ("A",)),)}
    assert corpus.levels == {"edge": "span_pair"}


def test_a_target_may_have_several_labels_or_none(write):
    (sentence,) = read_edges(write(record(one(label=["A", "B"]), one(label=[]))))
    assert [span.labels for span in sentence.annotations["edge"]] == [("A", "B"), ()]


def test_whole_numbers_become_text(write):
    (sentence,) = read_edges(write(record(one(label=0), one(label=[1, 2]))))
    assert [span.labels for span in sentence.annotations["edge"]] == [("0",), ("1", "2")]


def test_records_without_targets_are_left_out_and_counted(write):
    path = write(record(), {"text": "No"}, record(one()), "", {"text": "No", "targets": None})
    found = read_edges(path)
    assert [s.source for s in found] == [f"{path}:3"]
    assert found.notes == (f"{path}: 3 records without targets left out",)
    assert read_edges(write(record(one()))).notes == ()


def test_equal_texts_have_ids_of_their_own(write):
    first, second = read_edges(write(record(one()), record(one(1, 2))))
    assert second.id == f"{first.id}-2"


@pytest.mark.parametrize(
    "bad, problem",
    [
        ('{"text": "Yes", "targets": [}', "not JSON: .* at column 29"),
        ('["Yes"]', "expected the line to be an object"),
        (record(one(2, 2)), r"'span1' is an empty span, \[2, 2\) of 4 words"),
        (record(one(3, 5)), r"'span1' is a span outside the text, \[3, 5\) of 4 words"),
        (record(one(-1, 1)), r"'span1' is a span outside the text, \[-1, 1\) of 4 words"),
        (record(one(2, 1)), r"'span1' is a span outside the text, \[2, 1\) of 4 words"),
        (record(one(span2=[4, 5])), r"'span2' is a span outside the text, \[4, 5\) of 4 words"),
        (record(one() | {"span1": [0]}), r"expected 'span1' as \[start, end\], found \[0\]"),
        (record(one() | {"span1": [0, 1.0]}), r"expected 'span1' as \[start, end\]"),
        (record({"label": "A"}), "expected a field 'span1', found label"),
        (record({"span1": [0, 1]}), "expected a field 'label', found span1"),
        (record(one(label=None)), "expected 'label' to be a text or a whole number or a list, found None"),
        (record(one(label=[True])), "expected a label to be a text or a whole number, found True"),
        (record(one(label=1)), "labels mix text and numbers"),
        (record(one(label=["A", 1])), "labels mix text and numbers"),
        (record(two()), "targets of one span and of two are mixed"),
        ({"targets": [one()]}, "expected a field 'text', found targets"),
        ({"text": "Yes", "targets": one()}, "expected 'targets' to be a list"),
    ],
)
def test_bad_records_are_reported_with_file_and_line(write, bad, problem):
    with pytest.raises(CorpusError, match=rf"a\.jsonl:2: {problem}"):
        read_edges(write(record(one()), bad))
