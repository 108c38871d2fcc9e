"""The learner without scikit-learn: encode, step, run. Algorithm 1 of the paper on one page.

Rows are samples throughout; the paper has them as columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxnorm._linalg import row_norms, soft_threshold, thin_svd
from maxnorm._typing import Array, Mask
from maxnorm.noise import AdaptiveNoise, Noise, RowNoise
from maxnorm.norms import FactorNorm
from maxnorm.statistics import PAST, RECENT, Scales, SufficientStatistics

FOLLOWING_SWEEPS, ADAPTING_SWEEPS = 20, 30  # up to which thresholds of an adaptive noise follow, and grow


@dataclass(frozen=True)
class Encoding:
    """A batch as seen in a basis."""

    R: Array  # b x d, coefficients
    E: Array  # b x p, noise; zero where nothing was observed
    residual: Array  # b x p, Z - R L^T - E; zero where nothing was observed
    loss: Array  # b, the loss of each sample, Eq. (2.9)
    penalty: Array  # b, the share of noise and coefficients in it
    demand: Array  # b, the norm that r would have if it were free
    n_iter: NDArray[np.int_]  # b, sweeps taken
    converged: Mask  # b, whether the tolerance was met


@dataclass(frozen=True)
class State:
    """All that is carried from one batch to the next; its size does not depend on the samples seen."""

    L: Array  # p x d
    statistics: SufficientStatistics
    scales: Scales = field(default_factory=Scales)
    n_samples: int = 0
    n_steps: int = 0
    time: int = 0  # samples that had anything in them: those by which memory fades

    @classmethod
    def start(cls, L: Array) -> State:
        """Return the state before the first sample, with L as initial basis."""
        return cls(L=L, statistics=SufficientStatistics.zeros(*L.shape))


def run(
    state: State,
    batches: Iterable[Array],
    *,
    callback: Callable[[State, Encoding], object] | None = None,
    **settings: Any,
) -> State:
    """Algorithm 1: learn from batches (NaN = missing) one after the other; ``settings`` are those of step."""
    for Z in batches:
        state, code = step(state, *split_missing(Z), **settings)
        if callback is not None:
            callback(state, code)
    return state


def step(
    state: State,
    Z: Array,
    observed: Mask | None = None,
    *,
    norm: FactorNorm,
    noise: Noise,
    forgetting: float = 0.0,
    half_life: float | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    missing_lambda2: float = 0.0,
) -> tuple[State, Encoding]:
    """Learn from one batch: lines 3-5 of Algorithm 1.

    A sample seen at time t weighs ``t ** forgetting``, and half as much every ``half_life`` samples later.
    Samples in which nothing is observed, or everything is zero, change nothing.
    """
    counted = replace(state, n_samples=state.n_samples + len(Z), n_steps=state.n_steps + 1)
    full = np.any(Z, axis=1) if observed is None else np.any(Z * observed, axis=1)
    if not full.all():
        Z, observed = Z[full], None if observed is None else observed[full]
    code = encode(
        Z,
        state.L,
        observed,
        norm=norm,
        noise=noise,
        tol=tol,
        max_iter=max_iter,
        missing_lambda2=missing_lambda2,
    )
    if not len(Z):
        return counted, code

    now = state.time + len(Z)
    weights = decay(np.arange(state.time + 1, now + 1), now, forgetting, half_life)
    if isinstance(noise, AdaptiveNoise):
        weights = weights * noise.belief(code.residual + code.E)
    targets = code.R @ state.L.T + code.residual
    statistics = state.statistics.scaled(float(decay(state.time, now, forgetting, half_life)))
    statistics += SufficientStatistics.from_batch(targets, code.R, code.penalty, weights)

    ages = (float(decay(state.time, now, power, half_life)) for power in (0.0, PAST, RECENT))
    scales = state.scales.scaled(*ages) + Scales.from_batch(Z, code.E, code.residual, observed)
    L = norm.update_basis(state.L, statistics)
    return replace(counted, L=L, statistics=statistics, scales=scales, time=now), code


def decay(then: ArrayLike, now: int, forgetting: float, half_life: float | None) -> Array:
    """Return what remains at time ``now`` of the weight that samples had at time ``then``."""
    fade = (np.asarray(then) / now) ** forgetting
    return fade if half_life is None else fade * 0.5 ** ((now - np.asarray(then)) / half_life)


def surrogate(state: State, norm: FactorNorm, L: Array | None = None) -> float:
    """Return g_t(L) of Eq. (3.1), at the state's own basis unless another is given."""
    L64 = (state.L if L is None else L).astype(np.float64, copy=False)
    seen = state.statistics
    if not seen.weight:
        return 0.0
    quadratic = float(np.vdot(L64, 0.5 * L64 @ seen.A - seen.B))
    return (quadratic + seen.loss + norm.basis_value(L64)) / seen.weight


