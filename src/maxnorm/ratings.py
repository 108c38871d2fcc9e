"""Ratings in long form, one per line: who, what, and how much."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from maxnorm.core.types import AnyArray, Array, Index, Mask
from maxnorm.streams.stream import StreamError, needs
from maxnorm.streams.text_files import (
    BatchLimits,
    FileLines,
    TextLayout,
    explained,
    parse_number,
    read_first_lines,
    split_cells,
)

# Names by which columns are recognised; other files have the user, the item and the rating in this order.
NAMES = {
    "user": re.compile(r"user|customer|member|person|reader|viewer|reviewer|^uid$", re.IGNORECASE),
    "item": re.compile(
        r"item|movie|film|book|song|track|artist|product|title|isbn|asin|^iid$", re.IGNORECASE
    ),
    "rating": re.compile(r"rating|score|stars|grade|value|overall|preference", re.IGNORECASE),
}
ROLES = tuple(NAMES)
LINES = BatchLimits(lines=10_000)
COLUMNAR = (".parquet", ".feather", ".arrow")
FEW_COLUMNS = 5  # that a file in long form has at most, unless its columns are named
PROBED_ROWS = 2000  # from which it is judged whether a table is in long form
REPEATED = 0.8  # share of different users, and of different items, above which rows are no ratings
FEW_VALUES = 100  # different ratings, at most
MOST_CATEGORIES = 1000  # different texts of a feature; names and titles, which differ in every row, have more
WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings with the names of those who rate and of what is rated.

    Attributes
    ----------
    users : ndarray of shape (n_users,)
        Who rates, in increasing order.
    items : ndarray of shape (n_items,)
        What is rated, in increasing order.
    matrix : csr_array of shape (n_users, n_items)
        The ratings. Ratings of the same item by the same user are averaged.
    user_features : ndarray of shape (n_users, n_user_features) or None
        Features of the users; NaN marks unknown values.
    item_features : ndarray of shape (n_items, n_item_features) or None
        Features of the items; NaN marks unknown values.
    """

    users: AnyArray
    items: AnyArray
    matrix: csr_array
    user_features: Array | None = None
    item_features: Array | None = None

    @classmethod
    def of(cls, users: Any, items: Any, values: Any) -> Ratings:
        """Return ratings, given who has rated what and how; those that are NaN are left out.

        Parameters
        ----------
        users : array-like of shape (n,)
            Who has rated: numbers or texts.
        items : array-like of shape (n,)
            What was rated: numbers or texts.
        values : array-like of shape (n,)
            The ratings.

        Returns
        -------
        Ratings
            The ratings as a matrix, with the names of its rows and columns.

        See Also
        --------
        maxnorm.ratings.read_ratings : Reads ratings from a file.

        Examples
        --------
        >>> from maxnorm.ratings import Ratings
        >>> ratings = Ratings.of(["ann", "bob", "ann"], [7, 7, 9], [4, 5, 1])
        >>> ratings.users.tolist(), ratings.items.tolist(), ratings.matrix.nnz
        (['ann', 'bob'], [7, 9], 3)
        """
        stars = np.asarray(values, dtype=np.float64)
        who, what = _labels(users, "users"), _labels(items, "items")
        if not who.shape == what.shape == stars.shape:
            raise ValueError(
                f"users, items and ratings must have the same length, got {len(who)}, {len(what)} and "
                f"{len(stars)}"
            )
        if np.isinf(stars).any():
            raise ValueError("a rating is infinite; leave it out, or mark it as missing by NaN")
        row_labels, rows = np.unique(who, return_inverse=True)
        column_labels, columns = np.unique(what, return_inverse=True)
        there = ~np.isnan(stars)
        shape = (len(row_labels), len(column_labels))
        return cls(row_labels, column_labels, _averaged(stars[there], rows[there], columns[there], shape))

    def with_features(self, of_users: Any = None, of_items: Any = None) -> Ratings:
        """Return the ratings together with features of users and items.

        Users and items that have features but no ratings are added.

        Parameters
        ----------
        of_users : data frame, default=None
            Features of users, whose names are the index. Each text in a column of texts is a category, which
            becomes a feature. Missing values are allowed. None leaves the features of users unchanged.
        of_items : data frame, default=None
            Features of items, in the same form.

        Returns
        -------
        Ratings
            The ratings with features.

        See Also
        --------
        maxnorm.Recommender.fit : Learns from ratings and features.

        Examples
        --------
        >>> import pandas as pd
        >>> from maxnorm.ratings import Ratings
        >>> people = pd.DataFrame({"age": [30, 40], "town": ["Rome", "Bonn"]}, index=["ann", "eve"])
        >>> ratings = Ratings.of(["ann", "bob"], [7, 9], [4, 5]).with_features(people)
        >>> ratings.users.tolist(), ratings.user_features.shape
        (['ann', 'bob', 'eve'], (3, 3))
        """
        users, rows, user_features = self.users, np.arange(len(self.users)), self.user_features
        if of_users is not None:
            users, rows, user_features = _described(users, of_users, "user_features")
        items, columns, item_features = self.items, np.arange(len(self.items)), self.item_features
        if of_items is not None:
            items, columns, item_features = _described(items, of_items, "item_features")
        entries = self.matrix.tocoo()
        places = rows[entries.row], columns[entries.col]
        matrix = csr_array((entries.data, places), shape=(len(users), len(items)))
        return Ratings(users, items, matrix, user_features, item_features)

    def find(self, labels: Any, *, among: AnyArray) -> Index:
        """Return the positions of names among the users or the items; -1 for those that are unknown.

        Texts are compared with numbers as texts, because names from a command line are texts.
        """
        known = {str(label): position for position, label in enumerate(among.tolist())}
        return np.array(
            [known.get(str(label), -1) for label in np.atleast_1d(labels).tolist()], dtype=np.intp
        )


