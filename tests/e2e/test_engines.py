"""One study, every engine, the same bytes: examples/cluster with a tiny model in the place of MiniLM."""

import os

os.environ.setdefault("RAY_AUTH_MODE", "token")  # Ray reads both when it is imported
os.environ.setdefault("RAY_AUTH_TOKEN", "ab" * 32)

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
import yaml

from vestige.study.run import Study

STUDY = Path(__file__).parents[2] / "examples" / "cluster" / "study.yaml"


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("engines")
    tiny.save("bert", folder / "base")
    said = yaml.safe_load(STUDY.read_text())
    said["models"]["base"] = str(folder / "base")
    return {**said, "limit": 24}


def tables(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*.parquet"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def run(raw: dict, folder: Path, **engine) -> dict[str, bytes]:
    made = Study.from_dict(raw, folder / "run", cache=folder / "cache").run(**engine)
    assert not made.failed
    return tables(folder / "run")


@pytest.fixture(scope="module")
def inline(raw, tmp_path_factory) -> dict[str, bytes]:
    return run(raw, tmp_path_factory.mktemp("inline"), name="inline")


def test_the_study_has_many_steps_with_runs_of_fine_tuning(raw, tmp_path):
    plan = Study.from_dict(raw, tmp_path / "run", cache=tmp_path / "cache").plan()
    assert len(plan.steps) >= 60
    assert len(plan.named.tunes) == 6 and {run for _, run in plan.named.tunes} == {0, 1}
    assert not list(tmp_path.iterdir()), "planning computes and writes nothing"


def test_two_processes(raw, inline, tmp_path):
    assert run(raw, tmp_path, name="local", jobs=2) == inline


def test_a_ray_cluster_of_two_nodes(raw, inline, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", reason="the engine ray needs the extra `ray`")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_worker_niceness", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        assert run(raw, tmp_path, name="ray", address=cluster.address) == inline
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_ray_that_the_engine_starts_runs_steps_as_eagerly_as_the_driver(tmp_path):
    """Ray's own niceness is 15: on a busy machine, steps got next to no time. In a process of its own."""
    pytest.importorskip("ray", reason="the engine ray needs the extra `ray`")
    code = f"""
import os
from pathlib import Path
from vestige.study.engines.ray import RayEngine, ray
from vestige.study.engines.settings import EngineSpec
engine = RayEngine(EngineSpec(name="ray", jobs=1), Path({str(tmp_path)!r}))
print(ray.get(ray.remote(lambda: os.nice(0)).remote()), os.nice(0))
engine.close()
"""
    free = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=free)
    there, here = said.stdout.split() or [said.stderr, ""]
    assert there == here


def slurm_is_here() -> bool:
    if shutil.which("sbatch") is None or not os.environ.get("SLURM_CONF"):
        return False
    return subprocess.run(["sinfo"], capture_output=True, check=False).returncode == 0


needs_slurm = pytest.mark.skipif(not slurm_is_here(), reason="no SLURM runs here (tests/slurm_here.py starts one)")


@needs_slurm
def test_slurm(raw, inline, tmp_path):
    assert run(raw, tmp_path, name="slurm", pack=16, minutes=10, alone=(), jobs=2) == inline


@needs_slurm
def test_a_partition_that_does_not_exist_is_named(raw, tmp_path):
    from vestige.errors import VestigeError

    with pytest.raises(VestigeError, match="SLURM takes no job") as raised:
        run(raw, tmp_path, name="slurm", partition="nowhere")
    assert "partition" in raised.value.fix
