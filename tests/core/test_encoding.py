import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxnorm.core.encoding import encode
from maxnorm.core.noise import L1, L21, NoNoise, Squared
from maxnorm.core.norms import MaxNorm, NuclearNorm
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
def test_encode_agrees_with_a_transcription_of_the_paper(norm, noise, masked):
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
    """Return the norm of the KKT residual in the metric of L, relative to the norm of the fit."""
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


def test_the_loss_never_rises_with_more_sweeps():
    Z, L, _ = sample_problem(2)
    losses = [
        encode(Z, L, norm=MaxNorm(0.3), noise=L1(0.05), tol=0.0, max_iter=k).loss.sum()
        for k in (1, 2, 4, 8, 16, 64)
    ]
    assert (np.diff(losses) <= 1e-9 * losses[0]).all()


def test_rows_that_reach_max_iter_are_reported_as_not_converged():
    Z, L, _ = sample_problem(2)
    code = encode(Z, L, norm=MaxNorm(0.3), noise=L1(0.05), tol=1e-12, max_iter=2)
    assert not code.converged.any()
    assert (code.n_iter == 2).all()


@pytest.mark.parametrize("noise", [L1(0.3), L21(2.0)])
def test_the_encoding_of_a_row_does_not_depend_on_the_other_rows(noise):
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
def test_encode_handles_overcomplete_and_rank_deficient_bases(d):
    rng = np.random.default_rng(0)
    L = rng.standard_normal((12, 2)) @ rng.standard_normal((2, d))
    code = encode(rng.standard_normal((5, 12)), L, norm=MaxNorm(0.3), noise=L1(0.3))
    assert code.converged.all()
    assert np.linalg.norm(code.R, axis=1).max() <= 1 + 1e-9


def test_a_sample_without_observed_entries_has_zero_loss():
    Z, L, observed = sample_problem(5, masked=True)
    observed[2] = False
    code = encode(Z, L, observed, norm=MaxNorm(0.3), noise=L1(0.3))
    assert not code.R[2].any()
    assert code.loss[2] == 0.0
    assert code.converged[2]


def test_a_finite_c_agrees_with_the_paper_and_converges_to_its_limit():
    Z, L, observed = sample_problem(6, masked=True)
    Z[:, 0] -= 20
    limit = encode(Z, L, observed, norm=MaxNorm(0.3), noise=NoNoise(), tol=1e-12, max_iter=10_000).R
    gaps = []
    for c in (2.0, 20.0, 2000.0, 2e5):
        R = encode(
            Z, L, observed, norm=MaxNorm(0.3), noise=L1(c), missing_lambda2=1 / c, tol=1e-12, max_iter=10_000
        ).R
        naive = [complete_sample(z, L, c, o, sweeps=400) for z, o in zip(Z[:2], observed[:2], strict=True)]
        np.testing.assert_allclose(R[:2], naive, atol=1e-7)
        gaps.append(np.abs(R - limit).max())
    assert gaps[-1] < 1e-5
    assert sorted(gaps, reverse=True) == gaps


@pytest.mark.parametrize("noise", [Squared(0.2), L21(0.5)])
def test_a_finite_c_reaches_the_same_loss_by_either_solver(noise):
    """The full step for noises that shrink rows and the general alternation agree."""

    class General:
        prox, value = noise.prox, noise.value

    Z, L, observed = sample_problem(7, masked=True)
    kwargs = {"norm": MaxNorm(0.3), "missing_lambda2": 0.1, "tol": 1e-12, "max_iter": 10_000}
    a, b = (encode(Z, L, observed, noise=which, **kwargs) for which in (noise, General()))
    np.testing.assert_allclose(a.loss, b.loss, rtol=1e-8)
