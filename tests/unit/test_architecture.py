"""The folder tree explains the system: imports go one way, and starting up is cheap."""

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import vestige

PACKAGE = Path(vestige.__file__).parent
ORDER = (
    "corpus",
    "models",
    "finetune",
    "representations",
    "measures",
    "probes",
    "neurons",
    "comparison",
    "analyses",
    "report",
    "study",
    "papers",
)
"""The way of the data; a room may import from rooms to its left, the command line from all."""

FREE = {"errors", "progress", "digest", "cache", "checksums", "files", "version", "products"}
TOP = {"cli", "demo", "doctor", "listing", "__init__"}


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names if node.module == "vestige"}
    return {name.split(".")[1] for name in found if name.startswith("vestige.")}


@pytest.mark.parametrize("room", ORDER)
def test_a_room_imports_only_from_rooms_to_its_left(room):
    allowed = FREE | set(ORDER[: ORDER.index(room) + 1])
    for path in (PACKAGE / room).rglob("*.py"):
        wrong = _imports(path) - allowed
        assert not wrong, f"{path.relative_to(PACKAGE)} imports {wrong}"


def test_every_room_and_every_top_module_is_known():
    rooms = {p.name for p in PACKAGE.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    modules = {p.stem for p in PACKAGE.glob("*.py")}
    assert rooms == set(ORDER)
    assert modules == FREE | TOP


def test_free_modules_import_nothing_of_ours_but_each_other():
    for name in FREE:
        assert _imports(PACKAGE / f"{name}.py") <= FREE


HEAVY = ("torch", "transformers", "numpy", "numba", "pydantic", "pandas", "sklearn")


@pytest.mark.parametrize("command", ["from vestige.cli import app", "import vestige"])
def test_starting_up_imports_nothing_heavy(command):
    code = f"{command}\nimport sys\nprint([m for m in {HEAVY!r} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


UNPLANNED = ("transformers", "peft", "huggingface_hub", "scipy.stats", "scipy.optimize", "sklearn", "numba")
"""What takes seconds to import and what no plan needs, of whatever analysis."""
UNTOUCHED = (
    "accelerate", "datasets", "h5py", "jinja2", "matplotlib", "ray", "submitit", "vestige.finetune.loop",
    "vestige.finetune.model", "vestige.models.files.load", "vestige.report",
)  # fmt: skip
"""What the plan of probes and similarity does without: what loads, trains and reports, and engines not asked for."""


def test_planning_a_study_of_every_analysis_imports_no_modelling_code(tmp_path):
    study = {
        "study": "plan",
        "models": {
            "base": "minilm",
            "tuned": {"finetune": {"of": "base", "task": "opinions/opinion", "recipe": {"epochs": 1}}},
        },
        "corpora": {"treebank": "treebank", "opinions": "opinions"},
        "analyses": [{"layer_probe": {"tasks": ["treebank/upos"]}}, {"similarity": {"tasks": ["treebank/upos"]}}],
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    code = f"""
import sys
from vestige.cli import app
app(["run", "study.yaml", "--plan", "--cache", "cache"], standalone_mode=False)
print([module for module in {UNPLANNED + UNTOUCHED!r} if module in sys.modules])
from vestige.analyses import analysis_names, find_analysis
for name in analysis_names():
    find_analysis(name)
print([module for module in {UNPLANNED!r} if module in sys.modules])
"""
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert said.stdout.splitlines()[-2:] == ["[]", "[]"], said.stdout[-300:] + said.stderr[-2000:]


def test_comparing_models_by_name_imports_no_modelling_code_until_a_step_needs_it(tmp_path):
    """The process that plans and writes the report leaves models to its workers."""
    code = f"""
import sys
from vestige.study.compare import comparison
study = comparison("minilm", "minilm", "treebank", profile="quick", folder="run", cache="cache")
study.plan()
print([module for module in {UNPLANNED!r} if module in sys.modules])
"""
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert said.stdout.splitlines()[-1:] == ["[]"], said.stdout[-300:] + said.stderr[-2000:]


def test_help_takes_at_most_twelve_bare_starts_of_python():
    def seconds(*arguments: str) -> float:
        took = []
        for _ in range(7):
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
            took.append(time.perf_counter() - start)
        return min(took)

    assert seconds("-m", "vestige.cli", "--help") < 12 * seconds("-c", "pass")


def _report_imports() -> dict[str, set[str]]:
    """Module of the report -> modules of the report that it imports."""
    modules = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (PACKAGE / "report").rglob("*.py")
    }
    found = {}
    for name, path in modules.items():
        named = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        found[name] = (named & set(modules)) - {name, "vestige.report"}
    return found


def test_the_deepest_chain_of_imports_in_the_report_is_five_modules():
    imports = _report_imports()

    def depth(module: str) -> int:
        return 1 + max(map(depth, imports[module]), default=0)

    deepest = max(imports, key=depth)
    assert depth(deepest) <= 5, deepest


@pytest.mark.parametrize("room", ["study", "report"])
def test_only_pages_know_an_analysis_by_name(room):
    from vestige.analyses import analysis_names

    for path in (PACKAGE / room).rglob("*.py"):
        if "pages" not in path.parts:
            strings = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            assert not strings & set(analysis_names()), f"{path.relative_to(PACKAGE)} names an analysis"
