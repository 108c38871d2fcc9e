"""Choose the weight of the norm and the rank from entries that are held out of a sample of the stream.

Entries are held out, not samples: a sample that is held out is fitted anew, and a higher rank always fits it
better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from maxnorm.core.linalg import robust_scale
from maxnorm.core.norms import MaxNorm
from maxnorm.core.sparse_encoding import (
    Index,
    encode_entries,
    feature_prior,
    predicted,
    prior_of,
    step_entries,
)
from maxnorm.core.state import State
from maxnorm.core.statistics import Biases, Selection, SufficientStatistics
from maxnorm.core.types import Array, Mask

SAMPLE_ENTRIES, SAMPLE_ROWS = 100_000, 100  # of which at least both are looked at, if there are so many
PER_NUMBER = 5  # and so many entries for every number of the basis
HELD_OUT = 0.1  # share of the entries
ENOUGH = 50  # entries that must be held out for a choice to mean anything
WEIGHTS = (3.0, 0.8, 0.25, 0.08, 0.02, 3e-3, 1e-5, 1e-7)  # of the norm, for each observed entry
RANKS = (1, 2, 3, 5, 8, 13, 20, 30, 45, 70, 100)
ENTRY_RANKS = (2, 5, 10, 20, 40, 80)  # for completion, where the weight of the norm does the rest
PASSES = (5, 2)  # over the sample, for the first weight and for those that start from a basis
SMALL = 0.3  # size of components that are added, against those of a random basis
STRONG = 0.02  # a weight with which the ball is there to hold coefficients back
WORSE, NO_BETTER = 1.002, 0.999  # than the best: a weight too small, a rank that does not pay
ENOUGH_BETTER = 0.995  # than the rank before: worth trying another
PRIOR = 1.0  # how far features are held back, if they are: as their sizes say
NEGLIGIBLE = 0.01  # an error against the size of the entries that is as good as none
CLOSE = 1.02  # a smaller rank is as good if its error is within this of the best


@dataclass(frozen=True)
class Sample:
    """Entries to learn from, and entries to judge by."""

    learnt: csr_array
    rows: Index
    columns: Index
    values: Array

    @classmethod
    def of(cls, Z: csr_array, seed: int) -> Sample | None:
        """Hold entries out at random; None if there are too few."""
        rng = np.random.default_rng([seed, Z.shape[0]])
        out = rng.random(Z.nnz) < HELD_OUT
        if out.sum() < ENOUGH:
            return None
        rows = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
        kept = csr_array((Z.data[~out], (rows[~out], Z.indices[~out])), shape=Z.shape)
        return cls(kept, rows[out], Z.indices[out], Z.data[out])


def rows_for_a_sample(lengths: Array, basis_size: int) -> int | None:
    """Return how many rows make a sample, given the observed entries of each; None if there are too few."""
    enough = np.flatnonzero(np.cumsum(lengths) >= max(SAMPLE_ENTRIES, PER_NUMBER * basis_size))
    return max(int(enough[0]) + 1, SAMPLE_ROWS) if len(enough) and len(lengths) >= SAMPLE_ROWS else None


def start_entries(Z: csr_array, d: int, biases: bool, rng: np.random.Generator) -> State:
    """Return a state with a random basis of the size of the data, and biases if asked for."""
    p = Z.shape[1]
    known = None
    values = Z.data
    if biases:
        known = Biases.zeros(p)
        for _ in range(3):  # columns and rows in turn
            known = known.from_batch(Z, known.rows(Z), np.ones(Z.shape[0]))
        lengths = np.diff(Z.indptr)
        values = Z.data - known.mean - known.columns[Z.indices] - np.repeat(known.rows(Z), lengths)
    size = 2.0 * (robust_scale(values) or robust_scale(Z.data) or 1.0) / np.sqrt(d)
    L = size * rng.standard_normal((p, d))
    return State(L=L, statistics=SufficientStatistics.zeros(p, d, per_feature=True), biases=known)


def select_entries(
    Z: csr_array, *, ranks: tuple[int, ...], weights: tuple[float, ...] = WEIGHTS, biases: bool, seed: int
) -> State | None:
    """Choose rank and weight for completion, and return what was learnt of the sample.

    For every rank the weights are tried from the largest down, each from the basis of the one before, until
    they get worse; ranks from the least up, until they no longer pay. In the end features with few entries
    are held back by a prior in place of the norm, if that is better.
    """
    sample = Sample.of(Z, seed)
    if sample is None:
        return None
    tried: list[tuple[int, float | None, float, float]] = []
    best: Trial | None = None
    for d in ranks:
        found = _best_weight(sample, d, weights, biases, np.random.default_rng([seed, d]), tried, best)
        if best is not None and found.error > NO_BETTER * best.error:
            best = min(best, found, key=lambda trial: trial.error)
            break
        best = found
    if best is None:
        return None
    d = best.state.L.shape[1]
    if len(weights) > 1 and best.weight < STRONG:
        held = _tried(sample, best.state, weights[-1], PRIOR, sum(PASSES), tried)
        best = held if held.error < best.error else best
    chosen = Selection(d, best.weight, tuple(tried), best.prior)
    return replace(best.state, selection=chosen, n_samples=0, n_steps=0, time=Z.shape[0])


class Trial(NamedTuple):
    """What some settings led to."""

    error: float
    state: State
    weight: float
    prior: float


def _tried(
    sample: Sample,
    state: State,
    weight: float,
    prior: float,
    passes: int,
    tried: list[tuple[int, float | None, float, float]],
) -> Trial:
    for _ in range(passes):
        state = step_entries(
            state,
            sample.learnt,
            norm_of=lambda seen, L: weighted_norm(seen, L, weight, prior),
            regauge=weight < STRONG,
            afresh=True,
        )
    error = held_out_error(state, sample)
    tried.append((state.L.shape[1], weight, prior, error))
    return Trial(error, state, weight, prior)


def weighted_norm(
    statistics: SufficientStatistics,
    L: Array,
    weight: float,
    prior: float,
    basis: Literal["exact", "bcd"] = "exact",
) -> MaxNorm:
    """Return the max-norm with a weight for each observed entry, and features held back by a prior if any."""
    ridge = prior * feature_prior(statistics, L) if prior else None
    return MaxNorm(weight * statistics.entries, basis, ridge)


def _best_weight(
    sample: Sample,
    d: int,
    weights: tuple[float, ...],
    biases: bool,
    rng: np.random.Generator,
    tried: list[tuple[int, float | None, float, float]],
    before: Trial | None,
) -> Trial:
    state = start_entries(sample.learnt, d, biases, rng)
    if before is not None:  # the basis found so far, and more components that are small
        known = before.state
        more = state.L[:, : d - known.L.shape[1]]
        state = replace(state, L=np.hstack([known.L, SMALL * more]), biases=known.biases)
    best: Trial | None = None
    worse = 0
    start = 0 if before is None else weights.index(before.weight)
    for i, weight in enumerate(weights[start:]):
        trial = _tried(sample, state, weight, 0.0, PASSES[min(i, 1)], tried)
        state = trial.state
        if best is None or trial.error < best.error:
            best, worse = trial, 0
        elif trial.error > WORSE * best.error:
            worse += 1
        if worse == 2:
            break
    assert best is not None
    return best


def held_out_error(state: State, sample: Sample) -> float:
    """Root mean square error in the entries that are held out."""
    code = encode_entries(sample.learnt, state.L, None, state.biases, prior_of(state))
    values = predicted(sample.rows, sample.columns, code.R, state.L)
    if state.biases is not None:
        values += state.biases.mean + state.biases.columns[sample.columns] + code.rows[sample.rows]
    return float(np.sqrt(np.mean((sample.values - values) ** 2)))


def select_rank(
    Z: Array, observed: Mask, low_rank_of: Callable[[Array, int], Array], *, most: int, seed: int
) -> Selection | None:
    """Choose the rank of a decomposition: the least that is about as good as the best.

    ``low_rank_of`` gives the low-rank part of samples with missing entries (NaN) for a rank. Errors are
    medians: what is held out may itself be grossly wrong.
    """
    rng = np.random.default_rng([seed, len(Z)])
    out = observed & (rng.random(Z.shape) < HELD_OUT)
    if out.sum() < ENOUGH:
        return None
    learnt = np.where(observed & ~out, Z, np.nan)
    errors: dict[int, float] = {}

    def error(rank: int) -> float:
        if rank not in errors:
            errors[rank] = float(np.median(np.abs(Z[out] - low_rank_of(learnt, rank)[out])))
        return errors[rank]

    nothing = NEGLIGIBLE * float(np.median(np.abs(Z[out])))
    best = np.inf
    for rank in _ranks(most):
        if error(rank) > ENOUGH_BETTER * best and rank > 2:
            break
        best = min(best, error(rank))
        if best <= nothing:
            break
    good = max(CLOSE * best, nothing)
    high = min(rank for rank, value in errors.items() if value <= good)
    low = max((rank for rank in errors if rank < high), default=0)
    while high - low > 1:  # ranks between those tried
        middle = (low + high) // 2
        if error(middle) <= good:
            high = middle
        else:
            low = middle
    return Selection(high, None, tuple((rank, None, 0.0, value) for rank, value in sorted(errors.items())))


def _ranks(most: int) -> Iterator[int]:
    for rank in RANKS:
        if rank < most:
            yield rank
    yield most
