"""What only some runs of a tuned model left is not compared; everything else is."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from vestige.analyses.metric import Metric
from vestige.comparison.estimators import Within
from vestige.study import differences


@dataclass(frozen=True)
class Left:
    """A cell, as far as a comparison looks at it."""

    key: str
    kept: dict[str, pd.DataFrame] = field(hash=False)

    def has(self, table: str) -> bool:
        return table in self.kept


class Asked:
    stochastic = False
    given = tuple(
        Metric(table, table, margin=0.1, compared=Within(table=table, before="before", after="after"), sides=("a", "b"))
        for table in ("everywhere", "sometimes")
    )


def table(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    scores = {name: rng.normal(size=120) for name in ("before", "after")}
    return pd.DataFrame({"sentence": [f"s{at // 3}" for at in range(120)], "word": np.arange(120) % 3, **scores})


def test_a_table_that_one_run_lacks_costs_no_other(monkeypatch):
    both = Left("1", {"everywhere": table(1), "sometimes": table(2)})
    lacking = Left("2", {"everywhere": table(3)})
    monkeypatch.setattr(differences, "analysis_of", lambda cell: Asked)
    monkeypatch.setattr(differences, "read_table", lambda name, cell: cell.kept[name])
    monkeypatch.setattr(differences, "_failures", lambda cell: set())
    for runs in ((both, lacking), (lacking, both)):
        found, notes = differences.compared_models(Left("0", {}), runs, {}, {})
        assert set(found["metric"]) == {"everywhere"} and not notes
    found, _ = differences.compared_models(Left("0", {}), (both, both), {}, {})
    assert set(found["metric"]) == {"everywhere", "sometimes"}
