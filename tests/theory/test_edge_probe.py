"""What must hold of edge probes, on spans with planted labels, and of what they say of layers."""

import numpy as np
import pandas as pd
import pytest
from edge_corpora import corpus, named, represent
from hypothesis import given
from hypothesis import strategies as st

from vestige.analyses.edge_probe import EdgeProbe
from vestige.comparison.differences import Settings, compare
from vestige.comparison.estimators import F1
from vestige.corpus.types import Corpus, Span, SpanPair
from vestige.measures.edge_scores import centre_of_gravity, divergence_from_uniform, expected_layer

QUICK = {"seeds": 1, "projected": 16, "hidden": 32, "rate": 5e-3, "validate_every": 40, "max_validations": 10}
SIZES = {"train": 150, "dev": 40, "test": 60}


def signs(seed, words):
    """A hidden sign per word."""
    return np.random.default_rng(seed).integers(0, 2, size=words) * 2 - 1


def planted(pairs: bool) -> tuple[Corpus, dict]:
    """Single words; a target is `same` if the words (or the first and one that is not shown) have equal signs."""
    rng = np.random.default_rng(0)
    splits, hidden = {}, {}
    for split, count in SIZES.items():
        splits[split] = []
        for at in range(count):
            mine = signs([len(split), at], 8)
            hidden[f"{split}{at}"] = mine
            targets = []
            for first, second in rng.permutation(8).reshape(4, 2).tolist():
                labels = ("same" if mine[first] == mine[second] else "different",)
                pair = SpanPair((first, first + 1), (second, second + 1), labels)
                targets.append(pair if pairs else Span(first, first + 1, labels))
            splits[split].append((8, targets))
    return corpus(**splits), hidden


def vector_of(hidden, layer_of_signs, width=6):
    rng = np.random.default_rng(5)

    def vector(sentence, word, layer):
        noise = rng.normal(size=width)
        if layer == layer_of_signs:
            noise[0] = 2 * hidden[sentence.id][word]
        return noise

    return vector


def scores(outcome, metric="f1_micro"):
    frame = pd.DataFrame(outcome.rows)
    return named(frame[frame["metric"] == metric]).set_index("input")["value"]


def test_what_only_both_spans_tell_is_learnt_from_both_and_where_it_is(tmp_path):
    made, hidden = planted(pairs=True)
    inputs = represent(tmp_path, made, vector_of(hidden, 1), [6] * 2)
    found = scores(EdgeProbe(inputs=("layers",), **QUICK).run(inputs))
    assert found["layer 1"] > 0.97 and found["layer 0"] < 0.65


def test_one_of_two_spans_tells_nothing(tmp_path):
    made, hidden = planted(pairs=False)
    inputs = represent(tmp_path, made, vector_of(hidden, 0), [6])
    assert scores(EdgeProbe(inputs=("lexical",), **QUICK).run(inputs))["lexical"] < 0.65


@pytest.fixture(scope="module")
def mixes(tmp_path_factory):
    """Words labelled with their signs, which only layer 1 of 3 shows."""
    hidden = {f"{split}{at}": signs([len(split), at], 4) for split, count in SIZES.items() for at in range(count)}
    splits = {
        split: [
            (4, [Span(at, at + 1, (f"{sign:+d}",)) for at, sign in enumerate(hidden[f"{split}{number}"])])
            for number in range(count)
        ]
        for split, count in SIZES.items()
    }
    inputs = represent(tmp_path_factory.mktemp("mixes"), corpus(**splits), vector_of(hidden, 1), [6] * 3)
    return EdgeProbe(inputs=("mix", "mixes"), mix_rate=0.05, **{**QUICK, "max_validations": 5}).run(inputs)


def test_a_mix_finds_the_planted_layer(mixes):
    assert scores(mixes)["mix"] > 0.97
    rows = pd.DataFrame(mixes.rows)
    weights = rows[(rows["metric"] == "mix_weight") & (rows["input"] == "mix") & rows["axis"].isna()].set_index(
        "layer"
    )["value"]
    assert weights.idxmax() == 1 and weights[1] > 0.7
    assert weights.sum() == pytest.approx(1)
    assert scores(mixes, "centre_of_gravity")["mix"] == pytest.approx(weights[1] + 2 * weights[2])
    assert scores(mixes, "kl")["mix"] == pytest.approx((weights * np.log(3 * weights)).sum())


