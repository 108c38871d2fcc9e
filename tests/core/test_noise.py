import numpy as np
import pytest

from maxnorm import MaxNormDecomposition
from maxnorm.core.encoding import encode
from maxnorm.core.noise import (
    L1,
    L21,
    AdaptiveNoise,
    CappedL1,
    Noise,
    NoNoise,
    RowNoise,
    Squared,
    within_precision,
)
from maxnorm.core.norms import MaxNorm

NOISES = [L1(0.7), L21(1.3), Squared(0.4), NoNoise()]


@pytest.mark.parametrize("noise", NOISES[:3])
def test_prox_minimises_its_objective(noise):
    rng = np.random.default_rng(0)
    V = 2 * rng.standard_normal((5, 4))
    E = noise.prox(V)
    best = 0.5 * ((V - E) ** 2).sum(axis=1) + noise.value(E)
    for size in (1e-3, 0.1, 1.0, 10.0):
        for _ in range(200):
            other = E + size * rng.standard_normal(E.shape)
            assert (0.5 * ((V - other) ** 2).sum(axis=1) + noise.value(other) >= best - 1e-12).all()


def test_without_a_noise_model_the_prox_is_zero():
    assert not NoNoise().prox(np.random.default_rng(0).standard_normal((5, 4))).any()


@pytest.mark.parametrize(
    ("noise", "dual_ball"),
    [
        (L1(0.7), lambda V: np.clip(V, -0.7, 0.7)),
        (L21(1.3), lambda V: V * np.minimum(1, 1.3 / np.linalg.norm(V, axis=1))[:, None]),
    ],
)
def test_prox_and_projection_onto_the_dual_ball_add_up_to_the_identity(noise, dual_ball):
    """This is Moreau's identity, which holds for the prox of every norm."""
    V = 2 * np.random.default_rng(1).standard_normal((50, 6))
    np.testing.assert_allclose(noise.prox(V) + dual_ball(V), V, atol=1e-14)


@pytest.mark.parametrize("noise", NOISES[1:])
def test_the_weight_of_a_row_noise_is_the_share_that_prox_leaves(noise):
    V = 2 * np.random.default_rng(2).standard_normal((20, 6))
    assert isinstance(noise, RowNoise)
    np.testing.assert_allclose(V - noise.prox(V), noise.weight(V)[:, None] * V, atol=1e-14)


