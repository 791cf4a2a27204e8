"""Singular values and vectors of weight matrices and of their changes, without a whole decomposition where one is dear.

The leading ones come from a block Krylov space (Golub and Van Loan, section 10.4), whose cost is a few products with
the matrix. Whether a vector is close to *some* singular vector of a matrix, of thousands, is decided by the measure
that the vector has on the spectrum: Lanczos' process bounds what a single vector can have of it (the separation
theorem of Chebyshev, Markov and Stieltjes). What it leaves open is decomposed whole, in float64.
"""

import numpy as np
import torch
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

from vestige.digest import digest_json

EXACT = 512
"""Matrices whose smaller side is no longer than this are decomposed whole."""
SKETCH = 8191
"""Numbers of a sketch: a prime, so that columns of a matrix do not fall together."""
_MORE = 6
"""Columns of a block beyond those asked for."""
_ROUNDS = 24
_SETTLED = 1e-6
"""Leading values that move no more than by this share of themselves have converged, vectors to about a hundredth."""
_NORM_SETTLED = 1e-4
"""The same where the value alone is asked for."""
_STEPS = (6, 12, 24, 48)
"""After how many steps of Lanczos' process it is looked whether all is decided."""
_CONVERGED = 1e-3
"""Residual of an eigenvector, as a share of its eigenvalue, at which it is taken for one."""
_AT_ONCE = 512 * SKETCH
"""Numbers that are sketched at once."""


def spectral_norm(matrix: Tensor) -> float:
    """The largest singular value; to about three digits where the matrix is large and its spectrum has no gap."""
    return float(leading(matrix, 1, _NORM_SETTLED)[0][0])


def leading(matrix: Tensor, count: int, settled: float = _SETTLED) -> tuple[Tensor, Tensor]:
    """The largest singular values (count,) of a matrix (rows, columns) and their left vectors (rows, count)."""
    tall = matrix.shape[0] > matrix.shape[1]
    wide = matrix.T if tall else matrix
    count = min(count, wide.shape[0])
    values, vectors = _decomposed(wide, count) if wide.shape[0] <= EXACT else _krylov(wide, count, settled)
    if not tall:
        return values, vectors
    return values, (matrix @ vectors) / values.clamp(min=torch.finfo(values.dtype).tiny).to(vectors.dtype)


def _decomposed(wide: Tensor, count: int) -> tuple[Tensor, Tensor]:
    squares, vectors = _eigh(wide)
    return squares[:count].sqrt(), vectors[:, :count].to(wide.dtype)


