"""A second device, "pretend", for tests of a machine without a GPU.

While `pretend_gpu()` is open, a tensor sent to "pretend" says that it is there. Its numbers are in an ordinary CPU
tensor, and every operation is run on that. What a GPU refuses is refused: tensors of both devices in one operation, a
generator of the CPU, `.numpy()`. Where the host would wait for a GPU is counted.

What it cannot show: kernels, their rounding and their random numbers, memory, and what asks `torch.cuda`.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

import torch
from torch import Tensor
from torch.autograd.graph import _engine_run_backward
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

DEVICE = "pretend"
CPU = torch.device("cpu")
aten = torch.ops.aten

COPIES = {aten._to_copy, aten.copy_, aten._foreach_copy_, aten.lift_fresh, aten.lift}
"""They may read one device and write to the other."""
INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
"""Indices may be on the CPU though what is indexed is not."""
LENGTHS = {aten._pack_padded_sequence, aten._pad_packed_sequence}
"""The lengths have to be on the CPU."""
JOINING = {aten.cat, aten.stack}
"""They refuse even a single number of the CPU."""
WAITING = {
    aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.equal, aten.bincount, aten._unique2,
    aten.unique_dim, aten.unique_consecutive, aten.repeat_interleave, aten._linalg_eigh, aten._linalg_svd,
    aten._linalg_check_errors,
}  # fmt: skip
"""The host goes on when a number, or a shape that depends on numbers, has come from the device."""
WHOLE = {aten.scaled_dot_product_attention, aten.lstm}
"""Run as they are: the parts that torch would choose for an unknown device have no kernels on the CPU."""


class MixedDevices(RuntimeError):
    """What CUDA says."""


class OnDevice(Tensor):
    """A tensor of the pretend device; `inside` are its numbers."""

    inside: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inside: Tensor) -> "OnDevice":
        where = {"strides": inside.stride(), "storage_offset": inside.storage_offset()}
        made = Tensor._make_wrapper_subclass(cls, inside.shape, **where, dtype=inside.dtype, device=f"{DEVICE}:0")
        made.inside = inside
        return made

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        raise RuntimeError(f"{operation} on the pretend device, outside of pretend_gpu()")

    def __tensor_flatten__(self):
        """That it exists makes `Module.to` put tensors of this class in the place of its parameters."""
        return ["inside"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return OnDevice(parts["inside"])

    def __deepcopy__(self, memo):
        made = self.detach().clone().requires_grad_(self.requires_grad)
        made.__dict__ |= {name: value for name, value in vars(self).items() if name != "inside"}
        return memo.setdefault(id(self), made)

    def numpy(self, *, force: bool = False):
        if not force:
            raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first")
        return self.detach().cpu().numpy()

    def tolist(self):
        return self.detach().cpu().tolist()

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, other):
        assert (other.shape, other.dtype, other.device) == (self.shape, self.dtype, self.device)
        self.inside = other.inside

    def untyped_storage(self):
        """Only its address is asked for: tensors that share memory have the same."""
        return self.inside.untyped_storage()

    def __repr__(self, **_):
        return f"OnDevice({self.inside!r})"


class Pretending(TorchDispatchMode):
    """`trips`: how often the host waited for the device, by what it did."""

    def __init__(self, float64: bool) -> None:
        super().__init__()
        self.float64 = float64
        self.trips: Counter[str] = Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, operation.overloadpacket
        if not any(_is_there(value) for value in tree_iter((args, kwargs))):
            return operation(*args, **kwargs)
        if name not in WHOLE:  # of tensors that know no gradients, operations come undivided
            with self:
                parts = operation.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        if any(isinstance(tensor, OnDevice) for tensor in tree_iter((args, kwargs))):
            _refuse_mixed(operation, args, kwargs)
            self._count(name, args, kwargs)
        return self._run(operation, args, kwargs)

    def _run(self, operation, args, kwargs):
        """On the numbers inside; a tensor that was given and comes back is the same tensor."""
        given = {}
        there = any(isinstance(tensor, OnDevice) for tensor in tree_iter((args, kwargs)))
        if kwargs.get("device") is not None:
            there = kwargs["device"].type == DEVICE
            kwargs = {**kwargs, "device": CPU}
        if there and kwargs.get("generator") is not None:
            raise RuntimeError(f"{operation}: a generator of the CPU for numbers on {DEVICE}")

        def unwrapped(value):
            inside = value.inside if isinstance(value, OnDevice) else value
            if isinstance(value, Tensor):
                given[id(inside)] = value
            return inside

        def wrapped(value):
            if not isinstance(value, Tensor):
                return value
            if id(value) in given:
                return given[id(value)]
            if there and value.dtype == torch.float64 and not self.float64:
                raise TypeError("Cannot convert a tensor to float64: the device does not support it")
            with torch.inference_mode(value.is_inference()):
                return OnDevice(value) if there else value

        made = operation(*tree_map(unwrapped, args), **tree_map(unwrapped, kwargs))
        return tree_map(wrapped, made)

    def _count(self, name, args, kwargs) -> None:
        target = kwargs.get("device") if name is aten._to_copy else args[0].device if name is aten.copy_ else None
        by_mask = name in INDEXING and any(isinstance(index, Tensor) and index.dtype == torch.bool for index in args[1])
        if target is not None and target.type == "cpu":
            self.trips["copy to the CPU"] += 1
        elif name in WAITING or by_mask:
            self.trips[str(name).removeprefix("aten.")] += 1


def _is_there(value) -> bool:
    return isinstance(value, OnDevice) or (isinstance(value, torch.device) and value.type == DEVICE)


def _refuse_mixed(operation, args, kwargs) -> None:
    name = operation.overloadpacket
    if name in COPIES | LENGTHS:
        return
    indexed = name in INDEXING and isinstance(args[0], OnDevice)
    tensors = [t for t in tree_iter((args[2:] if indexed else args, kwargs)) if isinstance(t, Tensor)]
    on_cpu = [t for t in tensors if not isinstance(t, OnDevice)]
    written = operation._schema.is_mutable and isinstance(args[0], Tensor) and not isinstance(args[0], OnDevice)
    if written or any(t.ndim or name in JOINING for t in on_cpu):
        found = ", ".join(f"{tuple(t.shape)} on {t.device.type}" for t in tensors)
        raise MixedDevices(f"Expected all tensors to be on the same device, but {operation} was given {found}")


@cache
def _registered() -> None:
    """Tell torch of the device; it cannot be told to forget it, and asks it for its random numbers ever after."""
    from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

    module = _DummyBackendModule()
    module.get_rng_state = lambda device=0: torch.empty(0)
    module.set_rng_state = lambda state, device=0: None
    _setup_privateuseone_for_python_backend(DEVICE, backend_module=module)


def _backward(*args, **kwargs):
    """In this thread: those that torch keeps for devices were counted before this one was there."""
    with torch.autograd.set_multithreading_enabled(False):
        return _engine_run_backward(*args, **kwargs)


@contextmanager
def pretend_gpu(float64: bool = True) -> Iterator[Pretending]:
    """While it is open, "pretend" is a device; without `float64` one like Apple's, which has no such numbers."""
    _registered()
    lifted = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # else torch.tensor(..., device=...) never comes by the mode
    try:
        with patch("torch.autograd._engine_run_backward", _backward), Pretending(float64) as mode:
            yield mode
    finally:
        torch._C._set_only_lift_cpu_tensors(lifted)
