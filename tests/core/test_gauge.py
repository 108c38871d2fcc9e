"""The units of a model: robust, of each feature alone, and defined for every kind of feature."""

import numpy as np
import pytest

from maxnorm.core.gauge import Gauge

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal(2000)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5])
def test_the_scale_withstands_gross_errors(share):
    wrong = np.random.default_rng(1).random(2000) < share
    feature = np.where(wrong, 1000.0 * np.sign(NORMAL), NORMAL)
    assert 0.85 < Gauge.of(feature[:, None], None, center=False).scale[0] < 1.3


@pytest.mark.parametrize(
    ("feature", "least", "most"),
    [
        (np.full(100, 5.0), 5.0, 5.0),
        (np.zeros(100), 1.0, 1.0),
        (np.repeat([0.0, 1.0], [95, 5]), 0.1, 1.0),
        (np.repeat([0.0, 1.0], [50, 50]), 0.3, 1.0),
        (np.repeat([0.0, 1.0, 1e6], [90, 8, 2]), 0.1, 1.0),
        (np.repeat([0.0, 1.0, 2.0, 3.0, 1600.0], [60, 15, 10, 5, 10]), 0.5, 20.0),
        (np.repeat([0.0, 1e-3, 1.0, 2.0], [60, 9, 16, 15]), 0.3, 2.0),
        (np.array([3.0]), 3.0, 3.0),
    ],
    ids=[
        "constant",
        "zero",
        "rarely one",
        "two values",
        "rarely one and errors",
        "mostly zero and errors",
        "mostly zero and traces",
        "a single sample",
    ],
)
def test_every_feature_has_a_scale(feature, least, most):
    scale = Gauge.of(feature[:, None], None).scale[0]
    assert least <= scale <= most


def test_the_gauge_follows_the_units_of_each_feature():
    X = RNG.standard_normal((50, 4)) + 3.0
    unit, origin = np.array([1e-4, 1.0, 1e4, 2.0]), np.array([0.0, 5.0, -7.0, 1e3])
    first, second = Gauge.of(X, None), Gauge.of(X * unit + origin, None)
    np.testing.assert_allclose(second.centre, first.centre * unit + origin)
    np.testing.assert_allclose(second.scale, first.scale * unit, rtol=1e-9)


def test_missing_entries_do_not_count():
    X = RNG.standard_normal((60, 3))
    observed = RNG.random(X.shape) < 0.7
    observed[:, 2] = False
    gauge = Gauge.of(np.where(observed, X, 1e9), observed)
    for j in range(2):
        alone = Gauge.of(X[observed[:, j], j][:, None], None)
        assert gauge.scale[j] == alone.scale[0]
    assert gauge.scale[2] == 1.0
    T = gauge.standardise(np.where(observed, X, np.nan), observed)
    assert np.isfinite(T).all()
    assert not T[~observed].any()


def test_differences_within_their_errors_are_dropped():
    same = Gauge.of(RNG.standard_normal((300, 50)), None).plausible(300)
    assert np.ptp(same.scale) == 0.0
    assert not same.centre.any()
    X = RNG.standard_normal((300, 50)) * np.linspace(1.0, 10.0, 50) + 2.0
    gauge = Gauge.of(X, None)
    assert np.array_equal(gauge.plausible(300).scale, gauge.scale)
    assert np.array_equal(gauge.plausible(300).centre, gauge.centre)


@pytest.mark.parametrize("p", [40, 600])  # with many features, some of them show whether this is the case
@pytest.mark.parametrize("share", [0.3, 0.4])
def test_a_tolerant_location_withstands_errors_on_one_side(p, share):
    rng = np.random.default_rng(0)
    Z = 3.0 + rng.standard_normal((300, p)) + 1000.0 * (rng.random((300, p)) < share)
    assert np.median(np.abs(Gauge.of(Z, None).centre - 3.0)) > 0.5
    tolerant = Gauge.of(Z, None, tolerant=True)
    assert np.quantile(np.abs(tolerant.centre - 3.0), 0.99) < 0.4
    assert np.abs(np.log(tolerant.scale)).max() < 0.5


@pytest.mark.parametrize(
    ("rare", "small"),
    [
        (np.full(30, 1.3), np.full(90, 0.3 + 2.0**-54)),  # rounding errors
        (np.linspace(0.8, 1.2, 90), np.full(15, 0.3001)),
        (np.random.default_rng(0).gamma(0.3, 1.0, 60), np.empty(0)),
    ],
)
def test_small_deviations_do_not_make_others_gross_errors(rare, small):
    feature = np.concatenate([rare, small, np.full(300 - len(rare) - len(small), 0.3)])
    spread = np.sqrt(
        np.mean(np.minimum(np.abs(feature - 0.3), np.quantile(np.abs(feature - 0.3), 0.95)) ** 2)
    )
    assert 0.3 * spread < Gauge.of(feature[:, None], None).scale[0] < 1.2 * spread


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_errors_of_the_precision_are_no_deviations(dtype):
    usual = dtype(0.3)
    rounded = np.nextafter(usual, dtype(1.0))
    feature = np.repeat(np.array([1.3, rounded, usual], dtype), [30, 90, 180])
    assert 0.2 < Gauge.of(feature[:, None], None).scale[0] < 1.0
