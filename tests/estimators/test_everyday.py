"""Decompositions of everyday data: location, units, few rows, and what users of PCA look for."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.model_selection import GridSearchCV

import maxnorm
from maxnorm import MaxNormDecomposition, OnlineRobustPCA, open_stream
from maxnorm.core.batch import Batch
from maxnorm.core.norms import NuclearNorm
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.dense import DenseLearner
from maxnorm.learner import learn
from maxnorm.metrics import expressed_variance, relative_error
from maxnorm.paper.methods import PAPER_PROBLEM
from maxnorm.variational import ROUNDS

EVERYDAY = {"random_state": 0}  # the defaults
BOTH = pytest.mark.parametrize("kind", [MaxNormDecomposition, OnlineRobustPCA])


def corrupted(n, p=20, rank=3, noise=0.05, gross=0.1, seed=0):
    """Return data with gross errors, a mean and units, and the part without errors and noise."""
    rng = np.random.default_rng([n, seed])
    unit, mean = 10.0 ** rng.uniform(-2, 2, p), rng.uniform(-10, 10, p)
    low_rank = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p)) + mean
    errors = (rng.random((n, p)) < gross) * rng.uniform(-20.0, 20.0, (n, p))
    return (low_rank + noise * np.sqrt(rank) * rng.standard_normal((n, p)) + errors) * unit, low_rank * unit


def error(found, true):
    """Return the root mean square error in units of the deviations of the features."""
    return float(np.sqrt(np.mean(((found - true) / true.std(axis=0)) ** 2)))


@BOTH
def test_the_parts_add_up_and_follow_from_components_and_mean(kind):
    X, _ = corrupted(80)
    model = kind(5, **EVERYDAY).fit(X)
    parts = model.decompose(X)
    np.testing.assert_allclose(parts.low_rank + parts.noise + parts.residual, X, rtol=1e-10)
    assert not (parts.noise * parts.residual).any()
    np.testing.assert_allclose(
        parts.coefficients @ model.components_ + model.mean_, parts.low_rank, rtol=1e-8
    )
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), parts.low_rank, rtol=1e-8)


@BOTH
@pytest.mark.parametrize(("n_samples", "n_epochs"), [(60, "auto"), (2000, "auto"), (2000, 1)])
def test_units_means_and_gross_errors_are_no_obstacle(kind, n_samples, n_epochs):
    X, true = corrupted(n_samples)
    model = kind(3, n_epochs=n_epochs, **EVERYDAY).fit(X)
    assert error(model.decompose(X).low_rank, true) < (0.05 if n_epochs == "auto" else 0.06)


@BOTH
def test_the_components_are_principal_axes(kind):
    X = load_wine().data
    model = kind(4, **EVERYDAY).fit(X)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(4), atol=1e-10)
    assert (np.diff(model.explained_variance_) <= 0.0).all()
    largest = np.abs(model.components_).argmax(axis=1)
    assert (model.components_[np.arange(4), largest] > 0.0).all()
    model.components_[:] = 0.0  # a copy, which may be changed
    assert model.components_.any()
    assert 0.0 < model.explained_variance_ratio_.sum() < 1.0
    np.testing.assert_allclose(model.singular_values_, np.sqrt((len(X) - 1) * model.explained_variance_))


def test_covariance_precision_and_distances_belong_together():
    X = load_iris().data
    model = MaxNormDecomposition(2, **EVERYDAY).fit(X)
    covariance, precision = model.get_covariance(), model.get_precision()
    np.testing.assert_allclose(covariance @ precision, np.eye(4), atol=1e-8)
    deviations = X - model.mean_
    np.testing.assert_allclose(
        model.mahalanobis(X), np.einsum("ij,jk,ik->i", deviations, precision, deviations), rtol=1e-8
    )
    assert np.linalg.norm(covariance - np.cov(X.T)) < 0.1 * np.linalg.norm(np.cov(X.T))


def test_the_score_is_a_log_likelihood_like_that_of_factor_analysis():
    X = np.random.default_rng(0).standard_normal((500, 3)) @ np.random.default_rng(1).standard_normal((3, 12))
    X += 0.3 * np.random.default_rng(2).standard_normal(X.shape)
    model = MaxNormDecomposition(3, noise="none", **EVERYDAY).fit(X)
    assert model.score(X) == pytest.approx(FactorAnalysis(3).fit(X).score(X), abs=0.05)
    assert model.score(X) == pytest.approx(np.mean(model.score_samples(X)))


def test_cross_validation_finds_the_rank():
    X, _ = corrupted(150, rank=3, gross=0.0)
    search = GridSearchCV(MaxNormDecomposition(**EVERYDAY), {"n_components": [1, 2, 3, 5, 8]}, cv=3).fit(X)
    assert search.best_params_["n_components"] in (3, 5)
    assert MaxNormDecomposition("auto", **EVERYDAY).fit(X).n_components_ == 3


def test_clean_data_give_the_subspace_of_pca():
    X, _ = corrupted(300, noise=0.02, gross=0.0)
    X = X / X.std(axis=0)
    model = MaxNormDecomposition(3, **EVERYDAY).fit(X)
    pca = PCA(3).fit(X)
    cosines = np.linalg.svd(model.components_ @ pca.components_.T, compute_uv=False)
    assert cosines.min() > 0.9999
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=0.05)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0), atol=0.01)


def test_gaps_are_filled_and_a_gap_alone_is_not_unusual():
    X, true = corrupted(200, gross=0.0)
    model = MaxNormDecomposition(3, **EVERYDAY).fit(X)
    hidden = np.random.default_rng(0).random(X.shape) < 0.4
    Z = np.where(hidden, np.nan, X)
    filled = model.decompose(Z).low_rank
    assert error(np.where(hidden, filled, true), true) < 0.1
    per_entry = model.score_samples(Z) / (~hidden).sum(axis=1)
    assert np.mean(model.mahalanobis(Z) / (~hidden).sum(axis=1)) == pytest.approx(1.0, abs=0.25)
    assert np.isfinite(per_entry).all()


@BOTH
def test_learning_goes_on_after_rounds(kind):
    X, true = corrupted(400)
    model = kind(3, **EVERYDAY).fit(X[:100])
    before = error(model.decompose(X).low_rank, true)
    for rows in np.array_split(X[100:], 6):
        model.partial_fit(rows)
    assert model.n_samples_seen_ == 400
    assert error(model.decompose(X).low_rank, true) < 1.2 * before


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_model_is_saved_with_its_units(kind, dtype, tmp_path):
    X, _ = corrupted(60)
    model = kind("auto", **EVERYDAY).fit(X.astype(dtype))
    model.save(tmp_path / "m.maxnorm")
    again = maxnorm.load(tmp_path / "m.maxnorm")
    for name in ("components_", "mean_", "noise_variance_", "explained_variance_"):
        assert np.array_equal(getattr(again, name), getattr(model, name))
    assert np.array_equal(again.transform(X.astype(dtype)), model.transform(X.astype(dtype)))
    assert again.transform(X.astype(dtype)).dtype == dtype


def test_a_small_file_is_fitted_like_an_array(tmp_path):
    X, _ = corrupted(60)
    np.save(tmp_path / "x.npy", X)
    model = MaxNormDecomposition(3, **EVERYDAY)
    from_file = clone(model).fit(open_stream(tmp_path / "x.npy"))
    assert np.array_equal(from_file.components_, model.fit(X).components_)


def test_centred_sums_are_those_of_an_explicit_intercept():
    """The basis and the location, which has a prior, together minimise the surrogate."""
    rng = np.random.default_rng(0)
    R = rng.standard_normal((50, 3)) + 1.0
    targets = R @ rng.standard_normal((3, 8)) + rng.standard_normal((50, 8)) + 5.0 * rng.standard_normal(8)
    weights = rng.uniform(0.5, 1.0, 50)
    seen = SufficientStatistics.from_batch(targets, R, np.zeros(50), weights, center=True)
    norm = NuclearNorm(0.7)
    # Regression of the targets on the coefficients and a constant, with a ridge on each.
    extended = np.column_stack([R, np.ones(50)])
    prior = weights.sum() * (1.0 / seen.mean_share - 1.0)
    assert 0.0 < prior < 0.1 * weights.sum()
    gram = extended.T @ (weights[:, None] * extended) + np.diag([0.7, 0.7, 0.7, prior])
    solution = np.linalg.solve(gram, extended.T @ (weights[:, None] * targets)).T
    L = norm.update_basis(rng.standard_normal((8, 3)), seen.centred())
    np.testing.assert_allclose(L, solution[:, :3], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(seen.location(L), solution[:, 3], rtol=1e-6, atol=1e-8)


def test_without_a_model_its_attributes_are_missing_with_a_reason():
    X, _ = corrupted(60)
    model = MaxNormDecomposition(3, center=False, scale=None, random_state=0).fit(X)
    assert not hasattr(model, "noise_variance_")
    with pytest.raises(AttributeError, match="needs scale='auto' or center=True"):
        model.get_covariance()
    with pytest.raises(AttributeError, match="no mean_, which needs center=True"):
        _ = model.mean_


@pytest.mark.parametrize(
    "X",
    [
        np.ones((5, 3)),
        np.zeros((5, 3)),
        np.array([[1.0, 2.0, 3.0]]),
        np.column_stack([np.arange(10.0), np.ones(10), np.repeat([0.0, 1.0], [9, 1])]),
        np.array([[1.0, np.nan], [np.nan, 2.0], [3.0, 4.0]]),
        np.full((4, 3), np.nan),
    ],
    ids=["constant", "zero", "a single sample", "kinds of features", "gaps", "nothing observed"],
)
@BOTH
def test_degenerate_data_have_finite_answers(kind, X):
    model = kind(2, **EVERYDAY).fit(X)
    parts = model.decompose(X)
    assert all(np.isfinite(part).all() for part in parts)
    assert np.isfinite(model.score_samples(X)).all()
    observed = ~np.isnan(X)
    total = parts.low_rank + parts.noise + parts.residual
    np.testing.assert_allclose(total[observed], X[observed], atol=1e-12)


def test_a_fit_that_rejects_much_says_so():
    rng = np.random.default_rng(0)
    X = 0.01 * rng.standard_normal((300, 30))
    X += (rng.random(X.shape) < 0.35) * rng.uniform(-10.0, 10.0, X.shape)
    with pytest.warns(UserWarning, match="of the entries of X were classified as gross errors"):
        MaxNormDecomposition(2, **EVERYDAY).fit(X)
    assert not MaxNormDecomposition(2, noise="none", **EVERYDAY).fit(X).decompose(X).noise.any()


@BOTH
def test_the_rank_of_a_long_stream_follows_from_its_first_samples(kind):
    X, true = corrupted(8000)
    model = kind("auto", center=True, scale="auto", random_state=0)
    for rows in np.array_split(X, 10):
        model.partial_fit(rows)
    assert model.n_components_ == 3
    assert model.n_samples_seen_ == 8000
    assert error(model.decompose(X).low_rank, true) < 0.04


def test_weights_of_entries_that_alternate_settle():
    X, _ = corrupted(300, p=8, rank=2, noise=0.5, gross=0.1)
    model = MaxNormDecomposition(2, **EVERYDAY).fit(X)
    assert model.decompose(X).converged.all()


def test_counts_that_are_mostly_zero_are_rejected_with_a_warning_only():
    rng = np.random.default_rng(0)
    X = rng.poisson(np.exp(rng.normal(-4.0, 1.0, 100)), (300, 100)).astype(float)
    with pytest.warns(
        UserWarning, match="of the entries of X are zero, and most of the others .* noise='none'"
    ):
        MaxNormDecomposition(3, **EVERYDAY).fit(X)
    model = MaxNormDecomposition(3, noise="none", **EVERYDAY).fit(X)
    assert not model.decompose(X).noise.any()
    model.partial_fit(X[:50])
    assert not model.decompose(X).noise.any()


@pytest.mark.filterwarnings("ignore:.* of the entries of X were classified")
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_gross_errors_are_found_in_counts_of_which_some_are_mostly_zero(method):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        mixing = rng.gamma(1.0, 1.0, (3, 40)) * np.geomspace(0.2, 30.0, 40)
        rates = rng.gamma(1.0, 1.0, (1000, 3)) @ mixing
        counts = rng.poisson(rates).astype(float)
        assert np.mean(counts == 0.0, axis=0).max() > 0.6
        X = np.where(rng.random(counts.shape) < 0.1, 5.0 * counts.max(), counts)
        model = getattr(MaxNormDecomposition(random_state=0), method)(X)
        assert relative_error(rates, model.decompose(X).low_rank) < 0.15


def test_frames_are_decomposed_into_frames_with_their_index():
    pandas = pytest.importorskip("pandas")
    X, _ = corrupted(40, p=5, rank=2)
    frame = pandas.DataFrame(X, index=pandas.date_range("2026-01-01", periods=40), columns=list("abcde"))
    model = MaxNormDecomposition(2, **EVERYDAY).fit(frame)
    parts = model.decompose(frame)
    for part in parts:
        assert part.index.equals(frame.index)
    assert list(parts.low_rank.columns) == list("abcde")
    assert list(parts.coefficients.columns) == ["component0", "component1"]
    pandas.testing.assert_frame_equal(parts.low_rank + parts.noise + parts.residual, frame)
    assert np.array_equal(parts.low_rank, clone(model).fit(X).decompose(X).low_rank)


def test_whitened_coefficients_have_unit_variance_and_are_inverted():
    X, _ = corrupted(500, gross=0.0)
    model = MaxNormDecomposition(3, whiten=True, **EVERYDAY).fit(X)
    R = model.transform(X)
    np.testing.assert_allclose(R.std(axis=0), 1.0, rtol=0.1)
    plain = clone(model).set_params(whiten=False).fit(X)
    np.testing.assert_allclose(R * np.sqrt(model.explained_variance_), plain.transform(X), rtol=1e-10)
    np.testing.assert_allclose(model.inverse_transform(R), plain.decompose(X).low_rank, rtol=1e-8)
    spare = MaxNormDecomposition(8, whiten=True, **EVERYDAY).fit(X)
    assert np.isfinite(spare.transform(X)).all()
    with pytest.raises(AttributeError, match="no statistical model"):
        model.set_params(lambda2=1.0).fit(X).transform(X)


@BOTH
def test_sample_weights_count_like_repeated_samples(kind):
    X, _ = corrupted(200, gross=0.05)
    weights = np.random.default_rng(0).integers(0, 4, 200)
    weighted = kind(3, **EVERYDAY).fit(X, sample_weight=weights)
    repeated = kind(3, **EVERYDAY).fit(np.repeat(X, weights, axis=0))
    plain = kind(3, **EVERYDAY).fit(X)
    found, expected, other = (
        model.decompose(X).low_rank / X.std(axis=0) for model in (weighted, repeated, plain)
    )
    assert np.abs(found - expected).max() < 0.3 * np.abs(other - expected).max()
    assert weighted.state_.statistics.weight == weights.sum()
    assert weighted.n_samples_seen_ == np.count_nonzero(weights)


def test_sample_weights_are_kept_by_rows_that_wait(tmp_path):
    X, _ = corrupted(120, gross=0.0)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 120)
    whole = MaxNormDecomposition(3, **EVERYDAY).partial_fit(X, sample_weight=weights)
    parts = MaxNormDecomposition(3, **EVERYDAY).partial_fit(X[:50], sample_weight=weights[:50])
    parts.save(tmp_path / "m.maxnorm")
    parts = maxnorm.load(tmp_path / "m.maxnorm").partial_fit(X[50:], sample_weight=weights[50:])
    np.testing.assert_array_equal(parts.components_, whole.components_)
    unweighted = MaxNormDecomposition(3, **EVERYDAY).partial_fit(X)
    assert not np.array_equal(unweighted.components_, whole.components_)


@pytest.mark.parametrize(
    ("X", "weights", "message"),
    [
        (lambda: np.ones((3, 2)), [1.0, 1.0], "inconsistent numbers of samples|sample_weight.shape"),
        (lambda: np.ones((3, 2)), [1.0, -1.0, 1.0], "Negative values"),
        (lambda: np.ones((3, 2)), np.zeros(3), "sample_weight is zero for all|at least one non-zero"),
        (
            lambda: np.ones((3, 2)),
            np.full(3, 1e200),
            "sample_weight has the value 1e\\+200, .* by their mean",
        ),
        (lambda: np.ones((3, 2)), np.full(3, 1e-200), "sample_weight has the value 1e-200, .* by their"),
        (lambda: np.ones((3, 2), "f"), np.full(3, 1e-50), "sample_weight has the value 1e-50, .* float32"),
        (lambda: open_stream(np.ones((3, 2))), np.ones(3), "sample_weight needs X to be an array"),
    ],
    ids=["too few", "negative", "zero", "too large", "too small", "too small for float32", "stream"],
)
def test_wrong_sample_weights_are_refused(X, weights, message):
    with pytest.raises(ValueError, match=message):
        MaxNormDecomposition(1).fit(X(), sample_weight=weights)


def test_weights_that_add_up_to_one_are_noticed():
    X, _ = corrupted(60, gross=0.0)
    with pytest.warns(UserWarning, match="sample_weight add up to 1. .* Divide sample_weight by its mean"):
        MaxNormDecomposition(3, **EVERYDAY).fit(X, sample_weight=np.full(60, 1.0 / 60.0))


class Loader:
    """Yields batches of samples, as loaders of other libraries do."""

    def __init__(self, X, wrap):
        self.X, self.wrap = X, wrap

    def __len__(self):
        return 4

    def __iter__(self):
        return (self.wrap(batch) for batch in np.array_split(self.X, 4))


@pytest.mark.parametrize(
    "source",
    [
        lambda X: [tuple(row) for row in X],
        lambda X: [dict(zip("abcdef", row, strict=True)) for row in X],
        lambda X: Loader(X, lambda batch: batch),
        lambda X: Loader(X, lambda batch: [batch]),
    ],
    ids=["tuples", "records", "loader", "loader of lists"],
)
def test_rows_records_and_loaders_are_read(source):
    X, _ = corrupted(80, p=6, rank=2)
    model = MaxNormDecomposition(2, **EVERYDAY).fit(source(X))
    expected = MaxNormDecomposition(2, **EVERYDAY).fit(X)
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.transform(source(X)), expected.transform(X))


@pytest.mark.parametrize(
    "source",
    [lambda X: iter(X), lambda X: (tuple(row) for row in X), lambda X: (dict(enumerate(row)) for row in X)],
    ids=["rows", "tuples", "records"],
)
def test_generators_are_read_in_one_pass(source):
    X, _ = corrupted(80, p=6, rank=2)
    model = MaxNormDecomposition(2, **EVERYDAY).fit(source(X))
    expected = MaxNormDecomposition(2, n_epochs=1, **EVERYDAY).fit(X)
    np.testing.assert_array_equal(model.components_, expected.components_)


def test_the_fields_of_records_are_names_and_gaps():
    records = [{"inlet": 1.0 * i, "outlet": 2.0 * i} for i in range(20)]
    records[3] = {"inlet": 3.0}
    model = MaxNormDecomposition(1, **EVERYDAY).fit(records)
    assert list(model.feature_names_in_) == ["inlet", "outlet"]
    assert model.decompose(records).low_rank[3, 1] == pytest.approx(6.0, abs=0.1)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([{"a": 1.0}, {"b": 2.0}], "record 1 has the field 'b', which the first record lacks"),
        ([{"a": "warm"}], "record 0: must be numeric"),
        (
            Loader(np.ones((8, 2)), lambda batch: (batch, batch[:, 0])),
            r"tuple of 2 arrays.*open_stream\(lambda",
        ),
        ({"a": [1.0, 2.0]}, "X is a dictionary.*list of records"),
        ("data.csv", r"pass maxnorm.open_stream\('data.csv'\)"),
    ],
    ids=["fields", "text", "targets", "columns", "path"],
)
def test_other_sources_are_refused_with_a_remedy(X, message):
    with pytest.raises((ValueError, TypeError), match=message):
        MaxNormDecomposition(1).fit(X)


@BOTH
@pytest.mark.parametrize("n_components", [5, 15, 25])
def test_one_pass_with_spare_components_is_as_good_as_with_the_right_number(kind, n_components):
    rng = np.random.default_rng(0)
    low_rank = rng.standard_normal((3000, 5)) @ rng.standard_normal((5, 50))
    X = low_rank + 0.1 * rng.standard_normal(low_rank.shape)
    X += (rng.random(X.shape) < 0.1) * rng.uniform(-20.0, 20.0, X.shape)
    model = kind(n_components, **EVERYDAY)
    for rows in np.array_split(X, 7):
        model.partial_fit(rows)
    assert error(model.decompose(X).low_rank, low_rank) < 0.025
    np.testing.assert_allclose(np.sqrt(model.noise_variance_), 0.1, rtol=0.1)


@BOTH
def test_a_pass_over_many_samples_starts_from_rounds_over_some_of_them(kind, monkeypatch):
    X, true = corrupted(7_000, gross=0.2)
    X = X[np.argsort(true[:, 0])]  # the first samples are unlike the others
    true = true[np.argsort(true[:, 0])]
    model = kind(**EVERYDAY)
    assert model.start_fit(open_stream(X[:100]))
    assert model.n_samples_seen_ == 100
    monkeypatch.setattr("maxnorm.estimators.sampling.SAMPLED_ENTRIES", X.size // 3)
    assert not model.start_fit(open_stream(X))
    assert model.n_samples_seen_ == 0
    model.fit(X)
    assert model.n_components_ == 3
    assert model.n_samples_seen_ == 7_000
    assert error(model.decompose(X).low_rank, true) < 0.05


@BOTH
def test_a_file_is_described_as_a_whole_even_if_components_appear_late(kind, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((4_000, d)) @ rng.standard_normal((d, 20)) for d in (3, 2)]
    parts[1][:2_000] = 0.0
    true = parts[0] + parts[1]
    X = true + 0.05 * rng.standard_normal(true.shape) + 30.0 * (rng.random(true.shape) < 0.05)
    np.save(tmp_path / "X.npy", X)
    whole = kind(**EVERYDAY).fit(X)
    found = kind(**EVERYDAY).fit(open_stream(tmp_path / "X.npy"))
    np.testing.assert_allclose(found.components_, whole.components_)
    monkeypatch.setattr("maxnorm.estimators.sampling.SAMPLED_ENTRIES", X.size // 3)  # as for larger files
    found = kind(**EVERYDAY).fit(open_stream(tmp_path / "X.npy", batch_size=700))
    assert (found.n_components_, found.n_samples_seen_) == (5, 4_000)
    assert error(found.decompose(X).low_rank, true) < 0.02


@BOTH
def test_the_papers_problem_is_solved_as_in_the_first_version(kind):
    """The estimator adds nothing to the learner of the paper's problem, bit for bit."""
    data = make_corrupted_low_rank(200, 20, 3, corruption=0.1, random_state=0)
    model = kind(3, random_state=0, **PAPER_PROBLEM).fit(data.X)
    learner = DenseLearner(n_components=3, norm="max" if kind is MaxNormDecomposition else "nuclear")
    seed = np.random.RandomState(0).randint(2**31 - 1)
    state, _ = learn(learner, learner.start(20, np.dtype(np.float64), seed), Batch(data.X))
    np.testing.assert_array_equal(model.components_, state.L.T)


