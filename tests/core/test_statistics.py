from dataclasses import fields

import numpy as np
import pytest

from maxnorm.core.bias import BiasModel
from maxnorm.core.scales import Scales
from maxnorm.core.state import Contribution, Decay
from maxnorm.core.statistics import SufficientStatistics


def batch(seed, n=7, p=5, d=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)), rng.standard_normal((n, d)), rng.random(n)


def assert_same(a, b):
    np.testing.assert_allclose(a.A, b.A, atol=1e-12)
    np.testing.assert_allclose(a.B, b.B, atol=1e-12)
    assert a.loss == pytest.approx(b.loss)
    assert a.weight == pytest.approx(b.weight)


def test_statistics_form_a_commutative_monoid():
    x, y, z = (SufficientStatistics.from_batch(*batch(seed)) for seed in range(3))
    assert_same(x + y, y + x)
    assert_same((x + y) + z, x + (y + z))
    assert_same(x + SufficientStatistics.zeros(5, 3), x)
    assert_same((x + y).scaled(0.3), x.scaled(0.3) + y.scaled(0.3))


@pytest.mark.parametrize("chunk", [1, 2, 5, 7])
def test_any_chunking_gives_the_same_sums(chunk):
    targets, R, loss = batch(0)
    total = SufficientStatistics.zeros(5, 3)
    for i in range(0, 7, chunk):
        total += SufficientStatistics.from_batch(
            targets[i : i + chunk], R[i : i + chunk], loss[i : i + chunk]
        )
    assert_same(total, SufficientStatistics.from_batch(targets, R, loss))


def scales_of(rng, n=20):
    return Scales.from_batch(*rng.standard_normal((3, n, 30)), None)


def assert_same_scales(a, b):
    for f in fields(Scales):
        np.testing.assert_allclose(getattr(a, f.name), getattr(b, f.name), atol=1e-12)


def test_scales_form_a_commutative_monoid():
    rng = np.random.default_rng(0)
    x, y, z = (scales_of(rng) for _ in range(3))
    assert_same_scales(x + y, y + x)
    assert_same_scales((x + y) + z, x + (y + z))
    assert_same_scales(x + Scales(), x)
    assert_same_scales((x + y).scaled(0.1, 0.3), x.scaled(0.1, 0.3) + y.scaled(0.1, 0.3))


def test_scales_measure_entries_residuals_and_the_share_of_noise():
    rng = np.random.default_rng(0)
    Z, residual = 3 * rng.standard_normal((50, 40)), 0.1 * rng.standard_normal((50, 40))
    E = np.where(np.arange(40) < 10, 1e-9, 0.0) * np.ones((50, 1))
    scales = Scales.from_batch(Z, E, residual, None)
    assert np.exp(scales.entry / scales.weight) == pytest.approx(3.0, rel=0.1)
    assert np.exp(scales.recent_residual / scales.recent_weight) == pytest.approx(0.1, rel=0.1)
    assert scales.recent_noisy / scales.recent_weight == pytest.approx(0.25)
    assert (scales.noisy / scales.seen).tolist() == [1.0] * 10 + [0.0] * 30
    observed = rng.random(Z.shape) < 0.5
    masked = Scales.from_batch(Z * observed, E * observed, residual * observed, observed)
    assert (masked.noisy / masked.seen).tolist() == [1.0] * 10 + [0.0] * 30


def test_noise_on_the_same_side_is_told_from_noise_on_both_sides():
    rng = np.random.default_rng(0)
    Z = residual = rng.standard_normal((200, 40))
    E = np.where(np.abs(residual) > 2.0, residual, 0.0)
    E[:, :5], E[:, 5:10], E[:, 10:15] = 9.0, -9.0, 9.0 * np.sign(Z[:, 10:15])
    scales = Scales.from_batch(Z, E, residual, None)
    assert scales.is_one_sided.tolist() == [True] * 10 + [False] * 30
    assert not Scales.from_batch(Z[:2], E[:2], residual[:2], None).is_one_sided.any()  # this may be chance
    assert not Scales().is_one_sided.any()


def test_weighted_statistics_are_sums_of_scaled_samples():
    targets, R, loss = batch(0)
    weights = np.arange(7.0)
    whole = SufficientStatistics.from_batch(targets, R, loss, weights)
    one_by_one = SufficientStatistics.zeros(5, 3)
    for i in range(7):
        row = slice(i, i + 1)
        one_by_one += SufficientStatistics.from_batch(targets[row], R[row], loss[row]).scaled(weights[i])
    assert_same(whole, one_by_one)


@pytest.mark.parametrize(
    "other",
    [
        SufficientStatistics.zeros(5, 3, per_feature=True),
        SufficientStatistics.zeros(4, 3),
        SufficientStatistics.zeros(5, 2),
    ],
    ids=["per-feature", "features", "components"],
)
def test_adding_statistics_of_different_kinds_raises(other):
    """The kinds differ in whether the Gram matrix is shared or per feature, or in shape."""
    shared = SufficientStatistics.zeros(5, 3)
    for a, b in ((shared, other), (other, shared)):
        with pytest.raises(ValueError, match="statistics of different kinds cannot be added"):
            a + b


def contribution(biases=None, per_feature=False):
    statistics = SufficientStatistics.zeros(5, 3, per_feature=per_feature)
    return Contribution(1, 1, statistics, Scales(), Decay(), rank=3, biases=biases)


def test_adding_contributions_with_and_without_biases_raises():
    without, with_biases = contribution(), contribution(BiasModel.zeros(5))
    for a, b in ((without, with_biases), (with_biases, without)):
        with pytest.raises(ValueError, match="with biases and one without biases cannot be added"):
            a + b


def test_adding_contributions_that_both_have_biases_adds_the_biases():
    biases = BiasModel(4.0, 2.0, np.ones(5), np.ones(5))
    assert (contribution(biases) + contribution(biases)).biases.total == 8.0
    assert (contribution() + contribution()).biases is None


def test_adding_contributions_with_shared_and_per_feature_gram_matrices_raises():
    with pytest.raises(ValueError, match="statistics of different kinds cannot be added"):
        contribution() + contribution(per_feature=True)


def test_sums_are_in_double_precision_for_data_in_single_precision():
    targets, R, loss = (x.astype(np.float32) for x in batch(0))
    statistics = SufficientStatistics.from_batch(targets, R, loss)
    assert statistics.A.dtype == statistics.B.dtype == np.float64
