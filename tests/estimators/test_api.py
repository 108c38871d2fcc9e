"""The scikit-learn estimator API and the streaming contract, for every estimator."""

import pickle
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA
from maxnorm.core.noise import L1
from maxnorm.core.norms import DivergenceError
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import expressed_variance, relative_error
from maxnorm.paper.methods import PAPER_PROBLEM


def assert_same_fields(a, b):
    for f in fields(a):
        np.testing.assert_array_equal(getattr(a, f.name), getattr(b, f.name))


ESTIMATORS = [MaxNormDecomposition, OnlineRobustPCA, MaxNormCompletion]
DECOMPOSERS = ESTIMATORS[:2]


def expected_failures(estimator):
    """Return the checks that an estimator is not expected to pass, with the reason."""
    if isinstance(estimator, MaxNormCompletion):
        return {}
    weights = "robust scales, from which the fit starts, treat all samples of positive weight alike"
    return {
        "check_sample_weight_equivalence_on_dense_data": weights,
        "check_sample_weight_equivalence_on_sparse_data": "sparse matrices are streams, without weights",
    }


@parametrize_with_checks([E() for E in ESTIMATORS], expected_failed_checks=expected_failures)
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return make_corrupted_low_rank(600, 50, 4, corruption=0.15, random_state=0)


@pytest.mark.parametrize("Estimator", DECOMPOSERS)
def test_decomposition_recovers_corrupted_data(Estimator, data):
    model = Estimator(n_components=4, n_epochs=3, random_state=0).fit(data.X)
    low_rank, noise, residual, R, converged = model.decompose(data.X)
    assert expressed_variance(data.basis, model.components_.T) > 0.999
    assert relative_error(data.low_rank, low_rank) < 0.15
    np.testing.assert_allclose(low_rank + noise + residual, data.X, atol=1e-8)
    np.testing.assert_allclose(model.transform(data.X), R)
    np.testing.assert_allclose(model.inverse_transform(R), low_rank)
    assert converged.all()
    assert R.shape == (600, 4)
    found, true = np.abs(noise) > 10, np.abs(data.noise) > 10
    assert (found == true).mean() > 0.995
    assert model.n_samples_seen_ == 1800


@pytest.mark.filterwarnings("ignore:.* of the entries of X were classified")  # six steps are few
@pytest.mark.parametrize("Estimator", ESTIMATORS)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_fit_is_partial_fit_over_the_same_batches(Estimator, missing):
    X = make_corrupted_low_rank(90, 12, 3, missing=missing, random_state=1).X
    whole = Estimator(n_components=3, batch_size=15, random_state=0).fit(X)
    parts = Estimator(n_components=3, batch_size=15, random_state=0)
    for batch in np.split(X, 6):
        parts.partial_fit(batch)
    in_two = Estimator(n_components=3, batch_size=15, random_state=0).partial_fit(X[:45]).partial_fit(X[45:])
    for other in (parts, in_two):
        np.testing.assert_array_equal(other.components_, whole.components_)
        np.testing.assert_array_equal(other.state_.statistics.B, whole.state_.statistics.B)
        assert_same_fields(other.state_.scales, whole.state_.scales)
        assert other.objective_ == whole.objective_
    assert whole.n_iter_ == 6


@pytest.mark.parametrize("Estimator", ESTIMATORS)
@pytest.mark.parametrize("batch_size", ["auto", 15])
@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_how_rows_are_cut_into_calls_makes_no_difference(Estimator, batch_size, chunk, data):
    X = data.X[:200]
    model = Estimator(n_components=4, batch_size=batch_size, n_epochs=1, random_state=0)
    whole = clone(model).fit(X)
    for i in range(0, 200, chunk):
        rows = X[i : i + chunk].copy()
        model.partial_fit(rows)
        rows[:] = np.nan  # the caller may reuse the memory of the rows
        assert model.n_samples_seen_ == min(i + chunk, 200)
        if i % 21 == 0:  # reading the components learns from waiting rows, but must not change the model
            assert model.components_.shape == (4, X.shape[1])
    np.testing.assert_array_equal(model.components_, whole.components_)
    np.testing.assert_array_equal(model.transform(X), whole.transform(X))
    assert_same_fields(model.state_.scales, whole.state_.scales)
    assert pickle.loads(pickle.dumps(model)).objective_ == whole.objective_


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_a_resumed_model_equals_an_uninterrupted_one(Estimator, data):
    model = Estimator(n_components=4, random_state=0).partial_fit(data.X[:100])
    resumed = pickle.loads(pickle.dumps(model)).partial_fit(data.X[100:200])
    model.partial_fit(data.X[100:200])
    np.testing.assert_array_equal(resumed.components_, model.components_)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_input_is_neither_changed_nor_kept(Estimator):
    X = make_corrupted_low_rank(40, 8, 2, missing=0.1, random_state=0).X
    before = X.copy()
    model = Estimator(n_components=2, random_state=0).fit(X)
    model.transform(X)
    np.testing.assert_array_equal(X, before)
    components = model.components_.copy()
    X[:] = 0
    np.testing.assert_array_equal(model.components_, components)
    complete = make_corrupted_low_rank(40, 8, 2, random_state=0).X
    assert not np.shares_memory(model.transform(complete), complete)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_single_precision_is_kept(Estimator, data):
    double = Estimator(n_components=4, random_state=0).fit(data.X)
    single = Estimator(n_components=4, random_state=0).fit(data.X.astype(np.float32))
    assert single.components_.dtype == np.float32
    assert single.transform(data.X.astype(np.float32)).dtype == np.float32
    single.partial_fit(data.X[:20])
    assert single.components_.dtype == np.float32
    if Estimator is not MaxNormCompletion:  # it fits the gross errors and therefore not the subspace
        assert expressed_variance(double.components_.T, single.components_.T) > 0.99
        parts = single.decompose(data.X[:5].astype(np.float32))
        assert {a.dtype for a in parts[:4]} == {np.dtype(np.float32)}


