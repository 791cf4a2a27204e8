"""Damaged artefacts and faults of machines: some of those whose whole tables are docs/faults.md."""

import json
import subprocess
import sys

import damage
import pytest
import shelf

sys.path.insert(0, str(shelf.ROOT / "benchmarks"))
import fault_kinds
import fault_page
import faults

TRIED = [fault for fault in damage.faults() if fault.state != "search"][::3]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return damage.prepare(tmp_path_factory.mktemp("faults") / "study", neurons=False)


@pytest.mark.parametrize("fault", TRIED, ids=str)
def test_damage_is_made_good_or_named(prepared, fault):
    outcome = damage.attempt(prepared, fault)
    assert outcome.result in damage.GOOD, outcome


def test_a_fault_in_the_middle_of_a_run_costs_no_finished_step_and_no_number():
    """In a process of its own, which forks."""
    command = [sys.executable, str(shelf.ROOT / "benchmarks" / "faults.py"), "--quick"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout.splitlines()[-1])
    assert set(found) == set(faults.QUICK)
    for name, row in found.items():
        assert (row["result"], row["lost"]) == ("same", []), (name, row)
        assert row["finished"] >= 5 and (row["again"] <= 0.1 or row["damaged"]), (name, row)


def test_the_page_shows_the_kept_tables_and_nothing_in_them_is_raw_wrong_or_endless():
    kept = json.loads(faults.RESULTS.read_text())
    assert fault_page.PAGE.read_text() == fault_page.page(kept)
    assert {row["fault"] for row in kept["damage"]} <= {str(fault) for fault in damage.faults()}
    assert {row["result"] for row in kept["damage"]} <= set(damage.GOOD)
    assert set(kept["moments"]) <= set(fault_kinds.KINDS) == set(fault_page.WHAT)
    for name, rows in kept["moments"].items():
        assert {(row["result"], *row["lost"]) for row in rows} == {("same",)}, name
