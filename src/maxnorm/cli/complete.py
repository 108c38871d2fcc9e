"""``maxnorm complete``: fill in the missing entries of data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from maxnorm.cli.errors import report_errors
from maxnorm.cli.files import check_inputs, check_outputs
from maxnorm.cli.options import (
    DataOptions,
    ModelOptions,
    data_options,
    json_option,
    model_options,
    overwrite_option,
    reject_with_model,
)
from maxnorm.cli.output import print_summary
from maxnorm.cli.results import ResultFile, check_result_formats, load_or_fit_model, write_results


@click.command()
@data_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Write DATA with its missing entries filled in to this file. The suffix selects the format: .npy, "
    ".csv, .tsv (both also with .gz), .parquet or .h5.",
)
@click.option(
    "--model",
    "model_path",
    type=click.Path(path_type=Path),
    help="Model file written by `maxnorm fit --estimator completion`. By default, a model is first fitted to "
    "DATA.",
)
@model_options
@overwrite_option
@json_option
def complete(
    data: str,
    columns: str | None,
    key: str | None,
    transpose: bool,
    header: bool | None,
    external: bool,
    output: Path,
    model_path: Path | None,
    overwrite: bool,
    as_json: bool,
    **parameters: Any,
) -> None:
    """Fill in the missing entries of DATA.

    DATA is a file of any size, or - for CSV on standard input, which requires --model. Empty cells, NA and
    NaN are missing entries; they are replaced by the predictions of a low-rank model. Observed entries are
    not changed.
    """
    if model_path is not None:
        reject_with_model(parameters)
    inputs = {"DATA": data, "--model": model_path}
    check_inputs(inputs)
    check_outputs({"--output": output}, inputs, overwrite=overwrite)
    with report_errors():
        check_result_formats([output])
        source = DataOptions(data, columns, key, transpose, header, external)
        model, stream = load_or_fit_model(model_path, ModelOptions("completion", **parameters), source)
        if type(model).__name__ != "MaxNormCompletion":
            raise click.ClickException(
                f"{model_path} holds a {type(model).__name__}, which cannot fill in missing entries: "
                "give a model fitted with --estimator completion"
            )
        summary = write_results(
            stream,
            {"filled": ResultFile(output, stream.names)},
            lambda batch: {"filled": model.transform(batch)},
        )
        print_summary(summary, as_json)
