import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxnorm.core.linalg import row_norms
from maxnorm.core.norms import DivergenceError, MaxNorm, NuclearNorm, max_norm_basis, weighted_max_norm
from maxnorm.core.statistics import SufficientStatistics
from reference import cvxpy_basis


def problem(p, d, seed, n=None):
    """Return random statistics A and B of n samples, and the generator."""
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((n or 3 * d, d))
    return R.T @ R, rng.standard_normal((p, n or 3 * d)) @ R, rng


def value(L, A, B, lambda1):
    """Return the objective of the basis update with the max-norm."""
    longest = np.linalg.norm(L, axis=1).max()
    return 0.5 * np.trace(L @ A @ L.T) - np.sum(L * B) + 0.5 * lambda1 * longest**2


@given(st.integers(1, 12), st.integers(1, 6), st.floats(1e-4, 1e4), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_multipliers_of_the_exact_basis_sum_to_lambda1(p, d, lambda1, seed):
    A, B, _ = problem(p, d, seed)
    L = max_norm_basis(A, B, lambda1)
    lengths = np.linalg.norm(L, axis=1)
    # Stationarity, row by row: b_i - A l_i = eta_i l_i, with eta_i > 0 only for the longest rows.
    gradient = B - L @ A
    eta = np.sum(gradient * L, axis=1) / lengths**2
    np.testing.assert_allclose(gradient, eta[:, None] * L, atol=1e-8 * np.abs(B).max())
    assert eta.min() >= -1e-9 * lambda1
    assert eta.sum() == pytest.approx(lambda1, rel=1e-8)
    assert lengths[eta > 1e-6 * lambda1].min() >= lengths.max() * (1 - 1e-8)


def test_the_exact_basis_minimises_the_objective():
    A, B, rng = problem(15, 4, 0)
    for lambda1 in (0.0, 0.1, 10.0, 1e3):
        L = max_norm_basis(A, B, lambda1)
        for size in (1e-6, 1e-3, 0.1):
            for _ in range(50):
                assert value(L + size * rng.standard_normal(L.shape), A, B, lambda1) >= value(
                    L, A, B, lambda1
                )


def test_the_exact_basis_agrees_with_cvxpy():
    for seed in range(3):
        A, B, _ = problem(6, 3, seed)
        for lambda1 in (0.5, 20.0):
            L = max_norm_basis(A, B, lambda1)
            assert value(L, A, B, lambda1) == pytest.approx(cvxpy_basis(A, B, lambda1), rel=1e-6)


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("lambda1", [1e-8, 1e-2, 1.0, 1e3, 1e9])
def test_the_exact_basis_is_optimal_for_any_condition_number_and_weight(condition, lambda1):
    A, B, _ = problem(40, 6, 4)
    C = np.diag(np.geomspace(1.0, condition**-0.5, 6))
    A, B = C @ A @ C, B @ C
    B[3] = 0.0
    L = max_norm_basis(A, B, lambda1)
    gradient = B - L @ A
    lengths = np.maximum(row_norms(L), 1e-100)
    eta = np.sum(gradient * L, axis=1) / lengths**2
    assert eta.sum() == pytest.approx(lambda1, rel=1e-4, abs=1e-9 * np.trace(A))
    assert np.all(lengths[eta > 1e-3 * eta.max()] >= lengths.max() * (1 - 1e-6))


@pytest.mark.parametrize("lambda1", [0.0, 1e-300, 1e-18, 1e300])
def test_the_exact_basis_is_finite_for_extreme_weights(lambda1):
    A, B, _ = problem(9, 3, 0)
    assert np.isfinite(max_norm_basis(A, B, lambda1)).all()


def test_the_exact_basis_of_zero_statistics_is_zero():
    assert not max_norm_basis(np.eye(2), np.zeros((3, 2)), 1.0).any()


def test_the_nuclear_norm_basis_is_a_ridge_regression():
    A, B, rng = problem(8, 3, 0)
    statistics = SufficientStatistics(A, B, np.zeros(len(A)), 0.0, 9.0)
    L = NuclearNorm(0.7).update_basis(rng.standard_normal((8, 3)), statistics)
    np.testing.assert_allclose(L, B @ np.linalg.inv(A + 0.7 * np.eye(3)), rtol=1e-7)


@pytest.mark.parametrize("norm", [MaxNorm(1e-14), NuclearNorm(1e-14)])
def test_the_basis_is_kept_in_directions_without_samples(norm):
    """After fewer samples than components the minimiser is not unique, against assumption A2 of the paper.

    The basis must not lose rank then.
    """
    rng = np.random.default_rng(0)
    L0 = np.linalg.qr(rng.standard_normal((10, 4)))[0]
    r, z = rng.standard_normal((1, 4)), rng.standard_normal((1, 10))
    L = norm.update_basis(L0, SufficientStatistics.from_batch(z, r, np.zeros(1)))
    assert np.linalg.matrix_rank(L) == 4
    unused = np.linalg.svd(r)[2][1:]
    np.testing.assert_allclose(L @ unused.T, L0 @ unused.T, atol=1e-2)
    np.testing.assert_allclose(L @ r[0], z[0], atol=1e-6)


def test_algorithm_4_reaches_the_exact_basis_when_it_converges():
    A, B, rng = problem(10, 3, 1, n=2000)
    statistics, lambda1 = SufficientStatistics(A, B, np.zeros(len(A)), 0.0, 2000.0), 1e-3
    norm = MaxNorm(lambda1, "bcd")
    L = rng.standard_normal((10, 3))
    for _ in range(300):
        L = norm.update_basis(L, statistics)
    best = value(max_norm_basis(A, B, lambda1), A, B, lambda1)
    assert value(L, A, B, lambda1) == pytest.approx(best, rel=1e-6)


def test_algorithm_4_raises_an_error_when_it_diverges():
    A, B = np.diag([1e-6, 1.0]), np.ones((4, 2))
    with pytest.raises(DivergenceError, match="basis_update='exact'"):
        MaxNorm(1.0, "bcd").update_basis(
            np.ones((4, 2)), SufficientStatistics(A, B, np.zeros(len(A)), 0.0, 1.0)
        )


@pytest.mark.parametrize("factor", [2.0**-600, 2.0**-250, 2.0**250, 2.0**600])
def test_the_exact_basis_does_not_depend_on_the_weight_of_the_samples(factor):
    A, B, _ = problem(9, 3, 0)
    expected = max_norm_basis(A, B, 0.1)
    np.testing.assert_allclose(max_norm_basis(factor * A, factor * B, factor * 0.1), expected, rtol=1e-9)


def test_the_exact_basis_of_tiny_sums_is_finite():
    A, B, _ = problem(9, 3, 0)
    for tiny in (1e-160, 1e-310, 5e-324):
        assert np.isfinite(max_norm_basis(A, tiny * B, 0.1)).all()


def test_a_basis_that_vanishes_gets_no_coefficients():
    sigma = np.array([1e-200, 1e-180])
    multipliers = NuclearNorm(30.0).multipliers(np.ones((2, 2)), sigma, np.ones(1), None)
    assert np.isinf(multipliers).all()


@pytest.mark.parametrize("lambda1", [0.0, 1e100])
def test_the_cost_of_coefficients_is_finite_in_single_precision(lambda1):
    R = np.full((2, 3), 1e25 if not lambda1 else 0.0, dtype=np.float32)
    assert NuclearNorm(lambda1).coefficient_value(R).tolist() == [0.0, 0.0]


def test_the_prior_of_rows_that_shrink_stays_bounded():
    """Rows that are tiny beside the residuals made a prior so strong that the update was not finite."""
    rng = np.random.default_rng(0)
    Z, R = rng.standard_normal((30, 6)) * 1e10, rng.standard_normal((30, 2))
    seen = SufficientStatistics.from_batch(Z, R, np.zeros(30), observed=np.ones(Z.shape, dtype=bool))
    L = 1e-12 * rng.standard_normal((6, 2))
    norm = weighted_max_norm(seen, L, weight=1e-6, prior=1.0)
    assert np.trace(norm.ridge) <= 1.001e3 * np.trace(seen.A)
    assert np.isfinite(norm.update_basis(L, seen)).all()
