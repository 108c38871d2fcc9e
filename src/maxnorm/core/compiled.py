"""Loops compiled by Numba (the extra ``fast``), each in one pass over memory.

The capped noise model and the sparse encoder use them and say what they compute.
"""

import numba
import numpy as np

from maxnorm.core.types import Array

# Sums may be taken in any order, so that they can be vectorised; nothing here meets a NaN.
_compiled = numba.njit(cache=True, fastmath=True, nogil=True, error_model="numpy")


@_compiled
def pull(V: Array, thresholds: Array, leniency: Array, out: Array) -> None:
    """Find what each row of V asks of the basis."""
    one, two, zero = V.dtype.type(1), V.dtype.type(2), V.dtype.type(0)
    for i in range(V.shape[0]):
        huber, reject = thresholds[i, 0], thresholds[i, 1]
        for j in range(V.shape[1]):
            h = huber * leniency[j]
            fading = min(max(two - abs(V[i, j]) / (reject * leniency[j]), zero), one)
            out[i, j] = min(max(V[i, j], -h), h) * fading


@_compiled
def loss(V: Array, thresholds: Array, leniency: Array) -> Array:
    """Return what each row of V costs."""
    out = np.empty(V.shape[0])
    zero, half = V.dtype.type(0), V.dtype.type(0.5)
    for i in range(V.shape[0]):
        huber, reject = thresholds[i, 0], thresholds[i, 1]
        total = 0.0
        for j in range(V.shape[1]):
            h, c = huber * leniency[j], reject * leniency[j]
            size = abs(V[i, j])
            small = min(size, h)
            beyond = min(max(size - c, zero), c)
            total += half * small * small + h * (min(size, c) - small + beyond - half * beyond * beyond / c)
        out[i] = total
    return out


@_compiled
def entries(rows: Array, columns: Array, R: Array, L: Array) -> Array:
    """Return entries of ``R L^T`` in the given places."""
    out = np.empty(len(rows))
    for k in range(len(rows)):
        total = 0.0
        for i in range(R.shape[1]):
            total += R[rows[k], i] * L[columns[k], i]
        out[k] = total
    return out
