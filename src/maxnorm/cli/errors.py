"""Errors and interruptions of a command, reported in one line and with a documented exit code."""

from __future__ import annotations

import importlib.util
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import click

from maxnorm.cli.interruption import Interruption
from maxnorm.cli.output import print_error, printable
from maxnorm.cli.verbosity import is_verbose


@contextmanager
def report_errors() -> Iterator[None]:
    """Report errors about data, models and disks in one line, without a traceback."""
    try:
        yield
    except (ValueError, TypeError, ImportError) as error:
        raise click.ClickException(printable(str(error))) from error
    except MemoryError as error:
        raise click.ClickException(f"not enough memory: {error}; use a smaller --rank") from error
    except BrokenPipeError:  # the program that reads the output has closed it, and click ends quietly
        raise
    except OSError as error:
        prefix = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(printable(f"{prefix}{error.strerror or error}")) from error


@contextmanager
def report_interruption(consequence: str = "") -> Iterator[None]:
    """Print which signal has ended the command, with the consequence, and exit with the code of the signal.

    The code is 128 plus the number of the signal, as in shells: 130 for Ctrl-C and 143 for SIGTERM.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        interruption = error if isinstance(error, Interruption) else Interruption()
        print_error(f"{interruption}; {consequence}" if consequence else str(interruption))
        raise click.exceptions.Exit(interruption.exit_code) from None


def print_traceback(error: click.ClickException) -> None:
    """Print the traceback of what has caused an error, if the command was called with ``--verbose``."""
    cause = error.__cause__ or error.__context__
    if cause is not None and is_verbose():
        print_error("".join(traceback.format_exception(cause)).rstrip("\n"))


def require_matplotlib() -> None:
    """Raise an error that says how to install matplotlib, if it is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise click.ClickException(
            "matplotlib is required to draw figures: install it with pip install 'maxnorm[plot]'"
        )
