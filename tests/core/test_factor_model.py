"""The factor model against plain transcriptions of its formulas, and what it is invariant to."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from maxnorm.core.batch import Batch
from maxnorm.core.factor_model import FactorModel, shrink_variances
from maxnorm.core.gauge import Gauge
from maxnorm.variational import Rounds


def example(seed=0, n=40, p=7, d=2, missing=0.2):
    """Return a model, and standardised samples with their mask and weights."""
    rng = np.random.default_rng(seed)
    gauge = Gauge(rng.standard_normal(p), rng.uniform(0.5, 2.0, p))
    roots = 0.1 * rng.standard_normal((p, d + 1, d + 1))
    model = FactorModel(
        gauge,
        rng.standard_normal((p, d + 1)),
        rng.uniform(0.1, 0.5, p),
        roots @ roots.swapaxes(1, 2),
        rng.uniform(0.5, 2.0, d),
    )
    T = rng.standard_normal((n, p))
    observed = rng.random((n, p)) >= missing
    weights = np.where(observed, rng.uniform(0.1, 1.0, (n, p)), 0.0)
    return model, np.where(observed, T, 0.0), observed, weights


def test_the_coefficients_are_those_of_a_weighted_ridge_regression():
    model, T, _, weights = example()
    model = FactorModel(model.gauge, model.basis, model.noise)
    known = model.expect(T, weights)
    for t, w, r, S in zip(T, weights, known.R, known.S, strict=True):
        D = np.diag(w / model.noise)
        covariance = np.linalg.inv(model.loadings.T @ D @ model.loadings + np.eye(2))
        np.testing.assert_allclose(S, covariance, rtol=1e-10)
        np.testing.assert_allclose(r, covariance @ model.loadings.T @ D @ (t - model.location), rtol=1e-9)


def test_uncertain_loadings_count_in_the_coefficients():
    """The expected square of the residual has the covariances of loadings and location in it."""
    model, T, _, weights = example()
    known = model.expect(T, weights)

    def cost(r, t, w):
        extended = np.append(r, 1.0)
        residuals = t - model.basis @ extended
        uncertain = np.einsum("i,jik,k->j", extended, model.covariances, extended)
        return 0.5 * np.sum(w / model.noise * (residuals**2 + uncertain)) + 0.5 * r @ r

    for t, w, r in zip(T, weights, known.R, strict=True):
        least = cost(r, t, w)
        for step in 1e-3 * np.vstack([np.eye(2), -np.eye(2)]):
            assert cost(r + step, t, w) > least


def test_an_entry_is_compared_with_what_the_others_predict():
    """The leave-one-out prediction follows from the leverage."""
    model, T, observed, _ = example(missing=0.0)
    model = FactorModel(model.gauge, model.basis, model.noise)
    weights = np.ones(T.shape)
    judgement = model.judge(T, observed, weights, model.expect(T, weights))
    left_out = weights.copy()
    left_out[:, 3] = 0.0
    np.testing.assert_allclose(
        judgement.deviation[:, 3], (T - model.expect(T, left_out).fitted)[:, 3], rtol=1e-9
    )


def test_the_update_solves_a_ridge_regression_for_each_feature():
    model, T, observed, weights = example()
    sums, _ = model.measure(T, observed, weights, np.ones(len(T)), judging=False)
    known = model.expect(T, weights)
    prior = np.diag([*model.precisions, 1e-3])
    expected = []
    for j in range(T.shape[1]):
        gram, target = prior * model.noise[j], np.zeros(3)
        for t, w, r, S in zip(T[:, j], weights[:, j], known.R, known.S, strict=True):
            extended = np.append(r, 1.0)
            moment = np.outer(extended, extended)
            moment[:2, :2] += S
            gram, target = gram + w * moment, target + w * t * extended
        expected.append(np.linalg.solve(gram, target))
    found = model.updated(sums, judging=False)
    # The update ends with a change of coordinates, which leaves the predictions as they are.
    second = sum(np.outer(r, r) + S for r, S in zip(known.R, known.S, strict=True)) / len(T)
    mean = known.R.mean(axis=0)
    np.testing.assert_allclose(found.location, np.array(expected) @ np.append(mean, 1.0), rtol=1e-8)
    L = np.array(expected)[:, :2]
    np.testing.assert_allclose(
        found.loadings @ found.loadings.T, L @ (second - np.outer(mean, mean)) @ L.T, rtol=1e-8
    )


def test_sums_of_parts_add_up():
    model, T, observed, weights = example()
    ones = np.ones(len(T))
    whole, _ = model.measure(T, observed, weights, ones, judging=True)
    parts = [
        model.measure(T[rows], observed[rows], weights[rows], ones[rows], judging=True)[0]
        for rows in (slice(0, 15), slice(15, 40))
    ]
    total = parts[0] + parts[1]
    for name in ("n", "counts", "grams", "targets", "squares", "moments", "gross", "evidence"):
        np.testing.assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-10)


def test_the_log_likelihood_is_that_of_the_normal_distribution():
    model, T, observed, _ = example()
    covariance = model.loadings @ model.loadings.T + np.diag(model.noise)
    scale = model.gauge.scale
    found = model.log_likelihood(T, observed)
    for t, there, value in zip(T, observed, found, strict=True):
        normal = multivariate_normal(
            (model.location * scale)[there],
            (covariance * np.outer(scale, scale))[np.ix_(there, there)],
        )
        assert value == pytest.approx(normal.logpdf((t * scale)[there]), rel=1e-10)


def test_the_evidence_grows():
    X, _ = corrupted(seed=3, n=100)
    rounds = Rounds.of(Batch(X))
    *_, last = rounds.fits(5, prune=False)
    gains = np.diff(last.evidence)
    assert last.evidence[-1] > last.evidence[2] + 0.1
    assert gains[25:].min(initial=0.0) > -1e-3  # rejecting entries is not an exact step of the bound


def test_variances_of_few_squares_are_drawn_to_the_common_one():
    rng = np.random.default_rng(0)
    few, many = rng.chisquare(4, 200), rng.chisquare(4000, 200) * rng.uniform(0.1, 10.0, 200)
    assert np.std(np.log(shrink_variances(few, np.full(200, 4.0)))) < 0.5 * np.std(np.log(few))
    np.testing.assert_allclose(shrink_variances(many, np.full(200, 4000.0)), many / 4000.0, rtol=0.05)


def corrupted(seed, n=60, p=30, rank=3, noise=0.05, gross=0.1):
    """Return data with gross errors, and the low-rank part."""
    rng = np.random.default_rng(seed)
    low_rank = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    wrong = rng.random((n, p)) < gross
    errors = wrong * rng.uniform(-10.0, 10.0, (n, p)) * np.sqrt(rank)
    return low_rank + noise * np.sqrt(rank) * rng.standard_normal((n, p)) + errors, low_rank


def fitted(X, n_components, prune=False):
    """Return the model of samples and their low-rank part."""
    rounds = Rounds.of(Batch(X))
    *_, fit = rounds.fits(n_components, prune=prune)
    known = fit.model.encode(*fit.model.standardised(Batch(X)), 100)[0]
    return fit.model, known.fitted * rounds.gauge.scale + rounds.gauge.centre


@pytest.mark.parametrize("spare", [0, 5])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_few_rows_with_gross_errors_are_recovered_with_spare_components(noise, spare):
    X, low_rank = corrupted(0, noise=noise)
    error = np.linalg.norm(fitted(X, 3 + spare)[1] - low_rank) / np.linalg.norm(low_rank)
    assert error < (0.03 if noise else 1e-4)


def test_components_without_support_are_removed():
    X, _ = corrupted(1)
    assert fitted(X, 12, prune=True)[0].n_components == 3


def test_units_and_origins_of_the_features_do_not_matter():
    X, _ = corrupted(2)
    rng = np.random.default_rng(0)
    unit, origin = 10.0 ** rng.uniform(-4, 4, 30), rng.uniform(-1000, 1000, 30)
    expected = fitted(X, 5)[1]
    found = (fitted((X + origin) * unit, 5)[1]) / unit - origin
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_the_order_of_samples_and_features_does_not_matter():
    X, _ = corrupted(2)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(60), rng.permutation(30)
    expected = fitted(X, 5)[1][np.ix_(rows, columns)]
    np.testing.assert_allclose(fitted(X[np.ix_(rows, columns)], 5)[1], expected, atol=1e-6)


def test_missing_entries_are_predicted():
    X, low_rank = corrupted(4, n=200, gross=0.0)
    hidden = np.random.default_rng(0).random(X.shape) < 0.3
    error = (fitted(np.where(hidden, np.nan, X), 3)[1] - low_rank)[hidden]
    assert np.sqrt(np.mean(error**2)) < 0.05 * low_rank.std()


def test_distances_of_samples_without_noise_are_finite():
    """Spare components of exact data make the information of a sample nearly singular."""
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((30, 1)) @ rng.standard_normal((1, 12)) * 1e3
    model = FactorModel(
        Gauge(np.zeros(30), np.ones(30)), np.column_stack([loadings, np.zeros(30)]), np.full(30, 1e-8)
    )
    T = rng.standard_normal((5, 12)) @ loadings.T
    distance, log_determinant, _ = model.distances(T, np.ones(T.shape, dtype=bool))
    assert np.isfinite(distance).all()
    assert np.isfinite(log_determinant).all()
