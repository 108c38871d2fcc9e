"""The command line: thin commands over the library."""

from typing import Any

import click

from maxnorm import __version__
from maxnorm.cli.apply import complete, decompose
from maxnorm.cli.common import interruptible
from maxnorm.cli.fit import fit
from maxnorm.cli.inspect import completion, inspect
from maxnorm.cli.paper import demo, reproduce


class Commands(click.Group):
    """Commands that Ctrl-C ends with the exit code that shells know."""

    def invoke(self, ctx: click.Context) -> Any:
        with interruptible("stopped"):
            return super().invoke(ctx)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 wrong data, model or disk, 2 wrong usage, 130 interrupted.",
)
@click.version_option(__version__, prog_name="maxnorm")
def main() -> None:
    """Streaming robust low-rank decomposition and completion with the max-norm."""


for command in (fit, decompose, complete, inspect, demo, reproduce, completion):
    main.add_command(command)
