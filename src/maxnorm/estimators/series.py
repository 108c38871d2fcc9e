"""The estimator that fills gaps of series, whose rows follow each other in time."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from maxnorm.completion import fitted
from maxnorm.core.batch import Batch
from maxnorm.core.types import Array, Mask
from maxnorm.dense import DenseLearner
from maxnorm.estimators._base import RandomState, SavedMixin
from maxnorm.estimators.decomposition import OnlineRobustPCA
from maxnorm.estimators.reporting import ReportMixin
from maxnorm.estimators.validation import (
    PRECISIONS,
    Number,
    advice_on_text,
    all_or_nothing,
    check_choice,
    check_number,
    warn_of_empty_columns,
    without_mask,
)
from maxnorm.learner import Progress
from maxnorm.series import (
    N_DISTANCES,
    average_neighbours,
    correct,
    distance_class,
    find_gross_errors,
    hide_gaps,
    interpolate,
    join_neighbours,
    join_periods,
    repeat_period,
    usual_period,
    weights_by_distance,
)

WAYS = ("rows", "rows, corrected", "neighbours", "neighbours, corrected", "interpolation")
USUAL_WAY = "rows, corrected"  # if entries are too few to find weights; for one series, it is interpolation
WAYS_OF_PERIODS = ("usual period", "usual period, corrected", "periods")
MOST_LAGS, LAGGED_SERIES = 3, 120  # "auto" joins rows with so many neighbours, and fewer if series are many


class SeriesImputer(SavedMixin, ReportMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Imputation of gaps in series, from other series, from neighbours in time and from other periods.

    Rows follow each other in time. The missing entries are predicted in several ways: by a factor model of
    rows, by one of rows that are joined with their neighbours in time, by linear interpolation and, if the
    series have a rhythm of known period, by the usual period and by a factor model of whole periods. Some
    predictions are also corrected by their interpolated errors, which are known on both sides of a gap. All
    are combined with weights, which depend on the distance to the nearest observed entries. The weights are
    found by hiding entries in gaps like those of the data, which are the same gaps at another time, or in
    random gaps if the data have few.

    Observed entries that are gross errors are recognised, and are not used to fill gaps.

    Parameters
    ----------
    lags : int or "auto", default="auto"
        Number of neighbours in time on each side that a row is joined with. "auto" means 3, or fewer if there
        are more than 40 series, at least 1.
    period : int or None, default=None
        Number of rows of a period, such as 24 for hourly values with a daily rhythm. It must be smaller than
        the number of rows. None means that the series have no known rhythm. Rows that are passed to
        ``transform`` must begin at the same time of the period as those that were passed to ``fit``.
    noise : {"auto", "none"}, default="auto"
        Errors of the observed entries. With "auto", entries that differ grossly both from the predictions of
        a robust factor model of rows and from their neighbours in time count as missing while gaps are
        filled; ``transform`` returns them unchanged. With "none", all observed entries are used.
    random_state : int, RandomState or None, default=None
        Seed of the random start. Pass an int for results that can be repeated.

    Attributes
    ----------
    model_ : OnlineRobustPCA
        The factor model of rows.
    lagged_model_ : OnlineRobustPCA
        The factor model of rows that are joined with their neighbours.
    period_model_ : OnlineRobustPCA or None
        The factor model of periods, if there is a period.
    robust_model_ : OnlineRobustPCA or None
        The model by which gross errors are recognised; None with ``noise="none"``.
    lags_ : int
        Number of neighbours in time on each side that a row is joined with.
    usual_period_ : ndarray of shape (period, n_series) or None
        The means of the series at the times of the period.
    weights_ : ndarray of shape (2 n_distances, n_ways)
        Weights of the ways to predict an entry, in the order of ``ways_``, with one row for each class of
        distances to the nearest observed entries, in rising order: first for times at which other series are
        observed, and then for times at which none is.
    ways_ : tuple of str
        Names of the ways to predict an entry.
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

    def __init__(
        self,
        lags: int | Literal["auto"] = "auto",
        *,
        period: int | None = None,
        noise: Literal["auto", "none"] = "auto",
        random_state: RandomState = None,
    ) -> None:
        self.lags = lags
        self.period = period
        self.noise = noise
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
        self._check_parameters()
        with all_or_nothing(self):
            given = self._validated(X, reset=True)
            warn_of_empty_columns(given, stacklevel=2)
            self._fit(given)
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
        known = self._without_gross_errors(Z)
        classes = distance_class(known)
        predicted = np.zeros(Z.shape)
        for weights, way in zip(self.weights_.T, self._predictions(known), strict=True):
            predicted += weights[classes] * way
        return np.where(np.isnan(Z), predicted, Z).astype(Z.dtype)

    @property
    def ways_(self) -> tuple[str, ...]:
        """Names of the ways to predict an entry."""
        check_is_fitted(self)
        return WAYS if self.period_model_ is None else WAYS + WAYS_OF_PERIODS

    def _check_parameters(self) -> None:
        check_number(self, "lags", Number(Integral, 0, alternatives=("auto",)))
        check_number(self, "period", Number(Integral, 2, alternatives=(None,)))
        check_choice(self, "noise", ("auto", "none"))

    def _validated(self, X: ArrayLike, *, reset: bool) -> Array:
        with advice_on_text(X):
            found: Array = validate_data(
                self, without_mask(X), reset=reset, dtype=PRECISIONS, ensure_all_finite="allow-nan"
            )
        return found

    def _fit(self, given: Array) -> None:
        if self.period is not None and self.period >= len(given):
            raise ValueError(
                f"period={self.period!r} is not shorter than the series, which have {len(given)} rows; pass "
                "a shorter period, or None"
            )
        most = min(max(LAGGED_SERIES // given.shape[1], 1), MOST_LAGS)
        self.lags_ = most if self.lags == "auto" else int(self.lags)
        self.robust_model_ = self._fitted(given, noise="capped") if self.noise == "auto" else None
        Z = self._without_gross_errors(given)
        hidden = hide_gaps(Z)
        weights = None if hidden is None else self._measured_weights(Z, hidden)
        self._fit_models(Z)
        if weights is None:
            weights = np.tile(np.equal(self.ways_, USUAL_WAY).astype(float), (2 * N_DISTANCES, 1))
        self.weights_ = weights

    def _without_gross_errors(self, Z: Array) -> Array:
        """Return series in which gross errors are missing."""
        if self.robust_model_ is None:
            return Z
        return np.where(find_gross_errors(Z, low_rank_of(self.robust_model_, Z)), np.nan, Z)

    def _measured_weights(self, Z: Array, hidden: Mask) -> Array:
        """Return the weights with which models without the hidden entries predict them best."""
        known = np.where(hidden, np.nan, Z)
        self._fit_models(known)
        is_compared = hidden.any(axis=0)
        scales = np.ones(Z.shape[1])
        scales[is_compared] = np.nanstd(Z[:, is_compared], axis=0)
        scales[scales == 0.0] = 1.0
        errors = [((way - Z) / scales)[hidden] for way in self._predictions(known)]
        return weights_by_distance(np.column_stack(errors), distance_class(known)[hidden])

    def _fit_models(self, Z: Array) -> None:
        """Fit all models that predict entries."""
        self.model_ = self._fitted(Z)
        self.lagged_model_ = self._fitted(join_neighbours(Z, self.lags_))
        self.period_model_ = self.usual_period_ = None
        if self.period is not None:
            self.period_model_ = self._fitted(join_periods(Z, self.period))
            self.usual_period_ = usual_period(Z, self.period)

    def _fitted(self, rows: Array, noise: str = "none") -> OnlineRobustPCA:
        """Return a factor model of rows that was fitted in rounds, with a rank that the evidence supports.

        A pass over the rows, which ``fit`` would make after rounds over a part of them, is left out: it is
        meant for streams, and is less accurate for tables with as many gaps as these.
        """
        model = OnlineRobustPCA("auto", noise=noise, drift=None, random_state=self.random_state)
        learner = model.make_learner()
        assert isinstance(learner, DenseLearner)
        model.n_features_in_ = rows.shape[1]
        model._progress = Progress(fitted(learner, Batch(rows)))
        return model

    def _predictions(self, Z: Array) -> list[Array]:
        """Return the predictions of all entries, in the order of ``ways_``."""
        n, p = Z.shape
        rows = low_rank_of(self.model_, Z)
        joined = low_rank_of(self.lagged_model_, join_neighbours(Z, self.lags_))
        neighbours = average_neighbours(joined, self.lags_, p)
        straight = np.where(np.isnan(Z).all(axis=0), rows, interpolate(Z))
        ways = [rows, correct(rows, Z), neighbours, correct(neighbours, Z), straight]
        if self.period_model_ is not None and self.usual_period_ is not None:
            usual = repeat_period(self.usual_period_, n)
            periods = low_rank_of(self.period_model_, join_periods(Z, len(self.usual_period_)))
            ways += [usual, correct(usual, Z), periods.reshape(-1, p)[:n]]
        return ways

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def low_rank_of(model: OnlineRobustPCA, rows: Array) -> Array:
    """Return the predictions of a factor model for all entries of rows."""
    found: Array = model.inverse_transform(model.transform(rows))
    return found
