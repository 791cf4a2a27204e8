"""A written report as a browser would take it apart, for the tests of the report."""

import json
from html.parser import HTMLParser
from pathlib import Path

from report_frames import Frames

from vestige.report.html import write_report

EVIL = "</script><script>alert(1)</script>"
FETCHING = {"src", "href", "srcset", "data", "action", "poster", "xlink:href"}


class Page(HTMLParser):
    """What a browser would make of the page: elements, their addresses, scripts and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.words: list[str] = []
        self.ids: set[str] = set()
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in FETCHING]
        self.ids |= {value or "" for name, value in attrs if name == "id"}

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        {"script": self.scripts, "style": self.styles}.get(self._open, self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def specs(self) -> dict:
        return json.loads(next(script for script in self.scripts if script.startswith("{")))


def page_of(frames: Frames, folder: Path) -> Page:
    """The report of these tables."""
    write_report(folder / "report.html", frames.reading)
    return Page((folder / "report.html").read_text())
