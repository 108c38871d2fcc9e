"""Values of gaps in time series: from the other sensors, from the neighbours in time, or from both.

What the other sensors of a row predict and what the neighbours in time suggest are two predictions with
errors of known variances and covariance, which are measured on the entries that are there. Their best
combination is never worse than the better of the two. It depends on the length of a gap, because the
neighbours in time are of less use in the middle of a long one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxnorm.core.types import Array, Mask

DISTANCES = (1, 2, 4, 8, 16, 32, 64)  # rows to the neighbours, for which errors are measured
LEAST_ENTRIES = 30  # pairs of errors for a measurement


class Neighbours(NamedTuple):
    """The nearest entries before and after each entry that are there, itself not included."""

    before: Array  #: n, values; NaN if there is none
    after: Array  #: n
    to_before: Array  #: n, rows to them
    to_after: Array  #: n

    @classmethod
    def of(cls, column: Array, good: Mask) -> Neighbours:
        """Return the neighbours of each entry of a series, of which only good ones count."""
        n = len(column)
        rows = np.arange(n)
        previous = np.maximum.accumulate(np.where(good, rows, -1))
        previous = np.append(-1, previous[:-1])
        following = np.minimum.accumulate(np.where(good, rows, n)[::-1])[::-1]
        following = np.append(following[1:], n)
        before = np.where(previous >= 0, column[np.maximum(previous, 0)], np.nan)
        after = np.where(following < n, column[np.minimum(following, n - 1)], np.nan)
        return cls(before, after, rows - previous, following - rows)

    @property
    def interpolated(self) -> Array:
        """The linear interpolation between the neighbours."""
        total = self.to_before + self.to_after
        return (self.before * self.to_after + self.after * self.to_before) / total

    @property
    def distance(self) -> Array:
        """Distance to the neighbours, the harmonic mean of both."""
        return 2.0 * self.to_before * self.to_after / (self.to_before + self.to_after)


class Mixture(NamedTuple):
    """The weights of the interpolation in time, which depend on the distance to the neighbours."""

    weights: Array  #: for ``DISTANCES``
    deviation: float  #: standard deviation of the combined prediction from neighbours at distance one

    @classmethod
    def measured(cls, column: Array, expected: Array, good: Mask) -> Mixture:
        """Return the best weights for a series, given predictions from other sensors."""
        weights: list[float] = []
        deviation, error = 0.0, column - expected
        for distance in DISTANCES:
            middle = slice(distance, len(column) - distance)
            use = good[middle] & good[: -2 * distance] & good[2 * distance :]
            weight = weights[-1] if weights else 0.0
            if np.count_nonzero(use) >= LEAST_ENTRIES:
                from_others = error[middle][use]
                interpolated = 0.5 * (column[: -2 * distance] + column[2 * distance :])[use]
                from_time = column[middle][use] - interpolated
                weight = best_weight(from_others, from_time)
                if distance == DISTANCES[0]:
                    deviation = float(np.std((1.0 - weight) * from_others + weight * from_time))
            weights.append(weight)
        return cls(np.array(weights), deviation)

    def combine(self, expected: Array, near: Neighbours) -> Array:
        """Return the combined predictions; without neighbours on both sides, those from other sensors."""
        weight = np.interp(np.log(near.distance), np.log(DISTANCES), self.weights)
        weight *= np.minimum(DISTANCES[-1] / near.distance, 1.0)
        interpolated = near.interpolated
        combined = (1.0 - weight) * expected + weight * interpolated
        return np.where(np.isnan(interpolated), expected, combined)


def best_weight(first: Array, second: Array) -> float:
    """Return the weight of the second of two predictions, given their errors, between zero and one."""
    difference = first - second
    variance = float(np.mean(difference**2))
    return min(max(float(np.mean(first * difference)) / variance, 0.0), 1.0) if variance > 0.0 else 0.0


def fill(X: Array, expected: Array, good: Mask) -> Array:
    """Return a table with values in place of all entries that are not good.

    Parameters
    ----------
    X : array of shape (n, p)
        Rows in the order of time.
    expected : array of shape (n, p)
        What the other entries of each row predict for an entry.
    good : boolean array of shape (n, p)
        Which entries are there and right.

    Returns
    -------
    filled : array of shape (n, p)
        The table; good entries are unchanged.
    """
    filled = np.where(good, X, expected)
    for j in np.flatnonzero(~good.all(axis=0)):
        near = Neighbours.of(X[:, j], good[:, j])
        mixture = Mixture.measured(X[:, j], expected[:, j], good[:, j])
        bad = ~good[:, j]
        filled[bad, j] = mixture.combine(expected[:, j], near)[bad]
    return filled
