"""The learner of single entries: ratings and other matrices of which few entries are observed.

It learns the model of :mod:`maxnorm.core.entry_model`. The first samples are used in rounds until the model
has settled. Later ones are learnt from batch by batch: a batch adds to sums, from which the columns follow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from maxnorm.core.batch import Batch
from maxnorm.core.bias import sum_rows
from maxnorm.core.defaults import BATCHES, default_components
from maxnorm.core.encoding import Encoding
from maxnorm.core.entry_model import EntryModel, Rows, gauge_of_entries
from maxnorm.core.linalg import row_norms
from maxnorm.core.norms import FactorNorm, NuclearNorm
from maxnorm.core.patterns import Pattern
from maxnorm.core.scales import PAST_POWER, RECENT_POWER, Scales
from maxnorm.core.state import Contribution, Decay, State, accumulate, remaining_weight
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array
from maxnorm.learner import Learner


class EntryRounds(NamedTuple):
    """How the model of single entries is learnt."""

    factors: int = 20  #: at most, if they are not given; spare ones do no harm
    numbers: int = 2**24  #: in the Gram matrices of the columns, which limits the factors of wide data
    entries: int = 100_000  #: of the first samples of a stream, at least, which are used in rounds
    entries_in_memory: int = 1_000_000  #: the same if all samples are in memory
    entries_per_column: int = 5  #: and for each column
    improvement: float = 5e-3  #: relative fall of the squared errors below which no more rounds are made
    first_improvement: float = 2e-2  #: the same if more samples follow
    least: int = 8  #: rounds
    most: int = 30  #: rounds
    implicit_share: float = 0.5  #: of entries that are observed, below which it matters which ones
    columns_per_row: int = 4  #: an update of the columns costs about as much as a row for this many columns


ROUNDS = EntryRounds()
Implicit = bool | Literal["auto"]


class EntrySettings(NamedTuple):
    """What a batch is measured with."""

    model: EntryModel | None  #: None before anything is known
    half_life: float | None
    repeated_weight: float  #: of all samples, while a pass repeats them; zero in the first pass


@dataclass(frozen=True, eq=False)
class EntryLearner(Learner):
    """A learner of a model in which rows and columns are known with uncertainty.

    The attributes are those of :class:`maxnorm.MaxNormCompletion`, which documents them.
    """

    n_components: int | Literal["auto"] | None = None
    implicit: Implicit = "auto"
    biases: bool | Literal["auto"] = "auto"
    first_entries: int = ROUNDS.entries
    batch_size: int | Literal["auto"] = "auto"
    half_life: float | None = None
    is_robust: bool = False  #: whether some entries may be grossly wrong
    column_features: Array | None = None  #: features of the columns, one row each

    def start(self, n_features: int, dtype: np.dtype[Any], seed: int) -> State:
        first = np.random.default_rng(seed).standard_normal((n_features, self._n_factors(n_features)))
        return State.start(first.astype(dtype))

    def _n_factors(self, n_features: int) -> int:
        if self.n_components is None:
            return default_components(n_features)
        if self.n_components != "auto":
            return int(self.n_components)
        affordable = int(np.sqrt(2.0 * ROUNDS.numbers / n_features)) - 2
        return max(1, min(ROUNDS.factors, affordable, n_features - 1))

    # -- the first samples ----------------------------------------------------------------------------

    def choose(self, state: State, rows: Batch, last: bool) -> State | None:
        if state.entry_model is not None:
            return state
        size = self.sample_size(rows)
        if size is None and not last:
            return None
        sample = rows[:size].entries()
        if not sample.nnz:
            return state
        given, weight = rows[:size].features, rows[:size].weighted(np.ones(sample.shape[0]))
        improvement = ROUNDS.improvement if sample.shape[0] == len(rows) else ROUNDS.first_improvement
        model = self.first_model(state, sample, given)
        model = settled(model, sample, given, weight, improvement)
        return replace(state, entry_model=model, entry_sums=model.sums(), L=model.basis.astype(state.L.dtype))

    def sample_size(self, rows: Batch) -> int | None:
        """Return how many rows make the first sample; None if there are too few."""
        needed = max(self.first_entries, ROUNDS.entries_per_column * rows.shape[1])
        enough = np.flatnonzero(np.cumsum(rows.n_observed) >= needed)
        return int(enough[0]) + 1 if len(enough) else None

    def first_model(self, state: State, Z: csr_array, given: Array | None) -> EntryModel:
        """Return the model before the first sample, in the units of the data."""
        gauge, same_units = gauge_of_entries(Z, robust=self.is_robust)
        n, p = Z.shape
        implicit = Z.nnz < ROUNDS.implicit_share * n * p if self.implicit == "auto" else self.implicit
        pattern = Pattern.of(Z, state.seed) if implicit else Pattern.unused(p)
        if self.column_features is not None and len(self.column_features) != p:
            raise ValueError(
                f"column_features has {len(self.column_features)} rows, but X has {p} columns; pass one row "
                "for each column of X"
            )
        pattern = pattern.with_given(given, self.column_features)
        biases = same_units if self.biases == "auto" else bool(self.biases)
        model = EntryModel.start(gauge, state.L.shape[1], pattern, state.seed, row_biases=biases)
        return model.doubting(Z) if self.is_robust else model

    def plan(self, state: State, rows: Batch, last: bool) -> tuple[State, int]:
        chosen = self.choose(state, rows, last)
        if chosen is not None and not chosen.time:  # the first batch is the sample
            return chosen, self.sample_size(rows) or len(rows)
        return super().plan(state, rows, last)

    def rows_needed(self, state: State) -> int:
        if self.batch_size != "auto":
            return int(self.batch_size)
        p = state.L.shape[0]
        return max(BATCHES.least, p // ROUNDS.columns_per_row, state.time // BATCHES.explained)

    # -- the three acts -------------------------------------------------------------------------------

    def begin(self, state: State, batch: Batch | None) -> tuple[State, EntrySettings]:
        return state, EntrySettings(state.entry_model, self.half_life, state.repeated_weight)

    def measure(self, batch: Batch, L: Array, settings: EntrySettings, time: int) -> Contribution:
        Z, model = batch.entries(), settings.model
        full = np.diff(Z.indptr) > 0
        nothing = SufficientStatistics.zeros(*L.shape)
        if model is None or not full.any():
            return Contribution(len(full), 0, nothing, Scales(), Decay(), L.shape[1])
        given = batch.features
        if not full.all():
            Z, given = Z[full], None if given is None else given[full]
        rows, n = model.explain(Z, given), Z.shape[0]
        now = time + n
        ages = remaining_weight(np.arange(time + 1, now + 1), now, 0.0, settings.half_life)
        weight = batch.weighted(ages, full)
        kept, past, recent = (
            float(remaining_weight(time, now, power, settings.half_life))
            for power in (0.0, PAST_POWER, RECENT_POWER)
        )
        if settings.repeated_weight:  # a sample replaces what it was when it was last seen
            kept *= max(1.0 - float(weight.sum()) / settings.repeated_weight, 0.0)
        sums = model.measure(Z, rows, weight)
        residual = self._residual(Z, model, rows)
        return Contribution(
            len(full),
            n,
            replace(nothing, weight=float(weight.sum()), entries=float(weight @ np.diff(Z.indptr))),
            Scales.from_entries(Z, residual),
            Decay(kept, past, recent),
            rank=L.shape[1],
            loss=0.5 * float(residual @ residual),
            entry_sums=sums,
        )

    @staticmethod
    def _residual(Z: csr_array, model: EntryModel, rows: Rows) -> Array:
        places = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
        return Z.data - model.values_at(rows, places, Z.indices)

    def update(self, state: State, added: Contribution, settings: EntrySettings) -> State:
        new = accumulate(state, added)
        if settings.model is None or new.entry_sums is None or not added.n_full:
            return new
        model = settings.model.updated(new.entry_sums)
        return replace(new, entry_model=model, L=model.basis.astype(state.L.dtype))

    # -- applying what was learnt ---------------------------------------------------------------------

    def encode(self, batch: Batch, state: State) -> Encoding:
        Z, model = batch.entries(), state.entry_model
        (b, p), d = Z.shape, state.L.shape[1]
        residual, R = np.zeros((b, p), batch.dtype), np.zeros((b, d))
        offset, each = np.zeros((b, p)), np.zeros(b)
        if model is not None:
            rows = model.explain(Z, batch.features)
            R, offset = rows.mean[:, :-1] @ model.rotation, model.offsets(rows)
            left = self._residual(Z, model, rows)
            residual[np.repeat(np.arange(b), np.diff(Z.indptr)), Z.indices] = left
            each = 0.5 * sum_rows(left**2, Z.indptr)
        return Encoding(
            R=R.astype(batch.dtype, copy=False),
            E=np.zeros_like(residual),
            residual=residual,
            loss=each,
            penalty=np.zeros(b),
            free_norm=row_norms(R),
            rank=d,
            n_iter=np.ones(b, dtype=np.int_),
            converged=np.ones(b, dtype=np.bool_),
            offset=offset,
        )

    def norm_at(self, state: State) -> FactorNorm:
        return NuclearNorm(0.0)


def settled(
    model: EntryModel, Z: csr_array, given: Array | None, weight: Array, improvement: float
) -> EntryModel:
    """Return the model that rounds over a sample lead to, until the squared errors fall by less than this."""
    full = np.diff(Z.indptr) > 0
    Z, weight, given = Z[full], weight[full], None if given is None else given[full]
    cost = np.inf
    for i in range(ROUNDS.most):
        seen = model.measure(Z, model.explain(Z, given), weight)
        model = model.updated(seen)
        before, cost = cost, float(model.noise @ seen.counts)
        del seen  # which may be large, before the sums of the next round are there
        if i >= ROUNDS.least and cost > (1.0 - improvement) * before:
            break
    return model
