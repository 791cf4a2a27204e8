"""The columns of the table `results`, in one place; `docs/results.md` is written from here.

A row is one number: what it is of (the study fills that in), where in the model or on which axis it lies, and the
number itself with its interval. No column packs two things into one text.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pandas as pd

SCHEMA = 2
"""Raised when a column changes its name or its meaning; runs of another schema are refused with what to do."""

Kind = Literal["text", "whole", "real"]
_KINDS = {"text": pd.StringDtype(), "whole": pd.Int64Dtype(), "real": pd.Float64Dtype()}


@dataclass(frozen=True)
class Column:
    """One column of `results`."""

    name: str
    kind: Kind
    meaning: str

    @property
    def dtype(self) -> pd.api.extensions.ExtensionDtype:
        """Nullable, so that a missing value is missing whatever the kind."""
        return _KINDS[self.kind]


IDENTITY = (
    Column("study", "text", "name of the study"),
    Column("cell", "text", "hash of the cell that computed the number; the table `cells` spells it out"),
    Column("model", "text", "name of the model in the study"),
    Column("reference", "text", "the model it is compared with"),
    Column("tuned_on", "text", "corpus/task it was fine-tuned on in the study"),
    Column("pretrain_seed", "whole", "number of the pre-training replicate"),
    Column("tune_seed", "whole", "number of the fine-tuning run"),
    Column("step", "whole", "training step of a checkpoint"),
    Column("analysis", "text", "name of the analysis"),
    Column("params", "text", "hash of its parameters; the table `cells` spells them out"),
    Column("corpus", "text", "name of the corpus in the study; empty where the analysis reads none"),
    Column("task", "text", "name of the task; empty where the analysis reads none"),
)
"""What a number is of; filled in by the study."""

PLACE = (
    Column("split", "text", "split that was scored, or that the count is of"),
    Column("pooling", "text", "how tokens became the vector that was read"),
    Column("layer", "whole", "layer, 0 = embeddings"),
    Column("layer2", "whole", "layer of the reference, where every pair of layers is measured"),
    Column("head", "whole", "attention head, from 0"),
    Column("label", "text", "label (class, paradigm) that the number is of"),
    Column("input", "text", "what an edge probe reads where it is not one layer: top, lexical, cat, mix"),
    Column("side", "text", "which end: top, bottom or random neurons; top or bottom blocks; all"),
    Column("subset", "text", "one of a few named variants, which the metric's analysis explains"),
    Column("subset2", "text", "the other one of a pair of variants"),
    Column("axis", "text", "name of the analysis' own axis; missing where the axis is the layer"),
    Column("x", "real", "place on that axis"),
    Column("axis2", "text", "name of a second axis (grids)"),
    Column("x2", "real", "place on it"),
)
"""Where a number lies; filled in by the analysis, but for split and pooling where it says nothing else."""

VALUE = (
    Column("metric", "text", "name of the metric, as the analysis declares it"),
    Column("probe_seed", "whole", "seed of the probe's training, or of the control task"),
    Column("value", "real", "the number, in the metric's unit (percent: a share of one)"),
    Column("low", "real", "lower end of its 95 % interval, where the analysis gives one"),
    Column("high", "real", "upper end of that interval"),
    Column("n", "whole", "items (words, sentences, pairs) that the number rests on"),
)

ROW = (*PLACE, *VALUE)
"""What an analysis may say of a number: the keywords of `Outcome.add`."""

PLACES = tuple(column.name for column in PLACE)


def typed(frame: pd.DataFrame, columns: tuple[Column, ...]) -> pd.DataFrame:
    """The frame with exactly these columns, absent values as missing."""
    return pd.DataFrame(
        {
            column.name: frame[column.name].astype(column.dtype)
            if column.name in frame
            else pd.Series(pd.NA, index=frame.index, dtype=column.dtype)
            for column in columns
        }
    )


def lines() -> Iterator[str]:
    """The schema as a page of documentation."""
    yield "# The table `results`"
    yield ""
    yield f"Schema {SCHEMA}. *Written by `python -m vestige.analyses.schema`. Do not edit.*"
    for title, columns in (
        ("What a number is of", IDENTITY),
        ("Where it lies", PLACE),
        ("The number", VALUE),
    ):
        yield from ("", f"## {title}", "", "| column | kind | meaning |", "|---|---|---|")
        yield from (f"| `{column.name}` | {column.kind} | {column.meaning} |" for column in columns)


if __name__ == "__main__":
    print("\n".join(lines()))