def test_a_location_is_believed_as_far_as_it_exceeds_its_error():
    rng = np.random.default_rng(0)
    for mean, least, most in ((0.0, 0.0, 0.3), (0.1, 0.4, 0.8), (1.0, 0.98, 1.0)):
        targets = rng.standard_normal((100, 400)) + mean
        seen = SufficientStatistics.from_batch(targets, np.zeros((100, 2)), np.zeros(100), center=True)
        assert least <= seen.mean_share <= most


def test_a_mean_outside_of_the_basis_is_believed_beside_small_residuals():
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((40, 2)), rng.standard_normal((300, 2))
    outside = rng.standard_normal(40)
    outside -= L @ np.linalg.lstsq(L, outside, rcond=None)[0]
    mean = 0.03 * outside
    noise = 0.01 * rng.standard_normal((300, 40))
    seen = SufficientStatistics.from_batch(R @ L.T + mean + noise, R, np.zeros(300), center=True)
    assert seen.mean_share < 0.7
    found = seen.refined_location(L)
    found -= L @ np.linalg.lstsq(L, found, rcond=None)[0]
    assert np.linalg.norm(found - mean) < 0.1 * np.linalg.norm(mean)


@BOTH
def test_one_pass_over_skewed_samples_is_nearly_as_accurate_as_pca(kind):
    rng = np.random.default_rng(0)
    clean = rng.gamma(1.0, 1.0, (2000, 8)) @ rng.standard_normal((8, 200))
    X = clean + 0.01 * clean.std() * rng.standard_normal(clean.shape)
    pca = PCA(8).fit(X)
    best = error(pca.inverse_transform(pca.transform(X)), clean)
    assert error(kind(8, random_state=0).partial_fit(X).decompose(X).low_rank, clean) < 2.0 * best


