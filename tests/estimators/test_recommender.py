"""Ratings in long form: names of users and items, predictions, and what is recommended."""

import numpy as np
import pandas as pd
import pytest

import maxnorm
from maxnorm import Recommender
from maxnorm.ratings import LongTable, Ratings, is_long_form, read_ratings
from maxnorm.streams import StreamError


@pytest.fixture(scope="module")
def frame():
    """Ratings of 40 films by 150 people with two tastes, who mostly watch what they like."""
    rng = np.random.default_rng(0)
    taste, kind = rng.integers(0, 2, 150), np.arange(40) % 2
    likes = taste[:, None] == kind
    seen = rng.random(likes.shape) < np.where(likes, 0.5, 0.1)
    stars = np.clip(np.rint(2.5 + 1.5 * likes + 0.7 * rng.standard_normal(likes.shape)), 1, 5)
    users, items = np.nonzero(seen)
    names = np.array([f"film {j}" for j in range(40)])
    return pd.DataFrame(
        {"time": np.arange(len(users)), "movie": names[items], "user_id": users, "stars": stars[users, items]}
    ).sample(frac=1.0, random_state=0), taste


@pytest.fixture(scope="module")
def model(frame):
    return Recommender(random_state=0).fit(frame[0])


def test_people_get_films_of_their_taste_that_they_have_not_seen(frame, model):
    ratings, taste = frame
    best = model.recommend(k=5)
    assert best.users.tolist() == list(range(150))
    seen = set(zip(ratings["user_id"], ratings["movie"], strict=True))
    hits = []
    for user, items in zip(best.users, best.items, strict=True):
        assert not {(user, item) for item in items} & seen
        hits += [int(item.split()[1]) % 2 == taste[user] for item in items]
    assert np.mean(hits) > 0.9
    assert ((best.ratings >= 1) & (best.ratings <= 5)).all()


def test_predictions_of_liked_films_are_higher(frame, model):
    _, taste = frame
    users = np.repeat(np.arange(20), 2)
    items = ["film 0", "film 1"] * 20
    values, deviations = model.predict(users, items, return_std=True)
    liked = taste[users] == np.arange(40) % 2
    assert values[liked].min() > values[~liked].max()
    assert (deviations > 0.2).all()
    assert (deviations < 2.0).all()


def test_users_and_items_that_were_never_seen_have_usual_ratings(frame, model):
    stars = frame[0]["stars"]
    values = model.predict(["nobody", 3, "nobody"], ["film 7", "no film", "no film"])
    assert (abs(values - stars.mean()) < 1.2).all()
    best = model.recommend("nobody", k=3)
    assert best.items.shape == (1, 3)
    with pytest.raises(ValueError, match="the item 'no film' was never rated"):
        model.similar_items("no film")


def test_similar_items_are_of_the_same_kind(model):
    similar = model.similar_items(["film 0", "film 1"], k=5)
    for given, items in zip(similar.users, similar.items, strict=True):
        assert all(int(item.split()[1]) % 2 == int(given.split()[1]) % 2 for item in items)


def test_a_recommender_survives(frame, model, tmp_path):
    model.save(tmp_path / "m.maxnorm")
    again = maxnorm.load(tmp_path / "m.maxnorm")
    np.testing.assert_array_equal(again.recommend(k=4).items, model.recommend(k=4).items)
    assert again.ratings_.items.tolist() == model.ratings_.items.tolist()


def test_all_forms_of_ratings_give_the_same_model(frame, tmp_path):
    ratings = frame[0]
    columns = tuple(ratings[name].to_numpy() for name in ("user_id", "movie", "stars"))
    ratings.to_csv(tmp_path / "r.csv", index=False)
    ratings.to_parquet(tmp_path / "r.parquet")
    forms = (ratings, columns, Ratings.of(*columns), tmp_path / "r.csv", str(tmp_path / "r.parquet"))
    found = [Recommender(random_state=0).fit(form).predict([3, 4], ["film 5", "film 6"]) for form in forms]
    for values in found[1:]:
        np.testing.assert_allclose(values, found[0])


def test_repeated_ratings_are_averaged_and_missing_ones_left_out():
    ratings = Ratings.of([1, 1, 2, 2], ["a", "a", "a", "b"], [2, 4, 5, np.nan])
    assert ratings.matrix.toarray().tolist() == [[3.0, 0.0], [5.0, 0.0]]
    assert ratings.items.tolist() == ["a", "b"]


def test_one_rating_and_equal_ratings_are_predicted():
    one = Recommender(random_state=0).fit((["a"], ["x"], [4]))
    assert one.predict(["a", "b"], ["x", "x"]) == pytest.approx([4.0, 4.0], abs=1e-6)
    equal = Recommender(random_state=0).fit((list("aabb"), list("xyxy"), [3, 3, 3, 3]))
    assert equal.predict(["a"], ["y"]) == pytest.approx([3.0], abs=1e-6)


def test_columns_are_recognised_by_name_or_place(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("rating,film_id,customer\n4,7,ann\n,7,bob\n5,8,bob\n")
    table = read_ratings(path)
    assert isinstance(table, LongTable)
    assert table.names == ("customer", "film_id", "rating")
    assert table.users == ["ann", "bob", "bob"]
    assert np.isnan(table.values[1])
    path.write_text("1::10::4::978300760\n2::10::5::978300761\n".replace("::", ";"))
    assert read_ratings(path).ratings.matrix.toarray().tolist() == [[4.0], [5.0]]
    path.write_text("a,b,c\nx,y,3\n")
    assert read_ratings(path, user="b", item="a", rating="c").users == ["y"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,item\n1,2\n", "has 2 columns"),
        ("user,item,rating\n1,2,good\n", "the rating 'good' in row 1 is not a number"),
        ("user,item,rating\n1,2,3\n1,2\n", "line 3: has 2 cells"),
        ("user,item,rating\n", "has no ratings"),
    ],
)
def test_files_that_are_no_ratings_are_refused(text, message, tmp_path):
    path = tmp_path / "r.csv"
    path.write_text(text)
    with pytest.raises(StreamError, match=message):
        read_ratings(path)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.ones((3, 3)), TypeError, "X is a ndarray"),
        (([1], [2, 3], [4]), ValueError, "must have the same length, got 1, 2 and 1"),
        (([1], [2], [np.nan]), ValueError, "X has no ratings"),
        (([1], [2], [np.inf]), ValueError, "a rating is infinite"),
    ],
)
def test_wrong_ratings_are_refused(X, error, message):
    with pytest.raises(error, match=message):
        Recommender().fit(X)


def test_long_form_is_told_from_a_table(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "data.csv"
    np.savetxt(path, rng.standard_normal((200, 4)), delimiter=",")
    assert not is_long_form(path)
    path.write_text("time,temperature,pressure\n" + "1,20.5,1013\n" * 30)
    assert not is_long_form(path)
    pairs = rng.permutation(900)[:300]
    lines = [f"{pair // 30},{pair % 30},{rng.integers(1, 6)}" for pair in pairs]
    path.write_text("\n".join(lines) + "\n")
    assert is_long_form(path)
    path.write_text("user,item,rating\nann,x,3\n")
    assert is_long_form(path)
    assert not is_long_form(tmp_path / "missing.csv")
