"""Where a process has changed: the rows of a table at which the relations between its features change.

A table is divided in two if neither part is explained by the model of the other. A model that is fitted to
all rows would explain both parts, with more components. Only the rows next to the place count, because a
process that moves slowly to states where it was not before does not change suddenly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from maxnorm.core.deviations import compute_deviations
from maxnorm.core.factor_model import FactorModel
from maxnorm.core.types import Array, Mask


class SegmentRule(NamedTuple):
    """When a table is divided."""

    least_rows: int = 300  #: of a segment,
    least_share: float = 0.05  #: and at least this share of the table
    sample: int = 200  #: rows to which a model of a part is fitted, spread over the part
    judged: int = 3000  #: rows by which the place of the change is found, spread over the table
    end: float = 0.25  #: share of the rows at both ends from whose models a change is looked for at first
    moves: int = 2  #: times that its place is improved
    short: int = 6000  #: rows of a table, up to which it is also looked for from
    starts: tuple[float, ...] = (0.5, 0.35, 0.65)  #: these shares of the rows
    largest: float = 4.0  #: standard deviations that count for one entry, so that some may be wrong
    near: int = 50  #: rows before and after the place of a change that decide whether there is one
    least_loss: float = 1.25  #: log-likelihood per entry of these rows that the other model loses


SEGMENTS = SegmentRule()

Fit = Callable[[Array], FactorModel]


class Split(NamedTuple):
    """A place at which a table may be divided."""

    row: int  #: first row of the second part
    loss: float  #: log-likelihood per entry that the rows next to it lose under the model of the other part


def find_changes(X: Array, fit: Fit, least_rows: int | None = None) -> list[int]:
    """Return the rows of a table at which the process changes, in increasing order.

    Parameters
    ----------
    X : array of shape (n, p)
        Rows in the order of time; NaN marks missing entries.
    fit : callable
        Returns the factor model of some rows.
    least_rows : int or None, default=None
        Least number of rows between two changes. None means 300, or a twentieth of the rows if that is more.

    Returns
    -------
    changes : list of int
        The first rows after the changes.
    """
    least = least_rows or max(SEGMENTS.least_rows, round(SEGMENTS.least_share * len(X)))
    split = best_split(X, fit, least) if len(X) >= 2 * least else None
    if split is None or split.loss < SEGMENTS.least_loss:
        return []
    before = find_changes(X[: split.row], fit, least)
    after = find_changes(X[split.row :], fit, least)
    return [*before, split.row, *(split.row + row for row in after)]


def best_split(X: Array, fit: Fit, least_rows: int) -> Split:
    """Return the best place to divide a table.

    The search starts from models of both ends of the table. In a short table, in which these may know too few
    states of the process, other starts follow.
    """
    n = len(X)
    size = max(round(SEGMENTS.end * n), least_rows)
    split = moved(X, improve(X, X[:size], X[-size:], fit, least_rows), fit, least_rows)
    if n <= SEGMENTS.short:
        for start in SEGMENTS.starts:
            if split.loss < SEGMENTS.least_loss:
                row = min(max(round(start * n), least_rows), n - least_rows)
                split = max(split, moved(X, Split(row, 0.0), fit, least_rows), key=lambda one: one.loss)
    return split


def moved(X: Array, split: Split, fit: Fit, least_rows: int) -> Split:
    """Return a better place to divide a table, given a place to start from."""
    for _ in range(SEGMENTS.moves):
        row = split.row
        split = improve(X, X[:row], X[row:], fit, least_rows)
        if split.row == row:
            break
    return split


def improve(X: Array, first_part: Array, second_part: Array, fit: Fit, least_rows: int) -> Split:
    """Return the place before which one of two models explains a table best, and after which the other.

    Parameters
    ----------
    X : array of shape (n, p)
        The table.
    first_part, second_part : array
        Rows of the table, to which the two models are fitted.
    fit : callable
        Returns the factor model of some rows.
    least_rows : int
        Least number of rows before and after the place.
    """
    n = len(X)
    models = [fit(spread(part, SEGMENTS.sample)) for part in (first_part, second_part)]
    rows = np.unique(np.linspace(0, n - 1, min(n, SEGMENTS.judged)).astype(int))
    first, second = (log_likelihood(model, X[rows]) for model in models)
    k = best_place(first - second, (rows >= least_rows) & (rows <= n - least_rows))
    step = -(-n // len(rows))
    start = max(rows[k] - step - SEGMENTS.near, 0)
    near = slice(start, rows[k] + step + SEGMENTS.near)  # all rows around the place
    advantage = log_likelihood(models[0], X[near]) - log_likelihood(models[1], X[near])
    place = best_place(advantage, np.abs(np.arange(len(advantage)) + start - rows[k]) <= step)
    before, after = advantage[:place][-SEGMENTS.near :], -advantage[place:][: SEGMENTS.near]
    return Split(int(start + place), float(min(np.median(before), np.median(after))))


def best_place(advantage: Array, allowed: Mask) -> int:
    """Return the place before which the first of two models is better, and after which the second is.

    Parameters
    ----------
    advantage : array of shape (n,)
        By how much the first model is better, for each row.
    allowed : boolean array of shape (n,)
        Which rows may be the first after the place.
    """
    gain = np.append(0.0, np.cumsum(advantage)[:-1])
    return int(np.argmax(np.where(allowed, gain, -np.inf)))


def spread(X: Array, n_rows: int) -> Array:
    """Return rows that are spread evenly over a table."""
    return X[np.unique(np.linspace(0, len(X) - 1, min(len(X), n_rows)).astype(int))]


def log_likelihood(model: FactorModel, X: Array) -> Array:
    """Return the mean log-likelihood of the entries of each row, given the other entries of the row."""
    found = compute_deviations(model, X)
    observed = ~np.isnan(X)
    terms = -0.5 * np.minimum(found.deviation**2, SEGMENTS.largest**2) - np.log(found.spread)
    return np.where(observed, terms, 0.0).sum(axis=1) / np.maximum(observed.sum(axis=1), 1)
