import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxnorm.core.encoding import encode
from maxnorm.core.noise import L1, L21, NoNoise, Squared
from maxnorm.core.norms import MaxNorm, NuclearNorm
from maxnorm.core.state import State, decay, split_missing, surrogate
from maxnorm.learner import run, step
from reference import complete_sample, cvxpy_loss, encode_sample

NORMS = {"max": MaxNorm, "nuclear": NuclearNorm}
NOISES = {"l1": L1, "l21": L21, "squared": Squared, "none": lambda lambda2: NoNoise()}
CASES = [(norm, noise, masked) for norm in NORMS for noise in NOISES for masked in (False, True)]


def sample_problem(seed, n=6, p=12, d=3, masked=False, size=1.0):
    rng = np.random.default_rng(seed)
    L = size * rng.standard_normal((p, d))
    Z = size * (1.2 * rng.standard_normal((n, d)) @ L.T / size + rng.standard_normal((n, p)))
    Z[:, 0] += 20 * size
    observed = rng.random((n, p)) < 0.7 if masked else np.ones((n, p), dtype=bool)
    return Z, L, observed


@pytest.mark.parametrize(("norm", "noise", "masked"), CASES)
def test_encode_agrees_with_the_paper_transcribed(norm, noise, masked):
    Z, L, observed = sample_problem(0, masked=masked)
    code = encode(
        Z,
        L,
        observed if masked else None,
        norm=NORMS[norm](0.3),
        noise=NOISES[noise](0.5),
        tol=1e-13,
        max_iter=20_000,
    )
    assert code.converged.all()
    for i, z in enumerate(Z):
        r, e = encode_sample(z, L, norm, 0.3, noise, 0.5, observed[i])
        np.testing.assert_allclose(code.R[i], r, atol=1e-8)
        np.testing.assert_allclose(code.E[i], e, atol=1e-7)


@pytest.mark.parametrize(("norm", "noise", "masked"), CASES)
def test_encode_reaches_the_value_of_cvxpy(norm, noise, masked):
    Z, L, observed = sample_problem(1, n=3, masked=masked)
    code = encode(
        Z,
        L,
        observed if masked else None,
        norm=NORMS[norm](0.3),
        noise=NOISES[noise](0.5),
        tol=1e-12,
        max_iter=10_000,
    )
    for i, z in enumerate(Z):
        expected = cvxpy_loss(z, L, norm, 0.3, noise, 0.5, observed[i])
        assert code.loss[i] == pytest.approx(expected, rel=1e-6, abs=1e-8)


def kkt_residual(Z, L, observed, code, norm, lambda1):
    """Norm of the KKT residual in the metric of L, relative to what is fitted."""
    target = L.T @ code.residual.T  # = eta r at the solution
    R = code.R.T
    lengths = np.linalg.norm(R, axis=0)
    if norm == "nuclear":
        eta = np.full(R.shape[1], lambda1)
    else:
        assert lengths.max() <= 1 + 1e-9
        with np.errstate(invalid="ignore"):
            eta = np.where(lengths > 1 - 1e-9, np.maximum((target * R).sum(axis=0) / lengths**2, 0.0), 0.0)
    w, Q = np.linalg.eigh(L.T @ L)
    gap = Q.T @ (target - eta * R) / np.sqrt(w)[:, None]
    size = np.hypot(np.linalg.norm(code.R @ L.T, axis=1), np.linalg.norm(code.residual, axis=1))
    return np.linalg.norm(gap, axis=0) / size


