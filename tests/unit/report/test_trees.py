"""Trees beside each other: which edges are drawn, and how."""

import json

import pandas as pd
import pytest

from unit.report.test_chapters import frame, reading
from vestige.report.html import render
from vestige.report.trees import drawn_trees, gold_edges, tree_picture

WORDS = ["She", "saw", "<b>dogs</b>", "."]
HEADS = [2, 0, 2, 2]


def test_edges_are_undirected_and_leave_punctuation_out():
    assert gold_edges(HEADS, []) == {(0, 1), (1, 2), (1, 3)}
    assert gold_edges(HEADS, [3]) == {(0, 1), (1, 2)}
    assert gold_edges([0, 1, 2], [1]) == set()


def test_right_wrong_and_annotated_edges_look_different():
    picture = str(tree_picture(WORDS, {(0, 1), (1, 2)}, {(0, 1), (0, 2)}))
    assert [picture.count(f'class="{kind}"') for kind in ("gold", "found", "wrong")] == [2, 1, 1]
    assert "1 of 2 edges recovered" in picture
    assert "<b>" not in picture and "&lt;b&gt;dogs" in picture


def table(edges):
    row = {"words": WORDS, "heads": HEADS, "punctuation": [3], "edges": edges}
    return pd.DataFrame([{"sentence": "s1", **{name: json.dumps(value) for name, value in row.items()}}])


@pytest.fixture
def probed():
    rows = []
    for model, best in (("base", 1), ("tuned", 2)):
        for layer in range(3):
            value = 0.9 if layer == best else 0.5
            rows.append({"metric": "uuas", "value": value, "layer": layer, "model": model, "cell": f"cell-{model}"})
    return frame(rows, analysis="structural_probe", task="head")


def test_every_model_is_drawn_at_its_best_layer(probed):
    found = reading(probed)
    assert drawn_trees(found, probed) == []
    trees = {f"cell-{name}": table({"1": [[0, 1], [1, 2]], "2": [[0, 2], [0, 1]]}) for name in ("base", "tuned")}
    object.__setattr__(found, "trees", trees)
    titles = [drawing.title for drawing in drawn_trees(found, probed)]
    assert titles == ["base, layer 1: 2 of 2 edges", "tuned, layer 2: 1 of 2 edges"]
    page = render(found)
    assert page.count('<svg class="tree"') == 2 and "<b>dogs" not in page
