"""Numerical kernels: pure functions of arrays, which do not validate their arguments.

The rows of a matrix are samples (or features, for a basis) and are treated independently of each other.
"""

import math
from collections.abc import Iterator
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from maxnorm.core.precision import range_of
from maxnorm.core.types import Array, Index, Mask

RANK_TOLERANCE = 1e-6
"""Singular values below this fraction of the largest one are treated as zero.

They are computed from a Gram matrix, which squares the condition number: in double precision its
eigenvectors are meaningless for singular values below about 1e-8 times the largest.
"""

WELL_CONDITIONED = 1e-4
"""Quotient of the least and the largest singular value from which a Gram matrix has accurate eigenvectors."""

SECULAR_TOLERANCE = 1e-11
"""Relative accuracy to which the norm equals the radius in a solution of the secular equation."""

MAX_SECULAR_STEPS = 100
"""Limit on the Newton steps for a secular equation; it is a safeguard, since 3 to 6 steps suffice."""

GATHERED_NUMBERS = 2**21
"""Numbers that are copied from matrices at a time, to compute single entries of their product."""

_NORMAL = NormalDist()
# Quantiles of the magnitude of a standard normal variable, which turn an empirical quantile of magnitudes
# into an estimate of the standard deviation.
GAUSSIAN_LOWER_QUARTILE, GAUSSIAN_MEDIAN = _NORMAL.inv_cdf(0.625), _NORMAL.inv_cdf(0.75)


class BulkRule(NamedTuple):
    """Constants that separate the bulk of some entries from gross errors and from a background.

    Scales are estimated from the lower quartile of the magnitudes, which stays within the range of the clean
    entries as long as fewer than three quarters of the entries are gross errors. Its weakness is a
    background: if a quarter of the entries are nearly zero, such as those of a dark border around an image,
    the quartile is that of the background.

    Attributes
    ----------
    gross_error : float
        Entries beyond this multiple of the first estimate of the standard deviation are gross errors. A
        Gaussian variable exceeds five standard deviations less than once in a million times.
    majority : float
        If more than this share of the entries are far beyond the first estimate, they are not errors but
        the bulk, and the quartile was that of a background. The share is above one half, because up to half
        of the entries may be corrupted.
    """

    gross_error: float = 5.0
    majority: float = 0.6


BULK = BulkRule()


def row_norms(X: Array) -> Array:
    """Return the Euclidean norm of each row."""
    return np.sqrt(np.einsum("ij,ij->i", X, X))


def count_columns(mask: Mask) -> Array:
    """Return the number of true entries in each column."""
    return (np.ones(len(mask), np.float32) @ mask.astype(np.float32)).astype(np.float64)


def soft_threshold(V: Array, threshold: float) -> Array:
    """Return ``sign(v) * max(|v| - threshold, 0)`` for each entry v of V.

    This is the proximal operator of ``threshold`` times the absolute value.
    """
    return V - np.clip(V, -threshold, threshold)


