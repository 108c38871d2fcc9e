"""Principal component pursuit: exact recovery, optimality, new samples and missing entries."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxnorm import PrincipalComponentPursuit
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.estimators.pcp import pursue, shrink_singular_values, spectral_norm
from maxnorm.metrics import expressed_variance, relative_error


# Some checks use random data of full rank, for which least absolute deviations take thousands of iterations.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([PrincipalComponentPursuit(tol=1e-5)])
def test_estimator_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("n", "p", "magnitude"), [(200, 80, 1.0), (80, 200, 1.0), (100, 100, 1.0), (200, 80, 1000.0)]
)
def test_low_rank_data_with_few_gross_errors_are_recovered_exactly(n, p, magnitude):
    data = make_corrupted_low_rank(n, p, 4, corruption=0.05, magnitude=magnitude, random_state=0)
    model = PrincipalComponentPursuit().fit(data.X)
    assert relative_error(data.low_rank, model.low_rank_) < 1e-6
    assert relative_error(data.noise, model.noise_) < 1e-6
    assert model.n_components_ == 4
    assert expressed_variance(data.basis, model.components_.T) > 1 - 1e-10
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(4), atol=1e-9)
    assert np.all(np.diff(model.singular_values_) < 0)


@pytest.mark.parametrize("shape", [(9, 6), (6, 9)])
@pytest.mark.parametrize("lambda2", ["auto", 0.6])
@pytest.mark.parametrize("missing", [False, True])
def test_objective_agrees_with_cvxpy(shape, lambda2, missing):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    X += np.where(rng.random(shape) < 0.2, 5 * rng.standard_normal(shape), 0)
    observed = rng.random(shape) < 0.8 if missing else np.ones(shape, dtype=bool)
    weight = max(shape) ** -0.5 if lambda2 == "auto" else lambda2
    low_rank = cp.Variable(shape)
    cost = cp.normNuc(low_rank) + weight * cp.sum(cp.abs(cp.multiply(observed, X - low_rank)))
    best = cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL")
    model = PrincipalComponentPursuit(lambda2=lambda2, tol=1e-6, max_iter=20_000).fit(
        np.where(observed, X, np.nan)
    )
    ours = np.linalg.norm(model.low_rank_, "nuc") + weight * np.abs((X - model.low_rank_)[observed]).sum()
    assert ours == pytest.approx(best, rel=1e-5)
    assert not model.noise_[~observed].any()


def test_multipliers_certify_the_optimum():
    # Random data have no low-rank part to compare with. The multipliers are feasible for the dual problem, so
    # that equal primal and dual objectives prove that both are optimal.
    rng = np.random.default_rng(0)
    Z, lambda2 = rng.standard_normal((60, 40)), 0.16

    def step(M, weight, out):
        shrink_singular_values(M, float(weight[0, 0]), out)

    found = pursue(Z, None, step, lambda2, 1e-9, 5000)
    assert found.converged
    assert np.abs(found.dual).max() <= lambda2 * (1 + 1e-9)
    assert spectral_norm(found.dual) <= 1 + 1e-6
    primal = np.linalg.norm(found.low_rank, "nuc") + lambda2 * np.abs(found.noise).sum()
    assert np.vdot(found.dual, Z) == pytest.approx(primal, rel=1e-6)


def test_shrinking_agrees_with_a_full_svd():
    rng = np.random.default_rng(0)
    for shape in ((30, 8), (8, 30)):
        M = rng.standard_normal(shape)
        U, s, Vt = np.linalg.svd(M, full_matrices=False)
        low_rank, sigma, V = shrink_singular_values(M, 3.0)
        np.testing.assert_allclose(low_rank, U * np.maximum(s - 3.0, 0) @ Vt, atol=1e-12)
        np.testing.assert_allclose(sigma[::-1], s[s > 3.0] - 3.0)
        np.testing.assert_allclose(np.abs(np.sum(V[:, ::-1] * Vt[s > 3.0].T, axis=0)), 1.0)


def test_new_samples_with_missing_entries_and_gross_errors_are_recovered():
    data = make_corrupted_low_rank(400, 60, 4, corruption=0.1, random_state=0)
    model = PrincipalComponentPursuit().fit(data.X[:300])
    X = data.X[300:].copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    parts = model.decompose(X)
    assert relative_error(data.low_rank[300:], parts.low_rank) < 1e-5
    assert parts.converged.all()
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), parts.low_rank, atol=1e-6)
    observed = ~np.isnan(X)
    np.testing.assert_allclose((parts.low_rank + parts.noise + parts.residual)[observed], X[observed])


def test_zeros_have_no_components():
    model = PrincipalComponentPursuit().fit(np.zeros((5, 3)))
    assert model.n_components_ == 0
    assert model.transform(np.ones((2, 3))).shape == (2, 0)


def test_a_single_sample_of_small_scale_is_split():
    model = PrincipalComponentPursuit().fit(1e-9 * np.ones((1, 4)))
    np.testing.assert_allclose(model.low_rank_ + model.noise_, 1e-9, rtol=1e-6)


@pytest.mark.parametrize("parameters", [{"lambda2": 0}, {"tol": -1.0}, {"max_iter": 0}, {"lambda2": "big"}])
def test_errors_name_the_parameter(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        PrincipalComponentPursuit(**parameters).fit(np.eye(3))


def test_fit_warns_if_the_tolerance_is_not_reached():
    with pytest.warns(ConvergenceWarning, match="PrincipalComponentPursuit.fit did not.*max_iter=2"):
        PrincipalComponentPursuit(max_iter=2).fit(np.random.default_rng(0).standard_normal((9, 5)))


def test_a_failed_fit_leaves_the_model_unchanged():
    data = make_corrupted_low_rank(60, 20, 2, corruption=0.05, random_state=0)
    model = PrincipalComponentPursuit().fit(data.X)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.full((4, 9), np.inf))
    assert model.transform(data.X).shape == (60, 2)


def test_inverse_transform_rejects_coefficients_of_another_rank():
    data = make_corrupted_low_rank(60, 20, 2, corruption=0.05, random_state=0)
    with pytest.raises(ValueError, match="R has 5 columns"):
        PrincipalComponentPursuit().fit(data.X).inverse_transform(np.ones((3, 5)))


def test_the_spectral_norm_is_found_where_lapack_cannot_select_an_eigenvalue():
    """For such a matrix of entries of very different scales, LAPACK's selection of eigenvalues may fail."""
    rows = [[0.0, 0.0, 3.0], [0.0, 2.0**63, 3.0], [2.0**63, 0.0, 3.0]]
    M = np.repeat(rows, [11, 4, 3], axis=0)
    assert spectral_norm(M) == pytest.approx(np.linalg.norm(M, 2), rel=1e-9)
    shrunk = shrink_singular_values(M, 1e6)[0]
    np.testing.assert_allclose(shrunk, M, atol=1e7)
