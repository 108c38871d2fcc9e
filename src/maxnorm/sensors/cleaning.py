"""Cleaning of a log of sensors that is in memory: gaps are filled, and wrong entries are replaced.

The rows are in the order of time. Sensors that are stuck are recognised first, and their entries count as
missing. The log is divided where the process changes, and every part has a model of its own. An entry is
wrong if it deviates too much from what the other sensors predict, or sticks out of its neighbours in time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxnorm.core.deviations import Deviations
from maxnorm.core.types import Array, Mask
from maxnorm.estimators.anomaly import AnomalyDetector
from maxnorm.estimators.decomposition import MaxNormDecomposition
from maxnorm.sensors.filling import Mixture, Neighbours, fill
from maxnorm.sensors.segments import find_changes, spread
from maxnorm.sensors.stuck import find_stuck

MOST_ROWS = 2000  # of a segment, to which its model is fitted
ROUNDS = 3  # in each of which the largest of adjacent deviations in time are found
STICKS_OUT = 0.5  # share of a deviation in time by which an entry is off both its neighbours


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows between two changes of the process, and their model."""

    start: int
    stop: int
    detector: Any  #: the fitted AnomalyDetector


@dataclass(frozen=True, eq=False)
class CleanedLog:
    """A log of sensors with what was found in it.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_sensors)
        The log as it was; NaN marks missing entries.
    cleaned : ndarray of shape (n_rows, n_sensors)
        The log without gaps, and with other values in place of wrong ones.
    expected : ndarray of shape (n_rows, n_sensors)
        What the other sensors of each row predict.
    deviation : ndarray of shape (n_rows, n_sensors)
        What entries are off the prediction, in standard deviations; zero where entries are missing or stuck.
    is_spike, is_stuck : boolean ndarray of shape (n_rows, n_sensors)
        Which entries are wrong, and how.
    decision : ndarray of shape (n_rows,)
        Negative for anomalous rows.
    segments : list of Segment
        The parts of the log between changes of the process.
    """

    values: Array
    cleaned: Array
    expected: Array
    deviation: Array
    is_spike: Mask
    is_stuck: Mask
    decision: Array
    segments: list[Segment]

    @property
    def changes(self) -> list[int]:
        """The first rows after changes of the process."""
        return [segment.start for segment in self.segments[1:]]

    @property
    def is_wrong(self) -> Mask:
        """Which entries are wrong."""
        return self.is_spike | self.is_stuck


def clean_log(
    X: Array,
    *,
    alarm_rate: float = 0.01,
    lags: int = 0,
    seed: int = 0,
    progress: Callable[[str], object] = lambda step: None,
) -> CleanedLog:
    """Clean a log of sensors.

    Parameters
    ----------
    X : array of shape (n_rows, n_sensors)
        Rows in the order of time; NaN marks missing entries.
    alarm_rate : float, default=0.01
        Share of usual rows that may be called anomalous.
    lags : int, default=0
        Number of preceding rows that each row is seen together with.
    seed : int, default=0
        Seed of the models.
    progress : callable, optional
        Called with the name of each step, "finding changes" and "comparing".

    Returns
    -------
    CleanedLog
        The cleaned log, and what was found.
    """
    progress("finding changes")
    is_stuck = find_stuck(X)
    known = np.where(is_stuck, np.nan, X)
    bounds = [
        0,
        *find_changes(known, lambda rows: MaxNormDecomposition(random_state=seed).fit(rows)._model()),
    ]
    progress("comparing")
    expected, deviation = np.empty(X.shape), np.empty(X.shape)
    is_spike, decision = np.zeros(X.shape, dtype=np.bool_), np.empty(len(X))
    cleaned, segments = np.empty(X.shape), []
    for start, stop in zip(bounds, [*bounds[1:], len(X)], strict=True):
        part, rows = slice(start, stop), known[start:stop]
        detector = AnomalyDetector(alarm_rate=alarm_rate, lags=lags, random_state=seed)
        detector.fit(rows if lags else spread(rows, MOST_ROWS))
        found = detector.deviations(rows)
        is_spike[part] = find_spikes(rows, found, detector.deviation_limit_)
        expected[part], deviation[part] = found.expected, found.deviation
        decision[part] = detector.decision_function(np.where(is_stuck[part], np.nan, rows))
        cleaned[part] = fill(rows, found.expected, ~np.isnan(rows) & ~is_spike[part])
        segments.append(Segment(start, stop, detector))
    # A sensor without any entry in a segment, or one that never varies, is left as it is.
    cleaned = np.where(np.isfinite(cleaned), cleaned, X)
    return CleanedLog(X, cleaned, expected, deviation, is_spike, is_stuck, decision, segments)


def find_spikes(X: Array, found: Deviations, limit: float) -> Mask:
    """Return which entries are gross errors.

    Parameters
    ----------
    X : array of shape (n, p)
        Rows in the order of time; NaN marks missing entries.
    found : Deviations
        What the other entries of each row predict.
    limit : float
        Standard deviations beyond which an entry is wrong.

    Returns
    -------
    is_spike : boolean array of shape (n, p)
        Which entries deviate from the prediction, or stick out of their neighbours in time.
    """
    is_spike = np.abs(found.deviation) > limit
    for j in range(X.shape[1]):
        good = ~np.isnan(X[:, j]) & ~is_spike[:, j]
        for _ in range(ROUNDS):
            sticks_out = _sticks_out(X[:, j], found.expected[:, j], good, limit)
            if not sticks_out.any():
                break
            is_spike[sticks_out, j] = True
            good &= ~sticks_out
    return is_spike


def _sticks_out(column: Array, expected: Array, good: Mask, limit: float) -> Mask:
    """Return which entries of a series are off both neighbours in time, on the same side and far enough."""
    mixture = Mixture.measured(column, expected, good)
    if mixture.weights[0] < 0.5 or not mixture.deviation:  # the neighbours tell little
        return np.zeros(len(column), dtype=np.bool_)
    near = Neighbours.of(column, good)
    deviation = np.where(good, column - mixture.combine(expected, near), 0.0)
    with np.errstate(invalid="ignore"):
        left, right = column - near.before, column - near.after
        is_peak = (np.sign(left) == np.sign(right)) & (
            np.minimum(np.abs(left), np.abs(right)) > STICKS_OUT * np.abs(deviation)
        )
    size = np.where(is_peak & good, np.abs(deviation), 0.0)
    # An entry next to a larger deviation may be off only because of it.
    largest = (size >= np.append(size[1:], 0.0)) & (size >= np.append(0.0, size[:-1]))
    return largest & (size > limit * mixture.deviation)
