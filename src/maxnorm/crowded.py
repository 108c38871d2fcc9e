"""Rounds over the first samples of a stream, from which a pass over the other samples starts.

If a sample has d components and not many more entries that are neither missing nor gross errors, its
coefficients are uncertain, and one pass would fit them with the errors. What the first samples of a stream
add to the sums was found in a poor basis. Learning then begins with rounds of expectation maximisation over
the first samples, and also wherever these take no longer than a pass. A round is a step of Algorithm 1 whose
batch is all of these samples, and whose sums replace those of the round before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from maxnorm.core import defaults
from maxnorm.core.batch import Batch
from maxnorm.core.encoding import encode
from maxnorm.core.factor_model import SMALLEST_NOISE, FactorModel
from maxnorm.core.gauge import Gauge
from maxnorm.core.linalg import row_scales
from maxnorm.core.noise import CAPPED, CappedL1
from maxnorm.core.norms import NuclearNorm, anchored
from maxnorm.core.shared_covariance import SWEEPS, SharedPosterior, evidence, explain, sample_trust
from maxnorm.core.state import State
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array, Mask
from maxnorm.factor_steps import sum_up
from maxnorm.variational import principal_axes


class Start(NamedTuple):
    """What a first model assumes, and how many rounds show whether it is right."""

    noise: float  #: variance of the dense noise, in units of that of the entries
    share: float  #: of gross errors
    rounds: int


class Stop(NamedTuple):
    """When rounds stop."""

    negligible: float  #: variance of the noise, in units of that of the entries, below which they stop
    compared: float  #: the same while starts are compared; with less, the other starts are not tried
    steady_noise: float  #: relative change of this variance below which they stop,
    steady_share: float  #: if the share of gross errors has changed by less than this as well


FINAL = Stop(1e-5, 1e-5, 1e-3, 1e-4)
# If later samples are learnt from in the usual way, they improve the basis.
ROUGH = Stop(1e-4, 1e-3, 0.05, 0.005)


class FirstFit(NamedTuple):
    """A model of the first samples, and the coefficients that they have in it."""

    model: FactorModel
    R: Array


@dataclass(frozen=True)
class CrowdedRule:
    """When learning begins with rounds over the first samples, and how they are made."""

    components: float = 0.19  #: per entry that is believed, with more of which samples are crowded
    few: int = 10  #: samples per component, with fewer of which rounds find a much better basis than a pass
    least: int = 2  #: samples per component, with fewer of which there are none before the end of a stream
    #: largest product of samples, features and components of rounds from which a pass starts, with fewer than
    #: ``few`` samples per component, and with more
    first_work: tuple[float, float] = (2.0**26, 2.0**22)
    trimmed: float = 4.0  #: deviations within which an entry is believed before anything is known
    rows: int = 64  #: samples per component that are used,
    entries: int = 2**21  #: at most as many as have so many entries
    starts: tuple[Start, ...] = (Start(0.3, 0.2, 16), Start(1.0, 0.05, 8))  #: the second if nothing is wrong
    part: float = 0.5  #: share of the samples by which the starts are compared
    held_out: float = 0.1  #: share of these that a start is judged by, and is not fitted to
    least_held_out: int = 20  #: samples; with fewer, the first start is taken
    hardly_any: float = 0.01  #: share of gross errors; with fewer, it is also tried whether there are none
    growth: float = 1.2  #: of the share of gross errors, beyond what the comparison has found
    sweeps: int = 4  #: of every round but the first, from the coefficients of the round before
    probe: int = 60  #: samples, at least, that show whether the usual encoder suffices after the rounds
    misread: float = 0.2  #: by how much its residuals may exceed those of the model, in units of the signal
    minority: float = 0.15  #: share of the samples up to which they may be wrong as a whole
    longest_step: float = 1.8  #: in units of the step of expectation maximisation, which converges below 2
    rounds: tuple[int, int] = (12, 60)  #: over all samples, at least and at most,
    work: float = 2.0**32  #: in between as many as have this product of samples, features and components


CROWDED = CrowdedRule()


def first_rows(n_features: int, n_components: int) -> int:
    """Return the number of first samples over which rounds are made."""
    return min(CROWDED.rows * n_components, max(CROWDED.entries // n_features, 1))


def is_crowded(n_components: int, believed: float) -> bool:
    """Return whether there are many components for so many believed entries of a sample."""
    return n_components > CROWDED.components * believed


def believed_entries(rows: Batch, gauge: Gauge) -> float:
    """Return the mean number of entries of a sample that are within a few deviations of their location."""
    Z, observed = rows.dense()
    near = np.abs(gauge.standardise(Z, observed)) <= CROWDED.trimmed
    if observed is not None:
        near &= observed
    return float(np.count_nonzero(near)) / max(len(rows), 1)


def are_worthwhile(n_samples: int, n_features: int, n_components: int) -> bool:
    """Return whether a pass starts from rounds over so many first samples.

    They find a better basis than one pass over these samples, and a much better one if these are few for each
    component. With small arrays they do not take longer either. With fewer than two samples per component
    there is little to find.
    """
    few, many = CROWDED.first_work
    most_work = few if n_samples < CROWDED.few * n_components else many
    is_enough = n_samples >= CROWDED.least * n_components
    return is_enough and n_samples * n_features * n_components <= most_work


@dataclass(frozen=True, eq=False)
class FirstSamples:
    """Standardised samples, to which a factor model with many components is fitted in rounds."""

    gauge: Gauge
    T: Array  #: n x p, samples in units of the gauge; missing entries are zero
    observed: Mask
    sample_weight: Array
    is_robust: bool
    center: bool
    stop: Stop = FINAL

    @classmethod
    def of(
        cls, rows: Batch, gauge: Gauge, *, is_robust: bool, center: bool, stop: Stop = FINAL
    ) -> FirstSamples:
        """Return the samples of a batch."""
        Z, mask = rows.dense()
        observed = np.ones(Z.shape, dtype=np.bool_) if mask is None else mask
        weight = rows.weighted(np.ones(len(Z)))
        return cls(gauge, gauge.standardise(Z, mask), observed, weight, is_robust, center, stop)

    def __getitem__(self, rows: slice) -> FirstSamples:
        return replace(
            self, T=self.T[rows], observed=self.observed[rows], sample_weight=self.sample_weight[rows]
        )

    def fit(self, n_components: int) -> FirstFit:
        """Return the model with so many components that rounds from the better start find."""
        model = self.best_start(n_components)
        n, p = self.T.shape
        least, most = CROWDED.rounds
        rounds = min(max(int(CROWDED.work / (n * p * n_components)), least), most)
        return self.improve(model, rounds, CROWDED.growth * model.gross_share)

    def best_start(self, n_components: int) -> FactorModel:
        """Return the model after rounds over some samples, from the start with more evidence in others.

        Gross errors that are no larger than the signal can be recognised only by a good model. Whether they
        are, or whether the model has taken noise for signal, is shown by samples that it was not fitted to.
        """
        part = self[: max(int(CROWDED.part * len(self.T)), min(len(self.T), CROWDED.few * n_components))]
        n_out = int(CROWDED.held_out * len(part.T))
        if n_out < CROWDED.least_held_out or not self.is_robust:
            start = CROWDED.starts[0]
            return part.improve(part.first_model(n_components, start), start.rounds).model
        comparing = self.stop._replace(negligible=self.stop.compared)
        fitted, judge = replace(part[n_out:], stop=comparing), part[:n_out]
        models: list[FactorModel] = []
        for start in CROWDED.starts:
            models.append(fitted.improve(fitted.first_model(n_components, start), start.rounds).model)
            if float(np.median(models[-1].noise)) < comparing.negligible:
                return models[-1]
        best = max(models, key=judge.evidence)
        if best.gross_share > CROWDED.hardly_any:
            return best
        # Without gross errors, the tails of dense noise that is not normal may pass for a few.
        share = 1.0 / fitted.T.size  # less than one gross error
        rounds = CROWDED.starts[-1].rounds
        none = fitted.improve(replace(best, gross_share=share), rounds, share).model
        return max(best, none, key=judge.evidence)

    def first_model(self, n_components: int, start: Start) -> FactorModel:
        """Return a model with the principal components of the entries within a few deviations."""
        T = self.T
        near = self.observed & (np.abs(T) <= CROWDED.trimmed) if self.is_robust else self.observed
        share = self.sample_weight / self.sample_weight.mean()
        counts = np.maximum(share @ near, 1.0)
        location = share @ (near * T) / counts if self.center else np.zeros(T.shape[1])
        deviations = np.sqrt(share)[:, None] * near * (T - location)
        loadings = principal_axes(deviations, n_components) / max(float(near.mean()), 0.05)
        variance = float(np.median(np.einsum("ij,ij->j", deviations, deviations) / counts))
        return FactorModel(
            self.gauge,
            np.column_stack([loadings, location]),
            np.full(T.shape[1], max(start.noise * variance, SMALLEST_NOISE)),
            gross_share=start.share,
            center=self.center,
        )

    def need_model(self, fit: FirstFit) -> bool:
        """Return whether the usual encoder leaves much larger residuals than the model that was found.

        If many entries are gross errors that are hardly larger than the signal, it cannot tell them from
        other entries, and would spoil the basis.
        """
        if not self.is_robust:
            return False
        spread = slice(None, None, max(len(self.T) // CROWDED.probe, 1))
        some, model, R = self[spread], fit.model, fit.R[spread]
        Z = np.where(some.observed, some.T - model.location, 0.0)
        signal = math.sqrt(float(np.vdot(model.loadings, model.loadings)) / len(model.loadings))
        noise = CappedL1(CAPPED.influence * signal, CAPPED.cut * signal, components=model.n_components)
        code = encode(
            Z,
            model.loadings,
            some.observed,
            norm=NuclearNorm(0.0),
            noise=noise,
            learning_tol=defaults.SWEEPS.learning_tol,
            max_iter=defaults.SWEEPS.learning[1],
        )
        deviation = np.where(some.observed, Z - R @ model.loadings.T, 0.0)
        found, known = (float(np.median(row_scales(X)[0])) for X in (code.residual + code.E, deviation))
        return found - known > CROWDED.misread * signal

    def improve(self, model: FactorModel, rounds: int, most_share: float = 1.0) -> FirstFit:
        """Return the model after so many rounds, or fewer if it no longer changes.

        Steps of the basis are longer than those of expectation maximisation, by the inverse of the share of
        the entries that are believed. The model has at most the share ``most_share`` of gross errors.
        """
        R: Array | None = None
        for _ in range(rounds):
            accuracy = SWEEPS.learning if R is None else (0.0, CROWDED.sweeps)
            known = explain(model, self.T, self.observed, accuracy, is_robust=self.is_robust, start=R)
            L, same = model.loadings, np.eye(model.n_components)
            weight = self.trusted(model, known)
            statistics = sum_up(known, self.T, self.observed, known.R, L, same, L, weight, center=self.center)
            basis = most_likely_basis(statistics.centred(), L)
            if R is not None:  # entries that are not believed are predicted by the basis, and hold it back
                believed = float(known.weights.mean())
                basis = L + min(1.0 / max(believed, 1e-300), CROWDED.longest_step) * (basis - L)
            state = State(basis, statistics, gauge=self.gauge)
            before, model = model, state.model_of_sums
            model = replace(model, gross_share=min(model.gross_share, most_share))
            # The next model has coefficients of variance one.
            root = state.coefficient_root  # with orthogonal columns
            R = known.R @ (root / np.maximum(np.einsum("ij,ij->j", root, root), 1e-300))
            noise, share = np.median(model.noise / before.noise), model.gross_share - before.gross_share
            is_steady = abs(noise - 1.0) < self.stop.steady_noise and abs(share) < self.stop.steady_share
            if is_steady or float(np.median(model.noise)) < self.stop.negligible:
                break
        assert R is not None
        return FirstFit(model, R)

    def evidence(self, model: FactorModel) -> float:
        """Return the evidence of the samples for a model that was fitted to others."""
        known = explain(model, self.T, self.observed)
        return evidence(model, known, self.T, self.observed, self.trusted(model, known))

    def trusted(self, model: FactorModel, known: SharedPosterior) -> Array:
        """Return the weights of the samples, which are small for those that are wrong as a whole.

        If these are many, they are samples of another kind, and count like the others.
        """
        if not self.is_robust:
            return self.sample_weight
        trust = sample_trust(model, np.where(self.observed, self.T - known.fitted, 0.0))
        is_minority = float(np.mean(trust < 1.0)) < CROWDED.minority
        return self.sample_weight * trust if is_minority else self.sample_weight


def most_likely_basis(statistics: SufficientStatistics, L: Array) -> Array:
    """Return the basis that maximises the likelihood, given the sums and the basis before."""
    A, B = anchored(L, statistics)
    basis: Array = np.linalg.solve(A, B.T).T
    return basis
