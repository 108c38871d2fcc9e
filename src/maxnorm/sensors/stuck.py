"""Sensors that are stuck: they repeat one value longer than chance allows."""

from __future__ import annotations

import math

import numpy as np

from maxnorm.core.types import Array, Mask

CHANCE = 1e-9  # probability of a run of equal values from which the sensor is stuck
LEAST_RUN = 5  # rows
RARE_CHANGES = 0.9  # share of repetitions from which a feature is a state, such as a valve, and never stuck


class RunLengths:
    """The runs of equal values of the features of a stream.

    If the value of a feature is repeated with the probability q, a run of n values has the probability
    q^(n - 1). The probability is learnt from the stream, with long runs left out.
    """

    def __init__(self, n_features: int) -> None:
        self.last = np.full(n_features, np.nan)
        self.runs = np.zeros(n_features, dtype=np.int64)  #: lengths of the current runs
        self.n_values = np.zeros(n_features)
        self.n_repeated = np.zeros(n_features)

    @property
    def longest_usual(self) -> Array:
        """Number of equal values up to which a run is usual, for each feature."""
        share = (self.n_repeated + 1.0) / (self.n_values + 20.0)
        with np.errstate(divide="ignore"):
            longest = np.ceil(1.0 + math.log(CHANCE) / np.log(np.minimum(share, 1.0 - 1e-12)))
        return np.where(share > RARE_CHANGES, np.inf, np.maximum(longest, LEAST_RUN))

    def find(self, X: Array) -> Mask:
        """Return which entries of rows that follow belong to a run in which the sensor is already stuck.

        The first entries of such a run are not included, because they were usual when they arrived.
        """
        stuck, longest = np.zeros(X.shape, dtype=np.bool_), self.longest_usual
        for i, row in enumerate(X):
            is_there = ~np.isnan(row)
            is_same = row == self.last
            self.runs = np.where(is_same, self.runs + 1, np.where(is_there, 1, self.runs))
            is_long = self.runs >= longest
            stuck[i] = is_long & is_there
            counted = is_there & ~is_long
            self.n_values += counted
            self.n_repeated += counted & is_same
            self.last = np.where(is_there, row, self.last)
        return stuck


def find_stuck(X: Array) -> Mask:
    """Return which entries of a table belong to runs in which a sensor is stuck, from the first to the last.

    Parameters
    ----------
    X : array of shape (n, p)
        Rows in the order of time; NaN marks missing entries, which do not end a run.

    Returns
    -------
    stuck : boolean array of shape (n, p)
        Which entries belong to such a run. The first value of a run is right, and is not included.
    """
    stuck = np.zeros(X.shape, dtype=np.bool_)
    for j, column in enumerate(X.T):
        there = np.flatnonzero(~np.isnan(column))
        values = column[there]
        if len(values) < LEAST_RUN:
            continue
        starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
        lengths = np.diff(np.append(starts, len(values)))
        longest = _longest_usual(lengths)
        for start, length in zip(starts[lengths > longest], lengths[lengths > longest], strict=True):
            stuck[there[start + 1 : start + length], j] = True
    return stuck


def _longest_usual(lengths: Array) -> float:
    """Return the length of a run up to which it is usual among others, of which some may be unusual."""
    longest = math.inf
    for _ in range(3):  # unusual runs are left out of what is usual
        usual = lengths[lengths <= longest]
        share = (np.sum(usual - 1.0) + 1.0) / (usual.sum() + 20.0)
        if share > RARE_CHANGES:
            return math.inf
        longest = max(math.ceil(1.0 + math.log(CHANCE) / math.log(share)), LEAST_RUN)
    return longest
