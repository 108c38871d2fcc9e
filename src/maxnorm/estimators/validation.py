"""Validation of data and parameters, with errors that say what is wrong and what would be right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from maxnorm.core.types import Array
from maxnorm.streams.stream import Stream


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Leave everything as it was if anything fails: a model that meets bad input is still a model."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def validated(estimator: BaseEstimator, X: Any, *, reset: bool) -> Array:
    """Return X as a C-contiguous array of floats without infinities, or say what is wrong with it."""
    if isinstance(X, Stream):  # for methods that need all samples at once
        X = np.concatenate(list(X))
    if isinstance(X, np.ma.MaskedArray):
        X = np.where(np.ma.getmaskarray(X), np.nan, X.data)
    if reset or not _is_as_before(estimator, X):
        with numbers_only():
            X = validate_data(
                estimator, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False, order="C"
            )
    return within_range(np.asarray(X))


def validated_batch(
    estimator: BaseEstimator, batch: Any, stream: Stream, *, reset: bool, unstored: float | None, row: int
) -> Any:
    """Return the same for a batch of a stream, which has its names from there and begins at some row."""
    if sp.issparse(batch):
        batch = _entries(batch, row) if unstored is None else sp.csr_array(batch).toarray()
    if reset and isinstance(batch, sp.csr_array):
        estimator.n_features_in_ = batch.shape[1]
        estimator.__dict__.pop("feature_names_in_", None)
    if reset:
        batch = batch if isinstance(batch, sp.csr_array) else validated(estimator, batch, reset=True)
        if stream.names is not None:
            estimator.feature_names_in_ = np.array(stream.names, dtype=object)
        return batch
    check_features(estimator, stream.names, batch.shape[1], stream.title)
    if isinstance(batch, sp.csr_array):
        return batch
    with numbers_only():
        Z = check_array(
            batch, dtype=[np.float64, np.float32], ensure_all_finite=False, order="C", input_name="X"
        )
    return within_range(Z, row)


@contextmanager
def numbers_only() -> Iterator[None]:
    """Say what to do about text."""
    try:
        yield
    except ValueError as error:
        if "could not convert" in str(error):
            raise ValueError(f"X must be numeric: {error}; encode or drop such columns") from error
        raise


def check_features(
    estimator: BaseEstimator, names: Sequence[str] | None, n_features: int, title: str
) -> None:
    """Say in what way features are not those that the estimator has learnt, if they are not."""
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None and names is not None and list(known) != list(names):
        pair = next(((a, b) for a, b in zip(known, names, strict=False) if a != b), None)
        first = "" if pair is None else f", first {pair[1]!r} in place of {pair[0]!r}"
        raise ValueError(
            f"{title}: its features are not those that {type(estimator).__name__} has learnt{first}"
        )
    if n_features != estimator.n_features_in_:
        raise ValueError(
            f"{title}: has {n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )


def in_precision(Z: Any, dtype: np.dtype[Any], row: int) -> Any:
    """Return rows that begin at some row in the precision of the model; sparse ones keep theirs."""
    if Z.dtype == dtype or sp.issparse(Z):
        return Z
    with np.errstate(over="ignore"):
        return within_range(Z.astype(dtype), row)


def _entries(batch: Any, first_row: int) -> sp.csr_array:
    """Return what a sparse batch stores and is not NaN; of what is stored twice, the mean."""
    if batch.shape[1] == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={batch.shape}) while a minimum of 1 is required."
        )
    if batch.dtype.kind not in "fiub":
        raise ValueError(f"X must be numeric and real, not {batch.dtype}")
    entries = batch.tocoo()
    rows, columns, values = entries.row, entries.col, entries.data.astype(np.float64)
    known = ~np.isnan(values)
    if not known.all():
        rows, columns, values = rows[known], columns[known], values[known]
    limit = _largest(np.dtype(np.float64), entries.shape[1])
    if not np.all(np.abs(values) <= limit):
        i = int(np.flatnonzero(~(np.abs(values) <= limit))[0])
        raise _too_large(values[i], first_row + int(rows[i]), int(columns[i]))
    tidy = sp.csr_array((values, (rows, columns)), shape=entries.shape)
    if tidy.nnz < len(values):  # some were added up
        tidy.data /= sp.csr_array((np.ones(len(values)), (rows, columns)), shape=entries.shape).data
    return tidy


def within_range(Z: Array, first_row: int = 0) -> Array:
    """Return Z if the squares of its entries can be added up, or say which entry is in the way."""
    limit = _largest(Z.dtype, Z.shape[1])
    largest = max(float(np.fmax.reduce(Z, axis=None)), -float(np.fmin.reduce(Z, axis=None)))
    if largest <= limit or np.isnan(largest):  # nothing but NaN
        return Z
    row, column = np.argwhere(~(np.abs(Z) <= limit) & ~np.isnan(Z))[0]
    raise _too_large(Z[row, column], first_row + row, column)


def _largest(dtype: np.dtype[Any], n_features: int) -> float:
    """Return the largest entry of which a row has squares that can be added up."""
    return 0.1 * float(np.finfo(dtype).max) ** 0.5 / float(n_features) ** 0.5


def _too_large(value: Any, row: int, column: int) -> ValueError:
    what = "infinity" if np.isinf(value) else f"{value:.3g}, too large for {value.dtype} arithmetic"
    return ValueError(
        f"X contains {what}, first in row {row}, column {column}; "
        "mark entries that are not known as NaN, clip them, or rescale X"
    )


def _is_as_before(estimator: BaseEstimator, X: Any) -> bool:
    """Whether X is an array such as validation would return; it takes longer than learning from a row."""
    return (
        type(X) is np.ndarray
        and X.dtype.type in (np.float64, np.float32)
        and X.dtype.isnative
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == estimator.n_features_in_
        and X.flags.c_contiguous
        and not hasattr(estimator, "feature_names_in_")
    )


def is_number(value: object, kind: type, least: int, *, above: bool = False) -> bool:
    """Whether a value is a finite number of a kind, and not less than it may be."""
    if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
        return False
    number = float(value)  # type: ignore[arg-type]
    return math.isfinite(number) and (number > least if above else number >= least)


def is_alternative(value: object, alternative: object) -> bool:
    """Whether a value is what may stand in place of a number: None, or a word."""
    return value is None if alternative is None else isinstance(value, str) and value == alternative


def invalid(
    estimator: str, parameter: str, value: object, allowed: str, alternative: object = ...
) -> ValueError:
    """Return the error for a parameter: what it may be, and what it is."""
    choice = "" if alternative is ... else f" or {alternative!r}"
    return ValueError(f"{parameter} of {estimator} must be {allowed}{choice}, got {value!r}")
