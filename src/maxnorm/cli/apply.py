"""``maxnorm decompose`` and ``maxnorm complete``: read with a model, and write as it goes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maxnorm.cli.common import (
    Settings,
    Source,
    all_different,
    data_options,
    estimator_option,
    interruptible,
    json_option,
    model_options,
    none_given,
    open_data,
    plain_errors,
    progress_bar,
    say,
    show,
    writable,
)

if TYPE_CHECKING:
    from maxnorm.core.types import Array
    from maxnorm.streams import Stream

FILE = click.Path(path_type=Path)
Results = Callable[["Stream"], Mapping[str, "Array"]]  # of a piece of the stream, by name


@click.command()
@data_options
@click.option(
    "--model", "path", type=FILE, help="What `maxnorm fit` has learnt; without it DATA is learnt first."
)
@click.option("--low-rank", type=FILE, help="Where to write the low-rank part.")
@click.option("--noise", "noise_file", type=FILE, help="Where to write the gross errors.")
@click.option("--coefficients", type=FILE, help="Where to write the coefficients of the components.")
@click.option(
    "--scores", type=FILE, help="Where to write a score for each sample: the higher, the more normal."
)
@estimator_option("decomposition", "robust-pca")
@model_options
@json_option
def decompose(
    data: str,
    columns: str | None,
    key: str | None,
    transpose: bool,
    header: bool | None,
    path: Path | None,
    low_rank: Path | None,
    noise_file: Path | None,
    coefficients: Path | None,
    scores: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Split DATA into a low-rank part and gross errors, row by row.

    Results are written while they are computed, in the format that their name says: .npy, .csv, .tsv (also
    .gz), .parquet or .h5. Nothing is ever whole in memory.
    """
    wanted = {"low_rank": low_rank, "noise": noise_file, "coefficients": coefficients, "scores": scores}
    files = {name: writable(file) for name, file in wanted.items() if file is not None}
    if not files:
        raise click.UsageError("say what to write: --low-rank, --noise, --coefficients or --scores")
    all_different(
        **{"--model": path}, **{f"--{name.replace('_', '-')}": file for name, file in wanted.items()}
    )
    if path is not None:
        none_given(settings, "with --model, which has its own")
    with plain_errors():
        _known_formats(files)
        stream = open_data(Source(data, columns, key, transpose, header))
        model = _model(path, Settings(**settings), stream)
        if not hasattr(model, "decompose"):
            raise click.ClickException(f"{path} holds a {type(model).__name__}, which does not decompose")
        names = {
            "low_rank": stream.names,
            "noise": stream.names,
            "coefficients": model.get_feature_names_out() if "coefficients" in files else None,
            "scores": ["score"],
        }

        def results(piece: Stream) -> dict[str, Array]:
            found: dict[str, Array] = {}
            if files.keys() - {"scores"}:
                parts = model.decompose(piece)._asdict()
                found = {name: parts[name] for name in files if name != "scores"}
            if "scores" in files:
                found["scores"] = model.score_samples(piece)
            return found

        show(_written(stream, files, names, results), as_json)


@click.command()
@data_options
@click.option("-o", "--output", type=FILE, required=True, help="Where to write DATA with its gaps filled.")
@click.option("--model", "path", type=FILE, help="What `maxnorm fit --estimator completion` has learnt.")
@model_options
@json_option
def complete(
    data: str,
    columns: str | None,
    key: str | None,
    transpose: bool,
    header: bool | None,
    output: Path,
    path: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Fill in what is missing in DATA: empty cells, NA or NaN. What is there stays as it is.

    Without --model the model is learnt from DATA first.
    """
    writable(output)
    all_different(**{"--model": path, "--output": output})
    if path is not None:
        none_given(settings, "with --model, which has its own")
    with plain_errors():
        _known_formats({"filled": output})
        stream = open_data(Source(data, columns, key, transpose, header))
        model = _model(path, Settings("completion", **settings), stream)
        if type(model).__name__ != "MaxNormCompletion":
            raise click.ClickException(
                f"{path} is a {type(model).__name__}, which does not fill in; fit with --estimator completion"
            )
        summary = _written(
            stream,
            {"filled": output},
            {"filled": stream.names},
            lambda piece: {"filled": model.transform(piece)},
        )
        show(summary, as_json)


def _known_formats(files: Mapping[str, Path]) -> None:
    """Make sure that results can be written before any work is done."""
    from maxnorm.streams.writing import open_writer

    for file in files.values():
        open_writer(file)


def _model(path: Path | None, settings: Settings, stream: Stream) -> Any:
    """Return the model of a file, or one that is learnt now."""
    from maxnorm import load

    if path is not None:
        return load(path)
    if not stream.repeatable:
        raise click.ClickException(
            f"{stream.title} can be read once only, but learning and reading are two passes: give --model, "
            "or save it as a file"
        )
    model = settings.model()
    with (
        progress_bar("learning", stream.n_samples or stream.n_expected) as (bar, task),
        interruptible("stopped; nothing was written"),
    ):
        begin = time.monotonic()

        def tick(model: Any) -> None:
            rate = model.n_samples_seen_ / max(time.monotonic() - begin, 1e-9)
            bar.update(task, completed=model.n_samples_seen_, rate=f"{rate:,.0f}/s")

        return model.fit(stream, callback=tick)


def _written(
    stream: Stream, files: Mapping[str, Path], names: Mapping[str, Any], results: Results
) -> dict[str, Any]:
    """Write results piece by piece, and return a summary."""
    from sklearn.exceptions import ConvergenceWarning

    from maxnorm.streams.writing import open_writer

    rows, unfinished, begin = 0, 0, time.monotonic()
    with ExitStack() as stack:
        writers = {name: stack.enter_context(open_writer(file, names[name])) for name, file in files.items()}
        bar, task = stack.enter_context(progress_bar("writing", stream.n_samples or stream.n_expected))
        stack.enter_context(interruptible("stopped; nothing was written"))
        for batch in stream.ahead():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                found = results(stream.piece(batch, rows))
            unfinished += any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
            for name, array in found.items():
                writers[name].write(array)
            rows += batch.shape[0]
            rate = rows / max(time.monotonic() - begin, 1e-9)
            bar.update(task, completed=rows, rate=f"{rate:,.0f}/s")
        if not rows:
            raise ValueError(f"{stream.title}: has no samples")
    if unfinished:
        say("some samples did not reach the tolerance: their coefficients are approximate")
    seconds = round(time.monotonic() - begin, 3)
    return {"samples": rows, "seconds": seconds, **{name: str(file) for name, file in files.items()}}
