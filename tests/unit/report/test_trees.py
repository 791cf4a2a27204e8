"""Trees beside each other: which edges are drawn, and how."""

import json

import pandas as pd
from report_frames import Frames, cells_frame, declared, lock_of, run_frame

from vestige.report.drawing.trees import gold_edges, tree_picture
from vestige.report.html import render
from vestige.report.pages.structural_probe import drawn_trees
from vestige.report.reading import Reading

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


def reading(**trees: pd.DataFrame) -> Reading:
    """Two models, each with a best layer of its own."""
    rows = [
        {"metric": "uuas", "value": 0.9 if layer == best else 0.5, "layer": layer, "model": model, "cell": f"{model}0"}
        for model, best in (("base", 1), ("tuned", 2))
        for layer in range(3)
    ]
    where = {"analysis": "structural_probe", "corpus": "bank", "task": "head", "params": "p0"}
    lock = {**lock_of(), "declared": declared({}, analysis="structural_probe")}
    cells = cells_frame({}, analysis="structural_probe")
    return Reading(
        *Frames(run_frame(rows, **where), pd.DataFrame(), cells, lock).all, kept={"trees": trees}.__getitem__
    )


def test_every_model_is_drawn_at_its_best_layer():
    (part,) = reading().parts("structural_probe")
    assert list(drawn_trees(reading(), part)) == []
    edges = {"1": [[0, 1], [1, 2]], "2": [[0, 2], [0, 1]]}
    found = reading(base0=table(edges), tuned0=table(edges))
    titles = [drawing.title for drawing in drawn_trees(found, part)]
    assert titles == ["base, layer 1: 2 of 2 edges", "tuned, layer 2: 1 of 2 edges"]
    page = render(found)
    assert page.count('<svg class="tree"') == 2 and "<b>dogs" not in page
