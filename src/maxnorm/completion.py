"""The learner of completion by default: of two models the one that suits the data.

Tables, whose rows are observed for the most part, are described by the factor model of rows
(:class:`maxnorm.dense.DenseLearner`). Ratings and other matrices with few observed entries are described by
the model of single entries (:class:`maxnorm.entries.EntryLearner`). Between the two, held-out entries decide
if the data, or the first samples of a stream, are not too large, and otherwise the share of observed entries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxnorm import selection
from maxnorm.core.batch import Batch
from maxnorm.core.defaults import gauge_rows
from maxnorm.core.deviations import compute_deviations
from maxnorm.core.encoding import Encoding
from maxnorm.core.entry_model import gauge_of_entries
from maxnorm.core.factor_model import FactorModel
from maxnorm.core.noise import Noise
from maxnorm.core.norms import FactorNorm
from maxnorm.core.state import Contribution, State
from maxnorm.core.types import Array, Index
from maxnorm.dense import DenseLearner
from maxnorm.entries import EntryLearner, EntrySettings
from maxnorm.learner import APPLY_ENTRIES, Learner, apply, learn
from maxnorm.sparse import CompletionLearner


class ChoiceRule(NamedTuple):
    """When entries are held out to choose between the models, and what is chosen otherwise."""

    cells: int = 2**22  #: of the matrix, at most, so that the choice takes seconds
    least: float = 0.1  #: share of observed entries, below which the model of entries is used
    many: float = 0.5  #: share of observed entries, from which streams and larger matrices are tables
    better: float = 0.98  #: error of the model of entries, relative to that of tables, to be chosen
    largest: float = 3.0  #: error of a held-out entry, in scales, if these may be grossly wrong


CHOICE = ChoiceRule()
SEED = 0  # of the models that are compared
SHORT_LIST = 30  # columns that are most wanted, for each that is recommended


class Predictions(NamedTuple):
    """Predicted entries, and the standard deviations of the true values about them."""

    values: Array
    deviations: Array


@dataclass(frozen=True, eq=False)
class CompletionChoice(Learner):
    """A learner that is one of two, whichever suits the first samples better."""

    table: DenseLearner
    entries: EntryLearner
    only_entries: bool = False  #: whether the model of entries is used in any case
    in_rounds: bool = False  #: whether tables are fitted in rounds, not in passes

    def start(self, n_features: int, dtype: np.dtype[Any], seed: int) -> State:
        return self.table.start(n_features, dtype, seed)

    def learner_at(self, state: State) -> Learner:
        """Return the learner of what has been learnt."""
        return self.table if state.entry_model is None else self.entries

    def _is_open(self, state: State) -> bool:
        return not state.time and state.gauge is None and state.entry_model is None

    # -- the choice -----------------------------------------------------------------------------------

    def plan(self, state: State, rows: Batch, last: bool) -> tuple[State, int]:
        if not self._is_open(state):
            return self.learner_at(state).plan(state, rows, last)
        size = self.sample_size(rows)
        if size is None and not last:
            return state, 0
        chosen = self.chosen(rows[:size])
        if chosen is self.entries:
            first = chosen.start(rows.shape[1], state.L.dtype, state.seed)
            state = replace(first, n_samples=state.n_samples, n_steps=state.n_steps)
        return chosen.plan(state, rows, last)

    def sample_size(self, rows: Batch) -> int | None:
        """Return how many rows the choice is made from; None if there are too few."""
        size, least = self.entries.sample_size(rows), gauge_rows(rows.shape[1])
        return None if size is None or len(rows) < least else max(size, least)

    def settled(self, rows: Batch) -> Learner:
        """Return a learner whose choice is made, given the first rows."""
        chosen = self.chosen(rows)
        return chosen if chosen is self.table else replace(self, only_entries=True)

    def chosen(self, rows: Batch) -> DenseLearner | EntryLearner:
        """Return the learner that suits rows."""
        if self.only_entries or rows.features is not None:
            return self.entries
        n, p = rows.shape
        share = float(rows.n_observed.sum()) / max(n * p, 1)
        is_table = share >= CHOICE.many
        if share < CHOICE.least or n * p > CHOICE.cells or (is_table and not self.in_rounds):
            return self.table if is_table else self.entries
        sample = selection.Sample.of(rows.entries(), SEED)
        if sample is None:
            return self.table
        scale = gauge_of_entries(sample.learnt, robust=self.entries.is_robust)[0].scale[sample.columns]
        errors = [self._error(learner, sample, scale) for learner in (self.table, self.entries)]
        return self.entries if errors[1] < CHOICE.better * errors[0] else self.table

    def _error(self, learner: DenseLearner | EntryLearner, sample: selection.Sample, scale: Array) -> float:
        """Return the mean square of the errors of held-out entries, in scales of their columns."""
        dense = np.full(sample.learnt.shape, np.nan)
        learnt = sample.learnt.tocoo()
        dense[learnt.row, learnt.col] = learnt.data
        batch = Batch(dense)
        state = fitted(learner, batch, in_rounds=self.in_rounds)
        values = predict(learner, state, batch, (sample.rows, sample.columns)).values
        errors = np.abs(values - sample.values) / scale
        if self.entries.is_robust:
            errors = np.minimum(errors, CHOICE.largest)
        return float(np.mean(errors**2))

    # -- the three acts, and what is asked of models --------------------------------------------------

    def rows_needed(self, state: State) -> int:
        is_open = self._is_open(state)
        return gauge_rows(len(state.L)) if is_open else self.learner_at(state).rows_needed(state)

    def begin(self, state: State, batch: Batch | None) -> tuple[State, Any]:
        return self.learner_at(state).begin(state, batch)

    def _learner_for(self, settings: Any) -> Learner:
        return self.entries if isinstance(settings, EntrySettings) else self.table

    def measure(self, batch: Batch, L: Array, settings: Any, time: int) -> Contribution:
        return self._learner_for(settings).measure(batch, L, settings, time)

    def update(self, state: State, added: Contribution, settings: Any) -> State:
        return self._learner_for(settings).update(state, added, settings)

    def rows_per_slice(self, batch: Batch, settings: Any) -> int:
        return self._learner_for(settings).rows_per_slice(batch, settings)

    def encode(self, batch: Batch, state: State) -> Encoding:
        return self.learner_at(state).encode(batch, state)

    def norm_at(self, state: State) -> FactorNorm:
        return self.learner_at(state).norm_at(state)

    def noise_at(self, state: State) -> Noise:
        return self.learner_at(state).noise_at(state)

    def model_at(self, state: State) -> FactorModel | None:
        return self.learner_at(state).model_at(state)


def fitted(learner: DenseLearner | EntryLearner, rows: Batch, *, in_rounds: bool = True) -> State:
    """Return what a learner makes of rows: of a table in rounds over all of them, if wanted and possible."""
    most = learner.most_components(*rows.shape) if isinstance(learner, DenseLearner) else None
    if in_rounds and most is not None and isinstance(learner, DenseLearner):
        *_, state = learner.learn_in_rounds(rows, most)
        return state
    return learn(learner, learner.start(rows.shape[1], rows.dtype, SEED), rows)[0]


def predict(learner: Learner, state: State, rows: Batch, positions: tuple[Index, Index]) -> Predictions:
    """Return the predictions at pairs of a row and a column; only those rows are used.

    Without a statistical model, the standard deviations are NaN.
    """
    if isinstance(learner, CompletionLearner):
        values = learner.predict(rows, state, positions)
        return Predictions(values, np.full_like(values, np.nan))
    needed, places = np.unique(positions[0], return_inverse=True)
    rows, columns = rows[needed], positions[1]
    if state.entry_model is not None:
        known = state.entry_model.explain(rows.entries(), rows.features)
        return Predictions(*state.entry_model.predict_at(known, places, columns))
    model = learner.model_at(state)
    values, deviations = np.empty(len(places)), np.full(len(places), np.nan)
    done = 0
    for block, code in apply(learner, state, rows):
        part = np.flatnonzero((places >= done) & (places < done + len(block)))
        here = places[part] - done, columns[part]
        values[part] = code.low_rank(state.L)[here]
        if model is not None:
            Z, observed = block.dense()
            X = Z if observed is None else np.where(observed, Z, np.nan)
            deviations[part] = compute_deviations(model, X).spread[here]
        done += len(block)
    return Predictions(values, deviations)


class Recommendations(NamedTuple):
    """The best columns of each row, best first; -1 and NaN where there are fewer."""

    columns: NDArray[np.intp]
    values: Array


def recommend(learner: Learner, state: State, rows: Batch, k: int, *, by_value: bool) -> Recommendations:
    """Return the k best columns of each row, observed columns excluded, with the predicted values.

    Columns are ordered by the predicted values, or by the chance that they are wanted and liked.
    """
    n, p = rows.shape
    columns, values = np.full((n, k), -1, dtype=np.intp), np.full((n, k), np.nan)
    model = state.entry_model
    has_demand = not by_value and model is not None and model.pattern.n_informative > 0
    size = max(1, APPLY_ENTRIES // p)
    for start in range(0, n, size):
        part = slice(start, start + size)
        best = _most_wanted(state, rows[part], k) if has_demand else _highest(learner, state, rows[part], k)
        columns[part, : best.columns.shape[1]] = best.columns
        values[part, : best.columns.shape[1]] = best.values
    return Recommendations(columns, values)


def _highest(learner: Learner, state: State, rows: Batch, k: int) -> Recommendations:
    """Return the k columns with the highest predicted values that rows do not have yet."""
    predicted = np.concatenate([code.low_rank(state.L) for _, code in apply(learner, state, rows)])
    scores: Array = predicted.astype(np.float64)
    return _best(_without_observed(scores, rows), k)


def _most_wanted(state: State, rows: Batch, k: int) -> Recommendations:
    """Return the k columns that rows most likely want and like, of those that they do not have yet."""
    model, seen, entries = state.entry_model, state.entry_sums, rows.entries()
    assert model is not None
    assert seen is not None
    demand = _without_observed(model.pattern.demand(entries, seen.counts), rows)
    some = best_columns(demand, max(SHORT_LIST * k, SHORT_LIST))
    demand = np.take_along_axis(demand, some, axis=1)
    places = np.repeat(np.arange(len(some)), some.shape[1])
    known = model.explain(entries, rows.features)
    predicted = model.values_at(known, places, some.ravel()).reshape(some.shape)
    merits = np.where(np.isfinite(demand), model.merits(demand, some, predicted), -np.inf)
    best = _best(merits, k)
    is_found = best.columns >= 0
    found = np.take_along_axis(some, best.columns, axis=1)
    values = np.take_along_axis(predicted, best.columns, axis=1)
    return Recommendations(np.where(is_found, found, -1), np.where(is_found, values, np.nan))


def _without_observed(scores: Array, rows: Batch) -> Array:
    """Return scores, in place, in which observed entries are minus infinity."""
    entries = rows.entries()
    scores[np.repeat(np.arange(len(rows)), np.diff(entries.indptr)), entries.indices] = -np.inf
    return scores


def _best(scores: Array, k: int) -> Recommendations:
    """Return the columns of the largest scores and the scores; -1 and NaN where they are not finite."""
    best = best_columns(scores, k)
    found = np.take_along_axis(scores, best, axis=1)
    is_found = np.isfinite(found)
    return Recommendations(np.where(is_found, best, -1), np.where(is_found, found, np.nan))


def best_columns(scores: Array, k: int) -> NDArray[np.intp]:
    """Return the columns of the k largest scores of each row, largest first; equal ones in order."""
    k = min(k, scores.shape[1])
    some = np.sort(np.argpartition(-scores, k - 1, axis=1)[:, :k], axis=1)
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)
