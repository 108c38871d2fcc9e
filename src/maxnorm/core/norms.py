"""Factor norms: what the coefficients and the basis cost, and the basis update that follows."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from maxnorm.core.linalg import ball_multipliers, row_norms, symmetric
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array


class DivergenceError(ArithmeticError):
    """A basis update made the surrogate worse than no basis at all."""


class FactorNorm(Protocol):
    """A regulariser of ``X = R L^T`` written on its factors.

    The coefficients of a sample solve ``(L^T L + eta I) r = L^T (z - e)``; the norm says which ``eta``.
    """

    @property
    def lambda1(self) -> float:
        """Weight of the norm."""
        ...

    def multipliers(self, G: Array, sigma: Array, weight: Array, start: Array | None) -> Array:
        """Return ``eta`` for each row, in units of the largest ``sigma ** 2``.

        ``L = U diag(sigma) V^T`` and ``G = (Z - E) U``, for all rows or, with a row of ``sigma`` for each,
        for what is observed of it; ``weight`` is the share of the residual that the
        noise leaves to the basis, and ``start`` the multipliers of the sweep before, if any.
        """
        ...

    def coefficient_value(self, R: Array) -> Array:
        """Return what each row of R costs."""
        ...

    def basis_value(self, L: Array) -> float:
        """Return what the basis costs, once for all samples."""
        ...

    def update_basis(self, L: Array, statistics: SufficientStatistics) -> Array:
        """Return the basis that minimises the surrogate, Eq. (3.10), given the one before."""
        ...


def anchored(L: Array, statistics: SufficientStatistics) -> tuple[Array, Array]:
    """Return A and B with a vanishing pull towards L, so that A is positive definite.

    Directions that no sample has used yet keep what L says of them: after t < d samples the minimiser
    of Eq. (3.10) is otherwise not unique, and its least-norm choice would lose rank for good.
    Assumption (A2) of the paper hides this.
    """
    d = len(statistics.A)
    anchor = float(np.finfo(L.dtype).eps) ** (2 / 3) * float(np.trace(statistics.A))
    if statistics.grams is not None:  # a feature that was never observed is drawn to zero: it has no row
        seen = np.any(statistics.grams, axis=1, keepdims=True)
        return symmetric(statistics.grams, d) + anchor * np.eye(d), statistics.B + anchor * L * seen
    return statistics.A + anchor * np.eye(d), statistics.B + anchor * L


@dataclass(frozen=True)
class MaxNorm:
    """``norm(r) <= 1`` for every sample and ``lambda1 / 2 * max_i norm(l_i)^2`` on the rows of L.

    ``basis="exact"`` minimises the surrogate; ``"bcd"`` is Algorithm 4 as printed, which may diverge and
    then raises :class:`DivergenceError`.
    """

    lambda1: float
    basis: Literal["exact", "bcd"] = "exact"
    ridge: Array | None = None  # d x d; every row l of L pays 1/2 l^T ridge l as well

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
        if not statistics.A.any():  # nothing but zeros so far
            return L
        if self.basis == "bcd":
            return coordinate_descent_basis(L, statistics.A, statistics.B, self.lambda1)
        A, B = anchored(L, statistics)
        if self.ridge is not None:
            A = A + self.ridge
        return max_norm_basis(A, B, self.lambda1).astype(L.dtype, copy=False)


@dataclass(frozen=True)
class NuclearNorm:
    """``lambda1 / 2 * norm(r)^2`` for every sample and ``lambda1 / 2 * norm(L)_F^2``: OR-PCA."""

    lambda1: float

    def multipliers(self, G: Array, sigma: Array, weight: Array, start: Array | None) -> Array:
        top = sigma.max(axis=-1, initial=0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(weight * top > 0, self.lambda1 / top / top / weight, np.inf)

    def coefficient_value(self, R: Array) -> Array:
        return 0.5 * self.lambda1 * np.einsum("ij,ij->i", R, R)

    def basis_value(self, L: Array) -> float:
        return 0.5 * self.lambda1 * float(np.vdot(L, L))

    def update_basis(self, L: Array, statistics: SufficientStatistics) -> Array:
        if not statistics.A.any():
            return L
        A, B = anchored(L, statistics)
        D, Q = np.linalg.eigh(A)
        return _turned(_turned(B, Q) / (D + self.lambda1), np.swapaxes(Q, -1, -2)).astype(L.dtype, copy=False)


def max_norm_basis(A: Array, B: Array, lambda1: float) -> Array:
    """Exact minimiser of ``1/2 tr(L A L^T) - tr(L B^T) + lambda1/2 max_i norm(l_i)^2``, Eq. (3.10).

    For a bound tau on the row norms the rows decouple, ``l_i = (A + eta_i I)^-1 b_i``, and the best tau is
    where the multipliers eta_i(tau) sum to lambda1 (eta_i / lambda1 is the Q of Eq. (3.11), with ties
    settled). ``1 / norm(l_i)`` is concave and nearly linear in eta_i. With its tangents in its place the
    equation is piecewise linear in ``1 / tau`` and easily solved; tangents lie above, so that ``1 / tau``
    never falls below its root, from which it follows that it falls from step to step. No bracket is needed,
    and about five steps suffice.

    A may also hold one matrix for each row of B. Cost: one eigendecomposition of A (or of each), two products
    with it, O(p d) a step.
    """
    size = max(float(B.max(initial=0.0)), -float(B.min(initial=0.0))) or 1.0  # so that no square overflows
    D, Q = np.linalg.eigh(A)
    C = _turned(B, Q / size)
    squares = C * C
    eta, target, ones = np.zeros(len(C)), np.inf, np.ones(C.shape[1])
    rows = np.flatnonzero(squares @ ones > 1e-100) if lambda1 > 0.0 else np.arange(0)  # may be bound
    bare: Array | None = None  # 1 / norm of these rows if they are not
    for _ in range(100):
        if not len(rows):
            break
        shifted = 1.0 / ((D if D.ndim == 1 else D[rows]) + eta[rows, None])
        lengths = squares[rows] * shifted
        lengths *= shifted
        norm = np.sqrt(lengths @ ones)
        if norm.min() < 1e-75:  # a weight so large that nothing is left
            break
        rate = norm**3 / np.einsum("ij,ij->i", lengths, shifted)  # d eta / d(1 / norm)
        inverse = 1.0 / norm - eta[rows] / rate  # the tangent at eta = 0
        previous, target = target, _waterline(inverse, rate, lambda1)
        if target >= previous * (1.0 - 1e-13):
            break
        eta[rows] = np.maximum(target - inverse, 0.0) * rate
        bare = inverse if bare is None else bare
        rows, bare = rows[bare < target], bare[bare < target]
    return _turned(size * C / (D + eta[:, None]), np.swapaxes(Q, -1, -2))


def _turned(X: Array, Q: Array) -> Array:
    """Rows of X times Q, or each row times a matrix of its own."""
    return X @ Q if Q.ndim == 2 else np.matmul(X[:, None, :], Q)[:, 0]


def _waterline(ground: Array, width: Array, volume: float) -> float:
    """Return the level at which ``sum(width * max(level - ground, 0)) = volume``.

    Ground above the level that all of it would give stays dry (Michelot): a few rounds settle which.
    """
    while True:
        level = (volume + float(width @ ground)) / float(width.sum())
        under = ground < level
        if under.all() or not under.any():  # none: the volume is lost in rounding errors
            return level
        ground, width = ground[under], width[under]


def coordinate_descent_basis(L: Array, A: Array, B: Array, lambda1: float) -> Array:
    """One pass of Algorithm 4 as printed: a subgradient step for each column in turn.

    The step ``lambda1 u_j / A_jj`` has no bound while A_jj is small, and the basis then explodes. A basis
    whose surrogate is worse both than the one before and than L = 0 has diverged.
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
            f"Algorithm 4 (basis='bcd') has diverged: the surrogate rose from {before:.3g} to {value:.3g}. "
            "Use basis='exact', a smaller lambda1 or a larger batch_size."
        )
    return new.astype(L.dtype, copy=False)
