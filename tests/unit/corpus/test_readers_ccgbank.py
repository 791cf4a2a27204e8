"""CCGbank: categories and tags from the leaves of derivations."""

import pytest

from vestige.corpus.load import load_corpus
from vestige.errors import CorpusError

ONE = (
    "ID=wsj_9999.1 PARSER=GOLD NUMPARSE=1\n"
    "(<T S[dcl] 0 2> (<T NP 0 2> (<L NP[nb]/N DT DT The NP[nb]_3/N_3>) (<L N NN NN kettle N>) ) "
    "(<T S[dcl]\\NP 0 2> (<L S[dcl]\\NP VBZ VBZ whistles S[dcl]\\NP_4>) (<L . . . . .>) ) ) \n"
)
TWO = "ID=wsj_9999.2 PARSER=GOLD NUMPARSE=1\n(<T NP 0 1> (<L LRB -LRB- -LRB- -LRB- LRB>) (<L N NNP NNP Ada N>) ) \n"


def test_words_categories_and_tags_are_the_leaves(tmp_path):
    section = tmp_path / "ccgbank" / "data" / "AUTO" / "00"
    section.mkdir(parents=True)
    (section / "wsj_9999.auto").write_text(ONE + TWO)
    corpus = load_corpus({"train": section}, format="ccgbank")
    first, second = corpus["train"]
    assert first.id == "wsj_9999.1"
    assert first.words == ("The", "kettle", "whistles", ".")
    assert first.annotations["ccg"] == ("NP[nb]/N", "N", "S[dcl]\\NP", ".")
    assert first.annotations["pos"] == ("DT", "NN", "VBZ", ".")
    assert second.words == ("(", "Ada")
    assert corpus.levels == {"ccg": "token", "pos": "token"}


def test_several_sections_make_one_split(tmp_path):
    for name, text in (("02", ONE), ("03", TWO)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.auto").write_text(text)
    sentences = load_corpus({"train": [tmp_path / "02", tmp_path / "03"]}, format="ccgbank")["train"]
    assert [sentence.id for sentence in sentences] == ["wsj_9999.1", "wsj_9999.2"]


@pytest.mark.parametrize("text", ["a plain line\n", ONE.replace(" N>)", " N")])
def test_what_is_no_derivation_is_named(tmp_path, text):
    (tmp_path / "a.auto").write_text(text)
    with pytest.raises(CorpusError, match=r"a\.auto:\d: expected a derivation"):
        load_corpus({"train": tmp_path / "a.auto"}, format="ccgbank")


def test_a_section_without_files_is_named(tmp_path):
    with pytest.raises(CorpusError, match=r"no file that ends in \.auto"):
        load_corpus({"train": [tmp_path]}, format="ccgbank")
