"""Where finished work is kept: `--cache`, else VESTIGE_CACHE, else the user's cache folder."""

import os
from pathlib import Path


def cache_folder(given: str | Path | None = None) -> Path:
    """The root of the cache; sub-folders are named by content hashes."""
    if given is not None:
        return Path(given).expanduser()
    if os.environ.get("VESTIGE_CACHE"):
        return Path(os.environ["VESTIGE_CACHE"]).expanduser()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "vestige"
