"""What is carried from one batch to the next, and what a batch adds to it."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from maxnorm.core.bias import BiasModel
from maxnorm.core.drift import Drift, Kind
from maxnorm.core.entry_model import EntryModel, EntrySums
from maxnorm.core.factor_model import (
    GROSS_ERROR,
    LEAST_SHARE,
    MOST_SHARE,
    FactorModel,
    clean_limits,
    shrink_variances,
)
from maxnorm.core.gauge import Gauge
from maxnorm.core.linalg import quantile
from maxnorm.core.scales import PAST_POWER, RECENT_POWER, Scales
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array

if TYPE_CHECKING:
    from maxnorm.core.norms import FactorNorm

# Share of gross errors from which dense noise is not alone, and the ratios of the robust variance of the
# residual to the noise variance between which the residual changes from unlike to like dense noise.
NOT_ALONE, LIKE_NOISE = 0.15, (0.5, 0.9)
SHORTEST_HALF_LIFE = 1e-9  # nothing remains of a sample after the next one, as with any shorter half-life


@dataclass(frozen=True, eq=False)
class Selection:
    """What was chosen by the error on held-out entries, and what was tried."""

    n_components: int
    weight: float | None  #: weight of the norm per observed entry; None if it was not chosen
    tried: tuple[tuple[int, float | None, float, float], ...]  #: components, weight, prior and error
    prior: float = 0.0  #: strength of the prior on the rows of the basis


@dataclass(frozen=True, eq=False)
class State:
    """Everything that is carried from one batch to the next.

    Its size does not depend on the number of samples seen. Arrays are never changed in place.
    """

    L: Array  #: p x d, the basis
    statistics: SufficientStatistics
    scales: Scales = field(default_factory=Scales)
    n_samples: int = 0  #: samples seen
    n_steps: int = 0  #: updates of the basis
    time: int = 0  #: samples seen that were not empty; the clock by which old samples lose weight
    biases: BiasModel | None = None  #: mean and column biases, if entries are first explained by them
    selection: Selection | None = None  #: rank and weight chosen by held-out entries, if they were
    gauge: Gauge | None = None  #: the units of the model; None for those of the data
    model: FactorModel | None = None  #: the factor model, if it was fitted to all samples so far
    drift: Drift | None = None  #: what is known of changes of the stream, if they are looked for
    first_rows: int = 0  #: number of first samples that are learnt from together, or zero
    is_shared: bool = False  #: whether samples are explained by the model with shared covariances
    entry_model: EntryModel | None = None  #: the model of single entries, if that is what is learnt
    entry_sums: EntrySums | None = None  #: what it follows from
    repeated_weight: float = 0.0  #: of all samples, while a pass repeats them; zero in the first pass

    @classmethod
    def start(cls, L: Array) -> State:
        """Return the state before the first sample, with L as the first basis."""
        return cls(L=L, statistics=SufficientStatistics.zeros(*L.shape))

    def __repr__(self) -> str:
        p, d = self.L.shape
        return f"<state of {p} features and {d} components after {self.n_samples} samples>"

    @cached_property
    def locked(self) -> State:
        """The state itself, with arrays that are made read-only, so that nobody can damage a model."""
        parts = (self.statistics, self.scales, self.biases, self.gauge, self.model, self.drift)
        for value in (self, *parts, self.entry_model, self.entry_sums):
            for item in vars(value).values() if value is not None else ():
                if isinstance(item, np.ndarray):
                    item.flags.writeable = False
        return self

    @property
    def seed(self) -> int:
        """A seed that follows from the basis, so that random choices can be repeated."""
        return zlib.crc32(np.ascontiguousarray(self.L).tobytes())

    @cached_property
    def signal_scale(self) -> float:
        """Standard deviation of the entries of the low-rank part, over all features.

        The covariance of the low-rank parts of the samples is L C L^T, where C is the covariance of the
        coefficients. Before anything is learnt, the scale of the residual takes its place.
        """
        seen = self.statistics
        if not seen.A.any():
            return self.scales.residual_scale
        mean = seen.r / seen.weight
        return _entry_scale(self.L, seen.A / seen.weight - np.outer(mean, mean))

    @cached_property
    def factor_model(self) -> FactorModel | None:
        """The factor model by which samples are read; None in the units of the data.

        Its location is refined. Learning goes without that: a location that moves passes for a drift.
        """
        model = self.learning_model
        if model is None or self.model is not None:
            return model
        location = self.statistics.refined_location(self.L.astype(np.float64))
        if location is None:
            return model
        return replace(model, basis=np.column_stack([model.loadings, location]))

    @cached_property
    def learning_model(self) -> FactorModel | None:
        """The factor model that the sums amount to, unless one was fitted; None in the units of the data.

        The coefficients have the covariance of those learnt from.
        """
        if self.model is not None:
            return self.model
        if self.gauge is None or self.statistics.residuals is None or not self.statistics.weight:
            return None
        return self.model_of_sums

    @property
    def model_of_sums(self) -> FactorModel:
        """The factor model that the sums amount to; they must have been taken in the units of a gauge."""
        assert self.gauge is not None
        t, weight = self.statistics.t, self.statistics.weight
        location = np.zeros(len(self.L)) if t is None else self.statistics.mean_share * t / weight
        noise, share, variance = self.noise_of_sums
        return FactorModel(
            self.gauge,
            np.column_stack([self.L.astype(np.float64, copy=False) @ self.coefficient_root, location]),
            noise,
            gross_share=share,
            gross_variance=variance,
            center=t is not None,
        )

    @cached_property
    def noise_of_sums(self) -> tuple[Array, float, float]:
        """Noise variances, and the share and the variance of gross errors, that the sums amount to."""
        assert self.statistics.residuals is not None
        squares, counts, gross, gross_counts = self.statistics.residuals.T
        n_gross = float(gross_counts.sum())
        noise = shrink_variances(squares, counts)
        share = min(max(n_gross / max(n_gross + float(counts.sum()), 1e-300), LEAST_SHARE), MOST_SHARE)
        variance = float(gross.sum()) / n_gross if n_gross else 0.0
        return noise, share, max(variance, GROSS_ERROR**2 * quantile(noise, 0.5), 1.0)

    @cached_property
    def likeness(self) -> float:
        """How much the residual is like dense noise, from 0 to 1; 0 in the units of the data.

        The noise variances, which are means over all samples, then agree with its recent robust scale. If
        many residuals are small and some are large, the basis is not right yet, or the data are exact.
        """
        if self.gauge is None or self.statistics.residuals is None or not self.statistics.weight:
            return 0.0
        least, most = LIKE_NOISE
        ratio = self.scales.residual_scale**2 / quantile(self.noise_of_sums[0], 0.5)
        return min(max((ratio - least) / (most - least), 0.0), 1.0)

    @property
    def purity(self) -> float:
        """How certain it is that the residual is dense noise and little else, from 0 to 1.

        There are few gross errors then, and the residual does not fall.
        """
        if not self.likeness:
            return 0.0
        share = self.noise_of_sums[1]
        return max(1.0 - share / NOT_ALONE, 0.0) * self.likeness * (1.0 - self.scales.falling())

    @property
    def clean_limits(self) -> tuple[Array, Array] | None:
        """The squared deviations from which an entry is a gross error, if noise variances are learnt."""
        if self.model is not None:
            return self.model.clean_limits
        if self.gauge is None or self.statistics.residuals is None or not self.statistics.weight:
            return None
        return clean_limits(*self.noise_of_sums)

    @cached_property
    def coefficient_root(self) -> Array:
        """A square root of the covariance of the coefficients learnt from."""
        seen = self.statistics.centred()
        eigenvalues, V = np.linalg.eigh(seen.A / seen.weight)
        root: Array = V * np.sqrt(np.maximum(eigenvalues, 0.0))
        return root

    @property
    def coefficient_scale(self) -> float:
        """Scale of a coefficient of a sample in an orthonormal basis."""
        p, d = self.L.shape
        return self.scales.entry_scale * math.sqrt(p / d)

    @property
    def is_nearly_zero(self) -> bool:
        """Whether the low-rank part is negligible beside the data after enough samples to find one."""
        seen = self.statistics
        if self.time < 50 or not seen.weight:
            return False
        return _entry_scale(self.L, seen.A / seen.weight) < 0.1 * self.scales.entry_scale


def _entry_scale(L: Array, C: Array) -> float:
    """Return the root mean square of the entries of samples L r, where C is the second moment of r."""
    with np.errstate(over="ignore", invalid="ignore"):  # infinite squares are computed anew
        gram = L.T @ L
    if not np.isfinite(gram).all():
        largest = float(np.max(np.abs(L)))
        if not math.isfinite(largest):
            return math.nan
        return largest * _entry_scale(L.astype(np.float64) / largest, C)
    return math.sqrt(max(float(np.vdot(gram, C)), 0.0) / len(L))


@dataclass(frozen=True)
class Decay:
    """Factors by which the weights of earlier samples are multiplied when later ones are added."""

    statistics: float = 1.0
    past: float = 1.0
    recent: float = 1.0
    biases: float = 1.0
    residuals: float = 1.0  #: of the sums that noise variances are learnt from

    @classmethod
    def after(
        cls, time: int, now: int, forgetting: float, noise_forgetting: float, half_life: float | None
    ) -> Decay:
        """Return the factors for everything before the samples from one time to another."""
        powers = (forgetting, PAST_POWER, RECENT_POWER, noise_forgetting)
        kept = (float(remaining_weight(time, now, power, half_life)) for power in powers)
        statistics, past, recent, residuals = kept
        return cls(statistics, past, recent, residuals=residuals)

    def __mul__(self, other: Decay) -> Decay:
        return Decay(*(getattr(self, f.name) * getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, eq=False)
class Contribution:
    """What a batch adds to the state, measured in a basis that does not change meanwhile.

    ``a + b`` is the contribution of batch a followed by batch b. It is associative, but the order counts,
    because b decays the weights of a.
    """

    n_samples: int  #: samples in the batch
    n_full: int  #: samples with at least one observed entry that is not zero
    statistics: SufficientStatistics
    scales: Scales
    decay: Decay  #: factors for everything before the batch
    rank: int  #: numerical rank of the basis
    loss: float = 0.0  #: sum of the losses of the samples, Eq. (2.9)
    biases: BiasModel | None = None
    free_norm: float = 0.0  #: n times the log of the 90 % quantile of the norms of unconstrained coefficients
    free_norm_weight: float = 0.0  #: the number n of samples in ``free_norm``
    multiplier_sums: Array | float = 0.0  #: sums of the multipliers of balls of several radii
    levels: Array | float = 0.0  #: number, sum and sum of squares of the log residuals of samples
    excess: float = 0.0  #: how far the last of them have exceeded what is usual
    change: Kind | None = None  #: the kind of a sudden change that follows these samples, if there is one
    entry_sums: EntrySums | None = None

    @classmethod
    def of_all(cls, state: State) -> Contribution:
        """Return everything that a state has learnt as one contribution that replaces what was before."""
        loss = state.statistics.loss
        return cls(
            state.n_samples,
            state.time,
            state.statistics,
            state.scales,
            Decay(0.0, 0.0, 0.0, residuals=0.0),
            rank=state.L.shape[1],
            loss=loss,
        )

    def __sizeof__(self) -> int:
        """Return the size in bytes, which Dask asks for before it moves a contribution."""
        seen = self.statistics
        grams = seen.grams if self.entry_sums is None else self.entry_sums.grams
        return sum(a.nbytes for a in (seen.A, seen.B, grams) if a is not None)

    def __add__(self, later: Contribution) -> Contribution:
        decay = later.decay
        return Contribution(
            self.n_samples + later.n_samples,
            self.n_full + later.n_full,
            self.statistics.scaled(decay.statistics, decay.residuals) + later.statistics,
            self.scales.scaled(decay.past, decay.recent) + later.scales,
            self.decay * decay,
            max(self.rank, later.rank),
            self.loss + later.loss,
            _add_biases(self.biases, later.biases, decay.biases),
            self.free_norm + later.free_norm,
            self.free_norm_weight + later.free_norm_weight,
            decay.statistics * self.multiplier_sums + later.multiplier_sums,
            self.levels + later.levels,
            later.excess,
            self.change or later.change,
            _add_sums(self.entry_sums, later.entry_sums, decay.statistics),
        )


def _add_biases(before: BiasModel | None, later: BiasModel | None, decay: float) -> BiasModel | None:
    if before is None and later is None:
        return None
    if before is None or later is None:
        raise ValueError("a contribution with biases and one without biases cannot be added")
    return before.scaled(decay) + later


def _add_sums(before: EntrySums | None, later: EntrySums | None, decay: float) -> EntrySums | None:
    """Return sums over entries with earlier ones decayed; None stands for zeros."""
    if before is None or later is None:
        return later if before is None else before.scaled(decay)
    return later.plus(before, decay)


def accumulate(state: State, added: Contribution) -> State:
    """Return the state with a contribution added to its sums; the basis stays as it is."""
    counted = replace(state, n_samples=state.n_samples + added.n_samples, n_steps=state.n_steps + 1)
    if not added.n_full:
        return counted
    decay = added.decay
    return replace(
        counted,
        statistics=state.statistics.scaled(decay.statistics, decay.residuals) + added.statistics,
        scales=state.scales.scaled(decay.past, decay.recent) + added.scales,
        time=state.time + added.n_full,
        biases=_add_biases(state.biases, added.biases, decay.biases),
        model=None,
        entry_sums=_add_sums(state.entry_sums, added.entry_sums, decay.statistics),
    )


def remaining_weight(then: ArrayLike, now: int, forgetting: float, half_life: float | None) -> Array:
    """Return the share that remains at time ``now`` of the weight that samples had at time ``then``.

    A sample seen at time t has the weight ``t ** forgetting``, and loses half of it every ``half_life``
    samples.
    """
    share = (np.asarray(then) / now) ** forgetting
    if half_life is None:
        return share
    return share * 0.5 ** ((now - np.asarray(then)) / max(half_life, SHORTEST_HALF_LIFE))


def surrogate(state: State, norm: FactorNorm, L: Array | None = None) -> float:
    """Return the surrogate g_t(L) of Eq. (3.1), at the state's own basis unless another is given."""
    if state.entry_model is not None and state.entry_sums is not None:
        return state.entry_model.mean_cost(state.entry_sums)
    L64 = (state.L if L is None else L).astype(np.float64, copy=False)
    seen = state.statistics
    if not seen.weight:
        return 0.0
    seen = seen.centred()
    fit = seen.quadratic(L64) - float(np.vdot(L64, seen.B))
    return (fit + seen.loss + norm.basis_value(L64)) / seen.weight
