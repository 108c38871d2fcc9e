"""What the learner remembers of the samples it has seen, in values that can be added up."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from maxnorm.core.linalg import products, robust_scale
from maxnorm.core.types import Array, Mask

# Figures of the past and recent ones weigh a sample seen at time t by these powers of t: about the last
# quarter and the last tenth of the stream.
PAST, RECENT = 3.0, 10.0
PRIOR = 5.0  # entries that a bias is held back by


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
    entries: float = 0.0  # the same for observed entries
    grams: Array | None = None  # p x d (d + 1) / 2: sums of r r^T over the samples that have a feature
    means: Array | None = None  # p x 2: sums of z - e over those samples, and of their weights

    @classmethod
    def zeros(cls, n_features: int, n_components: int, *, per_feature: bool = False) -> SufficientStatistics:
        """Return the statistics of no samples.

        If most entries are missing, every feature needs the sum over its own samples (``per_feature``). One
        sum for all is a fraction d/2 of that, and right if all is observed; entries that are missing then
        count as what the basis says of them.
        """
        A = np.zeros((n_components, n_components))
        B, r = np.zeros((n_features, n_components)), np.zeros(n_components)
        if not per_feature:
            return cls(A, B, r, loss=0.0, weight=0.0)
        grams = np.zeros((n_features, n_components * (n_components + 1) // 2))
        return cls(A, B, r, loss=0.0, weight=0.0, grams=grams, means=np.zeros((n_features, 2)))

    @classmethod
    def from_batch(
        cls,
        targets: Array,
        R: Array,
        penalty: Array,
        weights: Array | None = None,
        observed: Mask | None = None,
    ) -> SufficientStatistics:
        """Return the statistics of samples cleaned of noise, ``targets = Z - E``.

        ``R`` holds their coefficients, ``penalty`` what noise and coefficients of each row cost, and
        ``weights`` how much each row counts. With ``observed`` every feature has a sum of its own; targets
        are then zero where nothing is observed.
        """
        if weights is None:
            weights = np.ones(len(R))
        R64 = R.astype(np.float64, copy=False)
        weighted = weights[:, None] * R64
        grams = means = None
        if observed is not None:
            there = observed.T.astype(np.float64)
            grams = there @ (weights[:, None] * products(R64))
            means = np.column_stack([weights @ targets, there @ weights])
        quadratic = 0.5 * np.einsum("ij,ij->i", targets, targets, dtype=np.float64)
        return cls(
            A=weighted.T @ R64,
            B=(targets.T @ weighted.astype(R.dtype, copy=False)).astype(np.float64, copy=False),
            r=weighted.sum(axis=0),
            loss=float(weights @ (quadratic + penalty)),
            weight=float(weights.sum()),
            entries=float(
                weights.sum() * targets.shape[1] if observed is None else weights @ observed.sum(axis=1)
            ),
            grams=grams,
            means=means,
        )

    @classmethod
    def from_entries(cls, Z: csr_array, R: Array, weights: Array) -> SufficientStatistics:
        """Return the same, feature by feature, of a sparse matrix that stores what is observed."""
        weighted = weights[:, None] * R
        pattern = csr_array((np.ones(Z.nnz), Z.indices, Z.indptr), shape=Z.shape)
        of_row = np.repeat(weights, np.diff(Z.indptr))
        return cls(
            A=weighted.T @ R,
            B=Z.T @ weighted,
            r=weighted.sum(axis=0),
            loss=0.5 * float(of_row @ Z.data**2),
            weight=float(weights.sum()),
            entries=float(of_row.sum()),
            grams=np.asarray(pattern.T @ (weights[:, None] * products(R))),
            means=np.column_stack([Z.T @ weights, pattern.T @ weights]),
        )

    def __add__(self, other: SufficientStatistics) -> SufficientStatistics:
        return SufficientStatistics(
            A=self.A + other.A,
            B=self.B + other.B,
            r=self.r + other.r,
            loss=self.loss + other.loss,
            weight=self.weight + other.weight,
            entries=self.entries + other.entries,
            grams=None if self.grams is None or other.grams is None else self.grams + other.grams,
            means=None if self.means is None or other.means is None else self.means + other.means,
        )

    def scaled(self, factor: float) -> SufficientStatistics:
        """Return the same samples at ``factor`` times their weight."""
        return SufficientStatistics(
            A=factor * self.A,
            B=factor * self.B,
            r=factor * self.r,
            loss=factor * self.loss,
            weight=factor * self.weight,
            entries=factor * self.entries,
            grams=None if self.grams is None else factor * self.grams,
            means=None if self.means is None else factor * self.means,
        )

    def regauged(self, c: float) -> SufficientStatistics:
        """Return the statistics that the same samples would have with coefficients divided by c."""
        grams = None if self.grams is None else self.grams / c**2
        return replace(self, A=self.A / c**2, B=self.B / c, r=self.r / c, grams=grams)

    def quadratic(self, L: Array) -> float:
        """What g_t(L) has of second degree: half the sum of the squares of ``l_j r``."""
        if self.grams is None:
            return 0.5 * float(np.vdot(L, L @ self.A))
        pairs = products(L)
        left, right = np.triu_indices(L.shape[1])
        return float(np.vdot(pairs, self.grams * np.where(left == right, 0.5, 1.0)))


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

    @classmethod
    def from_entries(cls, Z: csr_array, residual: Array) -> Scales:
        """Measure a batch of which only some entries are observed, and what the basis leaves of them."""
        n, size = float(Z.shape[0]), robust_scale(Z.data)
        if not size:  # nothing but zeros, which have no size
            return cls()
        left = n * math.log(max(robust_scale(residual), 1e-12 * size))
        seen = np.bincount(Z.indices, minlength=Z.shape[1]).astype(np.float64)
        return cls(n * math.log(size), left, np.zeros(len(seen)), seen, n, left, 0.0, n)

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


@dataclass(frozen=True, eq=False)
class Biases:
    """What an entry is before the basis is asked: a mean, and how its row and its column differ from it.

    Sums over columns are a monoid like :class:`SufficientStatistics`; the bias of a row follows from the
    row. Both are drawn towards zero as if so many entries more were zero: few entries say little.
    """

    total: float
    count: float
    sums: Array  # p, of what is left of a column's entries
    counts: Array  # p

    @classmethod
    def zeros(cls, n_features: int) -> Biases:
        """Return those of no samples."""
        return cls(0.0, 0.0, np.zeros(n_features), np.zeros(n_features))

    def __add__(self, other: Biases) -> Biases:
        return Biases(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def scaled(self, factor: float) -> Biases:
        """Return the same samples at other weights."""
        return Biases(*(factor * getattr(self, f.name) for f in fields(self)))

    @property
    def mean(self) -> float:
        """Mean of all entries."""
        return self.total / self.count if self.count else 0.0

    @property
    def columns(self) -> Array:
        """By how much each column differs from the mean."""
        return self.sums / (self.counts + PRIOR)

    def rows(self, Z: csr_array) -> Array:
        """By how much each row differs from the mean and its columns."""
        left = Z.data - self._mean_or_of(Z) - self.columns[Z.indices]
        lengths = np.diff(Z.indptr)
        return sum_rows(left, Z.indptr) / (lengths + PRIOR)

    def _mean_or_of(self, Z: csr_array) -> float:
        """Return the mean so far; that of a first batch, or its rows would take it for their own."""
        return self.mean if self.count or not Z.nnz else float(Z.data.mean())

    def from_batch(self, Z: csr_array, rows: Array, weights: Array) -> Biases:
        """Return those of a batch, given its rows' and everything known before."""
        lengths = np.diff(Z.indptr)
        weight = np.repeat(weights, lengths)
        left = weight * (Z.data - self._mean_or_of(Z) - np.repeat(rows, lengths))
        p = Z.shape[1]
        return Biases(
            float(weight @ Z.data),
            float(weight.sum()),
            np.asarray(np.bincount(Z.indices, left, p), dtype=np.float64),
            np.asarray(np.bincount(Z.indices, weight, p), dtype=np.float64),
        )


