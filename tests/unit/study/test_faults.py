"""Damaged artefacts: some of the faults whose whole table is docs/faults.md, without the search for neurons."""

import json

import faults
import pytest

TRIED = [fault for fault in faults.faults() if fault.state != "search"][::3]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return faults.prepare(tmp_path_factory.mktemp("faults") / "study", neurons=False)


@pytest.mark.parametrize("fault", TRIED, ids=str)
def test_damage_is_made_good_or_named(prepared, fault):
    outcome = faults.attempt(prepared, fault)
    assert outcome.result in faults.GOOD, outcome


def test_the_page_shows_the_kept_table_and_nothing_in_it_is_raw_wrong_or_endless():
    kept = json.loads(faults.RESULTS.read_text())
    assert (faults.ROOT / "docs" / "faults.md").read_text() == faults.page(kept)
    assert len(kept) >= 98 and {row["fault"] for row in kept} == {str(fault) for fault in faults.faults()}
    assert {row["result"] for row in kept} <= set(faults.GOOD)
