"""Changes of a stream: the test for a sudden one, and the weight of earlier samples."""

from itertools import chain

import numpy as np
import pytest

from maxnorm.core.drift import DRIFT, Drift, Watch, remaining_share


def still(rng, n=1000, level=0.0, spread=0.2):
    levels = level + spread * rng.standard_normal(n)
    return Drift(level=float(levels.sum()), squares=float(levels @ levels), weight=float(n))


def test_a_rise_of_the_residuals_is_located():
    rng = np.random.default_rng(0)
    levels = np.concatenate([0.2 * rng.standard_normal(70), 2.0 + 0.2 * rng.standard_normal(50)])
    change, _ = still(rng).change_point(levels)
    assert change is not None
    assert abs(change - 70) <= 2


def test_single_outliers_are_not_a_change():
    rng = np.random.default_rng(1)
    levels = np.where(rng.random(5000) < 0.1, 5.0, 0.2 * rng.standard_normal(5000))
    assert still(rng).change_point(levels)[0] is None


def test_the_test_does_not_depend_on_how_samples_are_divided_into_batches():
    rng = np.random.default_rng(2)
    drift = still(rng)
    levels = 0.5 + 0.2 * rng.standard_normal(300)  # somewhat above what is usual
    whole = drift.change_point(levels)
    excess, found, seen = 0.0, None, 0
    for part in np.split(levels, 30):
        change, excess = Drift(drift.level, drift.squares, drift.weight, excess).change_point(part)
        if change is not None:
            found = seen
            break
        seen += len(part)
    assert (whole[0] is None) == (found is None)
    if found is None:
        assert excess == pytest.approx(whole[1])


def test_no_change_is_noticed_before_enough_samples_were_seen():
    drift = still(np.random.default_rng(3), n=DRIFT.least_samples - 1)
    assert drift.change_point(np.full(100, 50.0))[0] is None


def test_the_usual_level_is_an_average_over_recent_samples():
    drift = Drift()
    for _ in range(50):
        levels = np.full(100, 3.0)
        drift = drift.with_levels(np.array([100, levels.sum(), levels @ levels]), 0.0)
    assert drift.level / drift.weight == pytest.approx(3.0)
    assert drift.weight <= DRIFT.memory + 100


@pytest.mark.parametrize(("bulk", "kind"), [(0.2, "turn"), (0.9, "new")])
def test_the_kind_of_a_change_follows_from_how_much_remains_unexplained(bulk, kind):
    rng = np.random.default_rng(4)
    watch = Watch(still(rng, level=np.log(0.05)), signal=1.0)
    watched = watch(np.full(60, bulk))
    assert watched.change == 0
    assert watched.kind == kind


def increments(rng, n, lag, p=30, k=4, noise=1.0):
    direction = rng.standard_normal((p, k))
    direction *= lag / np.linalg.norm(direction)
    return [direction + noise * rng.standard_normal((p, k)) / np.sqrt(p * k) for _ in range(n)]


def shares(rng, lag, n=60, weight=1000.0, added=20.0):
    drift, found = Drift(), []
    for increment in increments(rng, n, lag):
        share, drift = remaining_share(
            drift, increment, np.eye(4), added, weight, signal=100.0, is_improving=False
        )
        found.append(share)
    return np.array(found)


def test_unrelated_increments_are_noise():
    for seed in range(20):
        assert (shares(np.random.default_rng(seed), lag=0.0) == 1.0).all()


def test_increments_that_agree_by_chance_are_no_drift():
    """If samples depend on each other, increments agree for a while, but not steadily."""
    for seed in range(10):
        rng, drift, found = np.random.default_rng(seed), Drift(), []
        pairs = [increments(rng, 2, 1.2) for _ in range(30)]  # with a direction of its own in each pair
        for increment in chain(*pairs):
            share, drift = remaining_share(
                drift, increment, np.eye(4), 20.0, 1000.0, signal=100.0, is_improving=False
            )
            found.append(share)
        assert np.count_nonzero(np.array(found) < 1.0) <= 1


def test_earlier_samples_lose_more_weight_the_larger_the_lag_is():
    small, large = (shares(np.random.default_rng(0), lag)[-20:].mean() for lag in (0.8, 3.0))
    assert large < small < 1.0


def test_nothing_is_forgotten_while_the_basis_improves():
    drift = Drift()
    for increment in increments(np.random.default_rng(5), 20, 3.0):
        share, drift = remaining_share(
            drift, increment, np.eye(4), 20.0, 1000.0, signal=100.0, is_improving=True
        )
        assert share == 1.0
