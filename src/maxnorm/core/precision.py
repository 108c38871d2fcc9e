"""The magnitudes between which the arithmetic of each precision works."""

from typing import Any, NamedTuple

import numpy as np


class Range(NamedTuple):
    """Magnitudes that a precision can handle, given that the library computes squares and their sums."""

    tiny: float  #: numbers up to this one are subnormal, with few digits
    negligible: float  #: samples of at most this norm count as zeros, because their squares underflow
    smallest: float  #: least magnitude of the largest entry of some data, or of a basis
    largest: float  #: greatest norm of a sample, or of a row of a basis


# In single precision, squares underflow below about 1e-18 and overflow above about 1e18. Double precision has
# room for products of more factors, and data beyond its limits have a badly chosen unit. Between "negligible"
# and "smallest" there are at least six decimal places for the residual.
SINGLE = Range(float(np.finfo(np.float32).tiny), 1e-18, 1e-12, 0.1 * float(np.finfo(np.float32).max) ** 0.5)
DOUBLE = Range(float(np.finfo(np.float64).tiny), 1e-153, 1e-120, 1e120)

# A threshold that can be represented in single precision and that no residual reaches: larger ones have the
# same effect.
UNBOUNDED = 1e30


def range_of(dtype: np.dtype[Any]) -> Range:
    """Return the range of a precision."""
    return SINGLE if dtype.char == "f" else DOUBLE  # faster than a comparison of dtypes
