"""The estimator for ratings in long form, which speaks of users and items by their names."""

from __future__ import annotations

import os
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from maxnorm.core.types import AnyArray, Array
from maxnorm.estimators._base import RandomState, SavedMixin
from maxnorm.estimators.completion import MaxNormCompletion
from maxnorm.estimators.reporting import ReportMixin
from maxnorm.ratings import LongTable, Ratings, find_columns, read_ratings


class RecommendedItems(NamedTuple):
    """The best items of each user, best first.

    It is a named tuple, so that its parts can be unpacked or read by name.

    Attributes
    ----------
    users : ndarray of shape (n,)
        The users, as they were asked for.
    items : ndarray of shape (n, k)
        The items; None where a user has fewer left.
    ratings : ndarray of shape (n, k)
        The predicted ratings; NaN where a user has fewer items left.

    See Also
    --------
    Recommender.recommend : Returns such a tuple.

    Examples
    --------
    >>> from maxnorm import Recommender
    >>> model = Recommender(random_state=0).fit((["a", "a", "b"], ["x", "y", "x"], [5, 1, 4]))
    >>> model.recommend("b", k=1).items.tolist()
    [['y']]
    """

    users: AnyArray
    items: AnyArray
    ratings: Array


class Recommender(SavedMixin, ReportMixin, BaseEstimator):  # type: ignore[misc]
    """Recommendations from ratings in long form: who has rated what, and how.

    The ratings are learnt by :class:`MaxNormCompletion`. Users and items have any names. Users and items
    without ratings are predicted from their features, if these are given to ``fit``, and otherwise by the
    usual ratings, never by zero.

    Parameters
    ----------
    random_state : int, RandomState or None, default=None
        Seed of the random start. Pass an int for results that can be repeated.

    Attributes
    ----------
    model_ : MaxNormCompletion
        The model of the matrix of users and items.
    ratings_ : maxnorm.ratings.Ratings
        The ratings that were learnt from, with the names of users and items.

    See Also
    --------
    MaxNormCompletion : The same for a matrix, whose rows and columns have no names.
    maxnorm.ratings.read_ratings : Reads ratings from a file.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm import Recommender
    >>> rng = np.random.default_rng(0)
    >>> taste = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40))
    >>> users, items = np.nonzero(rng.random(taste.shape) < 0.4)
    >>> stars = np.clip(np.rint(3 + taste[users, items]), 1, 5)
    >>> model = Recommender(random_state=0).fit((users, items, stars))
    >>> model.recommend([3, 17], k=5).items.shape
    (2, 5)
    >>> rating, deviation = model.predict([3], [8], return_std=True)
    """

    def __init__(self, *, random_state: RandomState = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: object = None, *, user_features: Any = None, item_features: Any = None) -> Self:
        """Learn from ratings.

        Parameters
        ----------
        X : data frame, path, tuple of three arrays, or Ratings
            A frame with columns of users, items and ratings, which are recognised by their names or are the
            first three; the path of a file of such a table; or the three columns.
        y : object, default=None
            Ignored; present for compatibility with scikit-learn.
        user_features : data frame, default=None
            Features of users, such as their age, with their names in the index. Each text in a column of
            texts is a category. Missing values are allowed. The frame may have users who have not rated
            anything; their ratings are predicted from their features.
        item_features : data frame, default=None
            Features of items, such as the genres of films, in the same form.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        ratings = _ratings_of(X)
        if user_features is not None or item_features is not None:
            ratings = ratings.with_features(user_features, item_features)
        if not ratings.matrix.nnz:
            raise ValueError("X has no ratings; pass at least one that is not missing")
        stars = ratings.matrix.data
        low, high = float(stars.min()), float(stars.max())
        model = MaxNormCompletion(
            biases=True, value_range=(low, high) if low < high else None, random_state=self.random_state
        )
        self.model_ = model.fit(
            ratings.matrix, row_features=ratings.user_features, column_features=ratings.item_features
        )
        self.ratings_ = ratings
        return self

    def predict(self, users: ArrayLike, items: ArrayLike, *, return_std: bool = False) -> Any:
        """Return the predicted ratings of items by users.

        Parameters
        ----------
        users : array-like of shape (n,)
            The users.
        items : array-like of shape (n,)
            The items, one for each user.
        return_std : bool, default=False
            Whether to return the standard deviations of the true ratings about the predictions as well.

        Returns
        -------
        ratings : ndarray of shape (n,)
            The predictions. A user or an item that was never seen has the usual ratings.
        deviations : ndarray of shape (n,)
            The standard deviations, if they are asked for.
        """
        check_is_fitted(self)
        known = self.ratings_
        rows, columns = known.find(users, among=known.users), known.find(items, among=known.items)
        if rows.shape != columns.shape:
            raise ValueError(f"users and items must have the same length, got {len(rows)} and {len(columns)}")
        values, deviations = np.empty(len(rows)), np.empty(len(rows))
        seen = columns >= 0
        wider, features = _with_empty_row(known)
        rows = np.where(rows >= 0, rows, len(known.users))
        values[seen], deviations[seen] = self.model_.predict_entries(
            wider, rows[seen], columns[seen], return_std=True, row_features=features
        )
        if not seen.all():
            others = rows[~seen]
            everything, spread = self.model_.predict_entries(
                wider[others], return_std=True, row_features=None if features is None else features[others]
            )
            share = np.bincount(known.matrix.indices, minlength=len(known.items)) / known.matrix.nnz
            values[~seen] = everything @ share  # the mean over the items of all ratings
            squares = (everything - values[~seen, None]) ** 2
            deviations[~seen] = np.sqrt((spread**2 + squares) @ share)
        return (values, deviations) if return_std else values

    def recommend(
        self, users: ArrayLike | None = None, k: int = 10, *, rank: Literal["auto", "value"] = "auto"
    ) -> RecommendedItems:
        """Return the best items of users, of those that they have not rated.

        Parameters
        ----------
        users : array-like of shape (n,) or a single user, default=None
            The users; None means all. A user who was never seen gets what is popular and liked.
        k : int, default=10
            Number of items per user.
        rank : {"auto", "value"}, default="auto"
            What is best: items that are most likely wanted *and* liked, or those with the highest predicted
            ratings, many of which hardly anybody knows.

        Returns
        -------
        best : RecommendedItems
            A named tuple of ``users``, ``items`` and predicted ``ratings``.
        """
        check_is_fitted(self)
        known = self.ratings_
        asked = known.users if users is None else np.atleast_1d(np.asarray(users))
        rows = known.find(asked, among=known.users)
        wider, features = _with_empty_row(known)
        rows = np.where(rows >= 0, rows, len(known.users))
        found = self.model_.recommend(
            wider[rows], k, rank=rank, row_features=None if features is None else features[rows]
        )
        items: AnyArray = known.items.astype(object)[found.columns]
        items[found.columns < 0] = None
        return RecommendedItems(asked, items, found.values)

    def similar_items(self, items: ArrayLike, k: int = 10) -> RecommendedItems:
        """Return the items that are most like given ones.

        Parameters
        ----------
        items : array-like of shape (n,) or a single item
            The given items.
        k : int, default=10
            Number of similar items for each.

        Returns
        -------
        similar : RecommendedItems
            A named tuple whose ``users`` are the given items; its ``ratings`` are similarities from -1 to 1.
        """
        check_is_fitted(self)
        asked = np.atleast_1d(np.asarray(items))
        columns = self.ratings_.find(asked, among=self.ratings_.items)
        if (columns < 0).any():
            stranger = asked[columns < 0].tolist()[0]
            raise ValueError(f"the item {stranger!r} was never rated; ask for one that was")
        found = self.model_.similar_columns(columns, k)
        return RecommendedItems(asked, self.ratings_.items[found.columns], found.values)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")


def _ratings_of(X: Any) -> Ratings:
    """Return ratings, whatever form they are given in."""
    if isinstance(X, Ratings):
        return X
    if isinstance(X, LongTable):
        return X.ratings
    if isinstance(X, str | os.PathLike):
        return read_ratings(X).ratings
    if isinstance(X, tuple | list) and len(X) == 3:
        return Ratings.of(*X)
    if hasattr(X, "columns"):
        names = [str(name) for name in X.columns]
        places = find_columns(names, dict.fromkeys(("user", "item", "rating")), "X")
        return Ratings.of(*(np.asarray(X[X.columns[place]]) for place in places))
    raise TypeError(
        f"X is a {type(X).__name__}; pass a data frame with columns of users, items and ratings, the path of "
        "a file, or a tuple of three arrays. For a matrix use MaxNormCompletion"
    )


def _with_empty_row(known: Ratings) -> tuple[csr_array, Array | None]:
    """Return ratings and features of users with one row more, for a user of whom nothing is known."""
    matrix, features = known.matrix, known.user_features
    n, p = matrix.shape
    indptr = np.append(matrix.indptr, matrix.indptr[-1])
    wider = csr_array((matrix.data, matrix.indices, indptr), shape=(n + 1, p))
    return wider, None if features is None else np.vstack([features, np.full(features.shape[1], np.nan)])
