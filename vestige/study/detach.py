"""A run that goes on in the background: on this machine, or for SLURM as a job of its own."""

import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from vestige.errors import VestigeError
from vestige.study.engines.settings import EngineSpec
from vestige.study.record import Record
from vestige.study.status import owner

OUTPUT = "driver.log"
"""In the log folder of a run: what a detached driver prints."""


def detached(folder: Path, arguments: Sequence[str], settings: EngineSpec) -> str:
    """Start the command again without --detach; where it runs, and how to follow it."""
    command = [sys.executable, "-m", "vestige.cli", *(word for word in arguments if word != "--detach")]
    log, began = folder.absolute() / "log", time.time()
    log.mkdir(parents=True, exist_ok=True)
    record, output = Record(log), str(log / OUTPUT)
    follow = f"follow it: vestige status {shlex.quote(str(folder))} --watch"
    if settings.name == "slurm":
        where = _job(command, output, settings)
        record.note("detached", at=began, where=where, output=output)
        return f"{where}, its output in {output}; {follow}"
    with open(output, "ab") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True
        )
    where = f"process {process.pid}"
    record.note("detached", at=began, where=where, output=output, owner={**owner(), "pid": process.pid})
    return f"{where}, its output in {output}; {follow}"


def _job(command: Sequence[str], output: str, settings: EngineSpec) -> str:
    """The driver itself as a small job: it submits the others and waits for them; they outlive it."""
    where = [f"--partition={settings.partition}"] if settings.partition else []
    where += [f"--account={settings.account}"] if settings.account else []
    wrapped = f"--wrap=VESTIGE_DETACHED=1 exec {shlex.join(command)}"
    asked = ["sbatch", "--parsable", "--job-name=vestige-driver", "--cpus-per-task=1", f"--output={output}"]
    try:
        said = subprocess.run([*asked, *where, wrapped], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        problem = getattr(error, "stderr", "") or str(error)
        raise VestigeError(f"SLURM takes no job ({' '.join(problem.split())[:300]})", fix="check the engine") from None
    return f"job {said.stdout.strip()} of SLURM"
