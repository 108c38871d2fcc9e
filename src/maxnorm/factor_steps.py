"""Samples explained by a factor model: their encoding, and what they add to the sums of the learner."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxnorm.core import defaults
from maxnorm.core.batch import Batch
from maxnorm.core.drift import Kind, Watch, Watched
from maxnorm.core.encoding import Encoding
from maxnorm.core.factor_model import FactorModel, Posterior
from maxnorm.core.linalg import quantile, row_norms, row_scales, symmetric, upper_triangle
from maxnorm.core.scales import Scales
from maxnorm.core.shared_covariance import SWEEPS, SharedPosterior, explain, sample_evidence, sample_trust
from maxnorm.core.state import Contribution, Decay, remaining_weight
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array, Mask

NO_WATCH = Watch()
NEGLIGIBLE_LOADING = 1e-8  # length of a loading beside the noise, or beside the largest, that counts as zero


class Reading(NamedTuple):
    """What is believed of samples to which a learnt model is applied."""

    R: Array  #: b x d, means of the coefficients
    weights: Array  #: b x p, probabilities that entries are not gross errors; zero if missing
    n_iter: NDArray[np.int_]  #: b, number of iterations
    converged: Mask  #: b


def read(
    model: FactorModel, T: Array, observed: Mask, max_iter: int, *, is_robust: bool, is_own: bool
) -> Reading:
    """Return what a model says of samples, whose covariances are their own or share their eigenvectors."""
    if is_own:
        known, weights, n_iter, converged = model.encode(T, observed, max_iter, is_robust=is_robust)
        return Reading(known.R, weights, n_iter, converged)
    start: Array | None = None
    for stage in model.annealed if is_robust else []:
        start = explain(stage, T, observed, start=start).R
    accuracy = (SWEEPS.applying[0], max_iter)
    shared = explain(model, T, observed, accuracy, is_robust=is_robust, start=start)
    return Reading(shared.R, shared.weights, shared.n_iter, shared.converged)


def read_wide(model: FactorModel, T: Array, observed: Mask, max_iter: int, reading: Reading) -> Reading:
    """Return what a model says of samples with many features or components, after a first reading.

    Real data with many features have more components than a model. What the model lacks is part of its noise
    variances, and makes entries of some samples look like gross errors. Samples that are fitted badly are
    therefore read again, more leniently. Then all are projected onto the basis with the weights that their
    entries have, and noise variances that are half as different, on the scale of their logarithms.
    """
    accuracy = (SWEEPS.applying[0], max_iter)
    deviation = np.where(observed, T - model.location - reading.R @ model.loadings.T, 0.0)
    largest = SWEEPS.largest
    bulk = row_scales(np.clip(deviation / np.sqrt(model.noise), -largest, largest))[0]
    misfit = np.flatnonzero(bulk > SWEEPS.misfit)
    if len(misfit):
        again = explain(
            model,
            T[misfit],
            observed[misfit],
            accuracy,
            start=reading.R[misfit],
            lenient=SWEEPS.lenient_to_misfits,
        )
        reading.R[misfit], reading.weights[misfit] = again.R, again.weights
        reading.converged[misfit] = again.converged
    evened = replace(model, noise=np.sqrt(model.noise * model.noise.mean()))
    R = explain(evened, T, reading.weights, accuracy, is_robust=False, start=reading.R).R
    return reading._replace(R=R)


def encode_by_model(
    batch: Batch, model: FactorModel, max_iter: int, *, is_robust: bool, is_own: bool, is_wide: bool
) -> Encoding:
    """Return the encoding of samples by a factor model, with coefficients along its principal axes.

    Parameters
    ----------
    batch : Batch
        The samples.
    model : FactorModel
        The model.
    max_iter : int
        Most iterations for a sample.
    is_robust : bool
        Whether entries that are more likely gross errors than not are noise; otherwise there is none.
    is_own : bool
        Whether each sample has a covariance of its coefficients of its own. Otherwise, the covariances of
        all samples share their eigenvectors.
    is_wide : bool
        Whether the features or components are so many that real data are hardly described by the model.
    """
    T, observed = model.standardised(batch)
    reading = read(model, T, observed, max_iter, is_robust=is_robust, is_own=is_own)
    if is_wide and is_robust:
        reading = read_wide(model, T, observed, max_iter, reading)
    weights, n_iter, converged = reading.weights, reading.n_iter, reading.converged
    axes = model.principal
    R = (reading.R @ axes.turn).astype(batch.dtype, copy=False)
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


def score_by_model(
    batch: Batch, model: FactorModel, max_iter: int, *, is_robust: bool, is_own: bool
) -> Array:
    """Return the log-likelihood of the observed entries of samples, in the units of the data.

    Entries may be gross errors, unless ``is_robust`` is false. What is returned is then the lower bound by
    which the model was fitted. The arguments are those of :func:`encode_by_model`.
    """
    T, observed = model.standardised(batch)
    if not is_robust:
        return model.log_likelihood(T, observed)
    if is_own:
        known, weights, *_ = model.encode(T, observed, max_iter)
        evidence = model.sample_evidence(T, observed, weights, known)
    else:
        shared = explain(model, T, observed, (SWEEPS.applying[0], max_iter))
        evidence = sample_evidence(model, shared, T, observed)
    return evidence - observed @ np.log(model.gauge.scale)


def inverse_of_basis(L: Array, noise: Array) -> Array:
    """Return the pseudo-inverse of a basis, without directions that are negligible beside the noise.

    Components that the data do not support have vanished, and their coefficients would be infinite.
    """
    U, sigma, Vt = np.linalg.svd(L, full_matrices=False)
    kept = sigma > max(NEGLIGIBLE_LOADING * math.sqrt(float(np.median(noise))), NEGLIGIBLE_LOADING * sigma[0])
    inverse: Array = (Vt[kept].T / sigma[kept]) @ U[:, kept].T
    return inverse


class FullPosterior(NamedTuple):
    """What is believed of samples, each with a covariance of its coefficients of its own."""

    known: Posterior
    weights: Array  #: b x p, probabilities that entries are not gross errors; zero if missing

    @property
    def R(self) -> Array:
        """Means of the coefficients."""
        return self.known.R

    @property
    def fitted(self) -> Array:
        """Predicted entries, in units of the gauge."""
        return self.known.fitted

    def uncertainty(
        self, sample_weight: Array, L: Array, root: Array, loadings: Array
    ) -> tuple[Array, Array, Array]:
        """Return what the uncertainty of coefficients adds to A, to B and to the squared residuals."""
        d = L.shape[1]
        left, right = upper_triangle(d)
        S = (root @ self.known.S @ root.T)[:, left, right] * sample_weight[:, None]
        imputed = np.einsum("ijk,ik->ij", symmetric((1.0 - self.weights).T @ S, d), L)
        squares = sample_weight @ (self.weights * self.known.spread)
        return symmetric(S.sum(axis=0)[None], d)[0], imputed, squares


def sum_up(
    known: FullPosterior | SharedPosterior,
    T: Array,
    observed: Mask,
    R: Array,
    L: Array,
    root: Array,
    loadings: Array,
    sample_weight: Array,
    *,
    center: bool,
) -> SufficientStatistics:
    """Return the statistics of samples that are explained by a factor model.

    Entries that are missing or gross errors count as the model predicts them, and the uncertainty of the
    coefficients counts in the sums.

    Parameters
    ----------
    known : FullPosterior or SharedPosterior
        What the model says of the samples.
    T : array of shape (b, p)
        The samples, in units of the gauge.
    observed : boolean array of shape (b, p)
        Which entries are observed.
    R : array of shape (b, d)
        Coefficients in the basis L.
    L : array of shape (p, d)
        The basis in which the sums are taken.
    root : array of shape (d, d)
        The matrix by which coefficients of the model become coefficients in the basis.
    loadings : array of shape (p, d)
        Loadings of the model.
    sample_weight : array of shape (b,)
        Weights of the samples.
    center : bool
        Whether to sum up what the location is learnt from.
    """
    W = known.weights
    deviation = T - known.fitted
    believed = W * deviation
    targets = known.fitted + believed
    statistics = SufficientStatistics.from_batch(targets, R, np.zeros(len(T)), sample_weight, center=center)
    moments, imputed, squares = known.uncertainty(sample_weight, L, root, loadings)
    deviation *= observed
    believed *= deviation
    clean, n_clean = sample_weight @ believed, sample_weight @ W
    total = sample_weight @ np.square(deviation, out=deviation)
    n_observed = sample_weight @ observed
    return replace(
        statistics,
        A=statistics.A + moments,
        B=statistics.B + imputed,
        residuals=np.column_stack(
            [clean + squares, n_clean, np.maximum(total - clean, 0.0), np.maximum(n_observed - n_clean, 0.0)]
        ),
    )


def measure_by_model(
    batch: Batch,
    L: Array,
    model: FactorModel,
    location: Array | None,
    time: int,
    forgetting: float,
    noise_forgetting: float,
    half_life: float | None,
    *,
    is_robust: bool = True,
    is_shared: bool = False,
    start: Array | None = None,
    watch: Watch = NO_WATCH,
) -> Contribution:
    """Return the contribution of a batch that is explained by a factor model.

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
    forgetting, noise_forgetting, half_life : float
        How samples lose weight, and for the noise variances.
    is_robust : bool, default=True
        Whether entries may be gross errors.
    is_shared : bool, default=False
        Whether the covariances of the coefficients of all samples share their eigenvectors.
    start : array of shape (b, d), optional
        Coefficients in the model from which those of the samples are found, if they share eigenvectors.
    watch : Watch, optional
        Compares the residuals of the samples with those before.
    """
    n_samples, full = len(batch), batch.n_observed > 0
    if not full.all():
        batch, start = batch[np.flatnonzero(full)], None if start is None else start[full]
    if not len(batch):
        nothing = SufficientStatistics.zeros(*L.shape)
        return Contribution(n_samples, 0, nothing, Scales(), Decay(), L.shape[1])
    T, observed = model.standardised(batch)
    known: FullPosterior | SharedPosterior
    if is_shared:
        known = explain(model, T, observed, is_robust=is_robust, start=start)
    else:
        known = FullPosterior(
            *model.encode(T, observed, defaults.SWEEPS.learning[1], is_robust=is_robust)[:2]
        )
    deviation = np.where(observed, T - known.fitted, 0.0)
    watched = Watched() if watch.drift is None else watch(row_scales(deviation)[0])
    if watched.change is not None:
        return change_after(int(np.flatnonzero(full)[watched.change]), watched.kind, L)
    L64 = L.astype(np.float64, copy=False)
    origin = np.zeros(len(L)) if location is None else location
    # The model has its own coefficients, of mean zero and variance one.
    inverse = inverse_of_basis(L64, model.noise)
    root = inverse @ model.loadings
    R = known.R @ root.T + inverse @ (model.location - origin)
    now = time + len(T)
    weights = batch.weighted(remaining_weight(np.arange(time + 1, now + 1), now, forgetting, half_life))
    if is_shared and is_robust:
        weights = weights * sample_trust(model, deviation)
    statistics = sum_up(
        known, T, observed, R, L64, root, model.loadings, weights, center=location is not None
    )
    E = np.where(known.weights < 0.5, deviation, 0.0)
    decay = Decay.after(time, now, forgetting, noise_forgetting, half_life)
    norm = quantile(row_norms(R), 0.9)
    return Contribution(
        n_samples,
        len(T),
        statistics,
        Scales.from_batch(np.where(observed, T - origin, 0.0), E, deviation, observed),
        decay,
        L.shape[1],
        loss=0.5 * float(np.vdot(known.weights, deviation**2)),
        free_norm=len(T) * math.log(norm) if norm else 0.0,
        free_norm_weight=float(len(T)) if norm else 0.0,
        levels=watched.levels,
        excess=watched.excess,
    )


def change_after(n_samples: int, kind: Kind, L: Array) -> Contribution:
    """Return the contribution of samples that precede a sudden change, which is empty."""
    nothing = SufficientStatistics.zeros(*L.shape)
    return Contribution(n_samples, 0, nothing, Scales(), Decay(), L.shape[1], change=kind)
