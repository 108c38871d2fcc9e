"""Gaps of series: neighbours in time, periods, and how they are combined."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxnorm import SeriesImputer, load
from maxnorm.persistence import ModelFileError, save
from maxnorm.series import (
    HIDING,
    N_DISTANCES,
    average_neighbours,
    best_weights,
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
    assert model.weights_.shape == (2 * N_DISTANCES, len(model.ways_))
    np.testing.assert_allclose(model.weights_.sum(axis=1), 1.0)


def test_a_period_fills_days_in_which_everything_is_missing(series):
    hidden = np.zeros(series.shape, dtype=bool)
    hidden[120:144] = True
    hidden[250:274] = True
    X = np.where(hidden, np.nan, series)
    model = SeriesImputer(period=24, random_state=0).fit(X)
    assert model.ways_[-1] == "periods"
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


def test_the_usual_period_is_the_mean_of_all_periods_and_of_the_series_where_there_are_none():
    Z = np.array([[1.0], [np.nan], [3.0], [np.nan], [5.0]])
    np.testing.assert_allclose(usual_period(Z, 2), [[3.0], [3.0]])
    np.testing.assert_allclose(repeat_period(np.array([[1.0], [2.0]]), 3), [[1.0], [2.0], [1.0]])


def test_predictions_are_corrected_by_their_interpolated_errors():
    Z = np.array([[1.0], [np.nan], [5.0]])
    np.testing.assert_allclose(correct(np.array([[0.0], [10.0], [2.0]]), Z), [[1.0], [12.0], [5.0]])


def test_weights_prefer_the_better_prediction():
    rng = np.random.default_rng(0)
    errors = rng.standard_normal((200, 2)) * [0.1, 1.0]
    assert best_weights(errors)[0] > 0.95
    np.testing.assert_allclose(best_weights(np.column_stack([errors[:, 0], -errors[:, 0]])), 0.5, atol=1e-3)
    np.testing.assert_allclose(best_weights(np.zeros((50, 2))).sum(), 1.0)


def test_weights_depend_on_the_distance_to_observed_entries():
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 3], 200)
    errors = rng.standard_normal((400, 2)) * np.where(classes[:, None] == 0, [0.1, 1.0], [1.0, 0.1])
    weights = weights_by_distance(errors, classes)
    assert weights[0, 0] > 0.9
    assert weights[3, 1] > 0.9
    np.testing.assert_allclose(weights[1], best_weights(errors))


def test_the_distance_is_larger_in_the_middle_of_a_gap_and_at_an_open_end():
    Z = np.ones((60, 1))
    Z[5] = Z[10:50] = np.nan
    classes = distance_class(Z)[:, 0]
    assert classes[5] == 0
    assert classes[10] < classes[30] == N_DISTANCES - 1


def test_hidden_gaps_are_those_of_the_data_at_another_time():
    X = np.ones((100, 5))
    X[10:40, 0] = np.nan
    X[5:30, 1] = np.nan
    hidden = hide_gaps(X)
    assert hidden[60:90, 0].all()
    assert hidden.sum() == 55


def test_gaps_are_drawn_at_random_if_there_are_too_few():
    X = np.ones((200, 5))
    X[17, 2] = np.nan
    hidden = hide_gaps(X)
    assert not hidden[17, 2]
    assert 0.5 * HIDING.share < hidden.mean() <= HIDING.share
    lengths = np.diff(np.flatnonzero(np.diff(np.pad(hidden, ((1, 1), (0, 0))).T.ravel().astype(int))))[::2]
    assert lengths.min() == 1
    assert lengths.max() >= max(HIDING.lengths)
    assert hide_gaps(X[:20]) is None


def test_most_observed_entries_are_not_hidden_and_gaps_are_hidden_as_a_whole():
    rng = np.random.default_rng(0)
    X = np.where(np.repeat(rng.random((30, 10)) < 0.5, 20, axis=0), np.nan, 1.0)
    hidden, observed = hide_gaps(X), ~np.isnan(X)
    assert 0.5 * HIDING.share < hidden.sum() / observed.sum() < 1.5 * HIDING.share
    begins = np.flatnonzero(np.diff(hidden[:, 0].astype(int)) != 0) + 1
    assert (begins % 20 == 0).all()


@pytest.mark.parametrize("n", [60, 400])
def test_a_short_gap_of_a_single_smooth_series_is_interpolated(n):
    truth = 100.0 + 5.0 * np.sin(np.arange(n) / 9.0)[:, None]
    X = truth.copy()
    X[30:33] = np.nan
    np.testing.assert_allclose(SeriesImputer(random_state=0).fit_transform(X), truth, atol=0.2)


def test_a_few_rows_without_any_entry_of_a_series_are_not_drawn_towards_zero(series):
    X = np.where(np.random.default_rng(6).random(series.shape) < 0.2, np.nan, 1000.0 + series)
    model = SeriesImputer(random_state=0).fit(X)
    for rows in (np.full((1, series.shape[1]), np.nan), np.full((10, series.shape[1]), np.nan), X[:1]):
        np.testing.assert_allclose(model.transform(rows), 1010.0, atol=6.0)


def test_the_ways_are_those_of_the_fit(series):
    model = SeriesImputer(random_state=0).fit(series[:50])
    assert len(model.set_params(period=24).ways_) == model.weights_.shape[1]


def test_text_and_dates_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"X must be numeric.*'day'.*make them the index"):
        SeriesImputer().fit(pd.DataFrame({"day": pd.date_range("2020", periods=5), "load": range(5)}))
    with pytest.raises(ValueError, match=r"X must be numeric.*encode or drop"):
        SeriesImputer().fit(pd.DataFrame({"place": ["a", "b"], "load": [1, 2]}))


def test_masked_entries_are_missing(series):
    X = np.where(np.random.default_rng(7).random(series.shape) < 0.2, np.nan, series)
    masked = np.ma.masked_array(np.nan_to_num(X, nan=1e6), np.isnan(X))
    model = SeriesImputer(random_state=0)
    np.testing.assert_array_equal(model.fit_transform(masked), model.fit_transform(X))


def test_a_failed_fit_leaves_the_model_unchanged(series):
    model = SeriesImputer(random_state=0).fit(series[:50])
    with pytest.raises(ValueError, match="period=50"):
        model.set_params(period=50).fit(series[:50, :2])
    assert model.transform(np.full((2, 8), np.nan)).shape == (2, 8)


def test_a_period_as_long_as_the_series_is_refused(series):
    with pytest.raises(ValueError, match="period=50 is not shorter than the series, which have 50 rows"):
        SeriesImputer(period=50).fit(series[:50])


def with_gross_errors(X, rng):
    wrong = rng.random(X.shape) < 0.05
    size = rng.uniform(5.0, 20.0, X.shape) * rng.choice([-1.0, 1.0], X.shape) * X.std(axis=0)
    return np.where(wrong, X + size, X), wrong


def test_gross_errors_are_found_by_other_series_and_neighbours_in_time(series):
    X, wrong = with_gross_errors(series, np.random.default_rng(3))
    found = find_gross_errors(X, series + 0.1)
    assert found[wrong].mean() > 0.95
    assert not found[~wrong].any()
    assert not find_gross_errors(series, series + 0.1).any()


def test_gross_errors_do_no_harm_and_stay_in_the_series(series):
    rng = np.random.default_rng(4)
    hidden = rng.random(series.shape) < 0.3
    X = np.where(hidden, np.nan, with_gross_errors(series, rng)[0])
    filled = SeriesImputer(random_state=0).fit_transform(X)
    np.testing.assert_array_equal(filled[~hidden], X[~hidden])
    trusting = SeriesImputer(noise="none", random_state=0).fit_transform(X)
    assert error(filled, series, hidden) < 0.3
    assert error(filled, series, hidden) < 0.2 * error(trusting, series, hidden)


@pytest.mark.parametrize("period", [None, 24])
def test_a_saved_imputer_fills_gaps_as_before(period, series, tmp_path):
    X = np.where(np.random.default_rng(5).random(series.shape) < 0.3, np.nan, series)
    model = SeriesImputer(period=period, random_state=0).fit(X)
    model.save(tmp_path / "m.maxnorm")
    np.testing.assert_array_equal(load(tmp_path / "m.maxnorm").transform(X), model.transform(X))
    SeriesImputer().save(tmp_path / "new.maxnorm")
    assert not load(tmp_path / "new.maxnorm").__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("name", "value"),
    [("weights_", np.ones(3)), ("lags_", 2), ("lagged_model_", None), ("usual_period_", None)],
)
def test_a_damaged_imputer_is_not_loaded(name, value, series, tmp_path):
    model = SeriesImputer(period=24, random_state=0).fit(series[:100])
    setattr(model, name, value)
    save(model, tmp_path / "m.maxnorm")
    with pytest.raises(ModelFileError):
        load(tmp_path / "m.maxnorm")


def test_a_series_without_entries_is_reported(series):
    X = series[:100].copy()
    X[:, 3] = np.nan
    with pytest.warns(UserWarning, match="in 1 of the columns of X, the first of which is column 3"):
        filled = SeriesImputer(random_state=0).fit_transform(X)
    assert np.isfinite(filled).all()


@pytest.mark.parametrize(("parameter", "value"), [("lags", -1), ("period", 1), ("noise", "some")])
def test_wrong_parameters_are_named(parameter, value, series):
    with pytest.raises(ValueError, match=f"{parameter} of SeriesImputer"):
        SeriesImputer(**{parameter: value}).fit(series)


def test_times_without_any_entries_do_not_spoil_gaps_of_single_series():
    rng, t = np.random.default_rng(0), np.arange(500)
    truth = np.column_stack([(k + 1) * np.sin(t / 20 + k) for k in range(6)])
    X = truth + 0.02 * rng.standard_normal(truth.shape)
    X[100:140, 2] = X[300:310] = np.nan
    errors = (SeriesImputer(random_state=0).fit_transform(X) - truth) / truth.std(axis=0)
    assert np.sqrt(np.mean(errors[100:140, 2] ** 2)) < 0.05
    assert np.sqrt(np.mean(errors[300:310] ** 2)) < 0.1