@given(
    st.sampled_from(["max", "nuclear"]),
    st.booleans(),
    st.floats(0.01, 3.0),
    st.sampled_from([1e-8, 1.0, 1e8]),
    st.integers(0, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_encode_meets_its_kkt_tolerance(norm, masked, lambda2, size, seed):
    Z, L, observed = sample_problem(seed, masked=masked, size=size)
    weight = 0.3 if norm == "max" else 0.3 * size**2
    code = encode(
        Z,
        L,
        observed if masked else None,
        norm=NORMS[norm](weight),
        noise=L1(lambda2 * size),
        tol=1e-7,
        max_iter=20_000,
    )
    assert code.converged.all()
    assert kkt_residual(Z, L, observed, code, norm, weight).max() <= 3e-7


def test_more_sweeps_never_cost_more():
    Z, L, _ = sample_problem(2)
    losses = [
        encode(Z, L, norm=MaxNorm(0.3), noise=L1(0.05), tol=0.0, max_iter=k).loss.sum()
        for k in (1, 2, 4, 8, 16, 64)
    ]
    assert (np.diff(losses) <= 1e-9 * losses[0]).all()


def test_iteration_cap_is_reported():
    Z, L, _ = sample_problem(2)
    code = encode(Z, L, norm=MaxNorm(0.3), noise=L1(0.05), tol=1e-12, max_iter=2)
    assert not code.converged.any()
    assert (code.n_iter == 2).all()


@pytest.mark.parametrize("noise", [L1(0.3), L21(2.0)])
def test_a_row_does_not_see_its_batch_mates(noise):
    Z, L, observed = sample_problem(3, n=40, masked=True)
    together = encode(Z, L, observed, norm=MaxNorm(0.3), noise=noise)
    for i in (0, 17, 39):
        alone = encode(Z[i : i + 1], L, observed[i : i + 1], norm=MaxNorm(0.3), noise=noise)
        np.testing.assert_allclose(alone.R[0], together.R[i], atol=1e-12)
        assert alone.n_iter[0] == together.n_iter[i]


def test_rotating_the_basis_rotates_the_coefficients():
    Z, L, _ = sample_problem(4)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    kwargs = {"norm": MaxNorm(0.3), "noise": L1(0.3), "tol": 1e-12}
    np.testing.assert_allclose(encode(Z, L @ Q, **kwargs).R, encode(Z, L, **kwargs).R @ Q, atol=1e-9)


@pytest.mark.parametrize("d", [1, 5, 12, 20])
def test_overcomplete_and_rank_deficient_bases(d):
    rng = np.random.default_rng(0)
    L = rng.standard_normal((12, 2)) @ rng.standard_normal((2, d))
    code = encode(rng.standard_normal((5, 12)), L, norm=MaxNorm(0.3), noise=L1(0.3))
    assert code.converged.all()
    assert np.linalg.norm(code.R, axis=1).max() <= 1 + 1e-9


def test_a_sample_without_observations_costs_nothing():
    Z, L, observed = sample_problem(5, masked=True)
    observed[2] = False
    code = encode(Z, L, observed, norm=MaxNorm(0.3), noise=L1(0.3))
    assert not code.R[2].any()
    assert code.loss[2] == 0.0
    assert code.converged[2]


def test_finite_c_of_the_paper_and_its_limit():
    Z, L, observed = sample_problem(6, masked=True)
    Z[:, 0] -= 20
    limit = encode(Z, L, observed, norm=MaxNorm(0.3), noise=NoNoise(), tol=1e-12, max_iter=10_000).R
    gaps = []
    for c in (2.0, 20.0, 2000.0, 2e5):
        R = encode(
            Z, L, observed, norm=MaxNorm(0.3), noise=L1(c), missing_lambda2=1 / c, tol=1e-12, max_iter=10_000
        ).R
        naive = [complete_sample(z, L, c, o, sweeps=1000) for z, o in zip(Z, observed, strict=True)]
        np.testing.assert_allclose(R, naive, atol=1e-7)
        gaps.append(np.abs(R - limit).max())
    assert gaps[-1] < 1e-5
    assert sorted(gaps, reverse=True) == gaps


# -- steps -------------------------------------------------------------------------------------------


def stream(seed=0, n=120, p=15, d=3):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, d)) @ rng.standard_normal((d, p))
    Z[rng.random(Z.shape) < 0.05] += 30
    return Z, np.linalg.qr(rng.standard_normal((p, d)))[0]


SETTINGS = {"norm": MaxNorm(0.2), "noise": L1(0.4), "tol": 1e-10}


def test_step_adds_the_papers_statistics():
    Z, L = stream()
    state, code = step(State.start(L), Z[:7], **SETTINGS)
    clean = Z[:7] - code.E
    np.testing.assert_allclose(state.statistics.A, code.R.T @ code.R, atol=1e-10)
    np.testing.assert_allclose(state.statistics.B, clean.T @ code.R, atol=1e-7)
    again, _ = step(state, Z[7:9], forgetting=2.0, **SETTINGS)
    second = encode(Z[7:9], state.L, **SETTINGS)
    weights = np.array([(8 / 9) ** 2, 1.0])
    expected = (7 / 9) ** 2 * state.statistics.A + (weights[:, None] * second.R).T @ second.R
    np.testing.assert_allclose(again.statistics.A, expected, atol=1e-10)
    assert again.n_samples == 9
    assert again.n_steps == 2


def test_flipping_a_samples_sign_changes_nothing():
    Z, L = stream()
    state, _ = step(State.start(L), Z[:10], **SETTINGS)
    flipped, _ = step(State.start(L), Z[:10] * np.where(np.arange(10) % 3, 1, -1)[:, None], **SETTINGS)
    np.testing.assert_allclose(flipped.statistics.A, state.statistics.A, atol=1e-9)
    np.testing.assert_allclose(flipped.statistics.B, state.statistics.B, atol=1e-7)


def test_permuting_features_permutes_the_basis():
    Z, L = stream()
    order = np.random.default_rng(0).permutation(Z.shape[1])
    batches, permuted = np.split(Z, 6), np.split(Z[:, order], 6)
    plain = run(State.start(L), batches, **SETTINGS).L
    moved = run(State.start(L[order]), permuted, **SETTINGS).L
    np.testing.assert_allclose(moved @ moved.T, (plain @ plain.T)[np.ix_(order, order)], rtol=1e-4, atol=1e-6)


