"""Completion: exact steps on observed entries, settings chosen by held-out entries, and recommendations."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import maxnorm
from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA, open_stream
from maxnorm.core.batch import Batch
from maxnorm.core.bias import fit_bias
from maxnorm.core.linalg import products, row_norms, symmetric
from maxnorm.core.norms import MaxNorm, NuclearNorm, max_norm_basis
from maxnorm.core.sparse_encoding import Prior, best_radius, encode_entries, sum_multipliers
from maxnorm.core.state import State, surrogate
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.learner import step
from maxnorm.metrics import relative_error
from maxnorm.sparse import SparseLearner


@pytest.fixture
def rng():
    """A generator per test, so that no test depends on those before it."""
    return np.random.default_rng(1)


def observed_entries(X):
    return Batch(np.asarray(X)).entries()


def random_entries(n, p, share, seed=0):
    """Return a matrix with a share of its entries observed; the others are NaN."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, p)) < share, rng.standard_normal((n, p)), np.nan)


# -- the exact steps ----------------------------------------------------------------------------------


def test_products_of_coefficients_are_outer_products(rng):
    R = rng.standard_normal((4, 3))
    np.testing.assert_allclose(symmetric(products(R), 3), R[:, :, None] * R[:, None, :])


@pytest.mark.parametrize("size", [0.3, 3.0])
def test_coefficients_are_optimal_for_the_observed_entries(size, rng):
    Z, L = random_entries(20, 12, 0.4), size * rng.standard_normal((12, 3))
    code = encode_entries(observed_entries(Z), L, MaxNorm(1.0))
    for z, r, loss in zip(Z, code.R, code.loss, strict=True):
        seen = ~np.isnan(z)
        gradient = L[seen].T @ (L[seen] @ r - z[seen])
        if np.linalg.norm(r) < 1 - 1e-9:
            np.testing.assert_allclose(gradient, 0.0, atol=1e-7)
        else:  # minus the gradient points out of the ball
            np.testing.assert_allclose(gradient, (gradient @ r) * r, atol=1e-7)
            assert gradient @ r <= 1e-9
            assert np.linalg.norm(r) == pytest.approx(1.0)
        assert loss == pytest.approx(0.5 * np.sum((z[seen] - L[seen] @ r) ** 2))


def test_sparse_and_dense_statistics_per_feature_agree_with_their_definition(rng):
    Z, R, weights = random_entries(15, 6, 0.5), rng.standard_normal((15, 3)), rng.random(15)
    seen, filled = ~np.isnan(Z), np.nan_to_num(Z)
    sparse = SufficientStatistics.from_entries(observed_entries(Z), R, weights)
    dense = SufficientStatistics.from_batch(filled, R, np.zeros(15), weights, seen)
    grams = np.einsum("ij,i,ia,ib->jab", seen, weights, R, R)
    np.testing.assert_allclose(symmetric(sparse.grams, 3), grams)
    np.testing.assert_allclose(symmetric(dense.grams, 3), grams)
    np.testing.assert_allclose(sparse.B, (weights[:, None] * filled).T @ R)
    np.testing.assert_allclose(sparse.B, dense.B)
    assert sparse.entries == pytest.approx(weights @ seen.sum(axis=1)) == pytest.approx(dense.entries)
    L = rng.standard_normal((6, 3))
    fit = 0.5 * np.sum(weights[:, None] * np.where(seen, filled - R @ L.T, 0.0) ** 2)
    both = sparse.quadratic(L) - np.vdot(L, sparse.B) + sparse.loss
    assert both == pytest.approx(fit) == pytest.approx(dense.quadratic(L) - np.vdot(L, dense.B) + dense.loss)
    doubled = sparse + sparse.scaled(0.5)
    np.testing.assert_allclose(doubled.grams, 1.5 * sparse.grams)
    np.testing.assert_allclose(sparse.means, np.column_stack([weights @ filled, weights @ seen]))
    np.testing.assert_allclose(dense.means, sparse.means)
    np.testing.assert_allclose(doubled.means, 1.5 * sparse.means)


