"""Steps as jobs of SLURM, submitted by submitit in arrays; short steps share a job.

A job carries the steps as text and reads and writes the cache by path. How each step ended is written into the log
folder as it ends, so nothing depends on SLURM's accounting: a job that is neither in the queue nor has answered was
ended by the machine. A job that runs out of time is queued again, and what it had finished is not made again.
"""

import json
import math
import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import submitit

from vestige.errors import VestigeError
from vestige.study.engines.engine import Answer, Engine
from vestige.study.engines.execute import execute_packed, packed
from vestige.study.engines.settings import EngineSpec
from vestige.study.steps.step import Step

_MOST = 1000
"""Jobs of an array: clusters allow 1001 by default."""
_LOOK_EVERY = 5.0
"""Seconds between two looks at the queue."""
_GATHER = 5.0
"""Seconds that a short step waits for others to share a job with, while other jobs are under way."""
_POLL = 0.5
DETACHED = "VESTIGE_DETACHED"
"""Set for a driver that is a job itself."""
_LOST = "its SLURM job ended without an answer (cancelled, killed or out of memory)"
_AGAIN = "see the log of the job; give the step more memory or minutes (engine: memory, minutes)"


@dataclass
class Pack:
    """Steps that share a job; what SLURM queues again is the same pack, and finished steps are found in the cache."""

    steps: list[str]
    answers: str

    def __call__(self) -> None:
        for text in self.steps:
            answer = execute_packed(text)
            path = Path(self.answers) / f"{answer.key}.json"
            temporary = path.with_name(f".{path.name}")
            temporary.write_text(json.dumps(answer.as_json()))
            os.replace(temporary, path)

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Asked for by submitit when the time of the job is over."""
        return submitit.helpers.DelayedSubmission(self)


@dataclass
class _Job:
    number: str
    steps: list[Step] = field(default_factory=list)


class Slurm(Engine):
    """Jobs in the queue of a cluster; SLURM decides where and when."""

    name = "slurm"

    def __init__(self, settings: EngineSpec, log: Path) -> None:
        self.settings, self.log = settings, log.absolute()
        self.answers = self.log / "answers" / uuid.uuid4().hex[:8]
        self.answers.mkdir(parents=True)
        self._ready: list[Step] = []
        self._jobs: list[_Job] = []
        self._since: dict[str, float] = {}
        """Since when steps that ask for the same wait for company."""
        self._looked = 0.0

    def has_room(self, step: Step) -> bool:
        most = (self.settings.jobs or 200) * (1 if step.kind in self.settings.alone else self.settings.pack)
        return sum(len(job.steps) for job in self._jobs) + len(self._ready) < most

    def submit(self, step: Step) -> None:
        self._ready.append(step)

    def wait(self, seconds: float) -> list[Answer]:
        end = time.monotonic() + seconds
        while True:
            self._send()
            found = [*self._answered(), *self._lost()]
            if found or time.monotonic() >= end or not (self._jobs or self._ready):
                return found
            time.sleep(_POLL)

    def _send(self) -> None:
        """Submit what is ready: an array for steps that ask for the same. Short ones wait a little for company."""
        groups: dict[str, list[Step]] = {}
        for step in self._ready:
            groups.setdefault(json.dumps(self._asked(step)), []).append(step)
        for asked, steps in groups.items():
            short, full = steps[0].kind not in self.settings.alone, len(steps) >= self.settings.pack
            since = self._since.setdefault(asked, time.monotonic())
            if short and not full and self._jobs and time.monotonic() - since < _GATHER:
                continue
            del self._since[asked]
            self._ready = [step for step in self._ready if step not in steps]
            packs = [*self._packs(steps)]
            for at in range(0, len(packs), _MOST):
                self._array(json.loads(asked), packs[at : at + _MOST])

    def _asked(self, step: Step) -> dict[str, Any]:
        """What a job of the step asks SLURM for."""
        memory = self.settings.of("memory", step)
        asked = {
            "timeout_min": self.settings.of("minutes", step),
            "cpus_per_task": step.threads,
            "slurm_partition": self.settings.partition,
            "slurm_account": self.settings.account,
            "mem_gb": None if memory is None else max(1, round(memory / 1e9)),
            "gpus_per_node": math.ceil(self.settings.gpus_of(step)) or None,
            "name": "vestige-alone" if step.kind in self.settings.alone else "vestige",
        }
        return {key: value for key, value in asked.items() if value is not None}

    def _packs(self, steps: Sequence[Step]) -> Iterator[list[Step]]:
        """Long steps alone; short ones together, but not so many that jobs would stand idle."""
        size = (
            1
            if steps[0].kind in self.settings.alone
            else min(self.settings.pack, -(-len(steps) // (self.settings.jobs or 4)))
        )
        return (list(steps[at : at + size]) for at in range(0, len(steps), size))

    def _array(self, asked: dict[str, Any], packs: Sequence[list[Step]]) -> None:
        executor = submitit.AutoExecutor(folder=self.log / "slurm", cluster="slurm", slurm_max_num_timeout=3)
        setup = ["export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false"]
        executor.update_parameters(**asked, slurm_setup=setup, slurm_array_parallelism=self.settings.jobs or 256)
        objects = [Pack([packed(step, self.log) for step in pack], str(self.answers)) for pack in packs]
        try:
            with executor.batch():
                jobs = [executor.submit(each) for each in objects]
        except (RuntimeError, OSError, submitit.core.utils.FailedJobError) as error:
            raise VestigeError(
                f"SLURM takes no job ({' '.join(str(error).split())[:300]})",
                fix="check partition, account, minutes, memory and gpus of the engine; `sinfo` lists partitions",
            ) from error
        self._jobs += [_Job(job.job_id, list(pack)) for job, pack in zip(jobs, packs, strict=True)]

    def _answered(self) -> list[Answer]:
        found = []
        for job in self._jobs:
            for step in list(job.steps):
                path = self.answers / f"{step.key}.json"
                if path.exists():
                    said = json.loads(path.read_text())
                    path.unlink()
                    job.steps.remove(step)
                    found.append(Answer(**{**said, "warnings": tuple(said["warnings"])}))
        self._jobs = [job for job in self._jobs if job.steps]
        return found

    def _lost(self) -> list[Answer]:
        """Steps of jobs that have left the queue without an answer."""
        if not self._jobs or time.monotonic() - self._looked < _LOOK_EVERY:
            return []
        self._looked = time.monotonic()
        queued = _queue()
        gone = [job for job in self._jobs if queued is not None and job.number not in queued]
        if not gone or self._answered_late():
            return []
        self._jobs = [job for job in self._jobs if job not in gone]
        return [Answer(step.key, "lost", "VestigeError", _LOST, _AGAIN) for job in gone for step in job.steps]

    def _answered_late(self) -> bool:
        """Whether an answer came between the look at the answers and the one at the queue."""
        time.sleep(_POLL)
        return any((self.answers / f"{step.key}.json").exists() for job in self._jobs for step in job.steps)

    def close(self) -> None:
        """Cancel what is queued or runs; the jobs of a detached driver go on, as it may only have run out of time."""
        if self._jobs and not os.environ.get(DETACHED):
            subprocess.run(["scancel", *(job.number for job in self._jobs)], capture_output=True, check=False)
        self._jobs, self._ready = [], []


def _queue() -> set[str] | None:
    """Numbers of jobs that wait or run, as submitit writes them; None where the queue cannot be asked."""
    asked = subprocess.run(
        ["squeue", "--me", "--noheader", "--array", "--format=%i %F_%K %A"], capture_output=True, text=True, check=False
    )
    return set(asked.stdout.split()) if asked.returncode == 0 else None
