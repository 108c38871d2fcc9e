"""Reading a property neither learns nor changes what another property says, and cannot damage a model."""

import itertools

import numpy as np
import pytest

from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA
from maxnorm.datasets import make_corrupted_low_rank

X = make_corrupted_low_rank(300, 20, 3, corruption=0.1, random_state=0).X
PROPERTIES = (
    "components_",
    "n_components_",
    "n_samples_seen_",
    "n_iter_",
    "lambda1_",
    "lambda2_",
    "objective_",
    "selection_",
)


def fitted(estimator, rows, **parameters):
    return estimator(random_state=0, **parameters).partial_fit(X[:rows])


@pytest.mark.parametrize("estimator", [MaxNormDecomposition, OnlineRobustPCA, MaxNormCompletion])
@pytest.mark.parametrize("rows", [5, 40, 300])
def test_properties_do_not_depend_on_the_order_in_which_they_are_read(estimator, rows):
    forwards, backwards = (fitted(estimator, rows, n_components=3) for _ in range(2))
    found = {name: getattr(forwards, name) for name in PROPERTIES}
    for name in reversed(PROPERTIES):
        np.testing.assert_equal(getattr(backwards, name), found[name])
        np.testing.assert_equal(getattr(forwards, name), found[name])


@pytest.mark.parametrize("estimator", [MaxNormDecomposition, MaxNormCompletion])
def test_reading_properties_does_not_change_what_is_learnt_later(estimator):
    read, unread = (fitted(estimator, 5, n_components=3) for _ in range(2))
    for name in PROPERTIES:
        getattr(read, name)
    read.transform(X[:3])
    for start in range(5, 300, 59):
        read.partial_fit(X[start : start + 59])
        unread.partial_fit(X[start : start + 59])
        assert read.n_iter_ >= 1
    np.testing.assert_array_equal(read.components_, unread.components_)
    assert read.n_iter_ == unread.n_iter_


def test_the_arrays_of_the_state_cannot_be_written_to():
    for model in (
        fitted(MaxNormDecomposition, 300, n_components=3),
        fitted(MaxNormDecomposition, 5, n_components=3),
        fitted(MaxNormCompletion, 300, n_components=3, biases=True),
    ):
        state = model.state_
        parts = (state, state.statistics, state.scales, state.biases)
        values = itertools.chain.from_iterable(vars(part).values() for part in parts if part is not None)
        arrays = [value for value in values if isinstance(value, np.ndarray)]
        assert len(arrays) >= 5
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0.0
        model.partial_fit(X[:50])  # learning goes on all the same


def test_parameters_are_checked_once_per_call_if_they_have_changed(monkeypatch):
    counts = []
    check = MaxNormDecomposition._check_parameters
    monkeypatch.setattr(
        MaxNormDecomposition, "_check_parameters", lambda self: (counts.append(1), check(self))[1]
    )
    model = MaxNormDecomposition(3, n_epochs=2, random_state=0)
    calls = (
        model.fit,
        model.partial_fit,
        lambda X: model.partial_fit(X[:3]),
        model.transform,
        model.decompose,
    )
    for call in (*calls, model.score_samples, lambda X: model.objective_):
        counts.clear()
        model.set_params(tol=model.tol * 1.5)
        call(X)
        assert len(counts) == 1, call