def test_coefficients_with_a_prior_solve_the_normal_equations(rng):
    Z, L = random_entries(20, 8, 0.7), rng.standard_normal((8, 3))
    half = rng.standard_normal((3, 3))
    prior = Prior(half @ half.T + np.eye(3), rng.standard_normal(3))
    code = encode_entries(observed_entries(Z), L, None, prior=prior)
    for z, r in zip(Z, code.R, strict=True):
        seen = ~np.isnan(z)
        system = L[seen].T @ L[seen] + prior.precision
        right = L[seen].T @ z[seen] + prior.precision @ prior.mean
        np.testing.assert_allclose(r, np.linalg.solve(system, right), rtol=1e-9, atol=1e-12)


def test_missing_entries_of_a_constant_column_are_filled_with_its_value():
    """A row without the entry has no information about it, but all other rows have."""
    rng = np.random.default_rng(0)
    T = rng.standard_normal((1000, 3)) @ rng.standard_normal((3, 20))
    T[:, 3] = 7.0
    X = np.where(rng.random(T.shape) < 0.6, np.nan, T)
    for settings in ({}, {"lambda1": 0.1}):
        model = MaxNormCompletion(4, n_epochs=5, random_state=0, **settings).fit(X)
        filled = model.transform(X)[np.isnan(X[:, 3]), 3]
        assert abs(np.median(filled) - 7.0) < 1.0, settings
        assert np.mean((filled - 7.0) ** 2) < 0.5 * 7.0**2  # zeros have 7.0**2


@pytest.mark.parametrize("lambda1", [0.0, 0.5, 5.0])
def test_the_basis_is_optimal_for_every_feature_at_once(lambda1, rng):
    R = rng.standard_normal((7, 10, 3))
    A, B = np.einsum("jia,jib->jab", R, R), rng.standard_normal((7, 3))
    L = cp.Variable((7, 3))
    roots = [np.linalg.cholesky(a).T for a in A]
    loss = sum(0.5 * cp.sum_squares(roots[j] @ L[j]) - L[j] @ B[j] for j in range(7))
    problem = cp.Problem(cp.Minimize(loss + 0.5 * lambda1 * cp.max(cp.norm(L, 2, axis=1)) ** 2))
    problem.solve(solver=cp.CLARABEL)
    ours = max_norm_basis(A, B, lambda1)
    np.testing.assert_allclose(ours, L.value, atol=1e-4)


def test_the_nuclear_norm_basis_is_a_ridge_regression_per_feature(rng):
    Z, R = random_entries(30, 5, 0.6), rng.standard_normal((30, 2))
    seen = SufficientStatistics.from_entries(observed_entries(Z), R, np.ones(30))
    L = NuclearNorm(0.7).update_basis(np.ones((5, 2)), seen)
    for j in range(5):
        A = symmetric(seen.grams, 2)[j] + 0.7 * np.eye(2)
        np.testing.assert_allclose(L[j], np.linalg.solve(A, seen.B[j]), rtol=1e-6)


def test_the_best_radius_balances_loss_and_norm(rng):
    Z, L = observed_entries(random_entries(40, 12, 0.6)), 0.8 * rng.standard_normal((12, 3))
    code = encode_entries(Z, L, MaxNorm(0.0))
    weight, tau = 0.5, row_norms(L).max()
    found = best_radius(sum_multipliers(code, np.ones(40)), weight * tau**2)

    def objective(rho):
        return encode_entries(Z, rho * L, MaxNorm(0.0)).loss.sum() + 0.5 * weight * (rho * tau) ** 2

    radii = np.linspace(0.98, 2.0, 61)
    best = radii[np.argmin([objective(rho) for rho in radii])]
    assert found == pytest.approx(best, rel=0.05)


def test_the_best_radius_stays_within_its_limits():
    assert best_radius(np.zeros(9), 0.0) == best_radius(np.zeros(9), 1.0) == 0.98  # without pressure
    assert best_radius(np.linspace(9.0, 1.0, 9), 0.5) == 2.0


def test_the_basis_stays_bounded_without_a_norm():
    X = make_corrupted_low_rank(200, 20, 2, corruption=0.0, missing=0.5, random_state=0).X
    model = MaxNormCompletion(2, lambda1=0.0, n_epochs=30, batch_size=20, random_state=0).fit(X)
    assert np.abs(model.components_).max() < 1e3


