"""Callbacks see every step and may stop a fit; they change nothing about what an error leaves behind."""

import dask
import dask.array as da
import numpy as np
import pytest

import maxnorm
from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA, open_stream
from maxnorm.datasets import make_corrupted_low_rank

X = make_corrupted_low_rank(600, 20, 3, corruption=0.1, random_state=0).X
SOURCES = {
    "array": lambda: X,
    "stream": lambda: open_stream(X, batch_size=70),
    "dask": lambda: da.from_array(X),
}


class Failure(Exception):
    pass


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(params=SOURCES)
def source(request):
    return SOURCES[request.param]()


@pytest.mark.parametrize("estimator", [MaxNormDecomposition, OnlineRobustPCA, MaxNormCompletion])
def test_a_callback_receives_the_result_of_every_step(estimator):
    results = []
    model = estimator(3, n_epochs=2, random_state=0).fit(X, callback=results.append)
    assert [result.step for result in results] == list(range(1, model.n_iter_ + 1))
    assert results[-1].n_samples == 1200
    assert all(result.loss > 0.0 and result.residual_scale > 0.0 for result in results)
    assert results[-1].state.L is model.state_.L


def test_a_callback_does_not_change_the_model(source):
    watched = MaxNormDecomposition(3, random_state=0).fit(source, callback=lambda result: None)
    np.testing.assert_array_equal(
        watched.components_, MaxNormDecomposition(3, random_state=0).fit(source).components_
    )


def test_a_callback_that_returns_true_stops_the_fit_and_keeps_the_model(source):
    model = MaxNormDecomposition(3, n_epochs=5, random_state=0)
    model.fit(source, callback=lambda result: result.n_samples >= 100)
    assert 100 <= model.n_samples_seen_ <= 600
    assert model.transform(X).shape == (600, 3)
    seen = model.n_samples_seen_
    model.partial_fit(source, callback=lambda result: True)
    assert seen < model.n_samples_seen_ < 1200 or isinstance(source, da.Array)


def test_a_callback_can_use_the_model_that_is_being_fitted(source, tmp_path):
    model, seen = MaxNormDecomposition(3, random_state=0), []

    def watch(result):
        assert model.components_ is not None
        model.save(tmp_path / "model.maxnorm")
        seen.append(model.n_samples_seen_)

    model.fit(source, callback=watch)
    assert sorted(seen) == seen
    assert maxnorm.load(tmp_path / "model.maxnorm").n_samples_seen_ == seen[-1]


def test_an_error_in_a_callback_leaves_a_fit_on_an_array_without_effect():
    def fail(result):
        raise Failure

    fresh = MaxNormDecomposition(3, random_state=0)
    with pytest.raises(Failure):
        fresh.fit(X, callback=fail)
    assert not hasattr(fresh, "components_")
    assert not hasattr(fresh, "n_features_in_")
    fitted = MaxNormDecomposition(3, random_state=0).fit(X[:100])
    before = fitted.components_.copy()
    for method in (fitted.fit, fitted.partial_fit):
        with pytest.raises(Failure):
            method(X, callback=fail)
        np.testing.assert_array_equal(fitted.components_, before)


@pytest.mark.parametrize("name", ["stream", "dask"])
def test_an_error_in_a_callback_keeps_what_was_learnt_from_a_stream(name):
    def fail(result):
        if result.n_samples >= 50:
            raise Failure

    model = MaxNormDecomposition(3, random_state=0)
    with pytest.raises(Failure):
        model.fit(SOURCES[name](), callback=fail)
    assert model.n_samples_seen_ >= 50
    assert model.transform(X).shape == (600, 3)
