"""Dask collections as blocks of samples, and functions that are computed on the workers that hold the blocks.

The contributions of batches can be added, so they can be measured anywhere. A round sends the basis to the
workers, measures the blocks in parallel, adds their contributions in a tree and returns one sum to the
client. The result does not depend on the number of workers or on their speed. The basis is part of the graph
of its round, and the state stays on the client. If a worker dies, everything that it held can therefore be
computed again.
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
from maxnorm.dask.sealing import Guarded, Sealed, open_once
from maxnorm.streams.memory import require_two_dimensions
from maxnorm.streams.stream import Stream, StreamError, needs


@dataclass(frozen=True)
class GraphRule:
    """How the graph of a round is built.

    Optimising the graph of the whole collection fuses reading a block with measuring it, but costs time for
    every block of the collection. Dask optimises about fifty blocks in the time in which a worker measures
    one, so that only rounds with a fiftieth of the blocks or more are worth it. Smaller rounds select their
    blocks first.
    """

    least_share: float = 1 / 50  #: least share of the blocks for which the whole graph is optimised
    fan_in: int = 8  #: terms that one task of the tree adds


@dataclass(frozen=True)
class RetryRule:
    """How often a round is computed if its workers die, for instance because their memory is exhausted.

    Dask itself repeats a task a few times before it gives up. During the pause it removes the dead workers
    and starts new ones.
    """

    attempts: int = 3  #: attempts in all
    pause: float = 1.0  #: seconds between two attempts


GRAPH = GraphRule()
RETRIES = RetryRule()

# Workers evaluate this text. A function of this library could not be sent to a worker that lacks the library.
VERSION_EXPRESSION = "__import__('maxnorm').__version__"


class BlockError(StreamError):
    """A block cannot be used; the message names the block and the reason."""


@dataclass(frozen=True)
class Blocks:
    """The samples of a Dask array or data frame, in blocks of whole rows.

    The methods :meth:`apply`, :meth:`total` and :meth:`map_lazily` take a function of a block. The function
    receives the block as a :class:`~maxnorm.streams.Stream` and further arguments, which are sent to each
    worker once.
    """

    collection: Any  #: a Dask array, whose chunks may be arrays, pandas data frames or sparse matrices
    rows: tuple[int | None, ...]  #: number of rows of each block; None if it is unknown before computing
    starts: tuple[int | None, ...]  #: number of the first row of each block; None if it is unknown
    n_features: int
    names: tuple[str, ...] | None  #: names of the features; None if they have no names
    dtype: np.dtype[Any]  #: precision of the samples, float32 or float64
    is_sparse: bool  #: whether the chunks are sparse matrices

    @classmethod
    def of(cls, X: Any) -> Blocks:
        """Return the blocks of a Dask array or data frame, without computing any of them.

        Raises
        ------
        StreamError
            If the collection does not have two dimensions, or its number of columns is unknown.
        """
        needs("dask.array", "a Dask collection", "dask")
        require_two_dimensions(_shape(X), "the Dask collection")
        names: tuple[str, ...] | None = None
        if hasattr(X, "npartitions") and hasattr(X, "columns"):  # a data frame: one chunk per partition
            # As in scikit-learn, columns have names only if all of their labels are strings.
            all_strings = all(isinstance(name, str) for name in X.columns)
            names = tuple(X.columns) if all_strings else None
            is_single = len(X.columns) > 0 and all(dtype == np.float32 for dtype in X.dtypes)
            meta = np.empty((0, len(X.columns)), dtype=object)
            X = X.map_partitions(Guarded(_identity), meta=meta, enforce_metadata=False)
        else:
            if not hasattr(X, "blocks"):
                raise StreamError(
                    "the Dask array: the Dask setting array.query-planning is not supported; set it to False"
                )
            if np.isnan(X.shape[1]):
                raise StreamError(
                    "the Dask array: its number of columns is unknown; call its method compute_chunk_sizes() "
                    "first"
                )
            X = X.rechunk({1: -1})
            is_single = X.dtype == np.float32
        rows = tuple(None if np.isnan(n) else int(n) for n in X.chunks[0])
        known = list(takewhile(lambda n: n is not None, rows))
        starts = (*accumulate(known, initial=0), *(None for _ in rows[len(known) + 1 :]))[: len(rows)]
        dtype = np.dtype(np.float32 if is_single else np.float64)
        return cls(X, rows, starts, int(X.shape[1]), names, dtype, sp.issparse(X._meta))

    def __len__(self) -> int:
        return len(self.rows)

    def apply(self, function: Callable[..., Any], i: int, *arguments: Any) -> Any:
        """Compute ``function(block, *arguments)`` for block number ``i``."""
        call = self._make_call(function, arguments, i, [self._place(i)])
        return self._compute(lambda: _lazy_results(self.collection, call)[0], call)

    def total(self, function: Callable[..., Any], first: int, each: Sequence[Any], *arguments: Any) -> Any:
        """Compute the sum of ``function(block, item, *arguments)`` over consecutive blocks.

        Parameters
        ----------
        function : callable
            Function of a block. A result of None adds nothing to the sum.
        first : int
            Number of the first block.
        each : sequence
            One item for each block, from block number ``first`` on.
        *arguments : object
            Arguments that are the same for all blocks.

        Returns
        -------
        object
            The sum, or None if all results are None. It is taken in a tree whose shape depends only on the
            number of blocks, so that rounding does not depend on the workers.
        """
        from dask.delayed import delayed

        places = [self._place(first + i, item) for i, item in enumerate(each)]
        call = self._make_call(function, arguments, first, places)

        def lazy_sum() -> Any:
            level = _lazy_results(self.collection, call)
            while len(level) > 1:
                groups = range(0, len(level), GRAPH.fan_in)
                level = [delayed(Guarded(_add), pure=False)(*level[i : i + GRAPH.fan_in]) for i in groups]
            return level[0]

        return self._compute(lazy_sum, call)

    def map_lazily(
        self, function: Callable[..., Any], outputs: Sequence[Output], *arguments: Any
    ) -> list[Any]:
        """Return Dask arrays of the results of ``function(block, *arguments)``, which are not computed yet.

        The function returns a tuple of arrays, one for each of the ``outputs``.
        """
        results = _map_call(self.collection, self._make_call(function, arguments), _apply_call)
        parts = [
            results.map_blocks(
                Guarded(_select_output), k, o.width, chunks=(results.chunks[0], (o.width,)), meta=o.empty
            )
            for k, o in enumerate(outputs)
        ]
        return [part if o.is_matrix else part[:, 0] for part, o in zip(parts, outputs, strict=True)]

    def _compute(self, make_lazy: Callable[[], Any], call: Call) -> Any:
        """Compute the lazy sealed value that ``make_lazy`` returns; errors name the blocks of the call."""
        try:
            with _allow_larger_graph(call.size):
                return _compute_with_retries(make_lazy)()
        except (BlockError, DivergenceError):
            raise
        except Exception as error:  # reading a block may raise anything
            title, others = call.places[0].title, len(call.places) - 1
            which = f"{title} or one of the next {others} blocks" if others else title
            raise BlockError(f"{which}: cannot be computed: {error}") from error

    def _make_call(
        self, function: Callable[..., Any], arguments: Any, first_block: int = 0, places: Sequence[Place] = ()
    ) -> Call:
        import cloudpickle

        size = 0
        with suppress(Exception):  # only processes need to pickle; threads share what cannot be pickled
            size = len(cloudpickle.dumps((function, arguments, places)))
        return Call(function, arguments, self.names, self.n_features, first_block, places, size)

    def _place(self, i: int, *arguments: Any) -> Place:
        start, n = self.starts[i], self.rows[i]
        rows = "" if start is None or not n else f" (rows {start} to {start + n - 1})"
        return Place(f"block {i}{rows}", start or 0, arguments)


@dataclass(frozen=True)
class Output:
    """The type of a lazy result: a matrix, or a vector with one number per sample."""

    dtype: Any  #: precision; None for that of the data
    width: int = 1  #: number of columns of a matrix
    is_matrix: bool = True

    def with_dtype(self, dtype: Any) -> Output:
        """Return the same output with another precision."""
        return replace(self, dtype=dtype)

    @property
    def empty(self) -> Any:
        """The result for a block without samples; a vector is a matrix with one column."""
        return np.empty((0, self.width), dtype=self.dtype)


@dataclass(frozen=True)
class Place:
    """The position of a block in the collection, and the arguments for this block alone."""

    title: str  #: name of the block in error messages
    first_row: int  #: number of its first row; zero if that is unknown
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Call:
    """A function of blocks, and everything that a worker needs to call it."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]  #: arguments that are the same for all blocks
    names: tuple[str, ...] | None  #: names of the features
    n_features: int
    first_block: int  #: number of the block that the first place belongs to
    places: Sequence[Place]  #: one place per block; empty if the function is applied to all blocks
    size: int  #: size in bytes


