"""Steps shared by ``decompose`` and ``complete``: load or fit a model, and write its results to files."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from maxnorm.cli.errors import report_interruption
from maxnorm.cli.options import DataOptions, ModelOptions, describe_model
from maxnorm.cli.output import print_detail, print_message
from maxnorm.cli.progress import show_row_progress

if TYPE_CHECKING:
    from maxnorm.core.types import Array
    from maxnorm.streams import Stream

NOTHING_WRITTEN = "no results were written"

Compute = Callable[["Stream"], Mapping[str, "Array"]]
"""A function that computes the results for one batch, given as a stream; they are keyed by name."""


class ResultFile(NamedTuple):
    """A file to which one result is written, and the names of its columns (None for unnamed columns)."""

    path: Path
    columns: Sequence[str] | None


def check_result_formats(paths: Iterable[Path]) -> None:
    """Raise an error before any work is done, if a file name has no suffix of a known format."""
    from maxnorm.streams.writing import open_writer

    for path in paths:
        open_writer(path)


def load_or_fit_model(path: Path | None, options: ModelOptions, data: DataOptions) -> tuple[Any, Stream]:
    """Return the model saved in ``path`` or, if that is None, a model fitted to the data; and the data."""
    from maxnorm import load

    if path is not None:
        model = load(path)
        print_detail(f"loaded {path}: {describe_model(model)}")
        return model, data.open_stream(model)
    stream = data.open_stream()
    if not stream.repeatable:
        raise click.ClickException(
            f"{stream.title} can be read only once, but it must be read a second time after fitting: "
            "save it as a file, or give --model"
        )
    model = options.make_estimator().set_params(n_epochs=options.epochs)
    with (
        show_row_progress("fitting", stream.n_samples or stream.n_expected) as progress,
        report_interruption(NOTHING_WRITTEN),
    ):
        model.fit(stream, callback=lambda _: progress.update(model.n_samples_seen_))
    print_detail(f"fitted {describe_model(model)}")
    return model, stream


def write_results(stream: Stream, files: Mapping[str, ResultFile], compute: Compute) -> dict[str, Any]:
    """Compute and write results batch by batch, and return a summary.

    Every result is written to a temporary file, which is renamed when it is complete.
    """
    from sklearn.exceptions import ConvergenceWarning

    from maxnorm.streams.writing import open_writer

    n_rows, converged, start = 0, True, time.monotonic()
    with ExitStack() as stack:
        writers = {name: stack.enter_context(open_writer(*file)) for name, file in files.items()}
        progress = stack.enter_context(show_row_progress("writing", stream.n_samples or stream.n_expected))
        stack.enter_context(report_interruption(NOTHING_WRITTEN))
        for batch in stream.ahead():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                results = compute(stream.piece(batch, n_rows))
            converged &= not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
            for name, array in results.items():
                writers[name].write(array)
            n_rows += batch.shape[0]
            progress.update(n_rows)
        if not n_rows:
            raise ValueError(f"{stream.title} has no samples")
    if not converged:
        print_message("warning: the solver did not converge for some samples; their results are approximate")
    seconds = round(time.monotonic() - start, 3)
    print_detail(f"wrote the results of {n_rows:,} samples")
    return {"samples": n_rows, "seconds": seconds, **{name: str(file.path) for name, file in files.items()}}
