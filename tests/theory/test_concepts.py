"""What must hold of clusters of words: planted ones are found and survive, merged ones do not, copies change nothing."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import synthetic
from declared import run
from scipy.stats import ortho_group

from vestige.analyses.concepts import IN_TUNED, LABELS, RECLUSTERED, SHUFFLED, Concepts
from vestige.comparison.differences import Settings, control_false_discoveries
from vestige.corpus.types import Corpus, Sentence
from vestige.errors import AnalysisError
from vestige.measures.clusters import Clusters, agreement, found_in, k_means
from vestige.study.differences import compare_declared

CONCEPTS, WIDTH = 8, 16
PLACES = 6 * ortho_group.rvs(WIDTH, random_state=0)[:CONCEPTS]
QUICK = {"clusters": CONCEPTS, "groups": 5, "shuffles": 5, "seeds": 3}


def concept(word: str) -> int:
    return int(word[1:]) // 5


def made_up(level="token", sentences=60, labels=2) -> Corpus:
    """Words of eight concepts, five word forms each; a label has two concepts, or is that of a sentence."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(sentences):
        words = tuple(f"w{word}" for word in rng.integers(0, 5 * CONCEPTS, size=10))
        tags = tuple(f"T{concept(word) // 2}" for word in words)
        label = tags if level == "token" else f"T{number % labels}"
        found.append(Sentence(f"s{number}", words, annotations={"tag": label}))
    return Corpus("made-up", {"test": tuple(found)}, {"tag": level})


def planted(sentence: Sentence, word: int, layer: int) -> np.ndarray:
    return PLACES[concept(sentence.words[word])]


def merged(sentence: Sentence, word: int, layer: int) -> np.ndarray:
    """The first two concepts are at the same place."""
    return PLACES[max(1, concept(sentence.words[word]))]


def nothing(sentence: Sentence, word: int, layer: int) -> np.ndarray:
    return np.zeros(WIDTH)


def both(folder, corpus, base, tuned, widths=(WIDTH,), seeds=(0, 0), **how):
    """Inputs of a tuned model and its base; `how` is of the tuned one."""
    reference = synthetic.represent(folder / "base", corpus, base, widths=widths, seed=seeds[0])
    mine = synthetic.represent(folder / "tuned", corpus, tuned, widths=widths, seed=seeds[1], **how)
    return replace(mine, reference=reference)


def values(outcome, metric: str, **where) -> np.ndarray:
    """Values over layers and seeds, without those of labels."""
    rows = pd.DataFrame(outcome.rows)
    rows = rows[(rows["metric"] == metric) & rows["label"].isna()]
    for name, wanted in where.items():
        rows = rows[rows[name] == wanted]
    return rows["value"].to_numpy()


def aligned(outcome, subset=LABELS) -> float:
    """Mean over layers and seeds."""
    return values(outcome, "aligned", subset=subset).mean()


def verdicts(analysis, base, tuned) -> pd.Series:
    """By metric (and there is one layer)."""
    tables = {
        name: tuple(pd.DataFrame(one.items if name == "items" else one.tables.get(name, {})) for one in (base, tuned))
        for name in ("items", "survival", "replicates")
    }
    metrics = [metric for metric in analysis.given if metric.compared is not None]
    read = lambda name: (tables[name][0] if len(tables[name][0]) else tables[name][1], [tables[name][1]])  # noqa: E731
    table = compare_declared(metrics, read, Settings(resamples=199), stochastic=analysis.stochastic)
    return control_false_discoveries(table).set_index("metric")["verdict"]


def test_planted_clusters_are_found_survive_and_are_of_their_label(tmp_path):
    inputs = both(tmp_path, made_up(), planted, planted, seeds=(0, 1))
    outcome = run(Concepts(**QUICK), inputs)
    for subset in (IN_TUNED, RECLUSTERED):
        assert (values(outcome, "found_again", subset=subset) == 1).all()
        assert values(outcome, "agreement", subset=subset) == pytest.approx(1)
    assert aligned(outcome) == 1 and aligned(outcome, SHUFFLED) < 0.05
    assert (values(outcome, "lexical") == 0).all(), "a concept has five word forms"
    assert outcome.tables["examples"] == {}
    sizes = np.bincount([concept(w) for s in inputs.task.corpus["test"] for w in s.words])
    first = outcome.items["probe_seed"] == 0
    assert sorted(np.bincount(outcome.items["cluster"][first])) == sorted(sizes)