def _shape(X: Any) -> tuple[Any, ...]:
    """Return the shape of a Dask collection, with NaN for lengths that are unknown, as in Dask arrays."""
    return tuple(n if isinstance(n, int | float) else float("nan") for n in X.shape)


def _map_call(X: Any, call: Call, apply: Callable[..., Any]) -> Any:
    """Return a Dask array whose chunks are the results of ``apply`` for the chunks of X and a call.

    The call is a key of the graph, so that it is sent to each worker once, and again if the worker dies.
    """
    from dask.delayed import delayed

    shared = delayed(Sealed(call), name=f"maxnorm-{uuid4().hex}", traverse=False)
    chunks = (X.chunks[0], (1,))
    return X.map_blocks(Guarded(apply), call=shared, chunks=chunks, meta=np.empty((0, 1), dtype=object))


def _allow_larger_graph(size: int) -> Any:
    """Return a context in which the size from which Dask warns of large graphs is larger by ``size`` bytes.

    Every round has to send the basis, which is no reason for a warning. Data in the graph still are.
    """
    import dask.config
    from dask.utils import parse_bytes

    name = "distributed.admin.large-graph-warning-threshold"
    limit: int = parse_bytes(dask.config.get(name, "10MB"))
    return dask.config.set({name: limit + size})