def _eigh(wide: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (descending) and eigenvectors of the smaller Gram matrix, in float64."""
    double = wide.double()
    squares, vectors = torch.linalg.eigh(double @ double.T)
    return squares.flip(0).clamp(min=0.0), vectors.flip(1)


def _krylov(wide: Tensor, count: int, settled: float) -> tuple[Tensor, Tensor]:
    """Leading values and left vectors from the space of a block and its images under `wide wide'`.

    Vectors are kept as rows: products with few columns are slow.
    """
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(count + _MORE, wide.shape[1], generator=generator, dtype=wide.dtype)
    basis = _orthonormal(drawn @ wide.T)
    images = last = basis @ wide
    before = torch.zeros(count, dtype=torch.float64)
    for _ in range(_ROUNDS):
        new = last @ wide.T
        for _ in range(2):
            new = new - (new @ basis.T) @ basis
        new = _orthonormal(new)
        last = new @ wide
        basis, images = torch.cat([basis, new]), torch.cat([images, last])
        squares, mixed = torch.linalg.eigh((images @ images.T).double())
        values = squares.flip(0)[:count].clamp(min=0.0)
        if bool(((values - before).abs() <= settled * values).all()):
            break
        before = values
    return values.sqrt(), (mixed.flip(1)[:, :count].T.to(basis.dtype) @ basis).T


def _orthonormal(rows: Tensor) -> Tensor:
    return torch.linalg.qr(rows.T)[0].T.contiguous()


def intruder_dimensions(base: Tensor, tuned: Tensor, count: int = 10, below: float = 0.5) -> int:
    """How many of the leading left singular vectors of `tuned` are like none of the base's, of which all are looked at.

    Like: an absolute cosine of at least `below` (Shuttleworth et al. 2024, algorithm 1). Of matrices as they are
    stored, (rows, columns).
    """
    vectors = leading(tuned, count)[1]
    if min(base.shape) <= EXACT:
        return int((_nearest(base, vectors) < below).sum())
    decided = _decided(base, vectors, below**2)
    open_still = [column for column, intruder in enumerate(decided) if intruder is None]
    found = sum(bool(intruder) for intruder in decided)
    if open_still:
        found += int((_nearest(base, vectors[:, open_still]) < below).sum())
    return found


def _nearest(base: Tensor, vectors: Tensor) -> Tensor:
    """(vectors,): the largest absolute cosine with a left singular vector of the base."""
    tall = base.shape[0] > base.shape[1]
    squares, own = _eigh(base.T if tall else base)
    if not tall:
        return (vectors.T.double() @ own).abs().amax(1)
    there = squares > 1e-14 * squares[0]
    return ((vectors.T @ base).double() @ own[:, there] / squares[there].sqrt()).abs().amax(1)


def _decided(base: Tensor, vectors: Tensor, share: float) -> list[bool | None]:
    """Of every vector (a column): True if no eigenvector of `base base'` has this share of it, False if one does.

    A vector's share in the eigenvectors is a measure on the eigenvalues. Of its Gauss quadrature, which Lanczos'
    process gives, no two neighbouring nodes weigh less than what lies between them: where all such sums are below
    `share`, no eigenvector has it. Where a converged node weighs it, one does. None: neither is shown.
    """
    basis, diagonal, beside = [(vectors / vectors.norm(dim=0)).T.contiguous()], list[Tensor](), list[Tensor]()
    decided: list[bool | None] = [None] * vectors.shape[1]
    for step in range(1, _STEPS[-1] + 1):
        new = (basis[-1] @ base) @ base.T
        diagonal.append((new * basis[-1]).sum(1))
        known = torch.stack(basis, 1)
        for _ in range(2):
            new = new - torch.bmm(torch.bmm(known, new[:, :, None]).transpose(1, 2), known)[:, 0]
        beside.append(new.norm(dim=1))
        basis.append(new / beside[-1].clamp(min=torch.finfo(new.dtype).tiny)[:, None])
        if step in _STEPS:
            main, off = (torch.stack(one).double().numpy() for one in (diagonal, beside))
            for column, known_already in enumerate(decided):
                if known_already is None:
                    decided[column] = _quadrature(main[:, column], off[:, column], share)
            if all(one is not None for one in decided):
                break
    return decided


def _quadrature(main: np.ndarray, off: np.ndarray, share: float) -> bool | None:
    nodes, rotation = eigh_tridiagonal(main, off[:-1])
    weights, residuals = rotation[0] ** 2, off[-1] * np.abs(rotation[-1])
    if (weights[:-1] + weights[1:]).max() < share:
        return True
    own = (weights >= share) & (residuals <= _CONVERGED * nodes)
    return False if own.any() else None


def sketch(change: Tensor, name: str, size: int = SKETCH) -> Tensor:
    """(size,): sums of a tensor's numbers under signs that are drawn once for every name.

    Inner products of sketches estimate those of tensors: the mean is right, the standard error of a cosine c is about
    sqrt((1 + c^2) / size). Sketches of several tensors, under names of their own, are added.
    """
    flat, sums = change.reshape(-1), torch.zeros(size, dtype=torch.float64)
    drawing = np.random.default_rng(int(digest_json(["sketch", name]), 16))
    step = _AT_ONCE // SKETCH * size
    for start in range(0, len(flat), step):
        part = flat[start : start + step].float()
        bits = np.unpackbits(np.frombuffer(drawing.bytes(-(-len(part) // 8)), dtype=np.uint8), count=len(part))
        signed = torch.from_numpy(bits).float().mul_(2).sub_(1).mul_(part)
        whole = torch.nn.functional.pad(signed, (0, -len(signed) % size))
        sums += whole.view(-1, size).sum(0, dtype=torch.float64)
    return sums.float()


def sketch_error(cosine: float, size: int = SKETCH) -> float:
    """The standard error of a cosine that is estimated from sketches."""
    return float(np.sqrt((1 + cosine**2) / size))