@pytest.mark.parametrize(
    "noise", [*NOISES, CappedL1(0.2, 1.0), CappedL1(0.0, 0.0), L1(0.0), L21(0.0), Squared(0.0)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_prox_keeps_zeros_and_precision(noise, dtype):
    V = np.zeros((3, 4), dtype)
    assert isinstance(noise, Noise)
    assert not noise.prox(V).any()
    assert noise.prox(V).dtype == dtype
    assert noise.value(V).tolist() == [0.0, 0.0, 0.0]


def test_l1_is_not_a_row_noise():
    assert not isinstance(L1(1.0), RowNoise)


def test_methods_of_a_custom_noise_with_the_names_of_optional_ones_are_not_called():
    class CustomNoise(L1):
        def weight(self, grams):
            raise AssertionError("the solver must not call this method")

        sample_weight = influence = thresholds = loss = weight

    Z = np.random.default_rng(0).standard_normal((20, 6))
    learnt = MaxNormDecomposition(2, noise=CustomNoise(0.1), random_state=0).fit(Z)
    np.testing.assert_array_equal(
        learnt.components_, MaxNormDecomposition(2, noise=L1(0.1), random_state=0).fit(Z).components_
    )


@pytest.mark.parametrize(("lambda2", "cut"), [(0.5, 2.0), (1.0, 1.0), (0.1, 30.0)])
def test_the_prox_of_capped_noise_minimises_its_objective(lambda2, cut):
    """The derivative of the minimum over e is the influence v - e, and no e on a grid has a lower cost."""
    noise = CappedL1(lambda2, cut, huber=0.0, reject=0.0)
    V = np.linspace(-3.2 * cut, 3.2 * cut, 4001)[:, None]
    E = noise.prox(V)
    cost = 0.5 * (V - E)[:, 0] ** 2 + noise.value(E)
    slope = np.diff(cost) / np.diff(V[:, 0])
    influence = (V - E)[:, 0]
    np.testing.assert_allclose(
        slope, 0.5 * (influence[1:] + influence[:-1]), atol=3e-3 * lambda2 + 1e-3 * cut * lambda2
    )
    grid = np.linspace(-3.2 * cut, 3.2 * cut, 2001)
    others = 0.5 * (V[::40] - grid) ** 2 + noise.value(grid[:, None])
    assert (cost[::40] <= others.min(axis=1) + 1e-9).all()


def test_capped_noise_removes_gross_errors_and_limits_the_influence_of_others():
    noise = CappedL1(0.5, 2.0, huber=0.0, reject=0.0)
    V = np.array([[0.3, -1.5, 3.0, 4.0, -1000.0]])
    np.testing.assert_allclose((V - noise.prox(V))[0], [0.3, -0.5, 0.25, 0.0, 0.0])


@pytest.fixture
def residuals():
    """Residuals of two samples, the second of which has a scale of one hundred."""
    return np.random.default_rng(0).standard_normal((2, 400)) * [[1.0], [100.0]]


def test_thresholds_of_capped_noise_follow_the_scale_of_each_sample(residuals):
    noise = CappedL1(0.1, 1.0, huber=1.0, reject=4.0)
    assert isinstance(noise, AdaptiveNoise)
    np.testing.assert_allclose(noise.thresholds(residuals), [[1, 4], [100, 400]], rtol=0.2)


def test_thresholds_of_capped_noise_allow_for_the_degrees_of_freedom(residuals):
    """With 300 components for 400 features, a quarter of the variance is left in the residuals."""
    expected = 2 * CappedL1(0.1, 1.0, huber=1.0, reject=4.0).thresholds(residuals)
    np.testing.assert_allclose(CappedL1(0.1, 1.0, components=300).thresholds(residuals), expected)


def test_capped_noise_lowers_the_weight_of_samples_with_large_residuals(residuals):
    np.testing.assert_allclose(CappedL1(0.1, 1.0, huber=1.0, reject=4.0).sample_weight(residuals), [1.0, 1.0])
    limited = CappedL1(0.1, 1.0, largest=10.0).sample_weight(residuals)
    np.testing.assert_allclose(limited, [1.0, 0.01], rtol=0.5)


def test_capped_noise_is_lenient_with_chosen_features(residuals):
    leniency = np.where(np.arange(400) == 7, 1e4, 1.0)
    E = CappedL1(0.1, 1.0, huber=0.0, reject=0.0, leniency=leniency).prox(residuals)
    assert (E[:, 7] == 0).all()
    assert (E[1] != 0).mean() > 0.9


def test_a_noise_may_return_its_input_array():
    """The encoder reuses its own work space, but never writes to arrays that a noise model returns."""

    class IdentityNoise:
        def prox(self, V):
            return V

        def value(self, E):
            return np.zeros(len(E))

    class AdaptiveIdentityNoise(IdentityNoise, AdaptiveNoise):
        def thresholds(self, V):
            return np.ones((len(V), 2))

        def influence(self, V, thresholds, out=None):
            return V

        def loss(self, V, thresholds):
            return 0.5 * (V**2).sum(axis=1)

    rng = np.random.default_rng(0)
    Z, L = rng.standard_normal((6, 8)), rng.standard_normal((8, 2))
    for noise in (IdentityNoise(), AdaptiveIdentityNoise()):
        code = encode(Z, L, norm=MaxNorm(0.1), noise=noise)
        np.testing.assert_allclose(code.R @ L.T + code.E + code.residual, Z, atol=1e-12)


def test_a_weight_of_whole_samples_that_is_zero_in_single_precision_counts_as_zero():
    V = np.array([[0.0, 0.0], [3.0, 4.0]], dtype=np.float32)
    assert L21(1e-100).weight(V).tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(L21(1e-100).prox(V), V)


def test_samples_of_tiny_residuals_have_full_weight():
    V = np.array([[1e-310, 1e-310], [1.0, -1.0], [1e6, 1e6]])
    weights = CappedL1(0.1, 3.0, largest=2.5e3).sample_weight(V)
    assert weights[:2].tolist() == [1.0, 1.0]
    assert weights[2] < 1e-4


@pytest.mark.parametrize("noise", [L1(1e100), L21(1e100), Squared(1e100), CappedL1(1e100, 1e100)])
def test_thresholds_beyond_single_precision_find_no_noise(noise):
    V = (1e15 * np.random.default_rng(0).standard_normal((6, 9))).astype(np.float32)
    single = within_precision(noise, V.dtype)
    np.testing.assert_allclose(single.prox(V), 0.0, atol=1e-6)
    assert np.isfinite(single.value(single.prox(V))).all()
    assert within_precision(noise, np.dtype(np.float64)) is noise


@pytest.mark.parametrize("leniency", [2.0, np.array(2.0), np.array([2.0]), np.full(6, 2.0)])
def test_the_leniency_of_all_features_may_be_one_number(leniency):
    V = np.array([[0.5, 1.0, 5.0, 9.0, -3.0, 100.0]])
    lenient = CappedL1(1.0, cut=3.0, leniency=leniency)
    thresholds = lenient.thresholds(V)
    expected = CappedL1(1.0, cut=3.0, leniency=np.full(6, 2.0)).influence(V, thresholds)
    np.testing.assert_array_equal(lenient.influence(V, thresholds), expected)


def test_a_leniency_of_the_wrong_length_is_refused():
    V = np.ones((2, 6))
    noise = CappedL1(1.0, cut=3.0)
    with pytest.raises(ValueError, match="broadcast"):
        CappedL1(1.0, cut=3.0, leniency=np.ones(3)).influence(V, noise.thresholds(V))
