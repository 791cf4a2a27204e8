"""The pretend device itself: it computes what the CPU does, refuses what a GPU refuses, and counts."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from pretend_gpu import DEVICE, MixedDevices, OnDevice, pretend_gpu
from torch import nn


@pytest.fixture
def there(gpu):
    return torch.arange(12.0).view(3, 4).to(DEVICE)


HERE = torch.arange(12.0).view(3, 4)


@pytest.mark.parametrize(
    "mixed",
    [
        lambda there: there @ HERE.T,
        lambda there: there + HERE,
        lambda there: HERE[there[:, 0].long() % 3],
        lambda there: there.gather(1, torch.zeros(3, 1, dtype=torch.long)),
        lambda there: torch.where(HERE > 1, there, 0.0),
        lambda there: torch.cat([there[:, 0], HERE[0]]),
        lambda there: torch.stack([there[0, 0], HERE[0, 0]]),
        lambda there: torch.zeros(()).add_(there.sum()),
        lambda there: HERE.clone().index_add_(0, torch.tensor([0, 1, 2]), there),
        lambda there: nn.functional.linear(there, torch.ones(2, 4)),
        lambda there: nn.functional.embedding(torch.tensor([0]), there),
    ],
)
def test_tensors_of_both_devices_in_one_operation_are_refused(there, mixed):
    with pytest.raises(MixedDevices, match="same device"):
        mixed(there)
    with pytest.raises(MixedDevices, match="same device"), torch.inference_mode():
        mixed(there)


@pytest.mark.parametrize(
    "allowed",
    [
        lambda there: there * torch.tensor(2.0),
        lambda there: there[torch.tensor([2, 0])],
        lambda there: there.index_put((torch.tensor([1]),), there[:1]),
        lambda there: there.masked_fill(there > 3, torch.tensor(1.0)),
        lambda there: torch.where(there > 3, there, torch.tensor(1.0)),
        lambda there: there.clone().copy_(HERE),
    ],
)
def test_what_cuda_allows_is_allowed(there, allowed):
    found = allowed(there)
    assert isinstance(found, OnDevice)
    assert torch.equal(found.cpu(), allowed(HERE))


def test_a_tensor_of_the_device_is_no_array(there):
    for wrong in (there.numpy, lambda: np.asarray(there), lambda: torch.ones(2, device=DEVICE).numpy()):
        with pytest.raises(TypeError, match="cpu"):
            wrong()
    assert np.array_equal(there.cpu().numpy(), HERE.numpy())


@pytest.mark.parametrize(
    "made",
    [
        lambda **where: torch.zeros(3, **where),
        lambda **where: torch.tensor([1.0, 2.0], **where),
        lambda **where: torch.arange(3, **where),
        lambda **where: torch.full((2, 2), 1.0, **where),
    ],
)
def test_factories(gpu, made):
    found = made(device=DEVICE)
    assert found.device.type == DEVICE and torch.zeros_like(found).device.type == DEVICE
    assert found.new_ones(2).device.type == DEVICE and torch.equal(found.cpu(), made())
    assert made().device.type == "cpu"


def test_views_share_memory_and_changes_in_place_stay_the_same_tensor(there):
    assert there.add_(1) is there
    there[0] = 5.0
    there.view(-1)[11:].mul_(2)
    assert there.cpu()[0].tolist() == [5.0] * 4 and there[2, 3].item() == 24.0


def trained(device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 3))
    weight = model[2].weight
    model.to(device)
    assert model[2].weight is weight and weight.device.type == device
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(1)
    for step in range(3):
        ids = torch.arange(step, step + 6, device=device).view(2, 3) % 7
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten() % 3)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return [weight.detach().cpu() for weight in deepcopy(model).parameters()]


def test_training_gives_the_numbers_of_the_cpu(gpu):
    here, there = trained("cpu"), trained(DEVICE)
    torch.testing.assert_close(there, here, rtol=1e-5, atol=1e-6)
    assert gpu.trips == {"copy to the CPU": len(here)}


@pytest.mark.parametrize(
    ("waits", "what"),
    [
        (lambda there: there.sum().item(), "_local_scalar_dense"),
        (lambda there: bool((there > 1).all()), "_local_scalar_dense"),
        (lambda there: there.cpu(), "copy to the CPU"),
        (lambda there: torch.empty(3, 4).copy_(there), "copy to the CPU"),
        (lambda there: there.tolist(), "copy to the CPU"),
        (lambda there: there.nonzero(), "nonzero"),
        (lambda there: there[there > 3], "index"),
        (lambda there: there.long().flatten().bincount(), "bincount"),
    ],
)
def test_where_the_host_waits_is_counted(gpu, there, waits, what):
    waits(there)
    assert gpu.trips == {what: 1}
    (there @ there.T).softmax(1).argmax(1)
    assert gpu.trips.total() == 1


def test_tensors_without_gradients_leave_the_device_as_well(gpu):
    with torch.inference_mode():
        there = torch.ones(2, 3, device=DEVICE)
    assert type(there.detach().cpu()) is torch.Tensor and gpu.trips == {"copy to the CPU": 1}
    with torch.inference_mode(), torch.inference_mode(False), torch.enable_grad():
        weight = nn.Parameter(torch.ones(3, device=DEVICE))
        (2 * weight).sum().backward()
    assert weight.grad.tolist() == [2.0] * 3


def test_random_numbers_of_the_device_need_a_generator_of_the_device(gpu):
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(3, device=DEVICE, generator=torch.Generator())


def test_a_device_without_float64():
    with pretend_gpu(float64=False):
        there = HERE.to(DEVICE)
        with pytest.raises(TypeError, match="float64"):
            there.double()
        assert there.cpu().double().dtype == torch.float64


def test_closed_it_is_no_device():
    with pretend_gpu():
        there = HERE.to(DEVICE)
    with pytest.raises(RuntimeError):
        torch.zeros(1, device=DEVICE)
    with pytest.raises(RuntimeError, match="outside"):
        there.sum()
