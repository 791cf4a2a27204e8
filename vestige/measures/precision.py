"""Sums that need float64, on devices that may not have it."""

from torch import Tensor


def in_float64(tensor: Tensor) -> Tensor:
    """The tensor in float64, where it is or, if its device has no such numbers (Apple's), on the CPU."""
    try:
        return tensor.double()
    except TypeError:
        return tensor.cpu().double()
