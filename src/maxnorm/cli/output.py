"""Messages and summaries."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import click

from maxnorm.cli.verbosity import is_quiet, is_verbose, seconds_since_start


def print_message(message: str) -> None:
    """Print a note or a warning on standard error, unless the command was called with ``--quiet``."""
    if not is_quiet():
        print_error(message)


def print_error(message: str) -> None:
    """Print a message on standard error, so that it is not mixed with results on standard output."""
    click.echo(printable(message), err=True)


def print_detail(message: str) -> None:
    """Print what the command is doing and the time since its start, if it was called with ``--verbose``."""
    if is_verbose():
        print_error(f"[{seconds_since_start():8.2f} s] {message}")


def printable(text: str) -> str:
    """Return text in which control characters are escaped.

    Names and texts from files must not move the cursor, change the title of the window or send keys.
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def print_summary(summary: Mapping[str, Any], as_json: bool) -> None:
    """Print a summary on standard output, as an aligned table or as JSON."""
    if as_json:
        click.echo(json.dumps(_replace_non_finite(summary), indent=2, allow_nan=False, default=str))
        return
    width = max(map(len, summary))
    for name, value in summary.items():
        click.echo(printable(f"{name:{width}}  {_format_value(value)}"))


def _format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _replace_non_finite(value: Any) -> Any:
    """Return ``value`` with None in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, Mapping):
        return {key: _replace_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_non_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
