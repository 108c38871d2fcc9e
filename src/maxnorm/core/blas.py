"""BLAS threads: two of them on a small product wait for each other longer than they compute."""

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from maxnorm.core.types import Array

# Below this many multiply-adds a product is faster on one thread, and far faster when a core is busy.
WORTH_THREADS = 20_000_000

_lock = threading.Lock()
_holding: list[Any] = []  # the limit, once for every thread of ours that wants it


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread until the last of those who asked for it, in any thread, is done.

    The number of threads belongs to the process: if each put back what it had found, the one that came
    second would put back a limit that was not there at first.
    """
    with _lock:
        limit = _holding[0] if _holding else _controller().limit(limits=1, user_api="blas")
        _holding.append(limit)
    try:
        yield
    finally:
        with _lock:
            _holding.pop()
            if not _holding:
                limit.restore_original_limits()


def limited_blas(rows: int, p: int, d: int) -> AbstractContextManager[object]:
    """Keep BLAS to one thread, unless products of rows x p with p x d matrices are faster on all of them now.

    Whether they are depends on what else the machine is doing: with another core busy, threads that
    wait for each other take several times as long as one. So large products are tried both ways first.
    """
    if rows * p * d < WORTH_THREADS:
        return one_blas_thread()
    rows = -(-WORTH_THREADS // (p * d))
    X, L = np.ones((rows, p), dtype=np.float32), np.ones((p, d), dtype=np.float32)
    with one_blas_thread():
        alone = _seconds(X, L)
    return nullcontext() if _seconds(X, L) < 0.9 * alone else one_blas_thread()


def _seconds(X: Array, L: Array) -> float:
    X @ L  # wakes the threads
    start = time.perf_counter()
    for _ in range(4):
        X @ L
    return time.perf_counter() - start
