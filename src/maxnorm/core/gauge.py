"""The units in which a model works: a location and a scale of each feature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from maxnorm.core.linalg import GAUSSIAN_MEDIAN, robust_scale
from maxnorm.core.types import Array, Mask

Scaling = Literal["feature", "common"]

# A feature whose robust scale is below this share of its root mean square deviation is nearly always the
# same, and has the latter as its scale; the largest deviations are cut at the given quantile.
NEARLY_CONSTANT, CUT_QUANTILE = 1e-6, 0.95

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
        cls, Z: Array, observed: Mask | None, *, center: bool = True, scale: Scaling | None = "feature"
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
        """
        p = Z.shape[1]
        columns = [Z[:, j] if observed is None else Z[observed[:, j], j] for j in range(p)]
        columns = [z.astype(np.float64, copy=False) for z in columns]
        centre = np.array([np.median(z) if center and len(z) else 0.0 for z in columns])
        deviations = [z - c for z, c in zip(columns, centre, strict=True)]
        if scale is None:
            return cls(centre, np.ones(p))
        if scale == "common":
            return cls(centre, np.full(p, robust_scale(np.concatenate(deviations)) or 1.0))
        scales = np.array([feature_scale(z) for z in deviations])
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
        is_zero = float(np.mean((self.centre / self.scale) ** 2)) < LOCATION_ERROR / n_samples
        return Gauge(np.zeros_like(self.centre) if is_zero else self.centre, scale)

    def standardise(self, Z: Array, observed: Mask | None) -> Array:
        """Return samples in the units of the model, in double precision; missing entries are zero."""
        standardised = (Z - self.centre) / self.scale
        return standardised if observed is None else np.where(observed, standardised, 0.0)


def feature_scale(deviations: Array) -> float:
    """Return a robust standard deviation of one feature from its deviations; zero if all are zero."""
    magnitudes = np.abs(deviations)
    largest = float(magnitudes.max(initial=0.0))
    if not largest:
        return 0.0
    # Deviations of zero count, unlike the entries of zero that robust_scale ignores.
    bulk = robust_scale(deviations) if np.count_nonzero(deviations) > 0.75 * len(deviations) else 0.0
    middle = float(np.median(magnitudes)) / GAUSSIAN_MEDIAN
    if middle <= SIMILAR * bulk or not bulk:  # the median is more accurate, unless many entries are wrong
        bulk = middle
    cut = float(np.quantile(magnitudes, CUT_QUANTILE, method="higher")) or largest
    spread = largest * float(np.sqrt(np.mean((np.minimum(magnitudes, cut) / largest) ** 2)))
    return bulk if bulk > NEARLY_CONSTANT * spread else spread
