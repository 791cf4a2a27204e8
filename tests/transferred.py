"""A tuned model made from a base's hidden states by a known change, for tests of probe transfer."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from vestige.analyses.base import Inputs, Outcome
from vestige.analyses.probe_transfer import ProbeTransfer
from vestige.checksums import seal
from vestige.comparison.differences import Settings, control_false_discoveries
from vestige.representations.store import Representations, create_layers, write_manifest
from vestige.study.differences import compare_declared

Change = Callable[[np.ndarray, int], np.ndarray]
"""From hidden states (rows, width) and their layer to others."""


def tuned(folder: Path, base: Inputs, change: Change, layers: int | None = None, every: int = 1) -> Inputs:
    """Inputs whose reference is `base`; `every`: only every so many words have a row."""
    found = {}
    for split, known in base.representations.items():
        (place := folder / split).mkdir(parents=True)
        rows = slice(None, None, every)
        arrays = [change(np.array(known.layer(at)[rows]), at) for at in range(layers or known.layers)]
        widths = tuple(array.shape[1] for array in arrays)
        for made, array in zip(create_layers(place, len(arrays[0]), widths, "float32"), arrays, strict=True):
            made[:] = array
            made.flush()
        manifest = {**known.manifest, "widths": list(widths), "rows": len(arrays[0])}
        write_manifest(place, known.index[rows], manifest)
        seal(place, place)
        found[split] = Representations.open(place)
    return replace(base, poolings={"last": found}, model="tuned", reference=base)


def by_layer(outcome: Outcome) -> pd.DataFrame:
    """A row for every layer, a column for every metric that lies along layers."""
    rows = pd.DataFrame(outcome.rows)
    rows = rows[rows["layer"].notna() & (rows["layer2"].isna() if "layer2" in rows else True)]
    return rows.pivot(index="layer", columns="metric", values="value")


def judged(analysis: ProbeTransfer, outcome: Outcome) -> pd.DataFrame:
    """The comparisons of a cell, as a study makes them."""
    tables = {"items": outcome.items, **outcome.tables}
    known = {name: pd.DataFrame(table) for name, table in tables.items()}
    metrics = [one for one in analysis.given if one.compared is not None and one.compared.table in known]
    settings = Settings(resamples=999)
    found = compare_declared(metrics, lambda name: (known[name], [known[name]]), settings)
    return control_false_discoveries(found.assign(analysis="probe_transfer", params="0"), settings)
