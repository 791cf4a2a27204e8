"""The readers on public corpora as their authors distribute them: sizes, label sets, trees."""

from pathlib import Path

import pytest

from vestige.corpus.control import baseline_accuracies
from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus


def sizes(corpus: Corpus) -> dict[str, int]:
    return {split: len(sentences) for split, sentences in corpus.splits.items()}


@pytest.fixture(scope="module")
def ewt(data: Path) -> Corpus:
    return load_corpus(data / "ud_ewt")


def test_ewt_has_its_sentences_and_every_head_is_in_range(ewt):
    assert sizes(ewt) == {"train": 12544, "dev": 2001, "test": 2077}
    for sentences in ewt.splits.values():
        for sentence in sentences:
            heads = sentence.annotations["head"]
            assert all(0 <= head <= len(sentence.words) for head in heads)
            assert heads.count(0) == 1


def test_ewt_test_words_of_types_unseen_in_dev_are_those_counted_elsewhere(ewt):
    """4493 of the 25094 words of EWT test are of types that EWT dev lacks."""
    dev_as_train = Corpus("ewt", {"train": ewt["dev"], "test": ewt["test"]}, {"xpos": "token"})
    assert sum(len(sentence.words) for sentence in ewt["test"]) == 25094
    assert baseline_accuracies(dev_as_train.task("xpos"), "test")["unseen_type_share"] == 4493 / 25094


def test_conll2000_has_its_sentences_and_22_chunk_tags(data):
    corpus = load_corpus(
        {split: data / "conll2000" / f"{split}.txt" for split in ("train", "test")}, format="conll2000"
    )
    assert sizes(corpus) == {"train": 8936, "test": 2012}
    assert len(corpus.task("chunk").label_counts) == 22


def test_pmb_has_its_sentences_69_semantic_tags_and_317_categories(data):
    names = ("train", "dev", "test", "eval")
    corpus = load_corpus({split: data / "pmb4_en_gold" / f"{split}.conll" for split in names}, format="pmb")
    assert sizes(corpus) == {"train": 7745, "dev": 1174, "test": 1053, "eval": 841}
    assert len(corpus.task("semtag").label_counts) == 69
    assert len({label for split in names for labels in corpus.task("ccg").labels(split) for label in labels}) == 317
    assert not any("~" in word for split in names for sentence in corpus[split] for word in sentence.words)


def test_sst2_has_its_sentences_and_two_labels(data):
    corpus = load_corpus({split: data / "sst2" / f"{split}.tsv" for split in ("train", "dev")})
    assert sizes(corpus) == {"train": 67349, "dev": 872}
    assert {*corpus.task("label").label_counts} == {"0", "1"}