def test_a_cluster_of_one_word_form_is_lexical(tmp_path):
    outcome = run(Concepts(**QUICK | {"clusters": 4}, least=2), alone(tmp_path, by_form))
    assert (values(outcome, "lexical") == 1).all()


def alone(folder, vector, level="token", **how):
    """A model without a base; of words in four word forms."""
    corpus = made_up(level, **how)
    forms = {s.id: tuple(f"w{5 * (int(w[1:]) % 4)}" for w in s.words) for s in corpus["test"]}
    sentences = tuple(replace(s, words=forms[s.id]) for s in corpus["test"])
    return synthetic.represent(folder, Corpus("made-up", {"test": sentences}, {"tag": level}), vector, widths=(WIDTH,))


def by_form(sentence: Sentence, word: int, layer: int) -> np.ndarray:
    return PLACES[concept(sentence.words[word])]


def test_merged_clusters_do_not_survive(tmp_path):
    inputs = both(tmp_path, made_up(), planted, merged, seeds=(0, 1))
    outcome = run(Concepts(**QUICK), inputs)
    table = pd.DataFrame(outcome.tables["survival"])
    words = {s.id: s.words for s in inputs.task.corpus["test"]}
    merged_ones = np.array([concept(words[s][w]) < 2 for s, w in zip(table["sentence"], table["word"], strict=True)])
    assert table["reclustered"].all() and not table["survived"][merged_ones].any()
    assert table["survived"][~merged_ones].mean() > 0.8
    shown = pd.DataFrame(outcome.tables["examples"])
    gone = shown[shown["kind"] == "vanished"]
    assert {concept(form) for form in gone["form"]} == {0, 1} and set(gone["label"]) == {"T0"}
    assert set(shown[shown["kind"] == "appeared"]["form"].map(concept)) <= {0, 1}


def test_unrelated_vectors_are_a_change(tmp_path):
    analysis = Concepts(**QUICK | {"seeds": 4})
    inputs = both(tmp_path, made_up(), planted, nothing, seeds=(0, 1))
    found = verdicts(analysis, run(analysis, inputs.reference), run(analysis, inputs))
    assert set(found) == {"lower", "unchanged"} and found["lexical"] == "unchanged", found


@pytest.mark.parametrize("vector", [planted, nothing])
def test_a_copy_a_rotated_and_a_rescaled_one_change_nothing(vector, tmp_path):
    """Also of vectors without any clusters, where every seed ends elsewhere."""
    turned = ortho_group.rvs(WIDTH, random_state=1)
    copies = {"same": {}, "rotated": {"mapped": lambda rows: rows @ turned}, "rescaled": {"scale": 37.0}}
    analysis = Concepts(**QUICK)
    for name, how in copies.items():
        inputs = both(tmp_path / name, made_up(), vector, vector, **how)
        outcome, base = run(analysis, inputs), run(analysis, inputs.reference)
        table = outcome.tables["survival"]
        np.testing.assert_array_equal(table["survived"], table["reclustered"])
        np.testing.assert_array_equal(outcome.items["cluster"], base.items["cluster"])
        assert (values(outcome, "survival") == 0).all() and (values(outcome, "agreement_change") == 0).all()
        assert not {"lower", "higher"} & {*verdicts(analysis, base, outcome)}


def test_vectors_without_clusters_do_not_survive_reclustering_either(tmp_path):
    """And what is lost of them in another model is no more than that."""
    analysis = Concepts(**QUICK)
    inputs = both(tmp_path, made_up(), nothing, nothing)
    assert values(run(analysis, inputs), "found_again", subset=RECLUSTERED).mean() < 0.5


