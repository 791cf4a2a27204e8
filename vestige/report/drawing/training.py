"""The chart of a fine-tuning: one measure by epoch."""

import altair as alt
import pandas as pd

from vestige.report.drawing.parts import TUNED, finish, tip
from vestige.report.types import Figure


def training_chart(curve: pd.DataFrame, title: str, description: str) -> Figure:
    """One measure of the fine-tuning by epoch; columns epoch, value, run."""
    ticks = alt.Axis(values=sorted(set(curve["epoch"])), format="d", grid=False, labelOverlap=True)
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False, nice=True))
    seen = [tip("run:N", "run"), tip("epoch:Q", "epoch", "d"), tip("value:Q", title, ".3f")]
    x = alt.X("epoch:Q", title="epoch", axis=ticks)
    base = alt.Chart(curve).encode(x=x, y=y, detail="run:N", tooltip=seen)
    dots = base.mark_point(filled=True, size=50, opacity=1, color=TUNED)
    line = base.mark_line(strokeWidth=2, color=TUNED, opacity=1 if curve["run"].nunique() == 1 else 0.6)
    return finish(alt.layer(line, dots), 200, description)
