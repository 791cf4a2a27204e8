"""A run of a hundred models, made up: is its page small, and is it open at once? `python benchmarks/many_models.py`.

The tables have the columns of a real run and numbers from a seed: a base, fine-tuned models and a random twin, probed
on one task at every layer. What is measured: how long the page takes to write (seconds of the processor), how large it
is, and how long until it can be read in Chromium (DOMContentLoaded) and until its charts are drawn.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from report_frames import CONVERGED, Frames, small_frames

from vestige.report.html import write_report

RESULT = Path(__file__).parent / "results" / "many_models.json"
LAYERS = 13
TASKS = [("treebank", "upos")]


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


def opened(page: Path) -> dict[str, float]:
    """Seconds until the page can be read, and until its charts are drawn, in a real browser."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page(bypass_csp=True)
        shown.set_default_timeout(600_000)
        shown.goto(page.as_uri(), wait_until="domcontentloaded")
        readable = shown.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd / 1000")
        shown.wait_for_function("document.documentElement.dataset.rendered")
        drawn = shown.evaluate("performance.now() / 1000")
        browser.close()
    return {"readable_seconds": round(readable, 2), "drawn_seconds": round(drawn, 2)}


def measure(count: int) -> dict[str, Any]:
    """What a page of so many models takes."""
    frames = many_models(count)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        began = time.process_time()
        write_report(page, frames.reading)
        found: dict[str, Any] = {"models": count, "write_processor_seconds": round(time.process_time() - began, 1)}
        found["megabytes"] = round(page.stat().st_size / 1e6, 2)
        return {**found, **opened(page)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=100)
    result = measure(parser.parse_args().models)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
