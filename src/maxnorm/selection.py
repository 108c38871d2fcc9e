"""The choice of the rank and of the weight of the norm, by the error on held-out entries of a sample.

Entries are held out rather than samples: a held-out sample is fitted anew in the learnt basis, and a higher
rank always fits it better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from maxnorm.core.basis import random_basis
from maxnorm.core.batch import Batch
from maxnorm.core.bias import fit_bias
from maxnorm.core.defaults import default_components
from maxnorm.core.linalg import robust_scale
from maxnorm.core.sparse_encoding import encode_entries, predict_entries, prior_of
from maxnorm.core.state import Selection, State
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array, Index, Mask
from maxnorm.learner import Learner, apply, learn, step


@dataclass(frozen=True)
class SampleRule:
    """How many of the first samples are used, and how many of their entries are held out."""

    entries: int = 100_000  #: observed entries, at least
    rows: int = 100  #: samples, at least
    entries_per_number: int = 5  #: observed entries per entry of the basis, at least
    held_out: float = 0.1  #: share of the entries that are held out
    enough: int = 50  #: held-out entries without which nothing is chosen


@dataclass(frozen=True)
class RankRule:
    """Which ranks are tried for a decomposition, and when a rank is good enough."""

    ranks: tuple[int, ...] = (1, 2, 3, 5, 8, 13, 20, 30, 45, 70, 100)
    passes: int = 2  #: passes over the sample for each rank
    seed: int = int(np.random.RandomState(0).randint(2**31 - 1))  #: seed of the first basis of each trial
    improvement: float = 0.995  #: error relative to the best so far from which a higher rank is tried
    close: float = 1.02  #: error relative to the best up to which a smaller rank is preferred
    negligible: float = 0.01  #: error relative to the entries that counts as zero


@dataclass(frozen=True)
class WeightRule:
    """Which ranks and weights of the norm are tried for completion, and when a trial is better."""

    ranks: tuple[int, ...] = (2, 5, 10, 20, 40, 80)  #: few, because the norm limits the rank as well
    weights: tuple[float, ...] = (3.0, 0.8, 0.25, 0.08, 0.02, 3e-3, 1e-5, 1e-7)  #: per observed entry
    passes: tuple[int, int] = (5, 2)  #: passes for the first weight, and for those that start from its basis
    added_scale: float = 0.3  #: scale of added components, relative to those of a random basis
    strong: float = 0.02  #: weight from which the ball is meant to shrink coefficients
    worse: float = 1.002  #: error relative to the best above which a weight is worse
    no_better: float = 0.999  #: error relative to the best above which a rank is not worth it
    prior: float = 1.0  #: strength of the prior on the rows of the basis that is tried in the end


SAMPLE, RANK, WEIGHT = SampleRule(), RankRule(), WeightRule()


def choose_on_sample(state: State, rows: Batch, last: bool, choose: Callable[[Batch], State]) -> State | None:
    """Return what ``choose`` makes of a sample of the rows, or None if more rows are needed first."""
    size = _sample_size(rows.n_observed, state.L.size)
    return None if size is None and not last else choose(rows[:size])


def sample_size(rows: Batch) -> int:
    """Return how many rows of a large array make a sample."""
    default = default_components(rows.shape[1])
    size = _sample_size(rows.n_observed, rows.shape[1] * default)
    return len(rows) if size is None else size


def _sample_size(n_observed: Index, basis_size: int) -> int | None:
    """Return how many rows make a sample, given the observed entries of each; None if there are too few."""
    entries = max(SAMPLE.entries, SAMPLE.entries_per_number * basis_size)
    enough = np.flatnonzero(np.cumsum(n_observed) >= entries)
    return max(int(enough[0]) + 1, SAMPLE.rows) if len(enough) and len(n_observed) >= SAMPLE.rows else None


# -- the rank of a decomposition ----------------------------------------------------------------------


def choose_rank(with_rank: Callable[[int], Learner], state: State, sample: Batch) -> State:
    """Return the first state with the rank that a sample asks for: the least about as good as the best.

    ``with_rank`` returns the learner with a given rank. Errors are medians, because held-out entries may
    themselves be grossly wrong.
    """
    Z, mask = sample.dense()
    observed = np.ones(Z.shape, dtype=np.bool_) if mask is None else mask
    p = Z.shape[1]
    held_out = _hold_out(observed)
    chosen = Selection(default_components(p), None, ())
    if held_out is not None:
        learnt = Batch(np.where(observed & ~held_out, Z, np.nan))

        def error(rank: int) -> float:
            return float(np.median(np.abs(Z - _low_rank(with_rank(rank), learnt))[held_out]))

        zero = RANK.negligible * float(np.median(np.abs(Z[held_out])))
        chosen = _search_rank(error, zero, most=max(1, min(Z.shape) // 2))
    L = random_basis(p, chosen.n_components, state.seed, state.L.dtype)
    return replace(State.start(L), selection=chosen)


def _hold_out(observed: Mask) -> Mask | None:
    """Return which entries are held out, or None if they would be too few."""
    rng = np.random.default_rng([0, len(observed)])
    held_out = observed & (rng.random(observed.shape) < SAMPLE.held_out)
    return held_out if held_out.sum() >= SAMPLE.enough else None


def _low_rank(learner: Learner, rows: Batch) -> Array:
    """Return the low-rank part of rows after a few passes over them."""
    state = learner.start(rows.shape[1], rows.dtype, RANK.seed)
    for _ in range(RANK.passes):
        state, _ = learn(learner, state, rows)
    return np.concatenate([code.low_rank(state.L) for _, code in apply(learner, state, rows)])


def _search_rank(error: Callable[[int], float], zero: float, most: int) -> Selection:
    """Search the ranks up to ``most``; an error up to ``zero`` is as good as none."""
    errors: dict[int, float] = {}

    def error_of(rank: int) -> float:
        if rank not in errors:
            errors[rank] = error(rank)
        return errors[rank]

    best = np.inf
    for rank in _ranks(most):
        if error_of(rank) > RANK.improvement * best and rank > 2:
            break
        best = min(best, error_of(rank))
        if best <= zero:
            break
    good = max(RANK.close * best, zero)
    high = min(rank for rank, value in errors.items() if value <= good)
    low = max((rank for rank in errors if rank < high), default=0)
    while high - low > 1:  # ranks between those tried
        middle = (low + high) // 2
        if error_of(middle) <= good:
            high = middle
        else:
            low = middle
    return Selection(high, None, tuple((rank, None, 0.0, value) for rank, value in sorted(errors.items())))


def _ranks(most: int) -> Iterator[int]:
    for rank in RANK.ranks:
        if rank < most:
            yield rank
    yield most


# -- the rank and the weight of the norm for completion -----------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Entries to learn from, and held-out entries to judge by."""

    learnt: csr_array
    rows: Index
    columns: Index
    values: Array

    @classmethod
    def of(cls, Z: csr_array, seed: int) -> Sample | None:
        """Hold entries out at random; return None if they would be too few."""
        rng = np.random.default_rng([seed, Z.shape[0]])
        out = rng.random(Z.nnz) < SAMPLE.held_out
        if out.sum() < SAMPLE.enough:
            return None
        rows = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
        kept = csr_array((Z.data[~out], (rows[~out], Z.indices[~out])), shape=Z.shape)
        return cls(kept, rows[out], Z.indices[out], Z.data[out])


