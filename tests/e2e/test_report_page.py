"""The report in a real browser: charts are drawn, neurons can be chosen, nothing overflows, no script fails."""

import re
import shutil
import subprocess
from dataclasses import replace
from html import escape
from pathlib import Path

import pandas as pd
import pytest
from neuron_frames import neuron_frames, neuron_results, ranker_rows, redundancy_rows
from report_frames import CONVERGED, DURRANI, small_frames

from vestige.report.html import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--virtual-time-budget=60000",
]
WIDTHS = (1280, 390)
WORD = "</script>\"'&"
LABEL = "</script>\u2028"

FRAME = """<!doctype html><body style="margin:0"><iframe id="page" style="border:0;width:{width}px;height:900px"
srcdoc="{page}"></iframe><script>
function explore(seen, told) {{
  const panel = seen.getElementById("explorer-panel");
  const buttons = () => seen.querySelectorAll("#explorer-list button");
  const heading = () => panel.querySelector("h3").textContent;
  told.neurons = buttons().length;
  told.opened = heading();
  buttons()[1].click();
  told.clicked = heading();
  buttons()[1].focus();
  buttons()[1].dispatchEvent(new seen.defaultView.KeyboardEvent("keydown", {{ key: "ArrowDown", bubbles: true }}));
  told.keyed = heading();
  told.pressed = seen.querySelectorAll("#explorer-list [aria-pressed=true]").length;
  told.bars = panel.querySelectorAll(".bar").length;
  told.bins = panel.querySelectorAll(".histogram rect").length;
  told.scripts = panel.querySelectorAll("script").length;
  told.words = [...panel.querySelectorAll(".words tbody th")].map((cell) => cell.textContent.length).join(" ");
  told.heat = [...panel.querySelectorAll(".sentence span")].map((word) => word.className || "none").join(",");
  panel.querySelector(".same").click();
  told.same = heading();
  const label = seen.getElementById("explorer-label");
  label.selectedIndex = 1;
  label.dispatchEvent(new seen.defaultView.Event("change"));
  told.filtered = buttons().length;
}}
const timer = setInterval(() => {{
  const seen = document.getElementById("page").contentDocument;
  if (!seen || seen.readyState !== "complete" || !seen.documentElement.dataset.rendered) return;
  if (seen.getElementById("explorer-list") && !seen.querySelector("#explorer-list button")) return;
  clearInterval(timer);
  const told = document.documentElement.dataset;
  Object.assign(told, seen.documentElement.dataset);
  const empty = () => [...seen.querySelectorAll(".chart")].filter((chart) => !chart.querySelector("svg .role-mark *"));
  told.marks = seen.querySelectorAll(".chart svg .role-mark path").length;
  told.empty = empty().filter((chart) => !chart.closest("details:not([open])")).length;
  told.folded = empty().length;
  const pictures = [...seen.querySelectorAll(".chart svg.marks")];
  told.named = pictures.filter((one) => one.getAttribute("role") === "img" && one.getAttribute("aria-label")).length;
  told.pictures = pictures.length;
  told.unnamed = [...seen.querySelectorAll("button, summary, select, a")].filter(
    (one) => !(one.getAttribute("aria-label") || one.textContent.trim() || one.labels)).length;
  const table = [...seen.querySelectorAll("table.data")].find((one) => one.querySelector("button.sort") && one.tBodies[0].rows.length > 2);
  const first = () => table.tBodies[0].rows[0].textContent;
  const sort = table.tHead.rows[0].cells[0].querySelector("button.sort");
  sort.click();
  told.rising = first();
  sort.click();
  told.falling = first();
  told.sorted = sort.parentNode.getAttribute("aria-sort");
  if (seen.getElementById("explorer-list")) explore(seen, told);
  seen.querySelectorAll("details").forEach((box) => {{ box.open = true; }});
  setTimeout(() => {{
    told.unfolded = empty().length;
    told.overflowing = seen.documentElement.scrollWidth - seen.documentElement.clientWidth;
    if (seen.documentElement.dataset.errors) told.errors = seen.documentElement.dataset.errors;
  }}, 3000);
}}, 50);
</script></body>"""
"""Headless Chromium is never narrower than 500 px, so a phone is a frame of its width."""


