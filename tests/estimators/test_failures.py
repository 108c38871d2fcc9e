"""What a model is after an error, and after parameters were changed between calls."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA, open_stream
from maxnorm.core.norms import DivergenceError
from maxnorm.dask.blocks import BlockError
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.learner import WrappedLearner

X = make_corrupted_low_rank(400, 20, 3, corruption=0.1, random_state=0).X


def diverging(**parameters):
    return MaxNormDecomposition(3, basis_update="bcd", lambda1=1e9, random_state=0, **parameters)


@pytest.mark.parametrize("source", [lambda: X, lambda: open_stream(X), lambda: sp.csr_array(X)])
def test_an_error_before_the_first_step_leaves_the_model_as_it_was(source):
    fresh = diverging()
    for method in (fresh.fit, fresh.partial_fit):
        with pytest.raises(DivergenceError):
            method(source())
        assert not hasattr(fresh, "components_")
        assert not hasattr(fresh, "n_features_in_")
    fitted = MaxNormDecomposition(3, random_state=0).fit(X)
    before = fitted.state_
    fitted.set_params(basis_update="bcd", lambda1=1e9)
    with pytest.raises(DivergenceError):
        fitted.fit(source())
    assert fitted.state_ is before
    assert fitted.n_samples_seen_ == 400


def test_the_steps_before_an_error_are_kept_with_and_without_a_callback():
    def rows():
        for i, row in enumerate(X):
            yield np.full_like(row, np.inf) if i == 350 else row

    seen = []
    for callback in (None, lambda result: None):
        model = OnlineRobustPCA(3, batch_size=30, random_state=0)
        with pytest.raises(ValueError, match="first in row 350"):
            model.fit(open_stream(rows, batch_size=100), callback=callback)
        seen.append(model.n_samples_seen_)
    assert seen == [300, 300]


def test_an_error_names_the_row_of_a_stream_that_was_resumed():
    bad = X.copy()
    bad[300, 2] = np.inf
    stream = open_stream(bad, batch_size=50).from_row(250)
    with pytest.raises(ValueError, match="first in row 300, column 2"):
        OnlineRobustPCA(3).fit(stream)


def test_values_too_large_for_a_model_in_single_precision_are_refused_in_blocks():
    with dask.config.set(scheduler="synchronous"):
        for large in (1e25, 1e100):
            model = MaxNormDecomposition(3, noise="none", random_state=0).fit(X.astype(np.float32))
            bad = X.copy()
            bad[350, 2] = large
            with pytest.raises(BlockError, match=r"block 7.*infinity|too large for float32"):
                model.partial_fit(da.from_array(bad, chunks=(50, -1)))


def test_a_batch_size_changed_while_rows_wait_takes_effect():
    model = MaxNormDecomposition(3, batch_size=100, random_state=0).partial_fit(X[:20])
    model.set_params(batch_size=5).partial_fit(X[20:40])
    assert model.state_.n_steps == 8


def test_reading_the_model_before_parameters_change_does_not_change_what_is_learnt():
    read, unread = (MaxNormDecomposition(3, random_state=0).partial_fit(X[:8]) for _ in range(2))
    assert read.components_.shape == (3, 20)
    for model in (read, unread):
        model.set_params(noise="none").flush()
    np.testing.assert_array_equal(read.components_, unread.components_)


def test_a_given_basis_is_used_however_many_zeros_come_first():
    ratings = sp.random(200, 10, density=0.4, format="csr", random_state=0)
    ratings.data[: ratings.indptr[40]] = 0.0  # observed zeros
    init = np.random.default_rng(1).standard_normal((2, 10))
    whole = MaxNormCompletion(2, lambda1=0.1, init=init, batch_size=20).fit(ratings)
    parts = MaxNormCompletion(2, lambda1=0.1, init=init, batch_size=20)
    for start in range(0, 200, 20):
        parts.partial_fit(ratings[start : start + 20])
    np.testing.assert_array_equal(parts.components_, whole.components_)


def test_predictions_of_completion_pass_through_a_wrapped_learner():
    class Wrapped(MaxNormCompletion):
        def make_learner(self):
            return WrappedLearner(super().make_learner())

    ratings = sp.random(200, 10, density=0.4, format="csr", random_state=0)
    plain, wrapped = (
        kind(2, lambda1=0.1, random_state=0).fit(ratings) for kind in (MaxNormCompletion, Wrapped)
    )
    np.testing.assert_array_equal(
        wrapped.predict_entries(ratings, [0, 3], [1, 2]), plain.predict_entries(ratings, [0, 3], [1, 2])
    )
    np.testing.assert_array_equal(wrapped.recommend(ratings, 3).columns, plain.recommend(ratings, 3).columns)


def test_no_positions_give_no_predictions():
    ratings = sp.random(50, 10, density=0.4, format="csr", random_state=0)
    for noise in ("none", "capped"):
        model = MaxNormCompletion(2, noise=noise, random_state=0).fit(ratings)
        assert model.predict_entries(ratings, [], []).shape == (0,)
    with pytest.raises(ValueError, match="pass both of them or neither"):
        model.predict_entries(ratings, rows=[1])


def test_samples_that_do_not_converge_are_reported_for_blocks_too():
    model = MaxNormDecomposition(3, noise="l1", max_iter=1, random_state=0).fit(X)
    blocks = da.from_array(X, chunks=(200, -1))
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.warns(ConvergenceWarning, match="of 200 samples did not reach tol=1e-06; raise max_iter"),
    ):
        model.transform(blocks).compute()


def test_an_unfitted_model_has_no_fitted_attributes_whatever_its_parameters():
    for name in ("lambda1_", "lambda2_", "objective_", "components_", "n_iter_", "selection_", "state_"):
        assert not hasattr(MaxNormCompletion(2, lambda1=-1.0), name)
