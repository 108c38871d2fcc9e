"""The paper's experiments as they were really run, for comparison; the estimators do not use this.

The published curves come from code that differs from the text: every column of the basis is projected
onto the unit ball, constants are added to the diagonals, the bisection is loose, and sweeps begin at
e = 0, of which OMRMD makes at most 101. Early curves are sensitive to all of these, so they are kept
exactly. One sample at a time, one pass of column updates, nothing forgotten, no batching: this is also
the naive implementation that the benchmarks time.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from maxnorm.core.linalg import row_norms
from maxnorm.core.state import State
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array

JITTER = 0.01  # added to L^T L, only where the ball is not reached
DIAGONAL = 0.001  # added to A_jj in the denominator of the column update
SPHERE = 1e-3  # how far from the sphere the bisection may stop
STOP = 1e-6  # largest change of e or r, divided by the number of features
MAX_SWEEPS = 101  # for OMRMD; OR-PCA goes on until it stops

F = TypeVar("F", bound=Callable[..., object])


def _compiled(function: F) -> F:
    """Compile a function if Numba is there: the sweeps of a sample, hundreds of them, are short."""
    try:
        from numba import njit
    except ImportError:
        return function
    return cast(F, njit(cache=True)(function))


def run_published(
    samples: Iterable[Array], L: Array, lambda1: float, lambda2: float, method: str
) -> Iterator[State]:
    """Yield the state after each sample, starting from the basis L; ``method`` is "omrmd" or "orpca"."""
    state = State.start(L)
    for z in samples:
        if method == "omrmd":
            r, e = encode_max_norm(z, state.L, lambda2)
        else:
            r, e = encode_nuclear_norm(z, state.L, lambda1, lambda2)
        penalty = lambda2 * np.abs(e).sum(keepdims=True)
        statistics = state.statistics + SufficientStatistics.from_batch((z - e)[None], r[None], penalty)
        update = update_max_norm if method == "omrmd" else update_nuclear_norm
        basis = update(state.L, statistics.A, statistics.B, lambda1)
        state = replace(state, L=basis, statistics=statistics, n_samples=state.n_samples + 1)
        yield state


class PublishedLearner:
    """The same with ``partial_fit`` and ``components_``, to stand beside the estimators."""

    def __init__(self, method: str, L: Array, lambda1: float, lambda2: float) -> None:
        self._waiting: deque[Array] = deque()
        self._states = run_published(self._arriving(), L, lambda1, lambda2, method)
        self._state = State.start(L)

    def _arriving(self) -> Iterator[Array]:
        while True:
            yield self._waiting.popleft()

    def partial_fit(self, X: Array) -> "PublishedLearner":
        """Learn from more samples, one after the other."""
        self._waiting.extend(X)
        for _ in X:
            self._state = next(self._states)
        return self

    @property
    def components_(self) -> Array:
        """Basis vectors in rows."""
        return self._state.L.T


def encode_max_norm(z: Array, L: Array, lambda2: float) -> tuple[Array, Array]:
    """Algorithm 3: alternate r and e from e = 0, the ball met by bisection (Algorithm 2)."""
    z, L = z.astype(np.float64, copy=False), L.astype(np.float64, copy=False)
    w, Q = np.linalg.eigh(L.T @ L)
    x, e = _sweeps_in_the_ball(z, L @ Q, w, lambda2)  # where L^T L is diagonal, r is Q x
    return Q @ x, e


def encode_nuclear_norm(z: Array, L: Array, lambda1: float, lambda2: float) -> tuple[Array, Array]:
    """The same with a ridge in place of the ball: OR-PCA."""
    z, L = z.astype(np.float64, copy=False), L.astype(np.float64, copy=False)
    ridge = np.linalg.solve(L.T @ L + lambda1 * np.eye(L.shape[1]), L.T)
    return _sweeps_with_a_ridge(z, L, ridge, lambda2)


@_compiled
def _sweeps_in_the_ball(z: Array, L: Array, w: Array, lambda2: float) -> tuple[Array, Array]:
    r: Array = np.zeros(L.shape[1])
    e: Array = np.zeros(len(z))
    LT = np.ascontiguousarray(L.T)
    for _ in range(MAX_SWEEPS):
        b = LT @ (z - e)
        new = b / (w + JITTER)
        if new @ new > 1.0:
            new = _bisect(b, w)
        r, e, change = _noise_step(z, L, new, r, e, lambda2)
        if change < STOP:
            break
    return r, e


@_compiled
def _sweeps_with_a_ridge(z: Array, L: Array, ridge: Array, lambda2: float) -> tuple[Array, Array]:
    r: Array = np.zeros(L.shape[1])
    e: Array = np.zeros(len(z))
    change = np.inf
    while change >= STOP:
        r, e, change = _noise_step(z, L, ridge @ (z - e), r, e, lambda2)
    return r, e


@_compiled
def _noise_step(
    z: Array, L: Array, r: Array, r_old: Array, e_old: Array, lambda2: float
) -> tuple[Array, Array, float]:
    left = z - L @ r
    e = left - np.minimum(np.maximum(left, -lambda2), lambda2)
    change = max(_length(e - e_old), _length(r - r_old)) / len(z)
    return r, e, change


@_compiled
def _length(x: Array) -> float:
    return math.sqrt(x @ x)


@_compiled
def _bisect(b: Array, w: Array) -> Array:
    low, high = 0.0, 10.0
    while _length(b / (w + high)) > 1.0:
        high *= 10.0
    while True:
        eta = 0.5 * (low + high)
        x = b / (w + eta)
        norm = _length(x)
        if abs(1.0 - norm) < SPHERE or eta in (low, high):
            return x
        low, high = (low, eta) if norm < 1.0 else (eta, high)


def update_max_norm(L: Array, A: Array, B: Array, lambda1: float) -> Array:
    """Algorithm 4 with the columns projected, the subgradient taken at the first of the longest rows."""
    longest = int(np.argmax(row_norms(L)))
    pull = B.copy()
    pull[longest] -= lambda1 * L[longest]
    return _projected_pass(L, A, pull, np.diag(A) + DIAGONAL)


def update_nuclear_norm(L: Array, A: Array, B: Array, lambda1: float) -> Array:
    """The column update of OR-PCA, projected as well."""
    A = A + lambda1 * np.eye(len(A))
    return _projected_pass(L, A, B, np.diag(A))


def _projected_pass(L: Array, A: Array, B: Array, diagonal: Array) -> Array:
    new = L.copy()
    for j in range(new.shape[1]):
        column = new[:, j] - (new @ A[:, j] - B[:, j]) / diagonal[j]
        new[:, j] = column / max(1.0, _length(column))
    return new