def test_steps_on_the_same_batch_lower_the_objective(rng):
    data = make_corrupted_low_rank(300, 30, 3, corruption=0.0, missing=0.7, random_state=0)
    Z = observed_entries(data.X)
    zeros = SufficientStatistics.zeros(30, 3, per_feature=True)
    state = State(L=0.3 * rng.standard_normal((30, 3)), statistics=zeros)
    values = []
    for _ in range(10):
        state, _ = step(SparseLearner(lambda1=1.0, refit=True), state, Batch(Z))
        values.append(surrogate(state, MaxNorm(1.0)))
    assert all(b <= a * (1 + 1e-9) for a, b in itertools.pairwise(values))
    assert values[-1] < 0.5 * values[0]


def test_biases_of_rows_and_columns_are_estimated(rng):
    rows, columns = rng.standard_normal(200), rng.standard_normal(50)
    X = 3.0 + rows[:, None] + columns
    X[rng.random(X.shape) < 0.5] = np.nan
    Z = observed_entries(X)
    biases = fit_bias(Z, rounds=30)
    level = biases.mean + biases.columns.mean() + biases.rows(Z).mean()
    assert level == pytest.approx(3.0 + rows.mean() + columns.mean(), abs=0.1)
    assert np.corrcoef(biases.columns, columns)[0, 1] > 0.99
    assert np.corrcoef(biases.rows(Z), rows)[0, 1] > 0.99


def test_bias_models_can_be_added():
    biases = fit_bias(observed_entries(3.0 + random_entries(50, 10, 0.5)))
    merged = biases + biases.scaled(0.5)
    np.testing.assert_allclose(merged.counts, 1.5 * biases.counts)
    assert merged.mean == pytest.approx(biases.mean)


# -- recovery -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "observed", "bound"), [(4, 0.15, 0.05), (4, 0.3, 0.02), (8, 0.5, 0.03)])
def test_missing_entries_are_recovered(rank, observed, bound):
    data = make_corrupted_low_rank(
        1500, 120, rank, corruption=0.0, dense_noise=0.002, missing=1 - observed, random_state=0
    )
    filled = MaxNormCompletion(rank, n_epochs=3, random_state=0).fit_transform(data.X)
    missing = np.isnan(data.X)
    assert relative_error(data.low_rank[missing], filled[missing]) < bound


def test_a_stream_of_few_columns_with_many_gaps_is_filled_as_well_as_an_array():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 20))
    X = np.where(rng.random(truth.shape) < 0.25, truth + 0.1 * rng.standard_normal(truth.shape), np.nan)
    missing = np.isnan(X)
    fitted = MaxNormCompletion(random_state=0).fit(X)
    streamed = MaxNormCompletion(random_state=0)
    for part in np.array_split(X, 8):
        streamed.partial_fit(part)
    of_array, of_stream = (
        relative_error(truth[missing], model.transform(X)[missing]) for model in (fitted, streamed)
    )
    assert of_stream < 1.1 * of_array


def test_missing_entries_are_recovered_in_spite_of_gross_errors():
    data = make_corrupted_low_rank(2500, 100, 4, corruption=0.1, missing=0.7, random_state=0)
    filled = MaxNormCompletion(4, noise="capped", n_epochs=3, random_state=0).fit_transform(data.X)
    missing = np.isnan(data.X)
    assert relative_error(data.low_rank[missing], filled[missing]) < 0.05


def test_sparse_and_dense_input_give_the_same_model():
    X = make_corrupted_low_rank(400, 40, 3, corruption=0.0, missing=0.8, random_state=0).X
    dense = MaxNormCompletion(3, random_state=0).fit(X)
    for sparse in (
        observed_entries(X),
        sp.coo_matrix(observed_entries(X)),
        sp.csc_array(observed_entries(X)),
    ):
        model = MaxNormCompletion(3, random_state=0).fit(sparse)
        np.testing.assert_array_equal(model.components_, dense.components_)
        np.testing.assert_allclose(model.transform(sparse), dense.transform(X))
    one_pass = MaxNormCompletion(3, n_epochs=1, random_state=0).fit(X)
    pieces = MaxNormCompletion(3, random_state=0)
    for part in np.array_split(np.arange(400), 7):
        pieces.partial_fit(observed_entries(X)[part[0] : part[-1] + 1])
    np.testing.assert_array_equal(pieces.components_, one_pass.components_)


