"""The edge probe as an analysis: targets it can use, rows, items, and its refusals."""

import numpy as np
import pandas as pd
import pytest
from edge_corpora import corpus, named, represent

from vestige.analyses.base import check_rows
from vestige.analyses.edge_probe import EdgeProbe
from vestige.analyses.schema import PLACES
from vestige.comparison.differences import Settings, compare
from vestige.comparison.estimators import Share
from vestige.corpus.types import Span, SpanPair
from vestige.errors import AnalysisError
from vestige.measures.edge_scores import tenney_labels

QUICK = {"seeds": 1, "projected": 8, "hidden": 8, "rate": 1e-2, "validate_every": 10, "max_validations": 4, "batch": 8}


def noisy(strength=2.0, seed=0):
    """Vectors that show a target's first label at its first word."""
    rng = np.random.default_rng(seed)

    def vector(sentence, word, layer):
        found = rng.normal(size=6)
        for target in sentence.annotations["edge"]:
            start = target.first[0] if isinstance(target, SpanPair) else target.start
            if start == word and target.labels:
                found[sum(map(ord, target.labels[0])) % 6] += strength * (1 + layer)
        return found

    return vector


def spans(count, seed=0, labels="AB", words=6):
    """Two spans a sentence, of one and two words."""
    rng = np.random.default_rng(seed)
    return [
        (words, [Span(0, 1, (str(rng.choice(list(labels))),)), Span(2, 4, (str(rng.choice(list(labels))),))])
        for _ in range(count)
    ]


def rows_of(outcome, metric):
    """Rows of a metric, with the name of the input."""
    frame = pd.DataFrame(outcome.rows)
    return named(frame[frame["metric"] == metric])


def remarks_of(outcome, metric):
    """Rows of a metric that counts what was lost, by split and reason."""
    frame = pd.DataFrame(outcome.rows)
    return frame[(frame["metric"] == metric) & (frame["value"] > 0)]


EVERY = EdgeProbe(inputs=("layers", "top", "lexical", "cat", "mix", "mixes"), **{**QUICK, "seeds": 2})


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    made = corpus(train=spans(40), dev=spans(15, 1), test=spans(20, 2))
    inputs = represent(tmp_path_factory.mktemp("spans"), made, noisy(), [6] * 3)
    return EVERY.run(inputs)


def test_every_input_has_its_rows_and_only_single_layers_have_a_layer(outcome):
    names = ["layer 0", "layer 1", "layer 2", "top", "lexical", "cat", "mix", "mix 0-0", "mix 0-1"]
    for metric in ("f1_micro", "f1_tenney", "accuracy", "dev_f1", "steps", "parameters"):
        rows = rows_of(outcome, metric)
        assert rows["input"].tolist() == [name for name in names for _ in range(2)]
        assert rows["probe_seed"].tolist() == [0, 1] * len(names)
        assert rows["layer"].dropna().tolist() == [0, 0, 1, 1, 2, 2]
        assert rows[rows["layer"].notna()][["axis", "x"]].isna().all(axis=None)
        assert rows[rows["axis"] == "last_layer_mixed"]["x"].tolist() == [0, 0, 1, 1]
    assert set(rows_of(outcome, "f1")["label"]) == {"A", "B"}
    assert rows_of(outcome, "f1")["n"].max() + rows_of(outcome, "f1")["n"].min() == 40
    assert len(rows_of(outcome, "mix_weight")) == 2 * (3 + 1 + 2)
    assert len(rows_of(outcome, "expected_layer")) <= 4
    assert len(rows_of(outcome, "differential_score")) == 2 * 2 * 2


def test_all_that_is_declared_is_reported(outcome):
    check_rows(EVERY, outcome)
    assert {metric.name for metric in EVERY.given} == {row["metric"] for row in outcome.rows} | set(outcome.absent)
    assert set(outcome.absent) <= {"expected_layer"}
    assert {metric.name for metric in EdgeProbe(inputs=("layers",)).given}.isdisjoint({"mix_weight", "expected_layer"})


def test_some_mixes_are_read_alone_and_tell_no_expected_layer(outcome, tmp_path):
    made = corpus(train=spans(40), dev=spans(15, 1), test=spans(20, 2))
    inputs = represent(tmp_path, made, noisy(), [6] * 3)
    some = EdgeProbe(inputs=("mix 0-2", "mix 0-0"), **{**QUICK, "seeds": 2}).run(inputs)
    found, all_of_them = (rows_of(each, "f1_micro").groupby("input")["value"].apply(list) for each in (some, outcome))
    assert found.to_dict() == all_of_them.rename({"mix": "mix 0-2"})[["mix 0-0", "mix 0-2"]].to_dict()
    assert rows_of(some, "expected_layer").empty and rows_of(some, "differential_score").empty
    assert set(some.absent) == {"expected_layer", "differential_score"}


def test_top_and_lexical_are_the_last_and_the_first_layer(outcome):
    found = rows_of(outcome, "f1_micro").groupby("input")["value"].apply(list)
    assert found["top"] == found["layer 2"] and found["lexical"] == found["layer 0"]


