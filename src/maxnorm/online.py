"""The learner without scikit-learn: run, step, encode. Algorithm 1 of the paper on one page.

Rows are samples throughout; the paper has them as columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxnorm._typing import Array, Mask
from maxnorm.encoding import Encoding, encode
from maxnorm.noise import Noise, is_doubting
from maxnorm.norms import FactorNorm
from maxnorm.statistics import (
    PAST,
    RECENT,
    Biases,
    Contribution,
    Fades,
    Scales,
    Selection,
    SufficientStatistics,
)


@dataclass(frozen=True, eq=False)
class State:
    """All that is carried from one batch to the next; its size does not depend on the samples seen."""

    L: Array  # p x d
    statistics: SufficientStatistics
    scales: Scales = field(default_factory=Scales)
    n_samples: int = 0
    n_steps: int = 0
    time: int = 0  # samples that had anything in them: those by which memory fades
    biases: Biases | None = None  # what is taken off the entries first, if anything is
    selection: Selection | None = None  # what was chosen by held-out entries, if anything was

    @classmethod
    def start(cls, L: Array) -> State:
        """Return the state before the first sample, with L as initial basis."""
        return cls(L=L, statistics=SufficientStatistics.zeros(*L.shape))


@dataclass(eq=False)
class Progress:
    """A state, and rows that do not fill a batch yet; only ``ahead`` ever changes."""

    state: State
    waiting: list[Array] = field(default_factory=list)
    batch: int = 0  # rows to wait for, if that is known
    ahead: State | None = None  # the state with the waiting rows learnt too, once somebody has asked for it


def run(
    state: State,
    batches: Iterable[Array],
    *,
    callback: Callable[[State, Encoding], object] | None = None,
    **settings: Any,
) -> State:
    """Algorithm 1: learn from batches (NaN = missing) one after the other; ``settings`` are those of step."""
    for Z in batches:
        state, code = step(state, *split_missing(Z), **settings)
        if callback is not None:
            callback(state, code)
    return state


def step(
    state: State, Z: Array, observed: Mask | None = None, *, norm: FactorNorm, **settings: Any
) -> tuple[State, Encoding]:
    """Learn from one batch: lines 3-5 of Algorithm 1. ``settings`` are those of :func:`measure`."""
    per_feature = state.statistics.grams is not None
    added, code = measure(
        state.L, Z, observed, norm=norm, since=state.time, per_feature=per_feature, **settings
    )
    return updated(state, added, norm), code


def measure(
    L: Array,
    Z: Array,
    observed: Mask | None = None,
    *,
    norm: FactorNorm,
    noise: Noise,
    since: int = 0,
    forgetting: float = 0.0,
    half_life: float | None = None,
    tol: float = 1e-6,
    loose: float = 0.0,
    max_iter: int = 1000,
    missing_lambda2: float = 0.0,
    per_feature: bool = False,
) -> tuple[Contribution, Encoding]:
    """Encode a batch that begins at time ``since`` in the basis L, and return what there is to learn from it.

    A sample seen at time t weighs ``t ** forgetting``, and half as much every ``half_life`` samples later.
    Samples in which nothing is observed, or everything is zero, change nothing. Batches may be measured in
    different places: their contributions add up.
    """
    n_samples = len(Z)
    full = np.any(Z, axis=1) if observed is None else np.any(Z * observed, axis=1)
    if not full.all():
        Z, observed = Z[full], None if observed is None else observed[full]
    code = encode(
        Z,
        L,
        observed,
        norm=norm,
        noise=noise,
        tol=tol,
        loose=loose,
        max_iter=max_iter,
        missing_lambda2=missing_lambda2,
    )
    if not len(Z):
        nothing = SufficientStatistics.zeros(*L.shape, per_feature=per_feature)
        return Contribution(n_samples, 0, nothing, Scales(), Fades(), code.rank), code

    now = since + len(Z)
    weights = decay(np.arange(since + 1, now + 1), now, forgetting, half_life)
    left = code.residual + code.E
    if is_doubting(noise):
        weights = weights * noise.belief(left)
    scales = Scales.from_batch(Z, code.E, left, observed)
    targets = np.subtract(Z, code.E, out=left)
    if per_feature:
        there = np.ones(Z.shape, dtype=np.bool_) if observed is None else observed
        targets *= there
        statistics = SufficientStatistics.from_batch(targets, code.R, code.penalty, weights, there)
    else:
        if observed is not None:
            targets = code.R @ L.T + code.residual
        statistics = SufficientStatistics.from_batch(targets, code.R, code.penalty, weights)
    fades = Fades(*(float(decay(since, now, power, half_life)) for power in (forgetting, PAST, RECENT)))
    demand = float(np.quantile(code.demand, 0.9))
    return Contribution(
        n_samples,
        len(Z),
        statistics,
        scales,
        fades,
        code.rank,
        demand=len(Z) * math.log(demand) if demand else 0.0,
        demanding=float(len(Z)) if demand else 0.0,
    ), code


def measured_in_slices(
    measure: Callable[[Any, int], Contribution], Z: Any, rows: int, since: int
) -> Contribution:
    """Return what ``measure`` says of Z, so many rows at a time."""
    total = measure(Z[:rows], since)
    for start in range(rows, Z.shape[0], rows):
        total += measure(Z[start : start + rows], since + total.n_full)
    return total


def accumulated(state: State, added: Contribution) -> State:
    """Return the state with a contribution added to its sums; the basis is still the old one."""
    counted = replace(state, n_samples=state.n_samples + added.n_samples, n_steps=state.n_steps + 1)
    if not added.n_full:
        return counted
    fades, biases = added.fades, state.biases
    if biases is not None and added.biases is not None:
        biases = biases.scaled(fades.biases) + added.biases
    return replace(
        counted,
        statistics=state.statistics.scaled(fades.statistics) + added.statistics,
        scales=state.scales.scaled(fades.past, fades.recent) + added.scales,
        time=state.time + added.n_full,
        biases=biases,
    )


def updated(state: State, added: Contribution, norm: FactorNorm) -> State:
    """Return the state with a contribution added, and the basis that minimises the surrogate after it."""
    new = accumulated(state, added)
    return replace(new, L=norm.update_basis(state.L, new.statistics)) if added.n_full else new


def decay(then: ArrayLike, now: int, forgetting: float, half_life: float | None) -> Array:
    """Return what remains at time ``now`` of the weight that samples had at time ``then``."""
    fade = (np.asarray(then) / now) ** forgetting
    return fade if half_life is None else fade * 0.5 ** ((now - np.asarray(then)) / half_life)


def surrogate(state: State, norm: FactorNorm, L: Array | None = None) -> float:
    """Return g_t(L) of Eq. (3.1), at the state's own basis unless another is given."""
    L64 = (state.L if L is None else L).astype(np.float64, copy=False)
    seen = state.statistics
    if not seen.weight:
        return 0.0
    fit = seen.quadratic(L64) - float(np.vdot(L64, seen.B))
    return (fit + seen.loss + norm.basis_value(L64)) / seen.weight


def split_missing(Z: Array) -> tuple[Array, Mask | None]:
    """Return Z with zeros for NaN, and where it was observed; no mask if it was everywhere."""
    missing = np.isnan(Z)
    if not missing.any():
        return Z, None
    return np.where(missing, Z.dtype.type(0), Z), ~missing
