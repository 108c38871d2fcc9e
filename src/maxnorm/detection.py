"""What a detector of anomalies remembers of a stream, and by what it judges the next rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxnorm.core.deviations import compute_deviations, usual_deviations
from maxnorm.core.factor_model import FactorModel
from maxnorm.core.surprise import Comparison
from maxnorm.core.types import Array, Mask

TOO_FEW = "the detector has not learnt from enough rows; pass more rows to fit or score_learn"


@dataclass(frozen=True)
class StreamRule:
    """How a stream is followed."""

    rows: int = 256  #: rows of the past that are kept for comparison,
    entries: int = 2**19  #: or as many as have so many entries
    memory: int = 4000  #: rows over which they are spread, or fewer if the model counts fewer
    first: int = 20  #: row after which rows are judged; the judgement is then renewed at twice this row, ...
    refresh: int = 100  #: ... and finally after so many rows
    scores: int = 2000  #: last scores, from which the limit follows
    usual_limit: float = 3.0  #: limit before it is known
    features_per_component: int = 3  #: of the model, which has spare components,
    few_components: int = 5  #: but not fewer than these, or half the number of features,
    most_components: int = 20  #: and not more than these
    minority: float = 0.3  #: share of anomalies among the last rows up to which they count for the model
    weight_of_anomaly: float = 0.01  #: only so much
    least_rows: int = 500  #: of a process, before which no change of it is noticed
    window: int = 160  #: last rows that are kept; the process has changed if in
    last: int = 32  #: most of the last of them
    many_entries: float = 0.15  #: more than this share of the entries, beyond the usual share,
    deviation: float = 4.0  #: deviate by so many standard deviations of the prediction,
    material: float = 0.1  #: and so many of the feature,
    before: int = 8  #: and if the rows before the first of them
    sudden: float = 0.5  #: had deviations of less than this share of those after it

    def n_components(self, n_features: int) -> int:
        """Return the number of components of the model of a stream."""
        wanted = max(n_features // self.features_per_component, self.few_components)
        return max(min(wanted, n_features // 2, self.most_components), 1)


STREAM = StreamRule()


@dataclass
class Memory:
    """What a detector remembers of a stream besides its model."""

    past: Array  #: m x p, rows of the past
    numbers: Array  #: m, their numbers in the stream
    recent: Array  #: the last rows, at most ``STREAM.window``
    scores: Array  #: surprises of the last rows
    history: Array  #: the last ``lags`` rows, which the next row is seen together with
    n_seen: int = 0  #: rows of the stream
    n_process: int = 0  #: rows since the last change
    n_changes: int = 0  #: changes of the model that are taken into account
    alarm_share: float = 0.0  #: share of anomalies among the last rows

    @classmethod
    def empty(cls, n_features: int, lags: int) -> Memory:
        """Return the memory before the first row, for a number of features with their lags."""
        nothing = np.empty(0)
        rows = np.empty((0, n_features * (lags + 1)))
        return cls(rows, nothing, rows, nothing, np.full((lags, n_features), np.nan))

    def remember(self, rows: Array, surprise: Array, alarms: Mask, memory: float = STREAM.memory) -> None:
        """Take up rows that follow, with their surprises; rows of the past are replaced by some of them.

        The rows of the past are spread over the last ``memory`` rows.
        """
        capacity = int(min(STREAM.rows, max(STREAM.entries // rows.shape[1], STREAM.first)))
        usable = np.flatnonzero(~alarms & ~np.isnan(rows).all(axis=1))
        free = usable[: max(capacity - len(self.past), 0)]
        if len(free):
            self.past = np.concatenate([self.past, rows[free]])
            self.numbers = np.concatenate([self.numbers, self.n_seen + free])
        for i in usable[len(free) :].tolist():
            # Multiples of irrational numbers, modulo one, are spread evenly and have no period.
            share = capacity / min(max(self.n_process + i + 1.0, capacity), max(memory, capacity))
            if (self.n_seen + i) * math.sqrt(2.0) % 1.0 < share:
                place = int((self.n_seen + i) * math.sqrt(3.0) % 1.0 * len(self.past))
                self.past[place], self.numbers[place] = rows[i], self.n_seen + i
        self.recent = np.concatenate([self.recent, rows])[-STREAM.window :]
        self.scores = np.concatenate([self.scores, surprise])[-STREAM.scores :]
        self.n_seen += len(rows)
        self.n_process += len(rows)

    def sample_weights(self, alarms: Mask) -> Array | None:
        """Return how much rows that follow count for the model, given which are anomalies; None if all alike.

        Anomalies hardly count, unless they are so many that the model has to follow them.
        """
        weights = np.ones(len(alarms))
        for i, is_alarm in enumerate(alarms.tolist()):
            self.alarm_share += (is_alarm - self.alarm_share) / STREAM.last
            if is_alarm and self.alarm_share < STREAM.minority:
                weights[i] = STREAM.weight_of_anomaly
        return None if weights.min() == 1.0 else weights

    def begin_process(self, n_rows: int) -> None:
        """Forget all rows of the past but the last ones, which are the first of a new process."""
        self.past, self.numbers = self.recent[-n_rows:], self.n_seen - n_rows + np.arange(n_rows, dtype=float)
        self.recent, self.n_process = self.recent[:0], n_rows

    def forget_before(self, number: float) -> None:
        """Forget the rows of the past before a change."""
        kept = self.numbers >= number
        self.past, self.numbers = self.past[kept], self.numbers[kept]
        self.n_process = self.n_seen - int(number)


@dataclass(frozen=True, eq=False)
class Judge:
    """Says how surprising rows are, and from where on they are anomalies."""

    model: FactorModel | None = None  #: None before anything is known
    past: Array | None = None  #: rows with which others are compared
    limit: float = STREAM.usual_limit

    @cached_property
    def _comparison(self) -> Comparison | None:
        if self.model is None or self.past is None or len(self.past) < 2:
            return None
        return Comparison(self.model, self.past)

    @property
    def is_ready(self) -> bool:
        """Whether rows can be judged."""
        return self._comparison is not None

    def __call__(self, rows: Array) -> Array:
        """Return the surprise of rows; that of rows without entries, or before any other, is zero."""
        if self._comparison is None:
            return np.zeros(len(rows))
        surprise = self._comparison(rows)
        surprise[np.isnan(surprise)] = 0.0
        return surprise

    def rows_of_new_process(self, rows: Array) -> int:
        """Return how many of the last rows belong to a new process; zero if there is none.

        In most of these rows many entries deviate, and they have begun to do so suddenly. Deviations that
        grow gradually are those of a process that enters a state for the first time, and are learnt.
        """
        if self._comparison is None or len(rows) < STREAM.last:
            return 0
        if np.mean(self._deviating_share(rows[-STREAM.last :]) > STREAM.many_entries) <= 0.5:
            return 0
        usual = float(np.mean(self._deviating_share(self._comparison.past)))
        is_new = self._deviating_share(rows) > usual + STREAM.many_entries
        if np.mean(is_new[-STREAM.last :]) <= 0.5:
            return 0
        n_new = int(np.argmax(np.cumsum(is_new[::-1] - 0.5))) + 1
        size = np.quantile(self._material_deviations(rows), 1.0 - STREAM.many_entries, axis=1)
        before, after = size[:-n_new][-STREAM.before :], size[len(size) - n_new :][: STREAM.before]
        is_sudden = len(before) > 0 and np.median(before) < STREAM.sudden * np.median(after)
        return n_new if is_sudden else 0

    def _deviating_share(self, rows: Array) -> Array:
        """Return the share of the observed entries of each row that deviate much."""
        n_observed = np.maximum((~np.isnan(rows)).sum(axis=1), 1)
        deviates = self._material_deviations(rows) > STREAM.deviation
        return deviates.sum(axis=1) / n_observed

    def _material_deviations(self, rows: Array) -> Array:
        """Return the deviations of entries that are not negligible in units of the feature."""
        assert self._comparison is not None
        found = compute_deviations(self._comparison.model, rows)
        deviation, feature = np.abs(found.deviation), self._comparison.feature_deviations
        return np.where(deviation * found.spread > STREAM.material * feature, deviation, 0.0)

    @cached_property
    def usual_deviations(self) -> Array:
        """By how much the usual deviations of each feature exceed those of a normal variable."""
        if self.model is None or self.past is None:
            raise ValueError(TOO_FEW)
        return usual_deviations(compute_deviations(self.model, self.past).deviation, ~np.isnan(self.past))
