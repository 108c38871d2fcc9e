"""Threads may ask a model while one of them trains it: every answer is that of one state."""

import threading

import numpy as np
import pytest

from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA

RNG = np.random.default_rng(0)
P, D = 30, 3
DATA = RNG.standard_normal((300, D)) @ RNG.standard_normal((D, P))
STREAM = [RNG.standard_normal((40, D)) @ RNG.standard_normal((D, P)) for _ in range(60)]  # ever other spaces
MODELS = [
    MaxNormDecomposition(D, random_state=0),
    OnlineRobustPCA(D, random_state=0, batch_size=30),  # rows wait
    MaxNormCompletion(D, random_state=0),
]


def train_and_ask(model, ask, n_askers=3):
    """Train a model on a stream while other threads call ``ask``; return the errors."""
    errors, is_trained = [], threading.Event()

    def repeat():
        try:
            while not is_trained.is_set():
                ask()
        except Exception as error:
            errors.append(error)

    askers = [threading.Thread(target=repeat) for _ in range(n_askers)]
    for asker in askers:
        asker.start()
    try:
        for batch in STREAM:
            model.partial_fit(batch)
    finally:
        is_trained.set()
        for asker in askers:
            asker.join()
    return errors


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_decomposition_is_that_of_one_state(model):
    model.fit(DATA)

    def ask():
        parts = model.decompose(DATA)
        np.testing.assert_allclose(parts.low_rank + parts.noise + parts.residual, DATA, atol=1e-9)
        # Deviations from the mean of the low-rank part and the coefficients of one state span the same rows.
        both = np.hstack([parts.low_rank, parts.coefficients])
        assert np.linalg.matrix_rank(both - both.mean(axis=0), tol=1e-8) <= D

    assert not train_and_ask(model, ask)


def test_properties_answers_and_copies_can_be_asked_for_while_a_model_is_trained(tmp_path):
    model = OnlineRobustPCA(D, random_state=0, batch_size=30).fit(DATA)
    counts = []

    def ask():
        assert np.isfinite(model.objective_)
        assert model.transform(DATA[:50]).shape == (50, D)
        assert np.isfinite(model.score_samples(DATA[:50])).all()
        model.save(tmp_path / "m.maxnorm")
        counts.append(model.n_samples_seen_)

    assert not train_and_ask(model, ask)
    assert model.n_samples_seen_ == 300 + 40 * len(STREAM)
    assert counts


def test_a_refused_batch_does_not_disturb_other_threads():
    model = OnlineRobustPCA(D, random_state=0).fit(DATA)
    expected = model.transform(DATA)
    errors, is_done = [], threading.Event()

    def ask():
        try:
            while not is_done.is_set():
                np.testing.assert_array_equal(model.transform(DATA), expected)
        except Exception as error:
            errors.append(error)

    asker = threading.Thread(target=ask)
    asker.start()
    for _ in range(100):
        with pytest.raises(ValueError, match="X contains infinity"):
            model.partial_fit(np.full((2, P), np.inf))
    is_done.set()
    asker.join()
    assert not errors


def test_several_threads_can_apply_one_model():
    model = MaxNormDecomposition(D, random_state=0).fit(DATA)
    expected = model.transform(DATA)
    answers = [None] * 4

    def ask(i):
        answers[i] = model.transform(DATA)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in answers:
        np.testing.assert_array_equal(answer, expected)
