"""The selection of columns by name, position, slice or boolean mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxnorm.streams.stream import Batch, Columns, StreamError

MOST_NAMES_SHOWN = 10  # in an error message


@dataclass(frozen=True, eq=False)
class ColumnSelection:
    """The columns of a source that become the features of its stream.

    Parameters
    ----------
    positions : ndarray of int or None
        Position of each selected column. None selects all columns and avoids a copy of every batch.
    names : tuple of str or None
        Name of each selected column, or None if the columns of the source have no names.
    n_features : int
        Number of selected columns.
    """

    positions: NDArray[np.intp] | None
    names: tuple[str, ...] | None
    n_features: int

    def take(self, batch: Batch) -> Batch:
        """Return the selected columns of a batch that holds all columns of the source."""
        return batch if self.positions is None else batch[:, self.positions]


def select_columns(
    columns: Columns, names: Sequence[str] | None, n_columns: int, title: str
) -> ColumnSelection:
    """Resolve the ``columns`` argument of ``open_stream`` against the columns of a source.

    Parameters
    ----------
    columns : slice, int, str, sequence of int or str, boolean mask, or None
        The columns to select, in this order. None selects all. A string of digits that is not the name of a
        column is a position.
    names : sequence of str or None
        Names of all columns of the source, or None if they have no names.
    n_columns : int
        Number of columns of the source.
    title : str
        Name of the source in error messages.

    Returns
    -------
    ColumnSelection

    Raises
    ------
    StreamError
        If a column does not exist, if a mask has the wrong length, or if no column is selected.
    """
    if not n_columns:
        raise StreamError(f"{title}: has 0 features, but samples must have at least one")
    if columns is None:
        return ColumnSelection(None, None if names is None else tuple(names), n_columns)
    if isinstance(columns, slice):
        positions = np.arange(*columns.indices(n_columns))
    else:
        requested: list[Any] = [columns] if isinstance(columns, int | np.integer | str) else list(columns)
        if requested and all(isinstance(column, bool | np.bool_) for column in requested):
            if len(requested) != n_columns:
                raise StreamError(
                    f"{title}: columns is a boolean mask of length {len(requested)}, but there are "
                    f"{n_columns} columns; pass one value per column"
                )
            requested = np.flatnonzero(requested).tolist()
        positions = np.array(
            [_resolve_column(column, names, n_columns, title) for column in requested], dtype=np.intp
        )
    if not len(positions):
        raise StreamError(
            f"{title}: columns={columns!r} selects none of the {n_columns} columns; select at least one"
        )
    selected = None if names is None else tuple(names[int(i)] for i in positions)
    return ColumnSelection(positions, selected, len(positions))


def _resolve_column(column: int | str, names: Sequence[str] | None, n_columns: int, title: str) -> int:
    """Return the position, at least 0, of a column that is given by name or position."""
    is_digits = isinstance(column, str) and column.removeprefix("-").isdecimal()
    if is_digits and (names is None or column not in names):
        column = int(column)
    if isinstance(column, str):
        if names is None:
            raise StreamError(
                f"{title}: no column {column!r}; the columns have no names, so select them by position"
            )
        if column not in names:
            shown = [repr(name) for name in names[:MOST_NAMES_SHOWN]]
            more = ["..."] if len(names) > MOST_NAMES_SHOWN else []
            raise StreamError(f"{title}: no column {column!r}; the columns are {', '.join(shown + more)}")
        return names.index(column)
    if not isinstance(column, int | np.integer):
        raise StreamError(
            f"{title}: no column {column!r}; select columns by name (a string) or position (an integer)"
        )
    if not -n_columns <= column < n_columns:
        raise StreamError(f"{title}: no column {column}; there are {n_columns} columns, numbered from 0")
    return int(column) % n_columns
