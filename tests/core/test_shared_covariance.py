"""The posterior with shared eigenvectors, against the exact one and the optimality conditions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxnorm.core.factor_model import FactorModel
from maxnorm.core.gauge import Gauge
from maxnorm.core.shared_covariance import SWEEPS, evidence, explain, sample_trust

ACCURATE = (1e-9, 5000)


def make(seed=0, n=30, p=25, d=4, noise=0.1):
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((p, d))
    psi = noise * rng.uniform(0.5, 2.0, p)
    location = rng.standard_normal(p)
    gauge = Gauge(np.zeros(p), np.ones(p))
    model = FactorModel(gauge, np.column_stack([loadings, location]), psi, gross_variance=400.0)
    T = location + rng.standard_normal((n, d)) @ loadings.T + np.sqrt(psi) * rng.standard_normal((n, p))
    return model, T, rng


@given(st.integers(0, 50), st.integers(1, 6))
@settings(max_examples=20, deadline=None)
def test_the_posterior_of_complete_samples_without_errors_is_exact(seed, d):
    model, T, _ = make(seed, d=d)
    observed = np.ones(T.shape, dtype=bool)
    known = explain(model, T, observed, ACCURATE, is_robust=False)
    exact = model.expect(T, observed.astype(float))
    np.testing.assert_allclose(known.R, exact.R, atol=1e-8)
    np.testing.assert_allclose(known.spread(model.loadings), exact.spread, atol=1e-8)
    weight = np.linspace(0.5, 1.5, len(T))
    covariance, imputed, squares = known.uncertainty(weight, model.loadings, np.eye(d), model.loadings)
    np.testing.assert_allclose(covariance, np.tensordot(weight, exact.S, 1), atol=1e-7)
    np.testing.assert_allclose(imputed, 0.0, atol=1e-12)
    np.testing.assert_allclose(squares, weight @ exact.spread, atol=1e-7)


def test_the_means_are_exact_if_entries_are_missing():
    model, T, rng = make(1)
    observed = rng.random(T.shape) < 0.6
    known = explain(model, np.where(observed, T, 0.0), observed, ACCURATE, is_robust=False)
    exact = model.expect(np.where(observed, T, 0.0), observed.astype(float))
    np.testing.assert_allclose(known.R, exact.R, atol=1e-7)
    np.testing.assert_array_equal(known.weights, observed)


def test_the_coefficients_are_stationary_for_the_weights_of_the_entries():
    """The gradient of the log posterior at the final weights vanishes."""
    model, T, rng = make(2, p=60)
    wrong = rng.random(T.shape) < 0.2
    T = T + np.where(wrong, rng.uniform(-30, 30, T.shape), 0.0)
    known = explain(model, T, np.ones(T.shape, dtype=bool), ACCURATE)
    deviation = T - model.location - known.R @ model.loadings.T
    gradient = (known.weights * deviation / model.noise) @ model.loadings - known.R
    assert np.abs(gradient).max() < 1e-3
    large = np.abs(np.where(wrong, T - model.location, 0.0)) > 8.0
    assert np.mean(known.weights[large] < 0.5) > 0.97
    assert np.mean(known.weights[~wrong] > 0.5) > 0.97


def test_a_start_saves_sweeps_and_changes_nothing_else():
    model, T, _ = make(3)
    observed = np.ones(T.shape, dtype=bool)
    first = explain(model, T, observed, (1e-6, 1000))
    again = explain(model, T, observed, (1e-6, 1000), start=first.R)
    np.testing.assert_allclose(again.R, first.R, atol=1e-4)
    assert again.n_iter.max() < first.n_iter.max()


def test_the_evidence_is_that_of_the_marginal_density_if_nothing_is_doubtful():
    model, T, _ = make(4, noise=1.0)
    model = FactorModel(model.gauge, model.basis, model.noise, gross_share=1e-4, gross_variance=1e12)
    observed = np.ones(T.shape, dtype=bool)
    known = explain(model, T, observed, ACCURATE, is_robust=False)
    found = evidence(model, known, T, observed, np.ones(len(T)))
    exact = model.log_likelihood(T, observed).sum() / T.size + np.log1p(-1e-4)
    assert found == pytest.approx(exact, abs=1e-8)


def test_absurd_entries_have_no_influence():
    model, T, _ = make(5)
    observed = np.ones(T.shape, dtype=bool)
    before = explain(model, T, observed, (1e-6, 1000))
    T[0, 0] = 1e300
    after = explain(model, T, observed, (1e-6, 1000))
    assert after.weights[0, 0] == 0.0
    np.testing.assert_allclose(after.R[0], before.R[0], atol=0.5)
    np.testing.assert_allclose(after.R[1:], before.R[1:], atol=1e-6)


def test_accuracies_are_ordered():
    assert SWEEPS.learning[0] > SWEEPS.applying[0]
    assert SWEEPS.learning[1] < SWEEPS.applying[1]


def test_samples_do_not_depend_on_those_that_are_explained_with_them():
    """Some are finished after a few sweeps, and leave the batch."""
    model, T, rng = make(5, n=60, p=80)
    wrong = rng.random(T.shape) < np.linspace(0.0, 0.3, len(T))[:, None]
    T = T + np.where(wrong, rng.uniform(-9.0, 9.0, T.shape), 0.0)
    observed = np.ones(T.shape, dtype=bool)
    together = explain(model, T, observed, (1e-4, 1000))
    assert together.n_iter.max() > 1.5 * together.n_iter.min()
    for i in (0, 30, 59):
        alone = explain(model, T[i : i + 1], observed[:1], (1e-4, 1000))
        np.testing.assert_allclose(together.R[i], alone.R[0], atol=1e-6)
        np.testing.assert_allclose(together.weights[i], alone.weights[0], atol=1e-6)
        assert together.n_iter[i] == alone.n_iter[0]


def test_weights_of_entries_take_part_in_a_projection():
    model, T, rng = make(6)
    weights = rng.uniform(0.1, 1.0, T.shape)
    known = explain(model, T, weights, ACCURATE, is_robust=False)
    exact = model.expect(T, weights)
    np.testing.assert_allclose(known.R, exact.R, atol=1e-7)


def test_samples_that_are_wrong_as_a_whole_have_no_influence():
    model, T, _ = make(6)
    observed = np.ones(T.shape, dtype=bool)
    T[0] = 1e3
    T[1] = 10.0 * np.random.default_rng(0).standard_normal(T.shape[1])
    known = explain(model, T, observed)
    trust = sample_trust(model, T - known.fitted)
    assert trust[0] < 1e-6
    assert trust[1] < 0.1
    assert np.mean(trust[2:] == 1.0) > 0.97
