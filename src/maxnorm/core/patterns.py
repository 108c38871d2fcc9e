"""What the pattern of observed entries says about rows and columns, whatever the values of the entries.

People rate what they choose to watch, so that *which* entries are observed tells something about rows and
columns. The pattern is the matrix of ones and zeros P. With the numbers of entries n_i of its rows and m_j of
its columns, the singular vectors of ``P_ij / sqrt(n_i m_j)`` show which columns are observed by the same
rows. Divided by ``sqrt(m_j)``, they are the features of the columns; the features of a row are the averages
over the columns that it observes. Nothing is stored per row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from maxnorm.core.linalg import like
from maxnorm.core.types import Array


class PatternRule(NamedTuple):
    """How much of a pattern is used."""

    vectors: int = 40  #: singular vectors, which tell what is wanted
    informative: int = 20  #: of these, which tell what rows and columns are like
    rows_per_vector: int = 10  #: least number of rows, and of columns, for each vector
    oversampled: int = 10  #: vectors more than needed, for accuracy
    iterations: int = 6  #: of the subspace iteration
    ridge: float = 1.0  #: penalty of regressions, in rows or columns
    noise: float = 0.1  #: squared singular value above which a vector is more signal than chance


RULE = PatternRule()
ROUNDING = 1e-12  # relative standard deviation up to which a feature is constant


@dataclass(frozen=True, eq=False)
class Pattern:
    """Features of columns, from which those of rows follow."""

    columns: Array  #: p x k, of mean square one, in single precision; k is zero if the pattern is not used
    row_scale: Array  #: k, root mean squares of the averages over the columns of a row
    row_mean: Array  #: k, means of these averages
    strength: Array  #: k, how much each of them says about what rows want
    given_columns: Array | None = None  #: p x m, given features of columns, standardised
    row_units: Array | None = None  #: 2 x m, means and standard deviations of given features of rows

    @classmethod
    def unused(cls, n_columns: int) -> Pattern:
        """Return a pattern that says nothing."""
        return cls(np.zeros((n_columns, 0), np.float32), np.zeros(0), np.zeros(0), np.zeros(0))

    @classmethod
    def of(cls, Z: csr_array, seed: int) -> Pattern:
        """Return the features of the pattern of a matrix."""
        n, p = Z.shape
        n_rows, n_columns = np.diff(Z.indptr), np.bincount(Z.indices, minlength=p)
        least = min(int(np.count_nonzero(n_rows)), int(np.count_nonzero(n_columns)))
        k = min(RULE.vectors, least // RULE.rows_per_vector)
        if not k:
            return cls.unused(p)
        row_norm, column_norm = 1.0 / np.sqrt(np.maximum(n_rows, 1)), 1.0 / np.sqrt(np.maximum(n_columns, 1))
        Q = like(Z, np.repeat(row_norm, n_rows) * column_norm[Z.indices])
        V = np.random.default_rng(seed).standard_normal((p, min(k + RULE.oversampled, n, p)))
        for _ in range(RULE.iterations):
            V = np.linalg.qr(Q.T @ (Q @ V))[0]
        _, singular_values, rotation = np.linalg.svd(Q @ V, full_matrices=False)
        found = column_norm[:, None] * (V @ rotation[:k].T)
        size, squares = root_mean_square(found), singular_values[:k] ** 2
        averages = (like(Z, np.repeat(row_norm**2, n_rows)) @ (found / size))[n_rows > 0]
        # The more a vector may be chance, the more it is drawn towards zero.
        strength = size**2 * squares / (squares + RULE.noise)
        columns = (found / size).astype(np.float32)  # which is precise enough, and half as large
        return cls(columns, root_mean_square(averages), averages.mean(axis=0), strength)

    def with_given(self, of_rows: Array | None, of_columns: Array | None) -> Pattern:
        """Return the pattern with given features of rows and columns, in which NaN marks unknown values.

        The means and standard deviations of the features of rows are those of the given rows.
        """
        units = None if of_rows is None else units_of(of_rows)
        columns = None if of_columns is None else in_units(of_columns, units_of(of_columns))
        return replace(self, given_columns=columns, row_units=units)

    @property
    def n_informative(self) -> int:
        """Number of singular vectors that tell what rows and columns are like."""
        return min(self.columns.shape[1], RULE.informative)

    @property
    def n_given(self) -> int:
        """Number of given features of rows."""
        return 0 if self.row_units is None else self.row_units.shape[1]

    @property
    def n_features(self) -> int:
        """Number of features of a row: its averages, given features and a constant; zero if only that."""
        found = self.n_informative + self.n_given
        return found + 1 if found else 0

    def of_rows(self, Z: csr_array, given: Array | None = None) -> Array:
        """Return the features of rows; they are means for rows without entries and for unknown features."""
        if not self.n_features:
            return np.zeros((Z.shape[0], 0))
        k, counts = self.n_informative, np.diff(Z.indptr)
        share = np.repeat(1.0 / np.maximum(counts, 1), counts)
        averages: Array = like(Z, share.astype(np.float32)) @ self.columns[:, :k]
        averages[counts == 0] = self.row_mean[:k]
        parts: list[Array] = [averages / self.row_scale[:k], np.ones(len(averages))]
        if self.row_units is not None:
            usual = np.zeros((len(averages), self.n_given))
            parts.insert(1, usual if given is None else in_units(given, self.row_units))
        return np.column_stack(parts)

    def of_columns(self, counts: Array) -> Array:
        """Return the features of columns, given their numbers of entries.

        The number of entries is one of them, because popular columns differ from others. That of a row is
        not: the entries of a row arrive one by one, so that their number tells little. Columns without
        entries are unpopular. But if features of columns are given, columns without entries are taken to be
        new, and their other features are means over all entries.
        """
        parts: list[Array] = []
        if self.n_informative:
            found = np.column_stack([self.columns[:, : self.n_informative], np.log(np.maximum(counts, 1.0))])
            if self.given_columns is not None:
                found[counts == 0.0] = counts @ found / max(float(counts.sum()), 1.0)
            parts = [found]
        if self.given_columns is not None:
            parts.append(self.given_columns)
        return np.column_stack([*parts, np.ones(len(counts))]) if parts else np.zeros((len(counts), 0))

    def demand(self, Z: csr_array, counts: Array) -> Array:
        """Return how much rows want each column, going by the columns that they have; any units.

        It is the projection of the pattern on the singular vectors. Rows without entries want what others
        have.
        """
        wishes = like(Z, np.ones(Z.nnz, np.float32)) @ self.columns * self.strength.astype(np.float32)
        found: Array = wishes @ self.columns.T * counts.astype(np.float32)
        found[np.diff(Z.indptr) == 0] = counts
        return found


def root_mean_square(X: Array) -> Array:
    """Return the root mean square of each column, one for a column of zeros."""
    size = np.sqrt(np.mean(X**2, axis=0))
    return np.where(size > 0.0, size, 1.0)


def units_of(features: Array) -> Array:
    """Return the means and the standard deviations of features, in two rows; NaN is left out.

    The scale of a constant feature is one. Rounding errors of its mean are no scale: a new value, divided by
    them, would be enormous.
    """
    known = ~np.isnan(features)
    counts = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, features, 0.0).sum(axis=0) / counts
    scale = np.sqrt(np.where(known, (features - mean) ** 2, 0.0).sum(axis=0) / counts)
    return np.vstack([mean, np.where(scale > ROUNDING * np.abs(mean), scale, 1.0)])


def in_units(features: Array, units: Array) -> Array:
    """Return features minus their means, divided by their scales; zero where a feature is unknown."""
    return np.nan_to_num((features - units[0]) / units[1], nan=0.0)


def regress(features: Array, targets: Array) -> Array:
    """Return the weights of features that predict targets best."""
    return solve_ridge(features.T @ features, features.T @ targets)


def solve_ridge(gram: Array, products: Array) -> Array:
    """Return the weights of a regression with a slight penalty, from its sums."""
    return np.linalg.solve(gram + RULE.ridge * np.eye(len(gram)), products)
