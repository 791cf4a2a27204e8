"""The loops of a training step, compiled by numba: one pass over memory where torch would make a dozen.

Only `vestige.probes.steps` imports this, when the first step is made. It holds the same operations in torch; the two
agree but for the rounding of float32 (`tests/oracle/test_steps.py`). The machine code is kept beside this file or in
the user's cache folder, so that only the first training on a machine waits for the compiler.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

_single = np.float32
_LOWEST, _LOG2E, _ROUND = _single(-87.0), _single(1.44269504), _single(12582912.0)
_LN2_HIGH, _LN2_LOW = _single(0.693359375), _single(-2.12194440e-4)
_P0, _P1, _P2 = _single(1.9875691500e-4), _single(1.3981999507e-3), _single(8.3334519073e-3)
_P3, _P4, _P5 = _single(4.1665795894e-2), _single(1.6666665459e-1), _single(5.0000001201e-1)
_ZERO, _ONE = _single(0.0), _single(1.0)


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile when first called, and keep the code if there is a folder to keep it in."""
    try:
        return njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # neither this package's folder nor a cache of the user's can be written to
        return njit(error_model="numpy")(function)


@njit(inline="always", error_model="numpy")
def _exp(x: Any) -> Any:
    """exp of a float32 from -87 to 0 within two units in the last place (Cephes), in operations that become vectors.
    NaN stays NaN.

    Adding 1.5 * 2^23 rounds to a whole number and leaves it in the lowest bits, from where it goes into the exponent.
    """
    x = _LOWEST if x < _LOWEST else x
    shifted = x * _LOG2E + _ROUND
    whole = shifted - _ROUND
    rest = x - whole * _LN2_HIGH
    rest = rest - whole * _LN2_LOW
    series = _P0 * rest + _P1
    series = series * rest + _P2
    series = series * rest + _P3
    series = series * rest + _P4
    series = series * rest + _P5
    series = series * rest * rest + rest + _ONE
    bits = np.int32(np.int32(np.float32(shifted).view(np.int32) << np.int32(23)) + np.int32(0x3F800000))
    return series * np.int32(bits).view(np.float32)


