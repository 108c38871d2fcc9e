"""The callbacks of scikit-learn, which it has from version 1.9 on, work with the online estimators."""

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone

import maxnorm
from maxnorm import MaxNormDecomposition, open_stream
from maxnorm.core.norms import DivergenceError
from maxnorm.datasets import make_corrupted_low_rank

sklearn_callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")

X = make_corrupted_low_rank(600, 20, 3, corruption=0.1, random_state=0).X
SOURCES = {
    "array": lambda: X,
    "stream": lambda: open_stream(X, batch_size=70),
    "dask": lambda: da.from_array(X),
}


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(params=SOURCES)
def source(request):
    return SOURCES[request.param]()


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
    model = MaxNormDecomposition(3, n_epochs=1, random_state=0).set_callbacks(monitor).fit(X)
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
