"""What the learner remembers of the samples it has seen: two mergeable values."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from maxnorm._linalg import robust_scale
from maxnorm._typing import Array, Mask

# Figures of the past and recent ones weigh a sample seen at time t by these powers of t: about the last
# quarter and the last tenth of the stream.
PAST, RECENT = 3.0, 10.0


@dataclass(frozen=True, eq=False)
class SufficientStatistics:
    """Weighted sums over samples. They form a commutative monoid: ``zeros``, ``+`` and ``scaled``.

    Fitting online, out of core, from a checkpoint or on many machines differs only in where the sum is
    taken. Sums are kept in double precision whatever the data: the basis divides B by small numbers.
    """

    A: Array  # d x d, sum of r r^T
    B: Array  # p x d, sum of (z - e) r^T
    r: Array  # d, sum of r; the updates do not need it, "auto" does
    loss: float  # sum of 1/2 |z - e|^2 + lambda2 h(e) + the cost of r: what g_t(L) has beside A and B
    weight: float  # sum of the samples' weights; their number as long as nothing is forgotten

    @classmethod
    def zeros(cls, n_features: int, n_components: int) -> SufficientStatistics:
        """Return the statistics of no samples."""
        A = np.zeros((n_components, n_components))
        B, r = np.zeros((n_features, n_components)), np.zeros(n_components)
        return cls(A, B, r, loss=0.0, weight=0.0)

    @classmethod
    def from_batch(
        cls, targets: Array, R: Array, penalty: Array, weights: Array | None = None
    ) -> SufficientStatistics:
        """Return the statistics of samples cleaned of noise, ``targets = Z - E``.

        ``R`` holds their coefficients, ``penalty`` what noise and coefficients of each row cost, and
        ``weights`` how much each row counts.
        """
        if weights is None:
            weights = np.ones(len(R))
        R64 = R.astype(np.float64, copy=False)
        weighted = weights[:, None] * R64
        quadratic = 0.5 * np.einsum("ij,ij->i", targets, targets, dtype=np.float64)
        return cls(
            A=weighted.T @ R64,
            B=(targets.T @ weighted.astype(R.dtype, copy=False)).astype(np.float64, copy=False),
            r=weighted.sum(axis=0),
            loss=float(weights @ (quadratic + penalty)),
            weight=float(weights.sum()),
        )

    def __add__(self, other: SufficientStatistics) -> SufficientStatistics:
        return SufficientStatistics(
            A=self.A + other.A,
            B=self.B + other.B,
            r=self.r + other.r,
            loss=self.loss + other.loss,
            weight=self.weight + other.weight,
        )

    def scaled(self, factor: float) -> SufficientStatistics:
        """Return the same samples at ``factor`` times their weight."""
        return SufficientStatistics(
            A=factor * self.A,
            B=factor * self.B,
            r=factor * self.r,
            loss=factor * self.loss,
            weight=factor * self.weight,
        )


@dataclass(frozen=True, eq=False)
class Scales:
    """Robust scales that ``"auto"`` settings follow: sums of per-batch figures times samples.

    Exact quantiles of a stream do not merge; averages of the quantiles of its batches do. Logarithms are
    averaged, so that a batch that is wrong altogether counts for little. This is a monoid like
    :class:`SufficientStatistics`, and it is saved and merged with it.
    """

    entry: float = 0.0  # log size of an entry of Z
    residual: float = 0.0  # log size of an entry of Z - R L^T
    noisy: Array | float = 0.0  # p, number of each feature's entries in which noise was found
    seen: Array | float = 0.0  # p, number of each feature's entries
    weight: float = 0.0
    recent_residual: float = 0.0
    recent_noisy: float = 0.0  # share of all entries in which noise was found
    recent_weight: float = 0.0

    @classmethod
    def from_batch(cls, Z: Array, E: Array, left: Array, observed: Mask | None) -> Scales:
        """Measure a batch, its noise, and what the basis leaves of it. No row may be empty."""
        n, size = float(len(Z)), robust_scale(Z)
        residual = n * math.log(max(robust_scale(left), 1e-12 * size))
        noisy = np.count_nonzero(E, axis=0).astype(np.float64)
        seen = np.full(Z.shape[1], n) if observed is None else observed.sum(axis=0, dtype=np.float64)
        share = float(noisy.sum() / seen.sum())
        return cls(n * math.log(size), residual, noisy, seen, n, residual, n * share, n)

    def __add__(self, other: Scales) -> Scales:
        return Scales(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def scaled(self, factor: float, recent: float) -> Scales:
        """Return the same samples at other weights, in the figures of the past and in recent ones."""
        return Scales(
            factor * self.entry,
            factor * self.residual,
            factor * self.noisy,
            factor * self.seen,
            factor * self.weight,
            recent * self.recent_residual,
            recent * self.recent_noisy,
            recent * self.recent_weight,
        )
