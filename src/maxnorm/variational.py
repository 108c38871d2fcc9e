"""The factor model of data that fit into memory, fitted in rounds from several robust starts.

One pass over a stream is enough if the stream is long. Few samples deserve more: here all of them are used in
every round, and rounds are made as long as the evidence of the model grows. The result is a state, from which
the online learner can go on with more samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxnorm.core.batch import Batch
from maxnorm.core.defaults import SWEEPS
from maxnorm.core.factor_model import SMALLEST_NOISE, FactorModel, Posterior
from maxnorm.core.gauge import Gauge, Scaling
from maxnorm.core.linalg import robust_scale, row_norms
from maxnorm.core.scales import Scales
from maxnorm.core.state import State
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array, Mask


@dataclass(frozen=True)
class RoundsRule:
    """How many rounds are made, and from where."""

    trimmed: float = 4.0  #: deviations beyond which the first start leaves entries out
    clipped: float = 0.95  #: quantile at which the second start cuts the entries of each feature
    unjudged: int = 2  #: rounds before entries are judged
    early: int = 20  #: rounds with nearly equal noise variances, after which the better start is kept
    doubting: int = 15  #: early rounds in which a start may doubt its basis
    few: int = 6  #: samples per component, with more of which the basis is not in doubt
    early_variation: float = 0.05  #: variance of the logarithms of the noise variances in early rounds
    most: int = 100  #: rounds altogether
    improvement: float = 1e-4  #: least gain of evidence per entry and round to go on
    supported: float = 0.05  #: least information of a sample about a coefficient to keep its component
    detectable: float = 1.1  #: variance relative to the largest of noise from which a component is detected
    unpruned: int = 5  #: rounds before components that lack support are removed
    components: tuple[int, int] = (10, 30)  #: for which evidence is sought, as many as there is time for
    work: float = 2.0**26  #: of a round; with more samples, a part of them is used first
    all_work: float = 2.0**31  #: of a round over all samples; with more, there is none
    total_work: float = 2.0**32  #: of the rounds over all samples that follow those over a part
    rows: int = 300  #: least number of samples of such a part

    def affordable_components(self, n_samples: int, n_features: int) -> int:
        """Return the number of components for which rounds over some of the samples are possible."""
        per_entry = self.work / (min(n_samples, self.rows) * n_features)
        return int(math.sqrt(max(per_entry - WORK_PER_ENTRY, 0.0)))

    def most_rows(self, n_features: int, n_components: int) -> int:
        """Return the number of samples that may be used in a round."""
        return max(self.rows, int(self.work / work_per_row(n_features, n_components)))


ROUNDS = RoundsRule()
# Work of a round beside the products of components, in units of one of these: of an entry and of a sample.
WORK_PER_ENTRY, WORK_PER_ROW = 64.0, 4096.0
SHORTEST_COEFFICIENTS = 1e-3  # norm of the coefficients of most samples, if there is any signal


def work_per_row(n_features: int, n_components: int) -> float:
    """Return the work of a round per sample."""
    return n_features * (n_components**2 + WORK_PER_ENTRY) + WORK_PER_ROW


class Start(NamedTuple):
    """Where rounds begin."""

    kind: str  #: what is done about large entries
    doubting: bool  #: whether early rounds judge entries by a basis that was found without them


STARTS = (Start("trimmed", False), Start("clipped", False), Start("trimmed", True))


class Fit(NamedTuple):
    """A model, the weights of the entries, and the evidence before each round that led to it."""

    model: FactorModel
    weights: Array
    evidence: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Rounds:
    """Standardised samples, to which a factor model is fitted in rounds."""

    gauge: Gauge
    T: Array  #: n x p, samples in units of the gauge; missing entries are zero
    observed: Mask
    sample_weight: Array
    is_robust: bool = True  #: whether there may be gross errors
    center: bool = True

    @classmethod
    def of(cls, rows: Batch, *, is_robust: bool = True, center: bool = True, scale: bool = True) -> Rounds:
        """Return the rounds for the samples of a batch, in units that follow from them."""
        Z, observed = rows.dense()
        kind: Scaling = "feature" if scale else "common"
        gauge = Gauge.of(Z, observed, center=center, scale=kind, tolerant=is_robust)
        there = np.ones(Z.shape, dtype=np.bool_) if observed is None else observed
        weight = rows.weighted(np.ones(len(Z)))
        return cls(gauge, gauge.standardise(Z, observed), there, weight, is_robust, center)

    def fits(self, n_components: int, *, prune: bool) -> Iterator[Fit]:
        """Yield a model after every round from the start with the most evidence, while the evidence grows.

        Parameters
        ----------
        n_components : int
            Number of components.
        prune : bool
            Whether components that the data do not support are removed.
        """
        yield from self.late_rounds(self.best_start(n_components, prune=prune), prune=prune)

    def best_start(self, n_components: int, *, prune: bool) -> Fit:
        """Return the model with the most evidence after early rounds from several starts.

        If samples are few, a gross error may bend the basis until it fits. Some early rounds then judge
        entries by a basis that was found without them, also with no more components than have support.
        """
        if not self.is_robust:
            return self.early_rounds(Start("plain", False), n_components, prune=prune)
        is_few = len(self.T) < ROUNDS.few * n_components
        starts = [start for start in STARTS if is_few or not start.doubting]
        fits = [self.early_rounds(start, n_components, prune=prune) for start in starts]
        best = int(np.argmax([fit.evidence[-1] for fit in fits]))
        fit = fits[best]
        supported = without_unsupported(fit.model).n_components
        if not is_few or supported == n_components:
            return fit
        again = self.early_rounds(Start(starts[best].kind, True), supported, prune=prune)
        if again.evidence[-1] <= fit.evidence[-1]:
            return fit
        return again if prune else again._replace(model=again.model.padded(n_components))

    def late_rounds(self, fit: Fit, *, prune: bool, work: float = math.inf) -> Iterator[Fit]:
        """Yield a model and those after more rounds, while the evidence grows and the work is affordable."""
        yield fit
        n, p = self.T.shape
        for number in range(ROUNDS.early, ROUNDS.most):
            work -= n * work_per_row(p, fit.model.n_components)
            if work < 0.0:
                break
            before, fit = fit, self.one_round(fit, self.is_robust, math.inf)
            if prune:
                fit = fit._replace(model=without_unsupported(fit.model))
            yield fit
            gain = fit.evidence[-1] - before.evidence[-1]
            if gain < ROUNDS.improvement and number >= ROUNDS.early + ROUNDS.unjudged:
                break

    def continued(self, fit: Fit, n_components: int, *, prune: bool) -> Fit:
        """Return a model that was fitted to a part of the samples, with the weights of all entries.

        If the rank is to be found, it is found anew, because all samples may support more components.
        """
        model = fit.model.in_units(self.gauge)
        encoded = model.encode(self.T, self.observed, SWEEPS.learning[1], is_robust=self.is_robust)
        known, weights = encoded[:2]
        if prune:
            cleaned = weights * self.T + (1.0 - weights) * known.fitted
            model = with_detectable_components(model, cleaned, n_components)
        return Fit(model, weights, fit.evidence)

    def start(self, kind: str, n_components: int) -> Fit:
        """Return a first model: principal components of the samples, with care for large entries.

        Entries beyond a few deviations are left out, or cut at a quantile of their feature. The first is
        right if they are gross errors, the second if they are narrow peaks or one of two groups of samples.
        """
        T, weights = self.T, self.observed.astype(np.float64)
        if kind == "trimmed":
            weights = np.where(np.abs(T) <= ROUNDS.trimmed, weights, 0.0)
        elif kind == "clipped":
            limit = np.quantile(np.abs(T), ROUNDS.clipped, axis=0)
            T = np.clip(T, -limit, limit)
        share = self.sample_weight / self.sample_weight.mean()
        counts = np.maximum(share @ weights, 1.0)
        location = share @ (weights * T) / counts if self.center else np.zeros(T.shape[1])
        deviations = np.sqrt(share)[:, None] * weights * (T - location)
        L = principal_axes(deviations, n_components) / max(float(weights.mean()), 0.05)
        variance = np.einsum("ij,ij->j", deviations, deviations) / counts
        noise = np.maximum(variance - 0.9 * np.einsum("ij,ij->i", L, L), 0.1 * variance + 1e-3)
        p, d = L.shape
        covariances = np.broadcast_to(SMALLEST_NOISE * np.eye(d + 1), (p, d + 1, d + 1))
        basis = np.column_stack([L, location])
        model = FactorModel(self.gauge, basis, noise, covariances, np.ones(d), center=self.center)
        return Fit(model, weights)

    def early_rounds(self, start: Start, n_components: int, *, prune: bool) -> Fit:
        """Return the model after rounds in which noise variances are nearly equal.

        While the loadings are poor, a feature with gross errors would otherwise pass for a noisy one.
        """
        fit = self.start(start.kind, n_components)
        for number in range(ROUNDS.early):
            judging = self.is_robust and number >= ROUNDS.unjudged
            doubting = start.doubting and number < ROUNDS.doubting
            fit = self.one_round(fit, judging, ROUNDS.early_variation, doubting=doubting)
            if prune and number >= ROUNDS.unpruned:
                fit = fit._replace(model=without_unsupported(fit.model))
        return fit

    def one_round(self, fit: Fit, judging: bool, variation: float, *, doubting: bool = False) -> Fit:
        """Return the model after one round."""
        model = fit.model
        sums, weights = model.measure(
            self.T, self.observed, fit.weights, self.sample_weight, judging=judging, doubting=doubting
        )
        evidence = (*fit.evidence, model.evidence(sums))
        return Fit(model.updated(sums, most_variation=variation, judging=judging), weights, evidence)

    def sum_residuals(self, fit: Fit, known: Posterior) -> Array:
        """Return the sums from which the online learner goes on learning noise variances."""
        counts = self.sample_weight @ fit.weights
        gross = np.where(self.observed, 1.0 - fit.weights, 0.0)
        squares = self.sample_weight @ (gross * (self.T - known.fitted) ** 2)
        return np.column_stack([fit.model.noise * counts, counts, squares, self.sample_weight @ gross])

    def state(self, fit: Fit, dtype: np.dtype[Any], *, in_ball: bool) -> State:
        """Return the state of a learner that has learnt what a fit has found.

        Its sums are those of samples that the model describes exactly, so that the update of the basis leaves
        the basis as it is. If ``in_ball``, the coefficients are scaled as the max-norm wants them.
        """
        n, known = len(self.T), fit.model.expect(self.T, fit.weights)
        model = fit.model.recentred() if self.center else fit.model
        c = 2.0 * max(float(np.quantile(row_norms(known.R), 0.9)), SHORTEST_COEFFICIENTS) if in_ball else 1.0
        d, L = model.n_components, model.loadings * c
        variance = float(np.vdot(L, L)) / c**2 + float(model.noise.sum())
        total = float(self.sample_weight.sum())
        statistics = SufficientStatistics(
            A=total / c**2 * np.eye(d),
            B=total / c**2 * L,
            r=np.zeros(d),
            loss=0.5 * total * variance,
            weight=total,
            entries=total * len(L),
            t=np.zeros(len(L)) if self.center else None,
            residuals=self.sum_residuals(fit, known),
        )
        rejected = np.where(self.observed, fit.weights < 0.5, False)
        seen = self.observed.sum(axis=0, dtype=np.float64)
        deviation = np.where(self.observed, self.T - known.fitted, 0.0)
        residual = n * math.log(robust_scale(deviation) or 1.0)
        scales = Scales(
            entry=n * math.log(robust_scale(self.T) or 1.0),
            residual=residual,
            noisy=rejected.sum(axis=0, dtype=np.float64),
            seen=seen,
            weight=float(n),
            recent_residual=residual,
            recent_noisy=n * float(rejected.sum() / max(seen.sum(), 1.0)),
            recent_weight=float(n),
            signed_noisy=np.sum(np.sign(deviation), axis=0, where=rejected),
        )
        return State(
            L.astype(dtype),
            statistics,
            scales,
            n_samples=n,
            n_steps=len(fit.evidence),
            time=n,
            gauge=model.gauge,
            model=model,
        )


def some_rows(n_rows: int, size: int) -> NDArray[np.intp]:
    """Return the indices of so many rows, always the same random ones, in increasing order."""
    return np.sort(np.random.default_rng(0).choice(n_rows, size, replace=False))


def spread_rows(rows: Batch, size: int) -> Batch:
    """Return at most so many rows from everywhere in a batch."""
    return rows if len(rows) <= size else rows[some_rows(len(rows), size)]


def with_detectable_components(model: FactorModel, cleaned: Array, most: int) -> FactorModel:
    """Return a model with the principal components of cleaned samples that stand out from the noise.

    In units of the noise, the largest variance along any direction of n samples of p features that are
    nothing but noise is about (1 + sqrt(p / n))^2 (the edge of the law of Marchenko and Pastur).
    """
    n, p = cleaned.shape
    root = np.sqrt(model.noise)
    location = cleaned.mean(axis=0) if model.center else np.zeros(p)
    whitened = (cleaned - location) / root
    variances, V = np.linalg.eigh(whitened.T @ whitened / n)
    edge = ROUNDS.detectable * (1.0 + math.sqrt(p / n)) ** 2
    d = max(1, min(int(np.count_nonzero(variances > edge)), most))
    loadings = V[:, ::-1][:, :d] * np.sqrt(np.maximum(variances[::-1][:d] - 1.0, 0.1)) * root[:, None]
    covariances = model.noise[:, None, None] / n * np.eye(d + 1)
    precisions = p / np.einsum("ij,ij->j", loadings, loadings)
    return replace(
        model, basis=np.column_stack([loadings, location]), covariances=covariances, precisions=precisions
    )


def principal_axes(X: Array, n_components: int) -> Array:
    """Return the first principal axes of X, about zero, multiplied by their standard deviations."""
    n, p = X.shape
    if n < p:
        values, U = np.linalg.eigh(X @ X.T)
        axes = X.T @ (U[:, ::-1][:, :n_components] / math.sqrt(n))
    else:
        values, V = np.linalg.eigh(X.T @ X)
        axes = V[:, ::-1][:, :n_components] * np.sqrt(np.maximum(values[::-1][:n_components], 0.0) / n)
    return np.hstack([axes, np.zeros((p, n_components - axes.shape[1]))])


def without_unsupported(model: FactorModel) -> FactorModel:
    """Return the model without components of which a sample tells next to nothing; one remains."""
    supported = model.information >= ROUNDS.supported
    supported[0] = True
    return model if supported.all() else model.keep(supported)
