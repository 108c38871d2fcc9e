"""A model of the entries of a matrix whose rows and columns are known with uncertainty only.

In the units of a gauge, the entry of row i and column j is::

    y_ij = l_j . r_i + c_j + b_i + noise,    noise ~ N(0, psi_j / rho_i)

with factors r_i, l_j and biases b_i, c_j. A row ``x_i = (r_i, b_i)`` and a column ``(l_j, c_j)`` are normally
distributed with covariances that are learnt, about means that may depend on *which* entries are observed
(:mod:`maxnorm.core.patterns`). The precision rho_i of a row has a gamma distribution with mean one.

The model is fitted by variational Bayes: rows and columns have posterior distributions, and each side is
computed from the first and second moments of the other. This takes the uncertainty of both into account, so
that spare factors vanish and nothing need be chosen. What the columns need of the rows are sums over the
rows (:class:`EntrySums`): they can be added, saved and merged, and no row is kept.

Some entries may be grossly wrong. An entry is then believed with the probability that it is not, given the
other entries of its row: a gross error may have any value within a wide range. The share of gross errors is
learnt as well; it is zero in a model that trusts all entries.

Both sides are written as vectors with a constant one at their end, ``(r, b, 1)`` and ``(l, c, 1)``; an entry
is the product of the first with the second after its last two numbers were swapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, ndtr

from maxnorm.core.bias import sum_columns, sum_rows
from maxnorm.core.factor_model import shrink_variances
from maxnorm.core.gauge import Gauge
from maxnorm.core.linalg import (
    entries_of_product,
    like,
    products,
    symmetric,
    triangle_rows,
    upper_triangle,
)
from maxnorm.core.patterns import Pattern, regress, solve_ridge
from maxnorm.core.types import Array, Index

GRAM_NUMBERS = 2**19  # numbers in the Gram matrices of the rows that are explained at a time
DOUBLE_NUMBERS = 2**22  # in the Gram matrices of all columns; with more, these have single precision
NORMAL_MEDIAN = 0.6745  # median magnitude of a standard normal variable
SMALLEST_SHARE = 1e-3  # of its residual that an entry is taken to leave, however much it rules its row
SMALLEST_DEMAND = 1e-12  # for columns that nobody wants, so that they are ordered by their values


class EntryRule(NamedTuple):
    """Constants of the model, none of which matters much."""

    first_factor: float = 0.1  #: standard deviation of the random factors of columns from which a fit starts
    first_bias_precision: float = 5.0  #: precision of biases at the start; that of factors is one
    no_bias_precision: float = 1e8  #: precision of the biases of rows if they have none
    row_precision: float = 20.0  #: degrees of freedom of the precision of the noise of a row
    precision_steps: int = 3  #: steps that find the precision of a row
    pattern_rounds: int = 2  #: rounds after which the pattern of what is observed is taken into account
    prior_rows: float = 1e-3  #: weight of the unit matrix in the covariances of rows and columns
    gross_share: float = 0.05  #: of entries, at the start, if some may be grossly wrong
    gross_range: tuple[float, float] = (1e-4, 0.5)  #: of this share
    gross_steps: int = 3  #: steps that find out which entries of a row are wrong


RULE = EntryRule()


@dataclass(frozen=True, eq=False)
class EntrySums:
    """Sums over rows, from which the columns and the distribution of the rows follow.

    They form a commutative monoid. With d factors, rows are vectors (r, b, 1) of D = d + 2 numbers, and
    symmetric matrices are stored as their upper triangles.
    """

    weight: float  #: number of rows, weighted
    entries: float  #: number of entries, weighted, gross errors included
    rows: Array  #: D (D + 1) / 2, sum of the second moments of the rows
    features: Array  #: K x K, sum of f f^T, where f are the K features of the pattern of a row
    features_rows: Array  #: K x (d + 1), sum of f x^T, where x are the means of the rows
    counts: Array  #: p, per column the number of its entries that are believed
    squares: Array  #: p, the sum of rho y^2
    products: Array  #: p x D, the sum of rho y (r, b, 1)
    grams: Array  #: p x D (D + 1) / 2, the sum of rho times the second moments of its rows

    @classmethod
    def zeros(cls, n_columns: int, n_factors: int, n_features: int) -> EntrySums:
        """Return the sums before the first row."""
        p, d, k = n_columns, n_factors, n_features
        size = (d + 2) * (d + 3) // 2
        return cls(
            0.0,
            0.0,
            np.zeros(size),
            np.zeros((k, k)),
            np.zeros((k, d + 1)),
            np.zeros(p),
            np.zeros(p),
            np.zeros((p, d + 2)),
            np.zeros((p, size), gram_type(p, d + 2)),
        )

    def __add__(self, other: EntrySums) -> EntrySums:
        return other.plus(self, 1.0)

    def scaled(self, factor: float) -> EntrySums:
        """Return the sums with the weights of all rows multiplied by ``factor``."""
        return EntrySums(*(factor * getattr(self, f.name) for f in fields(self)))

    def plus(self, other: EntrySums, factor: float) -> EntrySums:
        """Return these sums plus ``factor`` times other ones, with no copy in between, which may be large."""
        total = other.scaled(factor)
        for f in fields(self):
            if f.name not in ("weight", "entries"):
                getattr(total, f.name)[...] += getattr(self, f.name)
        return replace(total, weight=total.weight + self.weight, entries=total.entries + self.entries)


class Rows(NamedTuple):
    """What is known of rows, given their entries."""

    mean: Array  #: b x (d + 1), means of (r, b)
    covariance: Array  #: b x (d + 1) x (d + 1)
    precision: Array  #: b, rho
    features: Array  #: b x K, features of the pattern of what is observed
    belief: Array  #: of each entry, in the order of the entries, the probability that it is not grossly wrong

    @property
    def moments(self) -> Array:
        """Second moments of (r, b, 1), b x D (D + 1) / 2."""
        return second_moments(self.mean, self.covariance)


@dataclass(frozen=True, eq=False)
class EntryModel:
    """What is known of the columns, and the distributions of rows, columns and noise."""

    gauge: Gauge  #: the units of the model
    mean: Array  #: p x (d + 1), means of the columns (l, c)
    covariance: Array  #: p x (d + 1) (d + 2) / 2, covariances of the columns, as upper triangles
    noise: Array  #: p, variances of the noise
    row_precision: Array  #: (d + 1) x (d + 1), inverse of the covariance of the rows
    column_precision: Array  #: (d + 1) x (d + 1), inverse of the covariance of the columns
    row_weights: Array  #: K x (d + 1), the mean of a row is the product of its features with these weights
    pattern: Pattern  #: which columns are observed together
    n_rounds: int = 0  #: updates of the columns
    gross_share: float = 0.0  #: share of entries that are grossly wrong
    gross_width: float = 1.0  #: width of the range in which gross errors may lie, in the units of the model

    @classmethod
    def start(
        cls, gauge: Gauge, n_factors: int, pattern: Pattern, seed: int, *, row_biases: bool = True
    ) -> EntryModel:
        """Return a first model, with random factors of the columns that are taken to be exact."""
        p, q = len(gauge.centre), n_factors + 1
        mean = np.zeros((p, q))
        mean[:, :-1] = RULE.first_factor * np.random.default_rng(seed).standard_normal((p, n_factors))
        bias = RULE.first_bias_precision
        of_rows, of_columns = (
            np.diag(np.append(np.ones(n_factors), value))
            for value in (bias if row_biases else RULE.no_bias_precision, bias)
        )
        covariance = np.zeros((p, q * (q + 1) // 2), gram_type(p, q + 1))
        weights = np.zeros((pattern.n_features, q))
        return cls(gauge, mean, covariance, np.ones(p), of_rows, of_columns, weights, pattern)

    def doubting(self, Z: csr_array) -> EntryModel:
        """Return the model with gross errors, in a range that the entries suggest."""
        largest = float(np.abs(self.standardise(Z).data).max(initial=1.0))
        return replace(self, gross_share=RULE.gross_share, gross_width=2.0 * largest)

    @property
    def n_factors(self) -> int:
        """Number of factors, biases not counted."""
        return self.mean.shape[1] - 1

    def sums(self) -> EntrySums:
        """Return the sums before the first row."""
        return EntrySums.zeros(len(self.mean), self.n_factors, self.pattern.n_features)

    @cached_property
    def _columns(self) -> Array:
        """The columns with a one at their end, as rows are multiplied with them: p x D."""
        return swap(with_one(self.mean))

    def _moments_of(self, columns: Index) -> Array:
        """Return the second moments of some columns, in the order in which rows are multiplied with them."""
        q = self.mean.shape[1]
        moments = np.empty((len(columns), (q + 1) * (q + 2) // 2), self.covariance.dtype)
        for part in blocks(np.arange(len(columns)), q + 1):
            some = columns[part]
            covariance = symmetric(self.covariance[some], q)
            moments[part] = swapped_moments(second_moments(self.mean[some], covariance), q + 1)
        return moments

    # -- rows, given the columns ----------------------------------------------------------------------

    def explain(self, Z: csr_array, given: Array | None = None) -> Rows:
        """Return what is known of rows, given their entries in the units of the data, and their features."""
        b, q = Z.shape[0], self.mean.shape[1]
        belief = np.ones(Z.nnz) if self.gross_share else np.broadcast_to(1.0, Z.nnz)
        features = self.pattern.of_rows(Z, given)
        found = Rows(np.zeros((b, q)), np.zeros((b, q, q)), np.ones(b), features, belief)
        used, places = np.unique(Z.indices, return_inverse=True)
        moments = self._moments_of(used)
        for part in blocks(np.arange(b), q + 1):
            block = slice(part[0], part[-1] + 1)
            some = slice(Z.indptr[part[0]], Z.indptr[part[-1] + 1])
            here = Rows(
                found.mean[block],
                found.covariance[block],
                found.precision[block],
                found.features[block],
                found.belief[some],
            )
            if self.gross_share:
                self._explain_doubtful(Z[block], places[some], moments, here)
            else:
                self._explain(Z[block], places[some], moments, here)
        return found

    def _explain(
        self,
        Z: csr_array,
        places: Index,
        moments: Array,
        found: Rows,
        n_steps: int = RULE.precision_steps,
    ) -> None:
        """Explain a block of rows, given how far entries are believed; results are written to ``found``.

        ``moments[places[k]]`` are the second moments of the column of entry k.
        """
        Y = self.standardise(Z)
        certainty = found.belief / self.noise[Z.indices]
        D = self.mean.shape[1] + 1
        weights = certainty.astype(moments.dtype, copy=False)
        pattern = csr_array((weights, places, Z.indptr), shape=(Z.shape[0], len(moments)))
        H = symmetric((pattern @ moments).astype(np.float64, copy=False), D)
        G = like(Z, certainty * Y.data) @ self._columns
        squares, counts = sum_rows(certainty * Y.data**2, Z.indptr), sum_rows(found.belief, Z.indptr)
        prior = found.features @ self.row_weights @ self.row_precision
        for _ in range(n_steps):
            rho = found.precision
            found.mean[...], found.covariance[...] = posterior(
                rho[:, None, None] * H, rho[:, None] * G, self.row_precision, prior
            )
            full = with_one(found.mean)
            errors = squares - 2.0 * np.einsum("ij,ij->i", G, full)
            errors += np.einsum("ijk,ij,ik->i", H, full, full)
            errors += np.einsum("ijk,ijk->i", H[:, :-1, :-1], found.covariance)
            found.precision[...] = (RULE.row_precision + counts) / (
                RULE.row_precision + np.maximum(errors, 0.0)
            )

    def _explain_doubtful(self, Z: csr_array, places: Index, moments: Array, found: Rows) -> None:
        """Explain a block of rows, some of whose entries may be grossly wrong.

        Entries are first judged by what is known before any of them, then by the others of their row.
        """
        found.mean[...] = found.features @ self.row_weights
        found.covariance[...] = np.linalg.inv(self.row_precision)
        found.belief[...] = 0.0
        for _ in range(RULE.gross_steps):
            found.belief[...] = self._belief(Z, found)
            self._explain(Z, places, moments, found, n_steps=1)

    def _belief(self, Z: csr_array, rows: Rows) -> Array:
        """Return the probabilities that entries are not grossly wrong, given the others of their rows.

        The influence of an entry on its own row, in so far as it was believed, is taken out: with the
        variance s of what the row says of it and its own variance v, the share ``belief s / v`` of its
        residual is missing.
        """
        of_row = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
        columns = self._columns[Z.indices]
        residual = self.standardise(Z).data - np.einsum("ij,ij->i", with_one(rows.mean)[of_row], columns)
        variance = self.noise[Z.indices] / rows.precision[of_row]
        spread = np.zeros(Z.nnz)
        for k in range(rows.mean.shape[1]):
            spread += columns[:, k] * np.einsum("ij,ij->i", rows.covariance[of_row, k], columns[:, :-1])
        kept = np.maximum(1.0 - rows.belief * spread / variance, SMALLEST_SHARE)
        predictive = variance + spread / kept
        square = (residual / kept) ** 2 / predictive
        log_odds = np.log(self.gross_share / (1.0 - self.gross_share) / self.gross_width)
        log_odds = log_odds + 0.5 * (np.log(2.0 * np.pi * predictive) + square)
        chance: Array = expit(-log_odds)
        return chance

    def standardise(self, Z: csr_array) -> csr_array:
        """Return entries in the units of the model."""
        return like(Z, (Z.data - self.gauge.centre[Z.indices]) / self.gauge.scale[Z.indices])

    def measure(self, Z: csr_array, rows: Rows, weight: Array) -> EntrySums:
        """Return the sums over rows that were explained, given their weights."""
        Y = self.standardise(Z)
        each = np.repeat(weight, np.diff(Z.indptr))
        each *= rows.belief
        counts = sum_columns(each, Z)
        each *= np.repeat(rows.precision, np.diff(Z.indptr))
        moments, single_or_double = rows.moments, self.covariance.dtype
        return EntrySums(
            weight=float(weight.sum()),
            entries=float(weight @ np.diff(Z.indptr)),
            rows=weight @ moments,
            features=(rows.features * weight[:, None]).T @ rows.features,
            features_rows=(rows.features * weight[:, None]).T @ rows.mean,
            counts=counts,
            squares=sum_columns(each * Y.data**2, Z),
            products=np.asarray(like(Z, each * Y.data).T @ with_one(rows.mean)),
            grams=np.asarray(
                like(Z, each.astype(single_or_double, copy=False)).T
                @ moments.astype(single_or_double, copy=False)
            ),
        )

    # -- columns, given the sums over rows ------------------------------------------------------------

    def updated(self, seen: EntrySums) -> EntryModel:
        """Return the model that follows from sums: columns, then distributions of noise, rows and columns."""
        uses_pattern = self.n_rounds >= RULE.pattern_rounds
        there = np.flatnonzero(seen.counts > 0.0)
        expected = self._expected_columns(seen.counts) if uses_pattern else np.zeros_like(self.mean)
        mean = expected.copy()
        covariance = np.empty_like(self.covariance)
        covariance[:] = packed_upper(np.linalg.inv(self.column_precision))
        for part in blocks(there, self.mean.shape[1] + 1):
            mean[part], covariance[part] = self._columns_given(seen, part, expected[part])
        left, q = np.subtract(mean, expected, out=expected), mean.shape[1]  # zero for columns without entries
        is_there = (seen.counts > 0.0).astype(covariance.dtype)
        spread = left.T @ left + symmetric((is_there @ covariance)[None], q)[0]
        row_weights = self.row_weights
        if uses_pattern:
            row_weights = solve_ridge(seen.features, seen.features_rows)
        new = replace(
            self,
            mean=mean,
            covariance=covariance,
            row_precision=self._row_precision(seen, row_weights),
            column_precision=inverse_mean(spread, float(len(there))),
            row_weights=row_weights,
            n_rounds=self.n_rounds + 1,
            gross_share=self._gross_share(seen),
        )
        return replace(new, noise=shrink_variances(new.errors(seen), seen.counts))

    def _gross_share(self, seen: EntrySums) -> float:
        """Return the share of entries that are not believed; zero in a model that trusts all of them."""
        if not self.gross_share:
            return 0.0
        share = 1.0 - float(seen.counts.sum()) / seen.entries if seen.entries else self.gross_share
        return float(np.clip(share, *RULE.gross_range))

    def _expected_columns(self, counts: Array) -> Array:
        """Return the means of the columns that the pattern suggests."""
        features = self.pattern.of_columns(counts)
        there = (counts > 0.0)[:, None]  # columns without entries do not count
        return features @ regress(features * there, self.mean)

    def _columns_given(self, seen: EntrySums, part: Index, expected: Array) -> tuple[Array, Array]:
        """Return the means and covariances of some columns, given the sums and the means of their prior."""
        D, certainty = self.mean.shape[1] + 1, 1.0 / self.noise[part, None]
        H = symmetric(swapped_moments(certainty * seen.grams[part], D), D)
        G = swap(certainty * seen.products[part])
        mean, covariance = posterior(H, G, self.column_precision, expected @ self.column_precision)
        return mean, packed_upper(covariance)

    def errors(self, seen: EntrySums) -> Array:
        """Return the expected sums of the squared errors of each column, in the units of the model."""
        errors = seen.squares - 2.0 * np.einsum("ij,ij->i", self._columns, seen.products)
        D = self.mean.shape[1] + 1
        for part in blocks(np.arange(len(errors)), D):
            errors[part] += (self._moments_of(part) * seen.grams[part]) @ multiplicity(D)
        return np.maximum(errors, 0.0)

    def mean_cost(self, seen: EntrySums) -> float:
        """Return half the expected squared errors of a row, in the units of the data."""
        return 0.5 * float(self.gauge.scale**2 @ self.errors(seen)) / seen.weight if seen.weight else 0.0

    def _row_precision(self, seen: EntrySums, weights: Array) -> Array:
        """Return the inverse of the covariance of rows about the means that their patterns suggest."""
        moment = symmetric(seen.rows[None], self.mean.shape[1] + 1)[0, :-1, :-1]
        cross = seen.features_rows.T @ weights
        moment = moment - cross - cross.T + weights.T @ seen.features @ weights
        return inverse_mean(moment, seen.weight)

    # -- predictions ----------------------------------------------------------------------------------

    @cached_property
    def rotation(self) -> Array:
        """The matrix by which factors of rows are multiplied to make them uncorrelated, of variance one."""
        covariance = np.linalg.inv(self.row_precision)[:-1, :-1]
        root = np.linalg.cholesky(covariance)
        loadings = self.gauge.scale[:, None] * (self.mean[:, :-1] @ root)
        axes = np.linalg.eigh(loadings.T @ loadings)[1][:, ::-1]
        return np.linalg.solve(root.T, axes)

    @property
    def basis(self) -> Array:
        """The factors of the columns in principal order, in the units of the data: p x d."""
        return self.gauge.scale[:, None] * np.linalg.solve(self.rotation, self.mean[:, :-1].T).T

    def offsets(self, rows: Rows) -> Array:
        """Return what location and biases explain of each entry, in the units of the data."""
        biases = rows.mean[:, -1:] + self.mean[:, -1]
        return self.gauge.centre + self.gauge.scale * biases

    def predict(self, rows: Rows) -> Array:
        """Return all entries of rows, in the units of the data."""
        return self.gauge.centre + self.gauge.scale * (with_one(rows.mean) @ self._columns.T)

    def merits(self, demand: Array, columns: Index, predicted: Array) -> Array:
        """Return how much columns are to be recommended, given the demand for them and predicted values.

        It is the demand times the chance that the value exceeds what is usual.
        """
        deviation = self.gauge.scale * np.sqrt(self.noise)
        liking = ndtr((predicted - self.gauge.centre[columns]) / deviation[columns])
        return (np.maximum(demand, 0.0) + SMALLEST_DEMAND) * liking

    def values_at(self, rows: Rows, places: Index, columns: Index) -> Array:
        """Return the predictions of chosen entries: those of row ``places[k]`` and column ``columns[k]``."""
        entries = entries_of_product(places, columns, with_one(rows.mean), self._columns)
        return self.gauge.centre[columns] + self.gauge.scale[columns] * entries

    def predict_at(self, rows: Rows, places: Index, columns: Index) -> tuple[Array, Array]:
        """Return the predictions of chosen entries, and the standard deviations of the values themselves.

        Entry k belongs to row ``places[k]`` and column ``columns[k]``.
        """
        values, variances = np.empty(len(places)), np.empty(len(places))
        twice, moments = multiplicity(self.mean.shape[1] + 1), rows.moments
        full = with_one(rows.mean)
        used, which = np.unique(columns, return_inverse=True)
        of_columns = self._moments_of(used)
        for part in blocks(np.arange(len(places)), full.shape[1]):
            i, j = places[part], columns[part]
            values[part] = np.einsum("ij,ij->i", full[i], self._columns[j])
            squares = np.einsum("ij,ij,j->i", moments[i], of_columns[which[part]], twice)
            spread = np.maximum(squares - values[part] ** 2, 0.0)
            variances[part] = spread + self.noise[j] / rows.precision[i]
        centre, scale = self.gauge.centre[columns], self.gauge.scale[columns]
        return centre + scale * values, scale * np.sqrt(variances)


def gram_type(n_columns: int, D: int) -> type[np.floating[Any]]:
    """Return the precision of the D x D Gram matrices and covariances of columns.

    It is single for many columns, which halves the memory. The noise of a column is then not found to be
    smaller than about 2e-4 of its scale.
    """
    return np.float32 if n_columns * D * (D + 1) // 2 > DOUBLE_NUMBERS else np.float64


def blocks(index: Index, D: int) -> Iterator[Index]:
    """Yield parts of an index, so that the D x D matrices of each part need little memory."""
    size = max(1, GRAM_NUMBERS // D**2)
    for start in range(0, len(index), size):
        yield index[start : start + size]


def posterior(H: Array, G: Array, precision: Array, prior: Array) -> tuple[Array, Array]:
    """Return means and covariances of vectors x that end with a one, given quadratic forms.

    The log density is ``-1/2 (x, 1)^T H (x, 1) + G^T (x, 1) - 1/2 x^T precision x + prior^T x``, where each
    vector has an H, a G and a prior of its own.
    """
    covariance = np.linalg.inv(H[:, :-1, :-1] + precision)
    mean = np.einsum("ijk,ik->ij", covariance, G[:, :-1] - H[:, :-1, -1] + prior)
    return mean, covariance


def inverse_mean(total: Array, weight: float) -> Array:
    """Return the inverse of a mean covariance, kept away from singular matrices."""
    q = len(total)
    return np.linalg.inv((total + RULE.prior_rows * np.eye(q)) / (weight + RULE.prior_rows))


def with_one(x: Array) -> Array:
    """Return vectors with a one at their end."""
    return np.column_stack([x, np.ones(len(x))])


def swap(x: Array) -> Array:
    """Return vectors whose last two numbers are exchanged."""
    return np.concatenate([x[:, :-2], x[:, :-3:-1]], axis=1)


def second_moments(mean: Array, covariance: Array) -> Array:
    """Return the second moments of vectors (x, 1), as upper triangles, given means and covariances of x."""
    moments, q = products(with_one(mean)), mean.shape[1]
    for i, part in enumerate(triangle_rows(q + 1)):
        if i < q:
            moments[:, part.start : part.stop - 1] += covariance[:, i, i:]
    return moments


def swapped_moments(moments: Array, D: int) -> Array:
    """Return second moments, as upper triangles, of vectors whose last two numbers are exchanged."""
    order = np.r_[0 : D - 2, D - 1, D - 2]
    place = np.zeros((D, D), dtype=np.intp)
    left, right = upper_triangle(D)
    place[left, right] = place[right, left] = np.arange(len(left))
    return moments[:, place[order[left], order[right]]]


def packed_upper(matrices: Array) -> Array:
    """Return the upper triangles of symmetric matrices, which ``symmetric`` undoes."""
    left, right = upper_triangle(matrices.shape[-1])
    return matrices[..., left, right]


def multiplicity(D: int) -> Array:
    """Return how often each number of an upper triangle occurs in the full matrix."""
    left, right = upper_triangle(D)
    return np.where(left == right, 1.0, 2.0)


class UnitsRule(NamedTuple):
    """When the columns of a matrix are taken to have the same units, as those of ratings have."""

    entries: int = 5  #: of a column, with fewer of which its units are not judged
    ratio: float = 4.0  #: of the scale of a column to that of the others, or the reverse, at most
    chance: float = 3.0  #: standard errors of a log scale by which the ratio may be exceeded
    quiet: float = 0.1  #: share of columns whose scale may be smaller than that
    deviations: float = 4.0  #: of the mean of a column from that of all entries, in scales, at most
    wrong: float = 0.02  #: share of columns that may exceed these limits because of gross errors


UNITS = UnitsRule()


def gauge_of_entries(Z: csr_array, *, robust: bool = False) -> tuple[Gauge, bool]:
    """Return the units in which entries are modelled, and whether all columns have the same ones.

    If they have, the location of a column is left to its bias, which is estimated with its uncertainty. The
    units are means and standard deviations, or medians and median deviations if some entries may be wrong.
    """
    p = Z.shape[1]
    counts = np.bincount(Z.indices, minlength=p)
    unit = float(np.max(np.abs(Z.data), initial=0.0)) or 1.0  # avoids overflow of squares
    values = Z.data / unit
    means = sum_columns(values, Z) / np.maximum(counts, 1)
    squares = sum_columns((values - means[Z.indices]) ** 2, Z)
    scales = np.sqrt(squares / np.maximum(counts - 1, 1))
    common, mean = float(np.std(values)) or 1.0, float(np.mean(values))
    judged = scales
    if robust:
        means[:] = column_medians(like(Z, values))
        judged = column_medians(like(Z, np.abs(values - means[Z.indices]))) / NORMAL_MEDIAN
        scales = np.where(judged > 0.0, judged, scales)  # half of the entries of a column may be equal
        mean = float(np.median(values))
        common = float(np.median(np.abs(values - mean))) / NORMAL_MEDIAN or common
    if _have_same_units(means - mean, judged, counts, common, UNITS.wrong if robust else 0.0):
        return Gauge(np.full(p, unit * mean), np.full(p, unit * common)), True
    centre = np.where(counts > 0, means, np.median(means[counts > 0]))
    scale = np.where(scales > 0.0, scales, np.where(centre != 0.0, np.abs(centre), 1.0))
    return Gauge(unit * centre, unit * scale), False


def column_medians(Z: csr_array) -> Array:
    """Return the lower medians of the entries of each column; zero where there are none."""
    counts = np.bincount(Z.indices, minlength=Z.shape[1])
    ordered = Z.data[np.lexsort((Z.data, Z.indices))]
    middle = np.cumsum(counts) - counts + np.maximum(counts - 1, 0) // 2
    medians: Array = np.where(counts > 0, np.append(ordered, 0.0)[middle], 0.0)
    return medians


def _have_same_units(means: Array, scales: Array, counts: Index, common: float, wrong: float) -> bool:
    """Return whether means and scales of columns differ so little that their units may be the same.

    So large a share of them as ``wrong`` may have any means and scales.
    """
    judged = (counts >= UNITS.entries) & (scales > 0.0)
    if not judged.any():
        return True
    typical = float(np.median(scales[judged]))
    ratio = np.log(scales[judged] / typical)
    limit = np.log(UNITS.ratio) + UNITS.chance / np.sqrt(2.0 * (counts[judged] - 1))
    is_near = np.abs(means[judged]) < UNITS.deviations * max(typical, common / UNITS.ratio)
    is_usual = (ratio < limit) & is_near
    return bool((~is_usual).mean() <= wrong and (ratio < -limit).mean() < UNITS.quiet)