def thin_svd(L: Array) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition ``L = U diag(sigma) V.T`` without zero singular values.

    The decomposition is computed from the eigenvectors of the d x d matrix ``L.T @ L``, which is much cheaper
    than a general algorithm if L has many more rows than columns. Singular values that are negligible in the
    precision of L, or below ``RANK_TOLERANCE`` times the largest one, are left out, so that every returned
    one is positive and their number k is the numerical rank of L.

    Parameters
    ----------
    L : ndarray of shape (p, d)
        Matrix to decompose, in single or double precision.

    Returns
    -------
    U : ndarray of shape (p, k)
        Left singular vectors: orthonormal columns in the precision of L.
    sigma : ndarray of shape (k,)
        Singular values in increasing order, in double precision.
    V : ndarray of shape (d, k)
        Right singular vectors: orthonormal columns in double precision.
    """
    # L is divided by its largest magnitude, so that no square overflows or underflows.
    largest = max(float(L.max(initial=0.0)), -float(L.min(initial=0.0))) or 1.0
    L64 = np.divide(L, largest, dtype=np.float64)
    eigenvalues, V = np.linalg.eigh(L64.T @ L64)
    sigma = np.sqrt(np.maximum(eigenvalues, 0.0))
    keep = sigma > max(RANK_TOLERANCE * float(sigma[-1]), range_of(L.dtype).negligible / largest)
    sigma, V = sigma[keep], V[:, keep]
    U = L64 @ (V / sigma)
    return U.astype(L.dtype, copy=False), sigma * largest, V


def complete_svd(X: Array) -> tuple[Array, Array, Array]:
    """Return the singular value decomposition ``X = U diag(sigma) V^T`` with all singular values.

    X has at least as many rows as columns. If it is well conditioned, the decomposition follows from the
    eigenvectors of ``X^T X``, in a third of the time of a general algorithm for many more rows than columns.
    """
    values, V = np.linalg.eigh(X.T @ X)
    if not values[0] > WELL_CONDITIONED**2 * values[-1]:
        return np.linalg.svd(X, full_matrices=False)
    sigma = np.sqrt(values)
    return X @ (V / sigma), sigma, V.T


def ball_multipliers(C: Array, w: Array, radius: float, start: Array | None = None) -> Array:
    """Return the smallest ``eta >= 0`` with ``norm(c / (w + eta)) <= radius``, for each row c of C.

    The problem ``min 1/2 x diag(w) x - c x`` subject to ``norm(x) <= radius`` has the solution
    ``x = c / (w + eta)``, where ``eta`` is the Lagrange multiplier of the constraint and solves the secular
    equation ``norm(c / (w + eta)) = radius``, or is zero if the constraint is inactive.

    Parameters
    ----------
    C : ndarray of shape (n, d)
        Linear terms, one problem per row.
    w : ndarray of shape (d,) or (n, d)
        Positive diagonals of the quadratic terms: one diagonal for all problems, or one per row.
    radius : float
        Radius of the ball, which is positive.
    start : ndarray of shape (n,), optional
        Multipliers to start from, such as those of a similar problem. The default is zero.

    Returns
    -------
    ndarray of shape (n,)
        The multipliers.

    Notes
    -----
    Newton's method is applied to ``1 / norm(x) - 1 / radius`` (Hebden's method), which is nearly linear in
    ``eta``. It increases monotonically to the root from any point below it; from a point above the root,
    the first step ends below. Each step costs O(n d), and rows that have converged take no further steps.
    """
    C = C.astype(np.float64, copy=False)
    eta = np.zeros(len(C)) if start is None else np.maximum(start, 0.0)
    active = np.arange(len(C))
    for _ in range(MAX_SECULAR_STEPS):
        D = (w if w.ndim == 1 else w[active]) + eta[active, None]
        X = C[active] / D
        norm = row_norms(X)
        slope = np.einsum("ij,ij->i", X, X / D)
        with np.errstate(divide="ignore", invalid="ignore"):
            change = (norm - radius) / radius * (norm * norm / slope)
        change = np.where(slope > 0.0, change, -eta[active])  # a zero row of C has the multiplier zero
        new = np.maximum(eta[active] + change, 0.0)
        converged = (np.abs(norm - radius) <= SECULAR_TOLERANCE * radius) | (new == eta[active])
        eta[active] = new
        if converged.all():
            break
        active = active[~converged]
    return eta


@cache
def upper_triangle(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the row and column indices of the upper triangle of a d x d matrix, row by row."""
    left, right = np.triu_indices(d)
    return left, right