def _lazy_results(X: Any, call: Call) -> list[Any]:
    """Return the lazy sealed results of a call for the chunks of X that it has places for."""
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    first, last = call.first_block, call.first_block + len(call.places)
    if len(call.places) < GRAPH.least_share * X.numblocks[0]:
        chosen = _map_call(X.blocks[first:last], replace(call, first_block=0), _apply_and_seal)
        return list(np.ravel(chosen.to_delayed()))
    # If the graph of the whole array is optimised, reading a block and measuring it become one task, and no
    # block moves between workers.
    results = _map_call(X, call, _apply_and_seal)
    keys = [(results.name, i, 0) for i in range(first, last)]
    layer = f"round-{results.name}"
    tasks = results.__dask_optimize__(results.__dask_graph__(), keys)
    graph = HighLevelGraph.from_collections(layer, tasks, dependencies=())
    return [Delayed(key, graph, layer=layer) for key in keys]  # type: ignore[no-untyped-call]


def _identity(frame: Any) -> Any:
    """Return a partition of a data frame unchanged, as a chunk of an array."""
    return frame


def _apply_and_seal(block: Any, call: Any, block_id: tuple[int, ...]) -> Sealed:
    """Apply a call to a block, and seal the result, which may move to other workers."""
    return Sealed(_apply_call(block, call, block_id))


def _apply_call(block: Any, call: Any, block_id: tuple[int, ...]) -> Any:
    """Apply the function of a sealed call to a block, on a worker; errors in the data name the block."""
    call = open_once(call)
    i = block_id[0] - call.first_block
    place = call.places[i] if call.places else Place(f"block {i}", 0)
    try:
        require_two_dimensions(getattr(block, "shape", ()), place.title)
        n_samples, n_features = block.shape
        if n_features != call.n_features:
            raise ValueError(f"has {n_features} features, but {call.n_features} features are expected")
        stream = Stream(
            lambda _: iter([block]),
            place.title,
            n_samples=n_samples,
            names=call.names,
            in_background=False,
            first=place.first_row,
        )
        with one_blas_thread():  # a worker already has one thread per core
            return call.function(stream, *place.arguments, *call.arguments)
    except (ValueError, TypeError) as error:
        message = str(error)
        raise BlockError(message if place.title in message else f"{place.title}: {message}") from error


def _select_output(results: Any, k: int, width: int) -> Any:
    """Return output number ``k`` of the results for a block, as a matrix with ``width`` columns."""
    return results[k].reshape(len(results[k]), width)


def _add(*terms: Any) -> Sealed:
    """Return the sum of the sealed terms that are not None; None if there are none. The sum is sealed too."""
    present = [term for sealed in terms if (term := sealed()) is not None]
    return Sealed(reduce(add, present) if present else None)


def _compute_with_retries(make_lazy: Callable[[], Any]) -> Any:
    """Compute the lazy value that ``make_lazy`` returns, again if Dask gives up because workers have died.

    The value is made anew for each attempt, because Dask remembers by its name that it has failed.
    """
    with one_blas_thread():  # without a cluster, Dask computes in one thread per core of this process
        for _ in range(RETRIES.attempts - 1):
            try:
                return make_lazy().compute()
            except _killed_worker():
                time.sleep(RETRIES.pause)
        return make_lazy().compute()


def check_workers(version: str) -> None:
    """Raise an error if a worker that is there now lacks this version of the library.

    Workers that join later are checked by every task (:mod:`maxnorm.dask.sealing`).

    Parameters
    ----------
    version : str
        The version of the library on the client.

    Raises
    ------
    RuntimeError
        If a worker has another version, or cannot import the library.
    """
    from dask.base import get_scheduler

    client: Any = getattr(get_scheduler(), "__self__", None)  # type: ignore[no-untyped-call]
    if not hasattr(client, "run") or client.asynchronous:  # no cluster, or no answer before this returns
        return
    for worker, found in client.run(eval, VERSION_EXPRESSION, on_error="return").items():
        if isinstance(found, ImportError) or (isinstance(found, str) and found != version):
            installed = f"maxnorm {found}" if isinstance(found, str) else "no maxnorm"
            raise RuntimeError(f"worker {worker} has {installed}; install maxnorm {version} on all workers")


def _killed_worker() -> type[BaseException] | tuple[()]:
    """Return the exception that Dask raises when it gives up a task whose workers have died."""
    try:
        from distributed import KilledWorker
    except ImportError:  # there are no workers without distributed
        return ()
    return KilledWorker
