import pytest

from vestige.analyses.metric import Metric
from vestige.report import numbers
from vestige.report.wording import bare_chance, chance, layers, percent, task_title

SHARE = Metric("accuracy", "accuracy", "percent", decimals=1)
LOSS = Metric("loss", "loss", "nats", decimals=3)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([0], "the embeddings"),
        ([4], "layer 4"),
        ([4, 1], "layers 1 and 4"),
        ([1, 2, 3], "layers 1 to 3"),
        ([0, 1, 2, 3, 6], "the embeddings and layers 1 to 3 and 6"),
        ([], ""),
    ],
)
def test_layers_are_named_in_order_with_runs_joined(numbers: list[int], text: str) -> None:
    assert layers(numbers) == text


def test_changes_carry_a_true_minus_and_no_negative_zero() -> None:
    assert numbers.change(SHARE, -0.0312) == "\u22123.1"
    assert numbers.change(SHARE, 0.012, 1) == "+1.20"
    assert numbers.change(SHARE, -0.0001) == numbers.change(SHARE, 0.0001) == "0.0"
    assert numbers.span(SHARE, -0.039, -0.023) == "\u22123.9 to \u22122.3"
    assert numbers.moved(LOSS, 2, 2.5).split() == ["2.000", "\u2192", "2.500"]


def test_levels_amounts_and_missing_values() -> None:
    nothing = float("nan")
    assert percent(0.8264) == numbers.text(SHARE, 0.8264) == "82.6"
    assert percent(nothing) == bare_chance(nothing) == numbers.span(LOSS, nothing, nothing) == "\u2013"
    assert numbers.level(LOSS, 2.0, 1.9, 2.1).split() == ["2.000", "(1.900", "to", "2.100)"]
    assert (numbers.amount(SHARE, -0.031), numbers.amount(LOSS, 0.02)) == ("3.1 points", "0.020 nats")
    margins = [numbers.margin(SHARE, 0.005), numbers.margin(SHARE, 0.01), numbers.margin(LOSS, 0.02)]
    assert margins == ["0.5 points", "1 point", "0.02 nats"]
    assert (numbers.axis_title(SHARE), numbers.change_title(LOSS)) == ("accuracy (%)", "change (nats)")


def test_chances_are_not_written_as_zero() -> None:
    assert chance("q", 0.0002).split() == ["q", "<", "0.001"]
    assert chance("q", 0.0123).split() == ["q", "=", "0.012"]


def test_an_unknown_task_keeps_its_name() -> None:
    assert task_title("deprel") == "Dependency relations"
    assert task_title("my_task") == "my_task"
