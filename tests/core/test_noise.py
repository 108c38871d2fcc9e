import numpy as np
import pytest

from maxnorm import MaxNormDecomposition
from maxnorm.core.encoding import encode
from maxnorm.core.noise import L1, L21, AdaptiveNoise, CappedL1, Noise, NoNoise, RowNoise, Squared
from maxnorm.core.norms import MaxNorm

NOISES = [L1(0.7), L21(1.3), Squared(0.4), NoNoise()]


@pytest.mark.parametrize("noise", NOISES)
def test_prox_beats_everything_around_it(noise):
    rng = np.random.default_rng(0)
    V = 2 * rng.standard_normal((5, 4))
    E = noise.prox(V)
    best = 0.5 * ((V - E) ** 2).sum(axis=1) + noise.value(E)
    if isinstance(noise, NoNoise):
        assert not E.any()  # the only feasible point
        return
    for size in (1e-3, 0.1, 1.0, 10.0):
        for _ in range(200):
            other = E + size * rng.standard_normal(E.shape)
            assert (0.5 * ((V - other) ** 2).sum(axis=1) + noise.value(other) >= best - 1e-12).all()


@pytest.mark.parametrize(
    ("noise", "dual_ball"),
    [
        (L1(0.7), lambda V: np.clip(V, -0.7, 0.7)),
        (L21(1.3), lambda V: V * np.minimum(1, 1.3 / np.linalg.norm(V, axis=1))[:, None]),
    ],
)
def test_moreau_identity(noise, dual_ball):
    """A norm's prox and the projection onto its dual ball sum to the identity."""
    V = 2 * np.random.default_rng(1).standard_normal((50, 6))
    np.testing.assert_allclose(noise.prox(V) + dual_ball(V), V, atol=1e-14)


@pytest.mark.parametrize("noise", NOISES[1:])
def test_row_noise_weight_says_what_prox_leaves(noise):
    V = 2 * np.random.default_rng(2).standard_normal((20, 6))
    assert isinstance(noise, RowNoise)
    np.testing.assert_allclose(V - noise.prox(V), noise.weight(V)[:, None] * V, atol=1e-14)


@pytest.mark.parametrize(
    "noise", [*NOISES, CappedL1(0.2, 1.0), CappedL1(0.0, 0.0), L1(0.0), L21(0.0), Squared(0.0)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_stay_and_precision_is_kept(noise, dtype):
    V = np.zeros((3, 4), dtype)
    assert isinstance(noise, Noise)
    assert not noise.prox(V).any()
    assert noise.prox(V).dtype == dtype
    assert noise.value(V).tolist() == [0.0, 0.0, 0.0]


def test_l1_is_not_a_row_noise():
    assert not isinstance(L1(1.0), RowNoise)


def test_a_foreign_noise_may_have_methods_with_the_names_of_optional_ones():
    class Mine(L1):
        def weight(self, grams):
            raise AssertionError("not a method for the solver")

        sample_weight = influence = thresholds = loss = weight

    Z = np.random.default_rng(0).standard_normal((20, 6))
    learnt = MaxNormDecomposition(2, noise=Mine(0.1), random_state=0).fit(Z)
    np.testing.assert_array_equal(
        learnt.components_, MaxNormDecomposition(2, noise=L1(0.1), random_state=0).fit(Z).components_
    )


@pytest.mark.parametrize(("lambda2", "cut"), [(0.5, 2.0), (1.0, 1.0), (0.1, 30.0)])
def test_capped_noise_is_the_prox_of_its_value(lambda2, cut):
    """The cost after minimising over e has the influence v - e as its derivative, and e beats a grid."""
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


def test_capped_noise_rejects_gross_errors_and_limits_the_rest():
    noise = CappedL1(0.5, 2.0, huber=0.0, reject=0.0)
    V = np.array([[0.3, -1.5, 3.0, 4.0, -1000.0]])
    np.testing.assert_allclose((V - noise.prox(V))[0], [0.3, -0.5, 0.25, 0.0, 0.0])


def test_capped_noise_is_lenient_with_samples_and_features_that_are_fitted_badly():
    V = np.random.default_rng(0).standard_normal((2, 400)) * [[1.0], [100.0]]
    noise = CappedL1(0.1, 1.0, huber=1.0, reject=4.0)
    assert isinstance(noise, AdaptiveNoise)
    np.testing.assert_allclose(noise.thresholds(V), [[1, 4], [100, 400]], rtol=0.2)
    overfitted = CappedL1(0.1, 1.0, components=300).thresholds(V)
    np.testing.assert_allclose(overfitted, 2 * noise.thresholds(V))
    np.testing.assert_allclose(noise.sample_weight(V), [1.0, 1.0])
    np.testing.assert_allclose(CappedL1(0.1, 1.0, largest=10.0).sample_weight(V), [1.0, 0.01], rtol=0.5)
    lenient = CappedL1(0.1, 1.0, huber=0.0, reject=0.0, leniency=np.where(np.arange(400) == 7, 1e4, 1.0))
    assert (lenient.prox(V)[:, 7] == 0).all()
    assert (lenient.prox(V)[1] != 0).mean() > 0.9


def test_a_noise_may_return_what_it_was_given():
    """Work space is reused, but never that of somebody else."""

    class Free:
        def prox(self, V):
            return V

        def value(self, E):
            return np.zeros(len(E))

    class Stubborn(Free, AdaptiveNoise):
        def thresholds(self, V):
            return np.ones((len(V), 2))

        def influence(self, V, thresholds, out=None):
            return V

        def loss(self, V, thresholds):
            return 0.5 * (V**2).sum(axis=1)

    rng = np.random.default_rng(0)
    Z, L = rng.standard_normal((6, 8)), rng.standard_normal((8, 2))
    for noise in (Free(), Stubborn()):
        code = encode(Z, L, norm=MaxNorm(0.1), noise=noise)
        np.testing.assert_allclose(code.R @ L.T + code.E + code.residual, Z, atol=1e-12)
