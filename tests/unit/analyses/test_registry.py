"""The registry of analyses: explicit, lazy, checked; third parties replace nothing."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import vestige.analyses
from vestige.analyses import analysis_names, find_analysis, registry
from vestige.analyses.base import Analysis
from vestige.analyses.guide import parameters, spelled, study_file
from vestige.analyses.schema import lines as schema_lines
from vestige.analyses.settings import Count, Penalty
from vestige.errors import AnalysisError, SpecError
from vestige.listing import lines

ROOT = Path(vestige.__file__).parents[1]
FILES = {path.stem for path in Path(vestige.analyses.__file__).parent.glob("*.py")} - {"__init__"}

THEIRS = '''
from dataclasses import dataclass
from typing import ClassVar
from vestige.analyses.base import Analysis, Outcome
from vestige.analyses.metric import Metric

@dataclass(frozen=True)
class Theirs(Analysis):
    """Nothing at all."""
    name: ClassVar[str] = "theirs"
    title: ClassVar[str] = "Theirs"
    source: ClassVar[str] = "nobody2026"
    needs = frozenset({"hidden_states"})
    levels = ("token",)
    metrics = (Metric("size", "the size"),)
    seeds: int = 3
    """Trainings."""
    def run(self, inputs): return Outcome()

number = 3
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """`package("name", theirs="their_module:Theirs")` installs a package with entry points."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_module", raising=False)

    def install(name: str, text: str = THEIRS, **points: str) -> None:
        (tmp_path / "their_module.py").write_text(text)
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
    assert not any("cannot be used" in line for line in lines("analyses"))


def test_names_and_metrics_are_known_without_anything_heavy():
    code = (
        "import sys, vestige.analyses.metric\n"
        "print(len(vestige.analyses.analysis_names()), [m for m in ('torch', 'pydantic', 'numpy') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.stdout.split() == [str(len(analysis_names())), "[]"], said.stderr


def test_a_file_whose_analysis_has_another_name_is_refused(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(THEIRS)
    monkeypatch.setattr(registry, "__file__", str(tmp_path / "registry.py"))
    with pytest.raises(AnalysisError, match=r"mine\.py defines the analysis 'theirs'"):
        registry._ours.__wrapped__()


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


@pytest.mark.parametrize(
    ("said", "instead", "problem"),
    [
        ('"theirs"', '"others"', "calls itself 'others'"),
        ('= "Theirs"', '= ""', "has no title"),
        ('"nobody2026"', '""', "has no source"),
        ('    """Nothing at all."""\n', "", "has no docstring"),
        ('frozenset({"hidden_states"})', 'frozenset({"neurons"})', "has needs 'neurons'"),
        ('("token",)', '("word",)', "has levels 'word'"),
        ('("token",)', "()", "has no levels, but reads words"),
        ('    levels = ("token",)\n', "", "does not say its levels"),
        ('("token",)', '"token"', "has levels that are a text, 'token'"),
        ("    def run(self, inputs): return Outcome()\n", "", "has no method run"),
        ('(Metric("size", "the size"),)', "()", "declares no metrics"),
        ('(Metric("size", "the size"),)', '("size",)', "declares no metrics"),
        ('(Metric("size", "the size"),)', '2 * (Metric("size", "the size"),)', "the metric 'size' twice"),
        ('"the size")', '"the size", confirmed_by="weight")', "'size' be confirmed by 'weight'"),
        ('    """Trainings."""\n', "", "does not explain its parameter 'seeds'"),
    ],
)
def test_what_an_analysis_does_not_declare_is_said_when_it_is_loaded(package, said, instead, problem):
    assert said in THEIRS
    package("theirs", THEIRS.replace(said, instead, 1), theirs="their_module:Theirs")
    with pytest.raises(AnalysisError, match=problem) as raised:
        find_analysis("theirs")
    assert raised.value.fix
    (listed,) = [line for line in lines("analyses") if line.startswith("theirs ")]
    assert "cannot be used" in listed


def test_an_analysis_without_a_source_is_not_asked_for_docstrings():
    names: dict = {"__name__": "nowhere"}
    exec(THEIRS, names)
    (given,) = parameters(names["Theirs"])
    assert (given.name, given.kind, given.default, given.meaning) == ("seeds", "whole number", "3", None)


def test_types_and_bounds_are_spelled():
    assert spelled(Count | None) == "whole number (at least 1) or null"
    assert spelled(tuple[Penalty, ...]) == "list of number (at least 0)"


@pytest.mark.parametrize("name", analysis_names())
def test_every_analysis_declares_whether_it_uses_labels(name):
    kind = find_analysis(name)
    assert kind.uses_labels is (name not in ("similarity", "attention", "perplexity", "patching", "lens", "weights"))
    assert issubclass(kind, Analysis) and ("text" not in kind.levels or not kind.uses_labels)


def test_a_parameter_that_must_be_given_is_in_the_study_file(package):
    package("theirs", THEIRS.replace("seeds: int = 3", "seeds: int"), theirs="their_module:Theirs")
    assert "theirs: {tasks: [treebank/upos], seeds: <whole number>}" in study_file(find_analysis("theirs"))


def test_the_page_of_the_schema_is_up_to_date():
    written = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert written == "\n".join(schema_lines()) + "\n", "write it: python -m vestige.analyses.schema > docs/results.md"
