"""Signals that ask a command to end: Ctrl-C (SIGINT), SIGTERM, and SIGHUP when a terminal is closed.

All of them are handled alike: :class:`Interruption`, a KeyboardInterrupt, is raised where the command is.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interruption(KeyboardInterrupt):
    """A signal has asked the command to end."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number  # as in shells

    def __str__(self) -> str:
        return "interrupted" if self.exit_code == 128 + signal.SIGINT else f"ended by {self.args[0]}"


class _Handler:
    """The handler of the signals; it raises an Interruption unless signals are postponed."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.n_postponements = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        if not self.n_postponements:
            raise Interruption(number)


_handler = _Handler()


@contextmanager
def handle_signals() -> Iterator[None]:
    """Raise an Interruption when one of the signals arrives, except those that the caller's shell ignores."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    _handler.received = None
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, _handler)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def postpone_signals() -> Iterator[None]:
    """Let signals not interrupt the block; call :func:`check_signals` after it."""
    _handler.n_postponements += 1
    try:
        yield
    finally:
        _handler.n_postponements -= 1


def check_signals() -> None:
    """Raise an Interruption if a signal has arrived.

    This is also for signals at whose arrival an exception had no effect, because Python ignores those that
    are raised in finalisers and in callbacks of C libraries.
    """
    if _handler.received is not None:
        raise Interruption(_handler.received)
