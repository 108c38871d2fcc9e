"""Samples explained by a factor model: their encoding, and what they add to the sums of the learner."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from maxnorm.core.batch import Batch
from maxnorm.core.defaults import SWEEPS
from maxnorm.core.encoding import Encoding
from maxnorm.core.factor_model import FactorModel
from maxnorm.core.linalg import row_norms, symmetric, upper_triangle
from maxnorm.core.scales import PAST_POWER, RECENT_POWER, Scales
from maxnorm.core.state import Contribution, Decay, State, remaining_weight
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array

NEGLIGIBLE_LOADING = 1e-8  # length of a loading beside the noise, or beside the largest, that counts as zero


def encode_by_model(batch: Batch, model: FactorModel, max_iter: int, *, is_robust: bool = True) -> Encoding:
    """Return the encoding of samples by a factor model, with coefficients along its principal axes.

    Entries that are more likely gross errors than not are noise. Without ``is_robust`` there are none.
    """
    T, observed = model.standardised(batch)
    known, weights, n_iter, converged = model.encode(T, observed, max_iter, is_robust=is_robust)
    axes = model.principal
    R = (known.R @ axes.turn).astype(batch.dtype, copy=False)
    # The parts add up to the samples, in spite of rounding.
    deviation = np.where(observed, batch.dense()[0] - (R @ axes.vectors.T + model.mean), 0.0)
    E = np.where(weights < 0.5, deviation, 0.0)
    return Encoding(
        R=R,
        E=E.astype(batch.dtype, copy=False),
        residual=(deviation - E).astype(batch.dtype, copy=False),
        loss=np.zeros(len(T)),
        penalty=np.zeros(len(T)),
        free_norm=row_norms(R),
        rank=model.n_components,
        n_iter=n_iter,
        converged=converged,
        offset=model.mean,
        basis=axes.vectors,
    )


def along_axes(code: Encoding, model: FactorModel, state: State, *, is_robust: bool = True) -> Encoding:
    """Return an encoding in the basis of a state as one along the principal axes of its factor model.

    The low-rank part remains what it is. Which of the entries are gross errors follows from the noise
    variances of the features; without ``is_robust`` there are none.
    """
    seen, axes, scale = state.statistics, model.principal, model.gauge.scale
    mean = seen.mean_share * seen.r / seen.weight  # coefficients of the mean of the model
    turn = (state.L.astype(np.float64, copy=False) * scale[:, None]).T @ axes.vectors
    R = (code.R - mean) @ turn
    deviation = code.E + code.residual
    is_gross = is_robust & (deviation**2 > model.clean_limits[0])
    deviation = (deviation * scale).astype(code.R.dtype, copy=False)
    E = deviation * is_gross
    return replace(
        code,
        R=R.astype(code.R.dtype, copy=False),
        E=E,
        residual=deviation - E,
        offset=model.mean,
        basis=axes.vectors,
    )


def inverse_of_basis(L: Array, noise: Array) -> Array:
    """Return the pseudo-inverse of a basis, without directions that are negligible beside the noise.

    Components that the data do not support have vanished, and their coefficients would be infinite.
    """
    U, sigma, Vt = np.linalg.svd(L, full_matrices=False)
    kept = sigma > max(NEGLIGIBLE_LOADING * math.sqrt(float(np.median(noise))), NEGLIGIBLE_LOADING * sigma[0])
    inverse: Array = (Vt[kept].T / sigma[kept]) @ U[:, kept].T
    return inverse


def measure_by_model(
    batch: Batch,
    L: Array,
    model: FactorModel,
    location: Array | None,
    time: int,
    forgetting: float,
    half_life: float | None,
    *,
    is_robust: bool = True,
) -> Contribution:
    """Return the contribution of a batch that is explained by a factor model.

    Entries that are missing or gross errors count as the model predicts them, and the uncertainty of the
    coefficients counts in the sums.

    Parameters
    ----------
    batch : Batch
        Samples that begin at time ``time``.
    L : array of shape (p, d)
        The basis in which the sums are taken, in units of the gauge.
    model : FactorModel
        The model.
    location : array of shape (p,) or None
        The location that belongs to the basis, or None if none is learnt.
    time : int
        Number of samples before the batch.
    forgetting, half_life : float
        How samples lose weight.
    is_robust : bool, default=True
        Whether entries may be gross errors.
    """
    n_samples, full = len(batch), batch.n_observed > 0
    if not full.all():
        batch = batch[np.flatnonzero(full)]
    if not len(batch):
        nothing = SufficientStatistics.zeros(*L.shape)
        return Contribution(n_samples, 0, nothing, Scales(), Decay(), L.shape[1])
    T, observed = model.standardised(batch)
    known, W, _, _ = model.encode(T, observed, SWEEPS.learning[1], is_robust=is_robust)
    L64 = L.astype(np.float64, copy=False)
    origin = np.zeros(len(L)) if location is None else location
    # The model has its own coefficients, of mean zero and variance one.
    inverse = inverse_of_basis(L64, model.noise)
    root = inverse @ model.loadings
    R = known.R @ root.T + inverse @ (model.location - origin)
    now = time + len(T)
    weights = batch.weighted(remaining_weight(np.arange(time + 1, now + 1), now, forgetting, half_life))
    targets = W * T + (1.0 - W) * known.fitted
    statistics = SufficientStatistics.from_batch(
        targets, R, np.zeros(len(T)), weights, center=location is not None
    )
    d = L.shape[1]
    left, right = upper_triangle(d)
    S = (root @ known.S @ root.T)[:, left, right] * weights[:, None]
    imputed = np.einsum("ijk,ik->ij", symmetric((1.0 - W).T @ S, d), L64)
    deviation = np.where(observed, T - known.fitted, 0.0)
    clean = W * deviation**2
    E = np.where(W < 0.5, deviation, 0.0)
    statistics = replace(
        statistics,
        A=statistics.A + symmetric(S.sum(axis=0)[None], d)[0],
        B=statistics.B + imputed,
        residuals=np.column_stack(
            [
                weights @ (clean + W * known.spread),
                weights @ W,
                weights @ (deviation**2 - clean),
                weights @ (observed - W),
            ]
        ),
    )
    powers = (forgetting, PAST_POWER, RECENT_POWER)
    decay = Decay(*(float(remaining_weight(time, now, power, half_life)) for power in powers))
    norm = float(np.quantile(row_norms(R), 0.9))
    return Contribution(
        n_samples,
        len(T),
        statistics,
        Scales.from_batch(np.where(observed, T - origin, 0.0), E, deviation, observed),
        decay,
        d,
        loss=0.5 * float(clean.sum()),
        free_norm=len(T) * math.log(norm) if norm else 0.0,
        free_norm_weight=float(len(T)) if norm else 0.0,
    )
