"""The command ``maxnorm``: one module per subcommand, each a thin layer over the library.

Modules of this package import the library, NumPy and Rich inside functions, so that ``maxnorm --help`` and
shell completion start quickly.
"""

from typing import Any

import click

from maxnorm.cli.clean import clean
from maxnorm.cli.complete import complete
from maxnorm.cli.decompose import decompose
from maxnorm.cli.demo import demo
from maxnorm.cli.errors import print_traceback, report_interruption
from maxnorm.cli.fit import fit
from maxnorm.cli.help import HelpContext, write_sections
from maxnorm.cli.inspect import inspect
from maxnorm.cli.interruption import handle_signals
from maxnorm.cli.recommend import recommend
from maxnorm.cli.report import report
from maxnorm.cli.reproduce import reproduce
from maxnorm.cli.shell_completion import completion
from maxnorm.cli.video import video
from maxnorm.cli.watch import watch

SECTIONS = {
    "Clean and watch": (clean, watch, video),
    "Learn and apply": (fit, decompose, complete, recommend),
    "Models": (inspect, report),
    "Demonstration and paper": (demo, reproduce),
    "Shell": (completion,),
}
"""The headings of ``maxnorm --help``, and the commands below them."""

EXIT_CODES = {
    0: "success",
    1: "an error in the data, in a model file or on the disk, or a package that is not installed",
    2: "incorrect usage: an option or argument is unknown, missing or wrong",
    129: "ended by SIGHUP, because the terminal was closed",
    130: "interrupted with Ctrl-C",
    143: "ended by SIGTERM",
}
"""The exit codes of all commands, and their meaning."""


class InterruptibleGroup(click.Group):
    """A group of commands that end in good order on Ctrl-C, SIGTERM and SIGHUP."""

    context_class = HelpContext

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        cmd.context_class = HelpContext
        super().add_command(cmd, name)

    def invoke(self, ctx: click.Context) -> Any:
        with handle_signals(), report_interruption():
            try:
                return super().invoke(ctx)
            except click.ClickException as error:
                print_traceback(error)
                raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under the headings of SECTIONS, then the exit codes."""
        width = formatter.width - 6 - max(map(len, self.commands))
        listed = {command.name for commands in SECTIONS.values() for command in commands}
        others = [command for name, command in self.commands.items() if name not in listed]
        sections = {
            title: [(command.name or "", command.get_short_help_str(width)) for command in commands]
            for title, commands in {**SECTIONS, "Other commands": others}.items()
        }
        sections["Exit codes"] = [(str(code), meaning) for code, meaning in EXIT_CODES.items()]
        write_sections(formatter, sections)


def print_version(context: click.Context, _: click.Parameter, is_given: bool) -> None:
    """Print the version and end the program; the version is looked up only if it is asked for."""
    if is_given and not context.resilient_parsing:
        import maxnorm

        click.echo(f"maxnorm, version {maxnorm.__version__}")
        context.exit()


@click.group(
    cls=InterruptibleGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`maxnorm COMMAND --help` explains a command. `maxnorm completion --help` says how to "
    "complete commands, options and files with the Tab key.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Print the version and exit.",
)
def main() -> None:
    """Separate clean structure from spikes, outliers and gaps, in data larger than memory.

    The data are modelled as the sum of a low-rank part and gross errors. The model is learnt from a stream of
    samples, with max-norm or nuclear-norm regularisation.
    """


for commands in SECTIONS.values():
    for command in commands:
        main.add_command(command)
