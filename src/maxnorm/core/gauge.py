"""The units in which a model works: a location and a scale of each feature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtri

from maxnorm.core.linalg import (
    BULK,
    GAUSSIAN_LOWER_QUARTILE,
    GAUSSIAN_MEDIAN,
    robust_scale,
    sample_columns,
)
from maxnorm.core.precision import range_of
from maxnorm.core.types import Array, Mask

Scaling = Literal["feature", "common"]

# A feature whose robust scale is below this share of its root mean square deviation is nearly always the
# same, and has the latter as its scale. The largest deviations are cut at the given quantile. They are left
# out if they are gross errors beside the lower quartile of the deviations that are not zero, and if a gap
# separates them from the others: the least of them is so many times as large as the largest of the others.
# If they are the majority of the deviations that are not zero, they are the signal.
NEARLY_CONSTANT, CUT_QUANTILE, GAP = 1e-9, 0.95, 3.0
ROUNDING = 4.0  # deviation that counts as zero, in rounding errors of the centre


class ModeRule(NamedTuple):
    """When gross errors are so many that the location is the mode and not the median."""

    entries: int = 20  #: of a feature, with fewer of which there is no telling
    inside: float = 0.25  #: share of the entries that the shortest interval contains
    far: float = 5.0  #: deviations from the mode beyond which an entry belongs to another part
    near: float = 3.0  #: deviations from the mode within which an entry belongs to the same part
    many: float = 0.25  #: share of such entries from which the median is not used
    most: float = 0.6  #: share of such entries up to which the others are not a background
    features: int = 256  #: by which it is judged whether there are so many such entries


MODE = ModeRule()
LEAST_CLEAN = 0.3  # share of the entries of a feature near its centre, by which its scale is corrected
SIMILAR = 1.5  # ratio of two estimates of a scale that differ by their errors only

# Bounds on n times the variance of a log scale, and of a median in units of the scale, for n samples of which
# up to half of the entries are gross errors. They were simulated.
SCALE_ERROR, LOCATION_ERROR = 20.0, 8.0


@dataclass(frozen=True, eq=False)
class Gauge:
    """A location and a scale of each feature, by which samples are standardised.

    A model works on standardised samples, so that the units of the features do not matter. The gauge need not
    be accurate, because what it misses is learnt. It must be robust, and follow from each feature alone.
    """

    centre: Array  #: p, in the units of the data
    scale: Array  #: p, positive

    @classmethod
    def of(
        cls,
        Z: Array,
        observed: Mask | None,
        *,
        center: bool = True,
        scale: Scaling | None = "feature",
        tolerant: bool = False,
    ) -> Gauge:
        """Return the medians and robust scales of samples, in which missing entries are ignored.

        Parameters
        ----------
        Z : array of shape (n, p)
            The samples.
        observed : boolean array of shape (n, p) or None
            Which entries are observed; None if all are.
        center : bool, default=True
            Whether to use the medians; otherwise the locations are zero.
        scale : {"feature", "common"} or None, default="feature"
            Whether every feature has a scale of its own, or all have the same, or all have the scale one.
        tolerant : bool, default=False
            Whether up to about 60 % of the entries may be gross errors, even all in one direction. The
            location is then the mode if most features have many entries far from it.
        """
        p = Z.shape[1]
        there = np.full(p, len(Z)) if observed is None else observed.sum(axis=0)
        D = Z.astype(np.float64)
        if observed is not None:
            D[~observed] = np.nan
        centre: Array = np.zeros(p)
        if center:
            D.sort(axis=0)  # missing entries come last
            centre = middle(D, there)
            modal = contaminated_gauge(D, there) if tolerant else None
            if modal is not None and scale == "feature":
                return modal
            centre = centre if modal is None else modal.centre
            D -= centre
        if scale is None:
            return cls(centre, np.ones(p))
        if scale == "common":
            return cls(centre, np.full(p, robust_scale(np.nan_to_num(D, copy=False)) or 1.0))
        D = np.abs(D, out=D)
        D.sort(axis=0)
        rounding = ROUNDING * float(np.finfo(Z.dtype).eps) * np.abs(centre)
        scales = feature_scales(D, there, rounding)
        value = np.where(centre != 0.0, np.abs(centre), 1.0)  # a constant feature has no scale but its value
        return cls(centre, np.where(scales > 0.0, scales, value))

    def plausible(self, n_samples: int) -> Gauge:
        """Return the gauge without differences that so few samples do not support.

        If the scales differ by no more than their errors, all features get one; locations that are all within
        their errors become zero.
        """
        logs = np.log(self.scale)
        is_common = float(np.var(logs)) < SCALE_ERROR / n_samples
        scale = np.full_like(logs, math.exp(float(np.mean(logs)))) if is_common else self.scale
        is_constant = (np.abs(self.centre) == self.scale).any()  # a constant feature is no chance
        is_zero = (
            not is_constant and float(np.mean((self.centre / self.scale) ** 2)) < LOCATION_ERROR / n_samples
        )
        return Gauge(np.zeros_like(self.centre) if is_zero else self.centre, scale)

    def standardise(self, Z: Array, observed: Mask | None, location: Array | None = None) -> Array:
        """Return samples in the units of the model, in double precision; missing entries are zero.

        If a location in these units is given, it is subtracted.
        """
        centre = self.centre if location is None else self.centre + location * self.scale
        standardised = Z - centre
        standardised /= self.scale
        return standardised if observed is None else np.where(observed, standardised, 0.0)


def contaminated_gauge(ordered: Array, there: Array) -> Gauge | None:
    """Return the modes and the scales about them, if a large share of the entries is far from the mode.

    The median is moved by gross errors in one direction, and is one of them if they are half of the entries.
    The mode, the middle of the shortest interval with a quarter of the entries, is not. It is less accurate,
    so that None is returned, for the median, unless the entries of most features have two parts.

    Parameters
    ----------
    ordered : array of shape (n, p)
        The entries of each feature in increasing order; missing ones are last.
    there : array of shape (p,)
        Number of entries of each feature.
    """
    if float(np.median(there)) < MODE.entries:
        return None
    some = sample_columns(ordered.shape[1], MODE.features)
    part, there_of_part = ordered[:, some], there[some]
    *_, far = scales_of_parts(part, modes(part, there_of_part), there_of_part)
    if not MODE.many <= float(np.median(far)) <= MODE.most:
        return None
    centre = modes(ordered, there)
    if not np.isfinite(centre).all():  # a feature without entries
        return None
    scale, _ = scales_of_parts(ordered, centre, there)
    largest = np.where(there > 0, np.abs(entry_at(ordered, there - 1)), 0.0)
    largest = np.maximum(largest, np.abs(ordered[0]))
    if not (scale > NEARLY_CONSTANT * largest).all():  # some features are nearly always the same
        return None
    # The median of the entries near the mode is more accurate.
    near = np.abs(ordered - centre) <= MODE.near * scale
    start, inside = np.argmax(near, axis=0), np.count_nonzero(near, axis=0)
    centre = 0.5 * (entry_at(ordered, start + (inside - 1) // 2) + entry_at(ordered, start + inside // 2))
    return Gauge(centre, scales_of_parts(ordered, centre, there)[0])


def modes(ordered: Array, there: Array) -> Array:
    """Return the middle of the shortest interval with a quarter of the entries, NaN if there are none."""
    n = len(ordered)
    inside = np.maximum((MODE.inside * there).astype(np.intp), 1)
    first = np.arange(n)[:, None]
    width = np.where(
        first + inside < there,
        np.take_along_axis(ordered, np.minimum(first + inside, n - 1), axis=0) - ordered,
        np.inf,
    )
    start = np.argmin(width, axis=0)
    return 0.5 * (entry_at(ordered, start) + entry_at(ordered, start + inside))


def scales_of_parts(ordered: Array, centre: Array, there: Array) -> tuple[Array, Array]:
    """Return the scale of the part of each feature that is near its centre, and the share of the rest."""
    used = np.arange(len(ordered))[:, None] < there
    magnitudes = np.sort(np.abs(ordered - centre), axis=0)
    quartile = entry_at(magnitudes, there // 4)
    is_far = (magnitudes > MODE.far * quartile / GAUSSIAN_LOWER_QUARTILE) & used
    far = np.count_nonzero(is_far, axis=0) / np.maximum(there, 1)
    clean = np.maximum(1.0 - far, LEAST_CLEAN)
    return quartile / ndtri(0.5 + 0.125 / clean), far


def entry_at(ordered: Array, index: Array) -> Array:
    """Return the entry at an index of its own in each column."""
    last = len(ordered) - 1
    return np.take_along_axis(ordered, np.clip(index, 0, last).astype(np.intp)[None], axis=0)[0]


def middle(ordered: Array, there: Array) -> Array:
    """Return the median of the first entries of each ordered column, zero where there are none."""
    medians = 0.5 * (entry_at(ordered, (there - 1) // 2) + entry_at(ordered, there // 2))
    return np.where(there > 0, medians, 0.0)


def feature_scales(magnitudes: Array, there: Array, rounding: Array) -> Array:
    """Return robust standard deviations of features; zero for a feature without deviations.

    Parameters
    ----------
    magnitudes : array of shape (n, p)
        Magnitudes of the deviations of each feature, ordered.
    there : array of shape (p,)
        How many of them there are; those that follow are NaN.
    rounding : array of shape (p,)
        Deviations up to these are rounding errors.
    """
    used = np.arange(len(magnitudes))[:, None] < there
    negligible = np.maximum(rounding, range_of(magnitudes.dtype).tiny)
    zeros = np.count_nonzero((magnitudes <= negligible) & used, axis=0)
    nonzero = there - zeros
    # Deviations of zero count, unlike the entries of zero that robust_scale ignores.
    bulk = np.where(nonzero > 0.75 * there, bulk_scales(magnitudes, zeros, nonzero, used), 0.0)
    typical = middle(magnitudes, there) / GAUSSIAN_MEDIAN
    # The median is more accurate, unless many entries are wrong.
    bulk = np.where((typical <= SIMILAR * bulk) | (bulk == 0.0), typical, bulk)
    largest = np.where(there > 0, entry_at(magnitudes, there - 1), 0.0)
    cut = entry_at(magnitudes, np.ceil(CUT_QUANTILE * (there - 1)))
    cut = np.where(cut > 0.0, cut, largest)
    unit = np.where(largest > 0.0, largest, 1.0)  # avoids overflow of squares
    squares = np.where(used, (np.minimum(magnitudes, cut) / unit) ** 2, 0.0)
    spread = unit * np.sqrt(squares.sum(axis=0) / np.maximum(there, 1))
    clean = are_clean(magnitudes, zeros, nonzero, there)
    rare = unit * np.sqrt(np.sum(squares, axis=0, where=clean & used) / np.maximum(clean.sum(axis=0), 1))
    return np.where(largest > 0.0, np.where(bulk > NEARLY_CONSTANT * spread, bulk, rare), 0.0)


def are_clean(magnitudes: Array, zeros: Array, nonzero: Array, there: Array) -> Mask:
    """Return which deviations are no gross errors, of features that are nearly always the same."""
    quartile = entry_at(magnitudes, zeros + nonzero // 4) / GAUSSIAN_LOWER_QUARTILE
    clean = magnitudes / BULK.gross_error <= quartile
    n_clean = np.count_nonzero(clean, axis=0)
    has_gap = entry_at(magnitudes, n_clean) / GAP > entry_at(magnitudes, n_clean - 1)
    is_minority = there - n_clean <= BULK.majority * nonzero
    return clean | ~(has_gap & is_minority) | (n_clean >= there)


def bulk_scales(magnitudes: Array, zeros: Array, nonzero: Array, used: Mask) -> Array:
    """Return the standard deviation of the bulk of each feature, as :func:`robust_scale` does for one."""
    quartile = entry_at(magnitudes, zeros + nonzero // 4)
    limit = BULK.gross_error * quartile / GAUSSIAN_LOWER_QUARTILE
    gross = np.count_nonzero((magnitudes > limit) & used, axis=0) / np.maximum(nonzero, 1)
    median = entry_at(magnitudes, zeros + nonzero // 2) / GAUSSIAN_MEDIAN
    clean = np.maximum(1.0 - gross, 1.0 - BULK.majority)
    return np.where(gross > BULK.majority, median, quartile / ndtri(0.5 + 0.125 / clean))
