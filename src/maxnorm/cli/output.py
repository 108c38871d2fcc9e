"""Messages, summaries, and checks of the files that a command writes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click


def print_message(message: str) -> None:
    """Print a message on standard error, so that it is not mixed with results on standard output."""
    click.echo(message, err=True)


def print_summary(summary: Mapping[str, Any], as_json: bool) -> None:
    """Print a summary on standard output, as an aligned table or as JSON."""
    if as_json:
        click.echo(json.dumps(_replace_non_finite(summary), indent=2, allow_nan=False, default=str))
        return
    width = max(map(len, summary))
    for name, value in summary.items():
        click.echo(f"{name:{width}}  {_format_value(value)}")


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


def check_writable(path: Path) -> None:
    """Raise an error before any work is done, if no file can be written to ``path``."""
    if not path.parent.is_dir():
        raise click.ClickException(f"cannot write {path}: {path.parent} is not a folder")
    if path.is_dir():
        raise click.ClickException(f"cannot write {path}: it is a folder")
    if not os.access(path.parent, os.W_OK):
        raise click.ClickException(f"cannot write {path}: {path.parent} is read-only")


def check_distinct_files(files: Mapping[str, Path | str | None]) -> None:
    """Raise an error if two arguments of a command name the same file.

    ``files`` maps the name of each argument to its value. Arguments that are not given (None) and standard
    input (``"-"``) are ignored.
    """
    arguments: dict[Path, str] = {}
    for argument, file in files.items():
        if file is None or file == "-":
            continue
        path = Path(file).resolve()
        if path in arguments:
            raise click.UsageError(f"{arguments[path]} and {argument} are the same file, {file}")
        arguments[path] = argument
