"""What the learner remembers of the samples it has seen: two mergeable values."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from maxnorm._linalg import robust_scale
from maxnorm._typing import Array, Mask

RECENT = 10.0  # "recent" figures weigh a sample seen at time t by t ** RECENT: about the last tenth


@dataclass(frozen=True)
class SufficientStatistics:
    """Weighted sums over samples. They form a commutative monoid: ``zeros``, ``+`` and ``scaled``.

    Fitting online, out of core, from a checkpoint or on many machines differs only in where the sum is
    taken. Sums are kept in double precision whatever the data: the basis divides B by small numbers.
    """

    A: Array  # d x d, sum of r r^T
    B: Array  # p x d, sum of (z - e) r^T
    loss: float  # sum of 1/2 |z - e|^2 + lambda2 h(e) + the cost of r: what g_t(L) has beside A and B
    weight: float  # sum of the samples' weights; their number as long as nothing is forgotten

    @classmethod
    def zeros(cls, n_features: int, n_components: int) -> SufficientStatistics:
        """Return the statistics of no samples."""
        A = np.zeros((n_components, n_components))
        return cls(A=A, B=np.zeros((n_features, n_components)), loss=0.0, weight=0.0)

    @classmethod
    def from_batch(cls, targets: Array, R: Array, penalty: Array) -> SufficientStatistics:
        """Return the statistics of samples cleaned of noise, ``targets = Z - E``.

        ``R`` holds their coefficients and ``penalty`` what noise and coefficients of each row cost.
        """
        R64 = R.astype(np.float64, copy=False)
        quadratic = 0.5 * np.einsum("ij,ij->i", targets, targets, dtype=np.float64)
        return cls(
            A=R64.T @ R64,
            B=(targets.T @ R).astype(np.float64, copy=False),
            loss=float(quadratic.sum() + penalty.sum(dtype=np.float64)),
            weight=float(len(R)),
        )

    def __add__(self, other: SufficientStatistics) -> SufficientStatistics:
        return SufficientStatistics(
            A=self.A + other.A,
            B=self.B + other.B,
            loss=self.loss + other.loss,
            weight=self.weight + other.weight,
        )

    def scaled(self, factor: float) -> SufficientStatistics:
        """Return the same samples at ``factor`` times their weight."""
        return SufficientStatistics(
            A=factor * self.A, B=factor * self.B, loss=factor * self.loss, weight=factor * self.weight
        )


@dataclass(frozen=True)
class Scales:
    """Robust scales that ``"auto"`` settings follow: sums of per-batch figures times samples.

    Exact quantiles of a stream do not merge; averages of the quantiles of its batches do. This is a
    monoid like :class:`SufficientStatistics`, and it is saved and merged with it.
    """

    entry: float = 0.0  # size of an entry of Z
    residual: float = 0.0  # size of an entry of Z - R L^T
    weight: float = 0.0
    recent_residual: float = 0.0
    recent_inliers: float = 0.0  # share of entries in which no noise was found
    recent_weight: float = 0.0

    @classmethod
    def from_batch(cls, Z: Array, residual: Array, E: Array, observed: Mask | None) -> Scales:
        """Measure a batch. Rows of zeros, or with nothing observed, say nothing of scales."""
        n = float(np.any(Z, axis=1).sum())
        if not n:
            return cls()
        left = robust_scale(residual)
        clean = float(np.mean(E == 0.0) if observed is None else np.mean(E[observed] == 0.0))
        return cls(n * robust_scale(Z), n * left, n, n * left, n * clean, n)

    def __add__(self, other: Scales) -> Scales:
        return Scales(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def scaled(self, factor: float, recent: float) -> Scales:
        """Return the same samples at other weights, in all and in the recent figures."""
        return Scales(
            factor * self.entry,
            factor * self.residual,
            factor * self.weight,
            recent * self.recent_residual,
            recent * self.recent_inliers,
            recent * self.recent_weight,
        )
