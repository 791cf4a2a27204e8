"""Control tasks and the baselines that need no model."""

from collections import Counter

import numpy as np
import pytest
import synthetic
import torch
from hypothesis import given
from hypothesis import strategies as st

from vestige.corpus.control import (
    baseline_accuracies,
    control_labels,
    majority_label,
    word_type_majority,
)
from vestige.corpus.types import Corpus, Sentence, Task
from vestige.probes.linear.solver import solve
from vestige.probes.problem import Features, log_probabilities

DISTRIBUTION = {"NN": 500, "DT": 300, "VB": 150, "UH": 50}
TYPES = [f"type{i}" for i in range(20_000)]

strings = st.text(alphabet="aAbß漢 ", max_size=4)
words = st.lists(strings, min_size=1, max_size=20, unique=True)
distributions = st.dictionaries(strings, st.integers(1, 99), min_size=1, max_size=6)


def token_task(splits: dict[str, list[tuple[str, str]]]) -> Task:
    """A task from (words, tags) per sentence."""
    made = {
        split: tuple(
            Sentence(f"{split}{i}", tuple(words.split()), annotations={"tag": tuple(tags.split())})
            for i, (words, tags) in enumerate(sentences)
        )
        for split, sentences in splits.items()
    }
    return Corpus("toy", made, {"tag": "token"}).task("tag")


