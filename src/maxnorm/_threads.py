"""BLAS threads: two of them on a small product wait for each other longer than they compute."""

import time
from contextlib import AbstractContextManager, nullcontext
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from maxnorm._typing import Array

# Below this many multiply-adds a product is faster on one thread, and far faster when a core is busy.
WORTH_THREADS = 20_000_000


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def limited_blas(rows: int, p: int, d: int) -> AbstractContextManager[object]:
    """Keep BLAS to one thread, unless products of rows x p with p x d matrices are faster on all of them now.

    Whether they are depends on what else the machine is doing: with another core busy, threads that
    wait for each other take several times as long as one. So large products are tried both ways first.
    """
    one: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    if rows * p * d < WORTH_THREADS:
        return one
    rows = -(-WORTH_THREADS // (p * d))
    X, L = np.ones((rows, p), dtype=np.float32), np.ones((p, d), dtype=np.float32)
    with one:
        alone = _seconds(X, L)
    if _seconds(X, L) < 0.9 * alone:
        return nullcontext()
    again: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return again


def _seconds(X: Array, L: Array) -> float:
    X @ L  # wakes the threads
    start = time.perf_counter()
    for _ in range(4):
        X @ L
    return time.perf_counter() - start
