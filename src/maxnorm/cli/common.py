"""What the commands share: options about data and models, progress, and errors in one line."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from rich.progress import Progress

    from maxnorm.streams import Stream

Command = Callable[..., Any]
INTERRUPTED = 130

ESTIMATORS = {
    "decomposition": "MaxNormDecomposition",
    "robust-pca": "OnlineRobustPCA",
    "completion": "MaxNormCompletion",
}


def number_or_auto(value: str) -> float | str:
    """Return a number, or "auto"."""
    try:
        return value if value == "auto" else float(value)
    except ValueError:
        raise ValueError(f"{value!r} is neither a number nor 'auto'") from None


def rank_or_auto(value: str) -> int | str:
    """Return a number of components, or "auto"."""
    if value != "auto" and not (value.isdecimal() and int(value)):
        raise ValueError(f"{value!r} is neither an integer of at least 1 nor 'auto'")
    return value if value == "auto" else int(value)


def data_options(command: Command) -> Command:
    """Add DATA and the options that say how to read it."""
    for decorate in (
        click.option("--transpose", is_flag=True, help="Samples are columns."),
        click.option(
            "--header/--no-header", default=None, help="The first line names the columns; without this, look."
        ),
        click.option("--key", help="Which array, in files that hold several."),
        click.option(
            "--columns",
            help="Features to take: names or positions with commas, or a range such as 1:20 or 1:.",
        ),
        click.argument("data"),
    ):
        command = decorate(command)
    return command


def model_options(command: Command) -> Command:
    """Add the parameters of a model."""
    for decorate in (
        click.option("--seed", type=int, default=0, show_default=True, help="Of the random first basis."),
        click.option(
            "--half-life", type=float, help="For streams that drift: samples until half is forgotten."
        ),
        click.option(
            "--epochs", type=click.IntRange(1), default=1, show_default=True, help="Passes over DATA."
        ),
        click.option(
            "--lambda2", type=number_or_auto, metavar="NUMBER", default="auto", help="Weight of the noise."
        ),
        click.option(
            "--lambda1", type=number_or_auto, metavar="NUMBER", default="auto", help="Weight of the norm."
        ),
        click.option(
            "--noise-model",
            "noise",
            type=click.Choice(["capped", "l1", "l21", "squared", "none"]),
            help="What is unusual: entries (capped, l1), whole samples (l21), nothing.",
        ),
        click.option(
            "--biases", is_flag=True, help="Completion: means of rows and columns first, for ratings."
        ),
        click.option(
            "--rank",
            type=rank_or_auto,
            metavar="INTEGER",
            help='Number of components, or "auto" to choose it.',
        ),
    ):
        command = decorate(command)
    return command


def estimator_option(*names: str) -> Callable[[Command], Command]:
    """Add the choice between estimators."""
    return click.option(
        "--estimator",
        type=click.Choice(names),
        default="decomposition",
        show_default=True,
        help="Decomposition by the max-norm, robust PCA by the nuclear norm"
        + (", or completion of missing entries." if "completion" in names else "."),
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")


class Settings(NamedTuple):
    """A model's parameters as given on the command line."""

    estimator: str
    rank: int | str | None
    biases: bool
    noise: str | None
    lambda1: float | str
    lambda2: float | str
    epochs: int
    half_life: float | None
    seed: int

    def model(self) -> Any:
        """Return the estimator, not fitted yet."""
        import maxnorm

        given: dict[str, Any] = {"noise": self.noise} if self.noise else {}
        if self.estimator == "completion":
            given["biases"] = self.biases
        elif self.biases:
            raise click.UsageError("--biases is for completion only")
        return getattr(maxnorm, ESTIMATORS[self.estimator])(
            self.rank,
            lambda1=self.lambda1,
            lambda2=self.lambda2,
            n_epochs=self.epochs,
            half_life=self.half_life,
            random_state=self.seed,
            **given,
        )


class Source(NamedTuple):
    """DATA and how to read it, as given on the command line."""

    data: str
    columns: str | None
    key: str | None
    transpose: bool
    header: bool | None


def open_data(source: Source) -> Stream:
    """Open DATA, and say what was decided about it."""
    from maxnorm import open_stream

    chosen: Any = None
    if source.columns is not None:
        first, colon, last = source.columns.partition(":")
        if colon and all(part.lstrip("-").isdigit() or not part for part in (first, last)):
            chosen = slice(int(first) if first else None, int(last) if last else None)
        else:
            chosen = [name.strip() for name in source.columns.split(",")]
    stream = open_stream(
        source.data, columns=chosen, key=source.key, transpose=source.transpose, header=source.header
    )
    for remark in stream.remarks:
        say(remark)
    return stream


def say(message: str) -> None:
    """Print a remark where it does not get into results."""
    click.echo(message, err=True)


def show(summary: dict[str, Any], as_json: bool) -> None:
    """Print a summary for people or for scripts."""
    if as_json:
        click.echo(json.dumps(_finite(summary), indent=2, allow_nan=False, default=str))
        return
    width = max(map(len, summary))
    for name, value in summary.items():
        if isinstance(value, float):
            value = f"{value:,.6g}"
        elif isinstance(value, int) and not isinstance(value, bool):
            value = f"{value:,}"
        click.echo(f"{name:{width}}  {value}")


def _finite(value: Any) -> Any:
    """Return the same with null for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what may go wrong with data, models and disks into one clear line."""
    from sklearn.exceptions import NotFittedError

    try:
        yield
    except (ValueError, TypeError, ImportError, NotFittedError) as error:
        raise click.ClickException(str(error)) from error
    except MemoryError as error:
        raise click.ClickException(f"not enough memory: {error}; try a smaller --rank") from error
    except BrokenPipeError:  # whoever reads has heard enough
        raise
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{place}{error.strerror or error}") from error


@contextmanager
def progress_bar(title: str, total: int | None) -> Iterator[tuple[Progress, Any]]:
    """Show rows, rate and time left, on standard error and only to people."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        yield bar, bar.add_task(title, total=total, rate="", note="")


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Let Ctrl-C end the command in one line."""
    try:
        yield
    except KeyboardInterrupt:
        say(message)
        raise click.exceptions.Exit(INTERRUPTED) from None


def writable(path: Path) -> Path:
    """Return a path that a file can be written to, or say why not before any work is done."""
    if not path.parent.is_dir():
        raise click.ClickException(f"cannot write {path}: {path.parent} is not a folder")
    if path.is_dir():
        raise click.ClickException(f"cannot write {path}: it is a folder")
    if not os.access(path.parent, os.W_OK):
        raise click.ClickException(f"cannot write {path}: {path.parent} is read-only")
    return path


def all_different(**files: Path | str | None) -> None:
    """Make sure that no file is written over another."""
    seen: dict[Path, str] = {}
    for name, file in files.items():
        if file is None or file == "-":
            continue
        place = Path(file).resolve()
        if place in seen:
            raise click.UsageError(f"{seen[place]} and {name} are the same file, {file}")
        seen[place] = name


def none_given(names: Iterable[str], why: str) -> None:
    """Make sure that options that would have no effect are not given."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} has no effect {why}")
