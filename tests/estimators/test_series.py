"""Gaps of series: neighbours in time, periods, and how they are combined."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxnorm import SeriesImputer
from maxnorm.estimators.series import (
    average_neighbours,
    best_weights,
    hide_gaps,
    interpolate,
    join_neighbours,
    join_periods,
)


@parametrize_with_checks([SeriesImputer()])
def test_the_imputer_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def series():
    """Eight series of 360 times with a period of 24, slow waves and some noise."""
    rng = np.random.default_rng(0)
    t = np.arange(360)[:, None]
    waves = np.column_stack([np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 24), np.sin(t / 37)])
    return 10.0 + waves @ rng.standard_normal((3, 8)) + 0.1 * rng.standard_normal((360, 8))


def error(filled, X, hidden):
    return float(np.sqrt(np.mean((filled - X)[hidden] ** 2)))


@pytest.mark.parametrize("kind", ["random", "blocks", "rows"])
def test_gaps_are_filled_better_than_by_interpolation_or_means(kind, series):
    rng = np.random.default_rng(1)
    hidden = rng.random(series.shape) < 0.4
    if kind == "blocks":
        hidden = np.repeat(rng.random((15, 8)) < 0.3, 24, axis=0)
    if kind == "rows":
        hidden = np.zeros(series.shape, dtype=bool)
        hidden[rng.random(360) < 0.2] = True
    X = np.where(hidden, np.nan, series)
    model = SeriesImputer(random_state=0).fit(X)
    filled = model.transform(X)
    np.testing.assert_array_equal(filled[~hidden], series[~hidden])
    assert error(filled, series, hidden) < 0.3
    assert error(filled, series, hidden) < 1.05 * error(interpolate(X), series, hidden)
    assert model.weights_.sum() == pytest.approx(1.0)


def test_a_period_fills_days_in_which_everything_is_missing(series):
    hidden = np.zeros(series.shape, dtype=bool)
    hidden[120:144] = True
    hidden[250:274] = True
    X = np.where(hidden, np.nan, series)
    model = SeriesImputer(period=24, random_state=0).fit(X)
    assert len(model.weights_) == 3
    assert error(model.transform(X), series, hidden) < 0.5 * error(interpolate(X), series, hidden)


def test_units_of_series_do_not_matter(series):
    rng = np.random.default_rng(2)
    hidden = rng.random(series.shape) < 0.3
    unit, shift = np.geomspace(1e-4, 1e4, 8), np.linspace(-100.0, 100.0, 8)
    X = np.where(hidden, np.nan, series)
    plain = SeriesImputer(random_state=0).fit_transform(X)
    other = SeriesImputer(random_state=0).fit_transform(X * unit + shift)
    np.testing.assert_allclose((other - shift) / unit, plain, atol=0.02)


def test_neighbours_and_periods_are_joined_and_averaged():
    Z = np.arange(10.0).reshape(5, 2)
    joined = join_neighbours(Z, 1)
    assert joined.shape == (5, 6)
    np.testing.assert_array_equal(joined[2], [2, 3, 4, 5, 6, 7])
    assert np.isnan(joined[0, :2]).all()
    np.testing.assert_allclose(average_neighbours(np.nan_to_num(joined), 1, 2)[1:-1], Z[1:-1])
    days = join_periods(Z, 2)
    assert days.shape == (3, 4)
    assert np.isnan(days[2, 2:]).all()


def test_weights_prefer_the_better_prediction():
    truth = np.random.default_rng(0).standard_normal(200)
    ways = np.column_stack([truth + 0.1, np.zeros(200)])
    assert best_weights(ways, truth)[0] > 0.95
    np.testing.assert_allclose(best_weights(np.column_stack([-truth, -truth]), truth), [1.0, 0.0])


def test_hidden_gaps_are_those_of_the_data_at_another_time():
    X = np.ones((100, 3))
    assert hide_gaps(X) is None
    X[10:40, 0] = np.nan
    X[5:30, 1] = np.nan
    hidden = hide_gaps(X)
    assert hidden[60:90, 0].all()
    assert hidden.sum() == 55


def test_a_series_without_entries_is_reported(series):
    X = series[:100].copy()
    X[:, 3] = np.nan
    with pytest.warns(UserWarning, match="in 1 of the columns of X, the first of which is column 3"):
        filled = SeriesImputer(random_state=0).fit_transform(X)
    assert np.isfinite(filled).all()


@pytest.mark.parametrize(("parameter", "value"), [("lags", -1), ("period", 1)])
def test_wrong_parameters_are_named(parameter, value, series):
    with pytest.raises(ValueError, match=f"{parameter} of SeriesImputer"):
        SeriesImputer(**{parameter: value}).fit(series)
