"""A stream: something that yields batches of samples and knows, if it can, its length and names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from queue import Empty, Full, Queue
from typing import Any

import numpy as np
import scipy.sparse as sp

Batch = Any  # two-dimensional: an array, or a sparse matrix if the source is one
Columns = slice | int | str | Sequence[int | str] | None

BATCH_ENTRIES = 2**20  # entries of a batch, if nothing else is asked for: 8 MB
LARGEST_CHUNK = 8 * BATCH_ENTRIES  # of a file, that is read as one
ENOUGH_TO_END = 5.0  # seconds
AHEAD = 2  # batches that wait for the solver at most


class StreamError(ValueError):
    """What is wrong with a source of samples, and where."""


class NotInstalled(ImportError):
    """A format needs a package that is not there."""


@dataclass(frozen=True, eq=False)
class Stream:
    """Batches of samples, rows x features, with NaN for what is missing.

    Streams are made by :func:`maxnorm.open_stream`. Each iteration reads from the beginning.
    """

    source: Callable[[int], Iterator[Batch]]  #: given a row, yields batches from there on
    title: str  #: what messages call it
    n_samples: int | None = None  #: number of samples, if it is known
    n_features: int | None = None  #: number of features, if it is known
    names: tuple[str, ...] | None = None  #: names of the features, if they have any
    n_expected: int | None = None  #: estimated number of samples, where it is not known
    repeatable: bool = True  #: whether it can be read more than once
    in_background: bool = True  #: whether reading takes time that a thread of its own can take
    remarks: tuple[str, ...] = ()  #: what was decided on the reader's behalf
    first: int = 0  #: row at which it begins

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches; a row that cannot be read raises :class:`StreamError`."""
        row = self.first
        batches = self.source(row)
        while True:
            try:
                batch = next(batches, None)
            except (StreamError, NotInstalled):
                raise
            except Exception as error:  # each format's library has errors of its own
                reason = getattr(error, "strerror", None) or error
                raise StreamError(f"{self.title}: cannot be read beyond row {row}: {reason}") from error
            if batch is None:
                return
            if batch.shape[0]:  # parts of files may be empty
                row += batch.shape[0]
                yield batch

    def ahead(self) -> Iterator[Batch]:
        """Yield the same batches, read by a thread that stays ahead of whoever uses them."""
        return read_ahead(iter(self)) if self.in_background else iter(self)

    def from_row(self, first: int) -> Stream:
        """Return the same without the rows before ``first``: they are skipped, or read and dropped."""
        return replace(self, first=first)

    def piece(self, batch: Batch, first: int) -> Stream:
        """Return a batch that begins at some row as a stream of its own, with the same names."""
        return Stream(
            lambda start: iter([batch[start - first :]]),
            self.title,
            n_samples=batch.shape[0],
            n_features=batch.shape[1],
            names=self.names,
            in_background=False,
            first=first,
        )


def read_ahead(batches: Iterator[Batch], depth: int = AHEAD) -> Iterator[Batch]:
    """Yield what ``batches`` yields, computed in a thread that is at most ``depth`` batches ahead."""
    queue: Queue[tuple[Batch, BaseException | None]] = Queue(depth)
    stop = threading.Event()

    def put(item: tuple[Batch, BaseException | None]) -> bool:
        while not stop.is_set():
            try:
                queue.put(item, timeout=0.1)
            except Full:
                continue
            return True
        return False

    def read() -> None:
        try:
            for batch in batches:
                if not put((batch, None)):
                    return
            put((None, None))
        except BaseException as error:  # it is raised again where it can be heard
            put((None, error))

    thread = threading.Thread(target=read, name="maxnorm-reader", daemon=True)
    thread.start()
    try:
        while True:
            batch, error = queue.get()
            if error is not None:
                raise error
            if batch is None:
                return
            yield batch
    finally:
        stop.set()
        with suppress(Empty):  # it may be waiting for room
            while True:
                queue.get_nowait()
        thread.join(ENOUGH_TO_END)  # it may also be waiting for a slow source, and is left to that


def batch_rows(batch_size: int | None, n_features: int, multiple: int = 1) -> int:
    """Return how many rows to read at a time: as asked, or some megabytes in whole chunks of the file."""
    if batch_size is not None:
        return batch_size
    rows = max(1, BATCH_ENTRIES // max(n_features, 1))
    if (
        multiple * n_features > LARGEST_CHUNK
    ):  # chunks by columns: reading some twice is better than all at once
        return rows
    return max(multiple, rows - rows % multiple)


def regrouped(pieces: Iterable[Batch], size: int | None) -> Iterator[Batch]:
    """Yield arrays of ``size`` rows made from pieces of any length; as they come if no size is asked for."""
    if size is None:
        yield from pieces
        return
    held: list[Batch] = []
    rows = 0
    for piece in pieces:
        while piece.shape[0]:
            held.append(piece[: size - rows])
            piece = piece[size - rows :]
            rows += held[-1].shape[0]
            if rows == size:
                yield stacked(held)
                held, rows = [], 0
    if held:
        yield stacked(held)


def stacked(pieces: list[Batch]) -> Batch:
    """Return batches as one."""
    if len(pieces) == 1:
        return pieces[0]
    return sp.csr_array(sp.vstack(pieces)) if sp.issparse(pieces[0]) else np.concatenate(pieces)


def beyond(pieces: Iterable[Batch], start: int) -> Iterator[Batch]:
    """Yield pieces without their first ``start`` rows, for sources that must be read to be skipped."""
    for piece in pieces:
        if start < piece.shape[0]:
            yield piece[start:] if start else piece
        start = max(0, start - piece.shape[0])


def chosen(
    columns: Columns, names: Sequence[str] | None, n_features: int, title: str
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """Return positions of the columns asked for (None = all) and the names that they have."""
    if columns is None:
        return None, None if names is None else tuple(names)
    if isinstance(columns, slice):
        positions = np.arange(n_features)[columns]
    else:
        asked: list[Any] = [columns] if isinstance(columns, int | np.integer | str) else list(columns)
        if asked and all(isinstance(c, bool | np.bool_) for c in asked):
            if len(asked) != n_features:
                raise StreamError(f"{title}: columns is a mask of {len(asked)}, but there are {n_features}")
            asked = np.flatnonzero(asked).tolist()
        positions = np.array([_position(c, names, n_features, title) for c in asked], dtype=np.intp)
    if not len(positions):
        raise StreamError(f"{title}: columns={columns!r} chooses none of its {n_features} columns")
    return positions, None if names is None else tuple(names[i] for i in positions)


def _position(column: int | str, names: Sequence[str] | None, n_features: int, title: str) -> int:
    digits = isinstance(column, str) and column.removeprefix("-").isdecimal()
    if digits and (names is None or column not in names):
        column = int(column)
    if isinstance(column, str):
        if names is None or column not in names:
            shown = (
                "its columns have no names"
                if names is None
                else "there are "
                + ", ".join(chain(map(repr, names[:10]), ["..."] if len(names) > 10 else []))
            )
            raise StreamError(f"{title}: no column {column!r}; {shown}")
        return names.index(column)
    if not isinstance(column, int | np.integer):
        raise StreamError(f"{title}: no column {column!r}; columns are chosen by name or position")
    if not -n_features <= column < n_features:
        raise StreamError(f"{title}: no column {column}; there are {n_features}, counted from 0")
    return int(column) % n_features


def needs(package: str, what: str, extra: str = "io") -> Any:
    """Import a package of an extra, or say how to get it."""
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise NotInstalled(
            f"{what} needs {package.partition('.')[0]}: pip install 'maxnorm[{extra}]'"
        ) from error
