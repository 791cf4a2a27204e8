"""Colours that share a chart are told apart by colour-blind readers as well."""

from itertools import combinations

import numpy as np
import pytest

from vestige.report.drawing.parts import FURTHER, QUIET, VERDICTS

SEEN = {
    "everybody": np.eye(3),
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
"""How linear RGB is seen (Machado, Oliveira and Fernandes 2009, severity 1)."""
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ.sum(axis=1)
APART = 20
"""Distance in CIELAB; about 2 can just be seen side by side."""


def lab(colour: str, who: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    seen = TO_XYZ @ np.clip(np.array(SEEN[who]) @ linear, 0, 1) / WHITE
    x, y, z = np.where(seen > 0.008856, np.cbrt(seen), 7.787 * seen + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def closest(colours: list[str], who: str) -> float:
    return min(float(np.linalg.norm(lab(a, who) - lab(b, who))) for a, b in combinations(colours, 2))


def test_the_simulation_knows_colours_that_are_confused():
    assert closest(["#4f7296", "#a05195"], "everybody") > APART > 10 > closest(["#4f7296", "#a05195"], "deuteranopia")


@pytest.mark.parametrize("who", SEEN)
def test_models_and_verdicts_are_told_apart(who):
    assert closest([*FURTHER], who) > APART
    assert closest([VERDICTS[name][0] for name in ("lower", "higher", "unchanged", "undecided")], who) > APART


def test_verdicts_have_a_shape_each_and_quiet_lines_no_colour_of_a_model():
    assert len({shape for _, shape in VERDICTS.values()}) == len(VERDICTS) and QUIET not in FURTHER
