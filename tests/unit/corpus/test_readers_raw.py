"""Raw text by lines or paragraphs."""

from pathlib import Path

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.readers.raw import read_text
from vestige.errors import CorpusError

TEXT = " \n = Dogs = \n \n Dogs bark . \nThey  do .\n\n\nYes\n = Dogs = \n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_every_line_that_is_not_blank_is_a_sentence(path):
    found = read_text(path)
    assert [" ".join(s.words) for s in found] == ["= Dogs =", "Dogs bark .", "They do .", "Yes", "= Dogs ="]
    assert [s.source.rpartition(":")[2] for s in found] == ["2", "4", "5", "8", "9"]
    assert found[4].id == f"{found[0].id}-2"
    assert found[0].annotations == {}


def test_a_paragraph_runs_to_a_blank_line(path):
    found = read_text(path, unit="paragraph")
    assert [s.text for s in found] == ["= Dogs =", "Dogs bark . They do .", "Yes = Dogs ="]
    assert [s.source.rpartition(":")[2] for s in found] == ["2", "4", "8"]


def test_text_is_a_corpus_without_labels(path):
    corpus = load_corpus({"train": path}, format="text", unit="paragraph")
    assert corpus.levels == {"text": "text"}
    assert len(corpus["train"]) == 3


def test_an_unknown_unit_is_refused(path):
    with pytest.raises(CorpusError, match="unknown unit 'page' of text; known: line, paragraph"):
        read_text(path, unit="page")