def _labels(labels: Any, name: str) -> AnyArray:
    """Return names as an array of integers or of texts."""
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got an array of shape {array.shape}")
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "f" and not np.isnan(array).any() and (array == np.rint(array)).all():
        return array.astype(np.int64)
    texts = [str(label) for label in array.tolist()]
    if all(WHOLE_NUMBER.fullmatch(text) for text in texts):
        return np.array(texts, dtype=np.int64)
    return np.array(texts, dtype=object)


def _described(labels: AnyArray, frame: Any, name: str) -> tuple[AnyArray, AnyArray, Array]:
    """Return all names, the positions of the given ones among them, and the features of all of them."""
    if not (hasattr(frame, "index") and hasattr(frame, "columns")):
        raise TypeError(
            f"{name} is of type {type(frame).__name__}; pass a pandas data frame whose index has the names"
        )
    if not len(frame.columns):
        raise ValueError(f"{name} has no columns; pass a data frame with at least one, or None")
    described = _labels(frame.index, f"the index of {name}")
    values, counts = np.unique(described, return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"the index of {name} has the name {values[counts > 1].tolist()[0]!r} more than once; pass one "
            "row for each name"
        )
    if described.dtype != labels.dtype:  # texts are compared with numbers as texts
        described, labels = (np.array([str(x) for x in some], dtype=object) for some in (described, labels))
    if not np.isin(described, labels).any():
        raise ValueError(
            f"the index of {name} has none of the names in the ratings, such as {labels.tolist()[0]!r}; use "
            "set_index to make the column of the names the index"
        )
    known = np.unique(np.concatenate([labels, described]))
    numbers = np.column_stack([_numbers_of(column, f"{key!r} of {name}") for key, column in frame.items()])
    features = np.full((len(known), numbers.shape[1]), np.nan)
    features[np.searchsorted(known, described)] = numbers
    return known, np.searchsorted(known, labels), features


