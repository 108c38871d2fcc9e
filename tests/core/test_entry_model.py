"""The model of single entries: posteriors against their definitions, and a bound that never falls."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import digamma, gammaln

from maxnorm.core import entry_model
from maxnorm.core.entry_model import RULE, EntryModel, gauge_of_entries
from maxnorm.core.linalg import symmetric
from maxnorm.core.patterns import Pattern


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def Z(rng):
    """Ratings of 30 rows and 12 columns, of which two fifths are observed."""
    stars = 3.0 + rng.standard_normal((30, 2)) @ rng.standard_normal((2, 12)) + rng.standard_normal((30, 1))
    seen = rng.random(stars.shape) < 0.4
    seen[:, 0] = seen[0] = True
    return sp.csr_array((stars[seen], np.nonzero(seen)), shape=stars.shape)


@pytest.fixture
def model(Z):
    """A model after four rounds, with noise that differs between the columns."""
    found = EntryModel.start(gauge_of_entries(Z)[0], 2, Pattern.unused(Z.shape[1]), seed=0)
    for _ in range(4):
        found = found.updated(found.measure(Z, found.explain(Z), np.ones(Z.shape[0])))
    return replace(found, noise=found.noise * np.linspace(0.5, 2.0, len(found.noise)))


def entries_of(model, Z):
    """Yield the entries in the units of the model."""
    Y = model.standardise(Z).tocoo()
    yield from zip(Y.row, Y.col, Y.data, strict=True)


def moments(mean, covariance):
    """Return the means and second moments of vectors (x, 1)."""
    full = np.append(mean, 1.0)
    second = np.outer(full, full)
    second[:-1, :-1] += covariance
    return full, second


def expected_square(y, row, column):
    """Return the expected squared error of an entry, given means and second moments of its row and column."""
    (u, N), (a, M) = row, column
    order = np.r_[: len(a) - 2, len(a) - 1, len(a) - 2]
    return y**2 - 2.0 * y * (u @ a[order]) + (N * M[np.ix_(order, order)]).sum()


def column_moments(model, j):
    return moments(model.mean[j], symmetric(model.covariance, model.mean.shape[1])[j])


def test_rows_are_the_posteriors_of_their_definition(Z, model, monkeypatch):
    monkeypatch.setattr(entry_model, "RULE", RULE._replace(row_precision=1e15))  # all rows are alike
    rows = model.explain(Z)
    order = np.r_[:2, 3, 2]
    for i in (0, 7, 29):
        precision, linear = model.row_precision.copy(), np.zeros(3)
        for k, j, y in entries_of(model, Z):
            if k == i:
                a, M = column_moments(model, j)
                a, M = a[order], M[np.ix_(order, order)]
                precision += M[:-1, :-1] / model.noise[j]
                linear += (y * a[:-1] - M[:-1, -1]) / model.noise[j]
        np.testing.assert_allclose(rows.covariance[i], np.linalg.inv(precision), rtol=1e-8)
        np.testing.assert_allclose(rows.mean[i], np.linalg.solve(precision, linear), rtol=1e-8)


def test_columns_are_the_posteriors_of_their_definition(Z, model):
    rows = model.explain(Z)
    new = model.updated(model.measure(Z, rows, np.ones(Z.shape[0])))
    order = np.r_[:2, 3, 2]
    for j in (0, 5, 11):
        precision, linear = model.column_precision.copy(), np.zeros(3)
        for i, k, y in entries_of(model, Z):
            if k == j:
                u, N = moments(rows.mean[i], rows.covariance[i])
                u, N, certainty = u[order], N[np.ix_(order, order)], rows.precision[i] / model.noise[j]
                precision += certainty * N[:-1, :-1]
                linear += certainty * (y * u[:-1] - N[:-1, -1])
        np.testing.assert_allclose(new.mean[j], np.linalg.solve(precision, linear), rtol=1e-8)
        np.testing.assert_allclose(symmetric(new.covariance, 3)[j], np.linalg.inv(precision), rtol=1e-8)


def test_errors_and_deviations_are_those_of_the_moments(Z, model):
    rows = model.explain(Z)
    seen = model.measure(Z, rows, np.ones(Z.shape[0]))
    errors = np.zeros(Z.shape[1])
    for i, j, y in entries_of(model, Z):
        row = moments(rows.mean[i], rows.covariance[i])
        errors[j] += rows.precision[i] * expected_square(y, row, column_moments(model, j))
    np.testing.assert_allclose(model.errors(seen), errors, rtol=1e-8)
    values, deviations = model.predict_at(rows, np.array([3, 4]), np.array([1, 2]))
    np.testing.assert_allclose(values, model.predict(rows)[[3, 4], [1, 2]])
    for k, (i, j) in enumerate([(3, 1), (4, 2)]):
        scale = model.gauge.scale[j]
        y = (values[k] - model.gauge.centre[j]) / scale
        spread = expected_square(y, moments(rows.mean[i], rows.covariance[i]), column_moments(model, j))
        variance = scale**2 * (spread + model.noise[j] / rows.precision[i])
        np.testing.assert_allclose(deviations[k], np.sqrt(variance))


def bound(model, Z, rows):
    """Return the evidence lower bound, whose terms are written out one by one."""
    total, half = 0.0, 0.5 * RULE.row_precision
    for i in range(Z.shape[0]):
        count = Z.indptr[i + 1] - Z.indptr[i]
        shape = half + 0.5 * count
        rate = shape / rows.precision[i]
        log_rho = digamma(shape) - np.log(rate)
        row = moments(rows.mean[i], rows.covariance[i])
        for k in range(Z.indptr[i], Z.indptr[i + 1]):
            j = Z.indices[k]
            y = (Z.data[k] - model.gauge.centre[j]) / model.gauge.scale[j]
            square = expected_square(y, row, column_moments(model, j))
            total += 0.5 * (log_rho - np.log(model.noise[j]) - rows.precision[i] * square / model.noise[j])
        total -= divergence(rows.mean[i], rows.covariance[i], model.row_precision)
        total += half * np.log(half) - gammaln(half) + (half - 1.0) * log_rho - half * rows.precision[i]
        total += shape - np.log(rate) + gammaln(shape) + (1.0 - shape) * digamma(shape)
    q = model.mean.shape[1]
    for mean, covariance in zip(model.mean, symmetric(model.covariance, q), strict=True):
        total -= divergence(mean, covariance, model.column_precision)
    return total


def divergence(mean, covariance, precision):
    """Return the Kullback-Leibler divergence of a normal distribution from one about zero."""
    trace = np.trace(precision @ covariance) + mean @ precision @ mean
    return 0.5 * (trace - len(mean) - np.linalg.slogdet(precision @ covariance)[1])


def test_the_evidence_lower_bound_never_falls(Z, monkeypatch):
    monkeypatch.setattr(entry_model, "RULE", RULE._replace(precision_steps=50))
    found = EntryModel.start(gauge_of_entries(Z)[0], 2, Pattern.unused(Z.shape[1]), seed=0)
    found = replace(found, covariance=found.covariance + 0.01 * np.eye(3)[np.triu_indices(3)])
    bounds = []
    for _ in range(12):
        rows = found.explain(Z)
        bounds.append(bound(found, Z, rows))
        columns = found.updated(found.measure(Z, rows, np.ones(Z.shape[0])))
        found = replace(found, mean=columns.mean, covariance=columns.covariance)  # the rest stays as it is
        bounds.append(bound(found, Z, rows))
    assert (np.diff(bounds) > -1e-8 * abs(bounds[0])).all()
    assert bounds[-1] > bounds[0] + 1.0


def test_sums_of_parts_add_up_to_those_of_the_whole(Z, model):
    rows, parts = model.explain(Z), []
    for part in (slice(0, 11), slice(11, 30)):
        piece = sp.csr_array(Z[part])
        parts.append(model.measure(piece, model.explain(piece), np.ones(piece.shape[0])))
    whole, total = model.measure(Z, rows, np.ones(Z.shape[0])), parts[0] + parts[1]
    for name, value in vars(whole).items():
        np.testing.assert_allclose(getattr(total, name), value, rtol=1e-10, atol=1e-12)


def test_the_basis_and_the_offsets_give_the_predictions(Z, model):
    rows = model.explain(Z)
    predicted = (rows.mean[:, :-1] @ model.rotation) @ model.basis.T + model.offsets(rows)
    np.testing.assert_allclose(predicted, model.predict(rows))
    squares = np.linalg.norm(model.basis, axis=0)
    assert (np.diff(squares) <= 1e-12).all()  # in principal order


def test_spare_factors_vanish(rng):
    stars = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 50)) + 0.1 * rng.standard_normal(
        (200, 50)
    )
    seen = rng.random(stars.shape) < 0.5
    Z = sp.csr_array((stars[seen], np.nonzero(seen)), shape=stars.shape)
    found = EntryModel.start(gauge_of_entries(Z)[0], 8, Pattern.unused(50), seed=0)
    for _ in range(30):
        found = found.updated(found.measure(Z, found.explain(Z), np.ones(200)))
    sizes = np.linalg.norm(found.basis, axis=0)
    assert sizes[2] < 0.05 * sizes[1]
    error = found.predict(found.explain(Z))[~seen] - stars[~seen]
    assert np.sqrt(np.mean(error**2)) < 0.13


def test_units_of_columns_are_the_same_for_ratings_and_their_own_for_tables(rng):
    stars = np.clip(np.rint(3.5 + rng.standard_normal((300, 40))), 1, 5)
    gauge, is_same = gauge_of_entries(sp.csr_array(stars))
    assert is_same
    assert np.ptp(gauge.centre) == 0.0
    stars[:, 3] *= 100.0
    gauge, is_same = gauge_of_entries(sp.csr_array(stars))
    assert not is_same
    np.testing.assert_allclose(gauge.centre, stars.mean(axis=0))


def test_patterns_tell_groups_of_columns_apart(rng):
    likes = np.repeat([[0.6, 0.05], [0.05, 0.6]], 100, axis=0)
    seen = rng.random((200, 60)) < np.repeat(likes, 30, axis=1)
    Z = sp.csr_array(seen.astype(float))
    found = Pattern.of(Z, seed=0)
    features = found.of_rows(Z)
    assert found.n_features == features.shape[1] == found.of_columns(seen.sum(axis=0)).shape[1] - 1
    assert (np.sign(features[:100, 1]) == -np.sign(features[100:, 1])).mean() > 0.95
    demand = found.demand(Z, seen.sum(axis=0).astype(float))
    assert demand[:100, :30].mean() > 3.0 * demand[:100, 30:].mean()
    assert Pattern.of(Z[:5], seed=0).n_features == 0  # too few rows


def test_an_entry_is_judged_by_the_others_of_its_row(Z, model, monkeypatch):
    monkeypatch.setattr(entry_model, "RULE", RULE._replace(row_precision=1e15))  # all rows are alike
    exact = replace(model, covariance=np.zeros_like(model.covariance), gross_share=0.1, gross_width=30.0)
    rows = exact.explain(Z)
    rows.belief[:] = np.random.default_rng(1).uniform(0.2, 1.0, Z.nnz)
    exact._explain(Z, Z.indices, exact._moments_of(np.arange(Z.shape[1])), rows)
    found = exact._belief(Z, rows)
    columns, Y = exact._columns, exact.standardise(Z)
    for i in (0, 7):
        part = slice(Z.indptr[i], Z.indptr[i + 1])
        a, y, noise = columns[Z.indices[part]], Y.data[part], exact.noise[Z.indices[part]]
        for k in range(len(y)):
            certainty = rows.belief[part] / noise
            certainty[k] = 0.0  # the entry itself does not count
            S = np.linalg.inv((a[:, :-1].T * certainty) @ a[:, :-1] + exact.row_precision)
            mean = S @ (a[:, :-1].T @ (certainty * (y - a[:, -1])))
            variance = noise[k] + a[k, :-1] @ S @ a[k, :-1]
            error = y[k] - a[k, -1] - a[k, :-1] @ mean
            good = 0.9 * np.exp(-0.5 * error**2 / variance) / np.sqrt(2.0 * np.pi * variance)
            np.testing.assert_allclose(found[part][k], good / (good + 0.1 / 30.0), rtol=1e-6)


def test_gross_errors_are_not_believed_and_their_share_is_found(rng):
    true = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 40))
    seen, wrong = rng.random(true.shape) < 0.4, rng.random(true.shape) < 0.1
    values = np.where(wrong, 100.0, true + 0.1 * rng.standard_normal(true.shape))
    Z = sp.csr_array((values[seen], np.nonzero(seen)), shape=true.shape)
    found = EntryModel.start(gauge_of_entries(Z, robust=True)[0], 4, Pattern.unused(40), seed=0).doubting(Z)
    for _ in range(15):
        rows = found.explain(Z)
        found = found.updated(found.measure(Z, rows, np.ones(300)))
    assert rows.belief[wrong[seen]].max() < 1e-6
    assert rows.belief[~wrong[seen]].mean() > 0.97
    assert found.gross_share == pytest.approx(wrong[seen].mean(), abs=0.02)
    assert np.sqrt(np.mean((found.predict(rows) - true)[~seen] ** 2)) < 0.2


def test_medians_of_columns_are_those_of_their_entries(Z):
    dense = np.where(Z.toarray() != 0.0, Z.toarray(), np.nan)
    expected = [np.quantile(c[~np.isnan(c)], 0.5, method="inverted_cdf") for c in dense.T]
    np.testing.assert_array_equal(entry_model.column_medians(Z), expected)
    nothing = sp.csr_array(([2.0], ([0], [1])), shape=(2, 3))
    np.testing.assert_array_equal(entry_model.column_medians(nothing), [0.0, 2.0, 0.0])


def test_gross_errors_do_not_change_the_units(rng):
    stars = rng.integers(1, 6, (200, 60)).astype(float)
    stars[rng.random(stars.shape) < 0.1] = 500.0
    gauge, is_same = gauge_of_entries(sp.csr_array(stars), robust=True)
    assert is_same
    assert (gauge.centre[0], round(gauge.scale[0], 2)) == (3.0, 1.48)
