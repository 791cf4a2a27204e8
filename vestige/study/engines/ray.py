"""Steps as tasks of Ray: on a cluster that is joined by its address, or on this machine.

A task gets the step as text and reads and writes the cache by path; no array goes through Ray's object store. Ray
tries a task again whose worker died. Tokens are on: without them, whoever reaches the port can run code.
"""

import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # `uv run` would be replayed by every worker
os.environ.setdefault("RAY_AUTH_MODE", "token")  # read when Ray is imported

import ray
from ray.exceptions import OutOfMemoryError, RayError

from vestige.errors import VestigeError
from vestige.study.engines.engine import Answer, Engine
from vestige.study.engines.execute import execute_packed, packed
from vestige.study.engines.settings import EngineSpec
from vestige.study.steps.step import Step

_RETRIES = 2


class RayEngine(Engine):
    """Every ready step is a task with its threads, memory and share of a GPU; Ray decides where and when."""

    name = "ray"

    def __init__(self, settings: EngineSpec, log: Path) -> None:
        self.settings, self.log = settings, log
        self._steps: dict[Any, Step] = {}
        self._started = not ray.is_initialized()
        if self._started:
            _join(settings)
        self._cpus = float(ray.cluster_resources().get("CPU", 1))
        self._run = ray.remote(execute_packed)

    def has_room(self, step: Step) -> bool:
        return len(self._steps) < 4 * self._cpus + 16  # a task costs nothing while it waits, a million would

    def submit(self, step: Step) -> None:
        memory = self.settings.of("memory", step)
        options: dict[str, Any] = {
            "num_cpus": min(step.threads, self._cpus),
            "num_gpus": self.settings.gpus_of(step),
            "max_retries": _RETRIES,
            "name": step.title,
            "runtime_env": {"env_vars": {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}},
        }
        if memory is not None:
            options["memory"] = memory
        self._steps[self._run.options(**options).remote(packed(step, self.log))] = step

    def wait(self, seconds: float) -> list[Answer]:
        if not self._steps:
            return []
        ready, _ = ray.wait([*self._steps], num_returns=1, timeout=seconds)
        return [self._answer(task) for task in ready]

    def _answer(self, task: Any) -> Answer:
        step = self._steps.pop(task)
        try:
            return ray.get(task)
        except OutOfMemoryError:
            return Answer(step.key, "lost", "VestigeError", "out of memory", "give it more (engine: memory)")
        except RayError as error:
            problem = f"Ray ended it {_RETRIES + 1} times ({type(error).__name__}: {str(error).splitlines()[0]})"
            return Answer(step.key, "failed", "VestigeError", problem, "see the log of the step, and Ray's dashboard")

    def close(self) -> None:
        for task in self._steps:
            ray.cancel(task, force=True)
        self._steps = {}
        if self._started:
            ray.shutdown()


def _join(settings: EngineSpec) -> None:
    """Join the cluster, or start Ray here with a token of its own."""
    if settings.address is None:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        os.environ.setdefault("RAY_worker_niceness", "0")  # 15 by default: on a busy machine, next to no time
    elif not (os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH") or _token().exists()):
        raise VestigeError(
            f"the Ray cluster at {settings.address} is to be joined without a token",
            fix="set RAY_AUTH_TOKEN to the token that the cluster was started with",
        )
    here: dict[str, Any] = {} if settings.address else {"include_dashboard": False, "_temp_dir": _short_folder()}
    if settings.jobs and not settings.address:
        here["num_cpus"] = settings.jobs
    try:
        ray.init(address=settings.address, log_to_driver=False, configure_logging=False, **here)
    except (ConnectionError, RayError, RuntimeError, ValueError) as error:
        raise VestigeError(
            f"Ray cannot be had ({type(error).__name__}: {str(error).splitlines()[0]})",
            fix="check the address, that the cluster runs, and RAY_AUTH_TOKEN",
        ) from error


def _token() -> Path:
    return Path.home() / ".ray" / "auth_token"


def _short_folder() -> str:
    """Ray makes sockets in it, whose names may not be long."""
    return tempfile.mkdtemp(prefix="ray-", dir="/tmp" if Path("/tmp").is_dir() else None)
