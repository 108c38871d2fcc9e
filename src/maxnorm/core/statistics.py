"""Sufficient statistics of the basis: sums over samples that can be added, scaled and merged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from maxnorm.core.linalg import products
from maxnorm.core.types import Array, Mask

# A mean is believed as far as its square exceeds this many times what it would be if the true mean were zero.
MEAN_SQUARES = 1.0


@dataclass(frozen=True, eq=False)
class SufficientStatistics:
    """Weighted sums over samples, from which the basis follows: the A and B of Algorithm 1.

    They form a commutative monoid (``zeros``, ``+`` and ``scaled``), so that learning online, out of core,
    from a checkpoint or on many machines differs only in where the sum is taken. Sums are kept in double
    precision whatever the precision of the data, because the basis update divides B by small numbers.

    There are two kinds. If nearly all entries are observed, one Gram matrix A serves all features, and
    missing entries count as the model predicts them. If many entries are missing, every feature needs the
    Gram matrix of the samples that have it (``grams``), at d / 2 times the memory.
    """

    A: Array  #: d x d, sum of r r^T
    B: Array  #: p x d, sum of (z - e) r^T
    r: Array  #: d, sum of r, which only the default settings need
    loss: float  #: sum of 1/2 |z - e|^2 + lambda2 h(e) + the cost of r, the part of g_t(L) beside A and B
    weight: float  #: sum of the weights of the samples
    entries: float = 0.0  #: sum of the weights of the observed entries
    grams: Array | None = None  #: p x d (d + 1) / 2, per feature the sum of r r^T over its samples
    means: Array | None = None  #: p x 2, per feature the sum of z - e over its samples and of their weights
    t: Array | None = None  #: p, sum of z - e, if the location of the data is learnt
    #: p x 4, per feature the sum of the squared residuals of entries that are not gross errors, the sum of
    #: the weights of these, and the same two sums of gross errors; if noise variances are learnt
    residuals: Array | None = None

    @classmethod
    def zeros(cls, n_features: int, n_components: int, *, per_feature: bool = False) -> SufficientStatistics:
        """Return the statistics before the first sample, with a Gram matrix per feature if asked for."""
        A = np.zeros((n_components, n_components))
        B, r = np.zeros((n_features, n_components)), np.zeros(n_components)
        if not per_feature:
            return cls(A, B, r, loss=0.0, weight=0.0)
        grams = np.zeros((n_features, n_components * (n_components + 1) // 2))
        return cls(A, B, r, loss=0.0, weight=0.0, grams=grams, means=np.zeros((n_features, 2)))

    @property
    def per_feature(self) -> bool:
        """Whether every feature has a Gram matrix of its own."""
        return self.grams is not None

    @classmethod
    def from_batch(
        cls,
        targets: Array,
        R: Array,
        penalty: Array,
        sample_weight: Array | None = None,
        observed: Mask | None = None,
        *,
        center: bool = False,
    ) -> SufficientStatistics:
        """Return the statistics of a dense batch.

        Parameters
        ----------
        targets : array of shape (b, p)
            The samples without their noise, Z - E.
        R : array of shape (b, d)
            Their coefficients.
        penalty : array of shape (b,)
            What the noise and the coefficients of each sample cost.
        sample_weight : array of shape (b,), optional
            Weight of each sample; one by default.
        observed : boolean array of shape (b, p), optional
            If given, every feature gets a Gram matrix of its own, and ``targets`` must be zero where an
            entry is not observed.
        center : bool, default=False
            Whether to sum up what the location is learnt from.
        """
        if sample_weight is None:
            sample_weight = np.ones(len(R))
        R64 = R.astype(np.float64, copy=False)
        weighted = sample_weight[:, None] * R64
        grams = means = None
        if observed is not None:
            there = observed.T.astype(np.float64)
            grams = there @ (sample_weight[:, None] * products(R64))
            means = np.column_stack([sample_weight @ targets, there @ sample_weight])
        quadratic = 0.5 * np.einsum("ij,ij->i", targets, targets, dtype=np.float64)
        weight = sample_weight.sum()
        entries = weight * targets.shape[1] if observed is None else sample_weight @ observed.sum(axis=1)
        return cls(
            A=weighted.T @ R64,
            B=(targets.T @ weighted.astype(R.dtype, copy=False)).astype(np.float64, copy=False),
            r=weighted.sum(axis=0),
            loss=float(sample_weight @ (quadratic + penalty)),
            weight=float(weight),
            entries=float(entries),
            grams=grams,
            means=means,
            t=sample_weight @ targets if center else None,
        )

    @classmethod
    def from_entries(cls, Z: csr_array, R: Array, sample_weight: Array) -> SufficientStatistics:
        """Return the statistics, one Gram matrix per feature, of a sparse batch of observed entries."""
        weighted = sample_weight[:, None] * R
        pattern = csr_array((np.ones(Z.nnz), Z.indices, Z.indptr), shape=Z.shape)
        entry_weight = np.repeat(sample_weight, np.diff(Z.indptr))
        return cls(
            A=weighted.T @ R,
            B=Z.T @ weighted,
            r=weighted.sum(axis=0),
            loss=0.5 * float(entry_weight @ Z.data**2),
            weight=float(sample_weight.sum()),
            entries=float(entry_weight.sum()),
            grams=np.asarray(pattern.T @ (sample_weight[:, None] * products(R))),
            means=np.column_stack([Z.T @ sample_weight, pattern.T @ sample_weight]),
        )

    def __add__(self, other: SufficientStatistics) -> SufficientStatistics:
        if self.B.shape != other.B.shape or self.per_feature != other.per_feature:
            raise ValueError(f"statistics of different kinds cannot be added: {self!r} and {other!r}")
        return SufficientStatistics(
            A=self.A + other.A,
            B=self.B + other.B,
            r=self.r + other.r,
            loss=self.loss + other.loss,
            weight=self.weight + other.weight,
            entries=self.entries + other.entries,
            grams=None if self.grams is None or other.grams is None else self.grams + other.grams,
            means=None if self.means is None or other.means is None else self.means + other.means,
            t=_total(self.t, other.t),
            residuals=_total(self.residuals, other.residuals),
        )

    def scaled(self, factor: float, residuals: float | None = None) -> SufficientStatistics:
        """Return the statistics with the weights of all samples multiplied by ``factor``.

        The sums that noise variances are learnt from are multiplied by ``residuals``, if it is given.
        """
        kept = factor if residuals is None else residuals
        return SufficientStatistics(
            A=factor * self.A,
            B=factor * self.B,
            r=factor * self.r,
            loss=factor * self.loss,
            weight=factor * self.weight,
            entries=factor * self.entries,
            grams=None if self.grams is None else factor * self.grams,
            means=None if self.means is None else factor * self.means,
            t=None if self.t is None else factor * self.t,
            residuals=None if self.residuals is None else kept * self.residuals,
        )

    def location(self, L: Array) -> Array | None:
        """Return the location mu of samples mu + L r, given the basis; None if it is not learnt."""
        if self.t is None:
            return None
        share = self.mean_share
        return share * (self.t - L @ self.r) / self.weight if share else np.zeros_like(self.t)

    @property
    def mean_share(self) -> float:
        """Share of the mean of the samples that is believed, from 0 (all of it may be chance) to 1.

        The mean of n samples about zero has about 1 / n of their mean square. What exceeds it is believed, as
        with the estimator of James and Stein: the location has a normal prior about zero, whose precision
        follows from the data.
        """
        square = 0.0 if self.t is None else float(self.t @ self.t)
        return max(1.0 - MEAN_SQUARES * 2.0 * self.loss / square, 0.0) if square else 0.0

    def refined_location(self, L: Array) -> Array | None:
        """Return the mean of samples mu + L r, given the basis; None if it is not learnt.

        Within the basis, the mean of the samples is believed as far as :attr:`mean_share` says. Outside of
        it, samples vary by their residuals only, beside which a mean stands out more.
        """
        if self.t is None:
            return None
        outside = self.t - L @ self.r
        square = float(outside @ outside)
        squares = self.residual_variance(L) * self.entries
        chance = max(squares - square / self.weight, 0.0)  # the residuals about their mean
        share = self.mean_share
        more = max(1.0 - chance / square - share, 0.0) if square else 0.0
        return (share * self.t + more * outside) / self.weight

    def centred(self) -> SufficientStatistics:
        """Return the statistics of deviations of samples and coefficients from their means.

        The basis that minimises the surrogate for them is the one that minimises it together with the
        location and the prior of the location. They are the statistics themselves if no location is learnt.
        """
        share = self.mean_share
        if self.t is None or not share:
            return self
        mean = share * self.r / self.weight
        return replace(
            self,
            A=self.A - np.outer(self.r, mean),
            B=self.B - np.outer(self.t, mean),
            r=(1.0 - share) * self.r,
            loss=self.loss - 0.5 * share * float(self.t @ self.t) / self.weight,
            t=(1.0 - share) * self.t,
        )

    def rescaled(self, c: float) -> SufficientStatistics:
        """Return the statistics that the same samples have with coefficients divided by c."""
        grams = None if self.grams is None else self.grams / c**2
        return replace(self, A=self.A / c**2, B=self.B / c, r=self.r / c, grams=grams)

    def quadratic(self, L: Array) -> float:
        """Return the quadratic part of g_t(L): half the sum of the squares of the entries of L r."""
        if self.grams is None:
            return 0.5 * float(np.vdot(L, L @ self.A))
        pairs = products(L)
        left, right = np.triu_indices(L.shape[1])
        return float(np.vdot(pairs, self.grams * np.where(left == right, 0.5, 1.0)))

    def residual_variance(self, L: Array) -> float:
        """Return the mean square of the residuals of the observed entries in the basis L."""
        residual = 2.0 * (self.quadratic(L) - float(np.vdot(L, self.B)) + self.loss)
        return max(residual, 0.0) / self.entries

    def __repr__(self) -> str:
        gram = "per feature" if self.per_feature else "shared"
        p, d = self.B.shape
        return f"<statistics of {p} features, {d} components, Gram matrix {gram}, weight {self.weight:g}>"


def _total(one: Array | None, other: Array | None) -> Array | None:
    """Return the sum of two arrays; None stands for zeros."""
    if one is None or other is None:
        return other if one is None else one
    return one + other
