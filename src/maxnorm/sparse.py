"""The learners of completion: one of observed entries alone, and one that composes it with the dense one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from maxnorm import selection
from maxnorm.core.basis import restore_rank
from maxnorm.core.batch import Batch
from maxnorm.core.bias import BiasModel
from maxnorm.core.defaults import BATCHES, default_components
from maxnorm.core.encoding import Encoding
from maxnorm.core.linalg import row_norms
from maxnorm.core.noise import Noise, NoNoise
from maxnorm.core.norms import FactorNorm
from maxnorm.core.scales import PAST_POWER, RECENT_POWER, Scales
from maxnorm.core.sparse_encoding import (
    best_radius,
    encode_entries,
    predict_entries,
    prior_of,
    sum_multipliers,
)
from maxnorm.core.state import Contribution, Decay, Selection, State, accumulate, remaining_weight
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array, Index
from maxnorm.dense import Auto, DenseLearner, DenseSettings, forgetting_at, norm_at
from maxnorm.learner import Learner, apply, check_finite, refusing_overflow

MOSTLY_OBSERVED = 0.8  # share of observed entries from which one Gram matrix serves all features
BATCH_COEFFICIENTS = 2**18  # coefficients in a batch, at most, so that memory stays flat
FEATURES_PER_SAMPLE = 4  # the basis update costs about as much as one sample per this many features
BIAS_FORGETTING = 1.0  # at most: biases do not depend on the basis and so are not out of date with it


@dataclass(frozen=True, eq=False)
class SparseSettings:
    """What the settings of a :class:`SparseLearner` amount to for one batch."""

    norm: FactorNorm
    biases: BiasModel | None
    forgetting: float
    half_life: float | None
    adjusts_scale: bool  #: whether the norm of the basis is adjusted after the update


@dataclass(frozen=True, eq=False)
class SparseLearner(Learner):
    """A learner of exact entries: coefficients follow in one step, at a cost that grows with the entries.

    The attributes are those of :class:`maxnorm.MaxNormCompletion`, which documents them. With ``refit``, the
    learner makes passes over the same rows: each step starts from the basis of the state it is given and
    replaces the sums of the step before.
    """

    lambda1: float | Auto = "auto"
    forgetting: float | Auto = "auto"
    half_life: float | None = None
    biases: bool = False
    init: Array | None = None
    refit: bool = False

    def start(self, n_features: int, dtype: np.dtype[Any], seed: int) -> State:
        rank = default_components(n_features)
        first = DenseLearner(init=self.init).start_with_rank(rank, n_features, dtype, seed)
        return replace(first, statistics=SufficientStatistics.zeros(*first.L.shape, per_feature=True))

    def begin(self, state: State, batch: Batch | None) -> tuple[State, SparseSettings]:
        if batch is not None and not self.refit and not state.scales.weight:
            entries = batch.entries()
            state = self._first_state(state, entries) if entries.nnz else state
        return state, SparseSettings(
            norm=self.norm_at(state),
            biases=state.biases,
            forgetting=0.0 if self.refit else forgetting_at(self.forgetting, state, NoNoise()),
            half_life=self.half_life,
            adjusts_scale=self._weight(state) < selection.WEIGHT.strong,
        )

    def _first_state(self, state: State, Z: csr_array) -> State:
        """Return the state before the first entry, with a basis of the scale of the data, and biases."""
        rng = np.random.default_rng(state.seed)
        first = selection.start_entries(Z, state.L.shape[1], self.biases, rng)
        is_chosen = state.selection is not None and state.selection.weight is not None
        L = state.L if is_chosen or self.init is not None else first.L.astype(state.L.dtype)
        return replace(state, L=L, biases=first.biases)

    def measure(self, batch: Batch, L: Array, settings: SparseSettings, time: int) -> Contribution:
        Z, biases = batch.entries(), settings.biases
        n_samples, full = Z.shape[0], np.diff(Z.indptr) > 0
        if not full.all():
            Z = Z[full]
        code = encode_entries(Z, L, settings.norm, biases)
        if not Z.shape[0]:
            nothing = SufficientStatistics.zeros(*L.shape, per_feature=True)
            no_biases = None if biases is None else BiasModel.zeros(len(L))
            return Contribution(n_samples, 0, nothing, Scales(), Decay(), code.rank, biases=no_biases)
        now = time + Z.shape[0]
        weights, kept = self._weights(time, now, settings.forgetting, settings.half_life)
        weights = batch.weighted(weights, full)
        found, targets, kept_biases = None, Z, 1.0
        if biases is not None:
            power = min(settings.forgetting, BIAS_FORGETTING)
            slow_weights, kept_biases = self._weights(time, now, power, settings.half_life)
            found = biases.from_batch(Z, code.rows, batch.weighted(slow_weights, full))
            new = biases.scaled(kept_biases) + found
            known = new.mean + new.columns[Z.indices] + np.repeat(code.rows, np.diff(Z.indptr))
            targets = csr_array((Z.data - known, Z.indices, Z.indptr), shape=Z.shape)
        past, recent = (
            float(remaining_weight(time, now, power, settings.half_life))
            for power in (PAST_POWER, RECENT_POWER)
        )
        return Contribution(
            n_samples,
            Z.shape[0],
            SufficientStatistics.from_entries(targets, code.R, weights),
            Scales.from_entries(targets, code.residual),
            Decay(kept, past, recent, kept_biases),
            code.rank,
            loss=float(code.loss.sum()),
            biases=found,
            multiplier_sums=sum_multipliers(code, weights) if settings.adjusts_scale else 0.0,
        )

    def _weights(
        self, time: int, now: int, forgetting: float, half_life: float | None
    ) -> tuple[Array, float]:
        """Return the weights of the samples of a batch, and the factor of the weights of earlier samples."""
        if self.refit:
            return np.ones(now - time), 0.0
        weights = remaining_weight(np.arange(time + 1, now + 1), now, forgetting, half_life)
        return weights, float(remaining_weight(time, now, forgetting, half_life))

    def update(self, state: State, added: Contribution, settings: SparseSettings) -> State:
        new = accumulate(state, added)
        if added.n_full:
            norm = norm_at("max", self.lambda1, "exact", state, new.statistics, state.L)
            L = norm.update_basis(state.L, new.statistics)
            c = 1.0
            if isinstance(added.multiplier_sums, np.ndarray):
                norm_slope = norm.lambda1 * float(row_norms(L).max()) ** 2
                c = best_radius(
                    added.multiplier_sums, added.statistics.entries / new.statistics.entries * norm_slope
                )
            L = (c * L).astype(L.dtype, copy=False)
            new = replace(new, L=L, statistics=new.statistics.rescaled(c))
        return new if self.refit else restore_rank(new, added.rank)

    def encode(self, batch: Batch, state: State) -> Encoding:
        Z, observed = batch.dense()
        entries = batch.entries()
        # The prior takes the place of the ball, which treats samples with few and with many entries alike.
        code = encode_entries(entries, _double(state.L), None, state.biases, prior_of(state))
        residual = np.zeros(Z.shape, Z.dtype)
        if observed is None:
            residual[...] = code.residual.reshape(Z.shape)
        else:
            residual[observed] = code.residual
        offset = None
        if state.biases is not None:
            offset = state.biases.mean + state.biases.columns + code.rows[:, None]
        b = len(Z)
        return Encoding(
            R=code.R.astype(Z.dtype, copy=False),
            E=np.zeros_like(residual),
            residual=residual,
            loss=code.loss,
            penalty=np.zeros(b),
            free_norm=row_norms(code.G / code.sigma),
            rank=code.rank,
            n_iter=np.ones(b, dtype=np.int_),
            converged=np.ones(b, dtype=np.bool_),
            offset=offset,
        )

    def norm_at(self, state: State) -> FactorNorm:
        return norm_at("max", self.lambda1, "exact", state, state.statistics, state.L)

    def _weight(self, state: State) -> float:
        """Return the weight of the norm per observed entry."""
        if self.lambda1 != "auto":
            return float(self.lambda1) / max(state.statistics.entries, 1.0)
        chosen = state.selection
        return 0.0 if chosen is None or chosen.weight is None else chosen.weight


@dataclass(frozen=True, eq=False)
class CompletionLearner(Learner):
    """The learner of completion: the sparse learner if many entries are missing, and the dense one otherwise.

    ``sparse`` is None if entries are not exact, with a noise model or the finite c of Eq. (5.1); the dense
    learner then serves in every case. ``gram`` says whether every feature has a Gram matrix of its own.
    """

    dense: DenseLearner
    sparse: SparseLearner | None = None
    gram: Literal["auto", "shared", "per-feature"] = "auto"

    def start(self, n_features: int, dtype: np.dtype[Any], seed: int) -> State:
        return self.dense.start(n_features, dtype, seed)

    def _learner_at(self, state: State) -> Learner:
        return self.dense if self.sparse is None or not state.statistics.per_feature else self.sparse

    def _learner_for(self, settings: DenseSettings | SparseSettings) -> Learner:
        return self.sparse if self.sparse is not None and isinstance(settings, SparseSettings) else self.dense

    def _wants_grams(self, rows: Batch) -> bool:
        """Return whether every feature gets a Gram matrix: if asked for, or if many entries are missing."""
        if self.dense.missing_lambda2 or self.dense.basis_update != "exact":
            return False
        if self.sparse is not None and self.sparse.biases:
            return True
        n, p = rows.shape
        is_sparse = rows.n_observed.sum() < MOSTLY_OBSERVED * n * p
        return bool(is_sparse) if self.gram == "auto" else self.gram == "per-feature"

    # -- how rows are cut into batches ----------------------------------------------------------------

    def rows_needed(self, state: State) -> int:
        size = self.dense.rows_needed(state)
        if self.dense.batch_size != "auto" or not state.statistics.per_feature:
            return size
        p, d = state.L.shape
        return max(
            size, p // FEATURES_PER_SAMPLE, min(state.time // BATCHES.explained, BATCH_COEFFICIENTS // d)
        )

    def choose(self, state: State, rows: Batch, last: bool) -> State | None:
        if not self._is_choosing(state):
            return state
        return selection.choose_on_sample(state, rows, last, lambda sample: self._choose(state, sample))

    def first_size(self, state: State, rows: Batch, size: int) -> int:
        per_feature = state.statistics.per_feature or (self.sparse is not None and self._wants_grams(rows))
        return size if per_feature else self.dense.first_size(state, rows, size)

    def _is_choosing(self, state: State) -> bool:
        if self.sparse is None or self.sparse.lambda1 != "auto":
            return self.dense.is_choosing_rank(state)
        return not state.time and state.selection is None

    def _choose(self, state: State, sample: Batch) -> State:
        """Return the first state with the rank, and for exact entries the weight of the norm, chosen."""
        if self.sparse is None:
            return selection.choose_rank(self.with_rank, state, sample)
        entries, (n, p) = sample.entries(), sample.shape
        chooses_rank = self.dense.n_components == "auto" and self.dense.init is None
        ranks: tuple[int, ...] = (state.L.shape[1],)
        if chooses_rank:  # a model must not have more numbers than there are entries
            most = max(1, min(n // 2, p // 2, entries.nnz // (n + p)))
            ranks = tuple(rank for rank in selection.WEIGHT.ranks if rank <= most) or (1,)
        weights = selection.WEIGHT.weights
        if self.sparse.lambda1 != "auto":
            weights = (float(self.sparse.lambda1) / max(entries.nnz, 1),)
        found = selection.choose_weight(
            SparseLearner(biases=self.sparse.biases, refit=True),
            entries,
            ranks=ranks,
            weights=weights,
            biases=self.sparse.biases,
            seed=state.seed,
        )
        if found is None:  # too few entries to choose by
            rank = default_components(p) if self.dense.n_components == "auto" else ranks[0]
            first = self.dense.start_with_rank(rank, p, state.L.dtype, state.seed)
            return replace(first, selection=Selection(rank, None, ()))
        L = found.L.astype(state.L.dtype)
        if self.dense.init is not None:
            L = self.dense.start_with_rank(L.shape[1], p, state.L.dtype, state.seed).L
        elif self._wants_grams(sample):
            return replace(found, L=L)
        return replace(State.start(L), selection=found.selection)

    def with_rank(self, rank: int) -> CompletionLearner:
        """Return the same learner with a given number of components."""
        return replace(self, dense=self.dense.with_rank(rank))

    # -- the three acts -------------------------------------------------------------------------------

    def begin(self, state: State, batch: Batch | None) -> tuple[State, DenseSettings | SparseSettings]:
        if batch is not None and not state.time and self._wants_grams(batch):
            state = replace(state, statistics=SufficientStatistics.zeros(*state.L.shape, per_feature=True))
        return self._learner_at(state).begin(state, batch)

    def measure(self, batch: Batch, L: Array, settings: Any, time: int) -> Contribution:
        return self._learner_for(settings).measure(batch, L, settings, time)

    def update(self, state: State, added: Contribution, settings: Any) -> State:
        return self._learner_for(settings).update(state, added, settings)

    def rows_per_slice(self, batch: Batch, settings: Any) -> int:
        if batch.is_sparse:
            return self._learner_for(settings).rows_per_slice(batch, settings)
        return self.dense.rows_per_slice(batch, settings)

    # -- applying what was learnt ---------------------------------------------------------------------

    def encode(self, batch: Batch, state: State) -> Encoding:
        return (self.dense if self.sparse is None else self.sparse).encode(batch, state)

    def norm_at(self, state: State) -> FactorNorm:
        return self.dense.norm_at(state)

    def noise_at(self, state: State) -> Noise:
        """Return the noise model with the thresholds that it has in a state."""
        return self.dense.noise_at(state)

    def coefficients(self, rows: Batch, state: State) -> tuple[Array, Array]:
        """Return the coefficients of samples, and the mean plus the bias of each sample."""
        if self.sparse is not None:
            with refusing_overflow():
                code = encode_entries(rows.entries(), _double(state.L), None, state.biases, prior_of(state))
            check_finite(code.R, code.rows)
            return code.R, code.rows + (0.0 if state.biases is None else state.biases.mean)
        R = np.concatenate([code.R for _, code in apply(self, state, rows)])
        return R.astype(np.float64, copy=False), np.zeros(len(R))

    def predict(self, rows: Batch, state: State, positions: tuple[Index, Index]) -> Array:
        """Return the predicted values at pairs of a row and a column; only those rows are encoded."""
        needed, places = np.unique(positions[0], return_inverse=True)
        columns = positions[1]
        R, offsets = self.coefficients(rows[needed], state)
        values = predict_entries(places, columns, R, state.L) + offsets[places]
        return values if state.biases is None else values + state.biases.columns[columns]


def _double(L: Array) -> Array:
    return L.astype(np.float64, copy=False)
