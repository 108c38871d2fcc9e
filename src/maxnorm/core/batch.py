"""A batch of samples: the one form in which data travel through the library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from maxnorm.core.precision import range_of
from maxnorm.core.types import Array, Mask

KINDS = (np.ndarray, csr_array)


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples in rows, some of whose entries may be missing.

    Data are converted to batches once, where they enter the library. A batch is stored densely or sparsely;
    whoever uses it asks for the form that suits the computation and need not know how it is stored.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.batch import Batch
    >>> batch = Batch(np.array([[1.0, np.nan], [3.0, 4.0]]))
    >>> len(batch), batch.n_observed.tolist()
    (2, [1, 2])
    """

    values: Any  #: a dense array with NaN for missing entries, or a csr_array that stores the observed ones
    weight: Array | None = None  #: weights of the samples; None if all are one
    features: Array | None = (
        None  #: features of the samples apart from their entries, one row each; NaN if unknown
    )

    def __post_init__(self) -> None:
        if not isinstance(self.values, KINDS):
            raise TypeError(f"a batch is a NumPy array or a csr_array, not a {type(self.values).__name__}")

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and number of features."""
        n, p = self.values.shape
        return int(n), int(p)

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the entries."""
        return np.dtype(self.values.dtype)

    @property
    def is_sparse(self) -> bool:
        """Whether only the observed entries are stored."""
        return isinstance(self.values, csr_array)

    @property
    def n_observed(self) -> NDArray[np.intp]:
        """Number of observed entries of each sample."""
        if self.is_sparse:
            return np.diff(self.values.indptr)
        return np.count_nonzero(~np.isnan(self.values), axis=1)

    def dense(self) -> tuple[Array, Mask | None]:
        """Return an array with zeros for missing entries, and the mask of the observed entries.

        The mask is None if every entry is observed.
        """
        if self.is_sparse:
            Z, observed = np.zeros(self.shape, self.dtype), np.zeros(self.shape, np.bool_)
            rows = np.repeat(np.arange(len(self)), self.n_observed)
            Z[rows, self.values.indices] = self.values.data
            observed[rows, self.values.indices] = True
            return Z, None if observed.all() else observed
        missing = np.isnan(self.values)
        if not missing.any():
            return self.values, None
        return np.where(missing, self.dtype.type(0), self.values), ~missing

    def entries(self) -> csr_array:
        """Return the observed entries, zeros included, as a CSR matrix in double precision."""
        if self.is_sparse:
            return self.values
        rows, columns = np.nonzero(~np.isnan(self.values))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(self)))])
        data = without_negligible(self.values[rows, columns]).astype(np.float64)
        return csr_array((data, columns, indptr), shape=self.shape)

    def __getitem__(self, rows: slice | NDArray[np.integer[Any]]) -> Batch:
        """Return some of the samples."""
        if isinstance(rows, slice) and self.is_sparse:
            start, stop, step = rows.indices(len(self))
            if step == 1:
                values = view_of_rows(self.values, start, max(start, stop))
                return Batch(values, _some(self.weight, rows), _some(self.features, rows))
        return Batch(self.values[rows], _some(self.weight, rows), _some(self.features, rows))

    def copy(self) -> Batch:
        """Return a batch that shares no memory with this one."""
        weight, features = (None if x is None else x.copy() for x in (self.weight, self.features))
        return Batch(self.values.copy(), weight, features)

    def astype(self, dtype: np.dtype[Any]) -> Batch:
        """Return the batch in another precision; sparse batches keep theirs, which is always double."""
        is_same = self.is_sparse or self.dtype == dtype
        return self if is_same else replace(self, values=self.values.astype(dtype))

    @staticmethod
    def join(batches: Sequence[Batch]) -> Batch:
        """Return the samples of several batches as one batch, which is sparse if any of them is."""
        if len(batches) == 1:
            return batches[0]
        weight = None
        if any(batch.weight is not None for batch in batches):
            weight = np.concatenate([batch.weighted(np.ones(len(batch))) for batch in batches])
        widths = [batch.features.shape[1] for batch in batches if batch.features is not None]
        features = np.concatenate([batch.features_of(widths[0]) for batch in batches]) if widths else None
        if any(batch.is_sparse for batch in batches):
            return Batch(csr_array(vstack([batch.entries() for batch in batches])), weight, features)
        return Batch(np.concatenate([batch.values for batch in batches]), weight, features)

    def features_of(self, n_features: int) -> Array:
        """Return the features of the samples, which are all NaN if none were given."""
        return np.full((len(self), n_features), np.nan) if self.features is None else self.features

    def weighted(self, weights: Array, used: Mask | None = None) -> Array:
        """Return weights multiplied by those of the samples, or of those samples that are used."""
        if self.weight is None:
            return weights
        return weights * (self.weight if used is None else self.weight[used])


