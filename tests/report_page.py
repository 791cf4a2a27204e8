"""A written report as a browser would take it apart, for the tests of the report."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from report_frames import Frames

from vestige.report.html import unpacked, write_report

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
        self.named: dict[str, str] = {}
        self.words: list[str] = []
        self.ids: set[str] = set()
        self._open = self._id = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open, self._id = tag, dict(attrs).get("id") or ""
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in FETCHING]
        self.ids |= {value or "" for name, value in attrs if name == "id"}

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open == "script" and self._id:
            self.named[self._id] = data
        {"script": self.scripts, "style": self.styles}.get(self._open, self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def specs(self) -> dict:
        return self.data("specs")

    def data(self, name: str) -> Any:
        """What a script element of this id holds."""
        return unpacked(self.named[name])


def page_of(frames: Frames, folder: Path) -> Page:
    """The report of these tables."""
    write_report(folder / "report.html", frames.reading)
    return Page((folder / "report.html").read_text())
