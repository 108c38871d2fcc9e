"""Dask collections as blocks of samples: what is asked of them is computed where they live.

The sums of the learner add up, so they can be taken anywhere: a round sends the basis out, measures
blocks in parallel, adds their contributions up in a tree, and brings one sum home. Nothing here depends on
how many workers there are or which of them is faster, so neither does the model. The basis is part of the
graph of its round and the state stays with the caller: a worker that dies takes nothing along that cannot
be computed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, takewhile
from operator import add
from typing import Any
from uuid import uuid4

import numpy as np
import scipy.sparse as sp

from maxnorm.core.blas import one_blas_thread
from maxnorm.core.norms import DivergenceError
from maxnorm.streams.stream import Stream, StreamError, needs

WORTH_OPTIMISING = 50  # blocks that Dask can look at in the time that one of them takes
FAN_IN = 8  # sums that a task of the tree adds up
VERSION = "__import__('maxnorm').__version__"  # to be asked of workers that may not have it
ATTEMPTS = 3  # at a round of which a task has lost several workers, for instance to a lack of memory
PAUSE = 1.0  # seconds until then, in which Dask forgets the failure and finds new workers


class BlockError(StreamError):
    """A block cannot be used; the message says which."""


@dataclass(frozen=True)
class Blocks:
    """The samples of a Dask array or data frame, in blocks of whole rows.

    The collection is a Dask array, of which the chunks may be pandas data frames or sparse matrices.

    Functions of blocks get each of them as a :class:`Stream`, and arguments that are sent out once.
    """

    collection: Any
    rows: tuple[int | None, ...]  # of each block; None if that is known only when it is computed
    starts: tuple[int | None, ...]  # the row at which each begins
    n_features: int
    names: tuple[str, ...] | None
    dtype: np.dtype[Any]
    is_sparse: bool

    @classmethod
    def of(cls, X: Any) -> Blocks:
        """Look at a collection without computing any of it."""
        needs("dask.array", "a Dask collection", "dask")
        if X.ndim != 2:
            raise StreamError(
                f"the Dask collection: has {X.ndim} dimensions; samples x features are expected, so reshape "
                "it to two dimensions"
            )
        names: tuple[str, ...] | None = None
        if hasattr(X, "npartitions") and hasattr(X, "columns"):  # a data frame: its partitions as chunks
            words = all(isinstance(name, str) for name in X.columns)
            names = tuple(X.columns) if words else None  # as scikit-learn has it
            single = len(X.columns) > 0 and all(dtype == np.float32 for dtype in X.dtypes)
            like = np.empty((0, len(X.columns)), dtype=object)
            X = X.map_partitions(_itself, meta=like, enforce_metadata=False)
        else:
            if not hasattr(X, "blocks"):
                raise StreamError("the Dask array: array.query-planning is not supported; set it to False")
            if np.isnan(X.shape[1]):
                raise StreamError(
                    "the Dask array: its number of columns is not known; compute_chunk_sizes() finds it"
                )
            X = X.rechunk({1: -1})
            single = X.dtype == np.float32
        rows = tuple(None if np.isnan(n) else int(n) for n in X.chunks[0])
        known = list(takewhile(lambda n: n is not None, rows))
        starts = (*accumulate(known, initial=0), *(None for _ in rows[len(known) + 1 :]))[: len(rows)]
        dtype = np.dtype(np.float32 if single else np.float64)
        return cls(X, rows, starts, int(X.shape[1]), names, dtype, sp.issparse(X._meta))

    def __len__(self) -> int:
        return len(self.rows)

    def apply(self, function: Callable[..., Any], i: int, *arguments: Any) -> Any:
        """Compute ``function(block, *arguments)`` of one block."""
        call = self._call(function, arguments, i, [self._place(i)])
        return self._computed(lambda: _chunks(self.collection, call)[0], call)

    def total(self, function: Callable[..., Any], first: int, each: Sequence[Any], *arguments: Any) -> Any:
        """Compute the sum of ``function(block, one of each, *arguments)`` over consecutive blocks.

        It is taken in a tree, whose shape depends on nothing but the number of blocks; None adds nothing.
        """
        from dask.delayed import delayed

        places = [self._place(first + i, own) for i, own in enumerate(each)]
        call = self._call(function, arguments, first, places)

        def tree() -> Any:
            level = _chunks(self.collection, call)
            while len(level) > 1:
                groups = range(0, len(level), FAN_IN)
                level = [delayed(_sum, pure=False)(*level[i : i + FAN_IN]) for i in groups]
            return level[0]

        return self._computed(tree, call)

    def lazily(self, function: Callable[..., Any], outputs: Sequence[Output], *arguments: Any) -> list[Any]:
        """Return Dask arrays of the parts of ``function(block, *arguments)``, a tuple of arrays."""
        whole = _called(self.collection, self._call(function, arguments))
        parts = [
            whole.map_blocks(_piece, k, o.width, chunks=(whole.chunks[0], (o.width,)), meta=o.empty)
            for k, o in enumerate(outputs)
        ]
        return [part if o.is_matrix else part[:, 0] for part, o in zip(parts, outputs, strict=True)]

    def _computed(self, lazy: Callable[[], Any], call: Call) -> Any:
        try:
            with _graphs_larger_by(call.size):
                return _patiently(lazy)
        except (BlockError, DivergenceError):
            raise
        except Exception as error:  # of whatever is behind a block
            title, more = call.places[0].title, len(call.places) - 1
            which = f"{title} or one of the {more} after it" if more else title
            raise BlockError(f"{which}: cannot be computed: {error}") from error

    def _call(
        self, function: Callable[..., Any], arguments: Any, first: int = 0, places: Sequence[Place] = ()
    ) -> Call:
        import cloudpickle

        size = 0
        with suppress(Exception):  # threads can do without
            size = len(cloudpickle.dumps((function, arguments, places)))
        return Call(function, arguments, self.names, self.n_features, first, places, size)

    def _place(self, i: int, *own: Any) -> Place:
        first, n = self.starts[i], self.rows[i]
        rows = "" if first is None or not n else f" (rows {first} to {first + n - 1})"
        return Place(f"block {i}{rows}", first or 0, own)


@dataclass(frozen=True)
class Output:
    """A lazy result: a matrix with so many columns, or a vector with a number for each sample."""

    dtype: Any  # that of the data if it is None
    width: int = 1
    is_matrix: bool = True

    def with_dtype(self, dtype: Any) -> Output:
        """Return the same output with a given precision."""
        return replace(self, dtype=dtype)

    @property
    def empty(self) -> Any:
        """The result for no samples, vectors as columns."""
        return np.empty((0, self.width), dtype=self.dtype)


@dataclass(frozen=True)
class Place:
    """Which block it is, the row at which it begins if that is known, and what is for it alone."""

    title: str
    first: int
    own: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Call:
    """A function of blocks, and all that it needs beside them."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    names: tuple[str, ...] | None
    n_features: int
    first: int  # number of the block that has the first of the places
    places: Sequence[Place]
    size: int  # in bytes

    def __sizeof__(self) -> int:  # Dask asks before it moves one
        return self.size