def products(R: Array) -> Array:
    """Return the upper triangle of the outer product ``r r^T`` of each row r of R.

    Row i of the result has the d (d + 1) / 2 products of two entries of row i of R, in the order of
    ``np.triu_indices(d)``. The function :func:`symmetric` restores the full matrices.
    """
    d = R.shape[1]
    packed = np.empty((len(R), d * (d + 1) // 2), R.dtype)
    for i, part in enumerate(triangle_rows(d)):
        np.multiply(R[:, i : i + 1], R[:, i:], out=packed[:, part])
    return packed


def symmetric(packed: Array, d: int) -> Array:
    """Return the symmetric d x d matrices whose upper triangles are the rows of ``packed``.

    The entries of a row are in the order of ``np.triu_indices(d)``, as those of :func:`products`. The result
    has the shape (len(packed), d, d).
    """
    full = np.empty((len(packed), d, d), packed.dtype)
    for i, part in enumerate(triangle_rows(d)):
        full[:, i, i:] = full[:, i:, i] = packed[:, part]
    return full


def triangle_rows(d: int) -> Iterator[slice]:
    """Yield where the rows of an upper triangle of d x d numbers are stored."""
    start = 0
    for length in range(d, 0, -1):
        yield slice(start, start + length)
        start += length


def entries_of_product(rows: Index, columns: Index, R: Array, L: Array) -> Array:
    """Return the entries of ``R L^T`` at the given positions."""
    values = np.empty(len(rows))
    size = max(1, GATHERED_NUMBERS // R.shape[1])
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        values[part] = np.einsum("ij,ij->i", R[rows[part]], L[columns[part]])
    return values


def like(Z: csr_array, data: Array) -> csr_array:
    """Return a sparse matrix with the same pattern and other values."""
    return csr_array((data, Z.indices, Z.indptr), shape=Z.shape)


def robust_scale(V: Array, limit: int = 8_000) -> float:
    """Return the standard deviation of the non-zero entries of V without gross errors.

    A first estimate is the lower quartile of the magnitudes, divided by that of a standard normal variable.
    The share of gross errors, which lie beyond ``BULK.gross_error`` times this estimate, tells which quantile
    of the remaining entries the quartile really is, and the final estimate is computed from that. Therefore
    the estimate is right even if half of the entries are corrupted. If more than ``BULK.majority`` of the
    entries lie beyond the limit, they are the bulk of the data, and the median is used instead.

    Parameters
    ----------
    V : ndarray
        Entries. Zeros are ignored, since they stand for missing entries, and so are subnormal numbers.
    limit : int, default=8_000
        Largest number of entries that are used, at regular intervals. All entries are used if these are
        zero.

    Returns
    -------
    float
        The standard deviation, or zero if all entries are zero.
    """
    flat = V.ravel()
    stride = -(-flat.size // limit)
    while stride > 1 and math.gcd(stride, V.shape[-1]) > 1:  # so that no column is left out
        stride += 1
    tiny = range_of(V.dtype).tiny
    magnitudes = np.abs(flat[::stride])
    magnitudes = magnitudes[magnitudes > tiny]
    if not magnitudes.size:  # the few non-zero entries, if there are any, lie between the sampled ones
        magnitudes = np.abs(flat)
        magnitudes = magnitudes[magnitudes > tiny]
    if not magnitudes.size:
        return 0.0
    low = magnitudes.size // 4
    magnitudes.partition(low)
    quartile = float(magnitudes[low])
    beyond = np.count_nonzero(magnitudes > BULK.gross_error * quartile / GAUSSIAN_LOWER_QUARTILE)
    gross = beyond / magnitudes.size
    if gross > BULK.majority:
        middle = magnitudes.size // 2
        magnitudes.partition(middle)
        return float(magnitudes[middle]) / GAUSSIAN_MEDIAN
    return quartile / _NORMAL.inv_cdf(0.5 + 0.125 / (1.0 - gross))


def quantile(values: Array, level: float) -> float:
    """Return a quantile of some numbers, interpolated linearly.

    ``np.quantile`` has the same result, up to rounding, for a vector without NaN, but takes ten times as long
    for a short one.
    """
    position = level * (len(values) - 1)
    low = int(position)
    high = min(low + 1, len(values) - 1)
    ordered = np.partition(values, (low, high))
    return float(ordered[low] + (position - low) * (ordered[high] - ordered[low]))


@cache
def sample_columns(width: int, limit: int) -> NDArray[np.intp]:
    """Return at most ``limit`` column indices in increasing order, always the same random ones.

    Columns at regular intervals would not be representative: if the rows are images, all of them might lie
    in one column of pixels.
    """
    return np.sort(np.random.default_rng(0).permutation(width)[:limit])


def row_scales(V: Array, reach: float = 8.0, limit: int = 128) -> tuple[Array, Array]:
    """Return the standard deviation of the bulk of each row, and the number of its non-zero entries.

    The standard deviation is estimated by the lower quartile of the magnitudes. If more than
    ``BULK.majority`` of a row lies beyond ``reach`` times this estimate, the quartile is that of a
    background, and the median is used instead.

    Parameters
    ----------
    V : ndarray of shape (n, p)
        Rows, for example residuals. Zeros are ignored, since they stand for missing entries, and so are
        subnormal numbers.
    reach : float, default=8.0
        Multiple of the first estimate beyond which an entry does not belong to the same bulk.
    limit : int, default=128
        Number of entries of a row that are used at most.

    Returns
    -------
    scales : ndarray of shape (n,)
        Estimated standard deviations; zero for a row of zeros.
    n_entries : ndarray of shape (n,)
        Numbers of non-zero entries, extrapolated from the entries that were used.
    """
    width = V.shape[1]
    magnitudes = np.abs(V if width <= limit else V[:, sample_columns(width, limit)])
    n_used = magnitudes.shape[1]
    magnitudes.sort(axis=1)  # faster than a partition at this width
    tiny = range_of(V.dtype).tiny
    has_zeros = not (magnitudes[:, 0] > tiny).all()
    zeros = np.count_nonzero(magnitudes <= tiny, axis=1) if has_zeros else np.zeros(len(V), dtype=np.intp)
    n_entries, rows = n_used - zeros, np.arange(len(V))

    def at(level: float) -> Array:
        if not has_zeros:
            return magnitudes[:, min(int(level * n_used), n_used - 1)]
        return magnitudes[rows, np.minimum(zeros + (level * n_entries).astype(np.intp), n_used - 1)]

    scales = at(0.25) / GAUSSIAN_LOWER_QUARTILE
    is_background = at(1.0 - BULK.majority) > reach * scales
    if is_background.any():
        scales = np.where(is_background, at(0.5) / GAUSSIAN_MEDIAN, scales)
    return scales, n_entries * (width / n_used)
