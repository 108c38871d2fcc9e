"""``maxnorm decompose``: separate data into a low-rank part and gross errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maxnorm.cli.errors import report_errors
from maxnorm.cli.files import check_inputs, check_outputs
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.options import (
    DataOptions,
    ModelOptions,
    data_options,
    estimator_option,
    json_option,
    model_options,
    overwrite_option,
    reject_with_model,
)
from maxnorm.cli.output import print_summary
from maxnorm.cli.paths import ModelPath
from maxnorm.cli.results import ResultFile, check_result_formats, load_or_fit_model, write_results
from maxnorm.cli.verbosity import verbosity_options

if TYPE_CHECKING:
    from maxnorm.core.types import Array
    from maxnorm.estimators import Decomposition
    from maxnorm.streams import Stream


@click.command(cls=SectionedCommand)
@data_options
@click.option(
    "--model",
    "model_path",
    type=ModelPath(),
    help="Model file written by `maxnorm fit`. By default, a model is first fitted to DATA.",
)
@click.option(
    "--repaired",
    type=click.Path(path_type=Path),
    help="Write the data to this file, with gross errors and gaps replaced and all other values unchanged.",
)
@click.option(
    "--low-rank",
    type=click.Path(path_type=Path),
    help="Write the low-rank part, in which every value is replaced, to this file.",
)
@click.option(
    "--noise", "noise_path", type=click.Path(path_type=Path), help="Write the gross errors to this file."
)
@click.option(
    "--coefficients",
    type=click.Path(path_type=Path),
    help="Write the coefficients of each sample, one column per component, to this file.",
)
@click.option(
    "--scores",
    type=click.Path(path_type=Path),
    help="Write a score of each sample to this file; the lowest scores mark outliers.",
)
@estimator_option("decomposition", "robust-pca")
@model_options
@overwrite_option
@json_option
@verbosity_options
def decompose(
    data: str,
    columns: str | None,
    key: str | None,
    transpose: bool,
    header: bool | None,
    external: bool,
    model_path: Path | None,
    repaired: Path | None,
    low_rank: Path | None,
    noise_path: Path | None,
    coefficients: Path | None,
    scores: Path | None,
    overwrite: bool,
    as_json: bool,
    **parameters: Any,
) -> None:
    """Separate DATA into a low-rank part and gross errors.

    DATA is a file of any size, or - for CSV on standard input, which requires --model. At least one of
    --repaired, --low-rank, --noise, --coefficients and --scores must be given. The suffix of each file
    selects its format: .npy, .csv, .tsv (both also with .gz), .parquet or .h5. Results are computed and
    written batch by batch, so that memory does not grow with the number of samples.
    """
    requested = {
        "repaired": repaired,
        "low_rank": low_rank,
        "noise": noise_path,
        "coefficients": coefficients,
        "scores": scores,
    }
    paths = {name: path for name, path in requested.items() if path is not None}
    if not paths:
        raise click.UsageError(
            "no output file was given: use at least one of --repaired, --low-rank, --noise, --coefficients "
            "and --scores"
        )
    if model_path is not None:
        reject_with_model(parameters)
    inputs = {"DATA": data, "--model": model_path}
    check_inputs(inputs)
    outputs = {f"--{name.replace('_', '-')}": path for name, path in paths.items()}
    check_outputs(outputs, inputs, overwrite=overwrite)
    with report_errors():
        check_result_formats(paths.values())
        source = DataOptions(data, columns, key, transpose, header, external)
        model, stream = load_or_fit_model(model_path, ModelOptions(**parameters), source)
        if "scores" in paths and not hasattr(model, "score_samples"):
            raise click.ClickException(
                f"{model_path} holds a {type(model).__name__}, which cannot score samples: leave out --scores"
            )
        column_names = {
            "repaired": stream.names,
            "low_rank": stream.names,
            "noise": stream.names,
            "coefficients": model.get_feature_names_out() if "coefficients" in paths else None,
            "scores": ["score"],
        }

        def compute(batch: Stream) -> dict[str, Array]:
            results: dict[str, Array] = {}
            if paths.keys() - {"scores"}:
                parts = model.decompose(batch)
                results = {name: getattr(parts, name) for name in paths if name in parts._fields}
                if "repaired" in paths:
                    results["repaired"] = repair(batch, parts)
            if "scores" in paths:
                results["scores"] = model.score_samples(batch)
            return results

        files = {name: ResultFile(path, column_names[name]) for name, path in paths.items()}
        print_summary(write_results(stream, files, compute), as_json)


def repair(batch: Stream, parts: Decomposition) -> Array:
    """Return the samples of a batch with gross errors and missing entries replaced by the low-rank part."""
    import numpy as np
    import scipy.sparse as sp

    from maxnorm.streams.stream import stacked

    X = stacked(list(batch))
    X = X.toarray() if sp.issparse(X) else X
    return np.where((parts.noise != 0.0) | np.isnan(X), parts.low_rank, X)
