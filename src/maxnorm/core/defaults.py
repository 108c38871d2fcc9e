"""What ``"auto"`` means: settings that follow from robust scales of the stream, in any units.

The paper's experiments use lambda1 = lambda2 = 1 / sqrt(p) on samples whose coefficients in an
orthonormal basis have unit size. :func:`unit` measures that size, and the rules restate the paper's
choice in multiples of it, so that ``c * X`` gives ``c`` times the low-rank part of ``X``.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from maxnorm.core.linalg import robust_scale, thin_svd
from maxnorm.core.noise import CappedL1, Noise, is_adaptive, is_row_noise
from maxnorm.core.state import State
from maxnorm.core.statistics import Contribution, Scales
from maxnorm.core.types import Array, Mask

MAX_SWEEPS = 1000  # for transform and friends, which solve to the tolerance
LOOSE = 0.01  # a step this small against what is left unexplained makes no difference to the basis
FIT_SWEEPS = (3, 30)  # while learning: few as long as the basis is poor, more as it gets better
FORGETTING = (0.5, 7.0)  # while nothing improves any more, and while the residual is falling
L1_FORGETTING = (1.0, 15.0)  # the same for noises that limit every pull, under which all goes slower
BATCH_PARTS = (10, 20, 60)  # a batch is this part of the samples seen: all explained; not so; but falling
HALF_LIFE_PARTS, BATCH_ENTRIES = (
    20,
    2**17,
)  # and no more than this fraction of the half-life, and this many entries
ROUND_PART, ROUNDS_IN_HALF_LIFE = 0.5, 10  # a round is at most this part of the samples seen
LARGEST = 2.5  # a sample whose residual has a bulk of this many ordinary entries is not believed
LOST, FRESH = 1e-5, 1e-2  # sizes of a lost direction and of its new start, relative to the strongest
FIRST_BATCH = (
    25  # samples, if they have a mean: what stands still in fewer frames of a film would be part of it
)
ENOUGH_FOR_A_MEDIAN, STANDS_OUT = 10, 3.0  # samples, and size of the mean against the median deviation
FALL_GAIN = 20.0  # a fall of the residual by 1 / FALL_GAIN of its average is a fast one


def entry_scale(scales: Scales) -> float:
    """Size of an entry of the data."""
    return math.exp(scales.entry / scales.weight) if scales.weight else 0.0


def signal_scale(state: State) -> float:
    """Size of the variation of the low-rank part: its standard deviation, over all features.

    Known from the state: the covariance of the samples' low-rank parts is L C L^T, with C that of the
    coefficients. What there is to explain stands in for it as long as nothing is learnt.
    """
    seen = state.statistics
    if not seen.A.any():
        return residual_scale(state.scales)
    mean = seen.r / seen.weight
    return _entry_size(state.L, seen.A / seen.weight - np.outer(mean, mean))


def _entry_size(L: Array, C: Array) -> float:
    """Root mean square of the entries of samples ``L r``, where C is the second moment of r."""
    return math.sqrt(max(float(np.vdot(L.T @ L, C)), 0.0) / len(L))


def finds_nothing(state: State) -> bool:
    """Whether the low-rank part is next to nothing beside the data, after samples enough to find some."""
    seen = state.statistics
    if state.time < 50 or not seen.weight:
        return False
    return _entry_size(state.L, seen.A / seen.weight) < 0.1 * entry_scale(state.scales)


def residual_scale(scales: Scales) -> float:
    """Size of what the basis has lately left of an entry; the entry itself before anything is learnt."""
    if not scales.recent_weight:
        return entry_scale(scales)
    return math.exp(scales.recent_residual / scales.recent_weight)


def unit(state: State) -> float:
    """Size of a sample's coefficient in an orthonormal basis."""
    p, d = state.L.shape
    return entry_scale(state.scales) * math.sqrt(p / d)


def l1_lambda2(state: State) -> float:
    """``1 / sqrt(p)`` in units of the data, or the residual's size once that is smaller."""
    entry = entry_scale(state.scales)
    return max(min(entry / math.sqrt(state.L.shape[1]), residual_scale(state.scales)), 0.01 * entry)


def capped_l1(state: State) -> CappedL1:
    """Thresholds of a tenth and three times the size of the signal's variation."""
    size = signal_scale(state)
    return CappedL1(
        0.1 * size,
        3.0 * size,
        components=state.L.shape[1],
        leniency=leniency(state.scales, max(10.0, entry_scale(state.scales) / size if size else 0.0)),
        largest=LARGEST * entry_scale(state.scales),
    )


