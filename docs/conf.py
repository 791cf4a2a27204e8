"""Sphinx settings: `make docs` writes the site to build/docs, warnings are errors."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from generate import write_pages  # noqa: E402

from vestige.version import __version__  # noqa: E402

project = "vestige"
author = "the vestige authors"
copyright = "the vestige authors, Apache-2.0"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist", "dollarmath", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"

html_theme = "furo"
html_title = "vestige"
html_theme_options = {"sidebar_hide_name": False}
html_static_path: list[str] = []

write_pages(HERE / "reference")
