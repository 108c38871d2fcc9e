"""The command ``maxnorm recommend``, and ratings in long form for ``maxnorm complete``."""

import csv
import json

import numpy as np
import pytest

from commands import run, run_successfully


@pytest.fixture
def folder(tmp_path):
    """A folder with the file ratings.csv, of 60 users and 30 items."""
    rng = np.random.default_rng(0)
    taste = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 30))
    users, items = np.nonzero(rng.random(taste.shape) < 0.4)
    stars = np.clip(np.rint(3 + taste[users, items]), 1, 5)
    lines = [f"u{i},{j},{star:g}" for i, j, star in zip(users, items, stars, strict=True)]
    (tmp_path / "ratings.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    lines[5] = lines[5].rpartition(",")[0] + ","
    (tmp_path / "gaps.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    return tmp_path


def test_recommend_lists_items_for_users(folder):
    result = run_successfully("recommend", "ratings.csv", "--user", "u3", "-k", "4", folder=folder)
    assert "users are in column 'user', items in 'item', ratings in 'rating'" in result.stderr
    assert result.stdout.startswith("u3\n")
    assert result.stdout.count("predicted rating") == 4


def test_a_saved_model_gives_the_same_list(folder):
    arguments = ("--user", "u3", "--user", "stranger", "-k", "3", "--json")
    first = run_successfully("recommend", "ratings.csv", "--model", "m.maxnorm", *arguments, folder=folder)
    again = run_successfully("recommend", "--use", "m.maxnorm", *arguments, folder=folder)
    assert first.stdout == again.stdout
    assert "user 'stranger' has rated nothing" in again.stderr
    found = json.loads(again.stdout)["recommended"]
    assert [entry["for"] for entry in found] == ["u3", "stranger"]
    assert [len(entry["items"]) for entry in found] == [3, 3]
    similar = run_successfully(
        "recommend", "--use", "m.maxnorm", "--similar-to", "7", "-k", "2", folder=folder
    )
    assert similar.stdout.count("similarity") == 2


def test_a_list_of_all_users_is_written(folder):
    run_successfully("recommend", "ratings.csv", "-k", "2", "-o", "all.csv", folder=folder)
    with (folder / "all.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["user", "item", "value"]
    assert len(rows) == 1 + 2 * 60
    refused = run("recommend", "ratings.csv", "-o", "all.csv", folder=folder)
    assert refused.returncode != 0
    assert "already exists" in refused.stderr


def test_complete_predicts_missing_ratings_of_long_form(folder):
    result = run_successfully("complete", "gaps.csv", "-o", "filled.csv", folder=folder)
    assert "has one rating in each row" in result.stderr
    with (folder / "filled.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert 1.0 <= float(rows[6][2]) <= 5.0
    refused = run("complete", "ratings.csv", "-o", "other.csv", folder=folder)
    assert refused.returncode == 1
    assert "use `maxnorm recommend`" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ratings.csv",), "give --user"),
        (("--user", "u3"), "give either a file of RATINGS or a saved model"),
        (("ratings.csv", "--user", "u3", "--item-column", "film"), "has no column 'film' of the item"),
    ],
)
def test_wrong_usage_is_explained(arguments, message, folder):
    result = run("recommend", *arguments, folder=folder)
    assert result.returncode in (1, 2)
    assert message in result.stderr