def test_the_expected_layer_is_the_one_that_brings_the_score(mixes):
    found = scores(mixes)[["mix 0-0", "mix 0-1", "mix"]].to_numpy()
    assert found[0] < 0.65 and found[1] > 0.97
    assert scores(mixes, "expected_layer")["micro"] == pytest.approx(1, abs=0.05)
    gained = np.diff(found)
    assert scores(mixes, "expected_layer")["micro"] == pytest.approx((gained[0] + 2 * gained[1]) / gained.sum())
    assert scores(mixes, "differential_score")["micro"].tolist() == pytest.approx(gained.tolist())


def test_words_of_a_span_are_weighed(tmp_path):
    """One word of each span carries the label and a mark; a plain mean would drown it in the others."""
    rng = np.random.default_rng(1)
    splits = {
        split: [(12, [Span(0, 12, (str(rng.integers(0, 2)),))]) for _ in range(2 * count)]
        for split, count in SIZES.items()
    }
    made = corpus(**splits)
    marked = {s.id: rng.integers(0, 12) for items in made.splits.values() for s in items}

    def vector(sentence, word, layer):
        label = int(sentence.annotations["edge"][0].labels[0])
        if word == marked[sentence.id]:
            return [2 * label - 1, 0.0, 3.0, 0.0]
        return [*(2 * rng.normal(size=2)), 0.0, 0.0]

    inputs = represent(tmp_path, made, vector, [4])
    assert scores(EdgeProbe(inputs=("lexical",), **QUICK).run(inputs))["lexical"] > 0.95


def test_the_order_of_scored_sentences_plays_no_role(tmp_path):
    made, hidden = planted(pairs=True)

    def vector(sentence, word, layer):
        noise = np.random.default_rng([word, *sentence.id.encode()]).normal(size=4)
        return [0.7 * hidden[sentence.id][word] + 0.5 * noise[0], *noise[1:]]

    again = Corpus("reversed", {**made.splits, "test": made["test"][::-1]}, made.levels)
    both = [
        EdgeProbe(inputs=("lexical",), **{**QUICK, "max_validations": 2}).run(
            represent(tmp_path / c.name, c, vector, [4])
        )
        for c in (made, again)
    ]
    one, two = (pd.DataFrame(outcome.items).sort_values(["sentence", "word"]) for outcome in both)
    assert one["correct"].tolist() == two["correct"].tolist() and 0.5 < one["correct"].mean() < 1
    assert scores(both[0]).tolist() == scores(both[1]).tolist()


def test_centre_of_gravity_and_divergence_in_closed_form():
    even, one = np.full(13, 1 / 13), np.eye(13)[9]
    assert centre_of_gravity(even) == pytest.approx(6) and centre_of_gravity(one) == 9
    assert divergence_from_uniform(even) == pytest.approx(0, abs=1e-12)
    assert divergence_from_uniform(one) == pytest.approx(np.log(13))
    assert divergence_from_uniform(np.array([0.5, 0.5, 0, 0])) == pytest.approx(np.log(2))


def test_expected_layer_in_closed_form():
    assert expected_layer(np.array([0.2, 0.2, 0.2, 0.9, 0.9])) == pytest.approx(3)
    assert expected_layer(np.linspace(0.3, 0.8, 13)) == pytest.approx(6.5)
    assert expected_layer(np.array([0.0, 0.8, 0.6])) == pytest.approx((0.8 - 2 * 0.2) / 0.6)
    assert np.isnan(expected_layer(np.array([0.5, 0.6, 0.5])))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=13), st.floats(0.1, 10), st.floats(-5, 5))
