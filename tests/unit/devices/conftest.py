import pytest
from pretend_gpu import pretend_gpu


@pytest.fixture
def gpu(monkeypatch):
    """The pretend device, open, and known to those who ask whether a device is there."""
    for place in ("vestige.models.files.load", "vestige.finetune.train"):
        monkeypatch.setattr(f"{place}.check_device", lambda device: None)
    with pretend_gpu() as mode:
        yield mode
