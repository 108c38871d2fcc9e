"""Streams over what is in memory, or hands itself out: arrays, frames, sparse matrices, Dask, iterables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxnorm.core.types import Array
from maxnorm.streams.stream import Batch, Columns, Stream, StreamError, batch_rows, beyond, chosen, regrouped

LIVE_ROWS = 100  # rows of an iterable that are waited for before they are handed on


def array_stream(
    x: Any, title: str, *, batch_size: int | None, columns: Columns, transpose: bool, **known: Any
) -> Stream:
    """Anything two-dimensional that can be sliced: arrays, memory-maps, sparse matrices."""
    require_two_dimensions(x.shape, title)
    x = x.T if transpose else x
    n, p = x.shape
    picked, names = chosen(columns, known.pop("names", None), p, title)
    size = batch_rows(batch_size, p)

    def source(start: int) -> Iterator[Batch]:
        for i in range(start, n, size):
            yield x[i : i + size] if picked is None else x[i : i + size][:, picked]

    width = p if picked is None else len(picked)
    return Stream(source, title, n_samples=n, n_features=width, names=names, **known)


def sparse_stream(x: Any, title: str, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """Rows of a SciPy sparse matrix, which stay sparse: what is not stored is for the estimator to say."""
    require_two_dimensions(x.shape, title)
    x = _by_rows((x.T if transpose else x).tocoo())
    return array_stream(
        x, title, batch_size=batch_size, columns=columns, transpose=False, in_background=False
    )


def _by_rows(x: Any) -> sp.csr_array:
    """Return rows as they are stored: what an entry means that is there twice is for the estimator to say."""
    order = np.argsort(x.row, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(x.row, minlength=x.shape[0]))])
    return sp.csr_array((x.data[order], x.col[order], indptr), shape=x.shape)


def frame_stream(x: Any, title: str, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """Rows of a pandas data frame; of its transpose, whose index then has the names."""
    names = [str(name) for name in (x.index if transpose else x.columns)]
    n, p = x.shape[::-1] if transpose else x.shape
    picked, kept = chosen(columns, names, p, title)
    positions = np.arange(p) if picked is None else picked
    size = batch_rows(batch_size, p)

    def source(start: int) -> Iterator[Array]:
        for i in range(start, n, size):
            rows = slice(i, min(i + size, n))
            part = x.iloc[positions, rows].T if transpose else x.iloc[rows, positions]
            yield numeric(np.asarray(part), title)

    return Stream(source, title, n_samples=n, n_features=len(positions), names=kept, in_background=False)


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or data frame; a pandas frame may have a column of that name."""
    return type(X).__module__.startswith("dask") and hasattr(type(X), "ndim")


def dask_stream(x: Any, title: str, *, batch_size: int | None, columns: Columns, transpose: bool) -> Stream:
    """A Dask array or data frame, block by block."""
    names = None
    if hasattr(x, "to_dask_array"):  # a data frame
        names = None if transpose else [str(name) for name in x.columns]
        x = x.to_dask_array()
    require_two_dimensions(x.shape, title)
    x = x.compute_chunk_sizes().T if transpose else x
    x = x.rechunk({1: -1})
    picked, kept = chosen(columns, names, x.shape[1], title)

    def blocks(start: int) -> Iterator[Batch]:
        for i in range(x.numblocks[0]):
            block = x.blocks[i]
            if block.shape[0] <= start:  # never so where the length is not known
                start -= block.shape[0]
                continue
            got = block.compute()
            if start < got.shape[0]:
                yield got[start:] if picked is None else got[start:][:, picked]
            start = max(0, start - got.shape[0])

    n = None if np.isnan(x.shape[0]) else int(x.shape[0])
    return Stream(
        lambda start: regrouped(blocks(start), batch_size),
        title,
        n_samples=n,
        n_features=x.shape[1] if picked is None else len(picked),
        names=kept,
    )


def iterable_stream(
    x: Iterable[Any] | Callable[[], Iterable[Any]], title: str, *, batch_size: int | None, columns: Columns
) -> Stream:
    """Rows or batches from any iterable, or from a function that returns one each time it is called."""
    iterator = iter(x) if isinstance(x, Iterator) else None
    begin = x if callable(x) else lambda: x
    used = False

    def source(start: int) -> Iterator[Batch]:
        nonlocal used
        if iterator is not None and used:
            raise StreamError(
                f"{title}: an iterator can be read once only; for several passes give a function that "
                "returns a new one, or a file"
            )
        used = True
        rows = _rows_and_batches(begin() if iterator is None else iterator, title, batch_size or LIVE_ROWS)
        for batch in regrouped(beyond(rows, start), batch_size):
            picked, _ = chosen(columns, None, batch.shape[1], title)
            yield batch if picked is None else batch[:, picked]

    return Stream(source, title, repeatable=iterator is None, in_background=False)


def _rows_and_batches(items: Iterable[Any], title: str, most: int) -> Iterator[Array]:
    rows: list[Array] = []
    width, count = None, 0
    try:
        for item in items:
            array = _row_or_batch(item, f"{title}, row {count}")
            width = array.shape[-1] if width is None else width
            if array.shape[-1] != width:
                raise StreamError(
                    f"{title}: row {count} has {array.shape[-1]} entries where {width} are expected"
                )
            count += 1 if array.ndim == 1 else array.shape[0]
            if array.ndim == 1:
                rows.append(array)
            if rows and (array.ndim == 2 or len(rows) >= most):
                yield np.stack(rows)
                rows = []
            if array.ndim == 2:
                yield array
    except Exception:
        if rows:  # what came before is good
            yield np.stack(rows)
        raise
    if rows:
        yield np.stack(rows)


def _row_or_batch(item: Any, title: str) -> Any:
    if sp.issparse(item):
        return _by_rows(item.tocoo())
    if isinstance(item, np.ma.MaskedArray):
        item = np.where(np.ma.getmaskarray(item), np.nan, item.data)
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise StreamError(f"{title}: is ragged: {error}") from error
    if array.ndim not in (1, 2):
        raise StreamError(f"{title}: has {array.ndim} dimensions; yield rows or two-dimensional batches")
    return numeric(array, title)


def numeric(array: Array, title: str) -> Array:
    """Return an array of floats, with None as NaN, or say what is in the way."""
    if array.dtype.kind in "fiub":
        return array
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise StreamError(f"{title}: must be numeric: {error}; choose columns that are") from error
    raise StreamError(f"{title}: must be numeric, not {array.dtype}; choose columns that are")


def require_two_dimensions(shape: tuple[int, ...], title: str) -> None:
    """Say what to do with shapes that are not samples x features."""
    if len(shape) != 2:
        raise StreamError(
            f"{title}: has shape {tuple(shape)}; samples x features are expected, so reshape it to two "
            "dimensions"
        )
