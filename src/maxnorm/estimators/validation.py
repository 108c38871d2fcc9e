"""Validation of data and parameters, where they enter the library."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from maxnorm.core.batch import Batch, check_range, without_negligible
from maxnorm.core.precision import DOUBLE
from maxnorm.core.types import Array
from maxnorm.estimators.frames import is_pandas
from maxnorm.persistence import CALLBACK_PREFIXES
from maxnorm.streams.stream import Stream

PRECISIONS = [np.float64, np.float32]


@contextmanager
def all_or_nothing(estimator: BaseEstimator, *, keep_fitted: bool = False) -> Iterator[None]:
    """Restore the attributes of an estimator if an error is raised: bad input must not spoil a model.

    With ``keep_fitted``, what was learnt before the error is kept, if anything was.
    """
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        if not (keep_fitted and estimator.__sklearn_is_fitted__()):
            restore(estimator, before)
        raise


def restore(estimator: BaseEstimator, before: dict[str, Any]) -> None:
    """Restore the attributes of an estimator, except those that scikit-learn's callbacks need to end.

    All attributes are restored at once, so that other threads never see an estimator without them.
    """
    kept = {name: value for name, value in vars(estimator).items() if name.startswith(CALLBACK_PREFIXES)}
    estimator.__dict__ = {**kept, **before}


# -- data ---------------------------------------------------------------------------------------------


def validate_array(estimator: BaseEstimator, X: Any, *, reset: bool) -> Batch:
    """Return an array-like or data frame as a batch of floats without infinities.

    With ``reset``, the estimator takes over the number and the names of the features, and the shape of a
    sample if it has several dimensions. Without it, the number and the names are compared with those it has
    learnt.
    """
    if isinstance(X, Stream):  # for methods that need all samples at once
        X = np.concatenate(list(X))
    X, shape = fold(without_mask(X))
    if reset or not _needs_no_conversion(estimator, X):
        with advice_on_text(X):
            X = validate_data(estimator, X, reset=reset, dtype=PRECISIONS, ensure_all_finite=False, order="C")
    if reset:
        set_feature_shape(estimator, shape)
    return check_range(Batch(np.asarray(X)))


def without_mask(X: Any) -> Any:
    """Return a masked array as an array in which masked entries are NaN, and everything else unchanged."""
    return np.where(np.ma.getmaskarray(X), np.nan, X.data) if isinstance(X, np.ma.MaskedArray) else X


def fold(X: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Return an array of images or other samples of several dimensions as a matrix, and a sample's shape.

    Lists of such samples become an array; everything else is returned as it is, and without a shape.
    """
    if isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) > 1:
        X = np.asarray(X)
    if isinstance(X, np.ndarray) and X.ndim > 2:
        return X.reshape(len(X), -1), X.shape[1:]
    return X, None


def set_feature_shape(estimator: BaseEstimator, shape: tuple[int, ...] | None) -> None:
    """Store the shape of a sample of several dimensions, or that samples are rows of a table."""
    estimator.__dict__.pop("feature_shape_", None)
    if shape is not None:
        estimator.feature_shape_ = shape


@dataclass(frozen=True)
class BatchReader:
    """Converts the raw batches of a stream or of Dask blocks, on whatever machine they are."""

    keeps_sparse: bool  #: whether sparse matrices store the observed entries; otherwise the rest is zero

    def __call__(self, raw: Any, first_row: int) -> Batch:
        """Return a raw batch as a batch of floats; error messages count rows from ``first_row``."""
        if sp.issparse(raw) and self.keeps_sparse:
            return check_range(Batch(_observed_entries(raw)), first_row)
        if sp.issparse(raw):
            raw = sp.csr_array(raw).toarray()
        with advice_on_text(raw):
            Z = check_array(raw, dtype=PRECISIONS, ensure_all_finite=False, order="C", input_name="X")
        return check_range(Batch(Z), first_row)


