"""The estimate of what reading words takes."""

import torch

from vestige.products import rates
from vestige.representations.cost import SHARE, TOKENS, reading_seconds


def test_twice_the_rate_takes_half_the_time():
    assert reading_seconds(10**6, 1000, 1e9) == 2 * reading_seconds(10**6, 1000, 2e9)
    assert reading_seconds(10**6, 1000, 2e9 / SHARE) == TOKENS


def test_rates_are_of_one_thread_and_leave_the_threads_alone():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = rates.__wrapped__(0.01)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert 1e8 < found.trained < 1e13 and 1e8 < found.read < 1e13