def _some(values: Array | None, rows: slice | NDArray[np.integer[Any]]) -> Array | None:
    return None if values is None else values[rows]


def view_of_rows(Z: csr_array, start: int, stop: int) -> csr_array:
    """Return consecutive rows of a sparse matrix that share its memory, which a slice of it would not."""
    indptr = Z.indptr[start : stop + 1]
    part = slice(indptr[0], indptr[-1])
    return csr_array((Z.data[part], Z.indices[part], indptr - indptr[0]), shape=(stop - start, Z.shape[1]))


def without_negligible(data: Array) -> Array:
    """Return numbers with zeros in place of those whose squares underflow."""
    is_negligible = np.abs(data) <= range_of(data.dtype).negligible
    return np.where(is_negligible, data.dtype.type(0), data) if is_negligible.any() else data


def in_precision(batch: Batch, dtype: np.dtype[Any], first_row: int = 0) -> Batch:
    """Return a batch in the precision of a model, or say which entry is too large for it."""
    if batch.is_sparse or batch.dtype == dtype:
        return batch
    with np.errstate(over="ignore"):
        return check_range(batch.astype(dtype), first_row)


def check_range(batch: Batch, first_row: int = 0) -> Batch:
    """Return a batch in which the squares of each row can be summed, or say which entry is too large.

    Messages count rows from ``first_row``.
    """
    limit = range_of(batch.dtype).largest / math.sqrt(batch.shape[1])
    Z = batch.values.data if batch.is_sparse else batch.values
    largest = _largest_magnitude(Z)
    if largest <= limit:
        return batch
    if batch.is_sparse:
        i = int(np.flatnonzero(~(np.abs(Z) <= limit))[0])
        row = int(np.searchsorted(batch.values.indptr, i, side="right")) - 1
        value, column = Z[i], int(batch.values.indices[i])
    else:
        row, column = np.argwhere(~(np.abs(Z) <= limit) & ~np.isnan(Z))[0]
        value = Z[row, column]
    what = "infinity" if np.isinf(value) else f"{value:.3g}, too large for {batch.dtype} arithmetic"
    raise ValueError(
        f"X contains {what}, first in row {first_row + row}, column {column}; "
        "mark entries that are not known as NaN, clip them, or rescale X"
    )


def complaint_about_tiny(batch: Batch) -> str | None:
    """Return what to say about data that are too small as a whole; None if they are not, or if all are zero.

    Samples that are tiny beside others are negligible, so that only the caller knows whether it matters.
    """
    Z = batch.values.data if batch.is_sparse else batch.values
    largest = _largest_magnitude(Z)
    if not 0.0 < largest < range_of(batch.dtype).smallest:
        return None
    return (
        f"X contains no magnitude above {largest:.3g}, which is too small for {batch.dtype} arithmetic; "
        "rescale X"
    )


def _largest_magnitude(Z: Array) -> float:
    """Return the largest magnitude of the entries that are not NaN; zero if there are none."""
    if not Z.size:
        return 0.0
    largest = max(float(np.fmax.reduce(Z, axis=None)), -float(np.fmin.reduce(Z, axis=None)))
    return 0.0 if math.isnan(largest) else largest
