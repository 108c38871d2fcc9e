"""``maxnorm report``: describe a model, and what it finds in data, on a page for the browser."""

from __future__ import annotations

from pathlib import Path

import click

from maxnorm.cli.errors import report_errors, report_interruption
from maxnorm.cli.files import check_inputs, check_outputs
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.options import DataOptions, overwrite_option
from maxnorm.cli.output import print_message
from maxnorm.cli.paths import ModelPath
from maxnorm.cli.verbosity import verbosity_options


@click.command(cls=SectionedCommand, short_help="Describe a model and what it finds in data on a page.")
@click.argument("model", type=ModelPath())
@click.argument("data", type=click.Path(allow_dash=True), required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The page to write.",
)
@click.option(
    "--columns",
    metavar="COLUMNS",
    help="Features to use: names or positions, counted from 0 and separated by commas, or a range of "
    "positions such as 1:20. By default, all columns, or those with the names of the model's features.",
)
@click.option("--key", metavar="NAME", help="Name of the array to read, in a file that holds several.")
@overwrite_option
@verbosity_options
def report(
    model: Path, data: str | None, output: Path, columns: str | None, key: str | None, overwrite: bool
) -> None:
    """Describe the model in the file MODEL, and what it finds in DATA, on an HTML page.

    MODEL is written by `maxnorm fit` or by the method save of an estimator. The page shows the components and
    the noise of the features. With DATA, a file of any size or - for CSV on standard input, it also shows
    where the gross errors are, and the features and samples most affected. It needs no other file and no
    network.
    """
    inputs = {"MODEL": model, "DATA": data}
    check_inputs(inputs)
    check_outputs({"--output": output}, inputs, overwrite=overwrite)
    if data is None and (columns is not None or key is not None):
        raise click.UsageError("--columns and --key describe DATA, which was not given")
    with report_errors():
        from maxnorm import load

        estimator = load(model)
        if not hasattr(estimator, "report"):
            raise click.ClickException(
                f"{model} holds a {type(estimator).__name__}, for which there is no report; pass the model "
                "of a decomposition, a completion or an anomaly detector"
            )
        options = None if data is None else DataOptions(data, columns, key, False, None)
        with report_interruption("no report was written"):
            source = None if options is None else options.open_stream(estimator)
            estimator.report(output, source, overwrite=overwrite)
    print_message(f"report: {output}")
