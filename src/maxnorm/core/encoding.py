"""The dense encoder: coefficients and noise of samples in a fixed basis (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxnorm.core.linalg import row_norms, soft_threshold, thin_svd
from maxnorm.core.noise import AdaptiveNoise, Noise, RowNoise, within_precision
from maxnorm.core.norms import FactorNorm
from maxnorm.core.precision import UNBOUNDED
from maxnorm.core.types import Array, Mask

# The thresholds of an adaptive noise follow the residual for some sweeps, then may only grow for some more,
# and are constant afterwards. Thresholds frozen when the residual happens to be small might reject a whole
# sample.
FOLLOWING_SWEEPS, GROWING_SWEEPS = 20, 30

# The arguments are the residual, which may be overwritten, the mask of observed entries, the thresholds so
# far, the number of the sweep, and work space. The results are the influence of the residual on the
# coefficients, the share of the residual that is left to the basis, and the thresholds.
Influence = Callable[[Array, Mask | None, Array | None, int, Array], tuple[Array, Array, Array | None]]

# With a basis of at least this many entries, products take most of the time, and single precision halves it.
LARGE_BASIS = 2_000

LARGEST_TOLERANCE = 1e6  # a larger one has the same effect, and its products might overflow

ONE = np.ones(1)


@dataclass(frozen=True)
class Encoding:
    """Coefficients, noise and residual of a batch in a basis."""

    R: Array  #: b x d, coefficients
    E: Array  #: b x p, noise; zero where an entry is missing
    residual: Array  #: b x p, Z - R L^T - E; zero where an entry is missing
    loss: Array  #: b, loss of each sample, Eq. (2.9)
    penalty: Array  #: b, part of the loss that noise and coefficients cost
    free_norm: Array  #: b, norm that the coefficients would have without the norm's constraint
    rank: int  #: numerical rank of the basis
    n_iter: NDArray[np.int_]  #: b, number of sweeps
    converged: Mask  #: b, whether the tolerance was reached
    offset: Array | None = None  #: b x p or p, what biases or a location explain of each entry
    scale: Array | None = None  #: p, units of the low-rank part in the basis; None for those of the data
    basis: Array | None = None  #: p x d, the basis of the coefficients, if it is not that of the state

    @classmethod
    def empty(cls, n_samples: int) -> Encoding:
        """Return an encoding without coefficients, for answers that need none."""
        nothing, each = np.empty((n_samples, 0)), np.zeros(n_samples)
        done = np.ones(n_samples, dtype=np.bool_)
        return cls(nothing, nothing, nothing, each, each, each, 0, np.zeros(n_samples, dtype=np.int_), done)

    def low_rank(self, L: Array) -> Array:
        """Return the low-rank part of the samples, complete where entries are missing, biases included."""
        L = L if self.basis is None else self.basis
        low_rank = self.R @ L.T.astype(self.R.dtype, copy=False)
        if self.scale is not None:
            low_rank = (low_rank * self.scale).astype(low_rank.dtype, copy=False)
        return low_rank if self.offset is None else low_rank + self.offset.astype(low_rank.dtype, copy=False)


def encode(
    Z: Array,
    L: Array,
    observed: Mask | None = None,
    *,
    norm: FactorNorm,
    noise: Noise,
    tol: float = 1e-6,
    learning_tol: float = 0.0,
    max_iter: int = 1000,
    missing_lambda2: float = 0.0,
) -> Encoding:
    """Solve Eq. (3.2) for each row of Z: coefficients and noise of a sample in a fixed basis.

    Minimising over e first leaves a smooth function of r whose gradient is one-Lipschitz in the metric
    of L. In the coordinates ``s = diag(sigma) V^T r`` of ``L = U diag(sigma) V^T`` that metric is the
    identity, and a sweep of Algorithm 3 is a proximal gradient step, which is accelerated (Nesterov's method,
    restarted row by row). It starts at r = 0: from the paper's start e = 0 an entry of e would move by at
    most lambda2 per sweep.

    A row is finished when its step is at most ``tol`` times the norm of what it fits; for a convex noise this
    bounds the KKT residual in s by the same number. ``tol`` is not taken below the rounding errors of the
    precision of Z. Rows are independent of each other. A row is also finished when its step is at most
    ``learning_tol`` times the norm of its residual, which is enough for learning; the sweeps of a large
    problem are then made in single precision if the range of the data allows it. The noise is always
    computed in the precision of Z.

    Entries that are not ``observed`` have a free e, so that they have no influence. With ``missing_lambda2``
    they count as observed zeros with that (small) lambda2, the 1/c of Eq. (5.1).
    """
    U, sigma, V = thin_svd(L)
    if observed is not None:
        Z = np.where(observed, Z, Z.dtype.type(0))
    working = np.dtype(np.float32) if learning_tol and _single_precision_pays(Z, U, sigma) else Z.dtype
    noise = within_precision(noise, working)
    missing_lambda2 = min(missing_lambda2, UNBOUNDED) if working == np.float32 else missing_lambda2
    influence_of = _influence_of(noise, missing_lambda2)
    S, free_norm, thresholds, n_iter, converged = _descend(
        Z.astype(working, copy=False),
        observed,
        U.astype(working, copy=False),
        sigma,
        norm,
        influence_of,
        tol,
        learning_tol,
        max_iter,
    )
    S = S.astype(Z.dtype, copy=False)
    R = ((S / sigma) @ V.T).astype(Z.dtype, copy=False)

    residual: Array = S @ U.T
    np.subtract(Z, residual, out=residual)
    seen = residual if observed is None else residual * observed
    E: Array
    penalty: Array
    if thresholds is not None and isinstance(noise, AdaptiveNoise):
        thresholds = thresholds.astype(Z.dtype, copy=False)
        influence = noise.influence(seen, thresholds)
        penalty = noise.loss(seen, thresholds) - 0.5 * np.einsum("ij,ij->i", influence, influence)
        E = np.subtract(seen, influence, out=None if np.may_share_memory(influence, seen) else influence)
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
    return Encoding(R, E, residual, loss, penalty, free_norm, len(sigma), n_iter, converged)


def _single_precision_pays(Z: Array, U: Array, sigma: Array) -> bool:
    """Return whether single precision saves time and squares of the data neither overflow nor underflow."""
    sizes = np.append(sigma, (Z.max(initial=0.0), -Z.min(initial=0.0)))
    return U.size >= LARGE_BASIS and bool(np.all(sizes < 1e15) and np.all(sigma > 1e-15))


def _influence_of(noise: Noise, missing_lambda2: float) -> Influence:
    """Return the function from residuals to influences; the kind of the noise is looked up only once."""
    row_noise = noise if isinstance(noise, RowNoise) else None
    adaptive = noise if isinstance(noise, AdaptiveNoise) else None

    def influence(
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
        # Thresholds need not be accurate, so that every fourth sweep is enough after the first ones.
        if thresholds is None or (sweep <= FOLLOWING_SWEEPS and (sweep <= 4 or sweep % 4 == 0)):
            thresholds = adaptive.thresholds(seen)
        elif FOLLOWING_SWEEPS < sweep <= GROWING_SWEEPS:
            thresholds = np.maximum(thresholds, adaptive.thresholds(seen))
        return adaptive.influence(seen, thresholds, work), ONE, thresholds

    return influence


def _descend(
    Z: Array,
    observed: Mask | None,
    U: Array,
    sigma: Array,
    norm: FactorNorm,
    influence_of: Influence,
    tol: float,
    learning_tol: float,
    max_iter: int,
) -> tuple[Array, Array, Array | None, NDArray[np.int_], Mask]:
    """Minimise by accelerated proximal gradients for all rows at once; finished rows leave the batch.

    Returns the coordinates s, the norms of unconstrained coefficients, the last thresholds, the numbers of
    sweeps, and whether each row converged.
    """
    b = len(Z)
    tol = min(max(tol, 8.0 * float(np.finfo(Z.dtype).eps)), LARGEST_TOLERANCE)
    squares = (sigma / sigma.max(initial=0.0)) ** 2
    result, free_norm = np.zeros((b, len(sigma)), Z.dtype), np.zeros(b)
    n_iter, converged = np.full(b, max_iter), np.zeros(b, dtype=np.bool_)
    rows, S, Y, t = np.arange(b), result, result, np.ones(b)
    eta: Array | None = None
    thresholds: Array | None = None
    last_thresholds: Array | None = None
    UT = np.ascontiguousarray(U.T)
    # Work space is allocated once for all sweeps: fresh memory pages can cost more than the computation.
    residuals, work, rest, other = (np.empty_like(Z) for _ in range(4))
    for sweep in range(1, max_iter + 1):
        residual = residuals[: len(rows)]
        if sweep > 1:
            np.subtract(Z, np.matmul(Y, UT, out=residual), out=residual)
        else:
            residual[:] = Z
        influence, weight, thresholds = influence_of(residual, observed, thresholds, sweep, work[: len(rows)])
        G = influence @ U
        G += Y
        eta = norm.multipliers(G, sigma, weight, eta)
        new = (G * (squares / (squares + eta[:, None]))).astype(Z.dtype, copy=False)
        step, progress = new - Y, new - S
        left = row_norms(influence)
        done = row_norms(step) <= np.maximum(tol * np.hypot(row_norms(Y), left), learning_tol * left)
        overshot = np.einsum("ij,ij->i", step, progress) < 0.0
        t_next = np.where(overshot, 1.0, 0.5 + np.sqrt(0.25 + t * t))
        momentum = np.where(overshot, 0.0, (t - 1.0) / t_next).astype(Z.dtype, copy=False)
        S, t = new, t_next
        Y = S + momentum[:, None] * progress
        if done.any() or sweep == max_iter:
            free_norm[rows] = row_norms(G / sigma)
            if thresholds is not None:
                if last_thresholds is None:
                    last_thresholds = np.zeros((b, thresholds.shape[1]), Z.dtype)
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
    return result, free_norm, last_thresholds, n_iter, converged
