"""Any unit, shape and degenerate data: a right result, or an error that names the remedy."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA, PrincipalComponentPursuit
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import expressed_variance, relative_error
from maxnorm.paper.methods import PAPER_PROBLEM

ESTIMATORS = [MaxNormDecomposition, OnlineRobustPCA, MaxNormCompletion]
NOISES = ["capped", "l1", "l21", "squared", "none"]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_the_result_does_not_depend_on_the_unit(Estimator, noise):
    data = make_corrupted_low_rank(300, 30, 3, corruption=0.1, missing=0.05, random_state=0)
    X, fresh = data.X[:250], data.X[250:]
    plain = Estimator(n_components=3, noise=noise, random_state=0).fit(X)
    for c in (1e-8, 1e-3, 1e8):
        scaled = Estimator(n_components=3, noise=noise, random_state=0).fit(c * X)
        assert expressed_variance(plain.components_.T, scaled.components_.T) > 1 - 1e-6
        a, b = plain.decompose(fresh), scaled.decompose(c * fresh)
        assert relative_error(a.low_rank, b.low_rank / c) < 1e-3
        assert ((a.noise != 0) == (b.noise != 0)).mean() > 0.999
        np.testing.assert_array_equal(a.converged, b.converged)


@pytest.mark.parametrize("c", [1e-8, 1e8])
def test_the_result_does_not_depend_on_the_unit_in_single_precision(c):
    data = make_corrupted_low_rank(500, 30, 3, corruption=0.1, random_state=0)
    model = MaxNormDecomposition(n_components=3, random_state=0).fit((c * data.X).astype(np.float32))
    assert expressed_variance(data.basis, model.components_.T) > 0.99
    assert model.decompose((c * data.X[:9]).astype(np.float32)).converged.all()


@pytest.mark.filterwarnings("ignore:nothing is observed in")
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((5, 4)),
        np.ones((1, 4)),
        np.full((3, 4), np.nan),
        np.full((30, 4), 7.0),
        np.column_stack([np.arange(30.0), np.zeros(30), np.full(30, 5.0), np.full(30, np.nan)]),
        np.outer(np.arange(30.0), [1.0, 2.0, 3.0, 4.0]),
        np.random.default_rng(0).standard_normal((40, 1)),
        np.vstack([np.zeros((20, 4)), np.full((3, 4), np.nan), np.arange(40.0).reshape(10, 4)]),
        1e-100 * np.arange(40.0).reshape(10, 4),
    ],
    ids=["zeros", "one", "all-nan", "constant", "columns", "rank-one", "one-feature", "late", "tiny"],
)
@pytest.mark.parametrize("n_components", [None, 1, 4, 9])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # l1 with spare components
def test_degenerate_data_give_finite_results_that_add_up_to_the_data(Estimator, noise, X, n_components):
    """Warnings are errors in this suite, so that no step may divide by zero or overflow."""
    model = Estimator(n_components=n_components, noise=noise, random_state=0).fit(X)
    parts = model.decompose(X)
    assert np.isfinite(model.components_).all()
    assert all(np.isfinite(part).all() for part in parts)
    known = ~np.isnan(X)
    total = parts.low_rank + parts.noise + parts.residual
    np.testing.assert_allclose(total[known], X[known], rtol=1e-6, atol=1e-12)
    assert not parts.noise[~known].any()
    assert not parts.residual[~known].any()
    assert np.isfinite(model.transform(X)).all()
    assert np.isfinite(model.objective_)
    assert np.isfinite(model.score(X))


def test_zeros_and_empty_rows_are_about_the_mean_and_have_no_noise():
    data = make_corrupted_low_rank(200, 20, 3, random_state=0)
    model = MaxNormDecomposition(n_components=3, random_state=0).fit(data.X)
    for row in (np.zeros((1, 20)), np.full((1, 20), np.nan)):
        parts = model.decompose(row)
        np.testing.assert_allclose(parts.low_rank[0], model.mean_, atol=0.1)
        assert not parts.noise.any()
    assert model.score(np.full((1, 20), np.nan)) == 0.0


def test_empty_rows_at_the_beginning_of_a_stream_do_no_harm():
    data = make_corrupted_low_rank(600, 30, 3, random_state=0)
    X = np.vstack([np.zeros((50, 30)), np.full((7, 30), np.nan), data.X])
    model = MaxNormDecomposition(n_components=3, random_state=0).fit(X)
    assert expressed_variance(data.basis, model.components_.T) > 0.99


def test_more_components_than_features_reproduce_clean_data():
    X = np.random.default_rng(0).standard_normal((400, 5))
    model = MaxNormDecomposition(n_components=8, noise="none", random_state=0).fit(X)
    assert model.components_.shape == (8, 5)
    assert model.transform(X).shape == (400, 8)
    model.set_params(**PAPER_PROBLEM | {"n_epochs": 3}).fit(X)
    assert model.components_.shape == (8, 5)
    assert relative_error(X, model.decompose(X).low_rank) < 0.2


def test_the_weights_in_use_are_reported_and_the_parameters_stay_as_given():
    X = make_corrupted_low_rank(200, 20, 3, random_state=0).X
    model = MaxNormDecomposition(n_components=3, random_state=0, **PAPER_PROBLEM).fit(X)
    assert model.lambda1_ == pytest.approx(20**-0.5)
    assert 0 < model.lambda2_ < 1
    assert (model.lambda1, model.lambda2) == ("auto", "auto")
    given = MaxNormDecomposition(n_components=3, lambda1=0.3, lambda2=0.2).fit(X)
    assert (given.lambda1_, given.lambda2_) == (0.3, 0.2)
    assert np.isnan(MaxNormCompletion(n_components=3).fit(X).lambda2_)


# -- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Estimator", ESTIMATORS)
@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("n_components", 0, "n_components of .* must be an integer of at least 1, 'auto' or None, got 0"),
        ("n_components", 2.5, "an integer of at least 1, 'auto' or None, got 2.5"),
        ("n_components", True, "an integer of at least 1, 'auto' or None, got True"),
        ("lambda1", -1.0, "lambda1 of .* must be a finite number of at least 0 or 'auto', got -1.0"),
        ("lambda2", float("nan"), "lambda2 of .* a finite number of at least 0 or 'auto', got nan"),
        ("lambda2", "big", "or 'auto', got 'big'"),
        ("batch_size", 0, "batch_size of .* an integer of at least 1 or 'auto', got 0"),
        ("forgetting", -2, "forgetting of .* of at least 0 or 'auto', got -2"),
        ("half_life", 0, "half_life of .* a finite number above 0 or None, got 0"),
        ("max_iter", 0, "max_iter of .* an integer of at least 1 or 'auto', got 0"),
        ("tol", -1e-3, "tol of .* a finite number of at least 0, got -0.001"),
        ("n_epochs", 0, "n_epochs of .* an integer of at least 1.*, got 0"),
        ("noise", "l2", "noise of .* must be one of 'capped', 'l1', .*, got 'l2'"),
        ("noise", 3, "an object that implements maxnorm.core.noise.Noise"),
        ("lambda1", 1e300, r"lambda1 of .* between 1e-120 and 1e\+120 if .*, got 1e\+300; rescale X"),
        ("lambda2", 1e-300, "lambda2 of .* between 1e-120 and .* if .*, got 1e-300; rescale X"),
        ("init", "zeros", "init of .* must be 'random' or an array"),
        ("init", np.full((3, 4), 1e300), r"init has a largest magnitude of 1e\+300.*; rescale init"),
        ("init", np.full((3, 4), 1e-300), "init has a largest magnitude of 1e-300.*; rescale init"),
        (
            "init",
            np.ones((3, 7)),
            r"init must have shape \(n_components, n_features\) = \(3, 4\), got \(3, 7\)",
        ),
    ],
)
def test_errors_name_the_parameter_the_value_and_the_remedy(Estimator, parameter, value, message):
    for fit in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(Estimator(**{parameter: value}), fit)(np.ones((6, 4)))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            MaxNormDecomposition(basis_update="fast"),
            "basis_update of MaxNormDecomposition must be 'exact' or 'bcd', got 'fast'",
        ),
        (MaxNormCompletion(c=0), "c of MaxNormCompletion must be a finite number above 0 or None, got 0"),
        (MaxNormCompletion(c=5.0, noise="l1"), "leave noise at 'none', got 'l1'"),
    ],
)
def test_errors_name_parameters_that_only_one_estimator_has(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(np.ones((3, 3)))


@pytest.mark.parametrize("Estimator", ESTIMATORS)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.array([[1.0, np.inf, 0.0]]), "X contains infinity, first in row 0, column 1; mark .* as NaN"),
        (np.ones((2, 4)), "X has 4 features, but .* is expecting 3 features"),
        (np.ones(3), "Expected 2D array, got 1D array instead"),
        (np.ones((0, 3)), "0 sample"),
        (np.array([["a", "b", "c"]]), "could not convert string"),
    ],
)
def test_bad_input_is_refused_and_the_model_stays_unchanged(Estimator, bad, message):
    model = Estimator(n_components=2, random_state=0).partial_fit(np.random.default_rng(0).random((30, 3)))
    state = model.state_
    for method in (model.partial_fit, model.transform, model.decompose, model.score_samples):
        with pytest.raises(ValueError, match=message):
            method(bad)
    assert model.state_ is state
    assert model.n_features_in_ == 3


def test_inverse_transform_rejects_coefficients_of_another_rank():
    model = MaxNormDecomposition(n_components=2, random_state=0).fit(np.random.default_rng(0).random((30, 3)))
    with pytest.raises(ValueError, match="R has 3 columns, but this MaxNormDecomposition has 2 components"):
        model.inverse_transform(np.ones((4, 3)))


def test_a_fit_on_bad_input_leaves_the_model_unchanged():
    X = np.random.default_rng(0).random((30, 3))
    model = MaxNormDecomposition(n_components=2, random_state=0).fit(X)
    before = model.transform(X)
    for bad in (np.full((3, 7), np.inf), np.full((3, 7), "x"), np.ones((0, 7))):
        with pytest.raises(ValueError, match=r"X|sample"):
            model.fit(bad)
        assert model.n_features_in_ == 3
        np.testing.assert_array_equal(model.transform(X), before)


def test_parameters_changed_after_fit_are_checked():
    X = np.random.default_rng(0).random((30, 3))
    model = MaxNormDecomposition(n_components=2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="noise of MaxNormDecomposition"):
        model.set_params(noise="typo").decompose(X)
    with pytest.raises(ValueError, match="was 2 when it was fitted and is now 3; call fit to start anew"):
        model.set_params(noise="capped", n_components=3).partial_fit(X)
    assert model.fit(X).n_components_ == 3


def test_masked_entries_are_missing_entries():
    data = make_corrupted_low_rank(300, 20, 2, corruption=0.0, random_state=0)
    hidden = np.random.default_rng(0).random(data.X.shape) < 0.2
    masked = np.ma.MaskedArray(np.where(hidden, -9999.0, data.X), mask=hidden)
    filled = MaxNormCompletion(n_components=2, n_epochs=5, random_state=0).fit_transform(masked)
    assert relative_error(data.X[hidden], filled[hidden]) < 0.1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"init": np.zeros((2, 3))}, "init is zero, from which nothing can be learnt; pass init='random'"),
        ({"init": None}, "init of MaxNormDecomposition must be 'random' or an array"),
        ({"noise": {}}, "noise of MaxNormDecomposition must be"),
    ],
)
def test_first_bases_and_noises_that_cannot_work_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        MaxNormDecomposition(n_components=2, **parameters).fit(np.ones((5, 3)))


def test_a_fit_that_fails_while_learning_leaves_the_model_unchanged():
    class FailingNoise:
        def prox(self, V):
            raise RuntimeError("prox failed")

        def value(self, E):
            return np.zeros(len(E))

    X = np.random.default_rng(0).random((30, 3))
    model = MaxNormDecomposition(n_components=2, random_state=0).fit(X)
    state = model.state_
    for method in (model.fit, model.partial_fit):
        model.set_params(noise=FailingNoise())
        with pytest.raises(RuntimeError, match="prox failed"):
            method(X)
        assert model.state_ is state


def test_a_fit_with_a_first_basis_of_the_wrong_shape_leaves_the_model_unchanged():
    model = MaxNormDecomposition(n_components=2, random_state=0).fit(np.random.default_rng(0).random((30, 3)))
    state = model.state_
    with pytest.raises(ValueError, match="init must have shape"):
        model.set_params(init=np.ones((2, 9))).fit(np.ones((5, 7)))
    assert model.n_features_in_ == 3
    assert model.state_ is state


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_entries_too_large_for_the_precision_are_refused_and_the_model_stays_unchanged(Estimator):
    X = make_corrupted_low_rank(200, 20, 3, random_state=0).X
    model = Estimator(n_components=3, random_state=0).partial_fit(X[:50].astype(np.float32))
    before = model.components_.copy()
    for value in (1e39, 1e160):
        bad = X[50:51].copy()
        bad[0, 2] = value
        with pytest.raises(
            ValueError, match=r"X contains .*, first in row 0, column 2; mark .* or rescale X"
        ):
            model.partial_fit(bad)
        np.testing.assert_array_equal(model.components_, before)
    model.partial_fit(X[51:])
    with pytest.raises(ValueError, match="too large for float64 arithmetic"):
        Estimator(n_components=3).fit(1e160 * X)


@pytest.mark.parametrize("d", [50, 80])
def test_how_rows_are_cut_into_calls_makes_no_difference_with_many_components(d):
    X = make_corrupted_low_rank(150, 200, 20, corruption=0.1, random_state=0).X
    whole = MaxNormDecomposition(n_components=d, random_state=0).fit(X)
    cut = MaxNormDecomposition(n_components=d, random_state=0).partial_fit(X[:26]).partial_fit(X[26:])
    np.testing.assert_array_equal(whole.components_, cut.components_)


def test_the_basis_of_the_papers_problem_is_read_only():
    X = np.random.default_rng(0).random((30, 6))
    model = MaxNormDecomposition(n_components=2, random_state=0, **PAPER_PROBLEM).fit(X)
    with pytest.raises(ValueError, match="read-only"):
        model.components_[0] = 0.0


def test_parameters_are_checked_before_waiting_rows_are_learnt_from():
    model = MaxNormDecomposition(n_components=2, random_state=0).partial_fit(np.ones((3, 6)))
    model.noise = "unknown"
    with pytest.raises(ValueError, match="noise of MaxNormDecomposition"):
        model.transform(np.ones((1, 6)))


def test_dates_in_a_data_frame_are_refused_with_a_remedy():
    frame = pd.DataFrame(
        {"time": pd.date_range("2026-01-01", periods=4), "a": 1.0, "b": [1.0, 2.0, 3.0, 4.0]}
    )
    with pytest.raises(ValueError, match="but the columns 'time' hold dates or times; drop them"):
        MaxNormDecomposition(1).fit(frame)
    assert MaxNormDecomposition(1, random_state=0).fit(frame.set_index("time")).n_features_in_ == 2


def test_dates_are_refused_with_a_remedy():
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2020-01-01", periods=5)
    model = MaxNormDecomposition(1, random_state=0)
    for times in (days, days.tz_localize("UTC"), days - days[0]):
        for frame in (
            pandas.DataFrame({"when": times}),
            pandas.DataFrame({"when": times, "size": range(5)}),
        ):
            with pytest.raises(ValueError, match="the columns 'when' hold dates or times; drop them or make"):
                model.fit(frame)
    for array in (days.to_numpy()[:, None], (days - days[0]).to_numpy()[:, None]):
        with pytest.raises(ValueError, match=r"X must be numeric, not .*; drop the dates or convert them"):
            model.fit(array)
    with pytest.raises(TypeError, match=r"X must be numeric: float.*; encode or drop such columns"):
        model.fit([[day] for day in days])


# -- extreme scales ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "scale"), [(np.float64, 1e-200), (np.float64, 1e-310), (np.float32, 1e-20)]
)
@pytest.mark.parametrize("Estimator", [*ESTIMATORS, PrincipalComponentPursuit])
def test_a_fit_to_tiny_data_is_refused_with_a_remedy(Estimator, dtype, scale):
    X = (scale * make_corrupted_low_rank(40, 6, 2, random_state=0).X).astype(dtype)
    with pytest.raises(ValueError, match=r"no magnitude above .* too small .* arithmetic; rescale X"):
        Estimator().fit(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_tiny_samples_of_a_stream_count_as_zeros(Estimator, dtype):
    X = make_corrupted_low_rank(60, 6, 2, random_state=0).X.astype(dtype)
    tiny = X[:20] * dtype(1e-30 if dtype == np.float32 else 1e-200)
    late = Estimator(n_components=2, n_epochs=1, random_state=0)
    with pytest.warns(
        UserWarning, match="too small .*rescale X, or ignore this if samples that follow are larger"
    ):
        late.partial_fit(tiny)
    late.partial_fit(X).partial_fit(tiny)
    zeros = clone(late).fit(np.vstack([0 * tiny, X, 0 * tiny]))
    np.testing.assert_allclose(late.components_, zeros.components_, atol=0.02)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("Estimator", [MaxNormDecomposition, OnlineRobustPCA])
@pytest.mark.parametrize("lambda1", [1e6, 1e30, 1e100])
def test_a_weight_far_above_the_data_leaves_no_low_rank_part(Estimator, lambda1, dtype):
    X = np.random.default_rng(0).standard_normal((60, 6)).astype(dtype)
    model = Estimator(n_components=2, lambda1=lambda1, noise="none", random_state=0).fit(X)
    assert np.abs(model.decompose(X).low_rank - model.mean_).max() < 1e-4
    assert np.isfinite(model.objective_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("Estimator", [MaxNormDecomposition, OnlineRobustPCA])
def test_a_weight_of_whole_samples_far_below_the_data_leaves_no_low_rank_part(Estimator, dtype):
    X = (1e6 * make_corrupted_low_rank(200, 20, 3, random_state=0).X).astype(dtype)
    model = Estimator(n_components=3, noise="l21", lambda2=1e-4, random_state=0).fit(X)
    assert np.isfinite(model.components_).all()
    assert np.abs(model.decompose(X).low_rank).max() < 1e-3 * np.abs(X).max()


def test_a_model_that_is_too_large_for_the_precision_of_x_asks_for_another():
    X = make_corrupted_low_rank(60, 6, 2, random_state=0).X
    for model in (MaxNormDecomposition(2, random_state=0), MaxNormCompletion(2, biases=True, random_state=0)):
        model.fit(1e80 * X)
        with pytest.raises(ValueError, match=r"float32 numbers, but .*; pass X in double precision"):
            model.transform(X.astype(np.float32))


def test_samples_that_overflow_are_refused_and_leave_the_model_unchanged():
    X = make_corrupted_low_rank(60, 6, 2, random_state=0).X
    model = MaxNormDecomposition(2, noise="l21", batch_size=10, random_state=0).fit(1e-100 * X)
    before = model.components_
    with pytest.raises(ValueError, match=r"the arithmetic has overflowed: .* rescale X"):
        model.partial_fit(1e100 * X)
    np.testing.assert_array_equal(model.components_, before)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_an_entry_that_overflows_is_refused(method):
    X = 1e-110 * make_corrupted_low_rank(400, 12, 3, random_state=0).X
    X[5, 3] = 1e110
    with pytest.raises(ValueError, match=r"the arithmetic has overflowed: .* rescale X"):
        getattr(MaxNormDecomposition(3, random_state=0), method)(X)


@pytest.mark.parametrize("scale", [2.0**-380, 2.0**-60, 2.0**60, 2.0**380])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_the_unit_of_the_data_does_not_matter_near_the_limits(Estimator, noise, scale):
    X = make_corrupted_low_rank(60, 6, 2, random_state=0).X
    model = Estimator(n_components=2, noise=noise, random_state=0)
    expected = model.fit(X).decompose(X).low_rank
    found = model.fit(scale * X).decompose(scale * X).low_rank / scale
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
