"""Cleaning of sensor logs in memory."""

import numpy as np
import pytest

from maxnorm import MaxNormDecomposition
from maxnorm.sensors.cleaning import clean_log
from maxnorm.sensors.filling import Mixture, Neighbours, best_weight, fill
from maxnorm.sensors.report import make_report
from maxnorm.sensors.segments import find_changes
from maxnorm.sensors.stuck import RunLengths, find_stuck


def make_plant(n=5000, p=12, change="loadings", seed=0, noise=0.05):
    """Return the log of a plant: as measured and without errors, its spikes, its gaps, and the change.

    The sensors have a daily rhythm and a slow load, units between 1e-2 and 1e5, 1 % spikes and 5 % gaps.
    """
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    load = np.empty(n)
    load[0] = 0.0
    steps = 0.05 * rng.standard_normal(n)
    for i in range(1, n):
        load[i] = 0.998 * load[i - 1] + steps[i]
    day = 2.0 * np.pi * t / 1440
    factors = np.column_stack([np.sin(day), np.cos(day), np.sin(2.0 * day), load])
    basis, other = rng.standard_normal((2, 4, p))
    X, row = factors @ basis, round(0.6 * n)
    if change == "loadings":
        X[row:] = factors[row:] @ other
    elif change == "shift":
        X[row:, : p // 3] += 3.0
    X /= X.std(axis=0)
    X += noise * rng.standard_normal(X.shape)
    unit = 10.0 ** rng.uniform(-2, 5, p)
    clean, spikes, gaps = X.copy(), rng.random(X.shape) < 0.01, rng.random(X.shape) < 0.05
    X = X + spikes * rng.choice([-1.0, 1.0], X.shape) * rng.uniform(4.0, 12.0, X.shape)
    X[gaps] = np.nan
    return X * unit, clean * unit, spikes & ~gaps, gaps, row


@pytest.fixture(scope="module")
def plant():
    X, clean, spikes, gaps, row = make_plant()
    rows = slice(1000, 1200)
    X[rows, 5] = X[999, 5] = clean[999, 5]
    spikes[rows, 5] = spikes[999, 5] = False
    stuck = np.zeros(X.shape, dtype=bool)
    stuck[rows, 5] = True
    return X, clean, spikes, gaps & ~stuck, stuck, row


@pytest.fixture(scope="module")
def log(plant):
    return clean_log(plant[0])


def test_spikes_are_found(plant, log):
    spikes = plant[2]
    assert np.mean(spikes[log.is_spike]) > 0.95
    assert np.mean(log.is_spike[spikes]) > 0.95


def test_a_stuck_sensor_is_found(plant, log):
    stuck = plant[4]
    assert np.mean(log.is_stuck[stuck]) > 0.95
    assert not log.is_stuck[~stuck].any()


def test_the_change_of_the_process_is_found(plant, log):
    assert log.changes == [plant[5]]


def test_gaps_are_filled_as_well_as_by_interpolation(plant, log):
    X, clean, _, gaps, _, _ = plant
    good = ~np.isnan(X) & ~log.is_wrong
    for j in range(X.shape[1]):
        linear = np.interp(np.arange(len(X)), np.flatnonzero(good[:, j]), X[good[:, j], j])
        errors = [
            np.sqrt(np.mean((filled - clean[:, j])[gaps[:, j]] ** 2))
            for filled in (log.cleaned[:, j], linear)
        ]
        assert errors[0] < 1.2 * errors[1]


def test_other_entries_are_unchanged(plant, log):
    kept = ~np.isnan(plant[0]) & ~log.is_wrong
    np.testing.assert_array_equal(log.cleaned[kept], plant[0][kept])
    assert np.isfinite(log.cleaned).all()


def test_the_report_says_what_was_found(plant, log):
    n, p = plant[0].shape
    names, labels = [f"<sensor {j}>" for j in range(p)], [f"t{i}" for i in range(n)]
    page = make_report("log.csv", names, labels, log, {"lags": "0"})
    assert "&lt;sensor 5&gt;" in page
    assert "<sensor 5>" not in page
    assert f"row {plant[5] + 1:,}" in page
    assert page.count("<svg") >= 8
    assert "http" not in page  # it needs no network


@pytest.mark.parametrize(("change", "noise"), [("loadings", 0.002), ("shift", 0.2), ("none", 0.05)])
def test_changes_are_found_at_their_rows(change, noise):
    X, _, _, _, row = make_plant(3000, 10, change, seed=3, noise=noise)
    found = find_changes(X, lambda rows: MaxNormDecomposition(random_state=0).fit(rows)._model())
    assert found == ([] if change == "none" else [row])


def test_a_run_of_equal_values_is_stuck_only_if_such_runs_are_unusual():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(3000), rng.integers(0, 3, 3000), np.full(3000, 4.0)])
    X[100:150, 0] = X[99, 0]
    X[100:112, 1] = X[99, 1]  # usual for a sensor with three values
    X[120, 0] = np.nan  # a gap does not end a run
    stuck = find_stuck(X)
    assert stuck[100:150, 0].sum() == 49
    assert stuck.sum() == 49
    X[200:300, 1] = X[199, 1]
    assert find_stuck(X)[200:300, 1].all()


