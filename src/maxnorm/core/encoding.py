"""The per-sample problem: coefficients and noise of samples in a fixed basis (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxnorm.core.linalg import row_norms, soft_threshold, thin_svd
from maxnorm.core.noise import Noise, is_adaptive, is_row_noise
from maxnorm.core.norms import FactorNorm
from maxnorm.core.types import Array, Mask

# The thresholds of an adaptive noise follow the residual for some sweeps, then only grow, then stand still:
# frozen at a moment when the residual happens to be small, they might reject the whole sample.
FOLLOWING_SWEEPS, ADAPTING_SWEEPS = 20, 30

# Given the residual, which it may overwrite, what is observed, the thresholds so far, the number of the sweep
# and work space: what the residual asks of the basis, its weight against the ridge, and the thresholds.
Pull = Callable[[Array, Mask | None, Array | None, int, Array], tuple[Array, Array, Array | None]]

WORTH_SINGLE_PRECISION = 10_000  # entries of the basis

ONE = np.ones(1)


@dataclass(frozen=True)
class Encoding:
    """A batch as seen in a basis."""

    R: Array  # b x d, coefficients
    E: Array  # b x p, noise; zero where nothing was observed
    residual: Array  # b x p, Z - R L^T - E; zero where nothing was observed
    loss: Array  # b, the loss of each sample, Eq. (2.9)
    penalty: Array  # b, the share of noise and coefficients in it
    demand: Array  # b, the norm that r would have if it were free
    rank: int  # directions that the basis has
    n_iter: NDArray[np.int_]  # b, sweeps taken
    converged: Mask  # b, whether the tolerance was met


def encode(
    Z: Array,
    L: Array,
    observed: Mask | None = None,
    *,
    norm: FactorNorm,
    noise: Noise,
    tol: float = 1e-6,
    loose: float = 0.0,
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
    precision of Z. Rows do not see each other. A row also stops when its step is at most ``loose`` times
    what it leaves unexplained, which is enough for learning; the sweeps of a large problem are then taken in
    single precision, if the range of the data allows it. The noise is always found in the precision of Z.

    Entries that are not ``observed`` have a free e, so that they pull at nothing. With
    ``missing_lambda2`` they count as observed zeros with that (small) lambda2: the 1/c of Eq. (5.1).
    """
    U, sigma, V = thin_svd(L)
    if observed is not None:
        Z = np.where(observed, Z, Z.dtype.type(0))
    pull_of = _pull_of(noise, missing_lambda2)
    working = np.dtype(np.float32) if loose and _single_precision_pays(Z, U, sigma) else Z.dtype
    S, demand, thresholds, n_iter, converged = _descend(
        Z.astype(working, copy=False),
        observed,
        U.astype(working, copy=False),
        sigma,
        norm,
        pull_of,
        tol,
        loose,
        max_iter,
    )
    S = S.astype(Z.dtype, copy=False)
    R = ((S / sigma) @ V.T).astype(Z.dtype, copy=False)

    residual: Array = S @ U.T
    np.subtract(Z, residual, out=residual)
    seen = residual if observed is None else residual * observed
    E: Array
    penalty: Array
    if thresholds is not None and is_adaptive(noise):
        thresholds = thresholds.astype(Z.dtype, copy=False)
        pull = noise.pull_at(seen, thresholds)
        penalty = noise.loss_at(seen, thresholds) - 0.5 * np.einsum("ij,ij->i", pull, pull)
        E = np.subtract(seen, pull, out=None if np.may_share_memory(pull, seen) else pull)
    else:
        E = noise.prox(seen)
        penalty = noise.value(E)
    penalty = penalty + norm.coefficient_value(R)
    if observed is not None:
        hidden = soft_threshold(np.where(observed, Z.dtype.type(0), residual), missing_lambda2)
        penalty = penalty + missing_lambda2 * np.abs(hidden).sum(axis=1)
        residual -= hidden
    residual = np.subtract(residual, E, out=None if np.may_share_memory(E, residual) else residual)
    loss = 0.5 * np.einsum("ij,ij->i", residual, residual) + penalty
    return Encoding(R, E, residual, loss, penalty, demand, len(sigma), n_iter, converged)


def _single_precision_pays(Z: Array, U: Array, sigma: Array) -> bool:
    """Whether products are what takes the time, and squares of the data neither over- nor underflow."""
    sizes = np.append(sigma, (Z.max(initial=0.0), -Z.min(initial=0.0)))
    return U.size >= WORTH_SINGLE_PRECISION and bool(np.all(sizes < 1e15) and np.all(sigma > 1e-15))


