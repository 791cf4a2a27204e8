"""Every public corpus under VESTIGE_DATA is found by its name in the catalog and has its published size."""

import pytest

from vestige.corpus.catalog import find_entry
from vestige.corpus.load import load_corpus

SIZES = {
    "ud_ewt": {"train": 12544, "dev": 2001, "test": 2077},
    "conll2000": {"train": 8936, "test": 2012},
    "pmb4_en_gold": {"train": 7745, "dev": 1174, "test": 1053, "eval": 841},
    "gum": {"train": 10224, "dev": 1575, "test": 1464},  # unmasked documents
    "semeval2010_task8": {"train": 8000, "test": 2717},
    "uds_protoroles": {"train": 2191, "dev": 291, "test": 276},  # sentences; for edges see below
    "sst2": {"train": 67349, "dev": 872},
    "cola": {"train": 8551, "dev": 1043},
    "rte": {"train": 2490, "dev": 277},
    "mrpc": {"train": 4076, "test": 1725},
    "stsb": {"train": 5749, "dev": 1500, "test": 1379},
    "qnli": {"dev": 5463},
    "mnli": {"dev": 9815},
    "squad11": {"dev": 4961, "test": 5609},  # the official dev set of 10570 questions, in two halves
    "wikitext2": {"dev": 2461, "test": 2891},  # lines that are not blank; for words see below
    "blimp": {"test": 134000},  # two sentences a pair
}

LABELS = {
    "conll2000": {"chunk": 22},
    "semeval2010_task8": {"relation": 19},
    "sst2": {"sst2": 2},
    "cola": {"cola": 2},
    "rte": {"rte": 2},
    "mrpc": {"mrpc": 2},
    "uds_protoroles": {"protoroles": 18},
}
PARTLY_HERE = {"qnli", "mnli", "squad11", "wikitext2"}


@pytest.mark.parametrize("name", SIZES)
def test_a_public_corpus_is_found_by_name_with_its_published_size(data, name):
    entry = find_entry(name)
    assert entry is not None and entry.root() == data / name
    corpus = load_corpus(name)
    sizes = {split: len(sentences) for split, sentences in corpus.splits.items()}
    assert sizes == SIZES[name]
    assert corpus.levels == entry.tasks
    assert {task: len(corpus.task(task).label_counts) for task in LABELS.get(name, {})} == LABELS.get(name, {})
    if name != "squad11":
        assert all(entry.counts[split] == size for split, size in sizes.items())
    assert any("train is not here" in note for note in corpus.notes) == (name in PARTLY_HERE)
    if name == "uds_protoroles":
        edges = {split: sum(map(len, corpus.task("protoroles").labels(split))) for split in corpus.splits}
        assert edges == {"train": 5669, "dev": 751, "test": 670}
    if name == "wikitext2":
        words = {split: sum(len(line.words) for line in lines) // 1000 for split, lines in corpus.splits.items()}
        assert words == {"dev": 213, "test": 241}  # 213886 words: 214 thousand, rounded
    if name == "stsb":
        scores = corpus.task("stsb").labels("train")
        assert (min(scores), max(scores)) == (0.0, 5.0)
