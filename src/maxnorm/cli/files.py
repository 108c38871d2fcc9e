"""Checks of the files that a command reads and writes, before it does any work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from maxnorm.cli.output import printable
from maxnorm.files import check_replaceable

STANDARD_INPUT = "-"

Files = Mapping[str, Path | str | None]
"""The names of arguments, and their values; None for those that are not given."""


def check_inputs(inputs: Files) -> None:
    """Raise an error if a file to read does not exist; the check takes no time, unlike the reading."""
    for file in inputs.values():
        if file is not None and file != STANDARD_INPUT and not Path(file).exists():
            raise click.ClickException(printable(f"{file}: there is no such file"))


def check_outputs(outputs: Files, inputs: Files, *, overwrite: bool) -> None:
    """Raise an error if a file cannot be written, is to be read as well, or exists.

    ``overwrite`` allows files that exist, but never those that are read.
    """
    earlier = _given(inputs)
    for argument, path in _given(outputs).items():
        check_writable(path)
        for other, file in earlier.items():
            if _is_same_file(path, file):
                raise click.UsageError(f"{other} and {argument} are the same file, {path}")
            if file.is_dir() and path.resolve().is_relative_to(file.resolve()):
                raise click.UsageError(f"{argument} is in the folder of {other}, {file}: use another folder")
        if path.exists() and not overwrite:
            raise click.ClickException(f"{path} already exists: use --overwrite to replace it")
        earlier[argument] = path


def check_writable(path: Path) -> None:
    """Raise an error if no file can be written to ``path``."""
    try:
        check_replaceable(path)
    except OSError as error:
        raise click.ClickException(str(error)) from error


def _given(files: Files) -> dict[str, Path]:
    return {name: Path(file) for name, file in files.items() if file is not None and file != STANDARD_INPUT}


def _is_same_file(first: Path, second: Path) -> bool:
    """Return whether two paths name the same file, also through links or before it exists."""
    if first.exists() and second.exists():
        return first.samefile(second)
    return first.resolve() == second.resolve()