def test_the_rank_of_many_features_is_that_of_some_of_them():
    data = make_corrupted_low_rank(150, 8000, 4, corruption=0.05, dense_noise=0.005, random_state=0)
    model = MaxNormDecomposition(**EVERYDAY).fit(data.X)
    assert model.n_components_ == 4
    assert model.components_.shape == (4, 8000)


def test_a_rank_above_those_that_are_tried_first_is_found(monkeypatch):
    monkeypatch.setattr("maxnorm.dense.ROUNDS", replace(ROUNDS, components=(2, 4)))
    X, _ = corrupted(350, rank=6, noise=0.02)
    assert MaxNormDecomposition(**EVERYDAY).fit(X).n_components_ == 6
    assert MaxNormDecomposition(**EVERYDAY).partial_fit(X).n_components_ == 6


def test_a_stream_whose_rank_is_chosen_by_held_out_entries_has_units_and_a_location(monkeypatch):
    few = replace(ROUNDS, components=(2, 4), work=2.0**20)
    monkeypatch.setattr("maxnorm.dense.ROUNDS", few)
    X, _ = corrupted(400, rank=12, p=40, noise=0.02, gross=0.02)
    model = MaxNormDecomposition(**EVERYDAY)
    most = few.affordable_components(300, 40)
    assert 4 <= most < 12
    model.partial_fit(X)
    assert model.state_.gauge is not None
    assert np.abs((model.mean_ - np.median(X, axis=0)) / X.std(axis=0)).max() < 0.5


