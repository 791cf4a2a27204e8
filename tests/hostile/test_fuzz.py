"""Mutants of every file that vestige reads: nothing but our errors, or a result."""

import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostile.case import outcome
from hostile.fuzz import Target, targets
from hostile.samples import SAMPLES
from vestige.corpus.formats import FORMATS
from vestige.representations import hdf5_trial

TARGETS = list(targets())
DEAR = {"activations in HDF5": 4, "study files": 60, "adapters": 15, "hub json": 15, "hub csv": 15, "hub parquet": 15}
"""Mutants of those that take a process or much time each; of others, 60."""


def tried(act) -> tuple[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return outcome(act, either=True)  # a mutant may be as good as its sample


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_mutants_are_read_or_refused(target: Target, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    monkeypatch.setattr(hdf5_trial, "SECONDS", 3)
    for seed in range(DEAR.get(target.name, 60)):
        verdict, said = tried(target.prepare(tmp_path / "place", seed))
        assert verdict in ("clear", "right"), f"mutant {seed}: {said}"


def test_every_format_has_a_sample_that_is_read(tmp_path):
    assert {sample.format for sample in SAMPLES.values()} == {*FORMATS}
    for name, sample in SAMPLES.items():
        assert sample.read(sample.write(tmp_path / name)).levels


TEXT_FORMATS = [
    name for name, sample in SAMPLES.items() if len(sample.files) == 1 and not name.startswith(("hub", "gum"))
]


@pytest.mark.parametrize("name", TEXT_FORMATS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused(name, tmp_path, content):
    sample = SAMPLES[name]
    verdict, said = tried(lambda: sample.read(sample.write(tmp_path, **{next(iter(sample.files)): content})))
    assert verdict in ("clear", "right"), said
