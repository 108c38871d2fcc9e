"""Learning that begins with rounds over the first samples, because these have many components."""

import numpy as np
import pytest

import maxnorm
from maxnorm import MaxNormDecomposition, OnlineRobustPCA
from maxnorm.core.batch import Batch
from maxnorm.core.gauge import Gauge
from maxnorm.core.shared_covariance import explain
from maxnorm.core.state import State
from maxnorm.crowded import CROWDED, FirstSamples, is_crowded, most_likely_basis
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.factor_steps import sum_up
from maxnorm.metrics import expressed_variance, relative_error


def low_rank(n=1500, p=100, d=30, seed=0):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((p, d)))[0]
    return rng, U, rng.standard_normal((n, d)) @ U.T


def corrupted(share, errors, **shape):
    rng, U, X = low_rank(**shape)
    wrong = rng.random(X.shape) < share
    size = {"large": lambda: rng.uniform(-1000, 1000, X.shape), "one-sided": lambda: 5.0}[errors]()
    return U, X, X + np.where(wrong, size, 0.0)


@pytest.mark.parametrize("estimator", [MaxNormDecomposition, OnlineRobustPCA])
@pytest.mark.parametrize("errors", ["large", "one-sided"])
def test_half_of_the_entries_may_be_wrong(estimator, errors):
    U, clean, X = corrupted(0.5, errors, p=150, d=25)
    model = estimator(25, random_state=0).partial_fit(X)
    assert model.state_.is_shared
    assert expressed_variance(U, model.components_.T) > 0.99
    if errors == "large":
        assert relative_error(clean, model.decompose(X).low_rank) < 0.25


def test_the_two_norms_are_level():
    U, _, X = corrupted(0.4, "large", d=30)
    found = [
        expressed_variance(U, estimator(30, random_state=0).partial_fit(X).components_.T)
        for estimator in (MaxNormDecomposition, OnlineRobustPCA)
    ]
    assert abs(found[0] - found[1]) < 0.002
    assert min(found) > 0.99


def test_few_components_are_learnt_as_before():
    _, _, X = corrupted(0.3, "large", d=5)
    assert not MaxNormDecomposition(5, random_state=0).partial_fit(X).state_.is_shared
    assert not is_crowded(5, 70.0)
    assert is_crowded(30, 50.0)


def test_few_samples_of_many_components():
    U, _, X = corrupted(0.3, "large", n=80, p=400, d=40)
    with pytest.warns(UserWarning, match="30% of the entries"):
        model = MaxNormDecomposition(40, random_state=0).fit(X)
    assert expressed_variance(U, model.components_.T) > 0.99


@pytest.mark.parametrize(("p", "d"), [(200, 8), (100, 30)])
@pytest.mark.parametrize("n_wrong", [1, 30])
def test_samples_that_are_wrong_as_a_whole_do_not_turn_the_basis(p, d, n_wrong):
    rng, U, X = low_rank(n=1000, p=p, d=d)
    X += 0.05 * X.std() * rng.standard_normal(X.shape)
    X[rng.choice(300, n_wrong, replace=False)] = 30.0
    X[-3:] = 30.0 * rng.standard_normal((3, p))
    model = MaxNormDecomposition(d, random_state=0).partial_fit(X)
    assert expressed_variance(U, model.components_.T) > 0.999
    assert np.median(model.noise_variance_) < 2.0 * 0.05**2 * d / p


def test_many_samples_of_another_kind_are_no_errors():
    rng, U, X = low_rank(n=600, p=200, d=8)
    X[:, :] *= np.where(rng.random(600) < 0.3, 30.0, 1.0)[:, None]  # of a far larger norm
    X += 0.01 * X.std() * rng.standard_normal(X.shape)
    model = MaxNormDecomposition(8, random_state=0).partial_fit(X)
    assert expressed_variance(U, model.components_.T) > 0.999


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", [MaxNormDecomposition, OnlineRobustPCA])
def test_a_stream_may_begin_with_idle_sensors(estimator):
    _, _, X = low_rank(n=700, p=200, d=8, seed=5)
    X[:300] = X[0]
    model = estimator(8, random_state=5).partial_fit(X)
    assert np.isfinite(model.decompose(X).low_rank).all()


def test_small_errors_in_many_entries_need_the_model_after_the_first_samples(tmp_path):
    data = make_corrupted_low_rank(1200, 100, 10, corruption=0.5, magnitude=1.0, random_state=0)
    whole = MaxNormDecomposition(10, random_state=0).partial_fit(data.X)
    assert whole.state_.is_shared
    parts = MaxNormDecomposition(10, random_state=0)
    for rows in np.array_split(data.X, 7):
        parts.partial_fit(rows).save(tmp_path / "model.maxnorm")
        parts = maxnorm.load(tmp_path / "model.maxnorm")
    np.testing.assert_array_equal(parts.components_, whole.components_)


