import numpy as np
import pytest

from maxnorm.statistics import Scales, SufficientStatistics


def batch(seed, n=7, p=5, d=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)), rng.standard_normal((n, d)), rng.random(n)


def same(a, b):
    np.testing.assert_allclose(a.A, b.A, atol=1e-12)
    np.testing.assert_allclose(a.B, b.B, atol=1e-12)
    assert a.loss == pytest.approx(b.loss)
    assert a.weight == pytest.approx(b.weight)


def test_monoid_laws():
    x, y, z = (SufficientStatistics.from_batch(*batch(seed)) for seed in range(3))
    same(x + y, y + x)
    same((x + y) + z, x + (y + z))
    same(x + SufficientStatistics.zeros(5, 3), x)
    same((x + y).scaled(0.3), x.scaled(0.3) + y.scaled(0.3))


@pytest.mark.parametrize("chunk", [1, 2, 5, 7])
def test_any_chunking_gives_the_same_sums(chunk):
    targets, R, loss = batch(0)
    total = SufficientStatistics.zeros(5, 3)
    for i in range(0, 7, chunk):
        total += SufficientStatistics.from_batch(
            targets[i : i + chunk], R[i : i + chunk], loss[i : i + chunk]
        )
    same(total, SufficientStatistics.from_batch(targets, R, loss))


def test_scales_are_a_monoid_too():
    rng = np.random.default_rng(0)
    x, y = (Scales.from_batch(*rng.standard_normal((3, 20, 30)), None) for _ in range(2))
    assert x + y == y + x
    assert x + Scales() == x
    assert (x + y).entry / (x + y).weight == pytest.approx(1.0, rel=0.1)


def test_rows_of_zeros_say_nothing_of_scales():
    Z = np.zeros((4, 6))
    assert Scales.from_batch(Z, Z, Z, None) == Scales()
    Z[1] = 3.0
    assert Scales.from_batch(Z, Z, 0 * Z, None).weight == 1.0


def test_sums_are_in_double_precision_whatever_the_data():
    targets, R, loss = (x.astype(np.float32) for x in batch(0))
    statistics = SufficientStatistics.from_batch(targets, R, loss)
    assert statistics.A.dtype == statistics.B.dtype == np.float64