def set_features(estimator: BaseEstimator, names: Sequence[str] | None, n_features: int) -> None:
    """Store the number and the names of the features that an estimator learns from."""
    estimator.n_features_in_ = n_features
    estimator.__dict__.pop("feature_names_in_", None)
    set_feature_shape(estimator, None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def check_features(
    estimator: BaseEstimator, names: Sequence[str] | None, n_features: int, title: str
) -> None:
    """Raise an error if the features of a source are not those that the estimator has learnt."""
    name, known = type(estimator).__name__, getattr(estimator, "feature_names_in_", None)
    if known is not None and names is not None and list(known) != list(names):
        pair = next(((a, b) for a, b in zip(known, names, strict=False) if a != b), None)
        first = "" if pair is None else f"; the first difference is {pair[1]!r} in place of {pair[0]!r}"
        raise ValueError(f"{title}: the feature names are not those that {name} was fitted on{first}")
    if n_features != estimator.n_features_in_:
        raise ValueError(
            f"{title}: has {n_features} features, but {name} is expecting {estimator.n_features_in_} "
            "features as input"
        )


def check_side_features(name: str, features: Any, X: Any) -> Array | None:
    """Return the features of the rows or the columns of X as an array, in which NaN is allowed.

    ``name`` is that of the argument, which is row_features or column_features.
    """
    if features is None:
        return None
    if is_pandas(features) and is_pandas(X):
        side = "index" if name == "row_features" else "columns"
        labels = getattr(X, side)
        if not features.index.equals(labels) and set(features.index) == set(labels):
            raise ValueError(
                f"the index of {name} has the same labels as X.{side}, in another order; pass "
                f"{name}.loc[X.{side}]"
            )
    with advice_on_text(features, name):
        found: Array = check_array(
            without_mask(features),
            dtype=np.float64,
            ensure_all_finite=False,
            ensure_2d=False,
            ensure_min_features=0,
            allow_nd=True,
            input_name=name,
        )
    if found.ndim != 2:
        raise ValueError(
            f"{name} has the shape {found.shape}; pass a table with one column for each feature, such as an "
            "array of shape (n, 1) for a single feature"
        )
    if found.shape[1] == 0:
        raise ValueError(f"{name} has no columns; pass at least one feature, or None")
    if np.isinf(found).any():
        raise ValueError(f"{name} has infinite entries; replace them by NaN, or by finite numbers")
    return found


@contextmanager
def advice_on_text(X: Any, name: str = "X") -> Iterator[None]:
    """Add a remedy to the errors about text in the data, and refuse dates, which NumPy takes for integers."""
    _refuse_dates(X, name)
    try:
        yield
    except ValueError as error:
        if "could not convert" in str(error):
            raise ValueError(f"{name} must be numeric: {error}; encode or drop such columns") from error
        raise
    except TypeError as error:
        if "float() argument" in str(error):
            raise TypeError(f"{name} must be numeric: {error}; encode or drop such columns") from error
        raise


def _refuse_dates(X: Any, name: str) -> None:
    if hasattr(X, "dtypes") and hasattr(X, "columns"):  # a data frame
        dates = [column for column, dtype in zip(X.columns, X.dtypes, strict=True) if _is_date(dtype)]
        if dates:
            raise ValueError(
                f"{name} must be numeric, but the columns {', '.join(map(repr, dates))} hold dates or times; "
                "drop them or make them the index"
            )
    elif _is_date(getattr(X, "dtype", None)):
        raise ValueError(f"{name} must be numeric, not {X.dtype}; drop the dates or convert them to seconds")


def _is_date(dtype: Any) -> bool:
    return getattr(dtype, "kind", "") in ("m", "M")


def _observed_entries(raw: Any) -> sp.csr_array:
    """Return the stored entries of a sparse matrix that are not NaN, duplicates averaged."""
    if raw.shape[1] == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={raw.shape}) while a minimum of 1 is required."
        )
    if raw.dtype.kind not in "fiub":
        raise ValueError(f"X must be numeric and real, not {raw.dtype}")
    if raw.format == "csr" and raw.dtype == np.float64 and raw.has_canonical_format:
        values = without_negligible(raw.data)
        if not np.isnan(values).any():  # nothing has to be copied, unless negligible values were replaced
            return sp.csr_array((values, raw.indices, raw.indptr), shape=raw.shape)
    entries = raw.tocoo()
    rows, columns, values = entries.row, entries.col, without_negligible(entries.data.astype(np.float64))
    known = ~np.isnan(values)
    if not known.all():
        rows, columns, values = rows[known], columns[known], values[known]
    summed = sp.csr_array((values, (rows, columns)), shape=entries.shape)
    if summed.nnz < len(values):
        summed.data /= sp.csr_array((np.ones(len(values)), (rows, columns)), shape=entries.shape).data
    return summed