def test_the_table_of_sentences_holds_what_f1_is_made_of(outcome):
    table = named(pd.DataFrame(outcome.tables["sentences"]))
    sums = table.groupby(["input", "probe_seed"])[["hits", "predicted", "gold", "targets"]].sum()
    again = 2 * sums["hits"] / (sums["predicted"] + sums["gold"])
    rows = rows_of(outcome, "f1_micro").set_index(["input", "probe_seed"])["value"]
    pd.testing.assert_series_equal(again.sort_index(), rows.sort_index(), check_names=False, check_index_type=False)
    assert (sums["targets"] == 40).all() and (sums["gold"] == 40).all()


def test_items_are_the_targets_of_every_seed_and_can_be_compared(outcome, tmp_path):
    items = named(pd.DataFrame(outcome.items))
    assert items["correct"].dtype == bool and set(items["probe_seed"]) == {0, 1}
    accuracy = rows_of(outcome, "accuracy").groupby("input")["value"].mean()
    pd.testing.assert_series_equal(items.groupby("input")["correct"].mean(), accuracy, check_names=False)
    assert items[items["input"] == "mix"][["sentence", "word"]].to_numpy()[:3].tolist() == [
        ["test0", 0],
        ["test0", 1],
        ["test1", 0],
    ]
    made = corpus(train=spans(40), dev=spans(15, 1), test=spans(20, 2))
    tuned = EdgeProbe(inputs=("layers",), **{**QUICK, "seeds": 2}).run(represent(tmp_path, made, noisy(0.0), [6] * 3))
    compared = differences(Share(), "items", outcome, tuned)
    assert compared["layer"].tolist() == [0, 1, 2]
    assert compared.loc[2, "base"] == pytest.approx(accuracy["layer 2"])
    assert compared.loc[2, "high"] < 0
    judged = differences(EdgeProbe.metrics[0].compared, "sentences", outcome, tuned)
    means = [rows_of(one, "f1_micro").groupby("input")["value"].mean()["layer 2"] for one in (outcome, tuned)]
    assert judged.loc[2, "difference"] == pytest.approx(means[1] - means[0])
    assert judged.loc[2, "high"] < 0 and judged.loc[2, "p"] < 0.05


def differences(estimator, table, base, tuned):
    """Of single layers, by the tables of two outcomes."""
    both = [pd.DataFrame(one.items if table == "items" else one.tables[table]) for one in (base, tuned)]
    layers = [frame[frame["layer"].notna()][[c for c in both[1] if c in frame]] for frame in both]
    return compare(estimator, layers[0], layers[1:], 0.005, Settings(resamples=200), stochastic=True, places=PLACES)


def test_runs_are_repeatable(tmp_path):
    made = corpus(train=spans(20), dev=spans(8, 1), test=spans(8, 2))
    both = [represent(tmp_path / str(at), made, noisy(), [6] * 2) for at in range(2)]
    analysis = EdgeProbe(inputs=("mix", "layer 1"), **QUICK)
    one, two = (analysis.run(inputs) for inputs in both)
    assert one.rows == two.rows
    pd.testing.assert_frame_equal(pd.DataFrame(one.items), pd.DataFrame(two.items))


def test_targets_without_vectors_are_left_out_and_counted(tmp_path):
    pairs = [
        SpanPair((0, 1), (1, 2), ("A",)),
        SpanPair((0, 2), (2, 6), ("B",)),
        SpanPair((4, 6), (0, 1), ("A",)),
        SpanPair((5, 6), (4, 5), ("A",)),
    ]
    made = corpus(train=[(6, pairs)] * 8, dev=[(6, pairs)] * 2, test=[(6, pairs), (6, pairs[:1]), (6, pairs[2:3])])
    inputs = represent(tmp_path, made, noisy(), [6], keep=4)
    outcome = EdgeProbe(inputs=("lexical",), **QUICK).run(inputs)
    left = remarks_of(outcome, "left_out_targets").set_index(["split", "subset"])[["value", "n"]]
    assert left.loc["test", "no word of span 1 has a vector"].tolist() == [3, 6]
    assert left.loc["test", "no word of span 2 has a vector"].tolist() == [1, 6]
    assert remarks_of(outcome, "shortened_targets").set_index("split")["value"].to_dict() == {
        "train": 8,
        "dev": 2,
        "test": 1,
    }
    assert outcome.items["sentence"].tolist() == ["test0", "test0", "test1"]
    assert outcome.items["word"].tolist() == [0, 1, 0]


def test_a_word_that_vanished_inside_a_span_only_shortens_it(tmp_path):
    made = corpus(train=spans(20), dev=spans(8, 1), test=spans(8, 2))
    outcome = EdgeProbe(inputs=("lexical",), **QUICK).run(represent(tmp_path, made, noisy(), [6], without=(3,)))
    assert remarks_of(outcome, "shortened_targets").set_index("split")["value"]["test"] == 8
    assert remarks_of(outcome, "left_out_targets").empty


