"""SQuAD: answers of characters become spans of words."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestige.corpus.load import load_corpus
from vestige.corpus.readers.squad import _Context, _covering, read_squad
from vestige.corpus.types import Span
from vestige.errors import CorpusError

CONTEXT = "The  bridge (1932), over the\nriver, is long."


@pytest.fixture
def write(tmp_path: Path):
    def write(content, indent: int | None = 1) -> Path:
        text = content if isinstance(content, str) else json.dumps(content, indent=indent)
        (tmp_path / "dev.json").write_text(text, encoding="utf-8")
        return tmp_path / "dev.json"

    return write


def answer(text: str) -> dict:
    return {"text": text, "answer_start": CONTEXT.index(text)}


def file(*questions: dict) -> dict:
    return {"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": CONTEXT, "qas": list(questions)}]}]}


def question(*answers: dict, id_: str = "q1", **more) -> dict:
    return {"id": id_, "question": "Which  year ?", "answers": list(answers), **more}


def covered(sentence) -> list[tuple[str, ...]]:
    words = (*sentence.words, *sentence.second)
    return [words[start:end] for start, end, _ in sentence.annotations["answer"]]


def test_an_answer_becomes_the_smallest_stretch_of_words_that_covers_it(write):
    corpus = load_corpus({"dev": write(file(question(answer("1932"))))}, format="squad")
    (sentence,) = corpus["dev"]
    assert corpus.levels == {"answer": "span"}
    assert (sentence.id, sentence.words) == ("q1", ("Which", "year", "?"))
    assert sentence.second == ("The", "bridge", "(1932),", "over", "the", "river,", "is", "long.")
    assert sentence.annotations["answer"] == (Span(5, 6, ("answer",)),)


def test_answers_run_over_line_ends_and_double_spaces(write):
    (sentence,) = read_squad(write(file(question(answer("The  bridge"), answer("the\nriver")))))
    assert covered(sentence) == [("The", "bridge"), ("the", "river,")]


def test_white_space_around_an_answer_adds_no_word(write):
    (sentence,) = read_squad(write(file(question(answer(" (1932), ")))))
    assert covered(sentence) == [("(1932),",)]


def test_gold_answers_that_differ_are_spans_of_their_own_and_texts_stay_as_given(write):
    answers = [answer("1932"), answer("(1932)"), answer("river"), answer("1932")]
    (sentence,) = read_squad(write(file(question(*answers))))
    assert covered(sentence) == [("(1932),",), ("river,",)]
    assert sentence.annotations["answer_texts"] == ("1932", "(1932)", "river", "1932")
    assert all(
        CONTEXT[start:].startswith(text)
        for start, text in zip(sentence.annotations["answer_starts"], sentence.annotations["answer_texts"], strict=True)
    )
    assert sentence.annotations["context"] == CONTEXT
    assert sentence.annotations["question"] == "Which  year ?"


def test_a_question_of_squad_2_without_answer_has_no_span(write):
    plausible = {"plausible_answers": [answer("1932")]}
    path = write(
        file(question(is_impossible=True, **plausible), question(answer("long"), id_="q2", is_impossible=False))
    )
    corpus = load_corpus({"dev": path}, format="squad")
    assert [s.annotations["answer"] for s in corpus["dev"]] == [(), (Span(10, 11, ("answer",)),)]
    assert corpus["dev"][0].annotations["answer_texts"] == ()


def test_sources_name_the_line_of_the_question(write):
    path = write(file(question(answer("1932")), question(answer("long"), id_="q2")))
    lines = path.read_text().split("\n")
    for sentence in read_squad(path):
        assert f'"id": "{sentence.id}"' in lines[int(sentence.source.rpartition(":")[2]) - 1]
    assert {s.source for s in read_squad(write(file(question(answer("1932"))), indent=None))} == {f"{path}:1"}


def test_a_start_that_does_not_point_at_the_answer_is_reported_with_line_and_id(write):
    path = write(file(question(answer("long"), id_="q7"), question({"text": "1932", "answer_start": 11}, id_="q8")))
    problem = r"dev\.json:\d+: question q8: expected the answer '1932' at character 11 of the context, found ' \(19'"
    with pytest.raises(CorpusError, match=problem):
        read_squad(path)


@pytest.mark.parametrize("start", [-1, -5, 900])
def test_a_start_outside_the_context_is_reported(write, start):
    with pytest.raises(CorpusError, match=rf"question q1: expected the answer 'long' at character {start} "):
        read_squad(write(file(question({"text": "long", "answer_start": start}))))


@pytest.mark.parametrize("text, start", [("", 4), ("", 7), (" ", 3), ("  ", 3)])
def test_an_answer_without_a_word_is_reported(write, text, start):
    with pytest.raises(CorpusError, match=r"question q1: the answer '.*' holds no word"):
        read_squad(write(file(question({"text": text, "answer_start": start}))))


def test_a_question_without_answers_must_say_that_it_has_none(write):
    with pytest.raises(CorpusError, match="question q1 has no answer"):
        read_squad(write(file(question())))


def test_malformed_json_is_reported_with_its_line(write):
    with pytest.raises(CorpusError, match=r"dev\.json:3: not JSON: .* at column 1"):
        read_squad(write('{"data": [\n1,\n]}'))


@pytest.mark.parametrize(
    "content, problem",
    [
        ([], r"dev\.json:1: expected the file to be an object, found \[\]"),
        ({"rows": 1}, r"dev\.json:1: expected a field 'data', found rows"),
        ({"data": [{"title": "T"}]}, r"article 1\): expected a field 'paragraphs', found title"),
        ({"data": [7]}, r"article 1\): expected an article to be an object, found 7"),
        (file({"question": "Why ?", "answers": []}), r"article 1\): expected a field 'id', found question, answers"),
        (file({"id": "q1", "answers": []}), "question q1: expected a field 'question'"),
        (file(question({"text": "long"})), "question q1: expected a field 'answer_start', found text"),
        (file(question({"text": "long", "answer_start": "39"})), "'answer_start' to be a whole number, found '39'"),
    ],
)
def test_json_of_another_shape_is_reported_with_what_is_missing(write, content, problem):
    with pytest.raises(CorpusError, match=problem):
        read_squad(write(content))


@given(st.text("ab ,\n\u00a0\u2003", min_size=1), st.data())
def test_the_stretch_covers_the_answer_and_no_smaller_one_does(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    answer = text[start : data.draw(st.integers(start + 1, len(text)))]
    context = _Context.of(text)
    assert context.words == tuple(text.split())
    if not answer.strip():
        return
    first, last, _ = _covering("here", context, start, answer, 0)
    wanted = {i for i in range(start, start + len(answer)) if not text[i].isspace()}
    of_word = [{*range(s, e)} for s, e in zip(context.starts, context.ends, strict=True)]
    assert wanted <= set().union(*of_word[first:last])
    assert wanted & of_word[first]
    assert wanted & of_word[last - 1]