def test_surrogate_from_the_state_is_the_papers_sum():
    """g_t(L) with the r and e of each step, for any L, Eq. (3.1)."""
    Z, L0 = stream()
    codes = []
    norm, noise = SETTINGS["norm"], SETTINGS["noise"]
    state = run(State.start(L0), np.split(Z, 12), callback=lambda s, code: codes.append(code), **SETTINGS)
    R, E = np.concatenate([c.R for c in codes]), np.concatenate([c.E for c in codes])
    for L in (state.L, L0, np.zeros_like(L0)):
        samples = 0.5 * ((Z - R @ L.T - E) ** 2).sum(axis=1) + noise.value(E)
        expected = (samples.sum() + norm.basis_value(L)) / len(Z)
        assert surrogate(state, norm, L) == pytest.approx(expected, rel=1e-9)
    assert surrogate(state, norm) <= surrogate(state, norm, L0)


def test_surrogate_bounds_the_empirical_loss_and_approaches_it():
    Z, L = stream(n=1200)
    norm = SETTINGS["norm"]
    L = run(State.start(L), np.split(Z, 120), forgetting=10.0, **SETTINGS).L  # a basis worth keeping
    gaps = []

    def gap(state, code):
        seen = Z[: state.n_samples]
        loss = encode(seen, state.L, **SETTINGS).loss.sum() + norm.basis_value(state.L)
        gaps.append((surrogate(state, norm) - loss / len(seen)) / surrogate(state, norm))

    run(State.start(L), np.split(Z, 60), callback=gap, **SETTINGS)
    assert min(gaps) >= -1e-6
    assert max(gaps) < 0.02


def test_missing_entries_are_filled_by_the_model_in_the_statistics():
    Z, L = stream()
    Z[0, :10] = np.nan
    state, code = step(State.start(L), *split_missing(Z[:1]), **SETTINGS)
    target = (code.R @ L.T + code.residual)[0]
    np.testing.assert_allclose(target[:10], (code.R @ L.T)[0, :10])
    np.testing.assert_allclose(state.statistics.B, np.outer(target, code.R[0]), atol=1e-9)


def test_decay_is_defined_in_samples():
    """A sample's weight in the end does not depend on how the stream was cut after it."""
    for forgetting, half_life in ((3.0, None), (0.0, 50.0)):
        once = decay(20, 100, forgetting, half_life)
        parts = np.prod([decay(k, k + 8, forgetting, half_life) for k in range(20, 100, 8)])
        assert once == pytest.approx(parts)
    assert decay(20, 100, 3.0, None) == pytest.approx((20 / 100) ** 3)
    assert decay(50, 100, 0.0, 50.0) == pytest.approx(0.5)
    assert decay(0, 10, 0.0, None) == 1.0
    np.testing.assert_allclose(decay(np.array([5, 10]), 10, 2.0, None), [0.25, 1.0])
    assert decay(50, 100, 1.0, 50.0) == pytest.approx(0.25)  # both at once


def test_the_weight_of_a_sample_does_not_depend_on_the_batch_size():
    Z, L = stream()
    for forgetting, half_life in ((3.0, None), (0.5, 20.0)):
        totals = [
            run(
                State.start(L), np.split(Z, k), forgetting=forgetting, half_life=half_life, **SETTINGS
            ).statistics.weight
            for k in (1, 4, 120)
        ]
        assert totals == pytest.approx([totals[0]] * 3)


def test_empty_samples_change_nothing():
    Z, L = stream()
    state, _ = step(State.start(L), Z[:20], **SETTINGS)
    for empty in (np.zeros((5, 15)), np.full((5, 15), np.nan)):
        after, code = step(state, *split_missing(empty), forgetting=5.0, half_life=3.0, **SETTINGS)
        assert after.L is state.L
        assert after.statistics is state.statistics
        assert (after.n_samples, after.time) == (25, 20)
        assert code.R.shape == (0, 3)
    mixed, _ = step(state, np.vstack([Z[20:25], np.zeros((3, 15))]), forgetting=5.0, **SETTINGS)
    plain, _ = step(state, Z[20:25], forgetting=5.0, **SETTINGS)
    np.testing.assert_array_equal(mixed.L, plain.L)


@pytest.mark.parametrize("noise", [Squared(0.2), L21(0.5)])
def test_finite_c_with_a_noise_that_shrinks_rows(noise):
    """Both ways of solving, the whole step and the general alternation, reach the same loss."""

    class General:
        prox, value = noise.prox, noise.value

    Z, L, observed = sample_problem(7, masked=True)
    kwargs = {"norm": MaxNorm(0.3), "missing_lambda2": 0.1, "tol": 1e-12, "max_iter": 10_000}
    a, b = (encode(Z, L, observed, noise=which, **kwargs) for which in (noise, General()))
    np.testing.assert_allclose(a.loss, b.loss, rtol=1e-8)


def test_the_engine_keeps_single_precision():
    Z, L = stream()
    state, code = step(State.start(L.astype(np.float32)), Z[:9].astype(np.float32), **SETTINGS)
    assert {a.dtype for a in (state.L, code.R, code.E, code.residual)} == {np.dtype(np.float32)}
    double, _ = step(State.start(L), Z[:9], **SETTINGS)
    np.testing.assert_allclose(state.L, double.L, atol=1e-3 * np.abs(double.L).max())
