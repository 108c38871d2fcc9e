"""Kernels: arrays in, arrays out, no validation. Rows are samples."""

import math
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from maxnorm.core.types import Array

# Directions of a factor weaker than this share of the strongest are taken as absent. The Gram matrix
# squares the condition number, so its eigenvectors mean nothing far below this.
RANK_TOLERANCE = 1e-6

_NORMAL = NormalDist()
QUARTILE, MEDIAN = _NORMAL.inv_cdf(0.625), _NORMAL.inv_cdf(0.75)  # of a Gaussian's magnitudes

# A secular equation is solved when the norm meets the radius to this relative accuracy.
SECULAR_TOLERANCE = 1e-11


def row_norms(X: Array) -> Array:
    """Euclidean norm of each row."""
    return np.sqrt(np.einsum("ij,ij->i", X, X))


def soft_threshold(V: Array, threshold: float) -> Array:
    """Entrywise ``sign(v) * max(|v| - threshold, 0)``, the prox of the absolute value."""
    return V - np.clip(V, -threshold, threshold)


def thin_svd(L: Array) -> tuple[Array, Array, Array]:
    """``L = U diag(sigma) V.T`` by one eigendecomposition of ``L.T @ L``.

    Directions below ``RANK_TOLERANCE`` times the largest singular value are left out, so ``U`` has
    orthonormal columns and every ``sigma`` is positive. ``U`` is p x k, ``V`` is d x k, k <= min(p, d).
    The work is in double precision; ``U`` and ``V`` come back in the precision of ``L``.
    """
    size = max(float(L.max(initial=0.0)), -float(L.min(initial=0.0))) or 1.0  # so that no square overflows
    L64 = np.divide(L, size, dtype=np.float64)
    eigenvalues, V = np.linalg.eigh(L64.T @ L64)
    sigma = np.sqrt(np.maximum(eigenvalues, 0.0))
    keep = sigma > RANK_TOLERANCE * sigma[-1]
    sigma, V = sigma[keep], V[:, keep]
    U = L64 @ (V / sigma)
    return U.astype(L.dtype, copy=False), sigma * size, V


def ball_multipliers(C: Array, w: Array, radius: float, start: Array | None = None) -> Array:
    """Smallest ``eta >= 0`` for each row ``c`` of C with ``norm(c / (w + eta)) <= radius``.

    This is the secular equation of ``min 1/2 x diag(w) x - c x`` over ``norm(x) <= radius``; ``eta`` is the
    multiplier of the constraint. Newton's method on ``1 / norm`` (Hebden) is monotone from the left of
    the root and meets it in a few steps; from a warm start right of the root the first step lands left.

    ``w`` may be the same for all rows or a row for each, and must be positive. Cost: O(rows x columns) for
    each of 3-6 steps, fewer when warm.
    """
    C = C.astype(np.float64, copy=False)
    eta = np.zeros(len(C)) if start is None else np.maximum(start, 0.0)
    todo = np.arange(len(C))
    for _ in range(100):
        D = (w if w.ndim == 1 else w[todo]) + eta[todo, None]
        X = C[todo] / D
        norm = row_norms(X)
        slope = np.einsum("ij,ij->i", X, X / D)
        with np.errstate(divide="ignore", invalid="ignore"):
            move = (norm - radius) / radius * (norm * norm / slope)
        move = np.where(slope > 0.0, move, -eta[todo])
        new = np.maximum(eta[todo] + move, 0.0)
        settled = (np.abs(norm - radius) <= SECULAR_TOLERANCE * radius) | (new == eta[todo])
        eta[todo] = new
        if settled.all():
            break
        todo = todo[~settled]
    return eta


def products(R: Array) -> Array:
    """Products of the entries of each row, one for each pair: ``r r^T`` without what is there twice."""
    left, right = np.triu_indices(R.shape[1])
    return R[:, left] * R[:, right]


def symmetric(packed: Array, d: int) -> Array:
    """Return the d x d matrices of which :func:`products` has the upper triangles."""
    left, right = np.triu_indices(d)
    full = np.empty((len(packed), d, d), packed.dtype)
    full[:, left, right] = packed
    full[:, right, left] = packed
    return full


def robust_scale(V: Array, limit: int = 8_000) -> float:
    """Standard deviation of the bulk of the entries, whatever the rest; zeros are not counted.

    A quarter of the entries suffices: the lower quartile of the magnitudes, read as that of a Gaussian.
    Entries beyond five times the first estimate are gross errors, not the bulk, and the quartile is
    read again without them, so that even half the entries corrupted do not inflate the scale. If they are
    most of the entries, they are the bulk, and the median is read.
    At most ``limit`` entries are looked at, evenly spread.
    """
    flat = V.ravel()
    stride = -(-flat.size // limit)
    while stride > 1 and math.gcd(stride, V.shape[-1]) > 1:  # so that every column has its turn
        stride += 1
    magnitudes = np.abs(flat[::stride])
    magnitudes = magnitudes[magnitudes > 0.0]
    if not magnitudes.size:  # nearly empty: look at all there is
        magnitudes = np.abs(flat[flat != 0.0])
    if not magnitudes.size:
        return 0.0
    low, middle = magnitudes.size // 4, magnitudes.size // 2
    magnitudes.partition((low, middle))
    quartile = float(magnitudes[low])
    gross = float(np.mean(magnitudes > 5.0 * quartile / QUARTILE))
    if gross > 0.6:  # not errors but the bulk, and the quartile was the background
        return float(magnitudes[middle]) / MEDIAN
    return quartile / _NORMAL.inv_cdf(0.5 + 0.125 / (1.0 - gross))


@cache
def _spread_columns(width: int, limit: int) -> NDArray[np.intp]:
    """At most ``limit`` columns, drawn once: a stride would hit the same pixel column of every image row."""
    return np.sort(np.random.default_rng(0).permutation(width)[:limit])


def row_scales(V: Array, reach: float = 8.0, limit: int = 128) -> tuple[Array, Array]:
    """Standard deviation of the bulk of each row, and the number of its entries that are not zero.

    The bulk is read from the lower quartile of the magnitudes. Where that would put most of the row beyond
    ``reach`` times the bulk, it is the background and not the bulk, and the median is read instead: half of
    a sample may be wrong, but not most of it. Zeros are not counted. At most ``limit`` entries of a row are
    looked at.
    """
    width = V.shape[1]
    magnitudes = np.abs(V if width <= limit else V[:, _spread_columns(width, limit)])
    looked = magnitudes.shape[1]
    magnitudes.sort(axis=1)  # faster than a partition at this width
    zeros = np.zeros(len(V), dtype=np.intp)
    if not magnitudes[:, 0].all():
        zeros = np.count_nonzero(magnitudes == 0.0, axis=1)
    entries, rows = looked - zeros, np.arange(len(V))

    def quantile(part: float) -> Array:
        return magnitudes[rows, np.minimum(zeros + (part * entries).astype(np.intp), looked - 1)]

    scales = quantile(0.25) / QUARTILE
    scales = np.where(quantile(0.4) > reach * scales, quantile(0.5) / MEDIAN, scales)
    return scales, entries * (width / looked)