def test_words_in_pieces_are_read_by_pieces(tmp_path):
    """A span's rows are all the pieces of its words: only the second piece shows the label."""
    made = corpus(train=spans(60), dev=spans(15, 1), test=spans(20, 2))
    plain, rng = noisy(4.0), np.random.default_rng(7)

    def vector(sentence, word, layer, piece):
        return plain(sentence, word, layer) if piece == 1 else rng.normal(size=6)

    inputs = represent(tmp_path, made, vector, [6], pieces=2)
    outcome = EdgeProbe(inputs=("lexical",), **{**QUICK, "max_validations": 10}).run(inputs)
    assert rows_of(outcome, "f1_micro")["value"].item() > 0.9
    assert remarks_of(outcome, "shortened_targets").empty


def test_a_label_that_train_lacks_is_counted_and_missed(tmp_path):
    strange = [(6, [Span(0, 1, ("A",)), Span(2, 3, ("new",))])]
    made = corpus(train=spans(30), dev=spans(8, 1), test=[*spans(10, 2), *strange * 2])
    outcome = EdgeProbe(inputs=("lexical",), **QUICK).run(represent(tmp_path, made, noisy(4.0), [6]))
    [unseen] = remarks_of(outcome, "unseen_labels").to_dict("records")
    assert (unseen["value"], unseen["n"], unseen["split"]) == (2, 24, "test")
    labels = rows_of(outcome, "f1").set_index("label")
    assert labels.loc["new", "value"] == 0 and labels.loc["new", "n"] == 2
    assert pd.DataFrame(outcome.tables["sentences"])["gold"].sum() == 24


def test_targets_may_have_several_labels_or_none(tmp_path):
    rng = np.random.default_rng(0)

    def many(count):
        given = [("A", "B"), ("A",), ()]
        return [(3, [Span(at, at + 1, given[rng.integers(3)]) for at in range(3)]) for _ in range(count)]

    made = corpus(train=many(80), dev=many(20), test=many(30))

    def vector(sentence, word, layer):
        labels = sentence.annotations["edge"][word].labels
        return [2 * ("A" in labels), 2 * ("B" in labels)] + 0.1 * rng.normal(size=2)

    outcome = EdgeProbe(inputs=("lexical",), **{**QUICK, "max_validations": 20}).run(
        represent(tmp_path, made, vector, [2])
    )
    assert rows_of(outcome, "f1_micro")["value"].item() > 0.95
    assert rows_of(outcome, "accuracy")["value"].item() > 0.95


@pytest.mark.parametrize(
    ("splits", "problem"),
    [
        ({"train": [(3, [Span(0, 1, ("A",))])] * 3}, "all 3 targets of train have the same labels .A."),
        ({"train": [(3, [Span(0, 1, ())])] * 3}, "same labels .no label."),
        ({"train": [(3, [])] * 3}, "split 'train': none of 0 targets of 'edge' in 3 sentences"),
        ({"test": [(3, [])]}, "split 'test': none of 0 targets"),
        ({"dev": [(9, [Span(7, 9, ("A",))])]}, "split 'dev': none of 1 targets"),
        ({"dev": None}, "no 'dev' split"),
    ],
)
def test_corpora_that_cannot_be_probed_are_refused(tmp_path, splits, problem):
    given = {"train": spans(5), "dev": spans(5, 1), "test": spans(5, 2), **splits}
    made = corpus(**{name: part for name, part in given.items() if part is not None})
    inputs = represent(tmp_path, made, noisy(), [6], keep=7)
    with pytest.raises(AnalysisError, match=problem):
        EdgeProbe(**QUICK).run(inputs)


def test_rescaled_layers_do_not_depend_on_their_scale(tmp_path):
    made = corpus(train=spans(30), dev=spans(8, 1), test=spans(15, 2))
    found = []
    for factor in (1, 1000):
        plain = noisy()
        vector = lambda *where, plain=plain, factor=factor: factor * plain(*where)  # noqa: E731
        inputs = represent(tmp_path / str(factor), made, vector, [6])
        outcome = EdgeProbe(inputs=("lexical",), rescale=True, **QUICK).run(inputs)
        found.append(rows_of(outcome, "f1_micro")["value"].item())
    assert found[0] == found[1]


def test_the_labels_that_tenney_et_al_count():
    assert tenney_labels(["0", "1"]).tolist() == [False, True]
    assert tenney_labels(["Cause-Effect(e1,e2)", "Other"]).tolist() == [True, False]
    assert tenney_labels(["org:founded", "no_relation"]).tolist() == [True, False]
    roles = ["ARG0", "ARGA", "ARGM-TMP", "ARG9", "C-ARG1", "R-ARGM-LOC", "V"]
    assert tenney_labels(roles).tolist() == [True, True, True, False, False, False, False]
    assert tenney_labels(["nsubj", "obj"]).all()
