"""Clusters against scikit-learn, and matches, purity and agreement against their definitions spelt out."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import mutual_info_score

from vestige.measures.clusters import NONE, Clusters, agreement, found_in, k_means, pure_labels


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(900, 24)) + 2 * rng.normal(size=(12, 24))[rng.integers(0, 12, 900)]


def test_clusters_are_as_tight_as_those_of_full_k_means(rows):
    best = min(KMeans(12, n_init=1, random_state=seed).fit(rows).inertia_ for seed in range(8))
    ours = [k_means(rows, 12, seed) for seed in range(8)]
    assert min(one.inertia for one in ours) == pytest.approx(best, rel=1e-3)
    assert np.mean([one.inertia for one in ours]) < 1.1 * best
    for one in ours[:2]:
        centres = np.stack([rows[one.of == number].mean(0) for number in range(12)])
        assert one.inertia == pytest.approx(((rows - centres[one.of]) ** 2).sum(), rel=1e-3)


def random_pair(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    one = rng.integers(0, 8, 200)
    return one, np.where(rng.random(200) < 0.2, rng.integers(0, 7, 200), one)


@pytest.mark.parametrize("seed", range(5))
def test_matches_and_purity_by_sets(seed):
    one, other = random_pair(seed)
    groups = [[set(np.flatnonzero(of == number)) for number in range(of.max() + 1)] for of in (one, other)]
    for overlap in (0.5, 0.6, 0.8):
        mutual = [any(len(a & b) >= overlap * max(len(a), len(b)) for b in groups[1]) for a in groups[0]]
        contained = [any(len(a & b) >= overlap * len(a) for b in groups[1]) for a in groups[0]]
        assert found_in(Clusters(one), Clusters(other), overlap).tolist() == mutual
        assert found_in(Clusters(one), Clusters(other), overlap, mutual=False).tolist() == contained
        expected = []
        for members in groups[0]:
            counts = np.bincount(other[list(members)])
            pure = len(members) >= 20 and counts.max() >= overlap * len(members)
            expected.append(counts.argmax() if pure else NONE)
        assert pure_labels(Clusters(one), other, overlap, least=20).tolist() == expected


def test_agreement_is_information_beyond_that_of_shuffled_clusters():
    one, other = random_pair(0)
    rng = np.random.default_rng(1)
    shuffled = np.mean([mutual_info_score(one, rng.permutation(other)) for _ in range(300)])
    most = np.mean([mutual_info_score(of, of) for of in (one, other)])
    expected = (mutual_info_score(one, other) - shuffled) / (most - shuffled)
    assert agreement(Clusters(one), Clusters(other)) == pytest.approx(expected, abs=5e-3)
    some = np.arange(200) < 120
    assert agreement(Clusters(one), Clusters(other), some) != agreement(Clusters(one), Clusters(other))
