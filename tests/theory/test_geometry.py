"""What the measures of a cloud must say of clouds whose answer is known, and what they must not see."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from vestige.measures.cka import cka
from vestige.measures.geometry import Cloud
from vestige.measures.intrinsic import intrinsic_dimension
from vestige.measures.jackknife import deal, jackknife_error
from vestige.measures.robust_cka import cka_without_extremes, cka_without_outliers
from vestige.measures.similarity import similarities

SPECTRAL = ("participation_ratio", "isoscore")
BLIND_TO_AXES = ("mean_cosine", "mean_cosine_centred", *SPECTRAL, "intrinsic_dimension")
BLIND_TO_SCALE = (*BLIND_TO_AXES, "outlier_dimensions", "largest_share")


def measure(name: str, vectors: np.ndarray, groups=()) -> np.ndarray:
    cloud = Cloud(np.asarray(vectors, dtype=np.float64), groups)
    if name == "intrinsic_dimension":
        return intrinsic_dimension(cloud.vectors, groups).values
    return getattr(cloud if hasattr(cloud, name) else cloud.spectra(), name)()


@pytest.fixture(scope="module")
def cloud():
    rng = np.random.default_rng(0)
    return rng.normal(size=(400, 12)) * np.linspace(0.3, 2, 12) * np.r_[np.ones(11), 6] + 1.0


def embedded(points: np.ndarray, width: int = 20) -> np.ndarray:
    padded = np.zeros((len(points), width))
    padded[:, : points.shape[1]] = points
    return padded @ ortho_group.rvs(width, random_state=1)


def cube(rng, d):
    return rng.uniform(size=(2500, d))


def sphere(rng, d):
    points = rng.normal(size=(2500, d + 1))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def swiss_roll(rng, d):
    turn = 1.5 * np.pi * (1 + 2 * rng.uniform(size=2500))
    return np.c_[turn * np.cos(turn), 21 * rng.uniform(size=2500), turn * np.sin(turn)]


@pytest.mark.parametrize("manifold, d", [(cube, 1), (cube, 2), (cube, 5), (sphere, 2), (sphere, 3), (swiss_roll, 2)])
def test_the_intrinsic_dimension_is_that_of_the_manifold(manifold, d):
    found = intrinsic_dimension(embedded(manifold(np.random.default_rng(0), d)))
    assert found.values == pytest.approx([d], rel=0.1)


def test_copies_count_once_even_where_rounding_or_a_little_noise_tells_them_apart():
    """As in the embeddings: words of a few types at a few places, many times."""
    rng = np.random.default_rng(0)
    types = embedded(rng.uniform(size=(600, 4)))
    alone = intrinsic_dimension(types)
    for often, noise in ((1400, 0.0), (1400, 1e-7), (500, 2e-4)):
        copies = np.r_[types, types[rng.integers(0, 600, size=often)]]
        found = intrinsic_dimension(copies + noise * rng.normal(size=copies.shape))
        assert found.points == 600 and found.values == pytest.approx(alone.values, rel=0.02), noise
    few = intrinsic_dimension(np.repeat(types[:10], 50, axis=0))
    assert few.points == 10 and not len(few.values)
    assert not len(intrinsic_dimension(np.stack(np.mgrid[:9, :9], -1).reshape(-1, 2)).values), "a grid has none"


def test_dimensions_of_known_spectra():
    rng = np.random.default_rng(0)
    isotropic, line = rng.normal(size=(4000, 10)), rng.normal(size=(4000, 1)) * np.ones(10)
    assert measure("participation_ratio", isotropic) == pytest.approx([10], rel=0.02)
    assert measure("participation_ratio", line) == pytest.approx([1], abs=1e-9)
    assert measure("isoscore", isotropic) == pytest.approx([1], abs=0.01)
    assert measure("isoscore", line) == pytest.approx([0], abs=0.001)
    half = isotropic * (np.arange(10) < 5)
    assert measure("participation_ratio", half) == pytest.approx([5], rel=0.02)
    assert measure("isoscore", half) == pytest.approx([4 / 9], abs=0.01)


def test_few_vectors_of_many_units_do_not_look_anisotropic():
    few = np.random.default_rng(0).normal(size=(60, 100))
    assert measure("participation_ratio", few)[0] < 45
    assert measure("isoscore", few)[0] > 0.95


@pytest.mark.parametrize("name", BLIND_TO_SCALE)
def test_blind_to_scale_and_where_it_should_be_to_axes(name, cloud):
    found = measure(name, cloud)
    assert measure(name, 7.5 * cloud) == pytest.approx(found, rel=1e-9)
    turned = measure(name, cloud @ ortho_group.rvs(12, random_state=0))
    assert (turned == pytest.approx(found, rel=1e-8)) == (name in BLIND_TO_AXES)


@pytest.mark.parametrize("name", [*BLIND_TO_SCALE, "norm", "log_norm"])
def test_a_common_vector_shows_in_cosines_and_norms_alone(name, cloud):
    moved = measure(name, cloud + 5)
    assert (moved == pytest.approx(measure(name, cloud), rel=1e-8)) == (name not in ("mean_cosine", "norm", "log_norm"))


def test_vectors_around_one_direction_are_anisotropic_until_it_is_taken_off():
    vectors = np.random.default_rng(0).normal(size=(500, 50)) + 3
    assert measure("mean_cosine", vectors) == pytest.approx([0.9], abs=0.01)
    assert measure("mean_cosine_centred", vectors) == pytest.approx([0], abs=0.01)


def test_norms(cloud):
    assert measure("log_norm", np.e * cloud) == pytest.approx(measure("log_norm", cloud) + 1)
    assert measure("norm", 2 * cloud) == pytest.approx(2 * measure("norm", cloud))


def test_one_huge_unit_is_an_outlier_dimension(cloud):
    plain = np.random.default_rng(0).normal(size=(300, 40))
    assert measure("outlier_dimensions", plain) == [0]
    plain[:, 7] *= 10
    assert measure("outlier_dimensions", plain) == [1]
    assert measure("largest_share", plain) == pytest.approx([100 / 139], rel=0.1)


@pytest.mark.parametrize("name", [*BLIND_TO_SCALE, "norm", "log_norm"])
def test_what_is_left_without_a_group_is_the_measure_of_the_rest(name, cloud):
    groups = deal(np.arange(400) // 8, 10)
    found = measure(name, cloud, groups)
    assert len(found) == 11
    for number, items in enumerate(groups, start=1):
        rest = np.delete(cloud, items, axis=0)
        assert found[number] == pytest.approx(measure(name, rest)[0], rel=1e-7), number


def test_neighbours_are_found_anew_where_a_group_held_most_of_them():
    """Words of one long sentence, all that is near to each other, beside many of others."""
    rng = np.random.default_rng(0)
    of = np.concatenate([np.zeros(60, dtype=int), rng.integers(1, 30, size=90)])
    points = rng.normal(size=(150, 6)) + 8 * (of == 0)[:, None]
    points[of > 0][:3] = points[:3] + 0.1
    points[60:63] = points[:3] + 0.1
    found = intrinsic_dimension(points, deal(of, 10)).values
    for number, items in enumerate(deal(of, 10), start=1):
        assert found[number] == pytest.approx(intrinsic_dimension(np.delete(points, items, axis=0)).values[0])


@pytest.mark.parametrize("name", ["mean_cosine", "participation_ratio", "isoscore", "intrinsic_dimension"])
def test_errors_over_sentences_are_not_too_small(name):
    """The spread of the measure over corpora beside what the jackknife says of each; sentences have words in common."""
    rng = np.random.default_rng(0)
    of, values, errors = np.repeat(np.arange(60), 5), [], []
    for _ in range(40 if name == "intrinsic_dimension" else 150):
        vectors = rng.normal(size=(60, 8))[of] + rng.normal(size=(300, 8)) + 0.5
        found = measure(name, vectors * np.linspace(0.5, 2, 8), deal(of))
        values.append(found[0])
        errors.append(jackknife_error(found[1:]))
    ratio = np.mean(errors) / np.std(values, ddof=1)
    assert 0.85 < ratio < (2.0 if name == "intrinsic_dimension" else 1.3)


@pytest.fixture(scope="module")
def two():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 24)) * np.linspace(0.5, 1.5, 24)
    return x, x + 0.1 * rng.normal(size=x.shape)


ROBUST = (cka, cka_without_extremes, cka_without_outliers)


def test_a_few_words_that_moved_far_make_cka_fall_but_not_the_one_without_them(two):
    """Davari et al. 2023: one in a hundred translated, all others as they were."""
    x, y = two
    moved = y.copy()
    moved[np.random.default_rng(1).choice(600, 6, replace=False)] += 30 * np.ones(24)
    before, after = ([measure(x, other) for measure in ROBUST] for other in (y, moved))
    assert min(before) > 0.98
    assert after[0] < 0.3
    assert after[1] > 0.98


def test_a_huge_unit_of_one_model_makes_cka_fall_but_not_the_one_without_it(two):
    x, y = two
    grown = y.copy()
    grown[:, 3] = 50 * np.random.default_rng(1).normal(size=600)
    assert cka(x, grown) < 0.3 and cka_without_outliers(x, grown) > 0.95


def test_a_huge_unit_of_both_hides_that_all_others_changed():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 24)), rng.normal(size=(600, 24))
    x[:, 0] = y[:, 0] = 50 * x[:, 0]
    assert cka(x, y) > 0.95 and abs(cka_without_outliers(x, y)) < 0.05


@pytest.mark.parametrize("measure", ROBUST)
def test_a_rotated_copy_is_wholly_similar_whatever_is_left_out(measure, two):
    x = two[0].copy()
    x[:, 5] *= 20
    x[:6] += 30
    assert measure(x, 3 * x @ ortho_group.rvs(24, random_state=0) + 2) == pytest.approx(1, abs=1e-9)
    assert measure(x, x.copy()) == 1.0


def test_cka_without_extremes_of_the_rest_leaves_out_the_extremes_of_the_rest(two):
    x, y = (two[0] * np.r_[9, np.ones(23)], two[1] * 1.0)
    of = np.arange(600) // 6
    x[:12] *= 3
    names = ["cka_without_extremes", "cka_without_outliers"]
    found = similarities([x], [y], names, sentences=of)
    for name, exact in zip(names, (1e-9, 2e-3), strict=True):
        for number, items in enumerate(deal(of)):
            rest = np.delete(np.arange(600), items)
            again = similarities([x[rest]], [y[rest]], [name])[name][0, 0].value
            assert found[name][0, 0].without[number] == pytest.approx(again, abs=exact), (name, number)