def _numbers_of(column: Any, title: str) -> Array:
    """Return a column of numbers as it is, and a column of texts as one indicator for each text.

    Missing values are NaN in all columns that are returned.
    """
    if column.dtype.kind in "mMc":
        raise ValueError(
            f"the column {title} has the type {column.dtype}; convert it to real numbers, such as a year"
        )
    missing = np.asarray(column.isna(), dtype=bool)
    numbers, known = np.full(len(column), np.nan), np.asarray(column[~missing], dtype=object)
    try:
        numbers[~missing] = known.astype(np.float64)
    except (TypeError, ValueError):
        return _indicators(known, missing, title)
    if np.isinf(numbers).any():
        raise ValueError(f"the column {title} has infinite values; replace them by NaN or by finite numbers")
    return numbers[:, None]


def _indicators(known: AnyArray, missing: Mask, title: str) -> Array:
    """Return one column of zeros and ones for each text; ``known`` has those that are not missing."""
    texts = np.array([str(value) for value in known], dtype=object)
    categories = np.unique(texts)
    if len(categories) > MOST_CATEGORIES:
        raise ValueError(
            f"the column {title} has {len(categories):,} different texts; leave it out, or replace them by "
            f"at most {MOST_CATEGORIES:,} categories"
        )
    found = np.full((len(missing), len(categories)), np.nan)
    found[~missing] = texts[:, None] == categories
    return found


def _averaged(values: Array, rows: Index, columns: Index, shape: tuple[int, int]) -> csr_array:
    """Return a matrix in which entries that occur more than once are averaged."""
    totals = csr_array(coo_array((values, (rows, columns)), shape=shape))
    counts = csr_array(coo_array((np.ones(len(values)), (rows, columns)), shape=shape))
    totals.data /= counts.data
    return totals


@dataclass(frozen=True)
class LongTable:
    """A table in long form, as it is read."""

    names: tuple[str, str, str]  #: names of the columns of users, items and ratings
    users: list[Any]
    items: list[Any]
    values: Array  #: NaN where a rating is missing

    @property
    def ratings(self) -> Ratings:
        """The ratings as a matrix."""
        return Ratings.of(self.users, self.items, self.values)


def read_ratings(
    path: str | os.PathLike[str],
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
) -> LongTable:
    """Read ratings in long form from a text file, or from a Parquet or Arrow file.

    Parameters
    ----------
    path : path-like
        The file, with a rating in each row. Other columns, such as times, are ignored.
    user : str, default=None
        Name of the column that tells who has rated. By default, it is recognised by its name, or is the first
        column.
    item : str, default=None
        Name of the column that tells what was rated; by default recognised, or the second column.
    rating : str, default=None
        Name of the column of the ratings; by default recognised, or the third column.

    Returns
    -------
    LongTable
        The columns; its attribute ``ratings`` has them as a matrix.

    See Also
    --------
    maxnorm.Recommender : Learns from ratings.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from maxnorm.ratings import read_ratings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "ratings.csv"
    ...     _ = path.write_text("user,movie,rating\\nann,7,4\\nbob,7,5\\n")
    ...     table = read_ratings(path)
    >>> table.names, table.ratings.matrix.shape
    (('user', 'movie', 'rating'), (2, 1))
    """
    path = Path(path)
    chosen = dict(zip(ROLES, (user, item, rating), strict=True))
    if path.suffix.lower() in COLUMNAR:
        dataset = needs("pyarrow.dataset", "reading Parquet and Arrow")
        table = dataset.dataset(path, format=path.suffix[1:].lower().replace("arrow", "ipc")).to_table()
        places = find_columns(table.column_names, chosen, str(path))
        columns = [table.column(place).to_pylist() for place in places]
        names = [table.column_names[place] for place in places]
    else:
        lines = TextLines(path)
        places = find_columns(lines.names, chosen, str(path))
        columns = [list(column) for column in zip(*(_pick(row, places) for row in lines), strict=True)]
        names = [lines.names[place] for place in places]
    if not columns or not columns[0]:
        raise StreamError(f"{path}: has no ratings")
    values = np.array([_number(cell, path, k) for k, cell in enumerate(columns[2])])
    return LongTable((names[0], names[1], names[2]), columns[0], columns[1], values)


