"""The learner for data of which most is missing: exact steps at a cost that follows what is observed.

A batch is a sparse matrix that stores what is observed, zeros included. Every sample has a Gram matrix of
its own, that of the features it has, and every feature one of the samples it has: products of a sparse
pattern with the products of pairs of entries of L or R. Nothing is ever as large as the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from maxnorm.core import noise
from maxnorm.core.linalg import RANK_TOLERANCE, ball_multipliers, products, row_norms, symmetric
from maxnorm.core.norms import FactorNorm
from maxnorm.core.state import State, accumulated, decay
from maxnorm.core.statistics import (
    PAST,
    RECENT,
    Biases,
    Contribution,
    Fades,
    Scales,
    SufficientStatistics,
    sum_rows,
)
from maxnorm.core.types import Array

BLOCK = 2**21  # numbers in the Gram matrices of the rows that are solved for at a time
RADII = np.geomspace(0.98, 2.0, 9)  # the ball may grow fast and shrinks slowly: other batches may need it
ONE = np.ones(1)
SURE = 0.99  # share of the mean that is taken off the second moment: nothing is ever without variance
Index = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class EntriesEncoding:
    """A sparse batch as seen in a basis."""

    R: Array  # b x d, coefficients
    rows: Array  # b, biases of the rows; zero if there are none
    residual: Array  # one for each stored entry
    loss: Array  # b
    G: Array  # b x d, and
    sigma: Array  # b x d: what a row's problem is in the directions of what it observes of L
    rank: int  # directions that the basis has


@dataclass(frozen=True)
class Prior:
    """What coefficients cost that are not the mean: ``1/2 (r - mean)^T precision (r - mean)``."""

    precision: Array  # d x d
    mean: Array  # d


def encode_entries(
    Z: csr_array,
    L: Array,
    norm: FactorNorm | None,
    biases: Biases | None = None,
    prior: Prior | None = None,
) -> EntriesEncoding:
    """Solve for the coefficients of each row from what it stores, exactly: Eq. (3.2) without noise.

    Without a norm, coefficients are free. ``prior`` is what is known of them before their row is looked at.
    The cost is O(d^2) for each entry and O(d^3) for each row.
    """
    b, d = Z.shape[0], L.shape[1]
    rows: Array = np.zeros(b)
    if biases is not None:
        rows = biases.rows(Z)
        values = Z.data - biases.mean - biases.columns[Z.indices] - np.repeat(rows, np.diff(Z.indptr))
        Z = csr_array((values, Z.indices, Z.indptr), shape=Z.shape)
    R, G, sigma = np.zeros((b, d)), np.zeros((b, d)), np.ones((b, d))
    pairs = products(L)
    known = Prior(np.zeros((d, d)), np.zeros(d)) if prior is None else prior
    left = csr_array((Z.data - (L @ known.mean)[Z.indices], Z.indices, Z.indptr), shape=Z.shape)
    for part in _blocks(b, d):
        R[part], G[part], sigma[part] = _coefficients(left[part], L, pairs, norm, known.precision)
    R += known.mean
    residual = Z.data - predicted(np.repeat(np.arange(b), np.diff(Z.indptr)), Z.indices, R, L)
    loss = 0.5 * sum_rows(residual**2, Z.indptr)
    if norm is not None:
        loss = loss + norm.coefficient_value(R)
    strength = np.sqrt(np.maximum(np.linalg.eigvalsh(L.T @ L), 0.0))
    rank = int((strength > RANK_TOLERANCE * strength[-1]).sum())
    return EntriesEncoding(R, rows, residual, loss, G, sigma, rank)


def _blocks(b: int, d: int) -> Iterator[slice]:
    size = max(1, BLOCK // (d * d))
    for start in range(0, b, size):
        yield slice(start, start + size)


def _coefficients(
    Z: csr_array, L: Array, pairs: Array, norm: FactorNorm | None, precision: Array
) -> tuple[Array, Array, Array]:
    pattern = csr_array((np.ones(Z.nnz), Z.indices, Z.indptr), shape=Z.shape)
    D, Q = np.linalg.eigh(symmetric(pattern @ pairs, L.shape[1]) + precision)
    top = D[:, -1:]
    D = np.where(
        top > 0.0, np.maximum(D, RANK_TOLERANCE**1.5 * top), 1.0
    )  # directions that a row does not have
    sigma = np.sqrt(D)
    G = np.matmul((Z @ L)[:, None, :], Q)[:, 0] / sigma
    eta = np.zeros((len(G), 1))
    if norm is not None:
        eta = norm.multipliers(G, sigma, ONE, None)[:, None] * sigma[:, -1:] ** 2
    R = np.matmul(Q, (G * (sigma / (D + eta)))[:, :, None])[:, :, 0]
    return R, G, sigma


def predicted(rows: Index, columns: Index, R: Array, L: Array) -> Array:
    """Entries of ``R L^T`` in the given places, block by block."""
    fast = noise.compiled()
    if fast is not None:
        found: Array = fast.entries(np.asarray(rows), np.asarray(columns), R, np.asarray(L, dtype=np.float64))
        return found
    values = np.empty(len(rows))
    size = max(1, BLOCK // R.shape[1])
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        values[part] = np.einsum("ij,ij->i", R[rows[part]], L[columns[part]])
    return values


def residual_variance(statistics: SufficientStatistics, L: Array) -> float:
    """Mean square of what is left of the entries learnt from."""
    seen = statistics
    left = 2.0 * (seen.quadratic(L) - float(np.vdot(L, seen.B)) + seen.loss)
    return max(left, 0.0) / seen.entries


def prior_of(state: State) -> Prior:
    """Return what those learnt from and their residuals say of the coefficients of a row.

    If coefficients are Gaussian with the moments of those seen, and residuals with theirs, what this leads
    to is their mean given the row: a row with few entries says little. Without noise it is nothing. The mean
    is that of the features, not of the coefficients seen: where a row does not have the features that would
    tell, its coefficients are zero for want of better. Biases, where there are any, take it away.
    """
    seen, L = state.statistics, state.L.astype(np.float64, copy=False)
    d = L.shape[1]
    if not seen.weight:
        return Prior(np.zeros((d, d)), np.zeros(d))
    numbers = d * (seen.weight + len(L))  # that were fitted, which makes residuals too small
    free = max(1.0 - numbers / seen.entries, 0.25)
    noise, moment, centre = residual_variance(seen, L) / free, seen.A / seen.weight, seen.r / seen.weight
    if seen.means is None or state.biases is not None:
        return Prior(noise * _inverse(moment), np.zeros(d))
    sums, counts = seen.means.T
    doubt = 2.0 * seen.loss / seen.entries * _inverse(moment)  # means of few entries say little
    mean = _inverse((L.T * counts) @ L + doubt) @ (L.T @ sums)
    return Prior(noise * _inverse(moment - SURE * np.outer(centre, centre)), mean)


def feature_prior(statistics: SufficientStatistics, L: Array) -> Array:
    """Return the same for the rows of L: a feature with few entries says little."""
    if not statistics.weight or statistics.grams is None:
        return np.zeros((L.shape[1], L.shape[1]))
    there = int(np.any(statistics.grams, axis=1).sum())
    return residual_variance(statistics, L) * _inverse(L.T @ L / there)


def _inverse(moment: Array) -> Array:
    return np.linalg.pinv(moment, rcond=RANK_TOLERANCE, hermitian=True)


def entries_of(Z: Array) -> csr_array:
    """Return the entries of an array that are not NaN, zeros included."""
    rows, columns = np.nonzero(~np.isnan(Z))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(Z)))])
    return csr_array((Z[rows, columns].astype(np.float64), columns, indptr), shape=Z.shape)


def step_entries(
    state: State,
    Z: csr_array,
    *,
    norm_of: Callable[[SufficientStatistics, Array], FactorNorm],
    regauge: bool = True,
    afresh: bool = False,
) -> State:
    """Learn from one sparse batch: lines 3-5 of Algorithm 1; ``afresh`` forgets all samples before.

    ``norm_of`` gives the norm, which may depend on statistics and basis. With ``regauge`` the size of the
    basis is settled at once (:func:`best_radius`).
    """
    norm = norm_of(state.statistics, state.L)
    added = measure_entries(
        state.L, Z, norm=norm, since=state.time, biases=state.biases, regauge=regauge, afresh=afresh
    )
    return updated_entries(state, added, norm_of)


def measure_entries(
    L: Array,
    Z: csr_array,
    *,
    norm: FactorNorm,
    since: int = 0,
    biases: Biases | None = None,
    forgetting: float = 0.0,
    half_life: float | None = None,
    regauge: bool = True,
    afresh: bool = False,
) -> Contribution:
    """Encode a sparse batch in the basis L, and return what there is to learn from it.

    Targets are what is left after biases that know of this batch.
    """
    n_samples = Z.shape[0]
    full = np.diff(Z.indptr) > 0
    if not full.all():
        Z = Z[full]
    code = encode_entries(Z, L, norm, biases)
    if not Z.shape[0]:
        nothing = SufficientStatistics.zeros(*L.shape, per_feature=True)
        new = None if biases is None else Biases.zeros(len(L))
        return Contribution(n_samples, 0, nothing, Scales(), Fades(), code.rank, new)
    now = since + Z.shape[0]

    def age(forgetting: float) -> tuple[Array, float]:
        if afresh:
            return np.ones(Z.shape[0]), 0.0
        weights = decay(np.arange(since + 1, now + 1), now, forgetting, half_life)
        return weights, float(decay(since, now, forgetting, half_life))

    weights, fade = age(forgetting)
    found, targets, kept = None, Z, 1.0
    if biases is not None:
        slow, kept = age(min(forgetting, 1.0))  # they do not depend on the basis, which is what gets stale
        found = biases.from_batch(Z, code.rows, slow)
        new = biases.scaled(kept) + found
        known = new.mean + new.columns[Z.indices] + np.repeat(code.rows, np.diff(Z.indptr))
        targets = csr_array((Z.data - known, Z.indices, Z.indptr), shape=Z.shape)
    past, recent = (float(decay(since, now, power, half_life)) for power in (PAST, RECENT))
    return Contribution(
        n_samples,
        Z.shape[0],
        SufficientStatistics.from_entries(targets, code.R, weights),
        Scales.from_entries(targets, code.residual),
        Fades(fade, past, recent, kept),
        code.rank,
        found,
        pressure=pressure(code, weights) if regauge else 0.0,
    )


def updated_entries(
    state: State, added: Contribution, norm_of: Callable[[SufficientStatistics, Array], FactorNorm]
) -> State:
    """Return the state with a contribution added, the best basis after it, and its size settled."""
    new = accumulated(state, added)
    if not added.n_full:
        return new
    norm = norm_of(new.statistics, state.L)
    L = norm.update_basis(state.L, new.statistics)
    c = 1.0
    if isinstance(added.pressure, np.ndarray):
        price = norm.lambda1 * float(row_norms(L).max()) ** 2
        c = best_radius(added.pressure, added.statistics.entries / new.statistics.entries * price)
    return replace(new, L=(c * L).astype(L.dtype, copy=False), statistics=new.statistics.regauged(c))


def pressure(code: EntriesEncoding, weights: Array) -> Array:
    """Return the weighted sums of the multipliers of a batch, for balls of the radii in ``RADII``."""
    w = code.sigma**2
    C = code.G * code.sigma
    return np.array([weights @ ball_multipliers(C, w, radius) for radius in RADII])


def best_radius(pressure: Array, price: float) -> float:
    """Return the radius of the ball that is best for a batch, but at most twice and hardly less than before.

    The size of L and that of r are one degree of freedom, which the alternation between them is slow to
    settle. A ball of radius rho and rows of L of norm tau are the same as one of radius 1 and rows of
    ``rho tau``. The derivative of the loss by rho is minus the sum of the multipliers, and that of the norm
    ``lambda1 tau^2``, the ``price``; where they meet is best.
    """
    if pressure[0] <= price:  # also if there is neither
        return float(RADII[0])
    return float(np.interp(-price, -pressure, RADII))
