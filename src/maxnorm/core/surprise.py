"""How surprising a row is: three views of it, compared with rows of the past.

The views are

- the *rarity* of its entries, feature by feature: the mean of minus the logarithm of their tail probabilities
  among the rows of the past, which needs no assumption about their distribution (as in ECOD, Li et al. 2022);
- the *isolation* of the row: its mean distance from the nearest tenth of the rows of the past, which sees
  rows between or beyond groups (Sugiyama and Borgwardt 2013 compare with a random sample, too);
- the isolation of what the factor model says of the row, its coefficients and its residuals in units of the
  noise, which sees entries that do not go together. Distances of these are Mahalanobis distances.

No view is the best on all data. Each is put on the scale on which the rows of the past have the median zero
and the upper decile one, and so is the largest of them. Missing entries are left out. A view of few entries
has another distribution than one of many, so that the scales are found for several shares of missing entries,
by hiding entries of the rows of the past.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maxnorm.core.factor_model import FactorModel
from maxnorm.core.types import Array, Mask

NEAREST = 0.1  # share of the rows of the past to which the distance is measured
OBSERVED_SHARES = (
    0.1,
    0.2,
    0.3,
    0.45,
    0.7,
    1.0,
)  # shares of observed entries for which the views are put on scales
SHARPNESS = 2.0  # of the smooth maximum of the views
EQUAL = 1e-6  # distance of equal rows, in units of that of the nearest tenth
SMALLEST = 1e-9  # value of a view; usual ones are of order one
LEAST_SPREAD = 1e-2  # distance of median and upper decile of the logarithm of a view
BLOCK_ENTRIES = 2**21  # distances that are in memory at a time


class Past(NamedTuple):
    """Rows of the past in some coordinates, each in units of its standard deviation.

    The deviations are not robust, so that a feature with a few far entries does not outweigh all others.
    """

    centre: Array
    deviation: Array
    rows: Array  #: zero where an entry is missing
    norms: Array  #: squared norms of the rows

    @classmethod
    def of(cls, rows: Array) -> Past:
        """Return rows, in which NaN marks missing entries, in units of their standard deviations."""
        there = ~np.isnan(rows)
        count = np.maximum(there.sum(axis=0), 1)
        centre = np.where(there, rows, 0.0).sum(axis=0) / count
        D = np.where(there, rows - centre, 0.0)
        deviation = np.sqrt(np.einsum("ij,ij->j", D, D) / count)
        deviation[deviation == 0.0] = 1.0
        D /= deviation
        return cls(centre, deviation, D, np.einsum("ij,ij->i", D, D))

    def isolation(self, X: Array, observed: Mask, are_past: bool = False) -> Array:
        """Return the mean of the root mean square differences of rows from the nearest rows of the past.

        With ``are_past``, the rows are those of the past, perhaps with fewer entries, and each is compared
        with the others. A row that equals one of the past is not compared with it, as it may be the same.
        """
        n, is_complete = len(self.rows), bool(observed.all())
        n_nearest = min(max(1, round(NEAREST * n)), n - 1)
        isolation = np.empty(len(X))
        size = max(1, BLOCK_ENTRIES // n)
        for start in range(0, len(X), size):
            block = slice(start, start + size)
            Y = (X[block] - self.centre) / self.deviation
            if is_complete:
                squares = self.norms - 2.0 * (Y @ self.rows.T)
            else:
                there = observed[block]
                Y = np.where(there, Y, 0.0)
                squares = there @ (self.rows**2).T - 2.0 * (Y @ self.rows.T)
            squares += np.einsum("ij,ij->i", Y, Y)[:, None]
            if are_past:
                own = np.arange(len(Y))
                squares[own, start + own] = 0.0
            squares.partition(n_nearest, axis=1)
            roots = np.sqrt(np.maximum(squares[:, : n_nearest + 1], 0.0))
            total, least, largest = roots.sum(axis=1), roots.min(axis=1), roots[:, -1]
            is_same = least <= EQUAL * largest
            isolation[block] = (total - np.where(is_same, least, largest)) / n_nearest
        return isolation / np.sqrt(np.maximum(observed.sum(axis=1), 1))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Compares rows with a factor model and with rows of the past.

    Parameters
    ----------
    model : FactorModel
        The model.
    past : array of shape (n, p)
        At least two rows of the past, each with an entry; NaN marks missing entries.
    """

    model: FactorModel
    past: Array

    def __call__(self, X: Array) -> Array:
        """Return how surprising rows are; NaN for rows without any entry.

        Parameters
        ----------
        X : array of shape (b, p)
            The rows; NaN marks missing entries.

        Returns
        -------
        surprise : array of shape (b,)
            About zero for a usual row, and one for a row such as one in ten.
        """
        observed = ~np.isnan(X)
        share = observed.mean(axis=1)
        logs = self._log_views(X, observed, self._log_tails(X))
        is_complete = bool(observed.all())
        medians, spreads = (
            self._complete_scales[:, :, None] if is_complete else self._interpolated_scales(share)
        )
        total = smooth_maximum((logs - medians[:-1]) / spreads[:-1])
        surprise: Array = (total - medians[-1]) / spreads[-1]
        surprise[share == 0.0] = np.nan
        return surprise

    @property
    def feature_deviations(self) -> Array:
        """Standard deviations of the features of the rows of the past."""
        return self._past_rows.deviation

    def _log_views(self, X: Array, observed: Mask, log_tails: Array, are_past: bool = False) -> Array:
        """Return the logarithms of the three views of rows, one view per row of the result."""
        Y = self._explain(X, observed)
        views = [
            -np.einsum("ij,ij->i", log_tails, observed) / np.maximum(observed.sum(axis=1), 1),
            self._past_rows.isolation(X, observed, are_past),
            self._past_explained.isolation(Y, np.ones(Y.shape, dtype=np.bool_), are_past),
        ]
        return np.log(np.maximum(views, SMALLEST))

    def _log_tails(self, X: Array) -> Array:
        """Return the logarithms of the smaller of the two tail probabilities of each entry."""
        if len(X) == 1:  # a loop over the features would take longer than everything else
            not_larger, not_smaller = (self.past <= X).sum(axis=0)[None], (self.past >= X).sum(axis=0)[None]
        else:
            not_larger, not_smaller = np.empty(X.shape), np.empty(X.shape)
            for j, column in enumerate(self._sorted_columns):
                not_larger[:, j] = column.searchsorted(X[:, j], side="right")
                not_smaller[:, j] = len(column) - column.searchsorted(X[:, j], side="left")
        return np.log((np.minimum(not_larger, not_smaller) + 1.0) / (self._n_past + 1.0))

    def _explain(self, X: Array, observed: Mask) -> Array:
        """Return the coefficients of rows, and their residuals in units of the noise; zero if missing.

        The sum of their squares is the squared Mahalanobis distance of the row.
        """
        model = self.model
        if observed.all():
            T = model.gauge.standardise(X, None)
            gain, offset = self._gain
            R = T @ gain + offset
            return np.hstack([R, (T - R @ model.loadings.T - model.location) / self._noise_deviation])
        T = model.gauge.standardise(np.where(observed, X, model.gauge.centre), None)
        known = model.expect(T, observed.astype(np.float64))
        return np.hstack([known.R, np.where(observed, T - known.fitted, 0.0) / self._noise_deviation])

    @cached_property
    def _gain(self) -> tuple[Array, Array]:
        """The matrix and the offset that give the coefficients of complete rows."""
        p = len(self.model.basis)
        offset = self.model.expect(np.zeros((1, p)), np.ones((1, p))).R[0]
        return self.model.expect(np.eye(p), np.ones((p, p))).R - offset, offset

    @cached_property
    def _noise_deviation(self) -> Array:
        return np.sqrt(self.model.noise)

    @cached_property
    def _n_past(self) -> Array:
        return np.count_nonzero(~np.isnan(self.past), axis=0)

    @cached_property
    def _sorted_columns(self) -> list[Array]:
        return [np.sort(column[~np.isnan(column)]) for column in self.past.T]

    @cached_property
    def _past_rows(self) -> Past:
        return Past.of(self.past)

    @cached_property
    def _past_explained(self) -> Past:
        return Past.of(self._explain(self.past, ~np.isnan(self.past)))

    # Scales have the shape (2, 4): the medians of the three views and of their maximum, and the distances of
    # their upper deciles from the medians.

    @cached_property
    def _complete_scales(self) -> Array:
        return self._scales_of(~np.isnan(self.past))

    @cached_property
    def _scales(self) -> Array:
        """Scales for several shares of observed entries."""
        there = ~np.isnan(self.past)
        p = there.shape[1]
        order = np.random.default_rng(0).random(there.shape)
        order[~there] = 2.0  # entries that are missing anyway come last
        rank = order.argsort(axis=1).argsort(axis=1)
        scales = [self._scales_of(there & (rank < max(1, round(k * p)))) for k in OBSERVED_SHARES[:-1]]
        return np.array([*scales, self._complete_scales])

    def _interpolated_scales(self, share: Array) -> Array:
        """Return the scales of rows with given shares of observed entries."""
        known = self._scales.reshape(len(OBSERVED_SHARES), -1)
        scales = np.array([np.interp(share, OBSERVED_SHARES, column) for column in known.T])
        return scales.reshape(2, -1, len(share))

    def _scales_of(self, observed: Mask) -> Array:
        """Return the scales of the rows of the past if only some of their entries are observed."""
        logs = self._log_views(self.past, observed, self._past_log_tails, are_past=True)
        middle, upper = np.quantile(logs, (0.5, 0.9), axis=1)
        spread = np.maximum(upper - middle, LEAST_SPREAD)
        total = smooth_maximum((logs - middle[:, None]) / spread[:, None])
        total_middle, total_upper = np.quantile(total, (0.5, 0.9))
        total_spread = max(total_upper - total_middle, LEAST_SPREAD)
        return np.array([np.append(middle, total_middle), np.append(spread, total_spread)])

    @cached_property
    def _past_log_tails(self) -> Array:
        return self._log_tails(self.past)


def smooth_maximum(levels: Array) -> Array:
    """Return the logarithm of the mean exponential of several levels, which is close to the largest one."""
    largest = levels.max(axis=0)
    mean: Array = np.mean(np.exp(SHARPNESS * (levels - largest)), axis=0)
    return largest + np.log(mean) / SHARPNESS