def test_a_model_saved_between_sparse_batches_continues_unchanged(tmp_path):
    Z = observed_entries(make_corrupted_low_rank(400, 40, 3, corruption=0.0, missing=0.8, random_state=0).X)
    whole = MaxNormCompletion(3, biases=True, random_state=0).partial_fit(Z)
    half = MaxNormCompletion(3, biases=True, random_state=0).partial_fit(Z[:130])
    half.save(tmp_path / "m.maxnorm")
    again = maxnorm.load(tmp_path / "m.maxnorm").partial_fit(Z[130:])
    np.testing.assert_array_equal(again.components_, whole.components_)
    assert again.selection_ == whole.selection_
    streamed = MaxNormCompletion(3, biases=True, random_state=0).fit(open_stream(Z, batch_size=30))
    np.testing.assert_array_equal(streamed.components_, whole.components_)


# -- automatic settings -------------------------------------------------------------------------------


def test_the_chosen_weight_grows_with_the_noise():
    def chosen(noise):
        data = make_corrupted_low_rank(
            800, 80, 4, corruption=0.0, dense_noise=noise, missing=0.7, random_state=0
        )
        model = MaxNormCompletion(4, norm="max", random_state=0).fit(data.X)
        curve = model.selection_
        assert len(curve["error"]) == len(curve["weight"]) == len(curve["n_components"]) > 2
        return curve["weight"][int(np.argmin(curve["error"]))]

    assert chosen(0.0) < chosen(0.5)


@pytest.mark.parametrize("rank", [2, 5])
@pytest.mark.parametrize("Estimator", [MaxNormDecomposition, OnlineRobustPCA])
def test_the_rank_of_a_decomposition_is_found(Estimator, rank):
    data = make_corrupted_low_rank(
        800, 40, rank, corruption=0.1, dense_noise=0.05 * np.sqrt(rank / 40), random_state=0
    )
    model = Estimator("auto", random_state=0).fit(data.X)
    assert model.n_components_ == rank
    assert model.components_.shape == (rank, 40)


def test_the_rank_of_completion_is_found_within_a_factor_of_two():
    data = make_corrupted_low_rank(1500, 100, 10, corruption=0.0, missing=0.6, random_state=0)
    model = MaxNormCompletion("auto", n_epochs=2, random_state=0).fit(data.X)
    assert 10 <= model.n_components_ <= 20
    missing = np.isnan(data.X)
    assert relative_error(data.low_rank[missing], model.transform(data.X)[missing]) < 0.1


def test_a_given_first_basis_determines_the_rank():
    X = make_corrupted_low_rank(300, 20, 3, corruption=0.1, random_state=0).X
    for Estimator in (MaxNormDecomposition, OnlineRobustPCA, MaxNormCompletion):
        assert Estimator("auto", init=np.eye(4, 20)).fit(X).n_components_ == 4


@pytest.mark.parametrize("Estimator", [MaxNormDecomposition, MaxNormCompletion])
def test_automatic_settings_work_with_two_samples(Estimator):
    model = Estimator("auto", random_state=0).fit([[1.0, 2.0, np.nan], [2.0, 4.0, 6.0]])
    assert np.isfinite(model.components_).all()
    assert model.selection_["error"] == []


def test_automatic_settings_work_while_all_rows_are_waiting():
    model = MaxNormDecomposition("auto", random_state=0).partial_fit(np.ones((3, 4)))
    assert model.n_samples_seen_ == 3
    assert np.isfinite(model.components_).all()


# -- predictions and recommendations ------------------------------------------------------------------


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    taste = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 60))
    stars = 3.0 + 0.6 * taste + 0.5 * rng.standard_normal((400, 1)) + 0.5 * rng.standard_normal(60)
    stars = np.clip(np.rint(stars + 0.3 * rng.standard_normal(stars.shape)), 1, 5)
    seen = rng.random(stars.shape) < 0.3
    return stars, seen, observed_entries(np.where(seen, stars, np.nan))


