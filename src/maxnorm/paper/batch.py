"""The batch problem, Eq. (2.5), solved to convergence: the problem that the online learner approximates."""

from __future__ import annotations

from dataclasses import dataclass

from maxnorm.core.encoding import Encoding, encode
from maxnorm.core.noise import Noise
from maxnorm.core.norms import FactorNorm
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array, Mask


@dataclass(frozen=True, eq=False)
class BatchSolution:
    """A stationary point of Eq. (2.5), with the values of the objective on the way to it."""

    L: Array  # p x d, basis
    code: Encoding  # coefficients and noise of the samples in this basis
    values: list[float]  # objective after each round, in decreasing order
    converged: bool  # whether the tolerance was met

    @property
    def value(self) -> float:
        """Value of the objective at the solution."""
        return self.values[-1]


def objective(code: Encoding, L: Array, norm: FactorNorm) -> float:
    """Return the objective of the batch problem: n times the empirical loss f_n(L) of Eq. (2.8).

    Parameters
    ----------
    code : Encoding
        Coefficients and noise of all n samples in the basis L.
    L : array of shape (n_features, rank)
        Basis.
    norm : FactorNorm
        Regulariser.

    Returns
    -------
    float
        Sum of the losses of the samples and the cost of the basis.
    """
    return float(code.loss.sum()) + norm.basis_value(L)


def solve_batch(
    Z: Array,
    L: Array,
    observed: Mask | None = None,
    *,
    norm: FactorNorm,
    noise: Noise,
    tol: float = 1e-7,
    max_iter: int = 10_000,
) -> BatchSolution:
    """Solve the batch problem by exact alternation.

    Each round solves two convex problems: the coefficients and the noise of all samples given the basis, and
    the basis given both. The objective decreases from round to round. If the number of components is at least
    the rank of the solution, the value is that of the convex problem, Eq. (1.1). Memory and time grow with
    the number of samples.

    Parameters
    ----------
    Z : array of shape (n_samples, n_features)
        Samples.
    L : array of shape (n_features, rank)
        Initial basis.
    observed : boolean array of shape (n_samples, n_features), default=None
        Which entries are observed. None means all of them.
    norm : FactorNorm
        Regulariser.
    noise : Noise
        Cost of the noise.
    tol : float, default=1e-7
        The rounds end when one of them decreases the objective by less than this share of its value.
    max_iter : int, default=10000
        Largest number of rounds.

    Returns
    -------
    BatchSolution
        Basis, coefficients, noise and the values of the objective.
    """
    values: list[float] = []
    for _ in range(max_iter):
        code = encode(Z, L, observed, norm=norm, noise=noise, tol=1e-9, max_iter=100_000)
        values.append(objective(code, L, norm))
        if len(values) > 1 and values[-2] - values[-1] <= tol * abs(values[-1]):
            return BatchSolution(L, code, values, converged=True)
        targets = Z - code.E if observed is None else code.R @ L.T + code.residual
        statistics = SufficientStatistics.from_batch(targets, code.R, code.penalty)
        L = norm.update_basis(L, statistics)
    return BatchSolution(L, code, values, converged=False)
