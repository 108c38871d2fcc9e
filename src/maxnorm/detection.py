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
    refresh: int = 80  #: ... and finally after so many rows
    scores: int = 2000  #: last scores, from which the limit follows
    usual_limit: float = 3.0  #: limit before it is known
    window: int = 64  #: last rows; the stream has changed if
    flood: float = 0.5  #: more than this share of them are anomalies


STREAM = StreamRule()


@dataclass
class Memory:
    """What a detector remembers of a stream besides its model."""

    past: Array  #: m x p, rows of the past
    numbers: Array  #: m, their numbers in the stream
    recent: Array  #: the last rows, at most ``STREAM.window``
    alarms: Array  #: which of them are anomalies, as numbers 0 and 1
    scores: Array  #: surprises of the last rows
    history: Array  #: the last ``lags`` rows, which the next row is seen together with
    n_seen: int = 0  #: rows of the stream
    n_process: int = 0  #: rows since the last change
    n_changes: int = 0  #: changes of the model that are taken into account

    @classmethod
    def empty(cls, n_features: int, lags: int) -> Memory:
        """Return the memory before the first row, for a number of features with their lags."""
        nothing = np.empty(0)
        rows = np.empty((0, n_features * (lags + 1)))
        return cls(rows, nothing, rows, nothing, nothing, np.full((lags, n_features), np.nan))

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
        self.alarms = np.concatenate([self.alarms, alarms.astype(np.float64)])[-STREAM.window :]
        self.scores = np.concatenate([self.scores, surprise])[-STREAM.scores :]
        self.n_seen += len(rows)
        self.n_process += len(rows)

    def rows_of_flood(self) -> int:
        """Return the number of last rows that are mostly anomalies; zero if the stream has not changed."""
        if len(self.alarms) < STREAM.window or self.alarms.mean() <= STREAM.flood:
            return 0
        excess = np.cumsum((self.alarms - STREAM.flood)[::-1])
        return int(np.argmax(excess)) + 1

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
        return np.zeros(len(rows)) if self._comparison is None else np.nan_to_num(self._comparison(rows))

    @cached_property
    def usual_deviations(self) -> Array:
        """By how much the usual deviations of each feature exceed those of a normal variable."""
        if self.model is None or self.past is None:
            raise ValueError(TOO_FEW)
        return usual_deviations(compute_deviations(self.model, self.past).deviation, ~np.isnan(self.past))