@pytest.fixture(scope="module")
def recommender(ratings):
    return MaxNormCompletion(3, biases=True, value_range=(1, 5), n_epochs=5, random_state=0).fit(ratings[2])


def test_predictions_are_better_than_the_means_of_columns(ratings, recommender):
    stars, seen, Z = ratings
    rows, columns = np.nonzero(~seen)
    values = recommender.predict_entries(Z, rows, columns)
    assert values.min() >= 1
    assert values.max() <= 5
    error = np.sqrt(np.mean((values - stars[rows, columns]) ** 2))
    means = np.where(seen, stars, np.nan)
    columns_only = np.sqrt(np.mean((np.nanmean(means, axis=0)[columns] - stars[rows, columns]) ** 2))
    assert error < 0.7 * columns_only
    np.testing.assert_allclose(values, recommender.transform(Z)[rows, columns])
    np.testing.assert_allclose(values, recommender.predict_entries(Z)[rows, columns])
    np.testing.assert_array_equal(recommender.transform(Z)[seen], stars[seen])


def test_recommendations_are_the_largest_predictions_of_unobserved_entries(ratings, recommender):
    _, seen, Z = ratings
    columns, values = recommender.recommend(Z[:20], k=5, rank="value")
    everything = np.where(seen[:20], -np.inf, recommender.predict_entries(Z[:20]))
    assert not seen[np.arange(20)[:, None], columns].any()
    np.testing.assert_allclose(values, -np.sort(-everything, axis=1)[:, :5])


def test_recommendations_are_padded_if_there_are_too_few_unobserved_entries(ratings, recommender):
    _, _, Z = ratings
    full = sp.csr_array(np.ones((1, 60)))
    columns, values = recommender.recommend(full, k=3)
    assert columns.tolist() == [[-1, -1, -1]]
    assert np.isnan(values).all()
    assert recommender.recommend(Z[:1], k=100).columns.shape == (1, 100)


@pytest.fixture(scope="module")
def gap(ratings):
    """The ratings as a dense array, without any in column 7."""
    gap = ratings[2].toarray()
    gap[gap == 0] = np.nan
    gap[:, 7] = np.nan
    return gap


def test_empty_rows_and_columns_are_predicted_by_mean_and_biases(gap):
    model = MaxNormCompletion(3, norm="max", biases=True, n_epochs=3, random_state=0).fit(gap)
    mean, biases = model.state_.biases.mean, model.state_.biases
    np.testing.assert_allclose(model.predict_entries(sp.csr_array((1, 60)))[0], mean + biases.columns)
    assert np.isfinite(model.transform(gap)).all()
    assert abs(model.predict_entries(gap)[:, 7] - (mean + biases.rows(observed_entries(gap)))).max() < 1e-6


def test_an_empty_row_is_predicted_by_the_means_of_columns_without_biases(gap):
    model = MaxNormCompletion(3, norm="max", random_state=0).fit(gap)
    guess, columns = model.predict_entries(sp.csr_array((1, 60)))[0], np.arange(60) != 7
    means = np.nanmean(gap[:, columns], axis=0)
    assert guess[7] == 0.0  # the column has no entries
    assert np.linalg.norm(guess[columns] - means) < 0.2 * np.linalg.norm(means)


def test_a_column_without_entries_is_reported(gap):
    with pytest.warns(UserWarning, match="in 1 of the columns of X, the first of which is column 7"):
        filled = MaxNormCompletion(random_state=0).fit_transform(gap)
    assert np.isfinite(filled).all()


def test_repeated_integer_entries_are_averaged():
    stars = sp.coo_matrix(
        (np.array([4, 2, 5, 3, 1, 3]), ([0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1])), shape=(3, 2)
    )
    once = sp.csr_array(np.array([[3.0, 0.0], [5.0, 3.0], [0.0, 2.0]]))
    a = MaxNormCompletion(1, random_state=0).fit(stars)
    b = MaxNormCompletion(1, random_state=0).fit(once)
    np.testing.assert_allclose(a.components_, b.components_)


def test_equal_columns_are_filled_equally():
    rng = np.random.default_rng(0)
    equal = np.tile([[3.0, 3.0, 1.0, 2.0]], (200, 1)) * rng.random((200, 1))
    equal[rng.random(equal.shape) < 0.3] = np.nan
    filled = MaxNormCompletion(1, n_epochs=5, random_state=0).fit_transform(equal)
    assert np.abs(filled[:, 0] - filled[:, 1]).max() < 0.1


