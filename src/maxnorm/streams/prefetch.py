"""Reading ahead: a background thread reads the next batches while the current one is processed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import Any

PREFETCHED_BATCHES = 2  # few, because every batch that waits takes memory
STOP_CHECK_SECONDS = 0.1
THREAD_JOIN_SECONDS = 5.0


def prefetch(batches: Iterator[Any], depth: int = PREFETCHED_BATCHES) -> Iterator[Any]:
    """Yield the items of an iterator, which a background thread reads in advance.

    Parameters
    ----------
    batches : iterator
        Source of the items. It runs in the background thread. None is not allowed as an item.
    depth : int, default=2
        Number of items that are kept ready. The thread holds one item more while it waits for room.

    Yields
    ------
    object
        The items of ``batches``, in the same order. An exception of ``batches`` is raised here, after the
        items that precede it.

    Notes
    -----
    Closing the generator stops the thread. If the thread is blocked in a slow source at that moment, it is
    abandoned after a few seconds; it is a daemon thread and does not keep the interpreter alive.
    """
    queue: Queue[tuple[Any, BaseException | None]] = Queue(depth)
    stop = threading.Event()

    def put(item: tuple[Any, BaseException | None]) -> bool:
        while not stop.is_set():
            try:
                queue.put(item, timeout=STOP_CHECK_SECONDS)
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
        except BaseException as error:  # raised again in the consumer's thread
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
        with suppress(Empty):  # make room for a thread that is blocked by a full queue
            while True:
                queue.get_nowait()
        thread.join(THREAD_JOIN_SECONDS)
