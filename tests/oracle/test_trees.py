"""Tree arithmetic against networkx and SciPy."""

import networkx
import numpy as np
import pytest
from scipy import stats

from vestige.corpus.readers.conllu import parse_conllu
from vestige.corpus.readers.text import read_lines
from vestige.measures.trees import (
    PUNCTUATION_TAGS,
    is_punctuation,
    spanning_trees,
    spearman,
    tree_depths,
    tree_distances,
)


def random_heads(rng, words):
    """A tree by attaching words, in random order, to earlier ones."""
    order = rng.permutation(words)
    heads = np.zeros(words, dtype=int)
    for place in range(1, words):
        heads[order[place]] = order[rng.integers(place)] + 1
    return heads


@pytest.mark.parametrize("words", [1, 2, 3, 7, 24, 61])
def test_distances_and_depths_are_those_of_networkx(words):
    rng = np.random.default_rng(words)
    batch = np.stack([random_heads(rng, words) for _ in range(4)])
    for heads, distances, depths in zip(batch, tree_distances(batch), tree_depths(batch), strict=True):
        graph = networkx.Graph()
        graph.add_nodes_from(range(words))
        graph.add_edges_from((word, head - 1) for word, head in enumerate(heads) if head)
        assert networkx.is_tree(graph)
        lengths = dict(networkx.all_pairs_shortest_path_length(graph))
        assert distances.tolist() == [[lengths[i][j] for j in range(words)] for i in range(words)]
        root = int(np.flatnonzero(heads == 0)[0])
        assert depths.tolist() == [lengths[root][i] for i in range(words)]


def edges_of(parents: np.ndarray) -> list[tuple[int, int]]:
    """The edges of one spanning tree as (smaller, larger) word numbers, in order."""
    found = enumerate(parents.tolist())
    return sorted((min(word, parent), max(word, parent)) for word, parent in found if parent >= 0)


@pytest.mark.parametrize("ties", [False, True])
def test_spanning_trees_are_those_of_kruskal(ties):
    """networkx sorts edges stably, and edges are given in row-major order."""
    rng = np.random.default_rng(3)
    for words in (2, 5, 12, 30):
        drawn = rng.integers(1, 4, size=(6, words, words)) if ties else rng.random((6, words, words))
        distances = np.triu(drawn, 1) + np.triu(drawn, 1).swapaxes(1, 2)
        part = rng.random((6, words)) < 0.8
        found = spanning_trees(distances, part)
        for tree in range(6):
            graph = networkx.Graph()
            inside = np.flatnonzero(part[tree]).tolist()
            graph.add_nodes_from(inside)
            for i in inside:
                graph.add_weighted_edges_from((i, j, distances[tree, i, j]) for j in inside if i < j)
            theirs = networkx.minimum_spanning_edges(graph, algorithm="kruskal", data=False)
            assert edges_of(found[tree]) == sorted(theirs)


@pytest.mark.parametrize("values", [3, 1000])
def test_rank_correlations_are_those_of_scipy(values):
    rng = np.random.default_rng(values)
    one, two = rng.integers(0, values, size=(2, 5, 4, 17))
    found = spearman(one.astype(float), two)
    for index in np.ndindex(5, 4):
        np.testing.assert_allclose(found[index], stats.spearmanr(one[index], two[index]).statistic, atol=1e-12)


def test_gold_trees_of_a_treebank_are_their_own_spanning_trees(data):
    """And punctuation told by characters agrees with the Penn tags for 99 words of 100."""
    path = data / "ud_ewt" / "en_ewt-ud-dev.conllu"
    lines = read_lines(path)
    sentences = parse_conllu(lines[: lines.index("", 6000)], path)
    assert len(sentences) > 200
    agree = []
    for sentence in sentences:
        heads = np.array(sentence.annotations["head"])
        edges = sorted((min(w, h - 1), max(w, h - 1)) for w, h in enumerate(heads.tolist()) if h)
        assert edges_of(spanning_trees(tree_distances(heads)[None])[0]) == edges
        tags = sentence.annotations["xpos"]
        agree += [is_punctuation(w) == (t in PUNCTUATION_TAGS) for w, t in zip(sentence.words, tags, strict=True)]
    assert np.mean(agree) > 0.99
