import numpy as np
import pytest

from maxnorm.noise import L1, L21, Noise, NoNoise, RowNoise, Squared

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


@pytest.mark.parametrize("noise", [*NOISES, L1(0.0), L21(0.0), Squared(0.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_stay_and_precision_is_kept(noise, dtype):
    V = np.zeros((3, 4), dtype)
    assert isinstance(noise, Noise)
    assert not noise.prox(V).any()
    assert noise.prox(V).dtype == dtype
    assert noise.value(V).tolist() == [0.0, 0.0, 0.0]


def test_l1_is_not_a_row_noise():
    assert not isinstance(L1(1.0), RowNoise)
