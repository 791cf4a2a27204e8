"""SemEval-2010 task 8: entities marked in the sentence become spans of whole words."""

from pathlib import Path

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.readers.semeval2010 import read_semeval2010
from vestige.corpus.types import SpanPair
from vestige.errors import CorpusError

GOOD = '7\t"The <e1>flood</e1> washed the <e2>old bridge</e2>, away."\nCause-Effect(e1,e2)\nComment: none\n\n'


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str) -> Path:
        (tmp_path / "a.txt").write_text(text, encoding="utf-8")
        return tmp_path / "a.txt"

    return write


def words(write, text: str) -> tuple:
    (sentence,) = read_semeval2010(write(f'1\t"{text}"\nOther\nComment:\n'))
    ((first, second, _),) = sentence.annotations["relation"]
    return sentence.words, sentence.words[slice(*first)], sentence.words[slice(*second)]


def test_entities_are_whole_words_and_the_label_keeps_its_direction(write):
    corpus = load_corpus(
        {"train": write(GOOD + GOOD.replace("7\t", "8\t").replace("(e1,e2)", "(e2,e1)"))}, format="semeval2010"
    )
    first, second = corpus["train"]
    assert (first.id, second.id) == ("7", "8")
    assert first.words == ("The", "flood", "washed", "the", "old", "bridge", ",", "away.")
    assert first.annotations["relation"] == (SpanPair((1, 2), (4, 6), ("Cause-Effect(e1,e2)",)),)
    assert second.annotations["relation"][0].labels == ("Cause-Effect(e2,e1)",)
    assert second.source.endswith("a.txt:5")
    assert corpus.levels == {"relation": "span_pair"}


def test_words_end_where_entities_start_and_end_and_nowhere_else(write):
    text = "A non-<e1>user's</e1>'s well-known (<e2>x-y z</e2>)."
    assert words(write, text) == (
        ("A", "non-", "user's", "'s", "well-known", "(", "x-y", "z", ")."),
        ("user's",),
        ("x-y", "z"),
    )


def test_entities_may_touch_come_in_either_order_and_carry_spaces(write):
    assert words(write, "<e2>a</e2><e1> b </e1>") == (("a", "b"), ("b",), ("a",))


def test_quotation_marks_inside_the_sentence_stay(write):
    assert words(write, 'a "<e1>b</e1>" and "<e2>c</e2>"')[0] == ("a", '"', "b", '"', "and", '"', "c", '"')


def test_the_comment_may_be_missing_and_so_may_the_last_line_end(write):
    (sentence,) = read_semeval2010(write('1\t"<e1>a</e1> <e2>b</e2>"\nOther'))
    assert sentence.annotations["relation"] == (SpanPair((0, 1), (1, 2), ("Other",)),)


@pytest.mark.parametrize(
    "sentence, found",
    [
        ("no entity", "no tags"),
        ("one <e1>entity</e1>", "<e1> </e1>"),
        ("<e1>a <e2>b</e1> c</e2>", "<e1> <e2> </e1> </e2>"),
        ("<e1>a <e2>b</e2> c</e1>", "<e1> <e2> </e2> </e1>"),
        ("<e1>a</e1> <e2>b", "<e1> </e1> <e2>"),
        ("</e1>a<e1> <e2>b</e2>", "</e1> <e1> <e2> </e2>"),
        ("<e1>a</e1> <e2>b</e2> <e2>c</e2>", "<e1> </e1> <e2> </e2> <e2> </e2>"),
    ],
)
def test_missing_and_overlapping_tags_are_reported_with_their_line(write, sentence, found):
    with pytest.raises(CorpusError, match=rf"a\.txt:5: expected one <e1>.*, found {found}\n"):
        read_semeval2010(write(f'{GOOD}8\t"{sentence}"\nOther\nComment:\n'))


def test_an_entity_without_words_is_reported(write):
    with pytest.raises(CorpusError, match=r"a\.txt:1: e2 holds no word"):
        read_semeval2010(write('8\t"<e1>a</e1> <e2> </e2>"\nOther\n'))


@pytest.mark.parametrize("relation", ["Cause-Effect", "Cause-Effect(e1,e1)", "Comment: x", "other"])
def test_what_is_no_relation_is_reported_with_its_line(write, relation):
    with pytest.raises(CorpusError, match=r"a\.txt:6: expected a relation such as"):
        read_semeval2010(write(f'{GOOD}8\t"<e1>a</e1> <e2>b</e2>"\n{relation}\n'))


def test_a_file_without_answers_is_told_as_such(write):
    with pytest.raises(CorpusError, match=r"a\.txt:2: expected a relation") as raised:
        read_semeval2010(write('8\t"<e1>a</e1> <e2>b</e2>"\n9\t"<e1>a</e1> <e2>b</e2>"\n'))
    assert "file with answers" in raised.value.fix


def test_a_line_that_is_no_entry_is_reported(write):
    with pytest.raises(CorpusError, match=r"a\.txt:5: expected a number, a tab and a sentence in quotation marks"):
        read_semeval2010(write(f"{GOOD}8 <e1>a</e1> <e2>b</e2>\nOther\n"))


@pytest.mark.parametrize("rest", ["Comment:\n9\tmore", "9\tmore"])
def test_entries_that_run_into_each_other_are_reported(write, rest):
    with pytest.raises(CorpusError, match=r"a\.txt:1: expected an entry of three lines"):
        read_semeval2010(write(f'8\t"<e1>a</e1> <e2>b</e2>"\nOther\n{rest}\n'))
