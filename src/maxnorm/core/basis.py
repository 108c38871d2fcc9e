"""The basis between updates: how it starts, how its norm is adjusted, how lost components come back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from maxnorm.core.blas import limited_blas
from maxnorm.core.linalg import thin_svd
from maxnorm.core.state import Contribution, State
from maxnorm.core.types import Array

SEED_OF_FIRST_BASIS = 1729  # separates the generator of the basis from others with the same seed
LOST_COMPONENT = 1e-5  # singular value, relative to the largest, below which a component is lost
NEW_COMPONENT = 1e-2  # singular value, relative to the largest, with which it starts again


def random_basis(n_features: int, n_components: int, seed: int, dtype: np.dtype[Any]) -> Array:
    """Return a random basis with orthonormal columns, or orthonormal rows if it is wider than high.

    The generator has a seed of its own, so that data generated from the same seed are independent of it.
    """
    p, d = n_features, n_components
    rng = np.random.default_rng([SEED_OF_FIRST_BASIS, seed])
    with limited_blas(1, p, d):
        L = np.linalg.qr(rng.standard_normal((max(p, d), min(p, d))))[0]
    return (L if p >= d else L.T).astype(dtype)


def include_median(L: Array, median: Array | None) -> Array:
    """Return the orthonormal basis L with its first column replaced by the median, if there is one."""
    p, d = L.shape
    if median is None or p < d:
        return L
    median = median / np.max(np.abs(median))
    return np.linalg.qr(np.column_stack([median, L[:, 1:]]))[0].astype(L.dtype)


def fit_ball(state: State, added: Contribution) -> State:
    """Rescale the basis so that most coefficients lie well within the unit ball of the max-norm.

    Multiplying L by c and dividing r by c changes nothing but the norms. At the optimum the longest r has
    norm one (Proposition 1), but the alternation finds that scale slowly, because a sample on the sphere
    moves the basis only by as much as the noise model lets through. Here nine tenths of the samples get
    norms up to one half. The adjustment is slow as long as the basis is poor, because a small ball then
    keeps the noise from being fitted.
    """
    if not added.free_norm_weight:
        return state
    free_norm = math.exp(added.free_norm / added.free_norm_weight)
    c = min(max(2.0 * free_norm, 0.5), 2.0) ** state.scales.clean_share**2
    return replace(state, L=state.L * state.L.dtype.type(c), statistics=state.statistics.rescaled(c))


def restore_rank(state: State, rank: int) -> State:
    """Give components that the basis has lost a new start, with small random vectors.

    A component of norm zero gets no coefficients and would stay zero forever. That happens with fewer samples
    than components and to spare components, and the rank of the data may grow later. ``rank`` is the
    numerical rank of the basis before the update; if it is full, nothing is computed.
    """
    p, d = state.L.shape
    if rank == min(p, d):
        return state
    U, sigma, V = thin_svd(state.L)
    weak = sigma < LOST_COMPONENT * sigma.max(initial=0.0)
    lost = min(p, d) - len(sigma) + int(weak.sum())
    if not lost or not len(sigma):
        return state
    kept = V[:, ~weak]
    missing = np.linalg.qr(np.hstack([kept, np.eye(d)]))[0][:, kept.shape[1] : kept.shape[1] + lost]
    fresh = np.random.default_rng([lost, state.n_steps]).standard_normal((p, lost))
    strong = U[:, ~weak].astype(np.float64, copy=False)
    fresh -= strong @ (strong.T @ fresh)
    fresh *= NEW_COMPONENT * sigma.max() / np.sqrt(p)
    return replace(state, L=(state.L + fresh @ missing.T).astype(state.L.dtype))