@_kept
def softmax_residual(logits: Any, biases: Any, gold: Any, classes: int) -> None:
    """See `vestige.probes.steps.softmax_residual`; loops run over rows, which lie side by side in memory."""
    columns, rows = logits.shape
    share = _ONE / np.float32(rows)
    top, total = np.empty(rows, np.float32), np.empty(rows, np.float32)
    for probe in range(columns // classes):
        start, end = probe * classes, (probe + 1) * classes
        top[:] = -np.inf
        for c in range(start, end):
            bias, mine = biases[c], logits[c]
            for i in range(rows):
                logit = mine[i] + bias
                mine[i] = logit
                top[i] = logit if logit > top[i] else top[i]
        total[:] = 0
        for c in range(start, end):
            mine = logits[c]
            for i in range(rows):
                power = _exp(mine[i] - top[i])
                mine[i] = power
                total[i] += power
        for i in range(rows):
            total[i] = share / total[i]
        for c in range(start, end):
            mine = logits[c]
            for i in range(rows):
                mine[i] *= total[i]
        labels = gold[min(probe, len(gold) - 1)]
        for i in range(rows):
            logits[start + labels[i], i] -= share


@_kept
def softmax_sums(logits: Any, biases: Any, gold: Any, classes: int, sums: Any, of_classes: Any) -> None:
    """See `vestige.probes.steps.softmax_sums`."""
    columns, rows = logits.shape
    top, total, weighted = np.empty(rows, np.float32), np.empty(rows, np.float32), np.empty(rows, np.float32)
    told = np.empty(rows, np.float32)
    for probe in range(columns // classes):
        start, end = probe * classes, (probe + 1) * classes
        top[:] = -np.inf
        for c in range(start, end):
            bias, mine = biases[c], logits[c]
            for i in range(rows):
                logit = mine[i] + bias
                mine[i] = logit
                top[i] = logit if logit > top[i] else top[i]
        labels = gold[probe]
        for i in range(rows):
            told[i] = logits[start + labels[i], i]
        total[:] = 0
        weighted[:] = 0
        for c in range(start, end):
            mine = logits[c]
            for i in range(rows):
                below = mine[i] - top[i]
                power = _exp(below)
                mine[i] = power
                total[i] += power
                weighted[i] += power * below
        loss, entropy = 0.0, 0.0
        for i in range(rows):
            normaliser = np.log(total[i])
            loss += normaliser + top[i] - told[i]
            total[i] = _ONE / total[i]
            entropy += normaliser - weighted[i] * total[i]
        sums[0, probe] += loss
        sums[1, probe] += entropy
        for c in range(start, end):
            mine, summed, squared = logits[c], _ZERO, _ZERO
            for i in range(rows):
                p = mine[i] * total[i]
                mine[i] = p
                summed += p
                squared += p * p
            of_classes[0, c] += summed - squared
            of_classes[1, c] += summed
        for i in range(rows):
            logits[start + labels[i], i] -= _ONE
            of_classes[1, start + labels[i]] -= 1


@_kept
def adam(
    weights: Any, first: Any, second: Any, gradient: Any, terms: Any, widths: Any, numbers: Any, classes: int
) -> None:
    """See `vestige.probes.steps.adam`; `numbers` are those of `Moments.numbers`."""
    new1, keep2, new2, rate, grown, spread, epsilon = numbers
    for column in range(len(weights)):
        probe = column // classes
        pull, sign, lasso, ridge = terms[0, probe], terms[1, probe], terms[2, probe], terms[3, probe]
        w, m, v, g = weights[column], first[column], second[column], gradient[column]
        for j in range(widths[probe]):
            weight = w[j]
            slope = g[j] + pull * weight + sign * (np.float32(weight > 0) - np.float32(weight < 0))
            mean = m[j] + new1 * (slope - m[j])
            square = keep2 * v[j] + new2 * (slope * slope)
            m[j], v[j] = mean, square
            size = rate / (np.sqrt(square) * spread + epsilon)
            weight -= size * mean * grown
            most = size * lasso
            weight -= max(-most, min(most, weight))
            w[j] = weight / (_ONE + size * ridge)


@_kept
def gather(source: Any, columns: Any, out: Any, start: int) -> None:
    """See `vestige.probes.steps.gather`; numbers without a sign need no check for columns counted from the end."""
    end = start + len(columns)
    for i in range(len(source)):
        row, place = source[i], out[i, start:end]
        for j in range(len(columns)):
            place[j] = row[columns[j]]


@_kept
def largest(logits: Any, biases: Any, best: Any) -> None:
    """See `vestige.probes.steps.largest`."""
    for i in range(len(logits)):
        top = logits[i, 0] + biases[0]
        best[i, :] = 0
        for c in range(1, len(biases)):
            mine, bias = logits[i, c], biases[c]
            for j in range(len(mine)):
                logit = mine[j] + bias
                if logit > top[j]:
                    top[j] = logit
                    best[i, j] = c


@_kept
def mass_keys(packed: Any, magnitudes: Any, below_one: float, key: Any, share: Any) -> None:
    """See `vestige.neurons.ranking.rank`: `packed` has a label's neurons in order, in the lower half of its numbers."""
    for label in range(len(packed)):
        total = 0.0
        for number in packed[label]:
            total += magnitudes[label, np.uint32(number)]
        before = 0.0
        for number in packed[label]:
            neuron = np.uint32(number)
            size = np.float64(magnitudes[label, neuron])
            if size == 0:
                break
            key[neuron] = min(key[neuron], min(before / total, below_one))
            share[neuron] = max(share[neuron], size / total)
            before += size


@_kept
def against_others(logits: Any, which: int, margins: Any) -> None:
    """How far a class is ahead of all others together (rows,): its logit minus the log-sum-exp of theirs."""
    classes, rows = logits.shape
    top, total = np.empty(rows, np.float32), np.empty(rows, np.float32)
    top[:] = -np.inf
    for c in range(classes):
        if c != which:
            mine = logits[c]
            for i in range(rows):
                top[i] = mine[i] if mine[i] > top[i] else top[i]
    total[:] = 0
    for c in range(classes):
        if c != which:
            mine = logits[c]
            for i in range(rows):
                total[i] += _exp(mine[i] - top[i])
    for i in range(rows):
        margins[i] = logits[which, i] - top[i] - np.log(total[i])


@_kept
def pick(columns: Any, ids: Any, rows: Any, out: Any) -> None:
    """Some rows of some columns (columns, rows), in `out`."""
    for a in range(len(ids)):
        mine, place = columns[ids[a]], out[a]
        for j in range(len(rows)):
            place[j] = mine[rows[j]]


@_kept
def combine(columns: Any, ids: Any, weights: Any, out: Any) -> None:
    """The sum of some columns by their weights, in `out` (rows,)."""
    out[:] = 0
    for a in range(len(ids)):
        mine, weight = columns[ids[a]], weights[a]
        for i in range(len(out)):
            out[i] += weight * mine[i]


@_kept
def descend(gram: Any, slope: Any, weights: Any, lasso: Any, ridge: Any, sweeps: int, still: float) -> None:
    """Minimise slope'd + d'(gram)d / 2 + sum(lasso |w| + ridge w^2) over w = weights + d, a weight at a time, in place.

    Ends when no weight's move gains more than half of `still`. The slope is kept up to date.
    """
    for _ in range(sweeps):
        largest_move = 0.0
        for i in range(len(weights)):
            old = weights[i]
            curvature = gram[i, i] + 2 * ridge[i] + 1e-10
            aim = curvature * old - slope[i] - 2 * ridge[i] * old
            new = 0.0
            if aim > lasso[i]:
                new = (aim - lasso[i]) / curvature
            elif aim < -lasso[i]:
                new = (aim + lasso[i]) / curvature
            move = new - old
            if move != 0.0:
                weights[i] = new
                mine = gram[i]
                for j in range(len(weights)):
                    slope[j] += move * mine[j]
                largest_move = max(largest_move, curvature * move * move)
        if largest_move < still:
            break
