"""Structural probes of a real model on a real treebank, scored again by SciPy and networkx."""

import networkx
import numpy as np
import pandas as pd
from scipy import stats

from vestige.analyses.base import Inputs
from vestige.analyses.structural_probe import StructuralProbe
from vestige.corpus.readers.conllu import parse_conllu
from vestige.corpus.readers.text import read_lines
from vestige.corpus.types import Corpus
from vestige.measures.trees import PUNCTUATION_TAGS, tree_distances
from vestige.probes.problem import Features
from vestige.probes.structural import Sentences, StructuralRecipe, predictions, train_structural
from vestige.representations.extract import represent


def test_minilm_knows_trees_best_in_the_middle_and_scores_agree_with_scipy_and_networkx(data, minilm, cache):
    path = data / "ud_ewt" / "en_ewt-ud-dev.conllu"
    lines = read_lines(path)
    sentences = [s for s in parse_conllu(lines[: lines.index("", 4500)], path) if len(s.words) <= 40]
    splits = {"train": sentences[:100], "dev": sentences[100:115], "test": sentences[115:130]}
    corpus = Corpus("ewt", {name: tuple(part) for name, part in splits.items()}, {"head": "tree"})
    found = {name: represent(minilm, part, ("mean",), cache=cache)["mean"] for name, part in splits.items()}
    analysis = StructuralProbe(
        rank=16, max_epochs=6, punctuation="xpos", probes="distance", seeds=1, rescale=False, axes="units"
    )
    outcome = analysis.run(Inputs(corpus.task("head"), {"mean": found}, "minilm"))
    rows = pd.DataFrame(outcome.rows).set_index(["metric", "layer"])["value"]
    assert rows["dspr"].idxmax() not in (0, 6) and rows["dspr"].max() > 0.5

    mine = _again(corpus, found, StructuralRecipe(rank=16, max_epochs=6))
    for layer, (dspr, uuas) in mine.items():
        np.testing.assert_allclose(rows["dspr", layer], dspr, atol=1e-6)
        np.testing.assert_allclose(rows["uuas", layer], uuas, atol=1e-9)


def _again(corpus, found, recipe):
    """(DSpr, UUAS) of some layers, a sentence at a time."""
    some = (0, 3)
    data = {}
    for split, sentences in corpus.splits.items():
        lengths = np.array([len(s.words) for s in sentences])
        gold = [tree_distances(np.array(s.annotations["head"])).astype(np.float32) for s in sentences]
        layers = [Features(found[split].layer(at)) for at in range(found[split].layers)]
        data[split] = Sentences(layers, np.cumsum(lengths) - lengths, lengths, gold)
    fit = train_structural("distance", data["train"], data["dev"], recipe, [0])
    maps = list(fit.weights[:, 0])
    by_length = [{} for _ in maps]
    edges = np.zeros((len(maps), 2))
    for group, predicted in predictions("distance", data["test"], maps, range(len(maps))):
        for place, at in enumerate(group.sentences.tolist()):
            sentence, gold = corpus["test"][at], data["test"].gold[at]
            n = len(sentence.words)
            words = [i for i, tag in enumerate(sentence.annotations["xpos"]) if tag not in PUNCTUATION_TAGS]
            for layer in some:
                mine = predicted[layer, place, :n, :n].numpy()
                if n >= 5:
                    rhos = [stats.spearmanr(a, b).statistic for a, b in zip(mine, gold, strict=True)]
                    by_length[layer].setdefault(n, []).extend(rhos)
                one, two = (_kruskal(matrix, words) for matrix in (mine, gold))
                edges[layer] += len(one & two), len(two)
    return {
        layer: (np.mean([np.mean(v) for v in by_length[layer].values()]), edges[layer, 0] / edges[layer, 1])
        for layer in some
    }


def _kruskal(distances, words):
    graph = networkx.Graph()
    graph.add_nodes_from(words)
    graph.add_weighted_edges_from((i, j, float(distances[i, j])) for i in words for j in words if i < j)
    return {tuple(sorted(edge)) for edge in networkx.minimum_spanning_edges(graph, data=False)}
