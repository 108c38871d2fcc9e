"""``AnomalyDetector``: which rows and entries of a table or stream are anomalous, and why."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from maxnorm.changes import changes_until, restart
from maxnorm.core.alarms import alarm_limit
from maxnorm.core.deviations import Deviations, compute_deviations
from maxnorm.core.drift import Change
from maxnorm.core.surprise import Comparison
from maxnorm.core.types import Array
from maxnorm.detection import STREAM, Judge, Memory
from maxnorm.estimators._base import RandomState, Samples, SavedMixin, is_streamed
from maxnorm.estimators.decomposition import MaxNormDecomposition
from maxnorm.estimators.frames import is_pandas
from maxnorm.estimators.reporting import ReportMixin
from maxnorm.estimators.validation import Number, all_or_nothing, check_number, invalid, validate_array
from maxnorm.learner import Progress, settle
from maxnorm.streams import open_stream
from maxnorm.streams.stream import needs

FOLDS, FEW_ROWS = 5, 2000  # scores are cross-validated if the rows are fewer
LARGEST_SAMPLE = 5000  # rows of which the scores are computed otherwise
ENTRY_SHARE = 0.2  # of the rate of false alarms, for single entries
REASONS = 3  # features that are named for an anomalous row


class Explanation(NamedTuple):
    """Why rows are anomalous: two data frames of pandas.

    It is a named tuple, so that the two can be unpacked or read by name.

    Attributes
    ----------
    entries : DataFrame
        Anomalous entries, with the columns ``row`` (the position), ``index`` (the label of the row),
        ``feature``, ``value``, ``expected`` and ``deviation``, which is in standard deviations.
    rows : DataFrame
        Anomalous rows, with the columns ``row``, ``index``, ``score`` (negative; the lower, the more
        anomalous) and ``features``, the features that deviate most.

    See Also
    --------
    AnomalyDetector.explain : Returns an explanation.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm import AnomalyDetector
    >>> X = np.random.default_rng(0).standard_normal((500, 3)) @ np.ones((3, 8))
    >>> X[7, 2] += 100.0
    >>> found = AnomalyDetector(random_state=0).fit(X).explain(X)
    >>> found.entries[["row", "feature"]].values.tolist()
    [[7, 2]]
    """

    entries: Any
    rows: Any


class AnomalyDetector(SavedMixin, ReportMixin, OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """Detector of anomalous rows and entries in tables and streams, with a stated rate of false alarms.

    A row is compared with a robust factor model of the data and with rows of the past, in three ways: how
    rare its entries are, how far it is from other rows, and how badly its entries go together. Units do not
    matter, entries may be missing, and a row with gaps is not more or less suspicious than others. Nothing
    needs to be set but the rate of false alarms.

    For a table, use ``fit`` and ``predict``. For a stream, ``score_learn`` judges each row by what was learnt
    before it, and learns from it. If the process changes, the detector follows, and ``changes_`` reports it.

    Parameters
    ----------
    estimator : MaxNormDecomposition, OnlineRobustPCA or None, default=None
        The model of the data, which must have its default settings of ``center``, ``scale``, ``noise`` and
        the weights. None means ``MaxNormDecomposition()``, in streams with one component per three features,
        at least 5 (or half the number of features) and at most 20, because the first rows do not show what
        components later ones need.
    alarm_rate : float, default=0.01
        Share of usual rows that may be called anomalous, above 0 and at most 0.5.
    lags : int, default=0
        Number of preceding rows that each row is seen together with, for sensors with dynamics. The number of
        features is multiplied by ``lags + 1``.
    random_state : int, RandomState or None, default=None
        Seed of the model, unless the estimator has one.

    Attributes
    ----------
    offset_ : float
        The score below which a row is an anomaly.
    changes_ : list of Change
        Changes of the stream, oldest first, as for :class:`MaxNormDecomposition`. ``sample`` counts the rows
        that were learnt from.
    estimator_ : MaxNormDecomposition
        The fitted model.
    n_samples_seen_ : int
        Number of rows learnt from.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of str
        Names of the features, if the data have names.

    See Also
    --------
    MaxNormDecomposition : The model; its ``decompose`` separates gross errors from the rest.
    sklearn.ensemble.IsolationForest : Detects anomalous rows of tables, without regard to streams or gaps.

    Notes
    -----
    The rate of false alarms refers to rows that are independent of each other. A single series has no other
    features to be compared with: a running median does better there.

    With ``fit``, the limit follows from scores that are cross-validated if there are fewer than 2000 rows;
    with ``score_learn``, from the last 2000 scores. Scores far beyond those that the bulk suggests are left
    out. If there are fewer than five scores beyond the limit to be expected, a chi-squared distribution is
    adapted to the bulk of the scores.

    Examples
    --------
    A sensor shows a value that is usual for itself, but not together with the others:

    >>> import numpy as np
    >>> from maxnorm import AnomalyDetector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 1)) + 0.1 * rng.standard_normal((1000, 4))
    >>> X[10] = [1.0, 1.0, -1.0, 1.0]
    >>> X *= [1.0, 50.0, 1e3, 1e-3]  # units do not matter
    >>> detector = AnomalyDetector(random_state=0).fit(X)
    >>> int(detector.predict(X)[10])
    -1
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        alarm_rate: float = 0.01,
        lags: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.alarm_rate = alarm_rate
        self.lags = lags
        self.random_state = random_state

    # -- learning -------------------------------------------------------------------------------------

    def fit(self, X: Samples, y: object = None) -> Self:
        """Learn from all rows of X, which are treated alike; everything learnt before is forgotten.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Stream
            Samples in rows. NaN marks missing entries. A stream is learnt from row by row, as by
            :meth:`score_learn`.
        y : object, default=None
            Ignored; present for compatibility with pipelines.

        Returns
        -------
        self : object
            The fitted detector.
        """
        with all_or_nothing(self):
            for name in ("estimator_", "_memory", "_judge"):
                self.__dict__.pop(name, None)
            self._check_parameters()
            if is_streamed(X):
                for batch in open_stream(X):
                    self.score_learn(batch)
                return self
            rows = self._validated(X, reset=True)
            self._memory = Memory.empty(self.n_features_in_, self.lags)
            embedded = self._embedded(rows)
            self.estimator_ = self._new_estimator().fit(embedded)
            self._learn_table(embedded)
        return self

    def _learn_table(self, rows: Array) -> None:
        """Choose rows for comparison, and find the limit of their scores."""
        memory = self._memory
        rng = np.random.default_rng(0)
        memory.remember(rows[rng.permutation(len(rows))], np.empty(0), np.zeros(len(rows), dtype=np.bool_))
        memory.recent = memory.recent[:0]
        if len(rows) < FEW_ROWS:
            memory.scores = self._cross_validated_scores(rows)
        else:
            self._renew()
            memory.scores = self._judge(rows[rng.permutation(len(rows))[:LARGEST_SAMPLE]])
        self._renew()

    def _cross_validated_scores(self, rows: Array) -> Array:
        fold = np.arange(len(rows)) % FOLDS
        scores = []
        for k in range(FOLDS):
            kept = rows[fold != k]
            if len(kept) < 2 or not np.any(fold == k) or np.isnan(kept).all():
                continue
            model = self._new_estimator().fit(kept)._model()
            past = kept[~np.isnan(kept).all(axis=1)][: STREAM.rows]
            scores.append(Comparison(model, past)(rows[fold == k]) if len(past) > 1 else np.empty(0))
        return np.concatenate([np.empty(0), *scores])

    def partial_fit(self, X: Samples, y: object = None) -> Self:
        """Learn from more rows, in the order of time, as :meth:`score_learn` does.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.
        y : object, default=None
            Ignored; present for compatibility with pipelines.

        Returns
        -------
        self : object
            The detector.
        """
        self.score_learn(X)
        return self

    def score_learn(self, X: Samples) -> Array:
        """Judge each row by what was learnt before it, and learn from it.

        How the rows are divided into calls makes no difference. Anomalous rows hardly influence the model:
        their gross errors are recognised, and they are not compared with. If many entries of most of the last
        rows are not as expected, the process has changed, and the model is learnt anew; see ``changes_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows, in the order of time. NaN marks missing entries.

        Returns
        -------
        decision : ndarray of shape (n_samples,)
            Negative for anomalies, as :meth:`decision_function`. The first twenty rows are not judged.
        """
        is_new = not self.__sklearn_is_fitted__()
        with all_or_nothing(self):
            if is_new:
                self._check_parameters()
            rows = self._validated(X, reset=is_new)
            if is_new:
                self._memory = Memory.empty(self.n_features_in_, self.lags)
                self.estimator_ = self._new_estimator(STREAM.n_components(self._memory.past.shape[1]))
                self._judge = Judge()
            embedded = self._embedded(rows)
            decision, start = np.empty(len(rows)), 0
            while start < len(rows):
                part = embedded[start : start + self._rows_until_renewal()]
                decision[start : start + len(part)] = self._step(part)
                start += len(part)
        return decision

    def _step(self, rows: Array) -> Array:
        """Judge rows and learn from them; if it is time, renew the judge."""
        memory, judge = self._memory, self._judge
        surprise = judge(rows)
        decision = judge.limit - surprise
        self.estimator_.partial_fit(rows, sample_weight=memory.sample_weights(decision < 0.0))
        length = self._counted_rows if self._is_drifting else STREAM.memory
        memory.remember(rows, surprise if judge.is_ready else np.empty(0), decision < 0.0, length)
        if self._rows_until_renewal() == STREAM.refresh or memory.n_process in self._first_renewals:
            self._follow_changes()
            self._renew()
        return decision

    @property
    def _counted_rows(self) -> float:
        return float(min(self.estimator_._progress.state.statistics.weight, STREAM.memory))

    @property
    def _is_drifting(self) -> bool:
        drift = self.estimator_._progress.state.drift
        return drift is not None and drift.is_drifting

    _first_renewals = tuple(STREAM.first * 2**k for k in range(5))

    def _rows_until_renewal(self) -> int:
        """Return the number of rows after which the judge is renewed."""
        n = self._memory.n_process
        later = [row for row in self._first_renewals if row > n]
        return later[0] - n if later else STREAM.refresh - (n - self._first_renewals[-1]) % STREAM.refresh

    def _follow_changes(self) -> None:
        """Forget rows before a change of the process, which the model or a flood of anomalies has shown."""
        memory, estimator = self._memory, self.estimator_
        is_known = estimator._has_data and memory.n_process >= STREAM.least_rows
        n_rows = self._judge.rows_of_new_process(memory.recent) if is_known else 0
        estimator._progress = settle(estimator._learner(), estimator._progress)
        changes = [change for change in self.changes_ if change.kind != "drift"]
        if len(changes) > memory.n_changes and (changes[-1].kind == "new" or not n_rows):
            memory.n_changes = len(changes)
            memory.forget_before(changes[-1].sample)
        elif n_rows:
            estimator._progress = Progress(restart(estimator._progress.state, n_rows))
            estimator.partial_fit(memory.recent[-n_rows:])
            memory.n_changes = len([change for change in self.changes_ if change.kind != "drift"])
            memory.begin_process(n_rows)

    def _renew(self) -> None:
        """Judge rows by what is known now."""
        memory = self._memory
        limit = alarm_limit(memory.scores, self.alarm_rate, memory.past.shape[1])
        self._judge = Judge(
            self.estimator_._model(),
            memory.past.copy(),
            limit if math.isfinite(limit) else STREAM.usual_limit,
        )

    def _new_estimator(self, n_components: int | Literal["auto"] = "auto") -> Any:
        estimator = MaxNormDecomposition(n_components) if self.estimator is None else clone(self.estimator)
        if estimator.random_state is None:
            estimator.set_params(random_state=self.random_state)
        return estimator

    def _check_parameters(self) -> None:
        check_number(self, "lags", Number(Integral, 0))
        rate = self.alarm_rate
        if isinstance(rate, bool) or not isinstance(rate, float | int) or not 0.0 < rate <= 0.5:
            raise invalid(self, "alarm_rate", "a number above 0 and at most 0.5")
        if self.estimator is not None and not hasattr(self.estimator, "mahalanobis"):
            raise invalid(self, "estimator", "a MaxNormDecomposition, an OnlineRobustPCA or None")

    def _validated(self, X: Samples, *, reset: bool) -> Array:
        return validate_array(self, X, reset=reset).values.astype(np.float64, copy=False)

    def _embedded(self, rows: Array, history: Array | None = None) -> Array:
        """Return each row together with the rows before it.

        Without a ``history``, the rows before the first are those of the stream so far, which then ends with
        the last of the rows.
        """
        if not self.lags:
            return rows
        before = self._memory.history if history is None else history
        series = np.concatenate([before, rows])
        if history is None:
            self._memory.history = series[-self.lags :]
        return np.hstack([series[self.lags - k : len(series) - k] for k in range(self.lags + 1)])

    # -- judging --------------------------------------------------------------------------------------

    def _checked_rows(self, X: Samples) -> Array:
        """Return rows to be judged, together with the rows before them, of which the first has none."""
        check_is_fitted(self)
        rows = self._validated(X, reset=False)
        return self._embedded(rows, np.full((self.lags, rows.shape[1]), np.nan))

    def score_samples(self, X: Samples) -> Array:
        """Return the score of each row; the lower, the more anomalous.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            About zero for a usual row, and minus one for a row such as one in ten. Rows without any entry
            have the mean score of the rows learnt from.
        """
        rows = self._checked_rows(X)
        scores = -self._judge(rows)
        empty = np.isnan(rows).all(axis=1)
        if empty.any() and len(self._memory.scores):
            scores[empty] = -float(np.nanmean(self._memory.scores))
        return scores

    def decision_function(self, X: Samples) -> Array:
        """Return the score of each row minus ``offset_``, which is negative for anomalies.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        decision : ndarray of shape (n_samples,)
            Negative for anomalies.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Samples) -> Array:
        """Return -1 for anomalous rows, and +1 for the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            -1 for anomalies and +1 for the others.
        """
        return np.where(self.decision_function(X) < 0.0, -1, 1)

    def explain(self, X: Samples) -> Explanation:
        """Return tables of the anomalous entries and of the anomalous rows, which needs pandas.

        An entry is compared with what the other entries of its row predict for it. A fifth of ``alarm_rate``
        is the share of usual rows of which an entry is called anomalous.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        explanation : Explanation
            A named tuple of the data frames ``entries`` and ``rows``.
        """
        pandas = needs("pandas", "explain", "io")
        rows = self._checked_rows(X)
        found = self.deviations(X)
        values = rows[:, : self.n_features_in_]
        names = np.asarray(getattr(self, "feature_names_in_", np.arange(self.n_features_in_)))
        index = X.index if is_pandas(X) else np.arange(len(rows))
        i, j = np.nonzero(np.abs(found.deviation) > self.deviation_limit_)
        entries = {
            "row": i,
            "index": index[i],
            "feature": names[j],
            "value": values[i, j],
            "expected": found.expected[i, j],
            "deviation": found.deviation[i, j],
        }
        decision = self.decision_function(X)
        anomalous = np.flatnonzero(decision < 0.0)
        largest = np.argsort(-np.abs(found.deviation[anomalous]), axis=1)[:, :REASONS]
        reasons = [", ".join(str(names[k]) for k in row) for row in largest]
        about_rows = {
            "row": anomalous,
            "index": index[anomalous],
            "score": decision[anomalous],
            "features": reasons,
        }
        return Explanation(pandas.DataFrame(entries), pandas.DataFrame(about_rows))

    def deviations(self, X: Samples) -> Deviations:
        """Compare each entry with what the other entries of its row predict for it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        deviations : Deviations
            A named tuple of ``expected``, the predictions in the units of X, also where entries are missing,
            ``deviation``, what the entries are off in standard deviations, and ``spread``, these standard
            deviations.
        """
        rows = self._checked_rows(X)
        p = self.n_features_in_
        usual = self._judge.usual_deviations[:p]
        assert self._judge.model is not None
        found = compute_deviations(self._judge.model, rows)
        return Deviations(found.expected[:, :p], found.deviation[:, :p] / usual, found.spread[:, :p] * usual)

    # -- what was learnt ------------------------------------------------------------------------------

    @property
    def offset_(self) -> float:
        """The score below which a row is an anomaly."""
        check_is_fitted(self)
        return -self._judge.limit

    @property
    def deviation_limit_(self) -> float:
        """The deviation, in standard deviations, beyond which an entry is anomalous."""
        return -float(ndtri(0.5 * ENTRY_SHARE * self.alarm_rate / self.n_features_in_))

    @property
    def changes_(self) -> list[Change]:
        """Changes of the stream that were noticed, oldest first."""
        check_is_fitted(self)
        return list(changes_until(self.estimator_._progress.state))

    @property
    def n_samples_seen_(self) -> int:
        """Number of rows learnt from."""
        check_is_fitted(self)
        return self._memory.n_seen

    def __sklearn_is_fitted__(self) -> bool:
        return "_memory" in self.__dict__ and "estimator_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
