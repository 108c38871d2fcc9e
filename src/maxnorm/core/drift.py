"""Changes of a stream, which are noticed from the residuals of its samples and of its batches.

A sudden change shows in single samples: their residuals are larger than those of the samples before. If most
of a sample is residual, the process is a *new* one, what was learnt is of no use, and learning starts anew
with the first of these samples. Otherwise the basis has made a *turn*; it is kept, and the samples before
have next to no weight.

A *drift* shows in the basis. The increment of a batch is the change of the basis that its residuals suggest.
If the stream is still, increments are noise, and those of two batches are uncorrelated. If the stream drifts,
the basis lags behind, and increments point in the same direction. Their product is then the squared lag,
which is compared with the variance of the basis: a basis that was learnt from n samples has a variance of
order 1 / n and a lag of order n. Over all components, the sum of the variance and the squared lag is least
where the variance is twice the squared lag. A drift usually concerns few of them, so that a smaller lag is
aimed at. If it is larger, earlier samples lose weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from maxnorm.core.types import Array

Kind = Literal["new", "turn", "drift"]


@dataclass(frozen=True)
class DriftRule:
    """When a change is noticed."""

    least_samples: int = 200  #: before which nothing is noticed,
    samples_per_component: int = 10  #: and so many per component
    smallest_level: float = 0.03  #: residuals below this multiple of the signal count as equal
    smallest_spread: float = 0.1  #: standard deviation of the log residuals of samples, at least
    memory: float = 1000.0  #: samples over which the usual log residual is averaged
    allowance: float = 2.0  #: standard deviations by which a residual may be large without being counted
    largest: float = 5.0  #: standard deviations that count for one sample, so that some may be outliers
    alarm: float = 25.0  #: sum of what exceeds the allowance from which there is a sudden change
    unexplained: float = 0.3  #: residual from which the process is a new one, in units of the samples
    kept: float = 0.1  #: weight of all samples before a turn, in samples per component
    averaging: float = 0.6  #: factor of the weights of earlier batches in the averages over increments
    #: standard errors that are subtracted from the squared lag, before and after a drift was noticed
    errors: tuple[float, float] = (4.0, 0.0)
    spread_averaging: float = 0.9  #: factor of the weights of earlier batches in the variance of alignments
    least_spread_weight: float = 2.0  #: weight of the changes of the alignment before this variance is used
    least_batches: float = 2.0  #: number of increments before lags are judged
    dependence: float = 4.0  #: factor of the variance of the squared lag, as entries depend on each other
    young: int = 1000  #: samples, before which the basis moves because it is being found
    improving: float = 0.1  #: how fast the residual may fall, from 0 to 1, if the basis is to lag behind
    balance: float = 0.02  #: squared lag, in units of the variance, above which earlier samples lose weight
    negligible: float = 2e-5  #: squared lag, in units of the signal
    batches: int = 5  #: a batch is at most 1 / 5 of the samples that count


DRIFT = DriftRule()


@dataclass(frozen=True)
class Change:
    """A change of a stream.

    Attributes
    ----------
    sample : int
        Number of samples before the change was noticed, or before the first sample of a new process.
    kind : {"new", "turn", "drift"}
        Whether learning has started anew, the basis was kept but the samples before are forgotten, or earlier
        samples lose weight.
    angle : float or None
        Largest angle, in radians, between the basis before the change and the basis until the next one; None
        if it is not known yet.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm import MaxNormDecomposition
    >>> rng = np.random.default_rng(0)
    >>> parts = [rng.standard_normal((3000, 3)) @ rng.standard_normal((3, 40)) for _ in range(2)]
    >>> stream = np.concatenate(parts) + 0.01 * rng.standard_normal((6000, 40))
    >>> model = MaxNormDecomposition(3, random_state=0).partial_fit(stream)
    >>> [(change.sample, change.kind) for change in model.changes_]
    [(3000, 'new')]
    """

    sample: int
    kind: Kind
    angle: float | None = None


@dataclass(frozen=True, eq=False)
class Drift:
    """What is known of changes, carried from batch to batch."""

    level: float = 0.0  #: sum of the log residuals of samples
    squares: float = 0.0  #: sum of their squares
    weight: float = 0.0  #: number of these samples
    excess: float = 0.0  #: how far the last residuals have exceeded what is usual
    increment: Array | None = None  #: p x (d + 1), what the last batch said of the basis and the location
    aligned: float = 0.0  #: sum of the products of successive increments
    power: float = 0.0  #: sum of the squares of increments
    batches: float = 0.0  #: number of these batches
    alignment: float = 0.0  #: product of the last two increments, in units of the mean square
    spread: float = 0.0  #: sum of the squares of the changes of the alignment
    spread_weight: float = 0.0  #: weight of these changes
    is_drifting: bool = False  #: whether the last change goes on
    before: Array | None = None  #: p x d, basis before the last change, in the units of the data
    changes: tuple[Change, ...] = ()  #: oldest first; the angle of the last one is not known yet

    def change_point(self, levels: Array) -> tuple[int | None, float]:
        """Return the first sample after a sudden change, if there is one, and the excess of the last sample.

        This is a cumulative sum test (Page, 1954) of the log residuals of the samples.
        """
        if self.weight < DRIFT.least_samples or not len(levels):
            return None, 0.0
        mean = self.level / self.weight
        spread = max(math.sqrt(max(self.squares / self.weight - mean**2, 0.0)), DRIFT.smallest_spread)
        standardised = np.minimum((levels - mean) / spread, DRIFT.largest)
        sums = self.excess + np.cumsum(standardised - DRIFT.allowance)
        lowest = np.minimum(np.minimum.accumulate(sums), 0.0)
        excess = sums - lowest
        alarm = int(np.argmax(excess > DRIFT.alarm))
        if excess[alarm] <= DRIFT.alarm:
            return None, float(excess[-1])
        before = np.flatnonzero(excess[: alarm + 1] <= 0.0)
        return int(before[-1]) + 1 if len(before) else 0, float(excess[-1])

    def with_levels(self, levels: Array, excess: float) -> Drift:
        """Return the same with the number, sum and sum of squares of the log residuals of more samples."""
        n, total, squares = levels
        kept = max(1.0 - n / DRIFT.memory, 0.0)
        return replace(
            self,
            level=kept * self.level + float(total),
            squares=kept * self.squares + float(squares),
            weight=kept * self.weight + float(n),
            excess=excess,
        )

    def with_alignment(self, aligned: float) -> Drift:
        """Return the same with the product of the last two increments."""
        alignment = aligned * self.batches / self.power if self.power > 0.0 else 0.0
        known = replace(self, alignment=alignment)
        if not self.alignment:  # so far there was none
            return known
        kept, change = DRIFT.spread_averaging, alignment - self.alignment
        spread, weight = kept * self.spread + change**2, kept * self.spread_weight + 1.0
        return replace(known, spread=spread, spread_weight=weight)

    @property
    def alignment_variance(self) -> float:
        """The variance of alignments, from their changes: a steady drift does not count.

        If successive samples are alike, as in the course of a day, so are their increments for a while. They
        point in the same direction by chance more often than those of independent samples.
        """
        if self.spread_weight < DRIFT.least_spread_weight:
            return 0.0
        return 0.5 * self.spread / self.spread_weight


class Watched(NamedTuple):
    """What the residuals of the samples of a batch show."""

    levels: Array | float = 0.0  #: number, sum and sum of squares of their log residuals
    excess: float = 0.0  #: how far the last ones have exceeded what is usual
    change: int | None = None  #: the first sample after a sudden change, if there is one
    kind: Kind = "new"  #: what kind of change it is


@dataclass(frozen=True, eq=False)
class Watch:
    """Compares the residuals of samples with those before; does nothing if ``drift`` is None."""

    drift: Drift | None = None
    signal: float = 0.0  #: scale of the low-rank part

    def __call__(self, bulk: Array) -> Watched:
        """Return what the robust scales of the residuals of samples show."""
        if self.drift is None:
            return Watched()
        least = max(DRIFT.smallest_level * self.signal, 1e-300)
        levels = np.log(np.maximum(bulk.astype(np.float64), least))
        change, excess = self.drift.change_point(levels)
        sums = np.array([len(levels), levels.sum(), levels @ levels])
        if change is None:
            return Watched(sums, excess)
        usual = math.exp(self.drift.level / self.drift.weight)
        is_new = float(np.median(bulk[change:])) > DRIFT.unexplained * math.hypot(usual, self.signal)
        return Watched(sums, excess, change, "new" if is_new else "turn")


def remaining_share(
    drift: Drift,
    increment: Array,
    metric: Array,
    added: float,
    weight: float,
    signal: float,
    *,
    is_improving: bool,
) -> tuple[float, Drift]:
    """Return the share of their weight that earlier samples keep, and what is known after a batch.

    Parameters
    ----------
    drift : Drift
        What is known before the batch.
    increment : array of shape (p, d + 1)
        What the batch says of the change of the basis and the location.
    metric : array of shape (d + 1, d + 1)
        Matrix M by which two increments X and Y are multiplied, trace(X M Y^T).
    added, weight : float
        Weights of the samples of the batch, and of those before.
    signal : float
        Square of the low-rank part of a sample, by which negligible lags are told.
    is_improving : bool
        Whether the residual is falling, so that increments point in the same direction in any case.
    """
    p, k = increment.shape
    scaled = increment @ metric
    power = float(np.vdot(scaled, increment))
    negligible = DRIFT.negligible * signal
    aligned = 0.0 if drift.increment is None else float(np.vdot(scaled, drift.increment))
    kept = DRIFT.averaging if drift.increment is not None else 0.0
    batches = kept * drift.batches + 1.0
    sum_aligned, sum_power = kept * drift.aligned + aligned, kept * drift.power + power
    noise = max((sum_power - sum_aligned) / batches, 0.0)
    known = replace(drift, increment=increment, aligned=sum_aligned, power=sum_power, batches=batches)
    known = known.with_alignment(aligned)
    errors = DRIFT.errors[1 if drift.is_drifting else 0]
    independent, found = DRIFT.dependence / (p * k), known.alignment_variance
    error = math.sqrt(max(noise**2 * independent, (sum_power / batches) ** 2 * found) / batches)
    lag = 0.0 if is_improving else sum_aligned / batches - errors * error - negligible
    if drift.batches < DRIFT.least_batches:
        return 1.0, known
    variance = noise * added / weight
    if lag <= DRIFT.balance * variance:
        return 1.0, known
    # The weight after the batch, in units of that before.
    target = (DRIFT.balance * variance / lag) ** (1.0 / 3.0)
    least = max(2.0 * (k - 1) - added, 0.0) / weight  # two samples per component
    return min(max(target - added / weight, least), 1.0), known
