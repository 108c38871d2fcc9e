"""The batch problem, Eq. (2.5), solved to convergence: what the online learner approaches."""

from __future__ import annotations

from dataclasses import dataclass

from maxnorm.core.encoding import Encoding, encode
from maxnorm.core.noise import Noise
from maxnorm.core.norms import FactorNorm
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array, Mask


@dataclass(frozen=True, eq=False)
class BatchSolution:
    """A stationary point of Eq. (2.5) and how it was reached."""

    L: Array  # p x d
    code: Encoding  # of the samples in L
    values: list[float]  # of the objective, after each round; they fall
    converged: bool

    @property
    def value(self) -> float:
        """Value of the objective."""
        return self.values[-1]


def objective(code: Encoding, L: Array, norm: FactorNorm) -> float:
    """Return the sum of the samples' losses and the cost of the basis: n times f_n(L) of Eq. (2.8)."""
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
    """Alternate between all samples' coefficients and noise and the basis, each solved exactly.

    Coefficients and noise given L, and L given them, are convex problems, and the objective falls from
    round to round. With at least as many components as the rank of the solution, its value is that of the
    convex problem, Eq. (1.1). Memory and time grow with the number of samples. The rounds end when one
    lowers the objective by less than ``tol`` of its value.
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