def _called(X: Any, call: Call) -> Any:
    """Return a Dask array whose chunks are what a call says of each chunk, whatever that is.

    The call is a key of the graph: it is sent once, and again if the worker that has it dies.
    """
    from dask.delayed import delayed

    shared = delayed(call, name=f"maxnorm-{uuid4().hex}", traverse=False)
    chunks = (X.chunks[0], (1,))
    return X.map_blocks(_answer, call=shared, chunks=chunks, meta=np.empty((0, 1), dtype=object))


def _graphs_larger_by(size: int) -> Any:
    """Let Dask warn of large graphs as ever, but not because of what every round has to send."""
    import dask
    from dask.utils import parse_bytes

    name = "distributed.admin.large-graph-warning-threshold"
    limit: int = parse_bytes(dask.config.get(name, "10MB"))
    return dask.config.set({name: limit + size})


def _chunks(X: Any, call: Call) -> list[Any]:
    """Return lazy answers for the chunks that a call has places for."""
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    first, last = call.first, call.first + len(call.places)
    if WORTH_OPTIMISING * len(call.places) < X.numblocks[0]:
        return list(np.ravel(_called(X.blocks[first:last], replace(call, first=0)).to_delayed()))
    # Optimised from the whole array on, reading a block and looking at it are one task, so that no block need
    # move. That takes time for every block there is, so it is for rounds that have a good part of them.
    called = _called(X, call)
    keys = [(called.name, i, 0) for i in range(first, last)]
    layer = f"round-{called.name}"
    tasks = called.__dask_optimize__(called.__dask_graph__(), keys)
    graph = HighLevelGraph.from_collections(layer, tasks, dependencies=())
    return [Delayed(key, graph, layer=layer) for key in keys]  # type: ignore[no-untyped-call]


def _itself(frame: Any) -> Any:
    return frame


def _answer(block: Any, call: Call, block_id: tuple[int, ...]) -> Any:
    """Call a function of a block on a worker; what goes wrong with the data says where."""
    i = block_id[0] - call.first
    place = call.places[i] if call.places else Place(f"block {i}", 0)
    if getattr(block, "ndim", None) != 2 or block.shape[1] != call.n_features:
        has = f"{block.shape[1]} features" if getattr(block, "ndim", None) == 2 else "no rows and columns"
        raise BlockError(f"{place.title}: has {has} where {call.n_features} features are expected")
    stream = Stream(
        lambda _: iter([block]),
        place.title,
        n_samples=block.shape[0],
        names=call.names,
        in_background=False,
        first=place.first,
    )
    try:
        with one_blas_thread():  # workers have as many as there are cores
            return call.function(stream, *place.own, *call.arguments)
    except (ValueError, TypeError) as error:
        message = str(error)
        raise BlockError(message if place.title in message else f"{place.title}: {message}") from error


def _piece(answer: Any, k: int, width: int) -> Any:
    return answer[k].reshape(len(answer[k]), width)


def _sum(*terms: Any) -> Any:
    there = [term for term in terms if term is not None]
    return reduce(add, there) if there else None


def _patiently(lazy: Callable[[], Any]) -> Any:
    """Compute a lazy value, again if workers die under it more often than Dask puts up with.

    It is made anew each time: Dask remembers what has failed by its name.
    """
    with one_blas_thread():  # Dask has a thread for each core if there is no cluster
        for _ in range(ATTEMPTS - 1):
            try:
                return lazy().compute()
            except _killed_worker():
                time.sleep(PAUSE)
        return lazy().compute()


def check_workers(version: str) -> None:
    """Say so if workers do not have this library: they could only die of what they are sent."""
    from dask.base import get_scheduler

    client: Any = getattr(get_scheduler(), "__self__", None)  # type: ignore[no-untyped-call]
    if not hasattr(client, "run"):  # no cluster
        return
    for worker, found in client.run(eval, VERSION, on_error="return").items():
        if isinstance(found, ImportError) or (isinstance(found, str) and found != version):
            has = f"maxnorm {found}" if isinstance(found, str) else "no maxnorm"
            raise RuntimeError(f"worker {worker} has {has}; install maxnorm {version} on all workers")


def _killed_worker() -> type[BaseException] | tuple[()]:
    try:
        from distributed import KilledWorker
    except ImportError:  # without it there are no workers
        return ()
    return KilledWorker