def _needs_no_conversion(estimator: BaseEstimator, X: Any) -> bool:
    """Return whether X is an array as validation would return it.

    Validation by scikit-learn takes longer than learning from a single row.
    """
    return (
        type(X) is np.ndarray
        and X.dtype.type in PRECISIONS
        and X.dtype.isnative
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == estimator.n_features_in_
        and X.flags.c_contiguous
        and not hasattr(estimator, "feature_names_in_")
    )


# -- parameters ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """The finite numbers that a parameter may be, and the values that may stand in their place."""

    kind: type  #: Integral or Real
    least: int = 0
    excluded: bool = False  #: whether ``least`` itself is excluded
    alternatives: tuple[str | None, ...] = ()

    def __str__(self) -> str:
        number = "an integer" if self.kind is Integral else "a finite number"
        bound = f"above {self.least}" if self.excluded else f"of at least {self.least}"
        return either([f"{number} {bound}", *map(repr, self.alternatives)])

    def allows(self, value: object) -> bool:
        """Return whether a value is such a number or one of the alternatives."""
        if value is None or isinstance(value, str):
            return value in self.alternatives
        if not isinstance(value, self.kind) or isinstance(value, bool | np.bool_):
            return False
        number = float(value)  # type: ignore[arg-type]
        return math.isfinite(number) and (number > self.least if self.excluded else number >= self.least)


def check_number(estimator: BaseEstimator, parameter: str, allowed: Number) -> None:
    """Raise an error if a parameter of an estimator is not an allowed number."""
    if not allowed.allows(getattr(estimator, parameter)):
        raise invalid(estimator, parameter, str(allowed))


def check_weight(estimator: BaseEstimator, parameter: str) -> None:
    """Raise an error if a weight, which has been checked to be an allowed number, is out of range."""
    value = getattr(estimator, parameter)
    if isinstance(value, Real) and value and not DOUBLE.smallest <= float(value) <= DOUBLE.largest:
        allowed = f"between {DOUBLE.smallest:g} and {DOUBLE.largest:g} if it is not zero"
        raise ValueError(f"{invalid(estimator, parameter, allowed)}; rescale X if it needs such a weight")


def warn_of_empty_columns(Z: Array, *, stacklevel: int) -> None:
    """Warn of columns of an array in which nothing is observed."""
    empty = np.flatnonzero(np.isnan(Z).all(axis=0))
    if len(empty):
        warnings.warn(
            f"nothing is observed in {len(empty)} of the columns of X, the first of which is column "
            f"{empty[0]}. There is nothing to fill them from; leave them out",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def check_choice(estimator: BaseEstimator, parameter: str, choices: Iterable[object]) -> None:
    """Raise an error if a parameter of an estimator is not one of some values."""
    value, choices = getattr(estimator, parameter), tuple(choices)
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise invalid(estimator, parameter, either(list(map(repr, choices))))


def check_plugin(
    estimator: BaseEstimator, parameter: str, names: Iterable[str], kind: type, members: Sequence[str]
) -> None:
    """Raise an error if a parameter is neither a known name nor an object with all members of its kind."""
    value = getattr(estimator, parameter)
    if isinstance(value, str) and value in names:
        return
    if isinstance(value, type):
        raise TypeError(
            f"{parameter} of {type(estimator).__name__} is the class {value.__name__}; pass an instance of it"
        )
    missing = [member for member in members if not hasattr(value, member)]
    if missing and len(missing) < len(members):
        raise TypeError(
            f"{parameter} of {type(estimator).__name__} is not compatible with {kind.__module__}."
            f"{kind.__name__}: {type(value).__name__} must also implement {', '.join(missing)}"
        )
    if missing:
        known = ", ".join(map(repr, names))
        raise invalid(
            estimator,
            parameter,
            f"one of {known}, or an object that implements {kind.__module__}.{kind.__name__}",
        )


def invalid(estimator: BaseEstimator, parameter: str, allowed: str) -> ValueError:
    """Return the error about a parameter: what it may be, and what it is."""
    value = getattr(estimator, parameter)
    return ValueError(f"{parameter} of {type(estimator).__name__} must be {allowed}, got {value!r}")


def either(choices: list[str]) -> str:
    """Return choices in words: ``a, b or c``."""
    return " or ".join([", ".join(choices[:-1]), choices[-1]] if len(choices) > 1 else choices)