def test_most_entries_missing_and_some_of_the_others_wrong():
    U, _, X = corrupted(0.2, "large", n=2000, p=200, d=20)
    X[np.random.default_rng(1).random(X.shape) < 0.75] = np.nan
    model = MaxNormDecomposition(20, random_state=0).partial_fit(X)
    assert expressed_variance(U, model.components_.T) > 0.95


def test_any_cut_of_the_rows_gives_the_same_model():
    _, _, X = corrupted(0.5, "large", n=500, p=60, d=20)
    whole = MaxNormDecomposition(20, random_state=0).partial_fit(X)
    parts = MaxNormDecomposition(20, random_state=0)
    for rows in np.array_split(X, 11):
        parts.partial_fit(rows)
    np.testing.assert_array_equal(parts.components_, whole.components_)


def test_learning_continues_after_the_first_samples_and_survives_a_file(tmp_path):
    _, _, X = corrupted(0.45, "large", n=2500, p=60, d=15)
    model = MaxNormDecomposition(15, random_state=0).partial_fit(X[:1500])
    assert model.state_.first_rows < 1500
    model.save(tmp_path / "model.maxnorm")
    again = maxnorm.load(tmp_path / "model.maxnorm")
    for each in (model, again):
        each.partial_fit(X[1500:])
    np.testing.assert_array_equal(again.components_, model.components_)
    np.testing.assert_array_equal(again.transform(X[:20]), model.transform(X[:20]))


@pytest.mark.parametrize("unit", [1e-4, 1e4])
def test_units_do_not_matter(unit):
    _, _, X = corrupted(0.45, "large", n=600, p=60, d=15)
    one, other = (MaxNormDecomposition(15, random_state=0).partial_fit(c * X) for c in (1.0, unit))
    a, b = one.decompose(X).low_rank, other.decompose(unit * X).low_rank / unit
    assert relative_error(a, b) < 1e-3


def samples(share=0.3, n=400, p=50, d=12, seed=0, noise=0.1):
    rng, U, X = low_rank(n, p, d, seed)
    X = X + noise * rng.standard_normal(X.shape)
    X = np.where(rng.random(X.shape) < share, rng.uniform(-50, 50, X.shape), X)
    gauge = Gauge.of(X, None).plausible(n)
    return U, FirstSamples.of(Batch(X), gauge, is_robust=share > 0.0, center=True)


def test_the_likelihood_never_falls_in_rounds_without_gross_errors():
    """Without gross errors the posterior is exact, and a round is one of expectation maximisation."""
    _, first = samples(share=0.0)
    model = first.first_model(12, CROWDED.starts[0])
    found = []
    for _ in range(15):
        known = explain(model, first.T, first.observed, (1e-10, 3000), is_robust=False)
        L, same = model.loadings, np.eye(12)
        sums = sum_up(known, first.T, first.observed, known.R, L, same, L, first.sample_weight, center=True)
        state = State(most_likely_basis(sums.centred(), L), sums, gauge=first.gauge)
        model = state.model_of_sums
        found.append(float(model.log_likelihood(first.T, first.observed).mean()))
    # Variances are drawn towards their common value, which is not part of the likelihood.
    assert min(np.diff(found)) > -1e-3 * abs(found[0])
    assert found[-1] > found[0]


def test_rounds_recover_the_basis_the_noise_and_the_share_of_gross_errors():
    U, first = samples(n=1500)
    model = first.fit(12).model
    assert expressed_variance(U, model.loadings * first.gauge.scale[:, None]) > 0.99
    assert np.median(model.noise_variance) == pytest.approx(0.01, rel=0.4)
    assert model.gross_share == pytest.approx(0.3, abs=0.03)


def test_errors_no_larger_than_the_signal_are_taken_for_noise_only_if_they_cannot_be_told_from_it():
    rng, U, clean = low_rank(2000, 100, 45)
    X = clean + np.where(rng.random(clean.shape) < 0.5, rng.uniform(-1, 1, clean.shape), 0.0)
    model = MaxNormDecomposition(45, random_state=0).partial_fit(X)
    plain = np.linalg.svd(X, full_matrices=False)[2][:45]
    assert expressed_variance(U, model.components_.T) > expressed_variance(U, plain.T) - 0.003


def test_a_model_without_gross_errors():
    rng, U, X = low_rank(600, 60, 20)
    X += 0.05 * rng.standard_normal(X.shape)
    model = MaxNormDecomposition(20, noise="none", random_state=0).partial_fit(X)
    assert expressed_variance(U, model.components_.T) > 0.99
    assert not model.decompose(X).noise.any()
