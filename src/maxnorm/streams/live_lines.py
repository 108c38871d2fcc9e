"""Lines of standard input or of a pipe, which arrive while they are read."""

from __future__ import annotations

import codecs
import io
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, NamedTuple

from maxnorm.streams.stream import StreamError

if TYPE_CHECKING:
    from maxnorm.streams.text_files import BatchLimits

READ_BYTES = 2**16
WAITING_READS = 16  # reads that wait for the consumer: a megabyte at most
LAST_READ_SECONDS = 0.1  # for which a last read is waited for after Ctrl-C
CHECK_SECONDS = 0.2  # how often a thread that waits looks up, so that it can be stopped on every system


def _do_nothing() -> None:
    pass


while_waiting: Callable[[], None] = _do_nothing
"""Function that is called again and again while input is waited for.

A program that lets signals interrupt nothing but the waiting replaces it by a function that raises a
KeyboardInterrupt if a signal has arrived.
"""


class RawSource(NamedTuple):
    """A source of bytes."""

    read: Callable[[int], bytes]  #: waits for bytes and returns at most so many; none at the end
    close: Callable[[], None]


class LiveLines:
    """The lines of standard input or of a pipe.

    A background thread waits for input, so that the lines that have arrived can be returned while no further
    ones arrive, and so that Ctrl-C works.

    Parameters
    ----------
    source : Path, RawSource or None
        The pipe, or any other source of bytes. None stands for standard input.
    title : str
        Name of the source in error messages.
    longest_line : int
        Largest number of characters in a line.

    Raises
    ------
    StreamError
        If standard input is closed.
    """

    def __init__(self, source: Path | RawSource | None, title: str, longest_line: int) -> None:
        self._title = title
        self._longest_line = longest_line
        self._lines: deque[str] = deque()
        self._incomplete: list[str] = []  # parts of the last line
        self._failure: BaseException | None = None
        self._is_at_end = False
        self._decoder = io.IncrementalNewlineDecoder(
            codecs.getincrementaldecoder("utf-8-sig")(), translate=True
        )
        self._reads: Queue[bytes | Exception] = Queue(WAITING_READS)
        stop = threading.Event()
        weakref.finalize(self, stop.set)
        raw = source if isinstance(source, RawSource) else _open_raw(source)
        arguments = (*raw, self._reads, stop)
        threading.Thread(target=_pump, args=arguments, name="maxnorm-input", daemon=True).start()

    def read(self, limits: BatchLimits) -> tuple[list[str], BaseException | None]:
        """Return the next lines, and the exception that ended them, or None.

        This waits for a line as long as necessary, and then for further lines as long as the limits allow. At
        the end of the input, no lines are returned. A last line may lack its line end. On Ctrl-C, the lines
        that have arrived are returned first.
        """
        try:
            while not self._lines and not self._is_at_end:
                self._receive(CHECK_SECONDS)
            end = time.monotonic() + limits.seconds
            while len(self._lines) < limits.lines and not self._is_at_end and time.monotonic() < end:
                self._receive(min(CHECK_SECONDS, end - time.monotonic()))
        except KeyboardInterrupt as interruption:
            self._take_in(LAST_READ_SECONDS)
            for _ in range(WAITING_READS):
                self._take_in(0.0)
            self.end_with(interruption)
        block = [self._lines.popleft() for _ in range(min(limits.lines, len(self._lines)))]
        return block, None if self._lines else self._failure

    def put_back(self, lines: Iterable[str]) -> None:
        """Return lines, which are then the next ones to be read."""
        self._lines.extendleft(reversed(list(lines)))

    def end_with(self, failure: BaseException | None) -> None:
        """End the input, with an exception unless it is None, after the lines that are put back."""
        self._failure, self._is_at_end = failure, True

    def _receive(self, seconds: float) -> None:
        """Wait for input, unless the program is interrupted, and divide it into lines."""
        while_waiting()
        self._take_in(seconds)

    def _take_in(self, seconds: float) -> None:
        """Divide the next input into lines, if it arrives in time."""
        try:
            content = self._reads.get(timeout=max(0.0, seconds))
        except Empty:
            return
        try:
            if isinstance(content, Exception):
                raise content
            text = self._decoder.decode(content, final=not content)
        except (OSError, ValueError) as error:
            self._failure, self._is_at_end = error, True
            return
        first, *others = text.split("\n")
        self._incomplete.append(first)
        for line in others:
            self._lines.append("".join(self._incomplete) + "\n")
            self._incomplete = [line]
        if sum(map(len, self._incomplete)) > self._longest_line:
            self._failure, self._is_at_end = line_too_long(self._title, self._longest_line), True
        if not content:
            self._is_at_end = True
            self._lines.extend(filter(None, ["".join(self._incomplete)]))


def line_too_long(title: str, longest_line: int) -> StreamError:
    """Return the error to raise for a line that does not end."""
    return StreamError(
        f"{title}: a line has more than {longest_line} characters; write one sample per line, or use a "
        "binary format such as .npy"
    )


def _open_raw(path: Path | None) -> RawSource:
    """Return a pipe or standard input as a source of bytes.

    Standard input is read from its file descriptor. Its buffered reader has a lock, and Python aborts if a
    background thread holds it at the end of the program.
    """
    if path is not None:
        descriptor = os.open(path, os.O_RDONLY)
        return RawSource(lambda count: os.read(descriptor, count), lambda: os.close(descriptor))
    if sys.stdin is None or sys.stdin.closed:
        raise StreamError(
            "standard input is closed; pass the path of a file, or connect a pipe to this command"
        )
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, AttributeError):  # replaced by an object in memory
        source = sys.stdin
        buffer = getattr(source, "buffer", None)
        read = (lambda count: source.read(count).encode()) if buffer is None else buffer.read
        return RawSource(read, lambda: None)
    return RawSource(lambda count: os.read(descriptor, count), lambda: None)


def _pump(
    read: Callable[[int], bytes],
    close: Callable[[], None],
    reads: Queue[bytes | Exception],
    stop: threading.Event,
) -> None:
    """Read until the end, which is put into the queue as empty bytes, or until an error."""
    content: bytes | Exception = b"-"
    try:
        while content and not isinstance(content, Exception) and not stop.is_set():
            try:
                content = read(READ_BYTES)
            except (OSError, ValueError) as error:
                content = error
            while not stop.is_set():
                try:
                    reads.put(content, timeout=CHECK_SECONDS)
                    break
                except Full:
                    continue
    finally:
        close()
