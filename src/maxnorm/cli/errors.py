"""Errors and interruptions of a command, reported in one line and with a documented exit code."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

import click

from maxnorm.cli.output import print_message

EXIT_INTERRUPTED = 130
"""Exit code of a command that was stopped with Ctrl-C: 128 plus the number of SIGINT, as in shells."""


@contextmanager
def report_errors() -> Iterator[None]:
    """Report errors about data, models and disks in one line, without a traceback."""
    try:
        yield
    except (ValueError, TypeError, ImportError) as error:
        raise click.ClickException(str(error)) from error
    except MemoryError as error:
        raise click.ClickException(f"not enough memory: {error}; use a smaller --rank") from error
    except BrokenPipeError:  # the program that reads the output has closed it, and click ends quietly
        raise
    except OSError as error:
        prefix = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{prefix}{error.strerror or error}") from error


@contextmanager
def report_interrupt(message: str) -> Iterator[None]:
    """Print ``message`` on Ctrl-C, and exit with code 130."""
    try:
        yield
    except KeyboardInterrupt:
        print_message(message)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None


def require_matplotlib() -> None:
    """Raise an error that says how to install matplotlib, if it is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise click.ClickException(
            "matplotlib is required to draw figures: install it with pip install 'maxnorm[plot]'"
        )