def test_words_that_cluster_by_sentence_are_of_its_label_by_chance_alone(tmp_path):
    """Every cluster is a sentence, so it has one label, whatever the labels are."""
    spots = 9 * np.random.default_rng(3).normal(size=(30, WIDTH))
    inputs = alone(tmp_path, lambda s, word, layer: spots[int(s.id[1:])], "sentence", sentences=30)
    outcome = run(Concepts(**QUICK | {"clusters": 15, "shuffles": 20}), inputs)
    assert aligned(outcome) > 0.2
    assert abs(values(outcome, "beyond_chance").mean()) < 0.1


def test_clusters_that_follow_the_label_of_sentences(tmp_path):
    inputs = alone(tmp_path, lambda s, word, layer: PLACES[int(s.id[1:]) % 2], "sentence")
    outcome = run(Concepts(**QUICK | {"clusters": 4}), inputs)
    assert aligned(outcome) == 1 and (values(outcome, "beyond_chance") > 0.95).all()


def test_merged_is_contained_and_not_mutual():
    one = Clusters(np.repeat([0, 1, 2], 10))
    other = Clusters(np.repeat([0, 0, 1], 10))
    assert found_in(one, other, 0.9).tolist() == [False, False, True]
    assert found_in(one, other, 0.9, mutual=False).tolist() == [True, True, True]
    assert found_in(other, one, 0.9).tolist() == [False, True]
    assert not found_in(one, one, 0.9, least=11).any() and agreement(one, one) == 1


def test_equal_rows_leave_clusters_empty_and_nothing_breaks():
    found = k_means(np.repeat(np.eye(3), 20, axis=0), 10, 0)
    assert found.inertia == pytest.approx(0) and (found.sizes > 0).sum() == 3


def test_labels_of_words_and_what_is_rare(tmp_path):
    outcome = run(Concepts(**QUICK, least=5), synthetic.represent(tmp_path, made_up(), planted, widths=(WIDTH,)))
    rows = pd.DataFrame(outcome.rows)
    assert (rows[rows["label"].notna()]["value"] == 1).all() and set(rows["label"].dropna()) == {"T0", "T1", "T2", "T3"}
    assert values(outcome, "rare_labels") == [0] and values(outcome, "clusters") == [CONCEPTS]
    assert set(outcome.absent) == {m for m in outcome.absent if "survive" in outcome.absent[m]} != set()


def test_no_more_clusters_than_words_allow(tmp_path):
    inputs = synthetic.represent(tmp_path, made_up(), planted, widths=(WIDTH,))
    assert values(run(Concepts(**QUICK | {"clusters": 500}), inputs), "clusters") == [30]
    assert values(run(Concepts(**QUICK | {"clusters": 500}, n=100), inputs), "clusters") == [5]


@pytest.mark.parametrize(
    ("corpus", "said"),
    [
        (made_up(sentences=3), "30 words"),
        (made_up("sentence", labels=1), "only the label 'T0'"),
    ],
)
def test_what_cannot_be_clustered_is_refused(corpus, said, tmp_path):
    with pytest.raises(AnalysisError, match=said) as caught:
        Concepts().run(synthetic.represent(tmp_path, corpus, nothing, widths=(WIDTH,)))
    assert caught.value.fix


def test_labels_that_are_numbers_are_no_classes(tmp_path):
    corpus = made_up("sentence")
    sentences = tuple(replace(s, annotations={"tag": n / 7}) for n, s in enumerate(corpus["test"]))
    numbered = Corpus("made-up", {"test": sentences}, {"tag": "sentence"})
    with pytest.raises(AnalysisError, match="no classes"):
        Concepts().run(synthetic.represent(tmp_path, numbered, nothing, widths=(WIDTH,)))


def test_a_base_with_fewer_layers_is_compared_where_it_has_some(tmp_path):
    reference = synthetic.represent(tmp_path / "base", made_up(), planted, widths=(WIDTH,))
    mine = synthetic.represent(tmp_path / "tuned", made_up(), planted, widths=(WIDTH, WIDTH))
    outcome = run(Concepts(**QUICK), replace(mine, reference=reference))
    assert set(outcome.tables["survival"]["layer"]) == {0} and set(outcome.items["layer"]) == {0, 1}
    assert values(outcome, "unmatched_layers") == [1]