def leniency(scales: Scales, most: float) -> Array | float:
    """Thresholds of a feature that is nearly always rejected, while others are not, are raised tenfold.

    The longer that goes on, the more they are raised, up to ``most``.

    A basis that is wrong in a feature, for instance because something stood still in the first frames of
    a film, makes every later value there look like a gross error, which would keep it wrong for good.
    """
    if not scales.recent_weight:
        return 1.0
    seen = np.maximum(np.asarray(scales.seen), 1e-300)
    share = np.asarray(scales.noisy) / seen
    usual = float(np.median(share))
    error = np.sqrt(0.25 / seen)
    excess = (share - usual) / (1.0 - usual) if usual < 1.0 else 0.0 * share
    lenient = np.clip((excess - 0.6 - 2.0 * error) / 0.2, 0.0, 1.0)
    return 1.0 + (np.clip(0.2 * seen, 10.0, most) - 1.0) * lenient if lenient.any() else 1.0


def l21_lambda2(state: State) -> float:
    """Half as much again as the norm of an ordinary sample's residual."""
    return 1.5 * residual_scale(state.scales) * math.sqrt(len(state.L))


def max_norm_lambda1(state: State) -> float:
    """``1 / sqrt(p)``, which has no unit; less if the data have a large mean.

    The norm shortens the longest rows of L, those of the features with the largest mean, and the signal must
    not drown in that.
    """
    entry = entry_scale(state.scales)
    return min(1.0, signal_scale(state) / entry if entry else 1.0) / math.sqrt(len(state.L))


def nuclear_lambda1(state: State) -> float:
    """A tenth of ``1 / sqrt(p)`` in units of the data: more than that slows the start down.

    Of the variation of the data if they have a large mean, which would otherwise hide the signal.
    """
    return 0.1 * min(entry_scale(state.scales), signal_scale(state)) / math.sqrt(state.L.shape[1])


def falling(scales: Scales, gain: float = FALL_GAIN) -> float:
    """Whether the residual is falling: 1 while it falls fast, 0 when it no longer does.

    The fall is the gap between the residual's average over the past quarter and the recent tenth.
    """
    if not scales.recent_weight:
        return 1.0
    fall = scales.residual / scales.weight - scales.recent_residual / scales.recent_weight
    return min(1.0, gain * max(0.0, fall))


def forgetting(scales: Scales, noise: Noise) -> float:
    """Forget fast while the residual is falling, and hardly when it no longer does.

    What was learnt in a poor basis is stale; an average over all samples is the best there is in a good
    one.
    """
    if is_row_noise(noise) or is_adaptive(noise):
        (low, high), change = FORGETTING, falling(scales)
    else:
        (low, high), change = L1_FORGETTING, falling(scales, 5.0 * FALL_GAIN)
    return low + (high - low) * change


def clean_share(scales: Scales) -> float:
    """Share of the entries in which no noise has lately been found."""
    return 1.0 - scales.recent_noisy / scales.recent_weight if scales.recent_weight else 0.0


def fit_sweeps(scales: Scales, noise: Noise) -> int:
    """Sweeps worth spending on a batch while learning.

    In a poor basis nearly every entry looks like noise, and an exact solution fits the noise.
    """
    low, high = FIT_SWEEPS
    if is_row_noise(noise):
        return high
    return int(low + (high - low) * clean_share(scales))


def batch_size(state: State, half_life: float | None) -> int:
    """Samples until the next update of the basis: few at first, more as time goes on.

    An update must be worth its cost. It moves the basis by about the share of new samples in all, so
    batches may grow with the stream, slowly while the residual is more than a tenth of the signal and more
    so if it is falling, within a part of the half-life and what a cache holds.
    """
    p, d = state.L.shape
    signal = signal_scale(state)
    left = min(1.0, 10.0 * residual_scale(state.scales) / signal) if signal else 1.0
    done, stuck, improving = BATCH_PARTS
    parts = done + left**2 * (stuck - done + (improving - stuck) * falling(state.scales))
    grown = min(state.time / parts, (half_life or math.inf) / HALF_LIFE_PARTS, max(BATCH_ENTRIES / p, 25))
    return max(least_batch(d), 0 if state.time else FIRST_BATCH, int(grown))


def round_size(n_samples: int, half_life: float | None) -> float:
    """Samples that may be looked at in one basis where many can be at a time, on a cluster.

    A round costs a round trip and leaves workers idle at its end, so it is larger than a batch that is
    learnt from alone; the rounds of docs/scaling.md show what that loses.
    """
    return min(ROUND_PART * n_samples, (half_life or math.inf) / ROUNDS_IN_HALF_LIFE)


