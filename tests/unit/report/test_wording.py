import pytest

from vestige.report.wording import bare_chance, chance, layers, percent, points, size, span, task_title, threshold


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


def test_points_carry_a_true_minus_and_no_negative_zero() -> None:
    assert points(-0.0312) == "\u22123.1"
    assert points(0.012) == "+1.2"
    assert points(-0.0001) == points(0.0001) == "0.0"
    assert span(-0.039, -0.023) == "\u22123.9 to \u22122.3"


def test_levels_sizes_and_missing_values() -> None:
    assert percent(0.8264) == "82.6"
    assert percent(float("nan")) == bare_chance(float("nan")) == "\u2013"
    assert size(-0.031) == "3.1 points"
    assert (threshold(0.005), threshold(0.01)) == ("0.5 points", "1 point")


def test_chances_are_not_written_as_zero() -> None:
    assert chance("q", 0.0002).split() == ["q", "<", "0.001"]
    assert chance("q", 0.0123).split() == ["q", "=", "0.012"]


def test_an_unknown_task_keeps_its_name() -> None:
    assert task_title("deprel") == "Dependency relations"
    assert task_title("my_task") == "my_task"
