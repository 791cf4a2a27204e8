"""The faults: what happens to a study, one function each."""

import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from faults import Kind, Try

HERE = Path(__file__).parent
TMPFS = "48m"
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
CLOCK = "FAKETIME_TIMESTAMP_FILE"
if CLOCK in os.environ:  # Python's sleep is an error under libfaketime 0.9.10
    time.sleep = lambda seconds: select.select([], [], [], seconds) and None  # type: ignore[assignment]


def kill_driver(tried: Try) -> bool:
    """SIGKILL."""
    if tried.drivers[0].ended():
        return False
    os.kill(tried.drivers[0].pid, signal.SIGKILL)
    return True


def kill_worker(tried: Try) -> bool:
    """SIGKILL of one of the processes that the driver started."""
    for _ in range(100):
        workers = children(tried.drivers[0].pid)
        if workers:
            os.kill(tried.rng.choice(workers), signal.SIGKILL)
            return True
        if tried.drivers[0].wait(0.05):
            return False
    return False


def children(pid: int) -> list[int]:
    """Processes that a process has started."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return sorted(found)


def files(cache: Path) -> list[Path]:
    """Files of the cache: of finished and unfinished work, not claims."""
    found = [Path(folder) / name for folder, _, names in os.walk(cache) for name in names]
    return sorted(path for path in found if path.relative_to(cache).parts[0] not in ("claims", "uses", "timings.jsonl"))


def _damage(tried: Try, change: Any) -> bool:
    """One file, of a kind of artefact that is drawn first; another try where it has gone meanwhile."""
    for _ in range(50):
        found = [path for path in files(tried.cache) if path.is_file() and path.stat().st_size > 0]
        kinds = sorted({path.relative_to(tried.cache).parts[0] for path in found})
        if kinds:
            kind = tried.rng.choice(kinds)
            path = tried.rng.choice([p for p in found if p.relative_to(tried.cache).parts[0] == kind])
            with suppress(OSError):
                change(path, tried.rng)
                tried.damaged.append(str(path.relative_to(tried.cache)))
                return True
        if tried.drivers[0].wait(0.05):
            return False
    return False


def cut(path: Path, rng: random.Random) -> None:
    """A part of the file is gone."""
    os.truncate(path, rng.randrange(path.stat().st_size))


def flip(path: Path, rng: random.Random) -> None:
    """One bit, in place."""
    with open(path, "r+b") as stream:
        at = rng.randrange(path.stat().st_size)
        stream.seek(at)
        byte = stream.read(1)[0]
        stream.seek(at)
        stream.write(bytes([byte ^ (1 << rng.randrange(8))]))


def truncate(tried: Try) -> bool:
    """A file of the cache."""
    return _damage(tried, cut)


def flip_bit(tried: Try) -> bool:
    """Of a file of the cache."""
    return _damage(tried, flip)


def delete(tried: Try) -> bool:
    """Every second artefact, or a whole kind of them."""
    found = [path for path in sorted(tried.cache.glob("*/*")) if path.parent.name not in ("claims", "uses")]
    if not found or tried.drivers[0].ended():
        return False
    if tried.rng.random() < 0.3:
        found = [tried.rng.choice(found).parent]
    else:
        found = [path for path in found if tried.rng.random() < 0.5] or found[:1]
    for path in found:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        tried.damaged.append(str(path.relative_to(tried.cache)))
    return True


def second_driver(tried: Try) -> bool:
    """On the same cache, with results of its own."""
    tried.start("second")
    return True


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of its own, which can be filled."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TMPFS}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_disk(tried: Try) -> bool:
    """Nothing can be written any more, until the driver has ended: then there is room again."""
    filler = tried.folder / "filler"
    with open(filler, "wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(65536))
    with open(filler, "ab", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(64))
    ended = tried.drivers[0].wait()
    filler.unlink()
    return ended or True


def turn_back(tried: Try) -> bool:
    """The clock of all drivers; the one that runs goes on beside a second, or is killed and started again."""
    Path(os.environ[CLOCK]).write_text("-1h\n")
    if tried.rng.random() < 0.5:
        return kill_driver(tried)
    return second_driver(tried)


@contextmanager
def right_clock(folder: Path) -> Iterator[None]:
    """Every try begins with the clock as it is."""
    Path(os.environ[CLOCK]).write_text("+0\n")
    yield


def under_faketime(name: str, tries: int) -> bool:
    """Whether another process has tried it: this program, started under libfaketime."""
    if CLOCK in os.environ:
        return False
    with tempfile.NamedTemporaryFile("w") as clock:
        clock.write("+0\n")
        clock.flush()
        faked = {"LD_PRELOAD": FAKETIME, CLOCK: clock.name, "FAKETIME_CACHE_DURATION": "1", "NO_FAKE_STAT": "1"}
        faked |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
        command = [sys.executable, str(HERE / "faults.py"), "--only", name, "--tries", str(tries)]
        subprocess.run(command, env={**os.environ, **faked}, check=True)
    return True


@contextmanager
def faked_clock() -> Iterator[dict[str, Any]]:
    """Whose hands can be moved."""
    before = time.time()
    Path(os.environ[CLOCK]).write_text("-1h\n")
    for _ in range(50):  # libfaketime reads the file once a second
        if time.time() < before - 3000:
            break
        time.sleep(0.1)
    assert time.time() < before - 3000, "libfaketime does not change the clock"
    Path(os.environ[CLOCK]).write_text("+0\n")
    yield {}


_cluster: dict[str, Any] = {}


@contextmanager
def two_nodes() -> Iterator[dict[str, Any]]:
    """A Ray cluster of two nodes on this machine; the head has no room for steps, so that all run where it hurts."""
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "ab" * 32, "RAY_worker_niceness": "0"}
    os.environ |= {"RAY_raylet_start_wait_time_s": "120"}  # on a busy machine, 30 seconds are not enough
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    _cluster["cluster"], _cluster["node"] = cluster, cluster.add_node(num_cpus=1)
    try:
        yield {"address": cluster.address}
    finally:
        cluster.shutdown()


def kill_node(tried: Try) -> bool:
    """All processes of the second node; another takes its place a little later."""
    cluster = _cluster["cluster"]
    cluster.remove_node(_cluster["node"], allow_graceful=False)
    _cluster["node"] = cluster.add_node(num_cpus=1)
    return not tried.drivers[0].ended()


@contextmanager
def slurm() -> Iterator[dict[str, Any]]:
    """A SLURM of one node, unless one is there."""
    if os.environ.get("SLURM_CONF"):
        yield {}
        return
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    script = [sys.executable, str(HERE.parent / "tests" / "slurm_here.py")]
    subprocess.run([*script, "start", str(folder)], check=True)
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    try:
        yield {}
    finally:
        subprocess.run([*script, "stop", str(folder)], check=True)
        del os.environ["SLURM_CONF"]


def _job(tried: Try) -> str | None:
    """A job of this user that runs."""
    asked = ["squeue", "--me", "--name=vestige", "--noheader", "--array", "--states=RUNNING", "--format=%i"]
    while not tried.drivers[0].wait(0.2):
        said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
        if said:
            return tried.rng.choice(sorted(said))
    return None


def cancel_job(tried: Try) -> bool:
    """`scancel`."""
    job = _job(tried)
    return job is not None and subprocess.run(["scancel", job], capture_output=True, check=False).returncode == 0


def requeue_job(tried: Try) -> bool:
    """`scontrol requeue`; SLURM would let the job wait two minutes then, which are spared."""
    job = _job(tried)
    if job is None or subprocess.run(["scontrol", "requeue", job], capture_output=True, check=False).returncode != 0:
        return False
    for _ in range(100):
        time.sleep(0.2)
        said = subprocess.run(["squeue", "--noheader", "--jobs", job, "--format=%T"], capture_output=True, text=True)
        if said.stdout.strip() == "PENDING":
            return subprocess.run(["scontrol", "update", f"jobid={job}", "starttime=now"], check=False).returncode == 0
    return False


@contextmanager
def empty_queue(folder: Path) -> Iterator[None]:
    """Jobs that a try has left are no part of the next one."""
    try:
        yield
    finally:
        subprocess.run(["scancel", "--me", "--name=vestige"], check=False)


_SLURM: dict[str, Any] = {"name": "slurm", "pack": 16, "alone": (), "jobs": 1, "minutes": 10}
KINDS: dict[str, Kind] = {
    "driver killed": Kind(kill_driver),
    "worker killed": Kind(kill_worker, {"name": "local", "jobs": 2}),
    "disk full": Kind(fill_disk, each=small_disk),
    "artefact truncated": Kind(truncate),
    "bit flipped": Kind(flip_bit),
    "cache partly deleted": Kind(delete),
    "two drivers": Kind(second_driver),
    "clock set back": Kind(turn_back, around=faked_clock, each=right_clock, elsewhere=under_faketime),
    "Ray node killed": Kind(kill_node, {"name": "ray"}, around=two_nodes, program=True, slow=True),
    "SLURM job cancelled": Kind(cancel_job, _SLURM, around=slurm, each=empty_queue, slow=True),
    "SLURM job requeued": Kind(requeue_job, _SLURM, around=slurm, each=empty_queue, slow=True),
}
