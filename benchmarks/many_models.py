"""A run of a hundred models, made up: is its page small, and is it open at once? `python benchmarks/many_models.py`.

The tables have the columns of a real run and numbers from a seed: a base, fine-tuned models and a random twin, probed
on two tasks at every layer. What is measured: how long the page takes to write (seconds of the processor), how large it
is, and how long Chromium takes until it can be read (DOMContentLoaded), until the charts in the window are drawn and
until all charts are that are not folded. Every figure of an opening is the median of five. The page
docs/many_models.md is written from the result; `--write` writes it again without measuring.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from report_frames import CONVERGED, Frames, small_frames

from vestige.report.html import write_report

HERE = Path(__file__).parent
RESULT, PAGE = HERE / "results" / "many_models.json", HERE.parent / "docs" / "many_models.md"
LAYERS = 13
TASKS = [("treebank", "upos"), ("treebank", "deprel")]
OPENINGS = 5


def many_models(count: int = 100, layers: int = LAYERS) -> Frames:
    """A base, `count` tuned models whose changes differ, and a random twin."""
    rng = np.random.default_rng(0)
    frames = small_frames(
        TASKS, tuned=[f"tuned {n:03d}" for n in range(count)], parameters=(CONVERGED,), changes=[0.0] * layers
    )
    table = frames.comparisons
    shift = rng.normal(-0.01, 0.01, size=len(table))
    moved = table.assign(**{name: table[name] + shift for name in ("difference", "low", "high", "tuned")})
    verdict = np.select([moved["high"] < 0, moved["low"] > 0], ["lower", "higher"], "undecided")
    return Frames(frames.results, moved.assign(verdict=verdict), frames.cells, frames.lock)


def opened(page: Path, times: int = OPENINGS) -> dict[str, float]:
    """Seconds until the page can be read and its charts are drawn in a real browser: the median of several openings."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        taken = [_open(browser, page) for _ in range(times)]
        browser.close()
    return {name: round(median(one[name] for one in taken), 2) for name in taken[0]}


def _open(browser: Any, page: Path) -> dict[str, float]:
    shown = browser.new_page(bypass_csp=True)
    shown.set_default_timeout(600_000)
    shown.goto(page.as_uri(), wait_until="domcontentloaded")
    shown.wait_for_function("document.documentElement.dataset.rendered")
    milliseconds = shown.evaluate(
        "[performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd,"
        " ...['drawn', 'all drawn'].map((name) => performance.getEntriesByName(name)[0].startTime)]"
    )
    shown.close()
    names = ("readable_seconds", "window_drawn_seconds", "all_drawn_seconds")
    return dict(zip(names, (one / 1000 for one in milliseconds), strict=True))


def measure(count: int) -> dict[str, Any]:
    """What a page of so many models takes."""
    frames = many_models(count)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        began = time.process_time()
        write_report(page, frames.reading)
        found: dict[str, Any] = {
            "models": count,
            "tasks": len(TASKS),
            "write_processor_seconds": round(time.process_time() - began, 1),
        }
        found["megabytes"] = round(page.stat().st_size / 1e6, 2)
        return {
            **found,
            **opened(page),
            "openings": OPENINGS,
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
        }


def page(result: dict[str, Any]) -> str:
    """The page of the documentation."""
    cores, load = result["cores"], result["load"]
    return f"""# A report of very many models

Written by `python benchmarks/many_models.py` from `benchmarks/results/many_models.json`: the report of made-up tables
of a base and {result["models"]} fine-tuned models, probed on {result["tasks"]} tasks at every layer. It is opened in
headless Chromium; seconds of an opening are wall-clock, the median of {result["openings"]}. The machine has {cores}
cores; its load average at the end was {load:.1f}, so that they may be more than a quiet machine takes.

| | measured | goal |
|---|--:|--:|
| size of the page | {result["megabytes"]:.1f} MB | under 8 MB |
| seconds until it can be read | {result["readable_seconds"]:.2f} | |
| seconds until the charts in the window are drawn | {result["window_drawn_seconds"]:.2f} | under 2 |
| seconds until all charts are drawn that are not folded | {result["all_drawn_seconds"]:.2f} | |
| seconds of the processor to write it | {result["write_processor_seconds"]:.0f} | |

What keeps it so: data of charts and of the neuron explorer stand in the page deflated, charts in the window are drawn
first, and of more than 24 models and tasks curves and labels are folded and drawn when they are unfolded.
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="only write the page, from the kept result")
    asked = parser.parse_args()
    if not asked.write:
        RESULT.write_text(json.dumps(measure(asked.models), indent=1) + "\n")
    PAGE.write_text(page(json.loads(RESULT.read_text())))
    print(PAGE.read_text())
