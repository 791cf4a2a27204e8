"""How far one distribution over a vocabulary is from another."""

from torch import Tensor

from vestige.measures.precision import in_float64


def kl_divergence(first: Tensor, second: Tensor) -> Tensor:
    """(rows,): KL(first || second) in nats, of scores (rows, vocabulary) before the softmax.

    The mean over what the first holds probable of how much less so it is to the second. Rounding below 0 is 0, so a
    copy has exactly 0.
    """
    log_first, log_second = (in_float64(scores).log_softmax(-1) for scores in (first, second))
    return (log_first.exp() * (log_first - log_second)).sum(-1).clamp(min=0.0)
