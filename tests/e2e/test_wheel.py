"""The package as others get it: built, installed outside of the checkout, run; and what goes with a release."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import shelf
import tiny
import yaml

from vestige.version import __version__


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The folder that the wheel, built from a copy of the checkout, was installed into."""
    pytest.importorskip("build", reason="pip install build")
    folder = tmp_path_factory.mktemp("wheel")
    copied = folder / "checkout"
    copied.mkdir()
    shutil.copytree(shelf.ROOT / "vestige", copied / "vestige", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(shelf.ROOT / name, copied / name)
    run("-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(copied))
    assert len([*(folder / "dist").glob("*.tar.gz")]) == 1
    (wheel,) = (folder / "dist").glob("*.whl")
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder / "site"), str(wheel))
    run(*pip)
    shutil.rmtree(copied)
    return folder / "site"


def run(*arguments: str, site: Path | None = None, cwd: Path | None = None) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"PYTHONPATH": str(site)} if site else {}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_all_that_the_checkout_has(installed):
    ours = {path.relative_to(shelf.ROOT) for path in (shelf.ROOT / "vestige").rglob("*") if path.is_file()}
    ours = {path for path in ours if "__pycache__" not in path.parts}
    assert not [path for path in ours if not (installed / path).is_file()]


def test_the_installed_wheel_runs_the_demo(installed, tmp_path):
    tiny.save("bert", tmp_path / "mine", layers=1)
    where = run("-c", "import vestige; print(vestige.__file__)", site=installed, cwd=tmp_path).strip()
    assert Path(where).is_relative_to(installed)
    options = (
        "--model",
        "mine",
        "--limit",
        "24",
        "--jobs",
        "1",
        "--engine",
        "inline",
        "--out",
        "run",
        "--cache",
        "cache",
    )
    said = run("-m", "vestige.cli", "demo", *options, site=installed, cwd=tmp_path)
    assert "report:" in said and (tmp_path / "run" / "report.html").stat().st_size > 100_000


def test_the_version_is_the_same_everywhere():
    assert yaml.safe_load((shelf.ROOT / "CITATION.cff").read_text())["version"] == __version__
    first = re.search(r"^## (\S+)", (shelf.ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first and first[1] == __version__


def test_issue_templates_are_forms():
    for path in (shelf.ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        assert path.stem == "config" or {"name", "description", "body"} <= set(form)
