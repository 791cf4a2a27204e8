"""A page of very many models: it stays small, and draws nothing before it is asked."""

import json
import sys

import shelf

sys.path.insert(0, str(shelf.ROOT / "benchmarks"))

import many_models as benchmark
from many_models import many_models
from report_page import page_of

from vestige.report import front, html
from vestige.report.front import read_pages
from vestige.report.html import _bundle, write_report
from vestige.report.pages import layer_probe

FEW, MORE, LAYERS = 1, 3, 13


def test_a_hundred_models_on_two_tasks_stay_under_eight_megabytes(tmp_path):
    sizes = []
    for count in (FEW, MORE):
        write_report(tmp_path / f"{count}.html", many_models(count, LAYERS).reading)
        sizes.append((tmp_path / f"{count}.html").stat().st_size)
    a_model = (sizes[1] - sizes[0]) / (MORE - FEW)
    assert sizes[0] > len(_bundle()) and sizes[0] + (100 - FEW) * a_model < 8e6, a_model


def test_the_page_of_the_documentation_is_that_of_the_kept_result():
    assert benchmark.PAGE.read_text() == benchmark.page(json.loads(benchmark.RESULT.read_text()))


def test_curves_and_labels_are_folded_where_there_are_very_many(monkeypatch):
    reading = many_models(2, 3).reading
    closed = {block.closed for section in _sections(reading) for block in section.blocks}
    monkeypatch.setattr(layer_probe, "MOST_DRAWN", 1)
    assert closed == {False} and {block.closed for section in _sections(reading) for block in section.blocks} == {True}


def test_labels_are_folded_where_there_are_very_many(monkeypatch):
    monkeypatch.setattr(layer_probe, "MOST_DRAWN", 1)
    ((_, page),) = read_pages(many_models(2, 3).reading)
    (labels,) = [section for section in page.sections if section.title == "Labels that differ most"]
    assert [block.closed for block in labels.blocks] == [False, True, True, True, True]


def test_of_very_many_models_the_first_open_the_report(tmp_path, monkeypatch):
    for module in (front, html):
        monkeypatch.setattr(module, "MOST", 2)
    few, many = (page_of(many_models(count, 2), tmp_path).text for count in (2, 4))
    assert "Further models" not in few and "Further models (2)" in many
    assert "tuned 003" not in front.statement(many_models(4, 2).reading)


def _sections(reading):
    ((_, page),) = read_pages(reading)
    return [section for section in page.sections if section.name]
