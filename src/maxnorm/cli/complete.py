"""``maxnorm complete``: fill in the missing entries of data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from maxnorm.cli.errors import report_errors
from maxnorm.cli.files import check_inputs, check_outputs
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.options import (
    DataOptions,
    ModelOptions,
    data_options,
    json_option,
    model_options,
    overwrite_option,
    reject_with_model,
)
from maxnorm.cli.output import print_detail, print_message, print_summary
from maxnorm.cli.paths import ModelPath
from maxnorm.cli.results import ResultFile, check_result_formats, load_or_fit_model, write_results
from maxnorm.cli.verbosity import verbosity_options


@click.command(cls=SectionedCommand)
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
    type=ModelPath(),
    help="Model file written by `maxnorm fit --estimator completion`. By default, a model is first fitted to "
    "DATA.",
)
@model_options
@overwrite_option
@json_option
@verbosity_options
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

    A text file with one rating in each row (user, item, rating) is recognised as such. Its missing ratings
    are predicted, and the columns of users, items and ratings are written to the output.
    """
    if model_path is not None:
        reject_with_model(parameters)
    inputs = {"DATA": data, "--model": model_path}
    check_inputs(inputs)
    check_outputs({"--output": output}, inputs, overwrite=overwrite)
    with report_errors():
        from maxnorm.ratings import is_long_form

        check_result_formats([output])
        if model_path is None and columns is None and not transpose and is_long_form(data):
            print_summary(complete_ratings(Path(data), output, int(parameters["seed"])), as_json)
            return
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


def complete_ratings(data: Path, output: Path, seed: int) -> dict[str, Any]:
    """Predict the ratings that are missing in a file with one rating in each row."""
    import csv
    import math

    from maxnorm import Recommender
    from maxnorm.files import replacing
    from maxnorm.ratings import read_ratings

    if output.suffix.lower() not in (".csv", ".tsv"):
        raise click.ClickException(f"{output}: ratings are written as text; give a name that ends with .csv")
    table = read_ratings(data)
    user, item, rating = table.names
    print_message(
        f"{data} has one rating in each row: users are in column {user!r}, items in {item!r}, ratings in "
        f"{rating!r}. To read it as a matrix, give --columns"
    )
    gaps = [k for k, value in enumerate(table.values) if math.isnan(value)]
    if not gaps:
        raise click.ClickException(
            f"{data} has no missing ratings. Leave the cells of ratings to be predicted empty, or use "
            "`maxnorm recommend` to find what users would like"
        )
    print_detail(f"{len(table.values) - len(gaps):,} ratings, {len(gaps):,} missing")
    model = Recommender(random_state=seed).fit(table)
    values = table.values.copy()
    values[gaps] = model.predict([table.users[k] for k in gaps], [table.items[k] for k in gaps])
    with replacing(output) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t" if output.suffix.lower() == ".tsv" else ",")
        writer.writerow(table.names)
        writer.writerows(zip(table.users, table.items, (f"{value:.6g}" for value in values), strict=True))
    return {
        "ratings": len(values) - len(gaps),
        "users": len(model.ratings_.users),
        "items": len(model.ratings_.items),
        "predicted": len(gaps),
        "filled": str(output),
    }