def test_explicit_zeros_are_observed():
    rows, columns = np.repeat(np.arange(50), 4), np.tile(np.arange(4), 50)
    Z = sp.csr_array((np.tile([0.0, 1.0, 0.0, 2.0], 50), (rows, columns)), shape=(50, 4))
    model = MaxNormCompletion(1, random_state=0).fit(Z)
    some = sp.csr_array((np.array([0.0]), ([0], [0])), shape=(1, 4))
    assert model.transform(some)[0, 0] == 0.0
    assert Z.nnz == 200


def test_biases_of_two_rows_give_predictions_in_the_range_of_the_ratings():
    few = sp.csr_array(np.array([[4.0, 0.0, 5.0], [3.0, 4.0, 0.0]]))
    model = MaxNormCompletion(2, biases=True, random_state=0).fit(few)
    assert 3.0 < model.predict_entries(few).min() <= model.predict_entries(few).max() < 6.0


def test_biases_are_learnt_with_a_given_first_basis():
    Z = observed_entries(random_entries(300, 12, 0.4) + 10.0)
    model = MaxNormCompletion(2, biases=True, init=np.eye(2, 12), random_state=0).fit(Z)
    assert model.state_.biases.mean == pytest.approx(10.0, abs=0.2)


SOME = np.random.default_rng(0).random((200, 30)) < 0.3


@pytest.mark.parametrize(
    "settings", [{}, {"biases": True}, {"gram": "per-feature"}, {"biases": True, "lambda1": 0.0}], ids=str
)
@pytest.mark.parametrize(
    "X",
    [np.where(SOME, 0.0, np.nan), np.zeros((30, 5)), np.where(SOME, 5.0, np.nan), np.ones((1, 1))],
    ids=["zeros-and-missing", "zeros", "equal-and-missing", "one"],
)
def test_constant_data_give_finite_predictions(X, settings):
    filled = MaxNormCompletion(2, random_state=0, **settings).fit(X).transform(X)
    assert np.isfinite(filled).all()
    if settings.get("biases"):
        np.testing.assert_allclose(filled, np.nanmean(X), atol=0.3)


def test_single_rows_of_zeros_at_the_beginning_do_no_harm():
    data = random_entries(200, 30, 0.3)
    data[:40] *= 0.0
    assert np.isfinite(MaxNormCompletion(3, batch_size=1, random_state=0).fit(data).components_).all()


def test_the_prediction_of_a_row_does_not_depend_on_other_rows(ratings, recommender):
    few = ratings[2][:3].toarray()
    few[few == 0] = np.nan
    huge = few.copy()
    huge[0] *= 1e15
    np.testing.assert_array_equal(recommender.transform(few)[1:], recommender.transform(huge)[1:])
    np.testing.assert_array_equal(recommender.score_samples(few)[1:], recommender.score_samples(huge)[1:])


@pytest.mark.parametrize(
    "settings",
    [{"lambda1": 1.0}, {"noise": "capped"}, {"gram": "shared"}, {"c": 2.0}, {"basis_update": "bcd"}],
)
def test_sparse_and_dense_batches_can_be_mixed_with_any_settings(settings):
    X = make_corrupted_low_rank(300, 30, 3, corruption=0.0, missing=0.6, random_state=0).X
    dense = MaxNormCompletion(3, random_state=0, **{"lambda1": 0.1, **settings}).fit(X)
    for pieces in (
        [observed_entries(X)],
        [X[:20], observed_entries(X[20:])],
        [observed_entries(X[:20]), X[20:]],
    ):
        model = MaxNormCompletion(3, random_state=0, **{"lambda1": 0.1, **settings})
        for piece in pieces:
            model.partial_fit(piece)
        np.testing.assert_array_equal(model.components_, dense.components_)
    batches = [observed_entries(X[:100]), observed_entries(X[100:])]
    streamed = MaxNormCompletion(3, random_state=0, **{"lambda1": 0.1, **settings}).fit(open_stream(batches))
    np.testing.assert_array_equal(streamed.components_, dense.components_)


