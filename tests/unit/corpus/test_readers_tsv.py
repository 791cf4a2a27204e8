"""Pairs, numbers and rows left out of tab-separated files."""

from pathlib import Path

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.readers.glue import read_glue
from vestige.corpus.readers.tsv import read_tsv
from vestige.errors import CorpusError


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str) -> Path:
        (tmp_path / "a.tsv").write_text(text, encoding="utf-8")
        return tmp_path / "a.tsv"

    return write


def test_a_second_column_makes_pairs(write):
    path = write("label\tleft\tright\nyes\tIt rains .\tIt is wet .\n")
    (pair,) = read_tsv(path, sentence="left", second="right", task="nli")
    assert (pair.words, pair.second) == (("It", "rains", "."), ("It", "is", "wet", "."))
    assert pair.annotations == {"nli": "yes"}
    assert load_corpus({"train": path}, sentence="left", second="right").levels == {"label": "sentence_pair"}


def test_the_id_of_a_pair_depends_on_where_its_first_segment_ends(write):
    path = write("0\ta b\tc\n0\ta\tb c\n0\ta b\tc\n")
    first, other, again = (pair.id for pair in read_tsv(path, sentence=1, label=0, second=2))
    assert again == f"{first}-2"
    assert not other.startswith(first)


def test_the_id_of_a_single_sentence_does_not_depend_on_the_layout(write):
    by_name = read_tsv(write("sentence\tlabel\na b\t1\n"))[0].id
    assert read_tsv(write("1\ta b\n"), sentence=1, label=0)[0].id == by_name


def test_an_empty_second_segment_is_reported_with_file_and_line(write):
    with pytest.raises(CorpusError, match=r"a\.tsv:2: an empty sentence"):
        read_tsv(write("0\ta\tb\n0\ta\t \n"), sentence=1, label=0, second=2)


def test_an_empty_label_is_reported_with_file_and_line(write):
    path = write("sentence\tlabel\na\t1\nb\t \n")
    with pytest.raises(CorpusError, match=r"a\.tsv:3: an empty label"):
        read_tsv(path)
    assert len(read_tsv(path, skip_labels=("",))) == 1


def test_a_stray_tab_is_reported_with_file_and_line(write):
    with pytest.raises(CorpusError, match=r"a\.tsv:2: expected 2 tab-separated columns .*, found 3"):
        read_tsv(write("sentence\tlabel\ngood\tday today\tpositive\n"))


def test_files_without_rows_are_named(write):
    for text in ("", "\n \n"):
        with pytest.raises(CorpusError, match=r"a\.tsv: the file is empty"):
            read_tsv(write(text))
        with pytest.raises(CorpusError, match=r"a\.tsv: the file is empty"):
            read_glue(write(text), "sst2")
    with pytest.raises(CorpusError, match=r"a\.tsv: a header and no rows"):
        read_tsv(write("sentence\tlabel\n"))


def test_numeric_labels_are_floats(write):
    path = write("sentence\tlabel\na\t2.500\nb\t 4 \n")
    assert [s.annotations["label"] for s in read_tsv(path, numeric=True)] == [2.5, 4.0]
    assert [s.annotations["label"] for s in read_tsv(path)] == ["2.500", "4"]


@pytest.mark.parametrize("label", ["high", "", "nan", "inf"])
def test_a_label_that_is_no_number_is_reported_with_file_and_line(write, label):
    with pytest.raises(CorpusError, match=rf"a\.tsv:3: expected a number as label, found '{label}'"):
        read_tsv(write(f"sentence\tlabel\na\t1\nb\t{label}\n"), numeric=True)


def test_quotation_marks_are_text(write):
    first, second = read_tsv(write('sentence\tlabel\n"a b\t1\nc" d\t0\n'))
    assert (first.words, second.words) == (('"a', "b"), ('c"', "d"))


def test_rows_with_labels_to_skip_are_left_out_and_counted(write):
    found = read_tsv(write("sentence\tlabel\na\t-\nb\t1\nc\t-\n"), skip_labels=("-",))
    assert [s.words for s in found] == [("b",)]
    assert [note.partition(": ")[2] for note in found.notes] == ["2 rows labelled - left out"]


def test_broken_rows_are_left_out_and_counted_only_if_asked_for(write):
    path = write("sentence\tlabel\na\t1\ntorn\n \t0\n")
    found = read_tsv(path, skip_broken=True)
    assert [s.words for s in found] == [("a",)]
    assert [note.partition(": ")[2] for note in found.notes] == ["2 broken rows left out"]
    with pytest.raises(CorpusError, match=r"a\.tsv:3"):
        read_tsv(path)


def test_nothing_left_out_is_nothing_noted(write):
    assert read_tsv(write("sentence\tlabel\na\t1\n"), skip_labels=("-",), skip_broken=True).notes == ()
