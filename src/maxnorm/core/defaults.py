"""What ``"auto"`` means: pure functions of what has been seen of the stream, in any units.

The paper's experiments use lambda1 = lambda2 = 1 / sqrt(p) on samples whose coefficients in an orthonormal
basis have a scale of one. The rules express that choice in multiples of robust scales of the data, so that
``c * X`` gives ``c`` times the low-rank part of ``X``. The rules for the weights of noise and norm stand with
the noise models and norms that they set, in ``noise.py`` and ``norms.py``. ``docs/defaults.md`` has the
reasons and ``benchmarks/defaults.py`` the measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from maxnorm.core.linalg import robust_scale
from maxnorm.core.noise import AdaptiveNoise, Noise, RowNoise
from maxnorm.core.scales import FAST_FALL, SMALLEST_RESIDUAL, Scales
from maxnorm.core.state import State
from maxnorm.core.types import Array, Mask


@dataclass(frozen=True)
class SweepRule:
    """Sweeps that the encoder makes for a sample.

    In a poor basis nearly every entry looks like noise, and an exact solution would fit the noise; the number
    of sweeps while learning therefore grows with the share of clean entries.
    """

    applying: int = 1000  #: to apply a model: enough to reach the tolerance
    learning: tuple[int, int] = (3, 30)  #: to learn, in a poor and in a good basis
    learning_tol: float = 0.03  #: to learn, a step this small against the residual is enough


@dataclass(frozen=True)
class ForgettingRule:
    """Powers of t by which samples are weighted.

    What was learnt in a poor basis is out of date, whereas in a good basis an average over all samples is
    best. Samples are therefore forgotten fast while the residual is falling and slowly afterwards.
    """

    steady: float = 0.5
    falling: float = 7.0
    gain: float = 1.0 / FAST_FALL  #: how strongly a fall of the residual counts
    young: int = 1000  #: samples, before which the residual need not fall if many entries are gross errors
    many_gross: float = 0.3  #: share of gross errors that is many; with fewer, less is forgotten
    young_components: int = 5  #: samples per component that count at least in that case


@dataclass(frozen=True)
class BatchRule:
    """Number of samples between two updates of the basis.

    An update moves the basis by about the share of new samples in all samples, so that batches may grow with
    the stream: to a tenth of the samples seen if they are well explained, less while there is much to learn.
    """

    explained: int = 10  #: a batch is 1 / 10 of the samples seen once the residual is small,
    unexplained: int = 20  #: 1 / 20 while it is more than a tenth of the signal,
    falling: int = 60  #: and 1 / 60 while it is falling as well
    half_life: int = 20  #: and at most 1 / 20 of the half-life
    entries: int = 2**18  #: and at most as many samples as have this many entries (a cache), or 25
    first: int = 25  #: least first batch, so that an object that rests in a few frames is not learnt
    least: int = 10  #: least batch


@dataclass(frozen=True)
class RoundRule:
    """Number of samples that are measured in one basis on a cluster, where many can be at a time.

    A round costs a round trip and leaves workers idle at its end, so that it is larger than a batch;
    ``docs/scaling.md`` shows what that costs in accuracy.
    """

    share: float = 0.5  #: of the samples seen
    half_life: int = 10  #: and at most 1 / 10 of the half-life


@dataclass(frozen=True)
class MedianRule:
    """When the median of the first samples is taken as a component of the first basis."""

    samples: int = 10  #: least number of samples
    ratio: float = 3.0  #: least norm of the median, relative to that of the median absolute deviations


@dataclass(frozen=True)
class GaugeRule:
    """Number of first samples from which the units of the model are chosen."""

    samples: int = 300
    entries: int = 2**22  #: and at most as many samples as have this many entries, or 25


SWEEPS = SweepRule()
FORGETTING = ForgettingRule()
L1_FORGETTING = ForgettingRule(steady=1.0, falling=15.0, gain=5.0 / FAST_FALL)  # learning is slower under l1
BATCHES = BatchRule()
ROUNDS = RoundRule()
MEDIAN = MedianRule()
GAUGE = GaugeRule()


def default_components(n_features: int) -> int:
    """Return the default number of components: ten, or half the features if there are fewer than twenty."""
    return max(1, min(10, n_features // 2))


def forgetting(scales: Scales, noise: Noise) -> float:
    """Return the power of t by which samples are weighted."""
    is_l1 = not isinstance(noise, RowNoise | AdaptiveNoise)
    rule = L1_FORGETTING if is_l1 else FORGETTING
    return rule.steady + (rule.falling - rule.steady) * scales.falling(rule.gain)


def young_forgetting(state: State) -> float:
    """Return the least power of t by which samples are weighted while a stream is young.

    If many entries are gross errors that are hardly larger than the signal, a basis that was found by rounds
    over the first samples goes on improving, but the residual does not fall. If the residual is dense noise,
    an average over all samples is best.
    """
    rule = FORGETTING
    if not 0 < state.time < rule.young or state.statistics.residuals is None:
        return 0.0
    # With the power rho, about a share 1 / (rho + 1) of the samples counts.
    most = state.time / (rule.young_components * state.L.shape[1]) - 1.0
    many_gross = min(state.noise_of_sums[1] / rule.many_gross, 1.0)
    return many_gross * (1.0 - state.likeness) * max(min(most, rule.falling), 0.0)


def learning_sweeps(scales: Scales, noise: Noise) -> int:
    """Return the number of sweeps to spend on a sample while learning."""
    few, many = SWEEPS.learning
    if isinstance(noise, RowNoise):
        return many
    return int(few + (many - few) * scales.clean_share)


def batch_size(state: State, half_life: float | None) -> int:
    """Return the number of samples until the next update of the basis."""
    p, d = state.L.shape
    signal = state.signal_scale
    left = min(1.0, 10.0 * state.scales.residual_scale / signal) if signal else 1.0
    rule, falling = BATCHES, state.scales.falling()
    more = rule.unexplained - rule.explained + (rule.falling - rule.unexplained) * falling
    parts = rule.explained + left**2 * more
    grown = min(state.time / parts, (half_life or math.inf) / rule.half_life, max(rule.entries / p, 25))
    return max(least_batch(d), 0 if state.time else rule.first, int(grown))


def least_batch(n_components: int) -> int:
    """Return the least batch: two fifths of the components, and at least ten samples."""
    return max(BATCHES.least, 2 * n_components // 5)


def gauge_rows(n_features: int) -> int:
    """Return the number of first samples from which the units of the model are chosen."""
    return min(GAUGE.samples, max(GAUGE.entries // n_features, BATCHES.first))


def round_size(n_samples: int, half_life: float | None) -> float:
    """Return the number of samples that may be measured in one basis on a cluster."""
    return min(ROUNDS.share * n_samples, (half_life or math.inf) / ROUNDS.half_life)


def first_scales(Z: Array, observed: Mask | None, median: Array | None) -> Scales:
    """Return the scales of the first batch, before any basis has been fitted to it.

    With a large median, the deviations from it stand for the residual: gross errors that are far smaller
    than the median would otherwise be taken for signal.
    """
    n, scale = float(np.any(Z, axis=1).sum()), robust_scale(Z)
    if not scale:
        return Scales()
    scales = Scales(entry=n * math.log(scale), weight=n)
    if median is None:
        return scales
    deviations = Z - median if observed is None else np.where(observed, Z - median, 0.0)
    residual = n * math.log(max(robust_scale(deviations), SMALLEST_RESIDUAL * scale))
    return replace(scales, residual=residual, recent_residual=residual, recent_weight=n)


def large_median(Z: Array, observed: Mask | None) -> Array | None:
    """Return the median of the samples if it is large beside the deviations from it, and None otherwise.

    Data with a large mean consist mostly of it. A first fit is not robust, whereas the median is.
    """
    if len(Z) < MEDIAN.samples:
        return None
    median = _median(Z, observed)
    deviation = _median(np.abs(Z - median), observed)
    return median if np.linalg.norm(median) > MEDIAN.ratio * np.linalg.norm(deviation) else None


def _median(Z: Array, observed: Mask | None) -> Array:
    """Return the median of the observed entries of each feature, zero where there are none."""
    if observed is None:
        return np.asarray(np.median(Z, axis=0))
    ordered, seen = np.sort(np.where(observed, Z, np.inf), axis=0), observed.sum(axis=0)
    middle = np.maximum(np.stack([seen - 1, seen]) // 2, 0)
    return np.where(seen > 0, np.take_along_axis(ordered, middle, axis=0).mean(axis=0), 0.0)