def test_the_score_finds_the_rank_among_gross_errors():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)) @ rng.standard_normal((4, 30)) + 0.3 * rng.standard_normal((300, 30))
    X = np.where(rng.random(X.shape) < 0.05, rng.uniform(-30.0, 30.0, X.shape), X)
    ranks = [1, 2, 3, 4, 6]
    search = GridSearchCV(MaxNormDecomposition(**EVERYDAY), {"n_components": ranks}, cv=3).fit(X)
    scores = search.cv_results_["mean_test_score"]
    assert scores.argmax() >= ranks.index(4)
    assert scores[3] > scores[2] + 5.0
    assert scores[4] < scores[3] + 0.01  # spare components gain nothing


def test_the_score_of_clean_samples_is_the_logarithm_of_a_normal_density():
    X, _ = corrupted(300, noise=0.1, gross=0.0)
    X = X / X.std(axis=0)
    model = MaxNormDecomposition(3, **EVERYDAY).fit(X)
    found = model.score_samples(X)
    exact = multivariate_normal(model.mean_, model.get_covariance()).logpdf(X)
    assert abs(np.median(found - exact)) < 0.05
    plain = MaxNormDecomposition(3, noise="none", **EVERYDAY).fit(X)
    exact = multivariate_normal(plain.mean_, plain.get_covariance()).logpdf(X)
    np.testing.assert_allclose(plain.score_samples(X), exact, rtol=1e-6)


