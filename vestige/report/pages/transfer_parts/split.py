"""The drop of one tuned model on one task, taken apart: every part by layer, with its verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from vestige.analyses.metric import LAYER, Metric
from vestige.comparison.differences import FAILED
from vestige.report import numbers
from vestige.report.reading import Part
from vestige.report.wording import listing

DROP = "drop"
ROTATION = {"lost": "lost", "re_encoded": "re-encoded", "moved": "moved"}
"""Parts under the Procrustes map, in the order of the bars, and what they are called in a sentence."""
AFFINE = {"lost": "lost", "re_encoded_affine": "re-encoded", "moved_affine": "moved"}
"""The same under an affine map."""
SHOWN = ("lower", "higher")


@dataclass(frozen=True)
class Split:
    """What is known of one tuned model on one task."""

    part: Part
    model: str
    frames: dict[str, pd.DataFrame]
    """By metric and layer: value, low, high, q, verdict, before, after."""

    @classmethod
    def of(cls, part: Part, model: str) -> "Split":
        """From the tables; metrics that were not measured are left out."""
        frames = {}
        for name in dict.fromkeys([DROP, *ROTATION, *AFFINE, "elsewhere"]):
            metric = part.declared.metrics.get(name)
            points = pd.DataFrame() if metric is None else _points(part, metric, model)
            if len(points):
                frames[name] = points
        return cls(part, model, frames)

    def metric(self, name: str) -> Metric:
        """The declaration of a part."""
        return self.part.declared.metrics[name]

    def rows(self, name: str, *verdicts: str) -> pd.DataFrame:
        """The layers at which a part has one of these verdicts."""
        if name not in self.frames:
            return pd.DataFrame(columns=["value", "verdict"])
        frame = self.frames[name]
        return frame[frame["verdict"].isin(verdicts)]

    def at(self, name: str, layer: int) -> pd.Series | None:
        """A part at a layer, where it was measured."""
        frame = self.frames.get(name)
        return None if frame is None or layer not in frame.index else frame.loc[layer]

    @property
    def there(self) -> list[str]:
        """The parts under the Procrustes map that were measured, the drop first."""
        return [name for name in (DROP, *ROTATION) if name in self.frames]

    @property
    def nothing(self) -> bool:
        """Whether every part is shown to be none at every layer."""
        return bool(self.there) and all((self.frames[name]["verdict"] == "unchanged").all() for name in self.there)

    def chosen(self) -> int | None:
        """The layer to speak of: where most is lost or, where no loss is shown, where the drop or a part is largest.

        A drop of which no part is shown comes last.
        """
        parts = pd.concat([self.rows(name, *SHOWN)["value"].abs() for name in ROTATION])
        drop = self.rows(DROP, *SHOWN)["value"].abs()
        for found in (self.rows("lost", "higher")["value"], drop[drop.index.isin(parts.index)], parts, drop):
            if len(found):
                return int(found.idxmax())
        return None

    def bars(self, parts: dict[str, str]) -> pd.DataFrame:
        """For the chart: the drop and the parts in points, long."""
        made = []
        for name, said in {DROP: DROP, **parts}.items():
            if name in self.frames:
                frame = self.frames[name][["value", "low", "high", "verdict"]].copy()
                frame[["value", "low", "high"]] *= numbers.scale(self.metric(name))
                made.append(frame.assign(part=said, layer=frame.index))
        return pd.concat(made, ignore_index=True) if made else pd.DataFrame()


def splits(part: Part, leave_out: Sequence[str] = ()) -> Iterator[Split]:
    """Of every tuned model that was measured."""
    for model in part.models:
        found = Split.of(part, model)
        if found.frames and model not in leave_out:
            yield found


def places(rows: pd.DataFrame) -> str:
    """'layers 4 to 6'."""
    return numbers.places(LAYER, [float(at) for at in rows.index])


def task_name(part: Part) -> str:
    """The task inside a sentence: 'part of speech'."""
    title = part.title.split(", ")[0]
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def parts_named(names: Sequence[str]) -> str:
    """'lost, re-encoded or moved'."""
    return " or ".join(listing(list(names)).rsplit(" and ", 1))


def _points(part: Part, metric: Metric, model: str) -> pd.DataFrame:
    """Means over runs by layer, with what the comparison says of them; 'described' where there is none."""
    rows, compared = (
        frame[(frame["metric"] == metric.name) & (frame["model"] == model) & frame["layer"].notna()]
        if len(frame)
        else frame
        for frame in (part.rows, part.changes)
    )
    values = rows.astype({"layer": int, "value": float}).groupby("layer")["value"].mean().to_frame()
    columns = {"low": "low", "high": "high", "q": "q", "base": "before", "tuned": "after"}
    if compared.empty:
        return values.assign(**dict.fromkeys(columns.values(), float("nan")), verdict="described")
    compared = compared.set_index(compared["layer"].astype(int))[[*columns, "verdict"]].rename(columns=columns)
    found = values.join(compared.astype(dict.fromkeys(columns.values(), float)))
    return found[found["verdict"] != FAILED].fillna({"verdict": "described"}).rename_axis("layer")
