"""Every statement of Durrani et al. 2020 on planted tables: true, false, and not to be told."""

from functools import cache

import numpy as np
import planted
import pytest

from vestige.papers.durrani2020 import claims
from vestige.papers.durrani2020.claims import KEPT, PROPERTIES, STATEMENTS, TIGHT

SMALL = {name: candidates[1].split("/") for name, candidates in PROPERTIES.items()}


@cache
def side(true: bool, spread: float = 0.001, runs: int = 3):
    """Neurons of four properties as the paper has them, or the other way round; `spread` over seeds."""
    records = []
    sign = 1 if true else -1
    for name, (corpus, task) in SMALL.items():
        where = {"analysis": "neurons", "model": "base", "corpus": corpus, "task": task}
        lexical = name in claims.LEXICAL

        def add(metric, value, noise=spread, where=where, **place):
            records.extend(planted.seeds(planted.around(value, noise, runs), **where, metric=metric, **place))

        for split, less in (("", 0.0), ("dev_", 0.01)):
            for which, value in (
                ("All", 0.95),
                ("Top", 0.6 + (0.3 - less) * sign),
                ("Random", 0.6),
                ("Bottom", 0.6 - (0.3 - less) * sign),
            ):
                add(f"{split}accuracy", value, **KEPT[which])
            add(f"{split}selectivity", 0.2, **claims.ALL)
            add(f"{split}selectivity", 0.2 + (0.1 - less) * sign, **TIGHT)
        share = (0.1 if lexical else 0.3) if true else (0.9 if lexical else 0.5)
        for where_ in (TIGHT, claims.LOOSE):
            add("minimal_share", share, **where_)
        add("neurons", 2688, 0)
        home = (1 if lexical else 5) if true else (5 if lexical else 1)
        for layer in range(7):
            add("selected_neurons", 100.0 if layer == home else 1.0, 1000 * spread, layer=layer, **TIGHT)
        for label, size, place in (("UH", 2, 3), ("TO", 3, 3), ("NNPS", 60, 3), ("FW", 9, 6), ("JJ", 20, 0)):
            add("label_neurons", size if true else 70 - size, 1000 * spread, label=label, **TIGHT)
            add("dominant_layer", place if true else 6 - place, 10 * spread, label=label, **TIGHT)
    return planted.observed(planted.rows(records))


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: one.name)
def test_a_statement_agrees_differs_or_cannot_be_told(statement):
    assert statement.test(side(True)).verdict == "agrees"
    assert statement.test(side(False)).verdict == "differs"
    assert statement.test(side(True, spread=1.0)).verdict == "cannot be told"


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: one.name)
def test_what_was_trained_once_has_at_most_the_interval_over_two_held_out_sets(statement):
    held_out = statement.name in ("ablation", "selectivity")
    parts = statement.test(side(True, runs=1)).parts
    assert parts and all(part.estimate.known is held_out for part in parts)


def test_a_property_that_was_not_read_is_left_out():
    whole = side(True)
    some = planted.observed(whole.results[whole.results["corpus"] == "ewt"])
    assert [part.what for part in claims.ablation(some).parts] == ["POS"]
    assert claims.lexical_need_fewer(some).verdict == "cannot be told"


def test_shares_by_layer_add_up():
    assert claims.shares_of(claims.by_property(side(True))["POS"]).sum() == pytest.approx(1)
    assert np.argmax(claims.shares_of(claims.by_property(side(True))["CCG"])) == 5


@pytest.mark.parametrize(("claim", "label"), [(claims.homes_of_tags, "FW"), (claims.closed_class, "UH")])
def test_a_rare_label_that_one_seed_selects_no_neuron_for_is_left_out(claim, label):
    whole = side(True)
    assert any(label in part.what for part in claim(whole).parts)
    rows = whole.results
    seeds = rows["probe_seed"].fillna(rows["params"]).drop_duplicates()
    lacking = (rows["label"] == label) & (rows["probe_seed"].fillna(rows["params"]) == seeds.iloc[-1])
    assert lacking.any() and not any(label in part.what for part in claim(planted.observed(rows[~lacking])).parts)
