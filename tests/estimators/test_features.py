"""Features of rows and columns: what else is known of them, for those with few entries or none."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import maxnorm
from maxnorm import MaxNormCompletion, Recommender
from maxnorm.core.batch import Batch
from maxnorm.ratings import Ratings

N_ROWS, N_COLUMNS, COLD_ROWS, COLD_COLUMNS = 300, 120, 40, 20


@pytest.fixture(scope="module")
def problem():
    """Return ratings with rows and columns that have none, the truth, and features of both."""
    rng = np.random.default_rng(0)
    of_rows, of_columns = rng.standard_normal((N_ROWS, 4)), rng.standard_normal((N_COLUMNS, 3))
    U = of_rows @ rng.standard_normal((4, 3)) / 2 + 0.3 * rng.standard_normal((N_ROWS, 3))
    V = of_columns @ rng.standard_normal((3, 3)) / 2 + 0.3 * rng.standard_normal((N_COLUMNS, 3))
    truth = 3.0 + U @ V.T
    seen = rng.random(truth.shape) < 0.1
    seen[:COLD_ROWS] = seen[:, :COLD_COLUMNS] = False
    X = np.where(seen, truth + 0.3 * rng.standard_normal(truth.shape), np.nan)
    # Features in other units, of which some are not known, are as good.
    of_rows = 1000.0 + 50.0 * of_rows
    of_rows[rng.random(of_rows.shape) < 0.02] = np.nan
    return X, truth, of_rows, of_columns


def error(predicted, truth, rows, columns):
    return float(np.sqrt(np.mean((predicted - truth)[rows, columns] ** 2)))


@pytest.mark.filterwarnings("ignore:nothing is observed in")
def test_rows_and_columns_without_entries_are_predicted_from_their_features(problem):
    X, truth, of_rows, of_columns = problem
    plain = MaxNormCompletion(random_state=0).fit(X).predict_entries(X)
    model = MaxNormCompletion(random_state=0).fit(X, row_features=of_rows, column_features=of_columns)
    told = model.predict_entries(X, row_features=of_rows)
    warm = slice(COLD_ROWS, None), slice(COLD_COLUMNS, None)
    cold_rows = slice(0, COLD_ROWS), slice(COLD_COLUMNS, None)
    cold_columns = slice(COLD_ROWS, None), slice(0, COLD_COLUMNS)
    assert error(told, truth, *warm) < 0.8 * error(plain, truth, *warm)
    assert error(told, truth, *cold_rows) < 0.7 * error(plain, truth, *cold_rows)
    assert error(told, truth, *cold_columns) < 0.7 * error(plain, truth, *cold_columns)
    unknown = model.predict_entries(X)[:COLD_ROWS]
    np.testing.assert_allclose(unknown, np.broadcast_to(unknown[0], unknown.shape))
    filled = model.transform(X, row_features=of_rows)
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    np.testing.assert_allclose(filled[np.isnan(X)], told[np.isnan(X)])


@pytest.mark.filterwarnings("ignore:nothing is observed in")
def test_dense_sparse_and_streamed_rows_with_features_give_the_same_model(problem, tmp_path):
    X, _, of_rows, _ = problem
    rows, columns = np.nonzero(~np.isnan(X))
    sparse = csr_array((X[rows, columns], (rows, columns)), shape=X.shape)
    dense = MaxNormCompletion(random_state=0, n_epochs=1).fit(X, row_features=of_rows)
    other = MaxNormCompletion(random_state=0, n_epochs=1).fit(sparse, row_features=of_rows)
    np.testing.assert_array_equal(dense.components_, other.components_)
    pieces = MaxNormCompletion(random_state=0)
    for part in np.array_split(np.arange(N_ROWS), 7):
        pieces.partial_fit(X[part], row_features=of_rows[part])
        pieces.save(tmp_path / "model.npz")
        pieces = maxnorm.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(pieces.components_, dense.components_)
    np.testing.assert_array_equal(
        pieces.recommend(sparse[:50], 3, row_features=of_rows[:50]).columns,
        dense.recommend(sparse[:50], 3, row_features=of_rows[:50]).columns,
    )


@pytest.mark.filterwarnings("ignore:nothing is observed in")
def test_features_that_do_not_fit_are_refused(problem):
    X, _, of_rows, of_columns = problem
    model = MaxNormCompletion(random_state=0)
    with pytest.raises(ValueError, match="row_features has 10 rows, but X has 300"):
        model.fit(X, row_features=of_rows[:10])
    with pytest.raises(ValueError, match="column_features has 5 rows, but X has 120 columns"):
        model.fit(X, column_features=of_columns[:5])
    with pytest.raises(ValueError, match="row_features needs X to be an array"):
        model.fit(maxnorm.open_stream(X), row_features=of_rows)
    for method in (MaxNormCompletion(3, norm="max").fit, MaxNormCompletion(3, norm="max").partial_fit):
        with pytest.raises(ValueError, match="need norm='auto'"):
            method(X, row_features=of_rows)
    model.fit(X, row_features=of_rows)
    with pytest.raises(ValueError, match="row_features has 3 columns, but the model has learnt from 4"):
        model.predict_entries(X, row_features=of_rows[:, :3])
    with pytest.raises(ValueError, match="but the model has learnt from 4"):
        model.partial_fit(X, row_features=of_rows[:, :3])


def test_more_rows_have_the_features_of_those_that_wait(problem):
    X, _, of_rows, _ = problem
    model = MaxNormCompletion(random_state=0).partial_fit(X[40:45], row_features=of_rows[40:45])
    with pytest.raises(ValueError, match="row_features has 2 columns, but the model has learnt from 4"):
        model.partial_fit(X[45:50], row_features=of_rows[45:50, :2])
    assert model.partial_fit(X[45:50]).transform(X[:3], row_features=of_rows[:3]).shape == (3, N_COLUMNS)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros(300), r"row_features has the shape \(300,\); pass a table with one column for each"),
        (np.zeros((300, 0)), "row_features has no columns"),
        (np.full((300, 1), np.inf), "row_features has infinite entries"),
        (pd.DataFrame({"town": ["Rome"] * 300}), "row_features must be numeric: .*encode or drop"),
        (pd.DataFrame({"born": pd.to_datetime(["1990"] * 300)}), "row_features must be numeric.*'born'"),
    ],
)
def test_features_that_are_no_table_of_numbers_are_refused(features, message, problem):
    X = problem[0][:, COLD_COLUMNS:]
    with pytest.raises(ValueError, match=message):
        MaxNormCompletion().fit(X, row_features=features)


@pytest.mark.parametrize("value", [0.1, 1e9 / 3])
def test_a_feature_that_was_constant_does_no_harm_if_it_changes(value, problem):
    X = problem[0][:, COLD_COLUMNS:]
    constant = np.full((N_ROWS, 1), value)
    model = MaxNormCompletion(random_state=0).fit(X, row_features=constant)
    changed = model.predict_entries(X, row_features=1.01 * constant)
    np.testing.assert_allclose(changed, model.predict_entries(X, row_features=constant), rtol=1e-6)


@pytest.mark.filterwarnings("error")
def test_columns_without_entries_are_no_surprise_if_they_have_features(problem):
    X, _, _, of_columns = problem
    MaxNormCompletion(random_state=0).fit(X, column_features=of_columns)


def test_frames_of_features_in_another_order_are_refused(problem):
    X, _, of_rows, of_columns = problem
    X = pd.DataFrame(X, [f"row {i}" for i in range(N_ROWS)], [f"column {j}" for j in range(N_COLUMNS)])
    people, things = pd.DataFrame(of_rows, X.index), pd.DataFrame(of_columns, X.columns)
    model = MaxNormCompletion(random_state=0)
    with pytest.raises(ValueError, match=r"pass row_features\.loc\[X\.index\]"):
        model.fit(X, row_features=people[::-1], column_features=things)
    with pytest.raises(ValueError, match=r"pass column_features\.loc\[X\.columns\]"):
        model.fit(X, row_features=people, column_features=things[::-1])
    model.fit(X, row_features=people, column_features=things)
    with pytest.raises(ValueError, match=r"pass row_features\.loc\[X\.index\]"):
        model.transform(X, row_features=people[::-1])


def test_masked_features_are_unknown(problem):
    X, _, of_rows, _ = problem
    masked = np.ma.masked_array(np.nan_to_num(of_rows, nan=1e9), np.isnan(of_rows))
    X = X[:, COLD_COLUMNS:]
    told, other = (MaxNormCompletion(random_state=0).fit(X, row_features=some) for some in (of_rows, masked))
    np.testing.assert_array_equal(told.components_, other.components_)


def test_batches_keep_their_features():
    X, F = np.arange(6.0).reshape(3, 2), np.arange(3.0)[:, None]
    batch = Batch(X, features=F)
    np.testing.assert_array_equal(batch[1:].features, F[1:])
    np.testing.assert_array_equal(batch.copy().astype(np.dtype(np.float32)).features, F)
    joined = Batch.join([batch, Batch(X)]).features
    np.testing.assert_array_equal(joined, np.vstack([F, np.full((3, 1), np.nan)]))


def test_a_recommender_predicts_new_users_and_items_from_their_features(problem, tmp_path):
    X, truth, of_rows, of_columns = problem
    rows, columns = np.nonzero(~np.isnan(X))
    frame = pd.DataFrame(
        {"user": rows + 1000, "item": [f"i{j}" for j in columns], "rating": X[rows, columns]}
    )
    people = pd.DataFrame(of_rows, index=np.arange(N_ROWS) + 1000)
    people["town"] = np.where(np.arange(N_ROWS) % 2, "Rome", "Bonn")
    things = pd.DataFrame(of_columns, index=[f"i{j}" for j in range(N_COLUMNS)])
    model = Recommender(random_state=0).fit(frame, user_features=people, item_features=things)
    model.save(tmp_path / "model.npz")
    model = maxnorm.load(tmp_path / "model.npz")
    everyone = np.repeat(np.arange(N_ROWS), N_COLUMNS), np.tile(np.arange(N_COLUMNS), N_ROWS)
    names = everyone[0] + 1000, [f"i{j}" for j in everyone[1]]
    told = model.predict(*names).reshape(truth.shape)
    plain = Recommender(random_state=0).fit(frame).predict(*names).reshape(truth.shape)
    for cold in (np.s_[:COLD_ROWS, COLD_COLUMNS:], np.s_[COLD_ROWS:, :COLD_COLUMNS]):
        assert error(told, truth, *cold) < 0.8 * error(plain, truth, *cold)
    best = model.recommend([1000, 1001, "nobody"], k=3)
    assert best.items.shape == (3, 3)
    assert np.isfinite(model.predict(["nobody", 1000], ["i70", "nothing"])).all()


INDEX = ["a", "b"]


@pytest.mark.parametrize(
    ("features", "kind", "message"),
    [
        (np.zeros((2, 2)), TypeError, "user_features is of type ndarray; pass a pandas data frame"),
        (pd.DataFrame({"age": [1, 2]}, index=["a", "a"]), ValueError, "has the name 'a' more than once"),
        (pd.DataFrame(index=INDEX), ValueError, "user_features has no columns"),
        (pd.DataFrame({"age": [1, 2]}), ValueError, "has none of the names in the ratings, such as 'a'"),
        (pd.DataFrame({"age": [1, np.inf]}, index=INDEX), ValueError, "'age' of user_features has infinite"),
        (
            pd.DataFrame({"born": pd.to_datetime(["1990-01-01", None])}, index=INDEX),
            ValueError,
            "'born' of user_features has the type datetime64",
        ),
    ],
)
def test_wrong_features_of_users_are_refused(features, kind, message):
    ratings = (["a", "b"], ["x", "y"], [1, 2])
    with pytest.raises(kind, match=message):
        Recommender().fit(ratings, user_features=features)


def test_a_feature_with_a_different_text_in_every_row_is_refused(monkeypatch):
    monkeypatch.setattr("maxnorm.ratings.MOST_CATEGORIES", 1)
    names = pd.DataFrame({"name": ["Ann", "Bob"]}, index=INDEX)
    with pytest.raises(ValueError, match="'name' of user_features has 2 different texts; leave it out"):
        Ratings.of(INDEX, ["x", "y"], [1, 2]).with_features(names)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (["Rome", None, "Bonn"], [[0, 1], [np.nan, np.nan], [1, 0]]),
        (pd.array(["Rome", None, "Bonn"], dtype="string"), [[0, 1], [np.nan, np.nan], [1, 0]]),
        (pd.Categorical(["Rome", None, "Bonn"]), [[0, 1], [np.nan, np.nan], [1, 0]]),
        (pd.array([3, None, 4], dtype="Int64"), [[3], [np.nan], [4]]),
        (np.array([3, pd.NA, 4], dtype=object), [[3], [np.nan], [4]]),
        ([True, False, True], [[1], [0], [1]]),
        (np.array([True, None, False], dtype=object), [[1], [np.nan], [0]]),
    ],
)
def test_missing_values_of_texts_and_numbers_are_not_known(column, expected):
    people = pd.DataFrame({"feature": column}, index=["a", "b", "c"])
    ratings = Ratings.of(["a", "b", "c"], ["x", "y", "x"], [1, 2, 3]).with_features(people)
    np.testing.assert_array_equal(ratings.user_features, expected)


def test_names_of_features_may_be_texts_if_those_of_ratings_are_numbers():
    people = pd.DataFrame({"age": [30, 40, 50, 60]}, index=["new", 10, 9, 2])
    ratings = Ratings.of([2, 9, 10], ["x", "y", "z"], [1, 2, 3]).with_features(people)
    assert ratings.users.tolist() == ["10", "2", "9", "new"]
    np.testing.assert_array_equal(ratings.user_features[:, 0], [40, 60, 50, 30])
    np.testing.assert_array_equal(ratings.matrix.toarray(), [[0, 0, 3], [1, 0, 0], [0, 2, 0], [0, 0, 0]])


def test_features_of_items_leave_those_of_users_as_they_are():
    people, things = (pd.DataFrame({"feature": [1, 2]}, index=index) for index in (INDEX, ["x", "y"]))
    ratings = Ratings.of(INDEX, ["x", "y"], [1, 2]).with_features(people).with_features(of_items=things)
    np.testing.assert_array_equal(ratings.user_features, [[1], [2]])
    np.testing.assert_array_equal(ratings.item_features, [[1], [2]])
