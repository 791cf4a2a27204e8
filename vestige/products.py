"""Float32 products by the faster of the two libraries that torch carries.

torch multiplies float32 matrices with MKL, which on AMD processors leaves half the width of AVX-512 unused. oneDNN,
which torch has for half precision and convolutions, uses it all: 245 instead of 112 GFLOP/s on one core of an EPYC of
2024. The operation is the one that torch's own compiler calls for a linear layer. Where a torch or a processor is
without it, MKL multiplies. So it does with several threads: where the system gives oneDNN fewer of them than it asked
for (a limit, or a library that lets OpenMP decide), a part of the product stays unwritten, and nothing is said.
The choice depends on the machine and on the threads of a step alone, so that the same input gives the same bytes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode


def onednn() -> bool:
    """Whether oneDNN multiplies float32 here and now."""
    return torch.get_num_threads() == 1 and _at_hand()


@cache
def _at_hand() -> bool:
    """Whether this torch and this processor have it."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def times_transposed(left: Tensor, right: Tensor) -> Tensor:
    """(m, n): left (m, k) @ right.T, for right (n, k). No gradient flows through it.

    It is fastest where `left` is contiguous and `right` or its transpose is.
    """
    if not onednn() or not _suits(left) or not _suits(right) or left.shape[1] != right.shape[1]:
        return left @ right.T
    return torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")


def faster_linear() -> AbstractContextManager[Any]:
    """While it is open, linear layers of a model that is only read, without gradients, are multiplied by oneDNN."""
    return _FasterLinear() if onednn() else nullcontext()


@dataclass(frozen=True)
class Rates:
    """Floating-point operations a second of a float32 product, with one thread."""

    read: float
    """As models are read and probes are trained: by the faster library."""
    trained: float
    """By torch's own choice, as models are trained."""


@cache
def rates(seconds: float = 0.15) -> Rates:
    """Measured here and now, the best of the products that fit into so many seconds for each."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        left, right = torch.ones(512, 768), torch.ones(768, 768)
        operations = 2 * left.shape[0] * right.numel()
        by = (times_transposed, lambda one, other: one @ other.T)
        return Rates(*(operations / _least_seconds(product, left, right, seconds) for product in by))
    finally:
        torch.set_num_threads(threads)


def _least_seconds(product: Callable[[Tensor, Tensor], Tensor], left: Tensor, right: Tensor, most: float) -> float:
    product(left, right)
    least, end = float("inf"), time.perf_counter() + most
    while (began := time.perf_counter()) < end:
        product(left, right)
        least = min(least, time.perf_counter() - began)
    return least


class _FasterLinear(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is linear and onednn() and not kwargs and all(given is None or _suits(given) for given in args):
            return torch.ops.mkldnn._linear_pointwise(*args, *[None] * (3 - len(args)), "none", [], "")
        return func(*args, **(kwargs or {}))


def _suits(matrix: Tensor) -> bool:
    """oneDNN is asked for plain float32 matrices on the CPU that have a number in them."""
    return (
        matrix.dtype == torch.float32
        and matrix.device.type == "cpu"
        and matrix.numel() > 0
        and not (matrix.requires_grad and torch.is_grad_enabled())
    )
