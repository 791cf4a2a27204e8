"""Public corpora of sentences, pairs, questions and text, as distributed: their sizes and label sets."""

from pathlib import Path

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus


def sizes(corpus: Corpus) -> dict[str, int]:
    return {split: len(sentences) for split, sentences in corpus.splits.items()}


GLUE = {
    "sst2": ({"train": "train.tsv", "dev": "dev.tsv"}, {"train": 67349, "dev": 872}, {"0", "1"}),
    "cola": ({"train": "in_domain_train.tsv", "dev": "mixed_dev.tsv"}, {"train": 8551, "dev": 1043}, {"0", "1"}),
    "rte": (
        {"train": "train.tsv", "dev": "dev.tsv"},
        {"train": 2490, "dev": 277},
        {"entailment", "not_entailment"},
    ),
    "mrpc": (
        {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        {"train": 4076, "test": 1725},
        {"0", "1"},
    ),
    "qnli": ({"dev": "dev.tsv"}, {"dev": 5463}, {"entailment", "not_entailment"}),
    "mnli": ({"dev": "dev_matched.tsv"}, {"dev": 9815}, {"entailment", "neutral", "contradiction"}),
}


@pytest.mark.parametrize("task", GLUE)
def test_glue_tasks_have_their_sizes_and_labels(data: Path, task):
    files, expected, labels = GLUE[task]
    corpus = load_corpus({split: data / task / file for split, file in files.items()}, format="glue", task=task)
    assert sizes(corpus) == expected
    assert corpus.levels == {task: "sentence" if task in ("sst2", "cola") else "sentence_pair"}
    for split in files:
        assert {*corpus.task(task).labels(split)} == labels


def test_stsb_has_its_pairs_with_scores_from_0_to_5(data):
    files = {split: data / "stsb" / f"sts-{split}.csv" for split in ("train", "dev", "test")}
    corpus = load_corpus(files, format="glue", task="stsb")
    assert sizes(corpus) == {"train": 5749, "dev": 1500, "test": 1379}
    scores = [score for split in files for score in corpus.task("stsb").labels(split)]
    assert (min(scores), max(scores)) == (0.0, 5.0)


def test_squad_has_its_questions_and_most_answers_are_whole_words(data):
    """Punctuation sticks to words between white space: 6909 of 10570 questions have an answer that is words alone."""
    files = {split: data / "squad11" / f"{split}-v1.1.json" for split in ("dev", "test")}
    corpus = load_corpus(files, format="squad")
    assert sizes(corpus) == {"dev": 4961, "test": 5609}
    exact = 0
    for sentences in corpus.splits.values():
        for sentence in sentences:
            words = (*sentence.words, *sentence.second)
            covered = [" ".join(words[start:end]) for start, end, _ in sentence.annotations["answer"]]
            texts = sentence.annotations["answer_texts"]
            exact += any(text in texts for text in covered)
            assert all(any(" ".join(text.split()) in words for words in covered) for text in texts)
    assert exact == 6909


@pytest.mark.parametrize("unit, units", [("line", (2461, 2891)), ("paragraph", (1160, 1320))])
def test_wikitext_has_its_words_however_it_is_cut(data, unit, units):
    files = {"dev": data / "wikitext2" / "valid.txt", "test": data / "wikitext2" / "test.txt"}
    corpus = load_corpus(files, format="text", unit=unit)
    assert tuple(sizes(corpus).values()) == units
    words = {split: sum(len(s.words) for s in sentences) for split, sentences in corpus.splits.items()}
    assert words == {"dev": 213886, "test": 241211}


def test_blimp_has_67_paradigms_of_1000_pairs(data):
    corpus = load_corpus(data / "blimp" / "BLiMP.zip", format="blimp")
    assert sizes(corpus) == {"test": 134000}
    pairs: dict[str, set[str]] = {}
    for sentence in corpus["test"]:
        pairs.setdefault(sentence.annotations["paradigm"], set()).add(sentence.annotations["pair"])
    assert len(pairs) == 67
    assert {len(items) for items in pairs.values()} == {1000}


def test_semeval_has_its_sentences_and_19_labels(data):
    folder = data / "semeval2010_task8"
    files = {"train": folder / "TRAIN_FILE.TXT", "test": folder / "TEST_FILE_FULL.TXT"}
    corpus = load_corpus(files, format="semeval2010")
    assert sizes(corpus) == {"train": 8000, "test": 2717}
    counts = corpus.task("relation").label_counts
    assert len(counts) == 19
    assert counts["Other"] == 1410
    assert not any("<e" in word or "</e" in word for s in corpus["train"] for word in s.words)
