"""A page of very many models: it stays small, and draws nothing before it is asked."""

import sys

import shelf

sys.path.insert(0, str(shelf.ROOT / "benchmarks"))

from many_models import many_models

from vestige.report.front import read_pages
from vestige.report.html import _bundle, write_report
from vestige.report.pages import layer_probe

FEW, MORE, LAYERS = 1, 3, 13


def test_a_hundred_models_on_one_task_stay_under_eight_megabytes(tmp_path):
    sizes = []
    for count in (FEW, MORE):
        write_report(tmp_path / f"{count}.html", many_models(count, LAYERS).reading)
        sizes.append((tmp_path / f"{count}.html").stat().st_size)
    a_model = (sizes[1] - sizes[0]) / (MORE - FEW)
    assert sizes[0] > len(_bundle()) and sizes[0] + (100 - FEW) * a_model < 8e6, a_model


def test_curves_are_folded_where_there_are_very_many(monkeypatch):
    reading = many_models(2, 3).reading
    closed = {block.closed for section in _sections(reading) for block in section.blocks}
    monkeypatch.setattr(layer_probe, "MOST_DRAWN", 1)
    assert closed == {False} and {block.closed for section in _sections(reading) for block in section.blocks} == {True}


def _sections(reading):
    ((_, page),) = read_pages(reading)
    return [section for section in page.sections if section.name]