def test_predict_refuses_wrong_rows_and_columns(ratings, recommender):
    _, _, Z = ratings
    with pytest.raises(ValueError, match="has 59 features, but MaxNormCompletion is expecting 60"):
        recommender.predict_entries(Z[:, :59], [0], [0])
    with pytest.raises(ValueError, match="of the same length"):
        recommender.predict_entries(Z, [0, 1], [0])
    with pytest.raises(ValueError, match="columns must be integers from 0 to 59"):
        recommender.predict_entries(Z, [0], [60])
    with pytest.raises(ValueError, match="rows must be integers"):
        recommender.predict_entries(Z, [0.5], [0])


def test_recommend_refuses_less_than_one_recommendation(ratings, recommender):
    with pytest.raises(ValueError, match="k must be an integer of at least 1, got 0"):
        recommender.recommend(ratings[2], 0)


def test_infinite_entries_of_sparse_input_are_located():
    with pytest.raises(ValueError, match="infinity, first in row 3, column 0"):
        MaxNormCompletion(2).fit(sp.csr_array((np.array([np.inf]), ([3], [0])), shape=(5, 4)))


def test_sparse_input_that_is_too_large_not_real_or_without_features_is_refused(ratings):
    for wrong in (1e160 * ratings[2], 1j * ratings[2], sp.csr_array((5, 0))):
        with pytest.raises(ValueError, match=r"too large|must be numeric|0 feature"):
            MaxNormCompletion(2).fit(wrong)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("value_range", (5, 1)),
        ("value_range", (None, 5)),
        ("value_range", ("a", "b")),
        ("value_range", 3),
        ("biases", "yes"),
        ("gram", "some"),
    ],
)
def test_errors_name_the_parameter(parameter, value, ratings):
    with pytest.raises(ValueError, match=f"{parameter} of MaxNormCompletion must be"):
        MaxNormCompletion(2, **{parameter: value}).fit(ratings[2])


def test_biases_of_the_max_norm_cannot_be_combined_with_a_noise_model(ratings):
    with pytest.raises(ValueError, match="biases=True needs noise='none'"):
        MaxNormCompletion(2, norm="max", biases=True, noise="capped").fit(ratings[2])


def test_biases_cannot_be_switched_on_after_fit(ratings):
    model = MaxNormCompletion(2, norm="max").fit(ratings[2])
    with pytest.raises(
        ValueError, match="biases of MaxNormCompletion was False when it was fitted and is now True"
    ):
        model.set_params(biases=True).partial_fit(ratings[2])


def test_completion_can_impute_in_a_pipeline():
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((300, 3))
    X = hidden @ rng.standard_normal((3, 30))
    y = hidden @ [1.0, 2.0, 3.0]
    X[rng.random(X.shape) < 0.4] = np.nan
    pipeline = make_pipeline(MaxNormCompletion(3, n_epochs=3, random_state=0), Ridge())
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.95


@pytest.mark.parametrize("biases", ["auto", True])
def test_ratings_with_gross_errors_are_learnt_as_if_these_were_missing(biases, tmp_path):
    rng = np.random.default_rng(0)
    true = 3.0 + rng.standard_normal((400, 2)) @ rng.standard_normal((2, 50)) + rng.standard_normal((400, 1))
    seen = rng.random(true.shape) < 0.3
    values = np.where(rng.random(true.shape) < 0.05, -80.0, true + 0.3 * rng.standard_normal(true.shape))
    X = sp.csr_array((values[seen], np.nonzero(seen)), shape=true.shape)
    told = X.copy()
    told.data[told.data == -80.0] = np.nan
    model = MaxNormCompletion(noise="capped", biases=biases, random_state=0).fit(X)
    reference = MaxNormCompletion(biases=True, random_state=0).fit(told)
    errors = [m.predict_entries(Z)[~seen] - true[~seen] for m, Z in ((model, X), (reference, told))]
    assert np.std(errors[0]) < 1.1 * np.std(errors[1])
    model.save(tmp_path / "m.maxnorm")
    again = maxnorm.load(tmp_path / "m.maxnorm").partial_fit(X[:10])
    assert np.isfinite(again.predict_entries(X[:10])).all()
