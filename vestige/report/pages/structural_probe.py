"""The structural probe: the default page, and trees drawn beside the annotated ones."""

import json
from collections.abc import Iterator

from vestige.analyses.metric import LAYER
from vestige.report import curves, default, notes
from vestige.report.drawing.trees import gold_edges, tree_picture
from vestige.report.reading import Part, Reading
from vestige.report.types import Block, Drawing, Page

MOST = 4
"""Sentences that are drawn of a task."""
_EDGES = "uuas"


def page(reading: Reading, analysis: str) -> Page:
    """The default page with sentences on edges alone, and drawn trees."""
    found = default.page(
        reading,
        analysis,
        _best,
        "Syntax trees in the geometry of a layer",
        "Undirected edges recovered (UUAS), rank correlation of distances (DSpr) and of depths (NSpr), roots found.",
    )
    for section, part in zip(found.sections, reading.parts(analysis), strict=True):
        drawings = list(drawn_trees(reading, part))
        if drawings:
            lede = "Annotated edges above, those of the probe below; dashed: wrong."
            section.blocks.append(Block("Trees", lede, drawings=drawings))
    return found


def _best(part: Part, model: str) -> Iterator[tuple[float, str]]:
    metric = part.declared.metrics.get(_EDGES)
    if metric is None:
        return
    points = notes.points(curves.part_frame(part, metric, LAYER), model)
    if len(points) > 1:
        yield 0.0, notes.best(metric, LAYER, points, model)


def drawn_trees(reading: Reading, part: Part) -> Iterator[Drawing]:
    """The first sentences of a task, each model at the layer where it recovers most edges; first runs only."""
    kept, metric, tables = reading.kept("trees"), part.declared.metrics.get(_EDGES), {}
    if metric is None:
        return
    for model, rows in part.rows.groupby("model", sort=False):
        cell = str(rows["cell"].iloc[0])
        curve = curves.curve_frame(rows, metric, LAYER)
        if cell in kept and len(curve):
            tables[str(model)] = int(curve.loc[curve["value"].idxmax(), "x"]), kept[cell]
    for place in range(min([MOST, *(len(table) for _, table in tables.values())]) if tables else 0):
        for model, (layer, table) in tables.items():
            row = table.iloc[place]
            words, heads, punctuation = (json.loads(row[name]) for name in ("words", "heads", "punctuation"))
            found = {(a, b) for a, b in json.loads(row["edges"])[str(layer)]}
            gold = gold_edges(heads, punctuation)
            title = f"{model}, layer {layer}: {len(found & gold)} of {len(gold)} edges"
            yield Drawing(title, tree_picture(words, gold, found))
