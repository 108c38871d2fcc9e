"""Norms of the low-rank part, written on its factors, and the basis updates that follow from them.

A norm says what the coefficients and the basis cost. The norms with a name are listed in :data:`NORMS` at the
end of this file, each with the rule that sets its weight from what has been seen of the data. Any other
subclass of :class:`FactorNorm` can be passed to the estimators as ``norm=``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from maxnorm.core.basis import fit_ball, restore_rank
from maxnorm.core.linalg import RANK_TOLERANCE, ball_multipliers, row_norms, symmetric
from maxnorm.core.precision import DOUBLE, UNBOUNDED
from maxnorm.core.state import Contribution, State
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array

BasisUpdate = Literal["exact", "bcd"]

NOISE_WEIGHT = 10.0  # factor of the weight of the max-norm per squared residual, in units of the signal
ENOUGH_SAMPLES = 20  # per component, before which the weight of a norm does not follow the noise
LEAST_NOISE_SHARE = 0.02  # of that weight, which data without noise have
LARGEST_RIDGE = 1e3  # trace of the prior of the rows of the basis, in units of that of A
EXTREME_WEIGHT = 1e-60  # trace of A below which, or above whose inverse, powers of its entries may overflow


class DivergenceError(ArithmeticError):
    """A basis update made the surrogate worse than it is with no basis at all."""


class FactorNorm(ABC):
    """A regulariser of ``X = R L^T`` that is written on its factors R and L.

    The coefficients of a sample solve ``(L^T L + eta I) r = L^T (z - e)``, and the norm determines ``eta``.
    A subclass must have the attribute ``lambda1`` and the four abstract methods; the other two have defaults.

    See Also
    --------
    MaxNorm : The max-norm, with coefficients in the unit ball.
    NuclearNorm : The nuclear norm, with a ridge on coefficients and basis.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.norms import FactorNorm, NuclearNorm
    >>> NuclearNorm(0.5).basis_value(np.eye(3)[:, :2])
    0.5
    """

    lambda1: float  #: weight of the norm

    @abstractmethod
    def multipliers(self, G: Array, sigma: Array, weight: Array, start: Array | None) -> Array:
        """Return ``eta`` for each sample, in units of the largest ``sigma ** 2``.

        Parameters
        ----------
        G : array of shape (b, k)
            ``(Z - E) U``, where ``L = U diag(sigma) V^T``.
        sigma : array of shape (k,) or (b, k)
            Singular values of L, or of the rows of L that each sample observes.
        weight : array of shape (b,) or (1,)
            Share of the residual of each sample that the noise model leaves to the basis.
        start : array of shape (b,) or None
            Multipliers of the previous sweep.

        Returns
        -------
        array of shape (b,)
            The multipliers.
        """

    @abstractmethod
    def coefficient_value(self, R: Array) -> Array:
        """Return the cost of each row of R.

        Parameters
        ----------
        R : array of shape (b, d)
            Coefficients of samples.

        Returns
        -------
        array of shape (b,)
            The cost of the coefficients of each sample.
        """

    @abstractmethod
    def basis_value(self, L: Array) -> float:
        """Return the cost of the basis, which is paid once for all samples.

        Parameters
        ----------
        L : array of shape (p, d)
            The basis.

        Returns
        -------
        float
            The cost.
        """

    @abstractmethod
    def update_basis(self, L: Array, statistics: SufficientStatistics) -> Array:
        """Return the basis that minimises the surrogate, Eq. (3.10).

        Parameters
        ----------
        L : array of shape (p, d)
            The basis before the update.
        statistics : SufficientStatistics
            Sums over the samples.

        Returns
        -------
        array of shape (p, d)
            The new basis, in the precision of L.
        """

    def first_scale(self, state: State) -> float:
        """Return the factor by which a random orthonormal basis is multiplied when the first data arrive.

        By default, basis and coefficients share the scale of the data equally.

        Parameters
        ----------
        state : State
            The state, with the scales of the first batch.

        Returns
        -------
        float
            The factor.
        """
        return sqrt(state.coefficient_scale)

    def prepare_basis(self, state: State, added: Contribution) -> State:
        """Return the state with its basis prepared for the next batch, after an update.

        By default, components that the basis has lost get a new start.

        Parameters
        ----------
        state : State
            The state after the update.
        added : Contribution
            What the batch has added.

        Returns
        -------
        State
            The state with the prepared basis.
        """
        return restore_rank(state, added.rank)


def anchored(L: Array, statistics: SufficientStatistics) -> tuple[Array, Array]:
    """Return A and B with a vanishing ridge towards L, which makes A positive definite.

    Components that no sample has used yet keep their vectors in L: after t < d samples the minimiser of
    Eq. (3.10) is otherwise not unique, and the one of least norm would lose rank forever. Assumption (A2) of
    the paper hides this.
    """
    d = len(statistics.A)
    anchor = float(np.finfo(L.dtype).eps) ** (2 / 3) * float(np.trace(statistics.A))
    if statistics.grams is not None:  # the row of a feature that was never observed becomes zero
        seen = np.any(statistics.grams, axis=1, keepdims=True)
        return symmetric(statistics.grams, d) + anchor * np.eye(d), statistics.B + anchor * L * seen
    return statistics.A + anchor * np.eye(d), statistics.B + anchor * L


@dataclass(frozen=True)
class MaxNorm(FactorNorm):
    """The max-norm: ``norm(r) <= 1`` for every sample, ``lambda1 / 2 * max_i norm(l_i)^2`` on the rows of L.

    ``basis_update="exact"`` minimises the surrogate; ``"bcd"`` is Algorithm 4 as printed, which may diverge
    and then raises :class:`DivergenceError`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.norms import MaxNorm
    >>> MaxNorm(0.5).basis_value(np.array([[3.0, 4.0], [0.0, 1.0]]))  # only the longest row counts
    6.25
    """

    lambda1: float
    basis_update: BasisUpdate = "exact"
    ridge: Array | None = None  #: d x d, adds the cost 1/2 l^T ridge l of every row l of L

    def multipliers(self, G: Array, sigma: Array, weight: Array, start: Array | None) -> Array:
        if not sigma.size:
            return np.zeros(len(G))
        top = sigma.max(axis=-1, keepdims=True)
        if start is None or not start.any():
            free = row_norms(G / sigma)
            if free.max(initial=0.0) <= 1.0:
                return np.zeros(len(G))
        return ball_multipliers(G / top * (sigma / top), (sigma / top) ** 2, 1.0, start)

    def coefficient_value(self, R: Array) -> Array:
        return np.zeros(len(R))

    def basis_value(self, L: Array) -> float:
        ridge = 0.0 if self.ridge is None else 0.5 * float(np.vdot(L, L @ self.ridge))
        return 0.5 * self.lambda1 * float(row_norms(L).max(initial=0.0)) ** 2 + ridge

    def update_basis(self, L: Array, statistics: SufficientStatistics) -> Array:
        if not statistics.A.any():  # all coefficients so far are zero
            return L
        if self.basis_update == "bcd":
            return coordinate_descent_basis(L, statistics.A, statistics.B, self.lambda1)
        A, B = anchored(L, statistics)
        if self.ridge is not None:
            A = A + self.ridge
        return max_norm_basis(A, B, self.lambda1).astype(L.dtype, copy=False)

    def first_scale(self, state: State) -> float:
        return state.coefficient_scale  # so that the coefficients fit in the unit ball

    def prepare_basis(self, state: State, added: Contribution) -> State:
        if self.basis_update == "bcd":  # the algorithm as printed
            return state
        return restore_rank(fit_ball(state, added), added.rank)


@dataclass(frozen=True)
class NuclearNorm(FactorNorm):
    """The nuclear norm: ``lambda1 / 2 * norm(r)^2`` per sample and ``lambda1 / 2 * norm(L)_F^2`` (OR-PCA).

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm.core.norms import NuclearNorm
    >>> NuclearNorm(0.5).basis_value(np.array([[3.0, 4.0], [0.0, 1.0]]))  # all rows count
    6.5
    """

    lambda1: float

    def multipliers(self, G: Array, sigma: Array, weight: Array, start: Array | None) -> Array:
        top = sigma.max(axis=-1, initial=0.0)
        # An infinite multiplier is right where the basis or the influence of a sample vanishes.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return np.where(weight * top > 0, self.lambda1 / top / top / weight, np.inf)

    def coefficient_value(self, R: Array) -> Array:
        if not self.lambda1:  # the squares may overflow
            return np.zeros(len(R), R.dtype)
        # A weight that cannot be represented in single precision leaves no coefficients.
        weight = min(0.5 * self.lambda1, UNBOUNDED) if R.dtype == np.float32 else 0.5 * self.lambda1
        return weight * np.einsum("ij,ij->i", R, R)

    def basis_value(self, L: Array) -> float:
        return 0.5 * self.lambda1 * float(np.vdot(L, L))

    def update_basis(self, L: Array, statistics: SufficientStatistics) -> Array:
        if not statistics.A.any():
            return L
        A, B = anchored(L, statistics)
        D, Q = np.linalg.eigh(A)
        return _rotated(_rotated(B, Q) / (D + self.lambda1), np.swapaxes(Q, -1, -2)).astype(
            L.dtype, copy=False
        )


def max_norm_basis(A: Array, B: Array, lambda1: float) -> Array:
    """Exact minimiser of ``1/2 tr(L A L^T) - tr(L B^T) + lambda1/2 max_i norm(l_i)^2``, Eq. (3.10).

    For a bound tau on the row norms the rows decouple, ``l_i = (A + eta_i I)^-1 b_i``, and the best tau is
    the one at which the multipliers eta_i(tau) sum to lambda1 (eta_i / lambda1 is the Q of Eq. (3.11), with
    ties resolved). ``1 / norm(l_i)`` is concave and nearly linear in eta_i. If it is replaced by its
    tangents, the equation is piecewise linear in ``1 / tau`` and easily solved. The tangents lie above the
    function, so that ``1 / tau`` stays above its root and decreases from step to step. No bracket is
    needed, and about five steps suffice.

    A may also hold one matrix for each row of B. The cost is one eigendecomposition of A (or of each matrix),
    two products with its eigenvectors, and O(p d) per step.
    """
    A, B, lambda1 = _with_ordinary_weight(A, B, lambda1)
    size = max(float(B.max(initial=0.0)), -float(B.min(initial=0.0)))  # keeps squares from overflowing
    size = size if size > DOUBLE.negligible else 1.0
    D, Q = np.linalg.eigh(A)
    C = _rotated(B, Q / size)
    squares = C * C
    eta, target, ones = np.zeros(len(C)), np.inf, np.ones(C.shape[1])
    # Only rows that are not zero can reach the bound.
    rows = np.flatnonzero(squares @ ones > 1e-100) if lambda1 > 0.0 else np.arange(0)
    bare: Array | None = None  # 1 / norm of those rows without a bound
    for _ in range(100):
        if not len(rows):
            break
        shifted = 1.0 / ((D if D.ndim == 1 else D[rows]) + eta[rows, None])
        lengths = squares[rows] * shifted
        lengths *= shifted
        norm = np.sqrt(lengths @ ones)
        if norm.min() < 1e-75:  # the weight is so large that the rows vanish
            break
        rate = norm**3 / np.einsum("ij,ij->i", lengths, shifted)  # d eta / d(1 / norm)
        inverse = 1.0 / norm - eta[rows] / rate  # the tangent at eta = 0
        previous, target = target, _waterline(inverse, rate, lambda1)
        if target >= previous * (1.0 - 1e-13):
            break
        eta[rows] = np.maximum(target - inverse, 0.0) * rate
        bare = inverse if bare is None else bare
        rows, bare = rows[bare < target], bare[bare < target]
    return _rotated(size * C / (D + eta[:, None]), np.swapaxes(Q, -1, -2))


def _with_ordinary_weight(A: Array, B: Array, lambda1: float) -> tuple[Array, Array, float]:
    """Return the problem of :func:`max_norm_basis` divided by a constant if its matrices are extreme.

    The solution does not depend on the constant, a power of two, which brings the trace of A near one.
    """
    trace = float(np.trace(A, axis1=-2, axis2=-1).max())
    if EXTREME_WEIGHT <= trace <= 1.0 / EXTREME_WEIGHT or not np.isfinite(trace):
        return A, B, lambda1
    scale = 2.0 ** -np.frexp(max(trace, float(np.finfo(np.float64).tiny)))[1]
    return scale * A, scale * B, scale * lambda1


def _rotated(X: Array, Q: Array) -> Array:
    """Return X Q, where Q is one matrix for all rows of X or one for each."""
    return X @ Q if Q.ndim == 2 else np.matmul(X[:, None, :], Q)[:, 0]


def _waterline(ground: Array, width: Array, volume: float) -> float:
    """Return the level at which ``sum(width * max(level - ground, 0)) = volume``.

    Ground above the level that all widths together would give is dry and is left out, until no more ground
    is (Michelot's algorithm).
    """
    while True:
        level = (volume + float(width @ ground)) / float(width.sum())
        under = ground < level
        if under.all() or not under.any():  # none if the volume is below rounding errors
            return level
        ground, width = ground[under], width[under]


def coordinate_descent_basis(L: Array, A: Array, B: Array, lambda1: float) -> Array:
    """Return the basis after one pass of Algorithm 4 as printed, a subgradient step for each column in turn.

    The step ``lambda1 u_j / A_jj`` is unbounded while A_jj is small. A basis whose surrogate is larger than
    before and larger than that of L = 0 has diverged, which raises :class:`DivergenceError`.
    """

    def surrogate(M: Array) -> float:
        return float(np.vdot(M, 0.5 * M @ A - B)) + 0.5 * lambda1 * float(row_norms(M).max()) ** 2

    new = L.astype(np.float64)
    lengths = row_norms(new)
    longest = lengths == lengths.max()
    U = np.where(longest[:, None], new, 0.0) / longest.sum()  # Eq. (3.11), Q spread evenly over ties
    with np.errstate(over="ignore", invalid="ignore"):
        for j in np.flatnonzero(np.diag(A) > 0.0):
            new[:, j] -= (new @ A[:, j] - B[:, j] + lambda1 * U[:, j]) / A[j, j]
        value, before = surrogate(new), surrogate(L.astype(np.float64))
    if not value <= max(before, 0.0) + 1e-9 * abs(before):
        raise DivergenceError(
            f"Algorithm 4 (basis_update='bcd') has diverged: the surrogate rose from {before:.3g} to "
            f"{value:.3g}. Use basis_update='exact', a smaller lambda1 or a larger batch_size."
        )
    return new.astype(L.dtype, copy=False)


def max_norm(state: State, lambda1: float | None, basis_update: BasisUpdate) -> MaxNorm:
    """Return the max-norm; lambda1 is by default ``1 / sqrt(p)``, which has no unit.

    It is less if the data have a large mean: the norm shortens the longest rows of L, those of the features
    with the largest means, by an amount that must stay small beside the signal. In the units of a factor
    model it is proportional to the variance of the residual, as that of a prior would be: data without noise
    need no regularisation.
    """
    if lambda1 is None:
        entry, signal = state.scales.entry_scale, state.signal_scale
        lambda1 = min(1.0, signal / entry if entry else 1.0) / sqrt(len(state.L))
        lambda1 *= noise_share(state)
    return MaxNorm(lambda1, basis_update)


def nuclear_norm(state: State, lambda1: float | None, basis_update: BasisUpdate) -> NuclearNorm:
    """Return the nuclear norm; lambda1 is by default a tenth of ``1 / sqrt(d)`` in units of the data.

    A larger weight slows the start. The unit is the scale of the signal if the data have a large mean.
    """
    if lambda1 is None:
        scale = min(state.scales.entry_scale, state.signal_scale)
        lambda1 = 0.1 * scale / sqrt(state.L.shape[1])
    return NuclearNorm(lambda1)


def noise_share(state: State) -> float:
    """Return the factor of the weight of a norm, in the units of a factor model, that is due to the noise.

    It is proportional to the variance of the residual, as that of a prior would be, once there are enough
    samples to determine the basis.
    """
    signal, residual = state.signal_scale, state.scales.residual_scale
    if state.gauge is None or residual >= signal or state.time < ENOUGH_SAMPLES * state.L.shape[1]:
        return 1.0
    return min(max(NOISE_WEIGHT * (residual / signal) ** 2, LEAST_NOISE_SHARE), 1.0)


#: Norms by name: functions of the state, of lambda1 (None if it is "auto") and of the basis update.
NORMS: dict[str, Callable[[State, float | None, BasisUpdate], FactorNorm]] = {
    "max": max_norm,
    "nuclear": nuclear_norm,
}


def weighted_max_norm(
    statistics: SufficientStatistics,
    L: Array,
    weight: float,
    prior: float,
    basis_update: BasisUpdate = "exact",
) -> MaxNorm:
    """Return the max-norm with a weight per observed entry and, if ``prior`` is not zero, a Gaussian prior.

    The prior on the rows of L has their empirical second moment as its covariance. It shrinks the rows of
    features with few entries.
    """
    ridge = None
    if prior:
        ridge = np.zeros_like(statistics.A)
        if statistics.weight and statistics.grams is not None:
            n_seen = int(np.any(statistics.grams, axis=1).sum())
            moment = L.T @ L / n_seen
            inverse = np.linalg.pinv(moment, rcond=RANK_TOLERANCE, hermitian=True)
            ridge = prior * (statistics.residual_variance(L) * inverse)
            # Without a bound, rows that shrink would strengthen the prior that shrinks them.
            bound = LARGEST_RIDGE * float(np.trace(statistics.A))
            ridge *= min(1.0, bound / max(float(np.trace(ridge)), bound, DOUBLE.negligible))
    return MaxNorm(weight * statistics.entries, basis_update, ridge)
