"""The sparse encoder: exact coefficients from the observed entries, at a cost proportional to their number.

A batch is a CSR matrix that stores the observed entries, zeros included. Every sample has a Gram matrix of
its own, that of the features it observes, and every feature one of the samples that observe it. Both are
products of the sparse 0/1 pattern with the products of pairs of entries of L or R, so that no array is ever
as large as the matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from maxnorm.core import noise
from maxnorm.core.bias import BiasModel, sum_rows
from maxnorm.core.linalg import RANK_TOLERANCE, ball_multipliers, entries_of_product, products, symmetric
from maxnorm.core.norms import FactorNorm
from maxnorm.core.state import State
from maxnorm.core.types import Array, Index

GRAM_ENTRIES = 2**21  # entries of the Gram matrices of the samples that are solved for at a time
# The ball grows fast and shrinks slowly, because other batches may need its size.
RADII = np.geomspace(0.98, 2.0, 9)
ONE = np.ones(1)
MEAN_SHARE = 0.99  # share of the mean that is subtracted from the second moment, so that variance remains


@dataclass(frozen=True)
class SparseEncoding:
    """Coefficients and residuals of a sparse batch in a basis.

    ``G`` and ``sigma`` describe the problem of each sample in the singular vectors of the rows of L that it
    observes: without a constraint, the coordinates of its coefficients are ``G / sigma``.
    """

    R: Array  #: b x d, coefficients
    rows: Array  #: b, biases of the samples; zero without biases
    residual: Array  #: one per stored entry
    loss: Array  #: b, loss of each sample
    G: Array  #: b x d
    sigma: Array  #: b x d
    rank: int  #: numerical rank of the basis


@dataclass(frozen=True)
class Prior:
    """A Gaussian prior of the coefficients, with the cost ``1/2 (r - mean)^T precision (r - mean)``."""

    precision: Array  #: d x d, in units of the noise variance
    mean: Array  #: d


def encode_entries(
    Z: csr_array,
    L: Array,
    norm: FactorNorm | None,
    biases: BiasModel | None = None,
    prior: Prior | None = None,
) -> SparseEncoding:
    """Solve for the coefficients of each sample from its observed entries, Eq. (3.2) without noise.

    Without a norm, the coefficients are unconstrained; ``prior`` is their distribution before the sample is
    seen. The cost is O(d^2) per entry and O(d^3) per sample.
    """
    b, d = Z.shape[0], L.shape[1]
    rows: Array = np.zeros(b)
    if biases is not None:
        rows = biases.rows(Z)
        Z = biases.residual(Z, rows)
    R, G, sigma = np.zeros((b, d)), np.zeros((b, d)), np.ones((b, d))
    pairs = products(L)
    known = Prior(np.zeros((d, d)), np.zeros(d)) if prior is None else prior
    left = csr_array((Z.data - (L @ known.mean)[Z.indices], Z.indices, Z.indptr), shape=Z.shape)
    for part in _blocks(b, d):
        R[part], G[part], sigma[part] = _coefficients(left[part], L, pairs, norm, known.precision)
    R += known.mean
    residual = Z.data - predict_entries(np.repeat(np.arange(b), np.diff(Z.indptr)), Z.indices, R, L)
    loss = 0.5 * sum_rows(residual**2, Z.indptr)
    if norm is not None:
        loss = loss + norm.coefficient_value(R)
    strength = np.sqrt(np.maximum(np.linalg.eigvalsh(L.T @ L), 0.0))
    rank = int((strength > RANK_TOLERANCE * strength[-1]).sum())
    return SparseEncoding(R, rows, residual, loss, G, sigma, rank)


def _blocks(b: int, d: int) -> Iterator[slice]:
    size = max(1, GRAM_ENTRIES // (d * d))
    for start in range(0, b, size):
        yield slice(start, start + size)


def _coefficients(
    Z: csr_array, L: Array, pairs: Array, norm: FactorNorm | None, precision: Array
) -> tuple[Array, Array, Array]:
    pattern = csr_array((np.ones(Z.nnz), Z.indices, Z.indptr), shape=Z.shape)
    D, Q = np.linalg.eigh(symmetric(pattern @ pairs, L.shape[1]) + precision)
    top = D[:, -1:]
    # Eigenvalues of components that a sample does not observe are kept away from zero.
    D = np.where(top > 0.0, np.maximum(D, RANK_TOLERANCE**1.5 * top), 1.0)
    sigma = np.sqrt(D)
    G = np.matmul((Z @ L)[:, None, :], Q)[:, 0] / sigma
    eta = np.zeros((len(G), 1))
    if norm is not None:
        eta = norm.multipliers(G, sigma, ONE, None)[:, None] * sigma[:, -1:] ** 2
    R = np.matmul(Q, (G * (sigma / (D + eta)))[:, :, None])[:, :, 0]
    return R, G, sigma


def predict_entries(rows: Index, columns: Index, R: Array, L: Array) -> Array:
    """Return the entries of ``R L^T`` at the given positions."""
    fast = noise.compiled()
    if fast is not None:
        found: Array = fast.entries(np.asarray(rows), np.asarray(columns), R, np.asarray(L, dtype=np.float64))
        return found
    return entries_of_product(rows, columns, R, L)


def prior_of(state: State) -> Prior:
    """Return the empirical prior of the coefficients of a sample.

    If the coefficients are Gaussian with the moments of those learnt from, and the residuals are Gaussian
    too, the encoder returns the posterior mean: a sample with few entries is shrunk towards the prior mean.
    Without residuals the prior vanishes. The prior mean is fitted to the means of the features rather than
    averaged over the coefficients, which are zero in components that a sample does not observe. With biases
    the mean is zero.
    """
    seen, L = state.statistics, state.L.astype(np.float64, copy=False)
    d = L.shape[1]
    if not seen.weight:
        return Prior(np.zeros((d, d)), np.zeros(d))
    n_fitted = d * (seen.weight + len(L))  # fitted numbers, which make the residuals too small
    free = max(1.0 - n_fitted / seen.entries, 0.25)
    noise, moment, centre = seen.residual_variance(L) / free, seen.A / seen.weight, seen.r / seen.weight
    if seen.means is None or state.biases is not None:
        return Prior(noise * _inverse(moment), np.zeros(d))
    sums, counts = seen.means.T
    shrinkage = 2.0 * seen.loss / seen.entries * _inverse(moment)  # means of few entries are unreliable
    mean = _inverse((L.T * counts) @ L + shrinkage) @ (L.T @ sums)
    return Prior(noise * _inverse(moment - MEAN_SHARE * np.outer(centre, centre)), mean)


def _inverse(moment: Array) -> Array:
    return np.linalg.pinv(moment, rcond=RANK_TOLERANCE, hermitian=True)


def sum_multipliers(code: SparseEncoding, sample_weight: Array) -> Array:
    """Return the weighted sums of the multipliers of a batch, for balls with the radii ``RADII``."""
    w = code.sigma**2
    C = code.G * code.sigma
    return np.array([sample_weight @ ball_multipliers(C, w, radius) for radius in RADII])


def best_radius(multiplier_sums: Array, norm_slope: float) -> float:
    """Return the radius of the ball that is best for a batch, between 0.98 and 2.

    The norms of L and r are one degree of freedom, which the alternation between them determines slowly. A
    ball of radius rho with rows of L of norm tau is equivalent to a ball of radius 1 with rows of norm
    ``rho tau``. The derivative of the loss by rho is minus the sum of the multipliers
    (``multiplier_sums``), that of the norm is ``lambda1 tau^2`` (``norm_slope``), and the best radius is
    where the two are equal.
    """
    if multiplier_sums[0] <= norm_slope:  # also if both are zero
        return float(RADII[0])
    return float(np.interp(-norm_slope, -multiplier_sums, RADII))
