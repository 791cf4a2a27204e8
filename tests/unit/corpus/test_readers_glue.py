"""GLUE's nine tasks in their public layouts."""

from pathlib import Path

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.readers.glue import LAYOUTS, read_glue
from vestige.errors import CorpusError

MNLI = "index\tpromptID\tpairID\tgenre\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"

FILES = {
    "cola": ("in1\t0\t*\tDogs barks loudly .\n", "0"),
    "cola with a header": ("sentence\tlabel\nDogs barks loudly .\t0\n", "0"),
    "sst2": ("sentence\tlabel\nDogs barks loudly . \t1\n", "1"),
    "mrpc": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tDogs barks loudly .\tThey do .\r\n", "1"),
    "qqp": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n5\t1\t2\tDogs barks loudly .\tThey do .\t0\n",
        "0",
    ),
    "stsb": ("news\tfile\t2012\t0003\t3.800\tDogs barks loudly .\tThey do .\tx\ty\n", 3.8),
    "stsb with a header": (
        "index\tgenre\tsentence1\tsentence2\tscore\n0\tnews\tDogs barks loudly .\tThey do .\t3.800\n",
        3.8,
    ),
    "mnli": (MNLI + "0\t1\t1e\tfiction\t(S)\t(S)\tDogs barks loudly .\tThey do .\tneutral\tentailment\n", "entailment"),
    "mnli with premises": (
        "index\tpremise\thypothesis\tgold_label\tvotes\n0\tDogs barks loudly .\tThey do .\tneutral\t9\n",
        "neutral",
    ),
    "qnli": ("index\tquestion\tsentence\tlabel\n0\tDogs barks loudly .\tThey do .\tnot_entailment\n", "not_entailment"),
    "rte": ("index\tsentence1\tsentence2\tlabel\n0\tDogs barks loudly .\tThey do .\tentailment\n", "entailment"),
    "wnli": ("index\tsentence1\tsentence2\tlabel\n0\tDogs barks loudly .\tThey do .\t1\n", "1"),
}


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str) -> Path:
        (tmp_path / "a.tsv").write_bytes(text.encode())
        return tmp_path / "a.tsv"

    return write


@pytest.mark.parametrize("layout", FILES)
def test_every_layout_gives_its_words_and_its_label(write, layout):
    text, label = FILES[layout]
    task = layout.split()[0]
    corpus = load_corpus({"dev": write(text)}, format="glue", task=task)
    (sentence,) = corpus["dev"]
    assert sentence.words == ("Dogs", "barks", "loudly", ".")
    assert sentence.second == (() if task in ("cola", "sst2") else ("They", "do", "."))
    assert sentence.annotations == {task: label}
    assert corpus.levels == {task: "sentence" if task in ("cola", "sst2") else "sentence_pair"}


def test_all_nine_tasks_are_there():
    assert {*LAYOUTS} == {layout.split()[0] for layout in FILES}
    assert len(LAYOUTS) == 9


@pytest.mark.parametrize(
    "task, header",
    [
        ("cola", "index\tsentence"),
        ("sst2", "index\tsentence"),
        ("mrpc", "index\t#1 ID\t#2 ID\t#1 String\t#2 String"),
        ("qqp", "id\tquestion1\tquestion2"),
        ("stsb", "index\tgenre\tsentence1\tsentence2"),
        ("mnli", "index\tgenre\tsentence1\tsentence2"),
        ("qnli", "index\tquestion\tsentence"),
    ],
)
def test_a_test_file_without_labels_is_told_as_such(write, task, header):
    row = "\t".join("x" for _ in header.split("\t"))
    with pytest.raises(CorpusError, match=rf"a\.tsv:1: no column .*the file has no labels of {task}") as raised:
        read_glue(write(f"{header}\n{row}\n"), task)
    assert "without labels" in raised.value.fix


@pytest.mark.parametrize("layout", ["sst2", "stsb with a header"])
def test_minus_one_means_no_label(write, layout):
    text = FILES[layout][0].replace("\t1\n", "\t-1\n").replace("3.800", "-1.000")
    with pytest.raises(CorpusError, match=r"a\.tsv:2: the label -1: the file has no labels"):
        read_glue(write(text), layout.split()[0])


def test_a_file_of_another_task_is_answered_with_the_columns_expected(write):
    expected = "expected a header of mnli with the columns gold_label, sentence1, sentence2 or gold_label, premise"
    with pytest.raises(CorpusError, match=rf"a\.tsv:1: {expected}"):
        read_glue(write(FILES["qnli"][0]), "mnli")


def test_pairs_without_a_gold_label_are_left_out_and_counted(write):
    text = MNLI + "0\t1\t1e\tg\t(S)\t(S)\tone\ttwo\tneutral\t-\n" + "1\t1\t1n\tg\t(S)\t(S)\tthree\tfour\tx\tneutral\n"
    found = read_glue(write(text), "mnli")
    assert [pair.words for pair in found] == [("three",)]
    assert "1 rows labelled - left out" in found.notes[0]


def test_rows_of_qqp_torn_by_a_line_end_are_left_out_and_counted(write):
    found = read_glue(write(FILES["qqp"][0] + "6\t3\t4\thalf a\nquestion\tand another\t1\n"), "qqp")
    assert len(found) == 1
    assert "2 broken rows left out" in found.notes[0]


def test_a_torn_row_of_any_other_task_is_an_error(write):
    with pytest.raises(CorpusError, match=r"a\.tsv:3: expected at least 4 tab-separated columns, found 2"):
        read_glue(write(FILES["rte"][0] + "1\thalf a\n"), "rte")


def test_a_score_that_is_no_number_is_reported_with_its_line(write):
    with pytest.raises(CorpusError, match=r"a\.tsv:1: expected a number as label, found 'high'"):
        read_glue(write(FILES["stsb"][0].replace("3.800", "high")), "stsb")


def test_an_unknown_task_is_answered_with_the_nearest(write):
    with pytest.raises(CorpusError, match="unknown GLUE task 'SST-2'; known: cola, ") as raised:
        read_glue(write(""), "SST-2")
    assert raised.value.fix == "did you mean 'sst2'?"
