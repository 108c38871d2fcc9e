"""Loops compiled by Numba, which is installed by the extra ``fast``.

Each loop reads its arrays once, where NumPy would make several passes over memory. The callers,
:class:`maxnorm.core.noise.CappedL1` and :mod:`maxnorm.core.sparse_encoding`, have equivalent NumPy code for
installations without Numba. In the capped noise model, entry ``v`` in row i and column j has two thresholds:
``h = thresholds[i, 0] * leniency[j]``, from which the loss is linear, and
``c = thresholds[i, 1] * leniency[j]``, from which its slope decreases to zero at ``2 c``.
"""

import numba
import numpy as np

from maxnorm.core.types import Array

# These flags allow sums in any order, which makes them vectorisable. The other flags of fastmath would assume
# that there is neither NaN nor infinity, but the quotient of an entry and a tiny threshold may be infinite.
_compiled = numba.njit(
    cache=True, fastmath={"reassoc", "contract", "nsz", "arcp"}, nogil=True, error_model="numpy"
)


@_compiled
def influence(V: Array, thresholds: Array, leniency: Array, out: Array) -> None:
    """Write the derivative of the capped loss at each entry of V to ``out``.

    The derivative is ``clip(v, -h, h) * clip(2 - |v| / c, 0, 1)`` with the thresholds h and c of the entry.

    Parameters
    ----------
    V : ndarray of shape (n, p)
        Residuals.
    thresholds : ndarray of shape (n, 2)
        Thresholds of each row before they are multiplied by ``leniency``.
    leniency : ndarray of shape (p,)
        Factor of the thresholds for each feature.
    out : ndarray of shape (n, p)
        Array that receives the result.
    """
    one, two, zero = V.dtype.type(1), V.dtype.type(2), V.dtype.type(0)
    for i in range(V.shape[0]):
        huber, reject = thresholds[i, 0], thresholds[i, 1]
        for j in range(V.shape[1]):
            h = huber * leniency[j]
            fading = min(max(two - abs(V[i, j]) / (reject * leniency[j]), zero), one)
            out[i, j] = min(max(V[i, j], -h), h) * fading


@_compiled
def loss(V: Array, thresholds: Array, leniency: Array) -> Array:
    """Return the sum of the capped losses of the entries of each row of V.

    The loss of an entry is the integral of its derivative (see :func:`influence`) from 0 to ``|v|``.

    Parameters
    ----------
    V : ndarray of shape (n, p)
        Residuals.
    thresholds : ndarray of shape (n, 2)
        Thresholds of each row before they are multiplied by ``leniency``.
    leniency : ndarray of shape (p,)
        Factor of the thresholds for each feature.

    Returns
    -------
    ndarray of shape (n,)
        Losses of the rows, in double precision.
    """
    out = np.empty(V.shape[0])
    zero, half = V.dtype.type(0), V.dtype.type(0.5)
    for i in range(V.shape[0]):
        huber, reject = thresholds[i, 0], thresholds[i, 1]
        total = 0.0
        for j in range(V.shape[1]):
            h, c = huber * leniency[j], reject * leniency[j]
            magnitude = abs(V[i, j])
            small = min(magnitude, h)
            beyond = min(max(magnitude - c, zero), c)
            total += half * small * small + h * (
                min(magnitude, c) - small + beyond - half * beyond * beyond / c
            )
        out[i] = total
    return out


@_compiled
def entries(rows: Array, columns: Array, R: Array, L: Array) -> Array:
    """Return the entries ``(rows[k], columns[k])`` of ``R L^T`` without computing the whole product.

    Parameters
    ----------
    rows, columns : ndarray of shape (n_entries,)
        Indices of the entries.
    R : ndarray of shape (n, d)
        Coefficients.
    L : ndarray of shape (p, d)
        Basis.

    Returns
    -------
    ndarray of shape (n_entries,)
        The entries, in double precision.
    """
    out = np.empty(len(rows))
    for k in range(len(rows)):
        total = 0.0
        for i in range(R.shape[1]):
            total += R[rows[k], i] * L[columns[k], i]
        out[k] = total
    return out
