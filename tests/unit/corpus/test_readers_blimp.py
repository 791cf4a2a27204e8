"""BLiMP: two sentences a pair, from an archive or a folder."""

import json
from pathlib import Path
from zipfile import ZipFile

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.readers.blimp import read_blimp
from vestige.errors import CorpusError


def pair(paradigm: str = "plural", number: str = "0", **more) -> dict:
    made = {"sentence_good": "Dogs bark.", "sentence_bad": "Dogs barks.", "field": "morphology"}
    return made | {"linguistics_term": "agreement", "UID": paradigm, "pairID": number, "one_prefix_method": True} | more


def lines(*pairs: dict) -> str:
    return "".join(json.dumps(item) + "\n" for item in pairs)


@pytest.fixture
def archive(tmp_path: Path):
    def archive(**files: str | bytes) -> Path:
        path = tmp_path / "pairs.zip"
        with ZipFile(path, "w") as zipped:
            for name, text in files.items():
                zipped.writestr(f"data/{name}.jsonl", text)
            zipped.writestr("data/.DS_Store", b"\0")
            zipped.writestr("__MACOSX/data/._plural.jsonl", b"\0")
        return path

    return archive


def test_a_pair_becomes_two_sentences_that_can_be_joined_again(archive):
    path = archive(plural=lines(pair()), island=lines(pair("island", "7", linguistics_term="islands", field="syntax")))
    corpus = load_corpus(path, format="blimp")
    assert list(corpus.splits) == ["test"]
    assert corpus.levels == {"acceptability": "sentence"}
    assert [s.id for s in corpus["test"]] == ["island-7-good", "island-7-bad", "plural-0-good", "plural-0-bad"]
    *_, good, bad = corpus["test"]
    assert (good.words, bad.words) == (("Dogs", "bark."), ("Dogs", "barks."))
    about = {"paradigm": "plural", "phenomenon": "agreement", "field": "morphology", "pair": "plural-0"}
    assert good.annotations == {"acceptability": "acceptable", **about}
    assert bad.annotations == {"acceptability": "unacceptable", **about}
    assert good.source == f"{path}/data/plural.jsonl:1"


@pytest.mark.parametrize("below", ["", "data"])
def test_a_folder_is_read_as_its_archive_is(archive, tmp_path, below):
    path = archive(plural=lines(pair(), pair(number="1")))
    with ZipFile(path) as zipped:
        zipped.extract("data/plural.jsonl", tmp_path)
    folder = tmp_path / "data" if not below else tmp_path

    def without_source(sentences):
        return [(s.id, s.words, s.annotations) for s in sentences]

    assert without_source(read_blimp(folder)["test"]) == without_source(read_blimp(path)["test"])


def test_a_number_of_a_pair_may_be_a_number(archive):
    assert read_blimp(archive(plural=lines(pair(pairID=12))))["test"][0].id == "plural-12-good"


@pytest.mark.parametrize(
    "text, problem",
    [
        (lines(pair()) + "{oops\n", r"pairs\.zip/data/plural\.jsonl:2: not JSON"),
        (lines(pair()) + "[1]\n", r"plural\.jsonl:2: expected the line to be an object, found \[1\]"),
        (lines({"sentence_good": "Yes."}), r"plural\.jsonl:1: expected a field 'UID', found sentence_good"),
        (lines(pair(sentence_bad=None)), r"plural\.jsonl:1: expected 'sentence_bad' to be a text, found None"),
        (b'{"UID": "a"}\n\xff\n', r"plural\.jsonl:2: not UTF-8"),
    ],
)
def test_bad_lines_are_reported_with_file_and_line(archive, text, problem):
    with pytest.raises(CorpusError, match=problem):
        read_blimp(archive(plural=text))


def test_a_pair_that_occurs_twice_is_refused(archive):
    with pytest.raises(CorpusError, match=r"'plural-0-good' occurs twice \(.*plural\.jsonl:1 and .*plural\.jsonl:2\)"):
        load_corpus(archive(plural=lines(pair(), pair())), format="blimp")


def test_paths_that_hold_no_pairs_are_reported(archive, tmp_path):
    with pytest.raises(CorpusError, match=r"pairs\.zip: expected BLiMP's data/\*\.jsonl, found no such file"):
        read_blimp(archive())
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="empty: expected BLiMP's"):
        read_blimp(tmp_path / "empty")
    with pytest.raises(CorpusError, match="absent: no such file or folder"):
        read_blimp(tmp_path / "absent")
    (tmp_path / "text.zip").write_text("no archive")
    with pytest.raises(CorpusError, match=r"text\.zip: not a whole folder or zip archive"):
        read_blimp(tmp_path / "text.zip")
