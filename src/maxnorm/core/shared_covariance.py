"""Samples explained by a factor model with many components, at a cost of O(p d) per sample and sweep.

The posterior covariance of the coefficients of a sample, (I + L^T diag(w / psi) L)^-1, differs from sample to
sample, because different entries are believed. With many components it takes too long to compute it for every
sample. Here the weights w of a sample are replaced by their mean, so that all samples share the eigenvectors
of the covariance, which are the right singular vectors of the loadings in units of the noise. The means of
the coefficients are not approximated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from maxnorm.core.factor_model import FactorModel
from maxnorm.core.linalg import GAUSSIAN_LOWER_QUARTILE, complete_svd, row_norms, row_scales
from maxnorm.core.types import Array, Mask


@dataclass(frozen=True)
class SweepRule:
    """When the coefficients of a sample are accurate enough, in standard deviations of the noise."""

    learning: tuple[float, int] = (0.02, 30)  #: length of a step per root of the rank, and most sweeps
    applying: tuple[float, int] = (1e-4, 1000)
    rounding: float = 8.0  #: rounding errors of the coefficients, below which no step is made
    judging: int = 4  #: entries are judged in the first sweeps and in every fourth one,
    following: int = 60  #: by limits that follow the residual in so many sweeps
    leaving: float = 0.25  #: share of the samples that must be finished for sweeps to go on without them
    largest_leverage: float = 0.95  #: of entries on their own predictions, on average
    least_odds: float = 1.0  #: log odds of dense noise for an entry that is as predicted
    lenient: float = 0.8  #: robust scales of the residual of a sample that its entries are judged by at least
    wrong: float = 2.5  #: robust scale of the residual from which a sample loses weight while learning
    misfit: float = 1.5  #: the same scale, from which a sample that is read counts as badly fitted,
    lenient_to_misfits: float = 2.5  #: so that its entries are judged by this many of them
    largest: float = 1e8  #: deviation in units of the noise; larger ones are as wrong
    unlimited: float = 1e24  #: multiple of a residual that no other residual exceeds
    large_basis: int = 10_000  #: entries of the loadings from which sweeps are made in single precision


SWEEPS = SweepRule()


class SharedPosterior(NamedTuple):
    """What is believed of the coefficients and the entries of samples."""

    R: Array  #: b x d, means of the coefficients
    weights: Array  #: b x p, probabilities that entries are not gross errors; zero if missing
    fitted: Array  #: b x p, predicted entries, in units of the gauge
    variances: Array  #: b x k, variances of the coefficients along the shared eigenvectors
    eigenvectors: Array  #: d x k
    n_iter: NDArray[np.int_]  #: b, number of sweeps
    converged: Mask  #: b

    def uncertainty(
        self, sample_weight: Array, L: Array, root: Array, loadings: Array
    ) -> tuple[Array, Array, Array]:
        """Return what the uncertainty of coefficients adds to A, to B and to the squared residuals.

        These are the sums of r r^T, of z r^T over entries that are not believed, and of the variances of the
        predictions over those that are. The coefficients are multiplied by ``root`` to obtain those in the
        basis L.
        """
        turned = root @ self.eigenvectors
        weighted = sample_weight[:, None] * self.variances
        total, believed = weighted.sum(axis=0), self.weights.T @ weighted
        moments = (turned * total) @ turned.T
        imputed = ((total - believed) * (L @ turned)) @ turned.T
        squares = np.einsum("ij,ij->i", believed, (loadings @ self.eigenvectors) ** 2)
        return moments, imputed, squares

    def spread(self, loadings: Array) -> Array:
        """Return the variances of the predictions that are due to the coefficients."""
        variances: Array = self.variances @ ((loadings @ self.eigenvectors) ** 2).T
        return variances


def explain(
    model: FactorModel,
    T: Array,
    observed: Mask | Array,
    accuracy: tuple[float, int] = SWEEPS.learning,
    *,
    is_robust: bool = True,
    start: Array | None = None,
    lenient: float = SWEEPS.lenient,
) -> SharedPosterior:
    """Return what a factor model says of standardised samples.

    The coefficients and the weights of the entries are found in turn, by accelerated proximal gradients. An
    entry is judged by the variance of its residual, which is at least the squared robust scale of the
    residuals of its sample: a sample is treated leniently as long as it is fitted badly.

    Parameters
    ----------
    model : FactorModel
        The model, with at most as many components as features.
    T : array of shape (b, p)
        Samples in units of the gauge; missing entries are zero.
    observed : array of shape (b, p)
        Which entries are observed, or the weights of the entries; zero if missing.
    accuracy : tuple of (float, int)
        Length of a step at which a sample is finished, in standard deviations of the noise per root of the
        rank, and the largest number of sweeps.
    is_robust : bool, default=True
        Whether entries may be gross errors.
    start : array of shape (b, d), optional
        Coefficients to start from; zero by default.
    lenient : float, optional
        Robust scales of the residual of a sample that its entries are judged by at least.
    """
    root = np.sqrt(model.noise)
    U, sigma, Vt = complete_svd(model.loadings / root[:, None])
    working: Any = np.float32 if U.size >= SWEEPS.large_basis else np.float64
    Z = np.where(observed, np.clip((T - model.location) / root, -SWEEPS.largest, SWEEPS.largest), 0.0)
    Z, U, seen = Z.astype(working), U.astype(working), observed.astype(working)
    UT = np.ascontiguousarray(U.T)
    squares = sigma**2
    shrinking = (squares / (squares + 1.0)).astype(working)
    S = np.zeros((len(Z), len(sigma)), working) if start is None else (start @ Vt.T * sigma).astype(working)
    Y, momentum = S, np.ones(len(Z))
    step_limit, most = accuracy[0] * math.sqrt(len(sigma)), accuracy[1]
    rounding = SWEEPS.rounding * float(np.finfo(working).eps) if accuracy[0] else 0.0
    n_iter, converged = np.full(len(Z), most), np.zeros(len(Z), dtype=np.bool_)
    found, weights = S.copy(), seen.copy()
    rows = np.arange(len(Z))  # those that are not finished
    limits: tuple[Array, Array] | None = None
    W: Array = seen
    residuals, works = np.empty_like(Z), np.empty_like(Z)
    for sweep in range(1, most + 1):
        residual, work = residuals[: len(rows)], works[: len(rows)]
        np.subtract(Z, np.matmul(Y, UT, out=residual), out=residual)
        residual *= seen
        if is_robust:
            is_due = sweep <= SWEEPS.judging or (sweep % SWEEPS.judging == 0 and sweep <= SWEEPS.following)
            if limits is None or is_due:
                limits = judge(residual, W, model, squares, lenient)
            W = believe(residual, *limits, out=work)
            W *= seen
            residual *= W
        new = residual @ U
        new += Y
        new *= shrinking
        step, progress = new - Y, new - S
        finished = row_norms(step) <= np.maximum(step_limit, rounding * row_norms(new))
        overshot = np.einsum("ij,ij->i", step, progress) < 0.0
        later = np.where(overshot, 1.0, 0.5 + np.sqrt(0.25 + momentum**2))
        share = np.where(overshot, 0.0, (momentum - 1.0) / later).astype(working)
        S, momentum = new, later
        Y = S + share[:, None] * progress
        # A sample that is finished stays as it is, so that it does not depend on the others.
        stops = (finished | (sweep == most)) & ~converged[rows]
        found[rows[stops]], weights[rows[stops]], n_iter[rows[stops]] = S[stops], W[stops], sweep
        converged[rows[finished]] = True
        on: Mask = ~converged[rows]
        if not on.any():
            break
        if np.count_nonzero(on) < (1.0 - SWEEPS.leaving) * len(rows):
            rows, momentum = rows[on], momentum[on]
            Z, seen, W, S, Y = (part[on] for part in (Z, seen, W, S, Y))
            limits = None if limits is None else (limits[0][on], limits[1][on])
    believed = weights.mean(axis=1, dtype=np.float64)[:, None]
    S64 = found.astype(np.float64)
    return SharedPosterior(
        R=np.divide(S64, sigma, out=np.zeros_like(S64), where=sigma > 0.0) @ Vt,
        weights=weights.astype(np.float64),
        fitted=(found @ UT).astype(np.float64) * root + model.location,
        variances=1.0 / (believed * squares + 1.0),
        eigenvectors=Vt.T,
        n_iter=n_iter,
        converged=converged,
    )


def judge(
    residual: Array, weights: Array, model: FactorModel, squares: Array, lenient: float
) -> tuple[Array, Array]:
    """Return half the log odds of dense noise of an entry that is as predicted, and how they fall with v^2.

    Fitting components to a sample reduces the residuals of its entries: an entry takes part in its own
    prediction, and if its leverage on that is h, a clean entry has a residual of variance 1 - h.
    """
    p = residual.shape[1]
    bulk = lenient * residual_scales(residual, model)
    believed = (weights @ np.ones(p, weights.dtype)).astype(np.float64)[:, None] / p
    leverage = (squares / (believed * squares + 1.0)).sum(axis=1) / p
    variance = np.maximum(1.0 - np.minimum(leverage, SWEEPS.largest_leverage), bulk**2)
    ratio = model.gross_variance / float(np.median(model.noise)) / variance
    odds = math.log(1.0 / model.gross_share - 1.0) + 0.5 * np.log1p(ratio)
    rate = 0.5 / variance * (ratio / (1.0 + ratio))
    half = np.column_stack([np.maximum(odds, SWEEPS.least_odds), rate]).astype(residual.dtype)
    half *= 0.5
    return half[:, :1], half[:, 1:]


def residual_scales(residual: Array, model: FactorModel) -> Array:
    """Return the robust scales of the residuals of samples, among which are gross errors."""
    quartile = row_scales(residual, reach=SWEEPS.unlimited)[0].astype(np.float64) * GAUSSIAN_LOWER_QUARTILE
    scales: Array = quartile / ndtri(0.5 + 0.125 / (1.0 - model.gross_share))
    return scales


def sample_trust(model: FactorModel, deviation: Array) -> Array:
    """Return weights of samples, which are less than one for those that are wrong as a whole.

    The entries of a sample that is fitted badly are judged leniently. If it is not fitted better in the end,
    it must not count, or the basis would turn to it: its influence vanishes as its residual grows.

    Parameters
    ----------
    model : FactorModel
        The model.
    deviation : array of shape (b, p)
        Deviations of the entries from their predictions; zero if missing.
    """
    bulk = residual_scales(deviation / np.sqrt(model.noise), model)
    excess = np.divide(SWEEPS.wrong, bulk, out=np.ones(len(bulk)), where=bulk > SWEEPS.wrong)
    trust: Array = excess**4
    return trust


def believe(residual: Array, half_odds: Array, half_rate: Array, out: Array) -> Array:
    """Return the probabilities that entries are not gross errors, 1 / (1 + exp(rate v^2 - odds))."""
    np.multiply(residual, residual, out=out)
    out *= -half_rate
    out += half_odds
    np.tanh(out, out=out)  # several times faster than the exponential form
    out *= 0.5
    out += 0.5
    return out


def sample_evidence(model: FactorModel, known: SharedPosterior, T: Array, observed: Mask) -> Array:
    """Return the evidence (its variational lower bound) of each sample."""
    unsure = known.spread(model.loadings)
    entries = model.entry_evidence(T - known.fitted, unsure, observed, known.weights)
    squares = np.einsum("ij,ij->i", known.R, known.R)
    divergence = 0.5 * (known.variances - 1.0 - np.log(known.variances)).sum(axis=1) + 0.5 * squares
    evidence: Array = entries - divergence
    return evidence


def evidence(model: FactorModel, known: SharedPosterior, T: Array, observed: Mask, weight: Array) -> float:
    """Return the evidence of the model for samples, per observed entry."""
    total = float(weight @ sample_evidence(model, known, T, observed))
    return total / max(float(weight @ observed.sum(axis=1)), 1.0)
