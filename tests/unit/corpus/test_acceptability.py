"""The built-in acceptability judgements: balanced, split by pairs, and not to be guessed from words or length."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from vestige.corpus.catalog import find_entry
from vestige.corpus.load import load_corpus

SPLITS = ("train", "dev", "test")
TOKENS = r"[\w']+|[^\w\s]"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    """All columns of all files, and the split."""
    root = find_entry("acceptability").root()
    found = []
    for split in SPLITS:
        header, *lines = ((root / f"{split}.tsv").read_text(encoding="utf-8")).splitlines()
        names = header.split("\t")
        found += [{**dict(zip(names, line.split("\t"), strict=True)), "split": split} for line in lines]
    return found


def by_pair(rows) -> dict[str, list[dict[str, str]]]:
    pairs = defaultdict(list)
    for row in rows:
        pairs[row["pair"]].append(row)
    return pairs


def held_out(features, classifier, rows) -> float:
    """Accuracy in five folds; both sentences of a pair are in one."""
    gold = np.array([row["label"] == "acceptable" for row in rows])
    folds = GroupKFold(5, shuffle=True, random_state=0)
    return cross_val_score(classifier, features, gold, groups=[row["pair"] for row in rows], cv=folds).mean()


def test_the_corpus_is_what_the_files_hold(rows):
    corpus = load_corpus("acceptability")
    assert corpus.levels == {"acceptable": "sentence"}
    for split in SPLITS:
        mine = [row for row in rows if row["split"] == split]
        assert [sentence.text for sentence in corpus[split]] == [row["sentence"] for row in mine]
        assert corpus.task("acceptable").labels(split) == [row["label"] for row in mine]


def test_every_split_is_balanced_and_has_every_phenomenon(rows):
    phenomena = {row["phenomenon"] for row in rows}
    assert len(phenomena) == 23
    for split, size in zip(SPLITS, (400, 100, 100), strict=True):
        mine = [row for row in rows if row["split"] == split]
        assert Counter(row["label"] for row in mine) == {"acceptable": size // 2, "unacceptable": size // 2}
        assert {row["phenomenon"] for row in mine} == phenomena


def test_the_sentences_of_a_pair_have_both_labels_one_phenomenon_and_one_split(rows):
    pairs = by_pair(rows)
    assert Counter(map(len, pairs.values())) == {2: 270, 1: 60}
    assert Counter(one["label"] for one, *other in pairs.values() if not other) == {
        "acceptable": 30,
        "unacceptable": 30,
    }
    for one, two in (pair for pair in pairs.values() if len(pair) == 2):
        assert {one["label"], two["label"]} == {"acceptable", "unacceptable"}
        assert (one["split"], one["phenomenon"]) == (two["split"], two["phenomenon"])
        first, second = (Counter(row["sentence"].lower().rstrip(".?!").split()) for row in (one, two))
        assert (first & second).total() > 0.4 * max(first.total(), second.total()), one["sentence"]


def test_sentences_are_written_as_usual_and_none_comes_twice(rows):
    sentences = [row["sentence"] for row in rows]
    assert len({sentence.lower().rstrip(".?!") for sentence in sentences}) == len(sentences) == 600
    for sentence in sentences:
        assert sentence[0].isupper() and sentence[-1] in ".?!" and sentence == " ".join(sentence.split())
        assert 4 <= len(sentence.split()) <= 14


def test_no_word_gives_the_label_away(rows):
    ahead: Counter[str] = Counter()
    split = CountVectorizer(token_pattern=TOKENS).build_analyzer()
    for row in rows:
        for word in {*split(row["sentence"])}:
            ahead[word] += 1 if row["label"] == "acceptable" else -1
    assert max(map(abs, ahead.values())) <= 4


@pytest.mark.parametrize("strength", [0.1, 1.0, 10.0])
def test_words_without_their_order_do_not_tell_the_label(rows, strength):
    guess = make_pipeline(CountVectorizer(token_pattern=TOKENS), LogisticRegression(C=strength, max_iter=2000))
    assert 0.45 < held_out([row["sentence"] for row in rows], guess, rows) < 0.55


@pytest.mark.parametrize("guess", [LogisticRegression(), DecisionTreeClassifier(random_state=0)], ids=["line", "tree"])
@pytest.mark.parametrize("size", [len, lambda text: len(text.split())], ids=["letters", "words"])
def test_length_does_not_tell_the_label(rows, guess, size):
    lengths = np.array([[size(row["sentence"])] for row in rows])
    assert 0.44 < held_out(lengths, guess, rows) < 0.55


def test_a_guess_that_knows_the_pairs_would_be_seen(rows):
    """The check can fail: with labels that a word gives away it does."""
    told = [row["sentence"] + (" indeed" if row["label"] == "acceptable" else "") for row in rows]
    guess = make_pipeline(CountVectorizer(token_pattern=TOKENS), LogisticRegression(max_iter=2000))
    assert held_out(told, guess, rows) > 0.95
