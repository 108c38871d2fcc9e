"""Callbacks see every step and may stop a fit; they change nothing about what an error leaves behind."""

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone

import maxnorm
from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA, open_stream
from maxnorm.core.norms import DivergenceError
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


# -- callbacks of scikit-learn ----------------------------------------------------------------------

sklearn_callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")


class Recorder:
    """A callback of scikit-learn that records tasks and stops after a number of batches."""

    def __init__(self, stop_after=10**9):
        self.tasks, self.stop_after, self.estimators = [], stop_after, []

    def setup(self, estimator, context):
        self.tasks.append("setup")

    def teardown(self, estimator, context):
        self.tasks.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.tasks.append(context.task_name)
        if fitted_estimator is not None:
            self.estimators.append(fitted_estimator)
        return self.tasks.count("batch") >= self.stop_after


def test_callbacks_of_scikit_learn_see_fit_passes_and_batches(source):
    recorder = Recorder()
    model = MaxNormDecomposition(3, n_epochs=2, random_state=0).set_callbacks(recorder).fit(source)
    assert recorder.tasks[0] == "setup"
    assert recorder.tasks[-2:] == ["fit", "teardown"]
    assert recorder.tasks.count("pass") == 2
    assert recorder.tasks.count("batch") == len(recorder.estimators)
    plain = MaxNormDecomposition(3, n_epochs=2, random_state=0).fit(source)
    np.testing.assert_array_equal(model.components_, plain.components_)
    assert recorder.estimators[-1].transform(X).shape == (600, 3)


def test_a_callback_of_scikit_learn_may_stop_the_fit():
    recorder = Recorder(stop_after=3)
    model = MaxNormDecomposition(3, n_epochs=4, random_state=0).set_callbacks(recorder).fit(X)
    assert model.n_iter_ == 3
    assert recorder.tasks[-2:] == ["fit", "teardown"]


def test_the_progress_bar_of_scikit_learn_works(capsys):
    model = MaxNormDecomposition(3, n_epochs=2, random_state=0)
    model.set_callbacks(sklearn_callback.ProgressBar()).fit(X)
    assert "MaxNormDecomposition" in capsys.readouterr().out
    assert model.n_samples_seen_ == 1200


def test_the_scoring_monitor_of_scikit_learn_records_the_score_of_every_batch():
    monitor = sklearn_callback.ScoringMonitor(scoring={"score": lambda model, X, y: model.score(X)})
    model = MaxNormDecomposition(3, random_state=0).set_callbacks(monitor).fit(X)
    scores = [entry["score"] for entry in monitor.get_logs().data]
    assert len(scores) == model.n_iter_
    assert np.isfinite(scores).all()


def test_a_model_with_callbacks_can_be_cloned_pickled_and_saved(tmp_path):
    model = MaxNormDecomposition(3, random_state=0).set_callbacks(Recorder()).fit(X)
    clone(model)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).components_, model.components_)
    model.save(tmp_path / "model.maxnorm")
    np.testing.assert_array_equal(maxnorm.load(tmp_path / "model.maxnorm").components_, model.components_)


def test_callbacks_of_scikit_learn_end_after_an_error():
    recorder = Recorder()
    model = MaxNormDecomposition(3, basis_update="bcd", lambda1=1e9, random_state=0).set_callbacks(recorder)
    for source in (X, open_stream(X)):
        recorder.tasks.clear()
        with pytest.raises(DivergenceError):
            model.fit(source)
        assert recorder.tasks[0] == "setup"
        assert recorder.tasks[-1] == "teardown"


def test_a_callback_of_scikit_learn_may_stop_a_single_pass():
    class StopFirstPass(Recorder):
        def on_fit_task_end(self, estimator, context):
            self.tasks.append(context.task_name)
            return context.task_name == "batch" and self.tasks.count("pass") == 0

    recorder = StopFirstPass()
    model = MaxNormDecomposition(3, n_epochs=2, batch_size=50, random_state=0).set_callbacks(recorder).fit(X)
    assert recorder.tasks.count("pass") == 2
    assert model.n_samples_seen_ == 650
