"""Tasks that ask whether a sentence was changed cannot be solved by its words alone.

A bag of words is at chance where every word is as frequent under both labels: exactly so where words are moved,
in expectation where one is replaced by another.
"""

from collections import Counter
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from vestige.corpus.derive import derive_task
from vestige.corpus.derive.exchange import replacement_chances
from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus, Sentence


def bag_of_words(made: Corpus, task: str) -> tuple[float, int]:
    """Accuracy of logistic regression on counts of words, on dev and test together; and how many these are."""
    tested = (*made["dev"], *made["test"])
    counter = CountVectorizer(analyzer=lambda words: [word.lower() for word in words])
    rows = counter.fit_transform([s.words for s in made["train"]])
    learner = LogisticRegression(C=0.3, max_iter=200).fit(rows, [s.annotations[task] for s in made["train"]])
    found = learner.predict(counter.transform([s.words for s in tested]))
    return float(np.mean(found == [s.annotations[task] for s in tested])), len(tested)


def assert_at_chance(corpus: Corpus, task: str, seeds: int = 3, **options: object) -> None:
    """Every seed within three standard errors of a half, the mean within two (seeds share their sentences)."""
    found = [bag_of_words(derive_task(corpus, task, seed=seed, **options), task) for seed in range(seeds)]
    for accuracy, size in found:
        assert abs(accuracy - 0.5) < 3 * 0.5 / sqrt(size), found
    assert abs(np.mean([accuracy for accuracy, _ in found]) - 0.5) < 2 * 0.5 / sqrt(found[0][1]), found


def zipfian(sentences: int = 3000, nouns: int = 60) -> Corpus:
    """Sentences of one noun each, the k-th about as frequent as 1 / k; half of them may follow 'the' only."""
    draw = np.random.default_rng(0)
    weights = 1 / np.arange(1, nouns + 1)

    def make(split: str, number: int) -> Sentence:
        noun = draw.choice(nouns, p=weights / weights.sum())
        article = "the" if noun % 2 else draw.choice(["the", "a"])
        words = ("then", f"{split}{number}", str(article), f"noun{'abcdefghij'[noun // 10]}{'abcdefghij'[noun % 10]}")
        speech = ("ADV", "X", "DET", "NOUN", "PUNCT")
        return Sentence(f"{split}{number}", (*words, "."), annotations={"upos": speech})

    sizes = {"train": sentences, "dev": sentences // 4, "test": sentences // 4}
    return Corpus("zipfian", {split: tuple(make(split, i) for i in range(size)) for split, size in sizes.items()}, {})


class TestReplacement:
    @given(st.lists(st.integers(0, 5), min_size=2, max_size=40).filter(lambda own: len(set(own)) > 1))
    def test_where_all_words_fit_everywhere_each_goes_to_as_many_places_as_it_stands_at(self, own):
        words = [f"w{number}" for number in own]
        chances = replacement_chances(words, [sorted(set(words))] * len(words))
        assert np.allclose([chance.sum() for chance in chances], 1)
        assert np.allclose(sum(chances), [Counter(words)[word] for word in sorted(set(words))])

    def test_a_word_is_drawn_as_often_as_it_is_replaced_even_if_others_fit_more_places(self):
        """'b' fits wherever 'a' and 'c' stand; uniform draws would put it there twice as often as it stands."""
        own = ["a"] * 4 + ["b"] * 4 + ["c"] * 4
        fitting = [["b", "c"]] * 4 + [["a", "c"]] * 4 + [["b"]] * 2 + [["a", "b"]] * 2
        chances = replacement_chances(own, fitting)
        going = Counter()
        for found, chance in zip(fitting, chances, strict=True):
            going.update(dict(zip(found, chance, strict=True)))
        assert all(abs(going[word] - 4) < 0.01 for word in "abc")

    def test_a_place_keeps_its_words_where_these_stand_nowhere(self):
        (chance, other) = replacement_chances(["a", "b"], [["x", "y"], ["a"]])
        assert np.allclose(chance, 0.5)
        assert np.allclose(other, 1)

    @pytest.mark.parametrize("disjoint", [False, True])
    def test_a_bag_of_words_is_at_chance_on_a_synthetic_corpus(self, disjoint):
        """Nothing but the noun can tell the label: with words in one split only it used to tell the opposite."""
        corpus, options = zipfian(), {"lengths": None, "bigrams": False, "frequency": (3, 10_000)}
        assert_at_chance(corpus, "odd_man_out", disjoint_words=disjoint, **options)


class TestMoves:
    @pytest.mark.parametrize("task", ["bigram_shift", "coordination_inversion"])
    def test_a_sentence_has_the_same_bag_of_words_under_both_labels(self, task):
        corpus = load_corpus("treebank")
        made = derive_task(corpus, task)
        for split, items in made.splits.items():
            originals = {s.id: Counter(map(str.lower, s.words)) for s in corpus[split]}
            assert all(Counter(map(str.lower, s.words)) == originals[s.id] for s in items)


class TestTreebanks:
    def test_a_bag_of_words_is_at_chance_on_ewt(self, data: Path):
        assert_at_chance(load_corpus(data / "ud_ewt"), "odd_man_out")

    def test_a_bag_of_words_is_at_chance_on_gum(self, data: Path):
        assert_at_chance(load_corpus("gum"), "odd_man_out", seeds=2)
