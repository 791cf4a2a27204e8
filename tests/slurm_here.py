"""A real SLURM cluster of one node on this machine, for the tests.

    python tests/slurm_here.py start FOLDER      # prints the line that makes `sbatch` find it
    python tests/slurm_here.py stop FOLDER       # ends it by its pid files

Needs Debian's slurm-wlm and munge, and root. Ports and folders are its own.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

CONF = """ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1
MinJobAge=300
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=here Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def start(folder: Path) -> None:
    """Start munged, slurmctld and slurmd, and wait until a job runs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("state", "spool"):
        (folder / name).mkdir(exist_ok=True)
    _start_munge(folder)
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(host=socket.gethostname().split(".")[0], folder=folder, cpus=os.cpu_count()))
    for daemon in ("slurmctld", "slurmd"):
        subprocess.run([_where(daemon), "-f", str(conf)], check=True)
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    for _ in range(60):
        said = subprocess.run(["srun", "-n1", "true"], env=environment, capture_output=True, timeout=120, check=False)
        if said.returncode == 0:
            return
        time.sleep(1)
    raise SystemExit(f"SLURM does not run: {said.stderr.decode()}")


def _start_munge(folder: Path) -> None:
    """munged refuses folders that others may write to, so all of its own are made here."""
    home = Path("/run/vestige-munge")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o755)
    shutil.chown(home, "munge", "munge")
    key = home / "key"
    key.write_bytes(os.urandom(1024))
    shutil.chown(key, "munge", "munge")
    key.chmod(0o400)
    files = {
        "socket": home / "socket",
        "key-file": key,
        "pid-file": home / "pid",
        "log-file": home / "log",
        "seed-file": home / "seed",
    }
    options = [f"--{name}={path}" for name, path in files.items()]
    subprocess.run(["runuser", "-u", "munge", "--", _where("munged"), "--force", *options], check=True)
    link = folder / "munge.socket"
    link.unlink(missing_ok=True)
    link.symlink_to(home / "socket")
    (folder / "munged.pid").unlink(missing_ok=True)
    (folder / "munged.pid").symlink_to(home / "pid")


def _where(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        raise SystemExit(f"no {name}: install slurm-wlm and munge")
    return found


def stop(folder: Path) -> None:
    """End what `start` started."""
    for name in ("slurmd", "slurmctld", "munged"):
        try:
            pid = int((folder / f"{name}.pid").read_text())
            os.kill(pid, signal.SIGTERM)
        except (OSError, ValueError):
            continue
        for _ in range(50):
            if not Path(f"/proc/{pid}").exists():
                break
            time.sleep(0.1)


if __name__ == "__main__":
    place = Path(sys.argv[2]).resolve()
    {"start": start, "stop": stop}[sys.argv[1]](place)
    print(f"export SLURM_CONF={place}/slurm.conf")
