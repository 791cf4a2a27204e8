"""What an analysis reports is held to what it declares, when its cell is run: the author is told what to change."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from vestige.analyses.base import Analysis, Outcome, check_rows, check_tables
from vestige.analyses.metric import WHOLE, Axis, Metric
from vestige.comparison.estimators import Difference, Mean, Share
from vestige.errors import AnalysisError


@dataclass(frozen=True)
class Norms(Analysis):
    """Norms."""

    name: ClassVar[str] = "norms"
    metrics = (
        Metric("norm", "the norm", margin=0.1, compared=Mean(column="norm")),
        Metric("size", "the size", along=(WHOLE, Axis("share", "share"), Axis("share", "share", second="l2"))),
    )

    def run(self, inputs):
        return Outcome()


def outcome(*rows, **items):
    return Outcome([{"value": 1.0, **row} for row in rows], {name: np.array(column) for name, column in items.items()})


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"metric": "nrom", "layer": 0}, "reports 'nrom', which it does not declare"),
        ({"metric": "norm"}, "along no axis, but declares it along 'layer'"),
        ({"metric": "norm", "axis": "share", "x": 0.1}, "along 'share'"),
        ({"metric": "size", "axis": "share", "x": 0.1, "axis2": "l1", "x2": 0}, "along 'share' and 'l1'"),
        ({"metric": "norm", "layer": 0, "laber": "a"}, "'laber' of 'norm', which is no column"),
        ({"metric": "norm", "layer": 3, "value": float("nan")}, r"no number \(nan\) at {'layer': 3}"),
    ],
)
def test_a_row_that_is_not_declared_is_refused(row, problem):
    with pytest.raises(AnalysisError, match=problem) as raised:
        check_rows(Norms(), outcome(row))
    assert raised.value.fix


def test_rows_as_declared_pass():
    rows = [{"metric": "norm", "layer": 0}, {"metric": "size"}, {"metric": "size", "axis": "share", "x": 1.0},
            {"metric": "size", "axis": "share", "x": 1.0, "axis2": "l2", "x2": 0.1}]  # fmt: skip
    check_rows(Norms(), outcome(*rows))


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ({}, "by the column 'norm' of its table 'items', which has no columns"),
        ({"sentence": ["a"], "nrom": [1.0]}, "by the column 'norm'.*which has sentence, nrom"),
        ({"norm": [1.0]}, "by the column 'sentence'"),
        ({"sentence": ["a", "b"], "norm": [1.0]}, r"whose columns have \[1, 2\] rows"),
    ],
)
def test_a_declared_comparison_that_cannot_be_made_is_refused(items, problem):
    with pytest.raises(AnalysisError, match=problem) as raised:
        check_tables(Norms(), outcome({"metric": "norm", "layer": 0}, **items))
    assert raised.value.fix


def test_a_metric_without_rows_needs_no_items():
    check_tables(Norms(), outcome({"metric": "size"}))


def test_an_estimator_knows_its_columns():
    task, control = (Share(where=(("subset", name),)) for name in ("task", "control"))
    assert Difference(first=task, second=control).columns == {"sentence", "subset", "correct"}
    assert Mean(column="norm").columns == {"sentence", "norm"} and Mean().selecting == set()


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"unit": "dims"}, "unit 'dims' is none of percent"),
        ({"better": "more"}, "better 'more'"),
        ({"role": "main"}, "role 'main'"),
        ({"compared": Share()}, "needs a margin"),
        ({"role": "remark"}, "a remark has a sentence"),
        ({"along": ()}, "lies along nothing"),
    ],
)
def test_a_metric_is_one_of_the_known_kinds(declared, problem):
    with pytest.raises(ValueError, match=problem):
        Metric("norm", "the norm", **declared)
