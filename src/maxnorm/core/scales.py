"""Robust scales of the data and of the residual, which the default settings follow."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from maxnorm.core.linalg import count_columns, quantile, robust_scale
from maxnorm.core.types import Array, Mask

# Averages over the past and recent averages weight a sample seen at time t by these powers of t, which is
# about the last quarter and the last tenth of the stream.
PAST_POWER, RECENT_POWER = 3.0, 10.0

SMALLEST_RESIDUAL = 1e-12  # residual scales are not taken below this multiple of the scale of the data
FAST_FALL = 0.05  # a fall of the log residual by this much is a fast one
ONE_SIDED = 0.4  # excess share of a feature's entries, beyond its error, that are noise on the same side


@dataclass(frozen=True, eq=False)
class Scales:
    """Weighted sums of per-batch robust scales, whose quotients are averages over the stream.

    Quantiles of a stream cannot be merged exactly; averages of the quantiles of its batches can. Logarithms
    are averaged, so that a batch that is entirely wrong has little influence. Scales form a commutative
    monoid under ``+`` like the sufficient statistics, and are saved and merged with them.
    """

    entry: float = 0.0  #: log scale of the entries of Z
    residual: float = 0.0  #: log scale of the entries of Z - R L^T
    noisy: Array | float = 0.0  #: per feature, number of entries classified as noise
    seen: Array | float = 0.0  #: per feature, number of observed entries
    weight: float = 0.0  #: sum of the weights of the samples
    recent_residual: float = 0.0  #: recent log scale of the residual
    recent_noisy: float = 0.0  #: recent share of all entries classified as noise
    recent_weight: float = 0.0  #: sum of the recent weights
    #: per feature, number of entries classified as noise that are above the low-rank part, less those below
    signed_noisy: Array | float = 0.0

    @classmethod
    def from_batch(cls, Z: Array, E: Array, residual: Array, observed: Mask | None) -> Scales:
        """Measure samples Z, their noise E, and their residual Z - R L^T. No sample may be empty."""
        n, scale = float(len(Z)), robust_scale(Z)
        if not scale:  # all samples are equal to the location
            return cls()
        left = n * math.log(max(robust_scale(residual), SMALLEST_RESIDUAL * scale))
        noisy = count_columns(E != 0.0)
        seen = np.full(Z.shape[1], n) if observed is None else observed.sum(axis=0, dtype=np.float64)
        share = float(noisy.sum() / seen.sum())
        signed = noisy - 2.0 * count_columns(E < 0.0)
        return cls(n * math.log(scale), left, noisy, seen, n, left, n * share, n, signed)

    @classmethod
    def from_entries(cls, Z: csr_array, residual: Array) -> Scales:
        """Measure the observed entries of a sparse batch and their residuals."""
        n, scale = float(Z.shape[0]), robust_scale(Z.data)
        if not scale:  # every observed entry is zero, and zeros have no scale
            return cls()
        left = n * math.log(max(robust_scale(residual), SMALLEST_RESIDUAL * scale))
        seen = np.bincount(Z.indices, minlength=Z.shape[1]).astype(np.float64)
        return cls(n * math.log(scale), left, np.zeros(len(seen)), seen, n, left, 0.0, n)

    def __add__(self, other: Scales) -> Scales:
        return Scales(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def scaled(self, factor: float, recent: float) -> Scales:
        """Return the scales with past weights multiplied by ``factor`` and recent ones by ``recent``."""
        return Scales(
            factor * self.entry,
            factor * self.residual,
            factor * self.noisy,
            factor * self.seen,
            factor * self.weight,
            recent * self.recent_residual,
            recent * self.recent_noisy,
            recent * self.recent_weight,
            factor * self.signed_noisy,
        )

    @property
    def entry_scale(self) -> float:
        """Robust standard deviation of an entry of the data about zero; zero before any data."""
        return math.exp(self.entry / self.weight) if self.weight else 0.0

    @cached_property
    def residual_scale(self) -> float:
        """Recent robust scale of the residual; that of the data before anything is learnt."""
        if not self.recent_weight:
            return self.entry_scale
        return math.exp(self.recent_residual / self.recent_weight)

    @property
    def clean_share(self) -> float:
        """Recent share of the entries that were not classified as noise."""
        return 1.0 - self.recent_noisy / self.recent_weight if self.recent_weight else 0.0

    def excess_share(self, counts: Array | float) -> tuple[Array, Array]:
        """Return by how much the share of counted entries of each feature exceeds the median of all features.

        The excess is in units of the largest that is possible. The second array has the standard errors of
        the shares.

        Parameters
        ----------
        counts : array of shape (p,)
            Number of entries of each feature, out of those in ``seen``.
        """
        seen = np.maximum(np.asarray(self.seen), 1e-300)
        share = np.asarray(counts) / seen
        usual = quantile(np.atleast_1d(share), 0.5)
        excess = (share - usual) / (1.0 - usual) if usual < 1.0 else 0.0 * share
        return excess, np.sqrt(0.25 / seen)

    @property
    def is_one_sided(self) -> Mask:
        """Per feature, whether most of its entries are noise on the same side of the low-rank part.

        This is so where an object stands still in a film, or where a sensor has a new level. Features with
        much dense noise are rejected as often, but on both sides.
        """
        excess, error = self.excess_share(np.abs(self.signed_noisy))
        return np.asarray(excess > ONE_SIDED + 2.0 * error)

    def falling(self, gain: float = 1.0 / FAST_FALL) -> float:
        """Return how fast the residual is falling, from 1 (fast) to 0 (not at all).

        The fall is the difference between the averages of the log residual over the past quarter and over
        the recent tenth of the stream, multiplied by ``gain``.
        """
        if not self.recent_weight:
            return 1.0
        fall = self.residual / self.weight - self.recent_residual / self.recent_weight
        return min(1.0, gain * max(0.0, fall))
