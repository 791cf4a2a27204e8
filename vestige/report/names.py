"""What files of a report are called, and the line that says where its numbers come from."""

import json
import re

from vestige.digest import digest_json
from vestige.report.reading import Reading


def file_name(text: str) -> str:
    """A caption as the name of a file, without an ending."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:80].strip("-") or "untitled"


def citation(reading: Reading) -> str:
    """Where the numbers come from, in one line."""
    return f"Study {reading.title}, vestige {reading.lock.get('vestige', '')}, run {run_hash(reading)}."


def run_hash(reading: Reading) -> str:
    """A hash of everything that was asked for."""
    asked = json.dumps(reading.lock.get("spec", {}), sort_keys=True)  # plain ASCII, whatever a name holds
    return digest_json(asked, 12)
