"""Views of rows, and the limit of scores."""

import numpy as np
import pytest
from scipy.stats import chi2

from maxnorm import MaxNormDecomposition
from maxnorm.core.alarms import alarm_limit, tail_quantile
from maxnorm.core.deviations import compute_deviations
from maxnorm.core.surprise import Comparison, Past


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3)) @ rng.standard_normal((3, 8)) + 0.3 * rng.standard_normal((600, 8))
    return X * 10.0 ** np.arange(-4, 4) + 5.0


@pytest.fixture(scope="module")
def model(data):
    return MaxNormDecomposition(random_state=0).fit(data)._model()


def test_isolation_is_the_mean_distance_to_the_nearest_tenth():
    rng = np.random.default_rng(1)
    rows, X = rng.standard_normal((50, 4)), rng.standard_normal((7, 4))
    past = Past.of(rows)
    Y = (X - rows.mean(axis=0)) / rows.std(axis=0)
    R = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    distances = np.sort(np.sqrt(((Y[:, None] - R) ** 2).mean(axis=2)), axis=1)
    observed = np.ones(X.shape, dtype=bool)
    np.testing.assert_allclose(past.isolation(X, observed), distances[:, :5].mean(axis=1))
    own = np.sort(np.sqrt(((R[:, None] - R) ** 2).mean(axis=2)), axis=1)
    np.testing.assert_allclose(past.isolation(rows, np.ones(rows.shape, bool)), own[:, 1:6].mean(axis=1))


def test_distances_of_explained_rows_are_mahalanobis_distances(data, model):
    explained = Comparison(model, data[:100])._explain(data, np.ones(data.shape, dtype=bool))
    T = model.gauge.standardise(data, None)
    expected = model.distances(T, np.ones(data.shape, dtype=bool))[0]
    # The model allows for its uncertain loadings when it explains rows, but not in the distance.
    np.testing.assert_allclose((explained**2).sum(axis=1), expected, rtol=0.05)


def test_tails_of_one_row_and_of_many_are_the_same(data, model):
    comparison = Comparison(model, data[:200])
    together = comparison(data[200:260])
    alone = np.concatenate([comparison(row[None]) for row in data[200:260]])
    np.testing.assert_allclose(alone, together, rtol=1e-9)


def test_units_and_shifts_do_not_matter(data):
    unit, shift = 10.0 ** np.arange(8)[::-1], 1e3
    scores = []
    for X in (data, data * unit + shift * unit * data.std(axis=0)):
        fitted = MaxNormDecomposition(random_state=0).fit(X)._model()
        scores.append(Comparison(fitted, X[:200])(X))
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-5, atol=1e-5)


def test_few_scores_have_the_limit_of_chi_squared():
    scores = np.log(chi2.ppf(np.arange(0.5, 60.0) / 60.0, 10))
    assert alarm_limit(scores, 0.01, 10) == pytest.approx(np.log(chi2.isf(0.01, 10)), rel=0.02)


def test_anomalies_among_the_scores_do_not_raise_the_limit():
    rng = np.random.default_rng(2)
    usual = rng.standard_normal(5000)
    limit = alarm_limit(np.concatenate([usual, rng.uniform(20.0, 60.0, 250)]), 0.01, 10)
    assert np.mean(usual > limit) == pytest.approx(0.01, rel=0.5)


def test_the_tail_of_an_exponential_and_of_a_pareto_variable_is_extrapolated():
    p = (np.arange(1e5) + 0.5) / 1e5
    assert tail_quantile(-np.log(p), 1e-4) == pytest.approx(-np.log(1e-4), rel=0.01)
    assert tail_quantile(p**-0.4, 1e-4) == pytest.approx(1e-4**-0.4, rel=0.05)


def test_the_expected_entry_does_not_depend_on_the_entry(data, model):
    changed = data[:5].copy()
    changed[:, 2] += 50.0 * data[:, 2].std()
    first, second = compute_deviations(model, data[:5]), compute_deviations(model, changed)
    np.testing.assert_allclose(first.expected[:, 2], second.expected[:, 2], atol=0.1 * data[:, 2].std())
    assert np.all(second.deviation[:, 2] > 10.0)
