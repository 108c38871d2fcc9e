"""Control of the number of threads that BLAS uses.

On small matrix products the threads of BLAS wait for each other longer than they compute.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from maxnorm.core.types import Array


class ThreadingRule(NamedTuple):
    """Constants of the decision between one BLAS thread and all of them.

    Attributes
    ----------
    least_work : int
        Products of fewer multiplications run on one thread without a trial. Such products were measured to
        be faster on one thread, and many times faster while another process keeps a core busy.
    never_threaded : int
        Products of fewer multiplications are computed on one thread by every BLAS, so that none need be set.
    trials : int
        Number of products that are timed; a single one is too short to be timed reliably.
    largest_share : float
        All threads are used if they need less than this share of the time of one thread. A smaller gain is
        not worth the cores that they occupy.
    """

    least_work: int = 20_000_000
    never_threaded: int = 2_000
    trials: int = 4
    largest_share: float = 0.9


THREADING = ThreadingRule()

_lock = threading.Lock()
_limits_in_use: list[Any] = []  # the limit that is in force, once for every caller that needs it


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside a ``with`` statement.

    The statement may be used by several Python threads at a time: the limit is lifted when the last of
    them leaves it. The number of BLAS threads is a setting of the whole process. If every caller restored the
    number it had found, the second of two overlapping callers would restore the limit of the first.
    """
    with _lock:
        limit = _limits_in_use[0] if _limits_in_use else _controller().limit(limits=1, user_api="blas")
        _limits_in_use.append(limit)
    try:
        yield
    finally:
        with _lock:
            _limits_in_use.pop()
            if not _limits_in_use:
                limit.restore_original_limits()


def limited_blas(rows: int, p: int, d: int) -> AbstractContextManager[object]:
    """Return a context that uses the faster of one BLAS thread and all of them.

    Small products always run on one thread. For large ones both are timed, because the answer depends on the
    current load of the machine: if another core is busy, threads that wait for each other take several
    times as long as a single one.

    Parameters
    ----------
    rows, p, d : int
        Sizes of the products in the context: a matrix of shape (rows, p) times one of shape (p, d).

    Returns
    -------
    context manager
        Context that limits BLAS to one thread, or does nothing.
    """
    work = rows * p * d
    if work < THREADING.least_work:
        return nullcontext() if work < THREADING.never_threaded else one_blas_thread()
    rows = -(-THREADING.least_work // (p * d))  # the smallest products for which the question arises
    X, L = np.ones((rows, p), dtype=np.float32), np.ones((p, d), dtype=np.float32)
    with one_blas_thread():
        single = _seconds(X, L)
    return nullcontext() if _seconds(X, L) < THREADING.largest_share * single else one_blas_thread()


def _seconds(X: Array, L: Array) -> float:
    """Return the time that a few products ``X @ L`` take."""
    X @ L  # the first product starts the threads and is not timed
    start = time.perf_counter()
    for _ in range(THREADING.trials):
        X @ L
    return time.perf_counter() - start
