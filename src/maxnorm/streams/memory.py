"""Readers of objects in memory: arrays, data frames, sparse matrices, Dask collections and iterables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxnorm.core.types import Array
from maxnorm.streams.columns import select_columns
from maxnorm.streams.sparse_checks import require_plausible_rows, require_valid_sparse
from maxnorm.streams.stream import (
    NUMERIC_KINDS,
    Batch,
    Columns,
    Stream,
    StreamError,
    regroup,
    rows_per_read,
    skip_rows,
)

ITERABLE_ROWS = 100  # single rows of an iterable that form a batch: few, so that none of them waits for long


def open_array(
    x: Any,
    title: str,
    *,
    batch_size: int | None,
    columns: Columns,
    transpose: bool,
    in_background: bool = True,
) -> Stream:
    """Return a stream over a two-dimensional array, memory map or CSR matrix.

    Batches are views of ``x`` where slicing gives views. The other parameters are those of ``open_stream``
    and ``Stream``.
    """
    require_two_dimensions(x.shape, title)
    x = x.T if transpose else x
    n, p = x.shape
    selection = select_columns(columns, None, p, title)
    size = rows_per_read(batch_size, p)

    def source(start: int) -> Iterator[Batch]:
        for i in range(start, n, size):
            whole = i == 0 and size >= n  # of a sparse matrix, of which a slice would be a copy
            yield selection.take(x if whole else x[i : i + size])

    return Stream(source, title, n_samples=n, n_features=selection.n_features, in_background=in_background)


def open_sparse(x: Any, title: str, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """Return a stream over the rows of a SciPy sparse matrix, in CSR batches.

    Batches stay sparse, because an entry that is not stored is zero for some estimators and missing for
    others.
    """
    require_two_dimensions(x.shape, title)
    rows = _to_csr(x.T if transpose else x, title)
    return open_array(
        rows, title, batch_size=batch_size, columns=columns, transpose=False, in_background=False
    )


def _to_csr(x: Any, title: str) -> sp.csr_array:
    """Return a sparse matrix in CSR format with all its stored entries, including duplicates.

    SciPy's own conversion adds up entries at the same position. They are kept apart here, because the
    estimators decide what duplicates mean.

    Raises
    ------
    StreamError
        If the indices of the matrix are not valid.
    """
    require_valid_sparse(x, title)
    if x.format == "csr":  # which needs no copy
        require_plausible_rows(x.shape[0], len(x.data), title)
        return sp.csr_array((to_numeric(x.data, title), x.indices, x.indptr), shape=x.shape)
    x = x.tocoo()
    require_plausible_rows(x.shape[0], len(x.data), title)
    order = np.argsort(x.row, kind="stable")
    indptr = np.zeros(x.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(x.row, minlength=x.shape[0]), out=indptr[1:])
    return sp.csr_array((to_numeric(x.data, title)[order], x.col[order], indptr), shape=x.shape)


def open_frame(x: Any, title: str, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """Return a stream over the rows of a pandas data frame, or over its columns if ``transpose`` is True.

    The names of the features are the column labels, or the index labels if ``transpose`` is True.
    """
    _require_no_dates(x, None if transpose else columns, title)
    names = [str(name) for name in (x.index if transpose else x.columns)]
    n, p = x.shape[::-1] if transpose else x.shape
    selection = select_columns(columns, names, p, title)
    positions = np.arange(p) if selection.positions is None else selection.positions
    size = rows_per_read(batch_size, p)

    def source(start: int) -> Iterator[Array]:
        for i in range(start, n, size):
            rows = slice(i, min(i + size, n))
            part = x.iloc[positions, rows].T if transpose else x.iloc[rows, positions]
            yield to_numeric(np.asarray(part), title)

    return Stream(
        source,
        title,
        n_samples=n,
        n_features=selection.n_features,
        names=selection.names,
        in_background=False,
    )


def _require_no_dates(x: Any, columns: Columns, title: str) -> None:
    """Raise a StreamError that names the first selected column of a data frame that holds dates."""
    names = [str(name) for name in x.columns]
    positions = select_columns(columns, names, len(names), title).positions
    for j in range(len(names)) if positions is None else positions:
        dtype = x.dtypes.iloc[j]
        if getattr(dtype, "kind", "O") in "mM":
            raise StreamError(dates_message(f"{title}: column {names[j]!r}", dtype))


def is_dask(X: Any) -> bool:
    """Return whether X is a Dask array or data frame.

    Only the type of X is examined, because the columns of a pandas data frame are also its attributes and
    may have any name.
    """
    return type(X).__module__.startswith("dask") and hasattr(type(X), "ndim")


def open_dask(x: Any, title: str, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """Return a stream that computes a Dask array or data frame block by block.

    The number of samples is unknown if the collection does not know the lengths of its blocks. With
    ``transpose``, the lengths are computed when the stream is opened.
    """
    names = None
    is_data_frame = hasattr(x, "to_dask_array")
    if is_data_frame:
        names = None if transpose else [str(name) for name in x.columns]
        x = x.to_dask_array()
    require_two_dimensions(x.shape, title)
    x = x.compute_chunk_sizes().T if transpose else x
    x = x.rechunk({1: -1})
    selection = select_columns(columns, names, x.shape[1], title)

    def blocks(start: int) -> Iterator[Batch]:
        for i in range(x.numblocks[0]):
            block = x.blocks[i]
            if block.shape[0] <= start:  # false for an unknown length, which is NaN: such a block is computed
                start -= block.shape[0]
                continue
            computed = block.compute()
            if start < computed.shape[0]:
                yield selection.take(computed[start:])
            start = max(0, start - computed.shape[0])

    return Stream(
        lambda start: regroup(blocks(start), batch_size),
        title,
        n_samples=None if np.isnan(x.shape[0]) else int(x.shape[0]),
        n_features=selection.n_features,
        names=selection.names,
    )


def open_iterable(
    x: Iterable[Any] | Callable[[], Iterable[Any]], title: str, *, batch_size: int | None, columns: Columns
) -> Stream:
    """Return a stream over an iterable of rows or batches, or over a function that returns such an iterable.

    An iterator can be read only once. A function is called for every pass over the stream. The features of a
    sequence of records have the names of the fields of the first one.
    """
    is_records = isinstance(x, Sequence) and len(x) > 0 and isinstance(x[0], Mapping)
    names = [str(name) for name in x[0]] if is_records else None  # type: ignore[index]
    iterator = iter(x) if isinstance(x, Iterator) else None
    iterate = x if callable(x) else lambda: x
    consumed = False

    def source(start: int) -> Iterator[Batch]:
        nonlocal consumed
        if iterator is not None and consumed:
            raise StreamError(
                f"{title}: an iterator can be read once only; for several passes, pass a file or a function "
                "that returns a new iterator"
            )
        consumed = True
        items = iterate() if iterator is None else iterator
        batches = _collect_rows(_without_fields(items, title), title, batch_size or ITERABLE_ROWS)
        for batch in regroup(skip_rows(batches, start), batch_size):
            yield select_columns(columns, names, batch.shape[1], title).take(batch)

    kept = None if names is None else select_columns(columns, names, len(names), title).names
    return Stream(source, title, names=kept, repeatable=iterator is None, in_background=False)


def _without_fields(items: Iterable[Any], title: str) -> Iterator[Any]:
    """Yield the items of an iterable, records as rows in the order of the fields of the first record.

    A field that a record lacks is missing. A batch that is alone in a list or tuple, as a loader of batches
    may yield it, is taken out.
    """
    fields: tuple[Any, ...] | None = None
    for i, item in enumerate(items):
        if isinstance(item, Mapping):
            fields = tuple(item) if fields is None else fields
            unknown = [key for key in item if key not in fields]
            if unknown:
                raise StreamError(
                    f"{title}: record {i} has the field {unknown[0]!r}, which the first record lacks; pass "
                    "records with the same fields, or a data frame"
                )
            yield to_numeric(
                np.array([item.get(key) for key in fields], dtype=object), f"{title}, record {i}"
            )
        elif isinstance(item, list | tuple) and len(item) and getattr(item[0], "ndim", 0) == 2:
            if len(item) > 1:
                raise StreamError(
                    f"{title}: item {i} is a {type(item).__name__} of {len(item)} arrays, perhaps samples "
                    "and targets; pass the samples alone, for example "
                    "open_stream(lambda: (item[0] for item in source))"
                )
            yield item[0]
        else:
            yield item


def _collect_rows(items: Iterable[Any], title: str, size: int) -> Iterator[Batch]:
    """Yield the items of an iterable as two-dimensional batches.

    Consecutive rows are collected until there are ``size`` of them or a batch follows; batches are yielded
    unchanged. If the iterable raises an exception, the rows before it are yielded first.
    """
    rows: list[Array] = []
    width, count = None, 0
    try:
        for item in items:
            array = _to_row_or_batch(item, f"{title}, row {count}")
            width = array.shape[-1] if width is None else width
            if array.shape[-1] != width:
                raise StreamError(
                    f"{title}: row {count} has {array.shape[-1]} entries where {width} are expected; all "
                    "rows must have the same length"
                )
            count += 1 if array.ndim == 1 else array.shape[0]
            if array.ndim == 1:
                rows.append(array)
            if rows and (array.ndim == 2 or len(rows) >= size):
                yield np.stack(rows)
                rows = []
            if array.ndim == 2:
                yield array
    except Exception:
        if rows:
            yield np.stack(rows)
        raise
    if rows:
        yield np.stack(rows)


def _to_row_or_batch(item: Any, title: str) -> Any:
    """Return an item of an iterable as a numeric row of one dimension or a batch of two dimensions."""
    if sp.issparse(item):
        require_two_dimensions(item.shape, title)
        return _to_csr(item, title)
    if isinstance(item, np.ma.MaskedArray):
        item = np.where(np.ma.getmaskarray(item), np.nan, item.data)
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise StreamError(f"{title}: is not a rectangular array of numbers: {error}") from error
    if array.ndim not in (1, 2):
        raise StreamError(
            f"{title}: has {array.ndim} dimensions; an iterable must yield rows or two-dimensional batches. "
            "If the items are images, yield image.ravel(), or use VideoBackground for films"
        )
    if array.ndim == 2 and array.dtype == np.uint8:
        raise StreamError(
            f"{title}: is an array of bytes of shape {array.shape}, which may be an image or "
            f"{array.shape[0]} samples. If the items are images, yield image.ravel(), or use VideoBackground "
            "for films; if they are batches of samples, yield batch.astype(float)"
        )
    return to_numeric(array, title)


def to_numeric(array: Array, title: str) -> Array:
    """Return an array of a numeric type: the array itself, or float64 if its elements are Python objects.

    None becomes NaN.

    Raises
    ------
    StreamError
        If the array holds text, dates or other objects that are not numbers.
    """
    if array.dtype.kind in NUMERIC_KINDS:
        return array
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise StreamError(
                f"{title}: must be numeric: {error}; select numeric columns with columns"
            ) from error
    if array.dtype.kind in "mM":
        raise StreamError(dates_message(title, array.dtype))
    raise StreamError(f"{title}: must be numeric, not {array.dtype}; select numeric columns with columns")


def dates_message(title: str, kind: Any) -> str:
    """Return the error message for a column or an array of dates or durations."""
    return (
        f"{title} holds dates or durations ({kind}), which are not numbers; drop it, select other columns "
        "with columns, or convert it, for example to seconds"
    )


def require_two_dimensions(shape: tuple[int, ...], title: str) -> None:
    """Raise a StreamError if a shape does not have the two dimensions samples x features."""
    if len(shape) != 2:
        raise StreamError(
            f"{title}: has shape {tuple(shape)}, but samples x features are expected; reshape it to two "
            "dimensions"
        )