class Trial(NamedTuple):
    """Settings that were tried, and what they led to."""

    error: float
    state: State
    weight: float
    prior: float


def start_entries(Z: csr_array, d: int, biases: bool, rng: np.random.Generator) -> State:
    """Return a state with a random basis of the scale of the data, and biases if asked for."""
    p = Z.shape[1]
    model = fit_bias(Z) if biases else None
    values = Z.data if model is None else model.residual(Z, model.rows(Z)).data
    scale = 2.0 * (robust_scale(values) or robust_scale(Z.data) or 1.0) / np.sqrt(d)
    L = scale * rng.standard_normal((p, d))
    return State(L=L, statistics=SufficientStatistics.zeros(p, d, per_feature=True), biases=model)


def choose_weight(
    refit: Learner,
    Z: csr_array,
    *,
    ranks: tuple[int, ...],
    weights: tuple[float, ...],
    biases: bool,
    seed: int,
) -> State | None:
    """Choose the rank and the weight of the norm for completion, and return what was learnt of the sample.

    ``refit`` is a learner that forgets everything but the basis at each step. For every rank the weights are
    tried from the largest down, each from the basis of the weight before, until the error grows; the ranks
    from the least up, until the error no longer falls. In the end, a prior on the rows of the basis is tried
    in place of the norm. The result is None if there are too few entries.
    """
    sample = Sample.of(Z, seed)
    if sample is None:
        return None
    search = WeightSearch(refit, sample, weights, biases, [])
    best: Trial | None = None
    for d in ranks:
        found = search.best_weight(d, np.random.default_rng([seed, d]), best)
        if best is not None and found.error > WEIGHT.no_better * best.error:
            best = min(best, found, key=lambda trial: trial.error)
            break
        best = found
    if best is None:
        return None
    if len(weights) > 1 and best.weight < WEIGHT.strong:
        shrunk = search.attempt(best.state, weights[-1], WEIGHT.prior, sum(WEIGHT.passes))
        best = shrunk if shrunk.error < best.error else best
    chosen = Selection(best.state.L.shape[1], best.weight, tuple(search.tried), best.prior)
    return replace(best.state, selection=chosen, n_samples=0, n_steps=0, time=Z.shape[0])


