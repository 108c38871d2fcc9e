"""OMRMD and OR-PCA as the published experiments ran them, for comparison.

OMRMD (online max-norm regularised matrix decomposition) is the algorithm of the paper; OR-PCA (online robust
PCA) is its counterpart with the nuclear norm. The published curves come from code that differs from the text
of the paper: each column of the basis is projected onto the unit ball, constants are added to diagonals, the
bisection has a loose tolerance, and the sweeps over a sample start at e = 0 and are limited to 101 for OMRMD.
The first part of a learning curve is sensitive to each of these choices, so this module makes the same ones.
It processes one sample at a time with one pass of column updates, without forgetting and without batches, and
is also the naive implementation that the benchmarks time. The estimators do not use this module.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Literal, TypeVar, cast

import numpy as np

from maxnorm.core.linalg import row_norms
from maxnorm.core.state import State
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array

# Constants of the published code. They are module constants, not a value, because Numba compiles them in.
ENCODING_JITTER = 0.01  # added to the diagonal of L^T L where the ball constraint is inactive
UPDATE_JITTER = 0.001  # added to A_jj in the denominator of the column update of OMRMD
SPHERE_TOLERANCE = 1e-3  # distance from the unit sphere at which the bisection stops
SWEEP_TOLERANCE = 1e-6  # the sweeps stop when the changes of e and r, divided by p, are smaller
MAX_SWEEPS = 101  # limit on the sweeps of OMRMD; OR-PCA has none

F = TypeVar("F", bound=Callable[..., object])


def _compiled(function: F) -> F:
    """Compile a function if Numba is installed: each sample takes hundreds of short sweeps."""
    try:
        from numba import njit
    except ImportError:
        return function
    return cast(F, njit(cache=True)(function))


def run_published(
    samples: Iterable[Array], L: Array, lambda1: float, lambda2: float, method: Literal["omrmd", "orpca"]
) -> Iterator[State]:
    """Run a published algorithm and yield the state after each sample.

    Parameters
    ----------
    samples : iterable of arrays of shape (n_features,)
        The stream.
    L : array of shape (n_features, rank)
        Initial basis.
    lambda1, lambda2 : float
        Weights of the norm and of the noise.
    method : {"omrmd", "orpca"}
        Algorithm: with the max-norm or with the nuclear norm.

    Yields
    ------
    State
        Basis and statistics after one more sample.
    """
    state = State.start(L)
    for z in samples:
        state = published_step(state, z, lambda1, lambda2, method)
        yield state


def published_step(
    state: State, z: Array, lambda1: float, lambda2: float, method: Literal["omrmd", "orpca"]
) -> State:
    """Return the state after one more sample.

    Parameters
    ----------
    state : State
        State before the sample.
    z : array of shape (n_features,)
        The sample.
    lambda1, lambda2 : float
        Weights of the norm and of the noise.
    method : {"omrmd", "orpca"}
        Algorithm: with the max-norm or with the nuclear norm.

    Returns
    -------
    State
        State with the sample added to the statistics, and the basis updated.
    """
    if method == "omrmd":
        r, e = encode_max_norm(z, state.L, lambda2)
    else:
        r, e = encode_nuclear_norm(z, state.L, lambda1, lambda2)
    penalty = lambda2 * np.abs(e).sum(keepdims=True)
    statistics = state.statistics + SufficientStatistics.from_batch((z - e)[None], r[None], penalty)
    update = update_max_norm if method == "omrmd" else update_nuclear_norm
    basis = update(state.L, statistics.A, statistics.B, lambda1)
    return replace(state, L=basis, statistics=statistics, n_samples=state.n_samples + 1)


def encode_max_norm(z: Array, L: Array, lambda2: float) -> tuple[Array, Array]:
    """Compute coefficients and noise of a sample for OMRMD (Algorithm 3).

    The sweeps alternate between r, which is restricted to the unit ball by bisection (Algorithm 2), and e.
    They start at e = 0.

    Parameters
    ----------
    z : array of shape (n_features,)
        The sample.
    L : array of shape (n_features, rank)
        Basis.
    lambda2 : float
        Weight of the l1 noise.

    Returns
    -------
    r : array of shape (rank,)
        Coefficients.
    e : array of shape (n_features,)
        Noise.
    """
    z, L = z.astype(np.float64, copy=False), L.astype(np.float64, copy=False)
    w, Q = np.linalg.eigh(L.T @ L)
    x, e = _sweep_in_ball(z, L @ Q, w, lambda2)  # in the eigenbasis of L^T L, where r = Q x
    return Q @ x, e


def encode_nuclear_norm(z: Array, L: Array, lambda1: float, lambda2: float) -> tuple[Array, Array]:
    """Compute coefficients and noise of a sample for OR-PCA: a ridge penalty takes the place of the ball.

    Parameters
    ----------
    z : array of shape (n_features,)
        The sample.
    L : array of shape (n_features, rank)
        Basis.
    lambda1, lambda2 : float
        Weights of the ridge penalty and of the l1 noise.

    Returns
    -------
    r : array of shape (rank,)
        Coefficients.
    e : array of shape (n_features,)
        Noise.
    """
    z, L = z.astype(np.float64, copy=False), L.astype(np.float64, copy=False)
    ridge = np.linalg.solve(L.T @ L + lambda1 * np.eye(L.shape[1]), L.T)
    return _sweep_with_ridge(z, L, ridge, lambda2)


@_compiled
def _sweep_in_ball(z: Array, L: Array, w: Array, lambda2: float) -> tuple[Array, Array]:
    r: Array = np.zeros(L.shape[1])
    e: Array = np.zeros(len(z))
    LT = np.ascontiguousarray(L.T)
    for _ in range(MAX_SWEEPS):
        b = LT @ (z - e)
        new = b / (w + ENCODING_JITTER)
        if new @ new > 1.0:
            new = _bisect(b, w)
        r, e, change = _update_noise(z, L, new, r, e, lambda2)
        if change < SWEEP_TOLERANCE:
            break
    return r, e


@_compiled
def _sweep_with_ridge(z: Array, L: Array, ridge: Array, lambda2: float) -> tuple[Array, Array]:
    r: Array = np.zeros(L.shape[1])
    e: Array = np.zeros(len(z))
    change = np.inf
    while change >= SWEEP_TOLERANCE:
        r, e, change = _update_noise(z, L, ridge @ (z - e), r, e, lambda2)
    return r, e


@_compiled
def _update_noise(
    z: Array, L: Array, r: Array, r_old: Array, e_old: Array, lambda2: float
) -> tuple[Array, Array, float]:
    """Return r, the noise that belongs to it, and how far both have changed."""
    residual = z - L @ r
    e = residual - np.minimum(np.maximum(residual, -lambda2), lambda2)
    change = max(_norm(e - e_old), _norm(r - r_old)) / len(z)
    return r, e, change


@_compiled
def _norm(x: Array) -> float:
    return math.sqrt(x @ x)


@_compiled
def _bisect(b: Array, w: Array) -> Array:
    """Return b / (w + eta) with the eta that puts it on the unit sphere (Algorithm 2)."""
    low, high = 0.0, 10.0
    while _norm(b / (w + high)) > 1.0:
        high *= 10.0
    while True:
        eta = 0.5 * (low + high)
        x = b / (w + eta)
        norm = _norm(x)
        if abs(1.0 - norm) < SPHERE_TOLERANCE or eta in (low, high):
            return x
        low, high = (low, eta) if norm < 1.0 else (eta, high)


def update_max_norm(L: Array, A: Array, B: Array, lambda1: float) -> Array:
    """Update the basis for OMRMD: Algorithm 4 with every column projected onto the unit ball.

    The subgradient of the max-norm is taken at the first of the longest rows.

    Parameters
    ----------
    L : array of shape (n_features, rank)
        Basis before the update.
    A : array of shape (rank, rank)
        Sum of r r^T over the samples.
    B : array of shape (n_features, rank)
        Sum of (z - e) r^T over the samples.
    lambda1 : float
        Weight of the norm.

    Returns
    -------
    array of shape (n_features, rank)
        Basis after one pass over the columns.
    """
    longest = int(np.argmax(row_norms(L)))
    target = B.copy()
    target[longest] -= lambda1 * L[longest]
    return _update_columns(L, A, target, np.diag(A) + UPDATE_JITTER)


def update_nuclear_norm(L: Array, A: Array, B: Array, lambda1: float) -> Array:
    """Update the basis for OR-PCA, with every column projected onto the unit ball.

    Parameters
    ----------
    L, A, B, lambda1
        As in :func:`update_max_norm`.

    Returns
    -------
    array of shape (n_features, rank)
        Basis after one pass over the columns.
    """
    A = A + lambda1 * np.eye(len(A))
    return _update_columns(L, A, B, np.diag(A))


def _update_columns(L: Array, A: Array, B: Array, diagonal: Array) -> Array:
    new = L.copy()
    for j in range(new.shape[1]):
        column = new[:, j] - (new @ A[:, j] - B[:, j]) / diagonal[j]
        new[:, j] = column / max(1.0, _norm(column))
    return new