def test_a_sensor_is_recognised_as_stuck_while_rows_arrive():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    X[200:300, 0] = X[199, 0]
    runs = RunLengths(2)
    stuck = np.concatenate([runs.find(part) for part in np.array_split(X, 23)])
    assert stuck[210:300, 0].all()
    assert not stuck[:200].any()
    assert not stuck[300:].any()
    assert not stuck[:, 1].any()


def test_the_best_weight_minimises_the_error():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 4000))
    second = 0.5 * second + 0.3 * first
    weight = best_weight(first, second)
    errors = [np.mean(((1 - w) * first + w * second) ** 2) for w in (weight - 0.01, weight, weight + 0.01)]
    assert errors[1] == min(errors)


def test_neighbours_are_those_that_are_good():
    column = np.array([1.0, 2.0, 9.0, 4.0, 5.0])
    near = Neighbours.of(column, np.array([True, True, False, False, True]))
    np.testing.assert_array_equal(near.before, [np.nan, 1.0, 2.0, 2.0, 2.0])
    np.testing.assert_array_equal(near.after, [2.0, 5.0, 5.0, 5.0, np.nan])
    np.testing.assert_allclose(near.interpolated[[2, 3]], [3.0, 4.0])


@pytest.mark.parametrize("smooth", [True, False])
def test_a_series_is_filled_from_what_predicts_it(smooth):
    rng = np.random.default_rng(0)
    series = np.sin(np.arange(2000) / 30.0) if smooth else rng.standard_normal(2000)
    expected = series + 0.1 * rng.standard_normal(2000)
    good = rng.random(2000) > 0.1
    filled = fill(np.where(good, series, np.nan)[:, None], expected[:, None], good[:, None])[:, 0]
    error = np.sqrt(np.mean((filled - series)[~good] ** 2))
    assert error < (0.002 if smooth else 0.11)
    mixture = Mixture.measured(series, expected, good)
    assert (mixture.weights[0] > 0.9) == smooth


@pytest.mark.parametrize("n_rows", [1, 5, 40])
def test_short_logs_are_cleaned_as_well(n_rows):
    X = np.random.default_rng(0).standard_normal((n_rows, 4))
    X[0, 1] = np.nan
    found = clean_log(X)
    assert found.cleaned.shape == X.shape
    kept = ~np.isnan(X) & ~found.is_wrong
    np.testing.assert_array_equal(found.cleaned[kept], X[kept])


def test_a_sensor_that_is_always_missing_stays_missing_or_is_filled_without_error():
    X = np.random.default_rng(0).standard_normal((300, 4))
    X[:, 2] = np.nan
    assert not clean_log(X).is_wrong[:, 2].any()
