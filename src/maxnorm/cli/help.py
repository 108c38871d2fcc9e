"""The help texts of commands: options under headings, and colours if the terminal has them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

import click

READING, MODEL, MESSAGES = "Reading the data", "Model", "Messages"
SECTION_NAMES = {
    READING: "columns exclude external header item_column key rating_column time_column transpose "
    "user_column",
    MODEL: "alarm_rate biases drift epochs estimator half_life lags lambda1 lambda2 min_area noise rank "
    "seed sensitivity",
    MESSAGES: "as_json help quiet verbose",
}
OPTION_SECTIONS = {name: title for title, names in SECTION_NAMES.items() for name in names.split()}
"""The headings under which the help shows options, by the names of parameters; others are under "Options"."""


def has_colours() -> bool:
    """Return whether standard output is a terminal with colours, and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class ColouredFormatter(click.HelpFormatter):
    """A formatter that highlights headings, and the names of commands and options."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, _style(prefix or "Usage: ", bold=True, fg="yellow"))

    def write_heading(self, heading: str) -> None:
        super().write_heading(_style(heading, bold=True, fg="yellow"))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(_style(name, fg="cyan"), text) for name, text in rows], col_max, col_spacing)


def _style(text: str, *, bold: bool = False, fg: str) -> str:
    return click.style(text, bold=bold or None, fg=fg) if has_colours() else text


class HelpContext(click.Context):
    """A context whose help texts are formatted by :class:`ColouredFormatter`."""

    formatter_class = ColouredFormatter


class SectionedCommand(click.Command):
    """A command whose help shows options under headings."""

    context_class = HelpContext

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], READING: [], MODEL: [], MESSAGES: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections[OPTION_SECTIONS.get(parameter.name or "", "Options")].append(record)
        write_sections(formatter, sections)


def write_sections(formatter: click.HelpFormatter, sections: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Write lists of names and explanations, each under its heading; empty lists are left out."""
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