def _pick(row: Sequence[str], places: Sequence[int]) -> list[str]:
    return [row[place].strip() for place in places]


def _number(cell: Any, path: Path, k: int) -> float:
    """Return a rating; NaN if it is missing."""
    if cell is None:
        return float("nan")
    number = float(cell) if isinstance(cell, int | float) else parse_number(str(cell))
    if number is None:
        raise StreamError(f"{path}: the rating {cell!r} in row {k + 1} is not a number; correct it")
    return number


def find_columns(names: Sequence[str], chosen: dict[str, str | None], title: str) -> list[int]:
    """Return the positions of the users, the items and the ratings."""
    if len(names) < len(ROLES):
        raise StreamError(
            f"{title}: has {len(names)} columns, but ratings in long form have at least three: who has "
            "rated, what was rated, and the rating"
        )
    places = []
    for position, role in enumerate(ROLES):
        name = chosen[role]
        if name is not None and name not in names:
            known = ", ".join(map(repr, names))
            raise StreamError(f"{title}: has no column {name!r} of the {role}; its columns are {known}")
        found = [j for j, known in enumerate(names) if NAMES[role].search(known) and j not in places]
        places.append(list(names).index(name) if name is not None else (found or [position])[0])
    if len(set(places)) < len(ROLES):
        raise StreamError(f"{title}: cannot tell which columns are users, items and ratings; name them")
    return places


class TextLines:
    """The rows of a text file with few columns, of which the third or the one called rating has numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with FileLines(path) as lines:
            first = read_first_lines(lines, str(path))
        self.layout = TextLayout.detect(first, str(path), slice(None), None)
        start = next((k for k, line in enumerate(first) if line.strip()), 0)
        cells = split_cells(first[start], self.layout.delimiter)
        has_header = not any(parse_number(cell) is not None for cell in cells[2:])
        self.n_skipped = start + 1 if has_header else start
        named = [cell.strip().partition(":")[0] for cell in cells]
        self.names = named if has_header else [f"column {j + 1}" for j in range(len(cells))]

    def __iter__(self) -> Iterator[list[str]]:
        number = 0
        with FileLines(self.path) as lines:
            while True:
                block, failure = lines.read(LINES)
                for line in block:
                    number += 1
                    if number <= self.n_skipped or not line.strip():
                        continue
                    cells = split_cells(line, self.layout.delimiter)
                    if len(cells) != len(self.names):
                        raise StreamError(
                            f"{self.path}, line {number}: has {len(cells)} cells, but the first line has "
                            f"{len(self.names)}; correct the line"
                        )
                    yield cells
                if failure is not None:
                    raise explained(failure, str(self.path))
                if not block:
                    return


def is_long_form(path: str | os.PathLike[str]) -> bool:
    """Return whether a text file seems to have one rating in each row.

    Either its columns are named so, or it has few columns, the first two of which repeat themselves in other
    pairs, and few different ratings.
    """
    path = Path(path)
    if not path.is_file() or path.suffix.lower() not in (".csv", ".tsv", ".txt", ".dat", ".tab"):
        return False
    try:
        lines = TextLines(path)
        if not len(ROLES) <= len(lines.names) <= FEW_COLUMNS:
            return False
        if all(any(NAMES[role].search(name) for name in lines.names) for role in ROLES):
            return True
        rows = [row for row, _ in zip(lines, range(PROBED_ROWS), strict=False)]
    except (StreamError, UnicodeDecodeError, OSError):
        return False
    users, items, values = zip(*(row[:3] for row in rows), strict=True) if rows else ((), (), ())
    pairs = set(zip(users, items, strict=True))
    labels = all(WHOLE_NUMBER.fullmatch(label.strip()) for label in (*users, *items))
    return (
        len(rows) >= 20
        and labels
        and len(pairs) > 0.99 * len(rows)
        and max(len(set(users)), len(set(items))) < REPEATED * len(rows)
        and len(set(values)) <= FEW_VALUES
    )
