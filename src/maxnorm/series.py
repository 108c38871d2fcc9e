"""Ways to predict the missing entries of series, and how their predictions are combined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from maxnorm.core.types import Array, Index, Mask


class HidingRule(NamedTuple):
    """How entries are hidden to compare predictions with them."""

    shifts: tuple[float, ...] = (0.5, 0.25, 0.75)  #: by which gaps are moved, as shares of the number of rows
    share: float = 0.2  #: share of the observed entries that are hidden, on average at most
    least: int = 50  #: entries that must be hidden to choose weights
    lengths: tuple[int, ...] = (1, 4, 16)  #: of gaps that are drawn if the series have too few of their own


class GrossRule(NamedTuple):
    """Which observed entries are gross errors."""

    deviations: float = 6.0  #: robust standard deviations beyond which entries are errors
    many: float = 0.01  #: least share of the observed entries beyond this limit for which it is used
    rare_deviations: float = 10.0  #: limit if there are fewer, most of which are events and not errors
    neighbours: int = 2  #: observed entries on each side in time that an entry is compared with


HIDING, GROSS = HidingRule(), GrossRule()
DISTANCES = (1.5, 4.0, 16.0)  # limits between the classes of distances to observed entries, in rows
N_DISTANCES = len(DISTANCES) + 1  # classes of distances
FAR = 10**9  # distance, in rows, to an observed entry that does not exist
NORMAL_MEDIAN = 0.6745  # median magnitude of a standard normal variable
SUM_WEIGHT = 1e3  # weight, relative to the errors, of the condition that the weights have the sum one
SMALLEST_ERROR = 1e-9  # relative variance added to errors, so that those of equal predictions are independent


# -- tables made of series ----------------------------------------------------------------------------


def join_neighbours(Z: Array, lags: int) -> Array:
    """Return rows joined with those around them; what is before the first and after the last is missing."""
    n, p = Z.shape
    padded = np.full((n + 2 * lags, p), np.nan, Z.dtype)
    padded[lags : lags + n] = Z
    return np.hstack([padded[shift : shift + n] for shift in range(2 * lags + 1)])


def average_neighbours(joined: Array, lags: int, p: int) -> Array:
    """Return for each entry the average of the predictions of all rows that were joined with it."""
    n = len(joined)
    parts = joined.reshape(n, 2 * lags + 1, p)
    total, count = np.zeros((n + 2 * lags, p)), np.zeros((n + 2 * lags, 1))
    for shift in range(2 * lags + 1):
        total[shift : shift + n] += parts[:, shift]
        count[shift : shift + n] += 1.0
    return (total / np.maximum(count, 1.0))[lags : lags + n]


def join_periods(Z: Array, period: int) -> Array:
    """Return one row per period; the last one is filled up with missing entries."""
    n, p = Z.shape
    n_periods = -(-n // period)
    padded = np.full((n_periods * period, p), np.nan, Z.dtype)
    padded[:n] = Z
    return padded.reshape(n_periods, period * p)


# -- simple predictions -------------------------------------------------------------------------------


def interpolate(Z: Array) -> Array:
    """Return series whose gaps are filled along straight lines; those without entries are zero."""
    filled, times = np.zeros(Z.shape), np.arange(len(Z))
    for j, column in enumerate(Z.T):
        there = ~np.isnan(column)
        if there.any():
            filled[:, j] = np.interp(times, times[there], column[there])
    return filled


def column_means(Z: Array) -> Array:
    """Return the means of the observed entries of the columns, zero for columns without any."""
    means: Array = np.nansum(Z, axis=0) / np.maximum(np.count_nonzero(~np.isnan(Z), axis=0), 1)
    return means


def usual_period(Z: Array, period: int) -> Array:
    """Return the means of the entries at each time of the period, and of the series where there are none."""
    rows = join_periods(Z, period)
    is_empty = np.isnan(rows).all(axis=0)
    means = np.where(is_empty, np.tile(column_means(Z), period), column_means(rows))
    return means.reshape(period, -1).astype(np.float64)


def repeat_period(means: Array, n: int) -> Array:
    """Return n rows, which repeat a period."""
    return np.tile(means, (-(-n // len(means)), 1))[:n]


def correct(predicted: Array, Z: Array) -> Array:
    """Return predictions plus their interpolated errors, which are known where entries are observed."""
    corrected: Array = predicted + interpolate(Z - predicted)
    return corrected


# -- gross errors -------------------------------------------------------------------------------------


def find_gross_errors(Z: Array, expected: Array) -> Mask:
    """Return which observed entries differ grossly from expected values and from their neighbours in time."""
    deviations = np.minimum(robust_deviations(Z - expected), robust_deviations(Z - median_of_neighbours(Z)))
    found = deviations > GROSS.deviations
    if np.count_nonzero(found) < GROSS.many * np.count_nonzero(~np.isnan(Z)):
        found = deviations > GROSS.rare_deviations
    return found


def robust_deviations(errors: Array) -> Array:
    """Return magnitudes of errors, in robust standard deviations of their column; zero for missing ones."""
    magnitudes = np.nan_to_num(np.abs(errors))
    scale = np.ones(errors.shape[1])
    for j, column in enumerate(errors.T):
        there = ~np.isnan(column)
        if there.any():
            scale[j] = np.median(np.abs(column[there])) / NORMAL_MEDIAN
    deviations: Array = magnitudes / np.where(scale > 0.0, scale, np.inf)
    return deviations


def median_of_neighbours(Z: Array) -> Array:
    """Return for each observed entry the median of those before and after it in its series.

    It is NaN in series with too few entries.
    """
    medians, k = np.full(Z.shape, np.nan), GROSS.neighbours
    for j, column in enumerate(Z.T):
        there = np.flatnonzero(~np.isnan(column))
        if len(there) > 2 * k:
            padded = np.pad(column[there], k, mode="reflect")
            others = [padded[i : i + len(there)] for i in range(2 * k + 1) if i != k]
            medians[there, j] = np.median(others, axis=0)
    return medians


# -- weights ------------------------------------------------------------------------------------------


def hide_gaps(Z: Array) -> Mask | None:
    """Return entries to hide: some that would be missing if the gaps were elsewhere in time.

    As many gaps are used, each as a whole, as leave most entries observed. If the series have too few gaps of
    their own, gaps are drawn at random. None means that too few entries would be hidden nevertheless.
    """
    missing = np.isnan(Z)
    rng = np.random.default_rng(0)
    for gaps in other_gaps(missing, rng):
        begins = gaps & ~np.vstack([np.zeros((1, Z.shape[1]), dtype=bool), gaps[:-1]])
        gap = np.cumsum(begins.T.ravel()).reshape(Z.shape[::-1]).T  # the number of the gap of an entry
        wanted = HIDING.share * np.count_nonzero(~missing)
        odds = wanted / max(int(np.count_nonzero(gaps & ~missing)), 1)
        hidden: Mask = gaps & ~missing & (rng.random(int(gap.max(initial=0)) + 1) < odds)[gap]
        hidden[:, (missing | hidden).all(axis=0)] = False  # every series keeps some entries
        if hidden.sum() >= HIDING.least:
            return hidden
    return None


def other_gaps(missing: Mask, rng: np.random.Generator) -> Iterator[Mask]:
    """Yield the gaps of series at other times, and then gaps at random."""
    for shift in HIDING.shifts:
        yield np.roll(missing, int(shift * len(missing)), axis=0)
    yield draw_gaps(missing.shape, rng)


def draw_gaps(shape: tuple[int, int], rng: np.random.Generator) -> Mask:
    """Return gaps at random, in which each of several lengths has the same share of the entries."""
    n, p = shape
    gaps = np.zeros(shape, dtype=bool)
    for length in HIDING.lengths:
        n_gaps = int(HIDING.share * n * p / (length * len(HIDING.lengths)))
        times = rng.integers(n, size=(n_gaps, 1)) + np.arange(length)
        gaps[np.minimum(times, n - 1), rng.integers(p, size=(n_gaps, 1))] = True
    return gaps


def distance_class(Z: Array) -> Index:
    """Return for each entry the class of its distance to the nearest observed entries before and after it.

    The distance is the harmonic mean of the two, which is the larger the deeper an entry is in a gap. It is
    twice the distance to the nearest observed entry if all of these are on one side. Times at which no series
    is observed have classes of their own, because the other series say nothing then.
    """
    times, observed = np.arange(len(Z))[:, None], ~np.isnan(Z)
    before = np.maximum.accumulate(np.where(observed, times, -FAR), axis=0)
    after = np.minimum.accumulate(np.where(observed, times, FAR)[::-1], axis=0)[::-1]
    back, ahead = times - before, after - times
    distance = 2.0 * back * ahead / np.maximum(back + ahead, 1)
    classes = np.searchsorted(DISTANCES, distance).astype(np.intp)
    if Z.shape[1] > 1:
        classes[~observed.any(axis=1)] += N_DISTANCES
    return classes


def best_weights(errors: Array) -> Array:
    """Return the weights, none negative and of sum one, with which errors of predictions cancel best."""
    n, k = errors.shape
    gram = errors.T @ errors / n
    size = max(float(np.trace(gram)) / k, np.finfo(np.float64).tiny)
    root = np.linalg.cholesky(gram / size + SMALLEST_ERROR * np.eye(k)).T
    system = np.vstack([root, np.full((1, k), SUM_WEIGHT)])
    found, _ = nnls(system, np.append(np.zeros(k), SUM_WEIGHT))
    weights: Array = found / found.sum()
    return weights


def weights_by_distance(errors: Array, classes: Index) -> Array:
    """Return the best weights for every class of distances.

    Classes with few entries have the weights of all classes with, or without, other observed series. If there
    are fewer of these than ways to predict them, they have the weights of all entries.
    """
    weights = np.tile(best_weights(errors), (2 * N_DISTANCES, 1))
    every = np.arange(2 * N_DISTANCES)
    for kinds, least in ((every.reshape(2, -1), errors.shape[1]), (every[:, None], HIDING.least)):
        for some in kinds:
            here = np.isin(classes, some)
            if np.count_nonzero(here) >= least:
                weights[some] = best_weights(errors[here])
    return weights
