"""The options ``--quiet`` and ``--verbose``: how much a command says beside its results and errors."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import click

VERBOSITY = "maxnorm.verbosity"
"""Key of the metadata of a context under which the chosen verbosity is stored: "quiet" or "verbose"."""
START = "maxnorm.start"
"""Key of the time at which the command was started."""


def verbosity_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options ``--quiet`` and ``--verbose``, whose values are stored in the context."""
    for decorate in (
        click.option(
            "-v",
            "--verbose",
            is_flag=True,
            expose_value=False,
            callback=_store,
            help="Also print what was read, what was chosen and how long it took, and the traceback of an "
            "error.",
        ),
        click.option(
            "-q",
            "--quiet",
            is_flag=True,
            expose_value=False,
            callback=_store,
            help="Print only results and errors: no progress, notes and warnings.",
        ),
    ):
        command = decorate(command)
    return command


def _store(context: click.Context, parameter: click.Parameter, is_given: bool) -> None:
    context.meta.setdefault(START, time.monotonic())
    if not is_given:
        return
    if context.meta.setdefault(VERBOSITY, parameter.name) != parameter.name:
        raise click.UsageError("--quiet and --verbose contradict each other: leave out one of them")
    if parameter.name == "quiet":
        context.with_resource(warnings.catch_warnings())
        warnings.simplefilter("ignore")


def _is_chosen(verbosity: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(VERBOSITY) == verbosity


def is_quiet() -> bool:
    """Return whether the current command was called with ``--quiet``."""
    return _is_chosen("quiet")


def is_verbose() -> bool:
    """Return whether the current command was called with ``--verbose``."""
    return _is_chosen("verbose")


def seconds_since_start() -> float:
    """Return how long the current command has been running."""
    now = time.monotonic()
    return now - float(click.get_current_context().meta.get(START, now))
