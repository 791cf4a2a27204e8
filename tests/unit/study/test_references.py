"""A study that compares nothing says so, and how to compare."""

import pytest
from small_study import study

from vestige.errors import SpecError
from vestige.study.references import check_references
from vestige.study.run import Study
from vestige.study.spec import make_spec

SIMILARITY = {"similarity": {"tasks": ["words/upos"]}}


@pytest.fixture
def unpaired(place):
    """Two loaded models, and nothing that says which is to be compared with which."""
    raw = study(place)
    raw["models"]["other"] = str(place / "other")
    return raw


def test_an_analysis_of_two_models_shows_the_line_to_add(unpaired, place, tmp_path, cache):
    unpaired["analyses"] += [SIMILARITY]
    with pytest.raises(SpecError, match="similarity compares a model with its reference") as raised:
        Study.from_dict(unpaired, tmp_path / "run", cache=cache).run()
    line = f"other: {{load: {place / 'other'}, reference: base}}"
    assert line in raised.value.fix and not cache.exists()
    unpaired["models"]["other"] = {"load": str(place / "other"), "reference": "base"}  # as the line says
    assert check_references(make_spec(unpaired)) == []


def test_models_that_are_compared_with_nothing_are_said_on_the_page(unpaired, tmp_path, cache):
    run = Study.from_dict(unpaired, tmp_path / "run", cache=cache).run()
    assert run.comparisons.empty
    said = "No model of this study has a reference, so none is compared with another. To compare other with base"
    assert said in run.report().read_text() and said in run.markdown().read_text()


def test_a_model_that_an_analysis_of_two_leaves_out_is_said(place):
    raw = study(place, analyses=[SIMILARITY])
    raw["models"] |= {"lone": str(place / "deeper"), "twin": {"random_twin_of": "base"}}
    assert check_references(make_spec(raw)) == [
        "similarity compares a model with its reference; lone has none and is left out of it."
    ]
    raw["models"] = {"base": str(place / "base")}
    with pytest.raises(SpecError, match="the study has one model, base"):
        check_references(make_spec(raw))


def test_one_model_alone_and_tuned_ones_need_no_word(place):
    raw = study(place)
    raw["models"] = {"base": str(place / "base"), "twin": {"random_twin_of": "base"}}
    assert check_references(make_spec(raw)) == []
    raw["models"]["tuned"] = {"finetune": {"of": "base", "task": "words/upos"}}
    raw["analyses"] = [SIMILARITY]
    assert check_references(make_spec(raw)) == []


def test_families_are_named_as_the_study_file_names_them(place):
    raw = study(place, analyses=[SIMILARITY])
    pairs = {name: {"load": [str(place / name), str(place / name)]} for name in ("base", "other")}
    with pytest.raises(SpecError) as raised:
        check_references(make_spec({**raw, "models": pairs}))
    assert "reference: base}" in raised.value.fix and "`other: " in raised.value.fix