def test_expected_layer_does_not_depend_on_the_scale_of_scores(values, scale, shift):
    gained = np.array([0.0, *values])
    curve = np.cumsum(gained) + 0.1 * np.arange(len(gained))
    first, second = expected_layer(curve), expected_layer(scale * curve + shift)
    assert first == pytest.approx(second, rel=1e-6)
    assert 1 <= first <= len(values)


def table(rng, hits=0.8, sentences=150, seeds=2, inputs=("mix", "top")):
    """Like the table `sentences` of an edge probe."""
    count = sentences * seeds * len(inputs)
    gold = np.tile(np.random.default_rng(9).integers(1, 12, size=sentences), seeds * len(inputs))
    columns = {
        "sentence": np.tile([f"s{at}" for at in range(sentences)], seeds * len(inputs)),
        "input": np.repeat(inputs, sentences * seeds),
        "probe_seed": np.tile(np.repeat(np.arange(seeds), sentences), len(inputs)),
        "gold": gold,
        "hits": rng.binomial(gold, hits),
        "targets": gold,
    }
    columns["predicted"] = columns["hits"] + rng.binomial(2, 0.3, size=count)
    return pd.DataFrame(columns)


def test_a_rotated_and_rescaled_copy_trains_the_same_probes(tmp_path):
    made, hidden = planted(pairs=True)
    rng = np.random.default_rng(6)
    sizes, rotation = 10.0 ** rng.uniform(-1, 1, size=6), np.linalg.qr(rng.normal(size=(6, 6)))[0]
    found = {"principal": [], "units": []}
    for name, mapped in (("base", lambda x: x * sizes), ("copy", lambda x: 7 * (x * sizes) @ rotation)):
        plain = vector_of(hidden, 1)
        vector = lambda *where, plain=plain, mapped=mapped: mapped(plain(*where))  # noqa: E731
        inputs = represent(tmp_path / name, made, vector, [6] * 2)
        for axes, mine in found.items():
            analysis = EdgeProbe(inputs=("layers", "mix"), axes=axes, **{**QUICK, "max_validations": 2})
            mine.append(scores(analysis.run(inputs)))
    np.testing.assert_allclose(*found["principal"], atol=0.01)
    assert abs(found["units"][0] - found["units"][1]).max() > 0.02, "unit by unit a copy is read otherwise"


def f1_changes(base, tuned, resamples=300, stochastic=True):
    return compare(F1(), base, tuned, 0.005, Settings(resamples=resamples), stochastic=stochastic, places=["input"])


def test_a_model_does_not_differ_from_itself():
    base = table(np.random.default_rng(0))
    found = f1_changes(base, [base], stochastic=False)
    assert found["input"].tolist() == ["mix", "top"] and (found["sentences"] == 150).all()
    np.testing.assert_array_equal(found[["difference", "low", "high"]], 0)
    np.testing.assert_array_equal(found["p"], 1)


def test_the_order_of_sentences_and_copies_of_a_run_change_nothing():
    rng = np.random.default_rng(1)
    base, tuned = table(rng), table(rng, hits=0.7)
    shuffled = tuned.iloc[rng.permutation(len(base))]
    one, two = f1_changes(base, [tuned]), f1_changes(base, [shuffled])
    for name in ("low", "high", "p"):
        np.testing.assert_allclose(one[name], two[name])
    difference = one["difference"]
    assert (one["low"] < difference).all() and (difference < one["high"]).all() and (one["high"] < 0).all()
    np.testing.assert_allclose(f1_changes(base, [tuned, tuned])["difference"], difference)
    np.testing.assert_allclose(f1_changes(tuned, [base], 10)["difference"], -difference)


def test_one_seed_supports_a_description_only():
    rng = np.random.default_rng(2)
    base, tuned = table(rng, seeds=1), table(rng, hits=0.5, seeds=1)
    found = f1_changes(base, [tuned])
    assert (found["difference"] < -0.1).all()
    assert found[["low", "high", "p", "p_equivalence"]].isna().all(axis=None)
    assert f1_changes(base, [tuned, tuned])["p"].isna().all(), "the base has one seed"
    assert f1_changes(table(rng, seeds=2), [tuned, table(rng, hits=0.5, seeds=1)])["p"].notna().all()
