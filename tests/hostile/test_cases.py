"""Every hostile case ends in one of our errors, or is right: none raw, none hangs, none is silently wrong."""

import warnings

import pytest

from hostile import corpus_cases, model_cases, place_cases, study_cases
from hostile.case import Case, outcome

CASES = [*corpus_cases.CASES, *study_cases.CASES, *model_cases.CASES, *place_cases.CASES]


def test_there_are_many_and_no_name_occurs_twice():
    names = [(case.kind, case.name) for case in CASES]
    assert len(names) == len({*names}) > 150


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}: {case.name}"[:120])
def test_the_case_is_clear_or_right(case: Case, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    folder = tmp_path / "place"
    folder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdict, said = outcome(lambda: case.act(folder), case.says)
    assert verdict == case.expected, said