def encode(
    Z: Array,
    L: Array,
    observed: Mask | None = None,
    *,
    norm: FactorNorm,
    noise: Noise,
    tol: float = 1e-6,
    max_iter: int = 1000,
    missing_lambda2: float = 0.0,
) -> Encoding:
    """Solve Eq. (3.2) for each row of Z: coefficients and noise of a sample in a fixed basis.

    Minimising over e first leaves a smooth function of r whose gradient is one-Lipschitz in the metric
    of L. In the coordinates ``s = diag(sigma) V^T r`` of ``L = U diag(sigma) V^T`` that metric is the
    identity, and a round of Algorithm 3 is a proximal gradient step, which is accelerated (Nesterov,
    restarted row by row). It starts at r = 0: from the paper's e = 0 an entry of e would move by at most
    lambda2 a sweep.

    A row stops when its step is at most ``tol`` times the size of what it fits; for a convex noise this
    bounds the KKT residual in s by the same number. ``tol`` is not taken below the rounding errors of the
    precision of Z. Rows do not see each other.

    Entries that are not ``observed`` have a free e, so that they pull at nothing. With
    ``missing_lambda2`` they count as observed zeros with that (small) lambda2: the 1/c of Eq. (5.1).
    """
    U, sigma, V = thin_svd(L)
    if observed is not None:
        Z = np.where(observed, Z, Z.dtype.type(0))
    problem = _Problem(U, sigma, norm, noise, missing_lambda2)
    S, demand, n_iter, converged = problem.solve(Z, observed, tol, max_iter)
    R = ((S / sigma) @ V.T).astype(Z.dtype, copy=False)

    residual = Z - S @ U.T
    E = noise.prox(residual if observed is None else residual * observed)
    if observed is not None:
        hidden = np.where(observed, Z.dtype.type(0), residual)
        E_hidden = soft_threshold(hidden, missing_lambda2)
        residual -= E_hidden
    residual -= E
    penalty = noise.value(E) + norm.coefficient_value(R)
    if missing_lambda2 and observed is not None:
        penalty = penalty + missing_lambda2 * np.abs(E_hidden).sum(axis=1)
    loss = 0.5 * np.einsum("ij,ij->i", residual, residual) + penalty
    return Encoding(R, E, residual, loss, penalty, demand, n_iter, converged)


@dataclass(frozen=True)
class _Problem:
    """The coefficient problem in the coordinates of ``L = U diag(sigma) V^T``."""

    U: Array
    sigma: Array
    norm: FactorNorm
    noise: Noise
    missing_lambda2: float

    def pull(
        self, residual: Array, observed: Mask | None, thresholds: Array | None, sweep: int
    ) -> tuple[Array, Array, Array | None]:
        """Return what the residual asks of the basis, its weight against the norm's ridge, and thresholds."""
        hidden: Array | None = None
        weight: Array = np.ones(1)
        if observed is not None:
            if self.missing_lambda2:
                hidden = np.where(observed, residual.dtype.type(0), residual)
            residual = residual * observed
        if isinstance(self.noise, RowNoise) and hidden is None:
            pull, weight = residual, self.noise.weight(residual)
        elif isinstance(self.noise, AdaptiveNoise):
            thresholds = self.adapted(residual, thresholds, sweep)
            pull = residual - self.noise.prox_at(residual, thresholds)
        else:
            pull = residual - self.noise.prox(residual)
        if hidden is not None:
            pull = pull + np.clip(hidden, -self.missing_lambda2, self.missing_lambda2)
        return pull, weight, thresholds

    def adapted(self, residual: Array, thresholds: Array | None, sweep: int) -> Array:
        """Return thresholds that follow the residual, then only grow, then stand still.

        Frozen at a moment when the residual happens to be small they might reject the whole sample.
        """
        assert isinstance(self.noise, AdaptiveNoise)
        if thresholds is None or sweep <= FOLLOWING_SWEEPS:
            return self.noise.thresholds(residual)
        if sweep <= ADAPTING_SWEEPS:
            return np.maximum(thresholds, self.noise.thresholds(residual))
        return thresholds

    def solve(
        self, Z: Array, observed: Mask | None, tol: float, max_iter: int
    ) -> tuple[Array, Array, NDArray[np.int_], Mask]:
        """Accelerated proximal gradient for all rows at once; rows that are done leave the batch."""
        tol = max(tol, 8.0 * float(np.finfo(Z.dtype).eps))
        squares = (self.sigma / self.sigma.max(initial=0.0)) ** 2
        result = np.zeros((len(Z), len(squares)), Z.dtype)
        demand = np.zeros(len(Z))
        n_iter = np.full(len(Z), max_iter)
        converged = np.zeros(len(Z), dtype=np.bool_)
        rows = np.arange(len(Z))
        S = Y = result
        t, eta, thresholds = np.ones(len(Z)), None, None
        for sweep in range(1, max_iter + 1):
            pull, weight, thresholds = self.pull(Z - Y @ self.U.T, observed, thresholds, sweep)
            G = Y + pull @ self.U
            eta = self.norm.multipliers(G, self.sigma, weight, eta)
            new = (G * (squares / (squares + eta[:, None]))).astype(Z.dtype, copy=False)
            step, progress = new - Y, new - S
            done = row_norms(step) <= tol * np.hypot(row_norms(Y), row_norms(pull))
            overshot = np.einsum("ij,ij->i", step, progress) < 0.0
            t_next = np.where(overshot, 1.0, 0.5 + np.sqrt(0.25 + t * t))
            momentum = np.where(overshot, 0.0, (t - 1.0) / t_next).astype(Z.dtype, copy=False)
            S, t = new, t_next
            Y = S + momentum[:, None] * progress
            if done.any() or sweep == max_iter:
                demand[rows] = row_norms(G / self.sigma)
                stopped, on = rows[done], ~done
                result[stopped], n_iter[stopped], converged[stopped] = S[done], sweep, True
                rows, Z, S, Y, t = rows[on], Z[on], S[on], Y[on], t[on]
                eta = eta[on] if len(eta) == len(on) else eta
                observed = None if observed is None else observed[on]
                thresholds = None if thresholds is None else thresholds[on]
                if not len(rows):
                    return result, demand, n_iter, converged
        result[rows] = S
        return result, demand, n_iter, converged


def split_missing(Z: Array) -> tuple[Array, Mask | None]:
    """Return Z with zeros for NaN, and where it was observed; no mask if it was everywhere."""
    missing = np.isnan(Z)
    if not missing.any():
        return Z, None
    return np.where(missing, Z.dtype.type(0), Z), ~missing