@pytest.fixture(scope="module", params=["layers", "neurons"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "neurons":
        frames = neuron_frames(label=LABEL, word=WORD)
        more = neuron_results([*ranker_rows(), *redundancy_rows()])
        frames = replace(frames, results=pd.concat([frames.results, more], ignore_index=True))
    else:
        frames = small_frames([("bank", "upos"), ("bank", "deprel")], parameters=(CONVERGED, DURRANI), label=LABEL)
    target = tmp_path_factory.mktemp("page") / f"{request.param}.html"
    write_report(target, frames.reading)
    return target


def browse(address: Path, width: int, *flags: str) -> str:
    """Open a page in a browser with a profile of its own; what it prints."""
    profile = address.parent / f"profile-{width}"
    command = [
        str(CHROMIUM),
        *FLAGS,
        f"--user-data-dir={profile}",
        f"--window-size={width},900",
        *flags,
        address.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.fixture(scope="module", params=WIDTHS)
def seen(request: pytest.FixtureRequest, report: Path) -> dict[str, str]:
    """The data attributes that the page left, at one width."""
    width = request.param
    frame = report.parent / f"frame-{width}.html"
    frame.write_text(FRAME.format(width=width, page=escape(report.read_text())))
    opening = re.search(r"<html[^>]*>", browse(frame, width, "--dump-dom"))
    assert opening, "the browser printed no page"
    found = dict(re.findall(r'data-(\w+)="([^"]*)"', opening[0]))
    return {**found, "asked": str(width), "kind": report.stem}


def test_the_page_has_the_width_of_the_device(seen: dict[str, str]) -> None:
    assert seen["width"] == seen["asked"]


def test_every_chart_that_is_not_folded_is_drawn(seen: dict[str, str]) -> None:
    assert int(seen["rendered"]) >= 10
    assert seen["empty"] == "0"
    assert int(seen["marks"]) > (40 if seen["kind"] == "neurons" else 100)


def test_folded_charts_are_drawn_when_they_are_opened(seen: dict[str, str]) -> None:
    assert int(seen["folded"]) > 0
    assert seen["unfolded"] == "0"


def test_the_page_does_not_scroll_sideways(seen: dict[str, str]) -> None:
    assert int(seen["overflow"]) <= 0
    assert int(seen["overflowing"]) <= 0


def test_no_script_fails(seen: dict[str, str]) -> None:
    assert "errors" not in seen


def test_neurons_are_chosen_by_mouse_and_keyboard(seen: dict[str, str]) -> None:
    assert ("neurons" in seen) == (seen["kind"] == "neurons")
    if seen["kind"] == "layers":
        return
    assert seen["neurons"] == "3"
    assert seen["opened"] == "Neuron 100 embeddings, unit 0 of base"
    assert seen["clicked"] == "Neuron 101 layer 1, unit 1 of base"
    assert seen["keyed"] == "Neuron 102 layer 2, unit 2 of base"
    assert seen["same"] == "Neuron 102 layer 2, unit 2 of tuned"
    assert seen["pressed"] == "1"
    assert seen["filtered"] == "2"


def test_words_sentences_and_labels_of_a_neuron_are_text(seen: dict[str, str]) -> None:
    if seen["kind"] == "layers":
        return
    assert (seen["bars"], seen["bins"], seen["scripts"]) == ("2", "4", "0")
    assert seen["words"] == f"{len(WORD)} 3"
    assert seen["heat"] == "none,above strong,below"


def test_the_page_can_be_photographed_as_it_is(report: Path) -> None:
    picture = report.parent / "report.png"
    browse(report, 1280, f"--screenshot={picture}")
    assert picture.stat().st_size > 20_000


def test_charts_and_controls_have_names(seen: dict[str, str]) -> None:
    assert seen["named"] == seen["pictures"] and int(seen["pictures"]) >= 10
    assert seen["unnamed"] == "0"


def test_tables_are_sorted_by_a_click_on_their_head(seen: dict[str, str]) -> None:
    assert seen["sorted"] == "descending" and seen["rising"] != seen["falling"]
