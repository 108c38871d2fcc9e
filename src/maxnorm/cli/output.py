"""Messages and summaries."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import click


def print_message(message: str) -> None:
    """Print a message on standard error, so that it is not mixed with results on standard output."""
    click.echo(printable(message), err=True)


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
