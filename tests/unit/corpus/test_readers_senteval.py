"""SentEval's probing files."""

from pathlib import Path

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.readers.senteval import read_senteval
from vestige.errors import CorpusError


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str) -> Path:
        (tmp_path / "bigram_shift.txt").write_text(text, encoding="utf-8")
        return tmp_path / "bigram_shift.txt"

    return write


def test_the_first_field_says_the_split_and_the_last_is_the_sentence(write):
    path = write("te\tO\tShe did n't go .\ntr\tI\t3\tmore\tHe left has .\nva\tO\tYes .\ntr\tO\tNo .\n")
    corpus = load_corpus(path, format="senteval", task="bigram_shift")
    assert list(corpus.splits) == ["train", "dev", "test"]
    assert [s.words for s in corpus["train"]] == [("He", "left", "has", "."), ("No", ".")]
    assert corpus.task("bigram_shift").labels("train") == ["I", "O"]
    assert corpus["test"][0].words == ("She", "did", "n't", "go", ".")
    assert corpus["test"][0].source == f"{path}:1"
    assert corpus.levels == {"bigram_shift": "sentence"}
    assert corpus.name == "bigram_shift"


def test_equal_sentences_of_a_split_have_ids_of_their_own(write):
    first, second = read_senteval(write("tr\tO\tYes .\ntr\tI\tYes .\n"))["train"]
    assert second.id == f"{first.id}-2"


def test_splits_without_lines_are_left_out(write):
    assert list(read_senteval(write("te\tO\tYes .\n"))) == ["test"]


@pytest.mark.parametrize(
    "line, problem",
    [
        ("train\tO\tYes .", "expected the split tr, va or te, found 'train'"),
        ("tr\tYes .", "expected at least 3 tab-separated fields .* found 2"),
        ("tr\tO\t ", "an empty sentence"),
    ],
)
def test_bad_lines_are_reported_with_file_and_line(write, line, problem):
    with pytest.raises(CorpusError, match=rf"bigram_shift\.txt:3: {problem}"):
        read_senteval(write(f"tr\tO\tYes .\n\n{line}\n"))
