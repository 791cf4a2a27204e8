"""The report in a real browser: charts are drawn, nothing overflows, no script fails."""

import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import pytest
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
    "--virtual-time-budget=20000",
]
WIDTHS = (1280, 390)

FRAME = """<!doctype html><body style="margin:0"><iframe id="page" style="border:0;width:{width}px;height:900px"
srcdoc="{page}"></iframe><script>
const timer = setInterval(() => {{
  const seen = document.getElementById("page").contentDocument;
  if (!seen || !seen.documentElement.dataset.rendered) return;
  clearInterval(timer);
  const told = document.documentElement.dataset;
  Object.assign(told, seen.documentElement.dataset);
  const empty = () => [...seen.querySelectorAll(".chart")].filter((chart) => !chart.querySelector("svg .role-mark *"));
  told.marks = seen.querySelectorAll(".chart svg .role-mark path").length;
  told.empty = empty().filter((chart) => !chart.closest("details:not([open])")).length;
  told.folded = empty().length;
  seen.querySelectorAll("details").forEach((box) => {{ box.open = true; }});
  setTimeout(() => {{
    told.unfolded = empty().length;
    told.overflowing = seen.documentElement.scrollWidth - seen.documentElement.clientWidth;
    if (seen.documentElement.dataset.errors) told.errors = seen.documentElement.dataset.errors;
  }}, 3000);
}}, 50);
</script></body>"""
"""Headless Chromium is never narrower than 500 px, so a phone is a frame of its width."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frames = small_frames([("bank", "upos"), ("bank", "deprel")], parameters=(CONVERGED, DURRANI), label="</script>")
    target = tmp_path_factory.mktemp("page") / "report.html"
    write_report(target, *frames.all)
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
    return {**found, "asked": str(width)}


def test_the_page_has_the_width_of_the_device(seen: dict[str, str]) -> None:
    assert seen["width"] == seen["asked"]


def test_every_chart_that_is_not_folded_is_drawn(seen: dict[str, str]) -> None:
    assert int(seen["rendered"]) >= 10
    assert seen["empty"] == "0"
    assert int(seen["marks"]) > 100


def test_folded_charts_are_drawn_when_they_are_opened(seen: dict[str, str]) -> None:
    assert int(seen["folded"]) > 0
    assert seen["unfolded"] == "0"


def test_the_page_does_not_scroll_sideways(seen: dict[str, str]) -> None:
    assert int(seen["overflow"]) <= 0
    assert int(seen["overflowing"]) <= 0


def test_no_script_fails(seen: dict[str, str]) -> None:
    assert "errors" not in seen


def test_the_page_can_be_photographed_as_it_is(report: Path) -> None:
    picture = report.parent / "report.png"
    browse(report, 1280, f"--screenshot={picture}")
    assert picture.stat().st_size > 20_000
