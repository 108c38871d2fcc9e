"""Principal component pursuit: the batch method that online learners are judged against.

Candès, Li, Ma and Wright, "Robust principal component analysis?", Journal of the ACM 58 (2011).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from maxnorm.core.state import split_missing
from maxnorm.core.types import Array, Mask
from maxnorm.estimators._base import BLOCK_ENTRIES, CoefficientsMixin, Decomposition, SavedMixin
from maxnorm.estimators.validation import all_or_nothing, invalid, is_number, validated

# The penalty mu is raised by STEP at first, while the constraint is farther from being met than the noise
# from being settled: what can be recovered exactly is found that way within EAGER iterations. From then on it
# balances the two errors, each relative to its size, and comes to rest after RESTLESS iterations; and what is
# hard to recover takes half to three quarters of the iterations with over-relaxation.
STEP, EAGER, BALANCE, RESTLESS, RELAXATION = 1.5, 50, 10.0, 500, 1.7
STATIONARY = 1e-4  # how little the multipliers may still move, relative to their size

CACHED_ENTRIES = 30_000  # of an array that is worked on at a time

LowRankStep = Callable[[Array, Array, Array], None]


class Pursuit(NamedTuple):
    """What the iterations end with; ``low_rank + noise`` is Z up to the tolerance."""

    low_rank: Array
    noise: Array
    dual: Array  #: the multipliers: of spectral norm at most one and entries of at most lambda2
    n_iter: int
    converged: Mask  #: whether the tolerance was met: one flag, or one a row


def shrink_singular_values(
    M: Array, threshold: float, out: Array | None = None
) -> tuple[Array, Array, Array]:
    """Return M with its singular values reduced by the threshold, those that remain, and right vectors.

    By the eigenvectors of the smaller Gram matrix, and of these only those that remain: the work is two
    products with M and a part of an eigendecomposition, where a full SVD costs many times that.
    """
    tall = M.shape[0] >= M.shape[1]
    gram = M.T @ M if tall else M @ M.T
    above = (threshold * threshold, np.inf)
    squares, W = eigh(gram, subset_by_value=above, driver="evr", overwrite_a=True, check_finite=False)
    sigma = np.sqrt(squares)
    kept = 1.0 - threshold / sigma
    if tall:
        return np.matmul(M @ W * kept, W.T, out=out), sigma - threshold, W
    V = W.T @ M
    return np.matmul(W, V * kept[:, None], out=out), sigma - threshold, (V / sigma[:, None]).T


def spectral_norm(M: Array) -> float:
    """Return the largest singular value."""
    gram = M.T @ M if M.shape[0] >= M.shape[1] else M @ M.T
    last = len(gram) - 1
    top = eigh(gram, eigvals_only=True, subset_by_index=(last, last), overwrite_a=True, check_finite=False)
    return float(np.sqrt(top[0]))


def pursue(
    Z: Array,
    observed: Mask | None,
    step: LowRankStep,
    lambda2: float,
    tol: float,
    max_iter: int,
    *,
    by_row: bool = False,
) -> Pursuit:
    """Split Z into a low-rank part and sparse noise by the method of multipliers (inexact ALM).

    ``step(M, t, out)`` is the proximal operator of what the low-rank part costs, with weight t. We stop when
    the error in ``Z = low_rank + noise`` and the change of the noise are at most ``tol`` times the low-rank
    part (measured against Z, gross errors would hide how far from exact the rest is), and the multipliers
    hardly move. Where nothing is observed the noise is free. With ``by_row`` each row is its own problem.
    """

    def norm(squares: Array) -> Array:
        return np.asarray(np.sqrt(squares if by_row else squares.sum(keepdims=True)))

    sizes = norm(_squares(Z))
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    spectral = sizes if by_row else np.maximum(np.array([[spectral_norm(Z)]]), sizes.min() * 1e-3)
    largest = np.abs(Z).max(axis=1, keepdims=True) if by_row else np.abs(Z).max(keepdims=True)
    mu, dual = 1.25 / spectral, Z / np.maximum(spectral, largest / lambda2)
    bound = lambda2 * (Z.shape[1] if by_row else Z.size) ** 0.5  # of the multipliers
    noise, target, low_rank, rows = np.zeros_like(Z), np.empty_like(Z), np.empty_like(Z), np.arange(len(Z))
    settled, converged = np.zeros((3, *Z.shape)), np.zeros(len(Z), dtype=bool)
    for iteration in range(1, max_iter + 1):
        target, low_rank = target[: len(Z)], low_rank[: len(Z)]
        for part in gen_batches(len(Z), max(1, CACHED_ENTRIES // Z.shape[1])):
            np.divide(dual[part], _of(mu, part), out=target[part])
            target[part] += Z[part]
            target[part] -= noise[part]
        step(target, 1.0 / mu, low_rank)
        relaxation = 1.0 if iteration <= EAGER else RELAXATION
        squares = noise_step(Z, observed, low_rank, noise, dual, mu, lambda2, relaxation)
        primal, change, strength = map(norm, squares)
        size = np.where(strength > 0.0, strength, sizes)
        error, moved = primal / size, mu * change / bound
        done = (error <= tol) & (change <= tol * size) & (moved <= STATIONARY)
        if iteration <= EAGER:
            mu = mu * np.where(primal > change, STEP, np.where(change > 10.0 * primal, 1.0 / STEP, 1.0))
        elif iteration <= RESTLESS and iteration % 5 == 0:
            mu = mu * np.where(
                error > BALANCE * moved, STEP, np.where(moved > BALANCE * error, 1.0 / STEP, 1.0)
            )
        if done.any() or iteration == max_iter:
            if not by_row:
                return Pursuit(low_rank, noise, dual, iteration, done[0])
            settled[:, rows], converged[rows] = (low_rank, noise, dual), done[:, 0]
            on = ~done[:, 0]
            rows, (Z, noise, dual, mu, sizes) = rows[on], (M[on] for M in (Z, noise, dual, mu, sizes))
            observed = None if observed is None else observed[on]
            if not len(rows):
                break
    return Pursuit(settled[0], settled[1], settled[2], iteration, converged)


def noise_step(
    Z: Array,
    observed: Mask | None,
    low_rank: Array,
    noise: Array,
    dual: Array,
    mu: Array,
    lambda2: float,
    relaxation: float,
) -> tuple[Array, Array, Array]:
    """Update the noise and the multipliers, in place, a few rows at a time so that they stay in the cache.

    Returns the squared norms, for each row, of the gap, of the change of the noise and of the low-rank part.
    """
    gap, change, strength = (np.empty((len(Z), 1)) for _ in range(3))
    for rows in gen_batches(len(Z), max(1, CACHED_ENTRIES // Z.shape[1])):
        weight = _of(mu, rows)
        left = Z[rows] - low_rank[rows]
        aim = dual[rows] / weight
        aim += left if relaxation == 1.0 else relaxation * left + (1.0 - relaxation) * noise[rows]
        clipped = np.clip(aim, -lambda2 / weight, lambda2 / weight)
        if observed is not None:
            clipped *= observed[rows]
        np.multiply(clipped, weight, out=dual[rows])
        aim -= clipped  # the new noise
        gap[rows] = _squares(left - aim)
        change[rows] = _squares(noise[rows] - aim)
        strength[rows] = _squares(low_rank[rows])
        noise[rows] = aim
    return gap, change, strength


def _squares(M: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", M, M)[:, None])


def _of(mu: Array, rows: slice) -> Array:
    return mu if len(mu) == 1 else mu[rows]


class PrincipalComponentPursuit(SavedMixin, CoefficientsMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Low rank plus sparse noise, from all samples at once.

    Minimises the nuclear norm of the low-rank part plus ``lambda2`` times the absolute sum of the noise,
    subject to their sum being X. If the rank is low, errors are few and neither is too concentrated, the
    two are recovered exactly. The number of components is found, not given. Memory and time grow with the
    number of samples; for streams see :class:`MaxNormDecomposition`.

    Parameters
    ----------
    lambda2 : float or "auto", default="auto"
        Weight of the noise. "auto" is ``1 / sqrt(max(n_samples, n_features))``.
    tol : float, default=1e-7
        Accuracy, relative to the low-rank part.
    max_iter : int, default=1000
        Most iterations.

    Attributes
    ----------
    low_rank_, noise_ : ndarray of shape (n_samples, n_features)
        The two parts of X; where X is NaN the low-rank part has a value and the noise is zero.
    components_ : ndarray of shape (n_components_, n_features)
        Orthonormal basis of the low-rank part, the strongest direction first.
    singular_values_ : ndarray of shape (n_components_,)
        Singular values of the low-rank part.
    n_components_ : int
        Rank of the low-rank part.
    n_iter_ : int
        Iterations taken.

    Examples
    --------
    >>> from maxnorm import PrincipalComponentPursuit
    >>> from maxnorm.datasets import make_corrupted_low_rank
    >>> data = make_corrupted_low_rank(200, 50, 3, corruption=0.05, random_state=0)
    >>> pcp = PrincipalComponentPursuit().fit(data.X)
    >>> pcp.n_components_, bool(abs(pcp.low_rank_ - data.low_rank).max() < 1e-5)
    (3, True)
    """

    def __init__(
        self, *, lambda2: float | Literal["auto"] = "auto", tol: float = 1e-7, max_iter: int = 1000
    ) -> None:
        self.lambda2 = lambda2
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Split X; NaN marks missing entries.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            self._check_parameters()
            self._split(validated(self, X, reset=True).astype(np.float64, copy=False))
        return self

    def _split(self, X: Array) -> None:
        Z, observed = split_missing(X)
        lambda2 = max(Z.shape) ** -0.5 if self.lambda2 == "auto" else float(self.lambda2)

        sigma: Array = np.zeros(0)
        V: Array = np.zeros((Z.shape[1], 0))

        def step(M: Array, weight: Array, out: Array) -> None:
            nonlocal sigma, V
            _, sigma, V = shrink_singular_values(M, float(weight[0, 0]), out)

        found = pursue(Z, observed, step, lambda2, self.tol, self.max_iter)
        if not found.converged.all():
            self._warn("fit", 4)
        self.components_ = V.T[::-1].copy()
        self.singular_values_ = sigma[::-1].copy()
        self.low_rank_ = found.low_rank
        self.noise_ = found.noise if observed is None else found.noise * observed
        self.n_iter_ = found.n_iter

    def decompose(self, X: ArrayLike) -> Decomposition:
        """Split new samples into a part in the subspace that was learnt and noise of least absolute sum.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        Decomposition
            Named tuple ``low_rank, noise, residual, coefficients, converged``.
        """
        check_is_fitted(self)
        self._check_parameters()
        V = self.components_.T

        def step(M: Array, weight: Array, out: Array) -> None:
            np.matmul(M @ V, V.T, out=out)

        parts = []
        X = validated(self, X, reset=False)
        for rows in gen_batches(len(X), max(1, BLOCK_ENTRIES // X.shape[1])):
            Z, observed = split_missing(X[rows].astype(np.float64, copy=False))
            found = pursue(Z, observed, step, 1.0, self.tol, self.max_iter, by_row=True)
            residual = Z - found.low_rank - found.noise
            noise = found.noise
            if observed is not None:
                noise, residual = noise * observed, residual * observed
            floats = (found.low_rank, noise, residual, found.low_rank @ V)
            parts.append((*(part.astype(X.dtype, copy=False) for part in floats), found.converged))
        whole = Decomposition(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        if not whole.converged.all():
            self._warn("decompose", 3)
        return whole

    def transform(self, X: ArrayLike) -> Array:
        """Coefficients of samples in ``components_``, robust to gross errors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
        """
        return self.decompose(X).coefficients

    @property
    def n_components_(self) -> int:
        """Rank of the low-rank part."""
        return len(self.components_)

    def _check_parameters(self) -> None:
        name = type(self).__name__
        if self.lambda2 != "auto" and not is_number(self.lambda2, Real, 0, above=True):
            raise invalid(name, "lambda2", self.lambda2, "a finite number above 0", "auto")
        if not is_number(self.tol, Real, 0, above=True):
            raise invalid(name, "tol", self.tol, "a finite number above 0")
        if not is_number(self.max_iter, Integral, 1):
            raise invalid(name, "max_iter", self.max_iter, "an integer of at least 1")

    def _warn(self, method: str, stacklevel: int) -> None:
        warnings.warn(
            f"{method} did not reach tol={self.tol} in max_iter={self.max_iter} iterations; "
            "raise max_iter, or accept the result with a larger tol",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