def sum_rows(values: Array, indptr: NDArray[np.integer[Any]]) -> Array:
    """Sum of each row's values in a sparse matrix; zero for rows that have none."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return np.asarray(np.bincount(rows, values, len(indptr) - 1), dtype=np.float64)


@dataclass(frozen=True)
class Fades:
    """What remains of the weight of older samples after newer ones: in sums, figures and biases."""

    statistics: float = 1.0
    past: float = 1.0
    recent: float = 1.0
    biases: float = 1.0

    def __mul__(self, other: Fades) -> Fades:
        return Fades(*(getattr(self, f.name) * getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, eq=False)
class Contribution:
    """What a batch adds to all that was learnt before, seen in a basis that does not change meanwhile.

    ``a + b`` is the contribution of a followed by b: a monoid in which order counts, as b makes a older.
    """

    n_samples: int
    n_full: int  # samples that have anything in them
    statistics: SufficientStatistics
    scales: Scales
    fades: Fades  # what remains of everything before
    rank: int  # directions that the basis has
    biases: Biases | None = None
    demand: float = 0.0  # n times the log of the norm that nine tenths of the coefficients need at most
    demanding: float = 0.0  # that n
    pressure: Array | float = 0.0  # how strongly coefficients press against balls of certain radii

    def __sizeof__(self) -> int:  # Dask asks before it moves one
        seen = self.statistics
        return sum(a.nbytes for a in (seen.A, seen.B, seen.grams) if a is not None)

    def __add__(self, later: Contribution) -> Contribution:
        fades, biases = later.fades, None
        if self.biases is not None and later.biases is not None:
            biases = self.biases.scaled(fades.biases) + later.biases
        return Contribution(
            self.n_samples + later.n_samples,
            self.n_full + later.n_full,
            self.statistics.scaled(fades.statistics) + later.statistics,
            self.scales.scaled(fades.past, fades.recent) + later.scales,
            self.fades * fades,
            max(self.rank, later.rank),
            biases,
            self.demand + later.demand,
            self.demanding + later.demanding,
            fades.statistics * self.pressure + later.pressure,
        )


@dataclass(frozen=True, eq=False)
class Selection:
    """What was chosen by entries that were held out, and what was tried."""

    n_components: int
    weight: float | None  # of the norm, for each observed entry; None if it was not asked for
    tried: tuple[tuple[int, float | None, float, float], ...]  # components, weight, prior, error
    prior: float = 0.0  # how far features with few entries are held back
