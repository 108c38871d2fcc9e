"""The estimator that fills gaps of series, whose rows follow each other in time."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from maxnorm.core.types import Array, Mask
from maxnorm.estimators._base import RandomState
from maxnorm.estimators.completion import MaxNormCompletion
from maxnorm.estimators.reporting import ReportMixin
from maxnorm.estimators.validation import Number, check_number, warn_of_empty_columns

LEAST_HIDDEN = 50  # entries that must be hidden to choose weights; with fewer, the model alone is used
SHIFTS = (0.5, 0.25, 0.75)  # of the series, by which the gaps are moved to hide entries


class SeriesImputer(ReportMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Imputation of gaps in series, from other series and from neighbours in time.

    Rows follow each other in time. Each row is joined with its neighbours in time, and the gaps are filled by
    :class:`MaxNormCompletion`; what several rows say of an entry is averaged. If the series have a rhythm of
    known period, the same is done with one row per period. These predictions and linear interpolation are
    combined with weights, which are found by hiding entries in gaps like those of the data: the gaps moved in
    time.

    Parameters
    ----------
    lags : int, default=3
        Number of neighbours in time on each side that a row is joined with.
    period : int or None, default=None
        Number of rows of a period, such as 24 for hourly values with a daily rhythm.
    random_state : int, RandomState or None, default=None
        Seed of the random start. Pass an int for results that can be repeated.

    Attributes
    ----------
    model_ : MaxNormCompletion
        The model of rows that are joined with their neighbours.
    period_model_ : MaxNormCompletion
        The model of periods, if there is a period.
    weights_ : ndarray
        Weights of the model of rows, of interpolation and, if there is a period, of the model of periods.
    n_features_in_ : int
        Number of series seen during fit.
    feature_names_in_ : ndarray of str
        Names of the series, if the data have names.

    See Also
    --------
    MaxNormCompletion : Fills gaps of tables whose rows have no order.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm import SeriesImputer
    >>> t = np.arange(400)
    >>> X = np.column_stack([np.sin(t / 9), np.cos(t / 9), np.sin(t / 9 + 1)])
    >>> X[50:80, 0] = np.nan
    >>> filled = SeriesImputer(random_state=0).fit_transform(X)
    >>> bool(abs(filled[65, 0] - np.sin(65 / 9)) < 0.05)
    True
    """

    def __init__(self, lags: int = 3, *, period: int | None = None, random_state: RandomState = None) -> None:
        self.lags = lags
        self.period = period
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Fit the models to series, and find their weights.

        Parameters
        ----------
        X : array-like of shape (n_times, n_series)
            The series in columns, in the order of time. NaN marks missing entries.
        y : object, default=None
            Ignored; present for compatibility with pipelines.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        check_number(self, "lags", Number(Integral, 0))
        check_number(self, "period", Number(Integral, 2, alternatives=(None,)))
        Z = self._validated(X, reset=True)
        warn_of_empty_columns(Z, stacklevel=2)
        hidden = hide_gaps(Z)
        n_ways = 2 if self.period is None else 3
        self.weights_ = np.eye(n_ways)[0]
        if hidden is not None:
            known = np.where(hidden, np.nan, Z)
            self._fit_models(known)
            scale = np.nanstd(Z, axis=0)
            scale = np.broadcast_to(np.where(scale > 0.0, scale, 1.0), Z.shape)[hidden]
            ways = np.column_stack([way[hidden] / scale for way in self._predictions(known)])
            self.weights_ = best_weights(ways, Z[hidden] / scale)
        self._fit_models(Z)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Fill in the gaps; observed entries stay as they are.

        Parameters
        ----------
        X : array-like of shape (n_times, n_series)
            The series in columns, in the order of time. NaN marks missing entries.

        Returns
        -------
        X_filled : ndarray of shape (n_times, n_series)
            The series without gaps.
        """
        check_is_fitted(self)
        Z = self._validated(X, reset=False)
        if not np.isnan(Z).any():
            return Z.copy()
        predicted = sum(weight * way for weight, way in zip(self.weights_, self._predictions(Z), strict=True))
        return np.where(np.isnan(Z), predicted, Z).astype(Z.dtype)

    def _validated(self, X: ArrayLike, *, reset: bool) -> Array:
        found: Array = validate_data(
            self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan"
        )
        return found

    def _fit_models(self, Z: Array) -> None:
        self.model_ = self._fitted(join_neighbours(Z, self.lags))
        if self.period is not None:
            self.period_model_ = self._fitted(join_periods(Z, self.period))

    def _fitted(self, rows: Array) -> MaxNormCompletion:
        """Return a model of joined rows, some of whose columns may have no entries."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="nothing is observed in")
            return MaxNormCompletion(random_state=self.random_state).fit(rows)

    def _predictions(self, Z: Array) -> list[Array]:
        """Return the predictions of the model of rows, of interpolation, and of the model of periods."""
        n, p = Z.shape
        rows = self.model_.predict_entries(join_neighbours(Z, self.lags))
        ways = [average_neighbours(rows, self.lags, p), interpolate(Z)]
        if self.period is not None:
            periods = self.period_model_.predict_entries(join_periods(Z, self.period))
            ways.append(periods.reshape(-1, p)[:n])
        return ways

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def join_neighbours(Z: Array, lags: int) -> Array:
    """Return rows joined with those around them; what is before the first and after the last is missing."""
    n, p = Z.shape
    padded = np.full((n + 2 * lags, p), np.nan, Z.dtype)
    padded[lags : lags + n] = Z
    return np.hstack([padded[shift : shift + n] for shift in range(2 * lags + 1)])


def average_neighbours(joined: Array, lags: int, p: int) -> Array:
    """Return for each entry the average of what the rows that were joined with it say."""
    n = len(joined)
    parts = joined.reshape(n, 2 * lags + 1, p)
    total, count = np.zeros((n + 2 * lags, p)), np.zeros((n + 2 * lags, 1))
    for shift in range(2 * lags + 1):
        total[shift : shift + n] += parts[:, shift]
        count[shift : shift + n] += 1.0
    return (total / np.maximum(count, 1.0))[lags : lags + n]


def join_periods(Z: Array, period: int) -> Array:
    """Return one row per period; the last one is filled up with missing entries."""
    n, p = Z.shape
    n_periods = -(-n // period)
    padded = np.full((n_periods * period, p), np.nan, Z.dtype)
    padded[:n] = Z
    return padded.reshape(n_periods, period * p)


def interpolate(Z: Array) -> Array:
    """Return series whose gaps are filled along straight lines; those without entries are zero."""
    filled, times = np.zeros(Z.shape), np.arange(len(Z))
    for j, column in enumerate(Z.T):
        there = ~np.isnan(column)
        if there.any():
            filled[:, j] = np.interp(times, times[there], column[there])
    return filled


def hide_gaps(Z: Array) -> Mask | None:
    """Return entries to hide: those that would be missing if the gaps were elsewhere in time.

    None means that there are too few of them.
    """
    missing = np.isnan(Z)
    for shift in SHIFTS:
        hidden: Mask = np.roll(missing, int(shift * len(Z)), axis=0) & ~missing
        hidden[:, (missing | hidden).all(axis=0)] = False  # every series keeps some entries
        if hidden.sum() >= LEAST_HIDDEN:
            return hidden
    return None


def best_weights(ways: Array, truth: Array) -> Array:
    """Return the weights, none negative and of sum one, with which predictions are best together."""
    found, _ = nnls(ways.T @ ways, ways.T @ truth)
    total = float(found.sum())
    return found / total if total > 0.0 else np.eye(ways.shape[1])[0]
