"""The documentation is built with warnings as errors: every internal link leads somewhere, every page is in the tree."""

import sys

import pytest
import shelf
import yaml

from vestige.study.spec import make_spec

sys.path.insert(0, str(shelf.ROOT / "docs"))
import generate


def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    from sphinx.cmd.build import main

    source, target = shelf.ROOT / "docs", tmp_path / "site"
    assert main(["-q", "-W", "-b", "html", "-d", str(tmp_path / "doctrees"), str(source), str(target)]) == 0
    page = (target / "reference" / "analyses" / "layer_probe.html").read_text()
    assert "optimality_gap" in page and "Hewitt" in page
    assert (target / "guides" / "analysis.html").read_text().count("vector_norm") > 3


@pytest.mark.parametrize("kind", generate.SECTIONS.values())
def test_every_key_of_a_study_file_is_explained(kind):
    assert not [row[0] for row in generate._keys(kind) if not row[3]]


@pytest.mark.parametrize("kind", generate.EXAMPLES)
def test_examples_of_study_files_are_valid(kind):
    part = yaml.safe_load(generate.EXAMPLES[kind])
    corpora = {"treebank": "treebank", "opinions": "opinions", **part.get("corpora", {})}
    whole = {"study": "part", "models": {"base": "minilm"}, "analyses": [{"layer_probe": {"tasks": ["treebank/upos"]}}]}
    make_spec({**whole, **part, "corpora": corpora})
