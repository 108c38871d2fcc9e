"""BLAS threads: two of them on a small product wait for each other longer than they compute."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController

# Below this many multiply-adds a product is faster on one thread, and far faster when a core is busy.
WORTH_THREADS = 20_000_000


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def limited_blas(multiply_adds: int) -> AbstractContextManager[object]:
    """Keep BLAS to one thread, unless products of this size are worth more."""
    if multiply_adds >= WORTH_THREADS:
        return nullcontext()
    limit: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limit