@dataclass(frozen=True)
class WeightSearch:
    """The trials of :func:`choose_weight` on one sample."""

    refit: Learner
    sample: Sample
    weights: tuple[float, ...]
    biases: bool
    tried: list[tuple[int, float | None, float, float]]

    def best_weight(self, d: int, rng: np.random.Generator, before: Trial | None) -> Trial:
        """Return the best trial with d components, starting from the best one with fewer."""
        state = start_entries(self.sample.learnt, d, self.biases, rng)
        if before is not None:  # the basis found so far, and more components that are small
            known = before.state
            more = state.L[:, : d - known.L.shape[1]]
            L = np.hstack([known.L, WEIGHT.added_scale * more])
            state = replace(state, L=L, biases=known.biases)
        best: Trial | None = None
        worse = 0
        start = 0 if before is None else self.weights.index(before.weight)
        for i, weight in enumerate(self.weights[start:]):
            trial = self.attempt(state, weight, 0.0, WEIGHT.passes[min(i, 1)])
            state = trial.state
            if best is None or trial.error < best.error:
                best, worse = trial, 0
            elif trial.error > WEIGHT.worse * best.error:
                worse += 1
            if worse == 2:
                break
        assert best is not None
        return best

    def attempt(self, state: State, weight: float, prior: float, passes: int) -> Trial:
        """Refit a state with given settings, and return the error that they lead to."""
        d, batch = state.L.shape[1], Batch(self.sample.learnt)
        state = replace(state, selection=Selection(d, weight, (), prior))
        for _ in range(passes):
            state, _ = step(self.refit, state, batch)
        error = held_out_error(state, self.sample)
        self.tried.append((d, weight, prior, error))
        return Trial(error, state, weight, prior)


def held_out_error(state: State, sample: Sample) -> float:
    """Return the root mean square error of the held-out entries."""
    code = encode_entries(sample.learnt, state.L, None, state.biases, prior_of(state))
    values = predict_entries(sample.rows, sample.columns, code.R, state.L)
    if state.biases is not None:
        values += state.biases.mean + state.biases.columns[sample.columns] + code.rows[sample.rows]
    return float(np.sqrt(np.mean((sample.values - values) ** 2)))
