"""Shared by the tests of studies."""

from pathlib import Path

import pytest
from small_study import make_place


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Path:
    """A folder with a corpus, an opinion file and tiny models."""
    return make_place(tmp_path_factory.mktemp("study"))
