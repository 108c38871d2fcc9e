"""The learner without scikit-learn: run, step, encode. Algorithm 1 of the paper on one page.

Rows are samples throughout; the paper has them as columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from maxnorm.core.encoding import Encoding, encode
from maxnorm.core.noise import Noise, is_doubting
from maxnorm.core.norms import FactorNorm
from maxnorm.core.state import State, accumulated, decay, split_missing
from maxnorm.core.statistics import (
    PAST,
    RECENT,
    Contribution,
    Fades,
    Scales,
    SufficientStatistics,
)
from maxnorm.core.types import Array, Mask


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


def updated(state: State, added: Contribution, norm: FactorNorm) -> State:
    """Return the state with a contribution added, and the basis that minimises the surrogate after it."""
    new = accumulated(state, added)
    return replace(new, L=norm.update_basis(state.L, new.statistics)) if added.n_full else new
