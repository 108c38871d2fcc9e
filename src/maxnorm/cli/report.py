"""``maxnorm report``: describe a model, and what it finds in data, on a page for the browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from maxnorm.cli.errors import report_errors, report_interruption
from maxnorm.cli.files import check_inputs, check_outputs
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.options import DataOptions, json_option, overwrite_option, reading_options
from maxnorm.cli.output import print_detail, print_summary
from maxnorm.cli.paths import ModelPath
from maxnorm.cli.progress import show_row_progress
from maxnorm.cli.verbosity import verbosity_options

if TYPE_CHECKING:
    from maxnorm.streams import Stream


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
@reading_options
@overwrite_option
@json_option
@verbosity_options
def report(
    model: Path,
    data: str | None,
    output: Path,
    columns: str | None,
    key: str | None,
    transpose: bool,
    header: bool | None,
    external: bool,
    overwrite: bool,
    as_json: bool,
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
    if data is None:
        reject_without_data("columns", "key", "transpose", "header", "external")
    with report_errors():
        from maxnorm import load

        start, estimator = time.monotonic(), load(model)
        print_detail(f"loaded {model}: {type(estimator).__name__}")
        summary: dict[str, Any] = {"model": str(model), "estimator": type(estimator).__name__}
        with report_interruption("no report was written"):
            if data is None:
                estimator.report(output, overwrite=overwrite)
            else:
                options = DataOptions(data, columns, key, transpose, header, external)
                summary["samples"] = report_on_data(estimator, options, output, overwrite)
    summary |= {"seconds": round(time.monotonic() - start, 3), "report": str(output)}
    print_summary(summary, as_json)


def reject_without_data(*names: str) -> None:
    """Raise an error if an option that describes DATA was given without it."""
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if parameter.name in names and given:
            raise click.UsageError(
                f"{parameter.opts[0]} describes DATA, which was not given: name a file after MODEL, or leave "
                "out the option"
            )


def report_on_data(estimator: Any, options: DataOptions, output: Path, overwrite: bool) -> int:
    """Write the report of a model on data, show the progress, and return the number of samples."""
    stream = options.open_stream(estimator)
    n_samples = 0

    def count(row: int) -> None:
        nonlocal n_samples
        n_samples = row
        progress.update(row)

    with show_row_progress("reading", stream.n_samples or stream.n_expected) as progress:
        estimator.report(output, counted_stream(stream, count), overwrite=overwrite)
    return n_samples


def counted_stream(stream: Stream, count: Callable[[int], None]) -> Stream:
    """Return a stream that calls ``count`` with the number of rows that were read."""

    def source(row: int) -> Iterator[Any]:
        for batch in stream.source(row):
            row += batch.shape[0]
            count(row)
            yield batch

    return replace(stream, source=source)