def _pull_of(noise: Noise, missing_lambda2: float) -> Pull:
    """Return the function that turns residuals into pulls, with the noise's kind settled once."""
    row_noise = noise if is_row_noise(noise) else None
    adaptive = noise if is_adaptive(noise) else None

    def pull(
        residual: Array, observed: Mask | None, thresholds: Array | None, sweep: int, work: Array
    ) -> tuple[Array, Array, Array | None]:
        if missing_lambda2 and observed is not None:
            seen = residual * observed
            limited = np.clip(residual - seen, -missing_lambda2, missing_lambda2)
            return seen - noise.prox(seen) + limited, ONE, None
        seen = residual if observed is None else np.multiply(residual, observed, out=residual)
        if row_noise is not None:
            return seen, row_noise.weight(seen), None
        if adaptive is None:
            return seen - noise.prox(seen), ONE, None
        # A scale is a matter of a factor, so after the first sweeps it is enough to look now and then.
        if thresholds is None or (sweep <= FOLLOWING_SWEEPS and (sweep <= 4 or sweep % 4 == 0)):
            thresholds = adaptive.thresholds(seen)
        elif FOLLOWING_SWEEPS < sweep <= ADAPTING_SWEEPS:
            thresholds = np.maximum(thresholds, adaptive.thresholds(seen))
        return adaptive.pull_at(seen, thresholds, work), ONE, thresholds

    return pull


def _descend(
    Z: Array,
    observed: Mask | None,
    U: Array,
    sigma: Array,
    norm: FactorNorm,
    pull_of: Pull,
    tol: float,
    loose: float,
    max_iter: int,
) -> tuple[Array, Array, Array | None, NDArray[np.int_], Mask]:
    """Accelerated proximal gradient for all rows at once; rows that are done leave the batch."""
    b = len(Z)
    tol = max(tol, 8.0 * float(np.finfo(Z.dtype).eps))
    squares = (sigma / sigma.max(initial=0.0)) ** 2
    result, demand = np.zeros((b, len(sigma)), Z.dtype), np.zeros(b)
    n_iter, converged = np.full(b, max_iter), np.zeros(b, dtype=np.bool_)
    rows, S, Y, t = np.arange(b), result, result, np.ones(b)
    eta: Array | None = None
    thresholds: Array | None = None
    last_thresholds: Array | None = None
    UT = np.ascontiguousarray(U.T)
    # Work space for all sweeps: pages of fresh memory can cost more than what is computed in them.
    residuals, work, rest, other = (np.empty_like(Z) for _ in range(4))
    for sweep in range(1, max_iter + 1):
        residual = residuals[: len(rows)]
        if sweep > 1:
            np.subtract(Z, np.matmul(Y, UT, out=residual), out=residual)
        else:
            residual[:] = Z
        pull, weight, thresholds = pull_of(residual, observed, thresholds, sweep, work[: len(rows)])
        G = pull @ U
        G += Y
        eta = norm.multipliers(G, sigma, weight, eta)
        new = (G * (squares / (squares + eta[:, None]))).astype(Z.dtype, copy=False)
        step, progress = new - Y, new - S
        left = row_norms(pull)
        done = row_norms(step) <= np.maximum(tol * np.hypot(row_norms(Y), left), loose * left)
        overshot = np.einsum("ij,ij->i", step, progress) < 0.0
        t_next = np.where(overshot, 1.0, 0.5 + np.sqrt(0.25 + t * t))
        momentum = np.where(overshot, 0.0, (t - 1.0) / t_next).astype(Z.dtype, copy=False)
        S, t = new, t_next
        Y = S + momentum[:, None] * progress
        if done.any() or sweep == max_iter:
            demand[rows] = row_norms(G / sigma)
            if thresholds is not None:
                last_thresholds = np.zeros((b, 2), Z.dtype) if last_thresholds is None else last_thresholds
                last_thresholds[rows] = thresholds
            stopped, on = rows[done], ~done
            result[stopped], n_iter[stopped], converged[stopped] = S[done], sweep, True
            rows, S, Y, t = rows[on], S[on], Y[on], t[on]
            Z = np.take(Z, np.flatnonzero(on), axis=0, out=rest[: len(rows)], mode="clip")
            rest, other = other, rest
            eta = eta[on] if len(eta) == len(on) else eta
            observed = None if observed is None else observed[on]
            thresholds = None if thresholds is None else thresholds[on]
            if not len(rows):
                break
    result[rows] = S
    return result, demand, last_thresholds, n_iter, converged