@BOTH
def test_one_pass_over_dense_noise_is_nearly_as_accurate_as_pca(kind):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((400, 8)))[0]
    X = rng.standard_normal((1000, 8)) @ basis.T + 0.3 * rng.standard_normal((1000, 400))
    best = expressed_variance(basis, PCA(8).fit(X).components_.T)
    found = expressed_variance(basis, kind(8, **EVERYDAY).partial_fit(X).components_.T)
    assert found > best - 0.005


@BOTH
def test_more_samples_do_not_make_a_young_model_worse(kind):
    """Rounds over the samples that wait explain them well; learning goes on from there."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((200, 40)))[0]
    X = rng.standard_normal((600, 40)) @ basis.T
    X = np.where(rng.random(X.shape) < 0.1, rng.uniform(-100.0, 100.0, X.shape), X)
    model, found = kind(40, **EVERYDAY), []
    for start, stop in ((0, 290), (290, 310), (310, 400), (400, 600)):
        model.partial_fit(X[start:stop])
        found.append(expressed_variance(basis, model.components_.T))
    assert found[0] > 0.99
    assert np.diff(found).min() > -1e-3


@pytest.mark.parametrize(("rank", "size", "noise"), [(40, 3.0, 0.0), (40, 3.0, 0.05), (20, 1.0, 0.02)])
def test_errors_of_the_size_of_the_signal_are_found_in_samples_with_many_features(rank, size, noise):
    rng = np.random.default_rng(0)
    clean = rng.standard_normal((1500, rank)) @ np.linalg.qr(rng.standard_normal((400, rank)))[0].T
    wrong = rng.random(clean.shape) < 0.3
    X = clean + np.where(wrong, rng.uniform(-size, size, clean.shape), 0.0)
    X += noise * rng.standard_normal(clean.shape)
    parts = MaxNormDecomposition(rank, **EVERYDAY).partial_fit(X).decompose(X)
    assert np.linalg.norm(parts.low_rank - clean) < 0.12 * np.linalg.norm(clean)
    assert np.mean(parts.noise[~wrong] != 0) < 0.01


@pytest.mark.parametrize("seed", [0, 2])
def test_spare_components_do_not_learn_gross_errors_in_one_pass(seed):
    rng = np.random.default_rng(seed)
    clean = rng.standard_normal((4000, 5)) @ rng.standard_normal((5, 50))
    X = clean + 0.05 * clean.std() * rng.standard_normal(clean.shape)
    X = np.where(rng.random(X.shape) < 0.1, rng.uniform(-50.0, 50.0, X.shape), X)
    model = MaxNormDecomposition(25, **EVERYDAY)
    for start in range(0, len(X), 1000):
        model.partial_fit(X[start : start + 1000])
    assert error(model.decompose(X).low_rank, clean) < 0.025
