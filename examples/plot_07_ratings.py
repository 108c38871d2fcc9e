"""
Ratings of films
================

You have a list of ratings, one in each row, with the names of users and films. What would users think of
films that they have not rated, how sure is that, and what should be recommended to them?
"""

# %%
# The ratings
# -----------
# The ratings are generated like those of a film club: 600 members, 120 films of four genres, whole stars
# from one to five, and everybody watches mostly the genres that they like. A fifth of the ratings is
# hidden.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from maxnorm import Recommender

rng = np.random.default_rng(0)
genres = ["comedy", "crime", "sci-fi", "western"]
films = np.array([f"{genre} {number:02d}" for genre in genres for number in range(1, 31)])
genre_of = np.repeat(np.arange(4), 30)

taste = rng.normal(0.0, 0.9, (600, 4))  # how much each member likes each genre
quality = rng.normal(0.0, 0.5, 120)
mood = rng.normal(3.4, 0.4, 600)
liking = mood[:, None] + taste[:, genre_of] + quality + rng.normal(0.0, 0.6, (600, 120))
watched = rng.random(liking.shape) < 0.13 * np.exp(0.5 * (taste[:, genre_of] + quality))
member, film = np.nonzero(watched)
ratings = pd.DataFrame(
    {
        "user": [f"member {i:03d}" for i in member],
        "film": films[film],
        "rating": np.clip(np.rint(liking[member, film]), 1, 5),
    }
)
hidden = rng.random(len(ratings)) < 0.2
train, test = ratings[~hidden], ratings[hidden]
print(train.head(3).to_string(index=False))
print(f"{len(train)} ratings to learn from, {len(test)} to predict")

# %%
# Predict hidden ratings
# ----------------------
# A frame with columns of users, items and ratings is all that is needed. The simple alternative is the mean
# of the film, corrected by how generous the user is.

recommender = Recommender(random_state=0).fit(train)
predicted, deviation = recommender.predict(test["user"], test["film"], return_std=True)

mean = train["rating"].mean()
of_film = train.groupby("film")["rating"].mean() - mean
of_user = (train["rating"] - train["film"].map(of_film)).groupby(train["user"]).mean()
simple = test["film"].map(of_film).fillna(0.0) + test["user"].map(of_user).fillna(mean)


def rmse(values):
    """Return the root mean square error of predictions of the hidden ratings."""
    return np.sqrt(np.mean((np.asarray(values) - test["rating"]) ** 2))


print(f"root mean square error: {rmse(predicted):.3f} stars; film and user means: {rmse(simple):.3f} stars")

# %%
# Is the stated uncertainty right?
# --------------------------------
# Predictions are sorted into five groups by their stated standard deviation. The errors of each group
# should be as large as stated.

group = pd.qcut(deviation, 5, labels=False)
errors = (predicted - test["rating"]).to_numpy()
stated = [np.sqrt(np.mean(deviation[group == g] ** 2)) for g in range(5)]
actual = [np.sqrt(np.mean(errors[group == g] ** 2)) for g in range(5)]
inside = np.mean(np.abs(errors) < 2.0 * deviation)
for one, other in zip(stated, actual, strict=True):
    print(f"stated {one:.2f}, actual {other:.2f}")
print(f"within two standard deviations: {inside:.1%} of the hidden ratings")

# %%
# Recommend
# ---------
# Member 7 and somebody who is new: new members get what is popular and liked.

best = recommender.recommend(["member 007", "somebody new"], k=4)
for name, titles, stars in zip(best.users, best.items, best.ratings, strict=True):
    print(f"{name}:", ", ".join(f"{title} ({star:.1f})" for title, star in zip(titles, stars, strict=True)))
likes = ", ".join(f"{genre} {value:+.1f}" for genre, value in zip(genres, taste[7], strict=True))
print("true taste of member 007:", likes)

# %%
# Films that are like "western 05", and how often the five nearest films are of the same genre, which the
# model was not told:

print("like western 05:", ", ".join(recommender.similar_items("western 05", k=4).items[0]))
near = recommender.similar_items(films, k=5).items
same = np.mean(
    [[title.rsplit(" ", 1)[0] == genres[g] for title in row] for row, g in zip(near, genre_of, strict=True)]
)
print(f"of the same genre: {same:.0%} (by chance 24 %)")

# %%
similar = recommender.similar_items(films, k=119)
position = {title: i for i, title in enumerate(films)}
table = np.eye(120)
for i, (titles, values) in enumerate(zip(similar.items, similar.ratings, strict=True)):
    table[i, [position[title] for title in titles]] = values

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.1), layout="constrained", width_ratios=[1, 1.15])
limits = [0.95 * min(stated + actual), 1.05 * max(stated + actual)]
left.plot(limits, limits, color="0.7", zorder=0)
left.plot(stated, actual, "o-")
left.set(
    xlabel="stated standard deviation",
    ylabel="root mean square error",
    title="Hidden ratings",
    aspect="equal",
)
drawn = right.imshow(table, cmap="RdBu_r", vmin=-1.0, vmax=1.0)
right.set(title="Similarity of films", xticks=np.arange(15, 120, 30), yticks=np.arange(15, 120, 30))
right.set_xticklabels(genres)
right.set_yticklabels(genres, rotation=90, va="center")
right.tick_params(length=0)
fig.colorbar(drawn, ax=right, shrink=0.9)
plt.show()

# %%
# With your own ratings, pass a data frame or the path of a CSV or Parquet file to ``fit``. In a shell,
# ``maxnorm recommend ratings.csv --user 42`` does the same.