def random_task(seed: int = 0, types: int = 300, sentences: int = 120) -> Task:
    rng = np.random.default_rng(seed)
    names, shares = list(DISTRIBUTION), np.array(list(DISTRIBUTION.values())) / 1000

    def some(count: int) -> list[tuple[str, str]]:
        return [
            (" ".join(f"w{i}" for i in rng.zipf(1.4, 10) % types), " ".join(rng.choice(names, 10, p=shares)))
            for _ in range(count)
        ]

    return token_task({"train": some(sentences), "test": some(sentences // 2)})


def labels_by_type(task: Task) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for split, sentences in task.corpus.splits.items():
        for sentence, labels in zip(sentences, task.labels(split), strict=True):
            for word, label in zip(sentence.words, labels, strict=True):
                found.setdefault(word, set()).add(label)
    return found


@given(words, distributions, st.integers(-5, 5), st.randoms())
def test_a_types_label_depends_neither_on_order_nor_on_the_other_types(types, distribution, seed, shuffler):
    everything = control_labels(types, distribution, seed)
    some = shuffler.sample(types, k=shuffler.randint(0, len(types)))
    shuffled_distribution = dict(shuffler.sample(list(distribution.items()), len(distribution)))
    assert control_labels(some, shuffled_distribution, seed) == {word: everything[word] for word in some}


def test_a_type_has_one_label_in_every_split_and_words_stay():
    task = random_task()
    control = synthetic.control_task(task, seed=7)
    assert all(len(labels) == 1 for labels in labels_by_type(control).values())
    assert control.name == "tag-control-7"
    assert control.level == "token"
    for split in ("train", "test"):
        assert [s.words for s in control.corpus[split]] == [s.words for s in task.corpus[split]]
        assert task.labels(split) == [s.annotations["tag"] for s in control.corpus[split]]


def test_the_order_of_the_corpus_plays_no_role():
    task = random_task()
    backward = Corpus("toy", {name: task.corpus[name][::-1] for name in ("test", "train")}, task.corpus.levels)
    assert labels_by_type(synthetic.control_task(task, 3)) == labels_by_type(
        synthetic.control_task(backward.task("tag"), 3)
    )


def test_labels_follow_the_tasks_distribution():
    drawn = Counter(control_labels(TYPES, DISTRIBUTION, seed=0).values())
    for label, count in DISTRIBUTION.items():
        share = count / 1000
        spread = (share * (1 - share) / len(TYPES)) ** 0.5
        assert drawn[label] / len(TYPES) == pytest.approx(share, abs=4 * spread)


def test_a_label_that_never_occurs_is_never_drawn():
    assert "no" not in control_labels(TYPES, {"a": 1, "no": 0, "z": 1}, seed=0).values()
    assert {*control_labels(TYPES, {"aa": 0, "b": 1, "zz": 0}, seed=0).values()} == {"b"}


def test_types_are_case_sensitive():
    chosen = control_labels([form for word in TYPES for form in (word, word.upper())], DISTRIBUTION, seed=0)
    agree = np.mean([chosen[word] == chosen[word.upper()] for word in TYPES])
    assert agree == pytest.approx(sum((count / 1000) ** 2 for count in DISTRIBUTION.values()), abs=0.02)


def test_seeds_draw_independently():
    first, second = (control_labels(TYPES, DISTRIBUTION, seed) for seed in (0, 1))
    agree = np.mean([first[word] == second[word] for word in TYPES])
    assert agree == pytest.approx(sum((count / 1000) ** 2 for count in DISTRIBUTION.values()), abs=0.02)
    assert first == control_labels(TYPES, DISTRIBUTION, 0)


def test_one_hot_types_reach_the_share_of_seen_types_and_the_bias_on_the_rest():
    """A probe that can only memorise: right on every seen type, one and the same guess elsewhere."""
    control = synthetic.control_task(random_task(types=60, sentences=60), seed=2)
    labels = sorted(control.label_counts)
    types = sorted(labels_by_type(control))
    tokens = {
        split: [
            (word, label)
            for sentence, tags in zip(control.corpus[split], control.labels(split), strict=True)
            for word, label in zip(sentence.words, tags, strict=True)
        ]
        for split in ("train", "test")
    }
    seen = {word for word, _ in tokens["train"]}
    one_hot = {
        split: np.eye(len(types), dtype=np.float32)[[types.index(word) for word, _ in pairs]]
        for split, pairs in tokens.items()
    }
    gold = torch.tensor([[labels.index(label) for _, label in tokens["train"]]])
    fit = solve(Features(one_hot["train"]), gold, len(labels), [0.0], [1e-6])
    guesses = log_probabilities(fit, Features(one_hot["test"]))[0].argmax(-1)
    right = {
        known: [
            labels[guess] == label
            for guess, (word, label) in zip(guesses, tokens["test"], strict=True)
            if (word in seen) == known
        ]
        for known in (True, False)
    }
    assert all(right[True])
    unseen_guesses = {int(g) for g, (word, _) in zip(guesses, tokens["test"], strict=True) if word not in seen}
    assert right[False], "the toy must have unseen types"
    assert unseen_guesses == {int(fit.weights[0, -1].argmax())}


def test_the_control_tasks_word_type_baseline_is_right_on_every_seen_type():
    control = synthetic.control_task(random_task(), seed=1)
    found = baseline_accuracies(control, "test")
    assert 0 < found["unseen_type_share"] < 1
    assert found["word_type_majority"] >= 1 - found["unseen_type_share"]


def test_baselines_by_hand():
    task = token_task(
        {
            "train": [("the dog runs", "D N V"), ("the runs stop", "D N V"), ("runs Dog", "N N")],
            "test": [("the dog runs", "D N V"), ("Runs the cat", "V D N")],
        }
    )
    pairs = [pair for s in task.corpus["train"] for pair in zip(s.words, s.annotations["tag"], strict=True)]
    assert word_type_majority(pairs) == (
        {"the": "D", "dog": "N", "runs": "N", "stop": "V", "Dog": "N"},
        "N",
    )
    # the D, dog N, runs N (wrong); Runs -> N (wrong), the D, cat -> N: 4 of 6. N twice in the test: 2 of 6.
    assert baseline_accuracies(task, "test") == {
        "majority": 2 / 6,
        "word_type_majority": 4 / 6,
        "unseen_type_share": 2 / 6,
    }


def test_among_equally_frequent_labels_the_first_in_the_alphabet_is_the_majority():
    assert majority_label({"b": 2, "a": 2, "c": 1}) == "a"
