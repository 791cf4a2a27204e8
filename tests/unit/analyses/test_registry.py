"""The registry of analyses: every file is found or named as shared, and third parties replace nothing."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

import vestige.analyses
from vestige.analyses import analysis_names, find_analysis
from vestige.analyses.base import Analysis
from vestige.errors import SpecError
from vestige.listing import lines

FILES = {path.stem for path in Path(vestige.analyses.__file__).parent.glob("*.py")} - {"__init__"}

THEIRS = """
from dataclasses import dataclass
from typing import ClassVar
from vestige.analyses.base import Analysis, Outcome

@dataclass(frozen=True)
class Theirs(Analysis):
    name: ClassVar[str] = "theirs"
    title: ClassVar[str] = "Theirs"
    source: ClassVar[str] = "nobody2026"
    needs = frozenset({"hidden_states"})
    levels = ("token",)
    def run(self, inputs): return Outcome()

number = 3
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """`package("name", theirs="their_module:Theirs")` installs a package with entry points."""
    (tmp_path / "their_module.py").write_text(THEIRS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_module", raising=False)

    def install(name: str, **points: str) -> None:
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        rows = [f"{point} = {value}" for point, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[vestige.analyses]", *rows]) + "\n")

    return install


def _defines_itself(name: str) -> bool:
    kinds = vars(import_module(f"vestige.analyses.{name}")).values()
    return any(isinstance(k, type) and issubclass(k, Analysis) and vars(k).get("name") == name for k in kinds)


def test_every_analysis_that_is_listed_is_found():
    kinds = {name: find_analysis(name) for name in analysis_names()}
    assert {name: kind.name for name, kind in kinds.items()} == {name: name for name in kinds}
    assert {*kinds} == {name for name in FILES if _defines_itself(name)}


def test_all_analyses_are_listed():
    listed = [line.split()[0] for line in lines("analyses") if not line.startswith(" ")]
    assert listed == analysis_names() and {"similarity", "structural_probe", "truncation"} <= {*listed}


def test_a_third_partys_analysis_is_found_and_listed(package):
    package("theirs", theirs="their_module:Theirs")
    assert find_analysis("theirs").title == "Theirs"
    assert any(line.startswith("theirs ") for line in lines("analyses"))


@pytest.mark.parametrize("act", [analysis_names, lambda: find_analysis("layer_probe"), lambda: find_analysis("rsa")])
def test_an_entry_point_that_would_replace_a_built_in_analysis_is_refused(package, act):
    package("sly", layer_probe="their_module:Theirs")
    with pytest.raises(SpecError) as raised:
        act()
    assert "vestige.analyses.layer_probe" in raised.value.problem
    assert "their_module:Theirs of the package sly" in raised.value.problem


def test_two_packages_with_an_analysis_of_one_name_are_refused(package):
    package("one", theirs="their_module:Theirs")
    package("two", theirs="their_module:Theirs")
    with pytest.raises(SpecError) as raised:
        find_analysis("theirs")
    assert "of the package one" in raised.value.problem and "of the package two" in raised.value.problem


@pytest.mark.parametrize("value", ["no_such_module:Theirs", "their_module:Nobody", "their_module:number"])
def test_an_entry_point_that_is_no_analysis_is_named(package, value):
    package("broken", theirs=value)
    with pytest.raises(SpecError, match=f"{value} of the package broken"):
        find_analysis("theirs")


@pytest.mark.parametrize("name", analysis_names())
def test_every_analysis_declares_whether_it_uses_labels(name):
    kind = find_analysis(name)
    assert kind.uses_labels is (name not in ("similarity", "attention", "perplexity"))
    assert issubclass(kind, Analysis) and ("text" not in kind.levels or not kind.uses_labels)
