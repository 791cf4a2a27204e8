"""The report for everybody: axe finds no fault, the keyboard reaches everything, it fits phones, wide screens and paper."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from neuron_frames import neuron_frames, neuron_results, ranker_rows, redundancy_rows
from report_frames import CONVERGED, DURRANI, small_frames

from vestige.report.html import write_report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install axe-playwright-python")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")

TASKS = [("bank", "upos"), ("bank", "deprel")]
A4 = 688
"""Pixels of a line of an A4 page between its margins of 14 mm."""
BEYOND = """() => [...document.querySelectorAll("main *")].filter((one) => one.getClientRects().length
  && !one.closest("svg") && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
  && !one.closest(".scroll") && !one.closest("pre")).map((one) => one.tagName + "." + one.className)"""
"""What reaches beyond the right edge and cannot be scrolled."""
CUT = """() => [...document.querySelectorAll(".chart svg.marks")].filter((svg) => [...svg.querySelectorAll(".role-legend")]
  .some((legend) => legend.getBoundingClientRect().top < svg.getBoundingClientRect().top - 1
    || legend.getBoundingClientRect().right > svg.getBoundingClientRect().right + 1)).length"""
"""Charts whose legend reaches beyond their edge."""
DRAWN = """() => [...document.querySelectorAll(".pair > .chart svg.marks")].map((svg) => svg.width.baseVal.value)"""
"""The widths in which charts are drawn that stand side by side."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    neurons = neuron_frames(label="NOUN", word="dog")
    more = neuron_results([*ranker_rows(), *redundancy_rows()])
    frames = {
        "layers": small_frames(TASKS, tuned=("tuned", "other"), parameters=(CONVERGED, DURRANI)),
        "neurons": replace(neurons, results=pd.concat([neurons.results, more], ignore_index=True)),
    }
    for name, one in frames.items():
        write_report(folder / f"{name}.html", one.reading)
    return {name: folder / f"{name}.html" for name in frames}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def show(browser: Any, path: Path, width: int = 1280, scheme: str = "light") -> Any:
    """The page as somebody sees it, charts drawn."""
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    page.set_default_timeout(120_000)
    page.goto(path.as_uri())
    page.wait_for_function("document.documentElement.dataset.rendered")
    return page


def unfold(page: Any) -> None:
    """Open all that is folded, and wait for its charts."""
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    page.wait_for_function("[...document.querySelectorAll('.chart')].every((one) => one.querySelector('svg.marks'))")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["layers", "neurons"])
def test_axe_finds_no_fault(browser, pages, name, scheme):
    page = show(browser, pages[name], scheme=scheme)
    unfold(page)
    found = axe.Axe().run(page).response
    faults = {f"{one['impact']} {one['id']}: {one['nodes'][0]['html'][:120]}" for one in found["violations"]}
    assert not faults and len(found["passes"]) > 15
    page.close()


@pytest.mark.parametrize("width", [390, 900, 1400])
def test_nothing_is_cut_at_any_width(browser, pages, width):
    for name, path in pages.items():
        page = show(browser, path, width)
        unfold(page)
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, name
        assert page.evaluate(BEYOND) == [], name
        assert page.evaluate(CUT) == 0, name
        page.close()


def test_nothing_is_cut_on_paper(browser, pages, tmp_path):
    for name, path in pages.items():
        page = show(browser, path)
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        unfold(page)
        widths = page.evaluate(DRAWN)
        assert (widths or name != "layers") and max(widths, default=0) <= A4 / 2, (name, widths)
        page.set_viewport_size({"width": A4, "height": 1000})
        page.emulate_media(media="print")
        right = "(one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1"
        assert page.evaluate(f"[...document.querySelectorAll('.chart svg, table')].filter({right}).length") == 0, name
        page.pdf(path=str(tmp_path / f"{name}.pdf"), prefer_css_page_size=True)
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        page.close()


def test_the_keyboard_reaches_and_works_every_control(browser, pages):
    page = show(browser, pages["layers"])
    page.locator("#choose summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.value") == "base"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.className || document.activeElement.tagName"))
    assert {"scroll", "sort", "save", "SUMMARY", "INPUT", "BUTTON"} <= reached
    page.close()


def test_models_and_tasks_are_hidden_and_shown_again(browser, pages):
    page = show(browser, pages["layers"])
    page.locator("#choose summary").click()

    def seen(text: str) -> int:
        return page.evaluate(
            "(text) => [...document.querySelectorAll('article, h4, tbody tr, .role-axis-label text')].filter("
            "(one) => one.getClientRects().length && one.textContent.includes(text)).length", text)  # fmt: skip

    def choose(act: Any, count: int) -> None:
        act()
        page.wait_for_function(f"document.documentElement.dataset.chosen === '{count}'")

    before, tasks = seen("other"), seen("bank/deprel")
    assert before and tasks
    known = page.locator("#choose input").count()
    choose(lambda: page.get_by_label("other", exact=True).uncheck(), known - 1)
    assert seen("other") < before and "1 hidden: other" in page.locator("#chosen").inner_text()
    choose(lambda: page.get_by_label("bank/deprel").uncheck(), known - 2)
    assert seen("bank/deprel") == 0
    for button in page.locator("#choose button[data-set=all]").all():
        button.click()
    page.wait_for_function(f"document.documentElement.dataset.chosen === '{known}'")
    assert (seen("other"), seen("bank/deprel")) == (before, tasks)
    assert "errors" not in page.evaluate("({...document.documentElement.dataset})")
    page.close()


def test_tables_are_saved_under_a_name_that_says_of_which_run(browser, pages):
    page = show(browser, pages["layers"])
    run = page.evaluate("document.documentElement.dataset.run")
    with page.expect_download() as saved:
        page.locator("table.data button.save").first.click()
    assert len(run) == 12 and saved.value.suggested_filename.endswith(f"-{run}.csv")
    assert page.locator("article .cite").first.inner_text().endswith(f"run {run}.")
    page.close()
