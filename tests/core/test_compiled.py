"""The compiled loops of the extra ``fast`` and the equivalent NumPy code give the same results."""

import numpy as np
import pytest

from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA
from maxnorm.core import noise
from maxnorm.core.noise import CappedL1
from maxnorm.core.sparse_encoding import predict_entries
from maxnorm.datasets import make_corrupted_low_rank


def without_numba(monkeypatch):
    monkeypatch.setattr(noise, "compiled", lambda: None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("leniency", [1.0, np.geomspace(1.0, 10.0, 33)])
def test_compiled_loops_agree_with_numpy(monkeypatch, dtype, leniency):
    rng = np.random.default_rng(0)
    V = (rng.standard_normal((20, 33)) * 10.0 ** rng.integers(-3, 3, (20, 33))).astype(dtype)
    V[rng.random(V.shape) < 0.1] = 0.0
    capped = CappedL1(0.1, 3.0, components=4, leniency=leniency)
    thresholds = capped.thresholds(V)
    assert noise.compiled() is not None
    influence, loss = capped.influence(V, thresholds), capped.loss(V, thresholds)
    without_numba(monkeypatch)
    assert influence.dtype == dtype
    exact = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(influence, capped.influence(V, thresholds), rtol=exact, atol=exact)
    np.testing.assert_allclose(loss, capped.loss(V, thresholds), rtol=10 * exact)


@pytest.mark.parametrize("Estimator", [MaxNormDecomposition, OnlineRobustPCA])
@pytest.mark.parametrize(("p", "missing"), [(30, 0.0), (30, 0.2), (600, 0.0)])
def test_models_agree_with_and_without_numba(monkeypatch, Estimator, p, missing):
    data = make_corrupted_low_rank(300, p, 20 if p > 100 else 3, missing=missing, random_state=0)
    compiled = Estimator(n_components=20 if p > 100 else 3, random_state=0).fit(data.X)
    parts = compiled.decompose(data.X[:50])
    without_numba(monkeypatch)
    plain = Estimator(n_components=compiled.n_components, random_state=0).fit(data.X)
    size = np.abs(plain.components_).max()
    np.testing.assert_allclose(compiled.components_, plain.components_, atol=1e-5 * size)
    assert compiled.objective_ == pytest.approx(plain.objective_, rel=1e-5)
    np.testing.assert_allclose(parts.low_rank, plain.decompose(data.X[:50]).low_rank, atol=1e-3)


def test_predicted_entries_agree_with_and_without_numba(monkeypatch):
    rng = np.random.default_rng(0)
    R, L = rng.standard_normal((50, 4)), rng.standard_normal((30, 4))
    rows, columns = rng.integers(50, size=500), rng.integers(30, size=500)
    compiled = predict_entries(rows, columns, R, L)
    without_numba(monkeypatch)
    np.testing.assert_allclose(compiled, predict_entries(rows, columns, R, L), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(compiled, (R @ L.T)[rows, columns], rtol=1e-12, atol=1e-12)


def test_completion_agrees_with_and_without_numba(monkeypatch):
    X = make_corrupted_low_rank(400, 40, 3, corruption=0.0, dense_noise=0.05, missing=0.7, random_state=0).X
    rows, columns = np.nonzero(np.isnan(X))
    compiled = MaxNormCompletion(3, biases=True, random_state=0).fit(X).predict_entries(X, rows, columns)
    without_numba(monkeypatch)
    plain = MaxNormCompletion(3, biases=True, random_state=0).fit(X).predict_entries(X, rows, columns)
    np.testing.assert_allclose(compiled, plain, atol=1e-3)


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_of_zero_reject_every_entry(monkeypatch, dtype, is_compiled):
    """These are the thresholds after a fit to zeros; the quotient of an entry and a threshold is infinite."""
    if not is_compiled:
        without_numba(monkeypatch)
    V = (1e6 * np.random.default_rng(0).standard_normal((5, 40))).astype(dtype)
    V[1] = 0.0
    capped = CappedL1(0.0, 0.0, largest=0.0)
    thresholds = capped.thresholds(V)
    assert not capped.influence(V, thresholds).any()
    np.testing.assert_allclose(capped.loss(V, thresholds), 0.0, atol=1e-20)


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("Estimator", [MaxNormDecomposition, OnlineRobustPCA])
def test_a_model_that_was_fitted_to_zeros_finds_no_low_rank_part(monkeypatch, Estimator, dtype, is_compiled):
    if not is_compiled:
        without_numba(monkeypatch)
    X = np.random.default_rng(0).standard_normal((10, 11)).astype(dtype)
    parts = Estimator(n_components=1, random_state=0).fit(np.zeros((10, 11))).decompose(X)
    assert not parts.low_rank.any()
    np.testing.assert_array_equal(parts.noise, X)
