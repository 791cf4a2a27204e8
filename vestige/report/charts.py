"""The charts of a page: their specifications, kept until the page is written."""

import json
from typing import Any

_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def safe_json(value: Any) -> str:
    """JSON that may stand inside a script element whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in _UNSAFE.items():
        text = text.replace(character, escape)
    return text


class Charts:
    """Gives every specification the id of the element it is drawn into."""

    def __init__(self) -> None:
        self.specs: dict[str, dict[str, Any]] = {}

    def add(self, spec: dict[str, Any]) -> str:
        """Keep a specification; returns the id."""
        name = f"chart-{len(self.specs) + 1}"
        self.specs[name] = spec
        return name