@pytest.mark.parametrize("Estimator", DECOMPOSERS)
def test_data_frames_give_named_columns_in_pandas_output(Estimator, data):
    frame = pd.DataFrame(data.X, columns=[f"sensor {i}" for i in range(50)])
    frame.iloc[3, 4] = None
    model = Estimator(n_components=3, random_state=0).set_output(transform="pandas")
    out = model.fit_transform(frame)
    prefix = Estimator.__name__.lower()
    assert list(out.columns) == [f"{prefix}{i}" for i in range(3)] == list(model.get_feature_names_out())
    assert out.index.equals(frame.index)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame.rename(columns={"sensor 0": "other"}))


def test_completion_keeps_feature_names_and_observed_entries():
    data = make_corrupted_low_rank(400, 20, 2, corruption=0.0, missing=0.3, random_state=0)
    frame = pd.DataFrame(data.X, columns=[f"item {i}" for i in range(20)])
    model = MaxNormCompletion(n_components=2, n_epochs=5, random_state=0).set_output(transform="pandas")
    filled = model.fit(frame[:300]).transform(frame)
    assert list(filled.columns) == list(frame.columns)
    known = frame.notna().to_numpy()
    np.testing.assert_array_equal(filled.to_numpy()[known], data.X[known])
    error = relative_error(data.low_rank[300:][~known[300:]], filled.to_numpy()[300:][~known[300:]])
    assert error < 0.1  # in rows that were not learnt from


def test_completion_recovers_data_with_missing_entries_and_gross_errors():
    data = make_corrupted_low_rank(1500, 60, 3, corruption=0.1, missing=0.3, random_state=0)
    model = MaxNormCompletion(n_components=3, noise="capped", random_state=0).fit(data.X)
    assert expressed_variance(data.basis, model.components_.T) > 0.99
    gaps = np.isnan(data.X)
    assert relative_error(data.low_rank[gaps], model.transform(data.X)[gaps]) < 0.2


def test_completion_with_a_growing_finite_c_approaches_its_limit():
    X = make_corrupted_low_rank(200, 15, 2, corruption=0.0, missing=0.3, random_state=0).X
    settings = {"n_components": 2, "batch_size": 20, "max_iter": 500, "forgetting": 1.0, "random_state": 0}
    settings |= {"lambda1": 0.2, "gram": "shared"}
    limit = MaxNormCompletion(**settings).fit(X).components_  # transform cannot be compared: it adds a prior
    gaps = [
        np.abs(MaxNormCompletion(c=c, **settings).fit(X).components_ - limit).max() for c in (10.0, 1e3, 1e6)
    ]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_the_transform_of_a_row_does_not_depend_on_other_rows(Estimator, data):
    X = data.X[:50].copy()
    X[::4, ::7] = np.nan
    model = Estimator(n_components=4, random_state=0).fit(data.X)
    whole = model.transform(X)
    for i in (0, 1, 30):
        np.testing.assert_allclose(
            model.transform(X[i : i + 1])[0], whole[i], atol=1e-6 * np.abs(whole).max()
        )