def least_batch(d: int) -> int:
    """Two fifths of the components, and no fewer than ten samples."""
    return max(10, 2 * d // 5)


def default_components(n_features: int) -> int:
    """Ten, or half the features if there are fewer than twenty."""
    return max(1, min(10, n_features // 2))


def first_look(Z: Array, observed: Mask | None, middle: Array | None) -> Scales:
    """Scales of a batch before any basis has been tried on it, given its median if that stands out.

    In that case what deviates from the median is all that a first basis can be expected to leave: gross
    errors far smaller than the mean would otherwise pass for signal.
    """
    n, size = float(np.any(Z, axis=1).sum()), robust_scale(Z)
    if not size:
        return Scales()
    scales = Scales(entry=n * math.log(size), weight=n)
    if middle is None:
        return scales
    deviations = Z - middle if observed is None else np.where(observed, Z - middle, 0.0)
    left = n * math.log(max(robust_scale(deviations), 1e-12 * size))
    return replace(scales, residual=left, recent_residual=left, recent_weight=n)


def standing_median(Z: Array, observed: Mask | None) -> Array | None:
    """Return the median of samples if it is large beside their deviations from it.

    If data have a large mean, that is most of what there is to find. A first fit is not robust; a median is.
    """
    if len(Z) < ENOUGH_FOR_A_MEDIAN:
        return None
    middle = _median(Z, observed)
    spread = _median(np.abs(Z - middle), observed)
    stands = np.linalg.norm(middle) > STANDS_OUT * np.linalg.norm(spread)
    return middle if stands else None


def first_basis(L: Array, middle: Array | None) -> Array:
    """Turn a random orthonormal basis so that it has the median of the first batch, if that stands out."""
    p, d = L.shape
    if middle is None or p < d:
        return L
    middle = middle / np.max(np.abs(middle))
    return np.linalg.qr(np.column_stack([middle, L[:, 1:]]))[0].astype(L.dtype)


def _median(Z: Array, observed: Mask | None) -> Array:
    """Return the median of what is observed of each feature, zero where nothing is."""
    if observed is None:
        return np.asarray(np.median(Z, axis=0))
    ordered, seen = np.sort(np.where(observed, Z, np.inf), axis=0), observed.sum(axis=0)
    either = np.maximum(np.stack([seen - 1, seen]) // 2, 0)
    return np.where(seen > 0, np.take_along_axis(ordered, either, axis=0).mean(axis=0), 0.0)


def regauged(state: State, added: Contribution) -> State:
    """Move the basis towards a size in which most coefficients lie well within the unit ball.

    The size of L and that of r are one degree of freedom. At the optimum the longest r has norm one
    (Proposition 1), but the alternation is slow to find it: a sample that is clipped pulls at the basis
    with what the noise lets through. Nine tenths of the samples get norms up to a half. The move is
    slow as long as the basis is poor, where a small ball keeps noise from being fitted.
    """
    if not added.demanding:
        return state
    demand = math.exp(added.demand / added.demanding)
    c = min(max(2.0 * demand, 0.5), 2.0) ** clean_share(state.scales) ** 2
    return replace(state, L=state.L * state.L.dtype.type(c), statistics=state.statistics.regauged(c))


def revived(state: State, rank: int) -> State:
    """Give directions that the basis has lost a new start, small and random.

    A direction in which L is nothing gets no coefficients and stays nothing for good. That happens with
    fewer samples than components, and to spare components; the rank of the data may grow later.
    """
    p, d = state.L.shape
    if rank == min(p, d):  # that of the basis before, so that nothing is factored for this alone
        return state
    U, sigma, V = thin_svd(state.L)
    weak = sigma < LOST * sigma.max(initial=0.0)
    lost = min(p, d) - len(sigma) + int(weak.sum())
    if not lost or not len(sigma):
        return state
    kept = V[:, ~weak]
    missing = np.linalg.qr(np.hstack([kept, np.eye(d)]))[0][:, kept.shape[1] : kept.shape[1] + lost]
    fresh = np.random.default_rng([lost, state.n_steps]).standard_normal((p, lost))
    strong = U[:, ~weak].astype(np.float64, copy=False)
    fresh -= strong @ (strong.T @ fresh)
    fresh *= FRESH * sigma.max() / np.sqrt(p)
    return replace(state, L=(state.L + fresh @ missing.T).astype(state.L.dtype))
