"""The bias model of ratings: what the mean, the row and the column explain of an entry.

An entry ``z_ij`` is modelled as ``mu + b_i + c_j`` plus the low-rank part. With the mean ``mu`` known, the
bias of column j is a shrunken average of its residuals and so is the bias of row i::

    c_j = sum_i (z_ij - mu - b_i) / (n_j + DAMPING)
    b_i = sum_j (z_ij - mu - c_j) / (n_i + DAMPING)

where ``n_j`` and ``n_i`` are the numbers of observed entries of the column and of the row.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from maxnorm.core.types import Array

# Biases are shrunk as if this many entries with a bias of zero had been observed as well: five damps the bias
# of a row with five entries by half.
DAMPING = 5.0


@dataclass(frozen=True, eq=False)
class BiasModel:
    """Sums from which the mean and the biases of the columns follow.

    The sums form a commutative monoid like the sufficient statistics. The bias of a row follows from the
    entries of the row, so that nothing is stored per row.
    """

    total: float  #: sum of the entries
    count: float  #: number of the entries
    sums: Array  #: per column, sum of its entries less the mean and the biases of their rows
    counts: Array  #: per column, number of its entries

    @classmethod
    def zeros(cls, n_features: int) -> BiasModel:
        """Return the bias model before the first sample."""
        return cls(0.0, 0.0, np.zeros(n_features), np.zeros(n_features))

    def __add__(self, other: BiasModel) -> BiasModel:
        return BiasModel(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def scaled(self, factor: float) -> BiasModel:
        """Return the model with the weights of all samples multiplied by ``factor``."""
        return BiasModel(*(factor * getattr(self, f.name) for f in fields(self)))

    @property
    def mean(self) -> float:
        """Mean of all entries."""
        return self.total / self.count if self.count else 0.0

    @property
    def columns(self) -> Array:
        """Bias of each column."""
        return self.sums / (self.counts + DAMPING)

    def rows(self, Z: csr_array) -> Array:
        """Return the bias of each row of Z, given the mean and the biases of the columns."""
        residual = Z.data - self._mean_of(Z) - self.columns[Z.indices]
        return sum_rows(residual, Z.indptr) / (np.diff(Z.indptr) + DAMPING)

    def residual(self, Z: csr_array, rows: Array) -> csr_array:
        """Return Z less the mean and the biases, given the biases of its rows."""
        data = Z.data - self.mean - self.columns[Z.indices] - np.repeat(rows, np.diff(Z.indptr))
        return csr_array((data, Z.indices, Z.indptr), shape=Z.shape)

    def _mean_of(self, Z: csr_array) -> float:
        """Return the mean so far, or the mean of a first batch, which its rows would otherwise absorb."""
        return self.mean if self.count or not Z.nnz else float(Z.data.mean())

    def from_batch(self, Z: csr_array, rows: Array, sample_weight: Array) -> BiasModel:
        """Return the sums of a batch alone, given the biases of its rows and the model before it."""
        lengths = np.diff(Z.indptr)
        weight = np.repeat(sample_weight, lengths)
        residual = weight * (Z.data - self._mean_of(Z) - np.repeat(rows, lengths))
        return BiasModel(
            float(weight @ Z.data),
            float(weight.sum()),
            sum_columns(residual, Z),
            sum_columns(weight, Z),
        )


def fit_bias(Z: csr_array, rounds: int = 3) -> BiasModel:
    """Return the bias model of a sparse matrix, by estimating columns and rows in turn."""
    model = BiasModel.zeros(Z.shape[1])
    for _ in range(rounds):
        model = model.from_batch(Z, model.rows(Z), np.ones(Z.shape[0]))
    return model


def sum_columns(values: Array, Z: csr_array) -> Array:
    """Return the sum of the values of each column, given one value for each entry of a CSR matrix."""
    return np.asarray(np.bincount(Z.indices, values, Z.shape[1]), dtype=np.float64)


def sum_rows(values: Array, indptr: NDArray[np.integer[Any]]) -> Array:
    """Return the sum of each row's values in a CSR matrix; zero for rows without entries."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return np.asarray(np.bincount(rows, values, len(indptr) - 1), dtype=np.float64)
