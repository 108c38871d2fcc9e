"""``Stream``, the type that every reader of samples returns, and functions that resize batches."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from maxnorm.streams.prefetch import prefetch

Batch = Any  # two-dimensional, samples x features: an array, or a sparse matrix if the source is sparse
Columns = slice | int | str | Sequence[int | str] | None

NUMERIC_KINDS = "fiub"  # kinds of NumPy types that are numbers: floats, integers, unsigned integers, booleans
READ_ENTRIES = 2**20  # entries (samples x features) that are read at a time by default: 8 MB of float64
LARGEST_CHUNK_ENTRIES = 8 * READ_ENTRIES  # the largest chunk of a file that is worth reading as a whole


class StreamError(ValueError):
    """A source of samples cannot be read.

    The message names the source, the place and the reason. It is a ``ValueError``, so that code that expects
    one for bad data needs no change.

    See Also
    --------
    maxnorm.open_stream : Opens a source.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm import open_stream
    >>> open_stream(np.zeros((2, 3)), columns=["mass"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    maxnorm.streams.stream.StreamError: array: no column 'mass'; the columns have no names, so ...
    """


class NotInstalled(ImportError):
    """A file format or a collection needs an optional package that is not installed."""


@dataclass(frozen=True, eq=False)
class Stream:
    """A source of samples that is read batch by batch.

    Iterating over a stream yields batches: two-dimensional arrays of shape (rows, n_features), or sparse
    matrices if the source is sparse. Missing entries are NaN. Each iteration starts again at the first row.
    Estimators accept a stream wherever they accept an array.

    Use :func:`maxnorm.open_stream` to create a stream. The constructor is for sources that ``open_stream``
    does not support.

    Parameters
    ----------
    source : callable
        Function that takes a row number and returns an iterator over the batches from that row on. Rows are
        numbered from 0.
    title : str
        Name of the source in error messages, such as the path of a file.
    n_samples : int or None, default=None
        Number of samples in the source, or None if it is unknown.
    n_features : int or None, default=None
        Number of features of each sample, or None if it is unknown.
    names : tuple of str or None, default=None
        Names of the features, or None if they have no names.
    n_expected : int or None, default=None
        Estimated number of samples, for progress reports, where ``n_samples`` is unknown.
    repeatable : bool, default=True
        Whether the source can be read more than once. Iterators and standard input cannot.
    in_background : bool, default=True
        Whether :meth:`ahead` reads in a background thread. This is False for data in memory, where a thread
        gains nothing, and for iterables, whose code runs in the thread of the caller.
    remarks : tuple of str, default=()
        Decisions that the reader made on its own and that the user should know, such as a column of row
        labels that is left out.
    first : int, default=0
        Number of the row at which iteration starts.

    See Also
    --------
    maxnorm.open_stream : Opens a file, an array, a data frame or an iterable as a stream.

    Examples
    --------
    >>> import numpy as np
    >>> from maxnorm import open_stream
    >>> X = np.arange(10.0).reshape(5, 2)
    >>> stream = open_stream(X, batch_size=2)
    >>> stream.n_samples, stream.n_features
    (5, 2)
    >>> for batch in stream.from_row(2):
    ...     print(batch.tolist())
    [[4.0, 5.0], [6.0, 7.0]]
    [[8.0, 9.0]]
    """

    source: Callable[[int], Iterator[Batch]]
    title: str
    n_samples: int | None = None
    n_features: int | None = None
    names: tuple[str, ...] | None = None
    n_expected: int | None = None
    repeatable: bool = True
    in_background: bool = True
    remarks: tuple[str, ...] = ()
    first: int = 0

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches from row ``first`` on.

        Raises
        ------
        StreamError
            If the source cannot be read. Batches before the failure are yielded first.
        """
        row = self.first
        batches = self.source(row)
        while True:
            try:
                batch = next(batches, None)
            except (StreamError, NotInstalled):
                raise
            except MemoryError as error:
                raise out_of_memory(self.title, error) from error
            except Exception as error:  # each file library has exceptions of its own
                reason = getattr(error, "strerror", None) or error
                raise StreamError(f"{self.title}: cannot be read beyond row {row}: {reason}") from error
            if batch is None:
                return
            if batch.shape[0]:  # a part of a file, such as a row group, may be empty
                row += batch.shape[0]
                yield batch

    def ahead(self) -> Iterator[Batch]:
        """Return an iterator over the batches, read in advance by a background thread.

        The thread is used only if ``in_background`` is True.

        Returns
        -------
        iterator of batches
            Arrays or sparse matrices of shape (rows, n_features).
        """
        return prefetch(iter(self)) if self.in_background else iter(self)

    def from_row(self, first: int) -> Stream:
        """Return a stream over the same source that starts at another row.

        Parameters
        ----------
        first : int
            Number of the row to start at, counted from 0 at the beginning of the source. Rows before it are
            skipped without reading where the format allows it, and read and dropped elsewhere.

        Returns
        -------
        Stream
            A stream whose ``n_samples`` still counts all rows of the source.
        """
        return replace(self, first=first)

    def piece(self, batch: Batch, first: int) -> Stream:
        """Return one batch of this stream as a stream with the same title and names.

        Parameters
        ----------
        batch : array or sparse matrix of shape (rows, n_features)
            The batch.
        first : int
            Number of the first row of the batch within this stream, so that error messages about the piece
            name the rows of the source.

        Returns
        -------
        Stream
            A stream that yields ``batch`` and starts at row ``first``.
        """
        return Stream(
            lambda start: iter([batch[start - first :]]),
            self.title,
            n_samples=batch.shape[0],
            n_features=batch.shape[1],
            names=self.names,
            in_background=False,
            first=first,
        )


def rows_per_read(batch_size: int | None, n_features: int, rows_per_chunk: int = 1) -> int:
    """Return the number of rows to read at a time.

    This is ``batch_size``, unless it is None. Then it is the number of rows that hold about ``READ_ENTRIES``
    entries, as a multiple of ``rows_per_chunk``, so that no chunk of the file is read or decompressed twice.
    """
    if batch_size is not None:
        return batch_size
    rows = max(1, READ_ENTRIES // max(n_features, 1))
    # A file whose chunks span very many rows would have to be read as a whole. Reading its chunks repeatedly
    # costs time, but keeps memory bounded.
    if rows_per_chunk * n_features > LARGEST_CHUNK_ENTRIES:
        return rows
    return max(rows_per_chunk, rows - rows % rows_per_chunk)


def regroup(batches: Iterable[Batch], size: int | None) -> Iterator[Batch]:
    """Yield the rows of ``batches`` in batches of ``size`` rows, the last of which may have fewer.

    If ``size`` is None, the batches are yielded unchanged. If ``batches`` raises an exception, the rows
    before it are yielded first.
    """
    if size is None:
        yield from batches
        return
    parts: list[Batch] = []
    rows = 0
    try:
        for batch in batches:
            while batch.shape[0]:
                parts.append(batch[: size - rows])
                batch = batch[size - rows :]
                rows += parts[-1].shape[0]
                if rows == size:
                    yield stacked(parts)
                    parts, rows = [], 0
    except Exception:
        if parts:
            yield stacked(parts)
        raise
    if parts:
        yield stacked(parts)


def stacked(batches: list[Batch]) -> Batch:
    """Return the rows of one or more batches as one batch, which is sparse if the batches are."""
    if len(batches) == 1:
        return batches[0]
    import numpy as np  # here and not above, so that a wrong path is reported without waiting for it
    import scipy.sparse as sp

    return sp.csr_array(sp.vstack(batches)) if sp.issparse(batches[0]) else np.concatenate(batches)


def skip_rows(batches: Iterable[Batch], count: int) -> Iterator[Batch]:
    """Yield ``batches`` without their first ``count`` rows.

    This is for sources that can only be read from the beginning.
    """
    for batch in batches:
        if count < batch.shape[0]:
            yield batch[count:] if count else batch
        count = max(0, count - batch.shape[0])


def out_of_memory(title: str, error: MemoryError) -> StreamError:
    """Return the error to raise where a source does not fit into memory."""
    return StreamError(
        f"{title}: there is not enough memory to read it{f' ({error})' if str(error) else ''}; set "
        "batch_size to a smaller number, or select fewer columns"
    )


def needs(package: str, what: str, extra: str = "io") -> Any:
    """Import and return an optional package.

    Parameters
    ----------
    package : str
        Name of the module to import, such as ``"pyarrow.parquet"``.
    what : str
        The task that needs the package, as the subject of the error message: ``"reading Parquet"``.
    extra : str, default="io"
        The extra of this library that installs the package.

    Returns
    -------
    module

    Raises
    ------
    NotInstalled
        If the package cannot be imported. The message gives the command that installs it.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise NotInstalled(
            f"{what} needs {package.partition('.')[0]}: pip install 'maxnorm[{extra}]'"
        ) from error
