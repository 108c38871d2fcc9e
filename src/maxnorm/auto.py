"""What ``"auto"`` means: settings that follow from robust scales of the stream, in any units.

The paper's experiments use lambda1 = lambda2 = 1 / sqrt(p) on samples whose coefficients in an
orthonormal basis have unit size. :func:`unit` measures that size, and the rules restate the paper's
choice in multiples of it, so that ``c * X`` gives ``c`` times the low-rank part of ``X``.
"""

from __future__ import annotations

import math

import numpy as np

from maxnorm._linalg import robust_scale
from maxnorm._typing import Array
from maxnorm.noise import Noise, RowNoise
from maxnorm.statistics import Scales

MAX_SWEEPS = 1000  # for transform and friends, which solve to the tolerance
FIT_SWEEPS = (3, 30)  # while learning: few as long as the basis is poor, more as it gets better
FORGETTING = (1.0, 10.0)  # while nothing improves any more, and while the residual is falling
FALL_GAIN = 20.0  # a fall of the residual by 1 / FALL_GAIN of its average is a fast one


def entry_scale(scales: Scales) -> float:
    """Size of an entry of the data."""
    return scales.entry / scales.weight if scales.weight else 0.0


def residual_scale(scales: Scales) -> float:
    """Size of what the basis has lately left of an entry; the entry itself before anything is learnt."""
    return scales.recent_residual / scales.recent_weight if scales.recent_weight else entry_scale(scales)


def unit(scales: Scales, n_features: int, n_components: int) -> float:
    """Size of a sample's coefficient in an orthonormal basis."""
    return entry_scale(scales) * math.sqrt(n_features / n_components)


def l1_lambda2(scales: Scales, n_components: int) -> float:
    """``1 / sqrt(p)`` in units of the data, or the residual's size once that is smaller."""
    entry = entry_scale(scales)
    return max(min(entry / math.sqrt(n_components), residual_scale(scales)), 0.01 * entry)


def l21_lambda2(scales: Scales, n_features: int) -> float:
    """Half as much again as the norm of an ordinary sample's residual."""
    return 1.5 * residual_scale(scales) * math.sqrt(n_features)


def nuclear_lambda1(scales: Scales, n_components: int) -> float:
    """A tenth of ``1 / sqrt(p)`` in units of the data: more than that slows the start down."""
    return 0.1 * entry_scale(scales) / math.sqrt(n_components)


def forgetting(scales: Scales) -> float:
    """Forget fast while the residual is falling, and hardly when it no longer does.

    What was learnt in a poor basis is stale; an average over all samples is the best there is in a good
    one. The fall is the gap between the residual's average over all samples and over recent ones.
    """
    low, high = FORGETTING
    if not scales.residual:
        return high
    fall = 1.0 - residual_scale(scales) * scales.weight / scales.residual
    return low + (high - low) * min(1.0, FALL_GAIN * max(0.0, fall))


def fit_sweeps(scales: Scales, noise: Noise) -> int:
    """Sweeps worth spending on a batch while learning.

    In a poor basis nearly every entry looks like noise, and an exact solution fits the noise.
    """
    low, high = FIT_SWEEPS
    if isinstance(noise, RowNoise):
        return high
    share = scales.recent_inliers / scales.recent_weight if scales.recent_weight else 0.0
    return int(low + (high - low) * share)


def batch_size(n_components: int) -> int:
    """Samples between basis updates: enough to pay for one, few enough to profit from it soon."""
    return max(10, n_components // 2)


def default_components(n_features: int) -> int:
    """Ten, or half the features if there are fewer than twenty."""
    return max(1, min(10, n_features // 2))


def first_look(Z: Array) -> Scales:
    """Scales of a batch before any basis has been tried on it."""
    n = float(np.any(Z, axis=1).sum())
    size = n * robust_scale(Z)
    return Scales(entry=size, residual=size, weight=n)
