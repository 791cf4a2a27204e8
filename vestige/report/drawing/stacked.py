"""A stacked bar for every layer: a drop taken apart into its reasons."""

import altair as alt
import pandas as pd

from vestige.analyses.metric import LAYER
from vestige.report.drawing.parts import QUIET, VERDICTS, finish, legend, tip
from vestige.report.types import Figure

COLOURS = (VERDICTS["lower"][0], VERDICTS["undecided"][0], QUIET)
"""Of the parts, in their order."""
_PALE = 0.3
"""What is not shown to differ from 0 is drawn this pale."""


def split_chart(frame: pd.DataFrame, names: dict[str, str], total: str, description: str, title: str) -> Figure:
    """Bars of points by layer (columns layer, part, value, low, high, verdict), a black tick where they add up to.

    names: parts in their order with their colours. Parts below 0 are stacked downwards. Rows of the part `total` are
    the ticks.
    """
    frame = frame.assign(shown=frame["verdict"].isin(["lower", "higher"]), order=frame["part"].map([*names].index))
    bars, ticks = frame[frame["part"] != total], frame[frame["part"] == total]
    x = alt.X("layer:O", title=LAYER.title, axis=alt.Axis(labelAngle=0))
    y = alt.Y("value:Q", title="points of accuracy", stack="zero")
    kept = [name for name in names if name != total]
    colour = alt.Color(
        "part:N", scale=alt.Scale(domain=kept, range=[names[name] for name in kept]), legend=legend(kept, len(kept))
    )
    pale = alt.condition("datum.shown", alt.value(1.0), alt.value(_PALE))
    seen = [tip("layer:O", "layer"), tip("part:N", "part"), tip("value:Q", "points", "+.1f")]
    seen += [tip("low:Q", "from", "+.1f"), tip("high:Q", "to", "+.1f"), tip("verdict:N", "verdict")]
    layers = [
        alt.Chart(bars).mark_bar().encode(x=x, y=y, color=colour, opacity=pale, order="order:Q", tooltip=seen),
        alt.Chart(pd.DataFrame({"zero": [0]})).mark_rule(color=QUIET, strokeWidth=1).encode(y="zero:Q"),
    ]
    if len(ticks):
        tick = alt.Chart(ticks).mark_tick(color="#30363d", thickness=3, width={"band": 0.9})
        layers.append(tick.encode(x=x, y=alt.Y("value:Q"), tooltip=seen))
    return finish(alt.layer(*layers), 250, description, title)
