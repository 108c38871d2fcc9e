"""The command ``maxnorm``: one module per subcommand, each a thin layer over the library.

Modules of this package import the library, NumPy and Rich inside functions, so that ``maxnorm --help`` and
shell completion start quickly.
"""

from typing import Any

import click

from maxnorm import __version__
from maxnorm.cli.clean import clean
from maxnorm.cli.complete import complete
from maxnorm.cli.decompose import decompose
from maxnorm.cli.demo import demo
from maxnorm.cli.errors import report_interruption
from maxnorm.cli.fit import fit
from maxnorm.cli.inspect import inspect
from maxnorm.cli.interruption import handle_signals
from maxnorm.cli.recommend import recommend
from maxnorm.cli.reproduce import reproduce
from maxnorm.cli.shell_completion import completion
from maxnorm.cli.video import video
from maxnorm.cli.watch import watch


class InterruptibleGroup(click.Group):
    """A group of commands that end in good order on Ctrl-C, SIGTERM and SIGHUP."""

    def invoke(self, ctx: click.Context) -> Any:
        with handle_signals(), report_interruption():
            return super().invoke(ctx)


@click.group(
    cls=InterruptibleGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success; 1 an error in the data, in a model file or on the disk; 2 incorrect "
    "usage; 130 interrupted with Ctrl-C; 143 ended by SIGTERM.",
)
@click.version_option(__version__, prog_name="maxnorm")
def main() -> None:
    """Separate clean structure from spikes, outliers and gaps, in data larger than memory.

    The data are modelled as the sum of a low-rank part and gross errors. The model is learnt from a stream of
    samples, with max-norm or nuclear-norm regularisation.
    """


for command in (
    clean,
    watch,
    video,
    fit,
    decompose,
    complete,
    recommend,
    inspect,
    demo,
    reproduce,
    completion,
):
    main.add_command(command)