def test_the_block_size_of_transform_does_not_change_the_result(monkeypatch, data):
    model = MaxNormDecomposition(n_components=4, random_state=0).fit(data.X)
    whole = model.decompose(data.X)
    monkeypatch.setattr("maxnorm.learner.APPLY_ENTRIES", 50 * 7)
    for a, b in zip(model.decompose(data.X), whole, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_scores_are_higher_for_normal_samples(data):
    for parameters in ({}, PAPER_PROBLEM):
        model = MaxNormDecomposition(n_components=4, random_state=0, **parameters).fit(data.X)
        normal, odd = model.score_samples(data.low_rank), model.score_samples(data.low_rank + 50)
        assert normal.min() > odd.max()
        assert model.score(data.low_rank) == pytest.approx(normal.mean())
    assert (normal <= 0).all()  # minus a loss


def test_any_object_with_the_noise_protocol_can_be_used(data):
    class Mine:
        lambda2 = 0.3

        def prox(self, V):
            return V - np.clip(V, -0.3, 0.3)

        def value(self, E):
            return 0.3 * np.abs(E).sum(axis=1)

    mine = MaxNormDecomposition(n_components=4, noise=Mine(), random_state=0).fit(data.X)
    ours = MaxNormDecomposition(n_components=4, noise=L1(0.3), random_state=0).fit(data.X)
    np.testing.assert_allclose(mine.components_, ours.components_)
    assert mine.lambda2_ == 0.3


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("Estimator", [MaxNormDecomposition, OnlineRobustPCA])
def test_l21_noise_finds_outlying_samples(Estimator, seed):
    rng = np.random.default_rng(seed)
    data = make_corrupted_low_rank(1500, 60, 4, corruption=0.0, dense_noise=0.05, random_state=seed)
    outlying = rng.random(1500) < 0.15
    X = np.where(outlying[:, None], 20 * rng.standard_normal(data.X.shape), data.X)
    robust = Estimator(n_components=4, noise="l21", random_state=0).fit(X)
    plain = Estimator(n_components=4, noise="none", random_state=0).fit(X)
    assert expressed_variance(data.basis, robust.components_.T) > 0.98
    assert expressed_variance(data.basis, plain.components_.T) < 0.9
    flagged = np.any(robust.decompose(X).noise, axis=1)
    assert flagged[outlying].all()
    assert flagged[~outlying].mean() < 0.06


def test_a_half_life_follows_a_drifting_stream():
    first = make_corrupted_low_rank(2000, 40, 3, random_state=0)
    second = make_corrupted_low_rank(400, 40, 3, random_state=1)
    without = MaxNormDecomposition(n_components=3, forgetting=0.0, random_state=0).fit(first.X)
    with_half_life = MaxNormDecomposition(n_components=3, forgetting=0.0, half_life=60, random_state=0).fit(
        first.X
    )
    for model in (without, with_half_life):
        model.partial_fit(second.X)
    assert expressed_variance(second.basis, with_half_life.components_.T) > 0.94
    assert expressed_variance(second.basis, without.components_.T) < 0.9


def test_a_given_first_basis_is_used(data):
    init = np.random.default_rng(0).standard_normal((4, 50))
    a = MaxNormDecomposition(init=init).fit(data.X)
    b = MaxNormDecomposition(n_components=4, init=init.tolist()).fit(data.X)
    assert a.n_components_ == 4
    np.testing.assert_array_equal(a.components_, b.components_)


def test_more_passes_are_not_worse(data):
    evs = [
        expressed_variance(
            data.basis,
            MaxNormDecomposition(n_components=4, n_epochs=k, random_state=0).fit(data.X).components_.T,
        )
        for k in (1, 2, 5)
    ]
    assert evs[1] > evs[0] - 1e-4
    assert evs[2] > evs[0] - 1e-4


def test_a_decomposition_can_be_a_step_of_a_pipeline(data):
    pipe = make_pipeline(StandardScaler(), MaxNormDecomposition(n_components=3, random_state=0))
    assert pipe.fit_transform(data.X).shape == (600, 3)


def test_bcd_raises_an_error_when_it_diverges_and_keeps_the_model(data):
    model = MaxNormDecomposition(n_components=4, random_state=0).fit(data.X)
    state = model.state_
    model.set_params(basis_update="bcd", lambda1=10.0, batch_size=1, half_life=2.0)
    with pytest.raises(DivergenceError, match="basis_update='exact'"):
        model.partial_fit(data.X)
    assert model.state_ is state


def test_bcd_learns_the_basis_when_it_converges(data):
    model = MaxNormDecomposition(n_components=4, basis_update="bcd", lambda1=1e-4, random_state=0).fit(data.X)
    assert expressed_variance(data.basis, model.components_.T) > 0.95


def test_a_warning_reports_samples_that_do_not_converge(data):
    model = MaxNormDecomposition(n_components=4, max_iter=2, random_state=0, **PAPER_PROBLEM).fit(data.X)
    with pytest.warns(ConvergenceWarning, match=r"of 600 samples did not reach tol=1e-06; raise max_iter"):
        converged = model.decompose(data.X).converged
    assert not converged.all()


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_transform_before_fit_raises_not_fitted_error(Estimator):
    with pytest.raises(NotFittedError):
        Estimator().transform(np.ones((2, 2)))


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_components_do_not_exist_before_fit(Estimator):
    assert not hasattr(Estimator(), "components_")
