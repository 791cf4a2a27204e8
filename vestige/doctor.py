"""What `vestige doctor` looks at."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from vestige.cache import cache_folder
from vestige.errors import VestigeError


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    optional: bool = False


def checks() -> Iterator[Check]:
    """All checks, in the order a newcomer would want them."""
    yield Check(
        "python",
        sys.version_info >= (3, 11),
        f"{platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores",
        "install Python 3.11 or later",
    )
    for library in ("torch", "transformers", "tokenizers", "pyarrow", "altair"):
        yield _library(library)
    yield _minilm()
    yield _cache()
    yield _bfloat16()
    yield _products()
    yield _reading()
    yield _device()


def _library(name: str) -> Check:
    try:
        return Check(name, True, version(name))
    except PackageNotFoundError:
        fix = "pip install torch==2.13.0" if name == "torch" else f"pip install {name}"
        return Check(name, False, "not installed", fix)


def _minilm() -> Check:
    from vestige.models.files.sources import minilm_folder

    try:
        return Check("embedded model", True, f"all-MiniLM-L6-v2, weights verified, in {minilm_folder(verify=True)}")
    except VestigeError as error:
        return Check("embedded model", False, error.problem, error.fix, optional=True)


def _cache() -> Check:
    try:
        folder = cache_folder()
    except VestigeError as error:
        return Check("cache", False, error.problem, error.fix)
    place = next(parent for parent in (folder, *folder.parents) if os.path.lexists(parent))
    if not place.is_dir():
        return Check("cache", False, f"{place} is no folder", "choose another folder with VESTIGE_CACHE")
    writable = os.access(place, os.W_OK)
    free = shutil.disk_usage(place).free / 1e9
    return Check(
        "cache",
        writable and free > 2,
        f"{folder}, {'writable' if writable else 'not writable'}, {free:.0f} GB free",
        "choose another folder with VESTIGE_CACHE",
    )


def _bfloat16() -> Check:
    """In a process of its own: some machines announce instructions that kill whoever uses them."""
    code = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); print(float((a @ a).sum()))"
    plain = {k: v for k, v in os.environ.items() if k != "ONEDNN_MAX_CPU_ISA"}
    if subprocess.run([sys.executable, "-c", code], env=plain, capture_output=True).returncode == 0:
        return Check("bfloat16", True, "works")
    careful = {**plain, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}
    if subprocess.run([sys.executable, "-c", code], env=careful, capture_output=True).returncode == 0:
        return Check(
            "bfloat16",
            False,
            "kills Python unless ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 is set (the vestige command sets it)",
            "in scripts of your own: export ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16",
            optional=True,
        )
    return Check("bfloat16", False, "does not work", "use float32, the default", optional=True)


def _products() -> Check:
    from vestige.products import rates

    here = rates()
    found = f"{here.read / 1e9:.0f} GFLOP/s in float32 with one thread, {here.trained / 1e9:.0f} by torch's own product"
    return Check("matrix products", True, found)


READ = {"MiniLM": 6 * 12 * 384**2, "BERT-base": 12 * 12 * 768**2}
"""Parameters of the blocks: what a token is multiplied by."""
WORDS = 100_000


def _reading() -> Check:
    """From counted operations, so that nothing is loaded."""
    from vestige.products import rates
    from vestige.representations.cost import reading_seconds

    took = {name: reading_seconds(parameters, WORDS, rates().read) for name, parameters in READ.items()}
    each = ", ".join(f"about {_duration(seconds)} for a model of {name}'s size" for name, seconds in took.items())
    return Check("what to expect", True, f"hidden states of {WORDS:,} words: {each} (an estimate, one thread)")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _device() -> Check:
    import torch

    found = ["cpu"]
    if torch.cuda.is_available():
        found.append("cuda")
    if torch.backends.mps.is_available():
        found.append("mps")
    return Check("devices", True, ", ".join(found))
